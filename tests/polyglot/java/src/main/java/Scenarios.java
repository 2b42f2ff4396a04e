import static java.nio.charset.StandardCharsets.UTF_8;
import static java.util.concurrent.TimeUnit.MILLISECONDS;
import static java.util.concurrent.TimeUnit.SECONDS;

import com.google.protobuf.ByteString;
import com.google.protobuf.Duration;
import com.google.rpc.ErrorInfo;
import io.grpc.Context;
import io.grpc.Context.CancellableContext;
import io.grpc.ManagedChannel;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.Future;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import semel.v1.AcquireRetryTokenRequest;
import semel.v1.AcquireRetryTokenResponse;
import semel.v1.BreakerCondition;
import semel.v1.BreakerOverride;
import semel.v1.BreakerSnapshot;
import semel.v1.BreakersGrpc;
import semel.v1.ClaimKeyRequest;
import semel.v1.ClaimKeyResponse;
import semel.v1.ClaimKeyResponse.Disposition;
import semel.v1.ClaimKeyResult;
import semel.v1.ClaimKeysRequest;
import semel.v1.CompleteKeyRequest;
import semel.v1.CompleteKeyResponse;
import semel.v1.CompleteKeyResult;
import semel.v1.CompleteKeysRequest;
import semel.v1.Deposits;
import semel.v1.Failure;
import semel.v1.FailureKind;
import semel.v1.KeyState;
import semel.v1.KeysGrpc;
import semel.v1.MetadataEntry;
import semel.v1.OnOwnerLost;
import semel.v1.Outcome;
import semel.v1.OverrideBreakerRequest;
import semel.v1.ReplayKeyRequest;
import semel.v1.Response;
import semel.v1.RetriesGrpc;
import semel.v1.RetryVerdict;
import semel.v1.WatchBreakersRequest;
import semel.v1.WatchBreakersResponse;

/** The scenarios of ../scenarios.md. */
final class Scenarios {
  private static final Response ANSWER = answer();

  private final KeysGrpc.KeysBlockingStub keys;
  private final KeysGrpc.KeysFutureStub keysLater;
  private final RetriesGrpc.RetriesBlockingStub retries;
  private final BreakersGrpc.BreakersBlockingStub breakers;

  private Scenarios(ManagedChannel channel) {
    keys = KeysGrpc.newBlockingStub(channel);
    keysLater = KeysGrpc.newFutureStub(channel);
    retries = RetriesGrpc.newBlockingStub(channel);
    breakers = BreakersGrpc.newBlockingStub(channel);
  }

  /** One of them: returns what it found, or throws what is wrong. */
  private interface Scenario {
    String run(Map<String, String> with) throws Exception;
  }

  /** A scenario that finds nothing to tell. */
  private interface Check {
    void run() throws Exception;
  }

  private static Scenario check(Check check) {
    return with -> {
      check.run();
      return "";
    };
  }

  public static void main(String[] arguments) {
    ManagedChannel channel = Example.connect(arguments[0]);
    Scenarios scenarios = new Scenarios(channel);
    Map<String, Scenario> chosen = scenarios.all();
    Map<String, String> with = new LinkedHashMap<>();
    if (arguments.length > 2 && arguments[1].equals("--scenario")) {
      chosen.putAll(scenarios.parts());
      chosen.keySet().retainAll(List.of(arguments[2]));
      for (String parameter : Arrays.asList(arguments).subList(3, arguments.length)) {
        String[] halves = parameter.split("=", 2);
        with.put(halves[0], halves[1]);
      }
    }
    boolean failed = chosen.isEmpty();
    for (Map.Entry<String, Scenario> one : chosen.entrySet()) {
      failed |= !passed(one.getKey(), one.getValue(), with);
    }
    channel.shutdownNow();
    System.exit(failed ? 1 : 0);
  }

  private static boolean passed(String name, Scenario scenario, Map<String, String> with) {
    try {
      System.out.println(("ok " + name + " " + scenario.run(with)).strip());
      return true;
    } catch (Exception | AssertionError why) {
      System.out.println("FAILED " + name + ": " + why.toString().replaceAll("\\s+", " "));
      return false;
    }
  }

  private Map<String, Scenario> all() {
    Map<String, Scenario> all = new LinkedHashMap<>();
    all.put("claim", check(this::claim));
    all.put("replay", check(this::replay));
    all.put("repeat", check(this::repeat));
    all.put("wait", check(this::waitForAnother));
    all.put("mismatch", check(this::mismatch));
    all.put("fencing", check(this::fencing));
    all.put("batch", check(this::batch));
    all.put("retry-token", check(this::retryToken));
    all.put("breaker-watch", check(this::breakerWatch));
    all.put("deadline", check(this::deadline));
    return all;
  }

