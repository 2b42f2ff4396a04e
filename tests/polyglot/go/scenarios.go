// The scenarios of ../scenarios.md.

package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	semel "scenarios/semelv1"
)

// Each says with a panic what is wrong, as a test would.
var scenarios = []scenario{
	{"claim", claim},
	{"replay", replay},
	{"repeat", repeated},
	{"wait", wait},
	{"mismatch", mismatch},
	{"fencing", fencing},
	{"batch", batch},
	{"retry-token", retryToken},
	{"breaker-watch", breakerWatch},
	{"deadline", deadline},
}

var parts = []scenario{
	{"hand-over-claim", handOverClaim},
	{"hand-over-complete", handOverComplete},
	{"hand-over-replay", handOverReplay},
	{"lost-reply", lostReply},
}

type scenario struct {
	name string
	run  func(ctx context.Context, with map[string]string) string
}

var (
	keys     semel.KeysClient
	retries  semel.RetriesClient
	breakers semel.BreakersClient
)

func main() {
	connection := must(connect(os.Args[1]))
	keys = semel.NewKeysClient(connection)
	retries = semel.NewRetriesClient(connection)
	breakers = semel.NewBreakersClient(connection)

	chosen, with := scenarios, map[string]string{}
	if len(os.Args) > 3 && os.Args[2] == "--scenario" {
		chosen = nil
		for _, one := range append(scenarios, parts...) {
			if one.name == os.Args[3] {
				chosen = []scenario{one}
			}
		}
		for _, parameter := range os.Args[4:] {
			name, value, _ := strings.Cut(parameter, "=")
			with[name] = value
		}
	}
	failed := len(chosen) == 0
	for _, one := range chosen {
		failed = !one.passed(with) || failed
	}
	if failed {
		os.Exit(1)
	}
}

