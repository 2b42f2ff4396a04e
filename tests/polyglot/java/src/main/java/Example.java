import static java.nio.charset.StandardCharsets.UTF_8;
import static java.util.concurrent.TimeUnit.SECONDS;

import com.google.protobuf.Any;
import com.google.protobuf.ByteString;
import com.google.protobuf.Duration;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.rpc.ErrorInfo;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import java.io.ByteArrayOutputStream;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.security.SecureRandom;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import semel.v1.ClaimKeyRequest;
import semel.v1.ClaimKeyResponse;
import semel.v1.CompleteKeyRequest;
import semel.v1.Fingerprint;
import semel.v1.KeysGrpc.KeysBlockingStub;
import semel.v1.Outcome;
import semel.v1.Response;

/** How a service in Java does a write once. */
final class Example {
  private static final SecureRandom RANDOM = new SecureRandom();

  // After UNAVAILABLE the library sends the same request again. Its ids are the same, so a claim or a
  // completion whose reply was lost is recognised.
  private static final Map<String, ?> REPEAT = Map.of("methodConfig", List.of(Map.of(
      "name", List.of(Map.of("service", "semel.v1.Keys")),
      "retryPolicy", Map.of(
          "maxAttempts", 5.0,
          "initialBackoff", "0.1s",
          "maxBackoff", "2s",
          "backoffMultiplier", 2.0,
          "retryableStatusCodes", List.of("UNAVAILABLE")))));

  static ManagedChannel connect(String address) {
    return Grpc.newChannelBuilder(address, InsecureChannelCredentials.create())
        .defaultServiceConfig(REPEAT).enableRetry().build();
  }

  static ByteString newOwnerId() {
    byte[] bytes = new byte[16];
    RANDOM.nextBytes(bytes);
    return ByteString.copyFrom(bytes);
  }

  /** What a key stands for: each part framed by its length, so that no two lists look the same. */
  static Fingerprint fingerprint(String... parts) {
    ByteArrayOutputStream framed = new ByteArrayOutputStream();
    for (String part : parts) {
      byte[] bytes = part.getBytes(UTF_8);
      framed.writeBytes(((framed.size() == 0 ? "" : ",") + bytes.length + ":").getBytes(UTF_8));
      framed.writeBytes(bytes);
    }
    try {
      byte[] digest = MessageDigest.getInstance("SHA-256").digest(framed.toByteArray());
      return Fingerprint.newBuilder()
          .setAlgorithm("sha256/v1").setDigest(ByteString.copyFrom(digest)).build();
    } catch (GeneralSecurityException missing) {
      throw new IllegalStateException(missing); // Every Java has SHA-256.
    }
  }

  /** Does the work of a key, or returns the answer of whoever did it. */
  static Response once(
      KeysBlockingStub keys, String operation, String key, String payload, Supplier<Response> work) {
    ByteString ownerId = newOwnerId(); // One for each execution.
    ClaimKeyResponse claim = keys.withDeadlineAfter(15, SECONDS).claimKey(
        ClaimKeyRequest.newBuilder()
            .setTenant("acme").setOperation(operation).setKey(key)
            .addFingerprints(fingerprint(operation, payload))
            .setOwnerId(ownerId)
            .setWait(Duration.newBuilder().setSeconds(10))
            .build());
    switch (claim.getDisposition()) {
      case REPLAY:
        return claim.getCompletion().getResponse();
      case CLAIMED:
        break;
      default: // Busy for longer than we wait, or lost: look what the last owner did, or ask later.
        throw new IllegalStateException(claim.getDisposition().name());
    }
    Response response = work.get();
    keys.withDeadlineAfter(15, SECONDS).completeKey(
        CompleteKeyRequest.newBuilder()
            .setTenant("acme").setOperation(operation).setKey(key)
            .setFence(claim.getFence()).setOwnerId(ownerId)
            .setOutcome(Outcome.OUTCOME_SUCCEEDED).setResponse(response)
            .build());
    return response;
  }

  /** Why a call failed: its reason is stable. Empty if nothing says so. */
  static ErrorInfo errorInfo(StatusRuntimeException error) {
    return errorInfo(StatusProto.fromThrowable(error).getDetailsList());
  }

  static ErrorInfo errorInfo(List<Any> details) {
    try {
      for (Any detail : details) {
        if (detail.is(ErrorInfo.class)) {
          return detail.unpack(ErrorInfo.class);
        }
      }
    } catch (InvalidProtocolBufferException malformed) {
      throw new IllegalStateException(malformed);
    }
    return ErrorInfo.getDefaultInstance();
  }

  private Example() {}
}