  private Map<String, Scenario> parts() {
    return Map.of(
        "hand-over-claim", this::handOverClaim,
        "hand-over-complete", this::handOverComplete,
        "hand-over-replay", this::handOverReplay,
        "lost-reply", this::lostReply);
  }

  private static Response answer() {
    byte[] body = new byte[256];
    for (int number = 0; number < body.length; number++) {
      body[number] = (byte) number;
    }
    return Response.newBuilder()
        .setStatus(402)
        .setContentType("application/octet-stream")
        .addMetadata(MetadataEntry.newBuilder().setName("x-trace").setValue("first"))
        .addMetadata(MetadataEntry.newBuilder().setName("x-trace").setValue("zweites Stück"))
        .setBody(ByteString.copyFrom(body))
        .build();
  }

  private static ClaimKeyRequest.Builder claimOf(String key, ByteString owner) {
    return ClaimKeyRequest.newBuilder()
        .setTenant("acme").setOperation("payments.charge").setKey(key).setOwnerId(owner)
        .addFingerprints(Example.fingerprint("payments.charge", "42.00 €"));
  }

  private static CompleteKeyRequest completionOf(String key, ByteString owner, long fence) {
    return CompleteKeyRequest.newBuilder()
        .setTenant("acme").setOperation("payments.charge").setKey(key).setOwnerId(owner)
        .setFence(fence).setOutcome(Outcome.OUTCOME_SUCCEEDED).setResponse(ANSWER).build();
  }

  private ClaimKeyResponse claimKey(ClaimKeyRequest.Builder claim) {
    return keys.withDeadlineAfter(30, SECONDS).claimKey(claim.build());
  }

  private CompleteKeyResponse completeKey(String key, ByteString owner, long fence) {
    return keys.withDeadlineAfter(30, SECONDS).completeKey(completionOf(key, owner, fence));
  }

  private Response replayKey(String key) {
    ReplayKeyRequest request = ReplayKeyRequest.newBuilder()
        .setTenant("acme").setOperation("payments.charge").setKey(key)
        .addAllFingerprints(claimOf(key, ByteString.EMPTY).getFingerprintsList()).build();
    return keys.withDeadlineAfter(30, SECONDS).replayKey(request).getCompletion().getResponse();
  }

  private static String newName() {
    return UUID.randomUUID().toString();
  }

  private static Duration seconds(long seconds) {
    return Duration.newBuilder().setSeconds(seconds).build();
  }

  private static void equal(Object found, Object expected) {
    holds(Objects.equals(found, expected), found + " instead of " + expected);
  }

  private static void holds(boolean condition, String otherwise) {
    if (!condition) {
      throw new AssertionError(otherwise);
    }
  }

  private static StatusRuntimeException refusal(Callable<?> call) throws Exception {
    try {
      throw new AssertionError("accepted: " + call.call());
    } catch (StatusRuntimeException refused) {
      return refused;
    }
  }

  private static void isRefused(Callable<?> call, String reason) throws Exception {
    StatusRuntimeException refused = refusal(call);
    equal(refused.getStatus().getCode(), Status.Code.FAILED_PRECONDITION);
    ErrorInfo info = Example.errorInfo(refused);
    equal(info.getReason(), reason);
    equal(info.getDomain(), "semel.v1");
  }

  private void claim() {
    String key = newName();
    AtomicInteger charged = new AtomicInteger();
    for (int time = 0; time < 2; time++) {
      equal(Example.once(keys, "payments.charge", key, "42.00 €", () -> {
        charged.incrementAndGet();
        return ANSWER;
      }), ANSWER);
    }
    equal(charged.get(), 1);
  }

  private void replay() {
    String key = newName();
    ByteString owner = Example.newOwnerId();
    ClaimKeyResponse claimed = claimKey(claimOf(key, owner));
    equal(claimed.getDisposition(), Disposition.CLAIMED);
    CompleteKeyResponse completed = completeKey(key, owner, claimed.getFence());
    equal(completed.getState(), KeyState.KEY_STATE_SUCCEEDED);
    ClaimKeyResponse again = claimKey(claimOf(key, Example.newOwnerId()));
    equal(again.getDisposition(), Disposition.REPLAY);
    equal(again.getCompletion().getResponse(), ANSWER);
    equal(replayKey(key), ANSWER);
  }

  private void repeat() {
    String key = newName();
    ByteString owner = Example.newOwnerId();
    ClaimKeyResponse first = claimKey(claimOf(key, owner));
    ClaimKeyResponse second = claimKey(claimOf(key, owner));
    equal(List.of(first.getResumed(), second.getResumed()), List.of(false, true));
    equal(second.getFence(), first.getFence());
    equal(completeKey(key, owner, first.getFence()).getAlreadyCompleted(), false);
    equal(completeKey(key, owner, first.getFence()).getAlreadyCompleted(), true);
  }