func (one scenario) passed(with map[string]string) (passed bool) {
	defer func() {
		if why := recover(); why != nil {
			line := strings.Join(strings.Fields(fmt.Sprint(why)), " ")
			fmt.Printf("FAILED %s: %s\n", one.name, line)
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	fmt.Println(strings.TrimSpace("ok " + one.name + " " + one.run(ctx, with)))
	return true
}

func answer() *semel.Response {
	body := make([]byte, 256)
	for number := range body {
		body[number] = byte(number)
	}
	return &semel.Response{
		Status:      402,
		ContentType: "application/octet-stream",
		Metadata: []*semel.MetadataEntry{
			{Name: "x-trace", Value: "first"},
			{Name: "x-trace", Value: "zweites Stück"},
		},
		Content: &semel.Response_Body{Body: body},
	}
}

func claimOf(key string, owner []byte) *semel.ClaimKeyRequest {
	return &semel.ClaimKeyRequest{
		Tenant: "acme", Operation: "payments.charge", Key: key, OwnerId: owner,
		Fingerprints: []*semel.Fingerprint{fingerprint("payments.charge", "42.00 €")},
	}
}

func completionOf(key string, owner []byte, fence uint64) *semel.CompleteKeyRequest {
	return &semel.CompleteKeyRequest{
		Tenant: "acme", Operation: "payments.charge", Key: key, OwnerId: owner, Fence: fence,
		Outcome: semel.Outcome_OUTCOME_SUCCEEDED, Response: answer(),
	}
}

func claimKey(ctx context.Context, request *semel.ClaimKeyRequest) *semel.ClaimKeyResponse {
	return must(keys.ClaimKey(ctx, request))
}

func completeKey(ctx context.Context, key string, owner []byte, fence uint64) *semel.CompleteKeyResponse {
	return must(keys.CompleteKey(ctx, completionOf(key, owner, fence)))
}

func replayOf(key string) *semel.ReplayKeyRequest {
	return &semel.ReplayKeyRequest{
		Tenant: "acme", Operation: "payments.charge", Key: key,
		Fingerprints: claimOf(key, nil).Fingerprints,
	}
}

func random() []byte {
	bytes := make([]byte, 16)
	rand.Read(bytes)
	return bytes
}

func newName() string {
	return rand.Text()
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func equal[T comparable](found, expected T) {
	if found != expected {
		panic(fmt.Sprintf("%v instead of %v", found, expected))
	}
}

func isAnswer(found *semel.Response) {
	if !proto.Equal(found, answer()) {
		panic(fmt.Sprintf("%v is not the answer", found))
	}
}

func refusedWith(err error, reason string) {
	equal(status.Code(err), codes.FailedPrecondition)
	info := errorInfo(status.Convert(err))
	equal(info.Reason, reason)
	equal(info.Domain, "semel.v1")
}

func claim(ctx context.Context, _ map[string]string) string {
	key, charged := newName(), 0
	work := func() *semel.Response {
		charged++
		return answer()
	}
	for range 2 {
		isAnswer(must(once(ctx, keys, "payments.charge", key, "42.00 €", work)))
	}
	equal(charged, 1)
	return ""
}

func replay(ctx context.Context, _ map[string]string) string {
	key, owner := newName(), random()
	claimed := claimKey(ctx, claimOf(key, owner))
	equal(claimed.Disposition, semel.ClaimKeyResponse_CLAIMED)
	completed := completeKey(ctx, key, owner, claimed.Fence)
	equal(completed.State, semel.KeyState_KEY_STATE_SUCCEEDED)
	again := claimKey(ctx, claimOf(key, random()))
	equal(again.Disposition, semel.ClaimKeyResponse_REPLAY)
	isAnswer(again.Completion.Response)
	isAnswer(must(keys.ReplayKey(ctx, replayOf(key))).Completion.Response)
	return ""
}

func repeated(ctx context.Context, _ map[string]string) string {
	key, owner := newName(), random()
	first, second := claimKey(ctx, claimOf(key, owner)), claimKey(ctx, claimOf(key, owner))
	equal(first.Resumed, false)
	equal(second.Resumed, true)
	equal(second.Fence, first.Fence)
	equal(completeKey(ctx, key, owner, first.Fence).AlreadyCompleted, false)
	equal(completeKey(ctx, key, owner, first.Fence).AlreadyCompleted, true)
	return ""
}

func wait(ctx context.Context, _ map[string]string) string {
	key, owner := newName(), random()
	claimed := claimKey(ctx, claimOf(key, owner))
	type reply struct {
		*semel.ClaimKeyResponse
		error
	}
	waiting := make(chan reply, 1)
	go func() {
		request := claimOf(key, random())
		request.Wait = durationpb.New(20 * time.Second)
		response, err := keys.ClaimKey(ctx, request)
		waiting <- reply{response, err}
	}()
	select {
	case early := <-waiting:
		panic(fmt.Sprintf("it did not wait: %v", early))
	case <-time.After(300 * time.Millisecond):
	}
	completeKey(ctx, key, owner, claimed.Fence)
	select {
	case told := <-waiting:
		isAnswer(must(told.ClaimKeyResponse, told.error).Completion.Response)
	case <-time.After(5 * time.Second):
		panic("it still waits")
	}
	return ""
}

func mismatch(ctx context.Context, _ map[string]string) string {
	key := newName()
	claimKey(ctx, claimOf(key, random()))
	other := claimOf(key, random())
	other.Fingerprints = []*semel.Fingerprint{fingerprint("payments.charge", "43.00 €")}
	_, err := keys.ClaimKey(ctx, other)
	refusedWith(err, "KEY_PAYLOAD_MISMATCH")
	return ""
}

func fencing(ctx context.Context, _ map[string]string) string {
	key, late, owner := newName(), random(), random()
	short := claimOf(key, late)
	short.Lease = durationpb.New(100 * time.Millisecond)
	short.OnOwnerLost = semel.OnOwnerLost_ON_OWNER_LOST_TAKE_OVER
	lost := claimKey(ctx, short)
	next := claimOf(key, owner)
	next.Wait = durationpb.New(20 * time.Second)
	taken := claimKey(ctx, next)
	equal(taken.Disposition, semel.ClaimKeyResponse_TAKEN_OVER)
	equal(taken.Fence > lost.Fence, true)
	_, err := keys.CompleteKey(ctx, completionOf(key, late, lost.Fence))
	refusedWith(err, "FENCED")
	completed := completeKey(ctx, key, owner, taken.Fence)
	equal(completed.State, semel.KeyState_KEY_STATE_SUCCEEDED)
	return ""
}

func batch(ctx context.Context, _ map[string]string) string {
	one, two, owner := newName(), newName(), random()
	claimed := must(keys.ClaimKeys(ctx, &semel.ClaimKeysRequest{
		Claims: []*semel.ClaimKeyRequest{
			claimOf(one, owner), claimOf(two, owner), claimOf(one, random()), claimOf("", owner),
		},
	})).Results
	equal(claimed[0].GetResponse().GetDisposition(), semel.ClaimKeyResponse_CLAIMED)
	equal(claimed[1].GetResponse().GetDisposition(), semel.ClaimKeyResponse_CLAIMED)
	equal(claimed[2].GetResponse().GetDisposition(), semel.ClaimKeyResponse_IN_PROGRESS)
	equal(errorInfo(status.FromProto(claimed[3].GetError())).Reason, "KEY_INVALID")

	fence := claimed[1].GetResponse().Fence
	completed := must(keys.CompleteKeys(ctx, &semel.CompleteKeysRequest{
		Completions: []*semel.CompleteKeyRequest{
			completionOf(one, owner, claimed[0].GetResponse().Fence),
			completionOf(two, owner, fence+1),
			completionOf(two, owner, fence),
		},
	})).Results
	equal(completed[0].GetResponse().GetState(), semel.KeyState_KEY_STATE_SUCCEEDED)
	equal(errorInfo(status.FromProto(completed[1].GetError())).Reason, "FENCED")
	equal(completed[2].GetResponse().GetState(), semel.KeyState_KEY_STATE_SUCCEEDED)
	return ""
}

func retryToken(ctx context.Context, _ map[string]string) string {
	dependency := "bank-" + newName()
	ask := func(kind semel.FailureKind, repeatable bool, deposits *semel.Deposits) *semel.AcquireRetryTokenResponse {
		return must(retries.AcquireRetryToken(ctx, &semel.AcquireRetryTokenRequest{
			Tenant: "acme", Dependency: dependency, RequestId: random(), Attempt: 1,
			Failure:    &semel.Failure{Kind: kind},
			Repeatable: repeatable, Deposits: deposits,
		}))
	}
	unknown := semel.FailureKind_FAILURE_KIND_UNKNOWN_OUTCOME
	granted := ask(unknown, true, &semel.Deposits{Reporter: random(), Seq: 1, Requests: 100})
	equal(granted.Verdict, semel.RetryVerdict_RETRY_VERDICT_GRANTED)
	equal(len(granted.Token), 16)
	equal(granted.DepositsCounted, true)
	equal(ask(unknown, false, nil).Verdict, semel.RetryVerdict_RETRY_VERDICT_UNSAFE)
	rejected := ask(semel.FailureKind_FAILURE_KIND_REJECTED, true, nil)
	equal(rejected.Verdict, semel.RetryVerdict_RETRY_VERDICT_NOT_RETRYABLE)
	return ""
}

func breakerWatch(ctx context.Context, _ map[string]string) string {
	dependency := "bank-" + newName()
	force := func(override semel.BreakerOverride) {
		must(breakers.OverrideBreaker(ctx, &semel.OverrideBreakerRequest{
			Tenant: "acme", Dependency: dependency, Override: override,
			Actor: "tests", Reason: "their maintenance",
		}))
	}
	watched := must(breakers.WatchBreakers(ctx, &semel.WatchBreakersRequest{
		Tenant: "acme", Dependencies: []string{dependency},
	}))
	equal(must(watched.Recv()).Breaker.Condition, semel.BreakerCondition_BREAKER_CONDITION_CLOSED)
	force(semel.BreakerOverride_BREAKER_OVERRIDE_FORCED_OPEN)
	told := must(watched.Recv()).Breaker
	equal(told.Condition, semel.BreakerCondition_BREAKER_CONDITION_OPEN)
	equal(told.GetOverride().GetKind(), semel.BreakerOverride_BREAKER_OVERRIDE_FORCED_OPEN)
	force(semel.BreakerOverride_BREAKER_OVERRIDE_RESET)
	equal(must(watched.Recv()).Breaker.Condition, semel.BreakerCondition_BREAKER_CONDITION_CLOSED)
	return ""
}

func deadline(ctx context.Context, _ map[string]string) string {
	key := newName()
	claimKey(ctx, claimOf(key, random()))
	waits := claimOf(key, random())
	waits.Wait = durationpb.New(20 * time.Second)
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	began := time.Now()
	answered, err := keys.ClaimKey(short, waits)
	if status.Code(err) != codes.DeadlineExceeded {
		equal(must(answered, err).Disposition, semel.ClaimKeyResponse_IN_PROGRESS)
	}
	if took := time.Since(began); took < 500*time.Millisecond || took > 5*time.Second {
		panic(fmt.Sprintf("it took %v", took))
	}
	return ""
}

func handOverClaim(ctx context.Context, with map[string]string) string {
	owner := random()
	return fmt.Sprintf("fence=%d owner=%x", claimKey(ctx, claimOf(with["key"], owner)).Fence, owner)
}

func handOverComplete(ctx context.Context, with map[string]string) string {
	owner := must(hex.DecodeString(with["owner"]))
	completeKey(ctx, with["key"], owner, must(strconv.ParseUint(with["fence"], 10, 64)))
	return ""
}

func handOverReplay(ctx context.Context, with map[string]string) string {
	response := must(keys.ReplayKey(ctx, replayOf(with["key"]))).Completion.Response
	var entries []string
	for _, entry := range response.Metadata {
		entries = append(entries, fmt.Sprintf("%x", entry.Name+":"+entry.Value))
	}
	return fmt.Sprintf("status=%d type=%x metadata=%s body=%x",
		response.Status, response.ContentType, strings.Join(entries, ","), response.GetBody())
}

func lostReply(ctx context.Context, with map[string]string) string {
	_, err := keys.ReplayKey(ctx, replayOf(with["key"]))
	equal(errorInfo(status.Convert(err)).Reason, "KEY_UNKNOWN")
	fmt.Println("ready")
	must(bufio.NewReader(os.Stdin).ReadString('\n'))
	equal(claimKey(ctx, claimOf(with["key"], random())).Resumed, true)
	return ""
}