  private void waitForAnother() throws Exception {
    String key = newName();
    ByteString owner = Example.newOwnerId();
    long fence = claimKey(claimOf(key, owner)).getFence();
    ClaimKeyRequest.Builder waits = claimOf(key, Example.newOwnerId()).setWait(seconds(20));
    Future<ClaimKeyResponse> waiting =
        keysLater.withDeadlineAfter(30, SECONDS).claimKey(waits.build());
    try {
      throw new AssertionError("it did not wait: " + waiting.get(300, MILLISECONDS));
    } catch (TimeoutException itWaits) {
      completeKey(key, owner, fence);
    }
    equal(waiting.get(5, SECONDS).getCompletion().getResponse(), ANSWER);
  }

  private void mismatch() throws Exception {
    String key = newName();
    claimKey(claimOf(key, Example.newOwnerId()));
    ClaimKeyRequest.Builder other = claimOf(key, Example.newOwnerId())
        .setFingerprints(0, Example.fingerprint("payments.charge", "43.00 €"));
    isRefused(() -> claimKey(other), "KEY_PAYLOAD_MISMATCH");
  }

  private void fencing() throws Exception {
    String key = newName();
    ByteString late = Example.newOwnerId();
    ByteString owner = Example.newOwnerId();
    ClaimKeyResponse lost = claimKey(claimOf(key, late)
        .setLease(Duration.newBuilder().setNanos(100_000_000))
        .setOnOwnerLost(OnOwnerLost.ON_OWNER_LOST_TAKE_OVER));
    ClaimKeyResponse taken = claimKey(claimOf(key, owner).setWait(seconds(20)));
    equal(taken.getDisposition(), Disposition.TAKEN_OVER);
    holds(taken.getFence() > lost.getFence(), taken.getFence() + " after " + lost.getFence());
    isRefused(() -> completeKey(key, late, lost.getFence()), "FENCED");
    equal(completeKey(key, owner, taken.getFence()).getState(), KeyState.KEY_STATE_SUCCEEDED);
  }

  private void batch() {
    String one = newName();
    String two = newName();
    ByteString owner = Example.newOwnerId();
    List<ClaimKeyResult> claimed = keys.withDeadlineAfter(30, SECONDS).claimKeys(
        ClaimKeysRequest.newBuilder()
            .addClaims(claimOf(one, owner))
            .addClaims(claimOf(two, owner))
            .addClaims(claimOf(one, Example.newOwnerId()))
            .addClaims(claimOf("", owner))
            .build()).getResultsList();
    equal(claimed.get(0).getResponse().getDisposition(), Disposition.CLAIMED);
    equal(claimed.get(1).getResponse().getDisposition(), Disposition.CLAIMED);
    equal(claimed.get(2).getResponse().getDisposition(), Disposition.IN_PROGRESS);
    equal(Example.errorInfo(claimed.get(3).getError().getDetailsList()).getReason(), "KEY_INVALID");

    long fence = claimed.get(1).getResponse().getFence();
    List<CompleteKeyResult> completed = keys.withDeadlineAfter(30, SECONDS).completeKeys(
        CompleteKeysRequest.newBuilder()
            .addCompletions(completionOf(one, owner, claimed.get(0).getResponse().getFence()))
            .addCompletions(completionOf(two, owner, fence + 1))
            .addCompletions(completionOf(two, owner, fence))
            .build()).getResultsList();
    equal(completed.get(0).getResponse().getState(), KeyState.KEY_STATE_SUCCEEDED);
    equal(Example.errorInfo(completed.get(1).getError().getDetailsList()).getReason(), "FENCED");
    equal(completed.get(2).getResponse().getState(), KeyState.KEY_STATE_SUCCEEDED);
  }

  private void retryToken() {
    String dependency = "bank-" + newName();
    AcquireRetryTokenResponse granted = ask(
        AcquireRetryTokenRequest.newBuilder().setDependency(dependency).setRepeatable(true)
            .setDeposits(Deposits.newBuilder()
                .setReporter(Example.newOwnerId()).setSeq(1).setRequests(100)),
        FailureKind.FAILURE_KIND_UNKNOWN_OUTCOME);
    equal(granted.getVerdict(), RetryVerdict.RETRY_VERDICT_GRANTED);
    equal(granted.getToken().size(), 16);
    equal(granted.getDepositsCounted(), true);
    AcquireRetryTokenResponse unsafe = ask(
        AcquireRetryTokenRequest.newBuilder().setDependency(dependency),
        FailureKind.FAILURE_KIND_UNKNOWN_OUTCOME);
    equal(unsafe.getVerdict(), RetryVerdict.RETRY_VERDICT_UNSAFE);
    AcquireRetryTokenResponse rejected = ask(
        AcquireRetryTokenRequest.newBuilder().setDependency(dependency).setRepeatable(true),
        FailureKind.FAILURE_KIND_REJECTED);
    equal(rejected.getVerdict(), RetryVerdict.RETRY_VERDICT_NOT_RETRYABLE);
  }

  private AcquireRetryTokenResponse ask(AcquireRetryTokenRequest.Builder question, FailureKind kind) {
    return retries.withDeadlineAfter(30, SECONDS).acquireRetryToken(
        question.setTenant("acme").setRequestId(Example.newOwnerId()).setAttempt(1)
            .setFailure(Failure.newBuilder().setKind(kind)).build());
  }

  private void breakerWatch() throws Exception {
    String dependency = "bank-" + newName();
    WatchBreakersRequest request = WatchBreakersRequest.newBuilder()
        .setTenant("acme").addDependencies(dependency).build();
    CancellableContext watching = Context.current().withCancellation();
    try {
      Iterator<WatchBreakersResponse> watched = watching.call(
          () -> breakers.withDeadlineAfter(30, SECONDS).watchBreakers(request));
      BreakerSnapshot first = watched.next().getBreaker();
      equal(first.getCondition(), BreakerCondition.BREAKER_CONDITION_CLOSED);
      force(dependency, BreakerOverride.BREAKER_OVERRIDE_FORCED_OPEN);
      BreakerSnapshot told = watched.next().getBreaker();
      equal(told.getCondition(), BreakerCondition.BREAKER_CONDITION_OPEN);
      equal(told.getOverride().getKind(), BreakerOverride.BREAKER_OVERRIDE_FORCED_OPEN);
      force(dependency, BreakerOverride.BREAKER_OVERRIDE_RESET);
      BreakerSnapshot last = watched.next().getBreaker();
      equal(last.getCondition(), BreakerCondition.BREAKER_CONDITION_CLOSED);
    } finally {
      watching.cancel(null);
    }
  }

  private void force(String dependency, BreakerOverride override) {
    breakers.withDeadlineAfter(30, SECONDS).overrideBreaker(
        OverrideBreakerRequest.newBuilder()
            .setTenant("acme").setDependency(dependency).setOverride(override)
            .setActor("tests").setReason("their maintenance").build());
  }

  private void deadline() {
    String key = newName();
    claimKey(claimOf(key, Example.newOwnerId()));
    ClaimKeyRequest waits = claimOf(key, Example.newOwnerId()).setWait(seconds(20)).build();
    long began = System.nanoTime();
    try {
      Disposition answered = keys.withDeadlineAfter(1, SECONDS).claimKey(waits).getDisposition();
      equal(answered, Disposition.IN_PROGRESS);
    } catch (StatusRuntimeException error) {
      equal(error.getStatus().getCode(), Status.Code.DEADLINE_EXCEEDED);
    }
    long tookMs = (System.nanoTime() - began) / 1_000_000;
    holds(tookMs > 500 && tookMs < 5_000, "it took " + tookMs + " ms");
  }

  private String handOverClaim(Map<String, String> with) {
    ByteString owner = Example.newOwnerId();
    String fence = Long.toUnsignedString(claimKey(claimOf(with.get("key"), owner)).getFence());
    return "fence=" + fence + " owner=" + hex(owner);
  }

  private String handOverComplete(Map<String, String> with) {
    ByteString owner = ByteString.copyFrom(HexFormat.of().parseHex(with.get("owner")));
    completeKey(with.get("key"), owner, Long.parseUnsignedLong(with.get("fence")));
    return "";
  }

  private String handOverReplay(Map<String, String> with) {
    Response answer = replayKey(with.get("key"));
    Stream<String> entries = answer.getMetadataList().stream()
        .map(entry -> hex(ByteString.copyFrom(entry.getName() + ":" + entry.getValue(), UTF_8)));
    return "status=" + answer.getStatus()
        + " type=" + hex(answer.getContentTypeBytes())
        + " metadata=" + entries.collect(Collectors.joining(","))
        + " body=" + hex(answer.getBody());
  }

  private String lostReply(Map<String, String> with) throws Exception {
    String key = with.get("key");
    equal(Example.errorInfo(refusal(() -> replayKey(key))).getReason(), "KEY_UNKNOWN");
    System.out.println("ready");
    holds(System.in.read() >= 0, "nobody says to go on");
    equal(claimKey(claimOf(key, Example.newOwnerId())).getResumed(), true);
    return "";
  }

  private static String hex(ByteString bytes) {
    return HexFormat.of().formatHex(bytes.toByteArray());
  }
}
