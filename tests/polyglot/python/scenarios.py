"""The scenarios of ../scenarios.md."""

import os
import sys
import time
import uuid
from datetime import timedelta

import grpc
from example import connect, error_info, error_info_of, fingerprint, once
from semel.v1 import breakers_pb2, breakers_pb2_grpc, keys_pb2_grpc, retries_pb2, retries_pb2_grpc
from semel.v1 import keys_pb2 as semel

Claim = semel.ClaimKeyResponse
TIMEOUT_S = 30
ANSWER = semel.Response(
    status=402,
    content_type="application/octet-stream",
    metadata=[
        semel.MetadataEntry(name="x-trace", value="first"),
        semel.MetadataEntry(name="x-trace", value="zweites Stück"),
    ],
    body=bytes(range(256)),
)

channel = connect(sys.argv[1])
keys = keys_pb2_grpc.KeysStub(channel)
retries = retries_pb2_grpc.RetriesStub(channel)
breakers = breakers_pb2_grpc.BreakersStub(channel)


def name(key):
    return dict(tenant="acme", operation="payments.charge", key=key)


def claim_of(key, owner_id, payload="42.00 €", **fields):
    print_of_it = fingerprint(b"payments.charge", payload.encode())
    return semel.ClaimKeyRequest(
        **name(key), fingerprints=[print_of_it], owner_id=owner_id, **fields)


def completion_of(key, owner_id, fence):
    return semel.CompleteKeyRequest(
        **name(key), fence=fence, owner_id=owner_id, outcome=semel.OUTCOME_SUCCEEDED,
        response=ANSWER)


def claim_key(key, owner_id, **fields):
    return keys.ClaimKey(claim_of(key, owner_id, **fields), timeout=TIMEOUT_S)


def complete_key(key, owner_id, fence):
    return keys.CompleteKey(completion_of(key, owner_id, fence), timeout=TIMEOUT_S)


def replay_key(key):
    asked = claim_of(key, b"")
    request = semel.ReplayKeyRequest(**name(key), fingerprints=asked.fingerprints)
    return keys.ReplayKey(request, timeout=TIMEOUT_S)


def new_key():
    return str(uuid.uuid4())


def new_owner():
    return os.urandom(16)


def equal(found, expected):
    assert found == expected, f"{found!r} instead of {expected!r}"


def refusal(call, *arguments, **fields):
    """The code, reason and domain with which a call is refused."""
    try:
        raise AssertionError(f"accepted: {call(*arguments, **fields)}")
    except grpc.RpcError as error:
        info = error_info(error)
        return error.code().name, info.reason, info.domain


def claim():
    done = []

    def work():
        done.append("charged")
        return ANSWER

    key = new_key()
    for _ in range(2):
        equal(once(keys, "payments.charge", key, b"42.00 EUR", work), ANSWER)
    equal(done, ["charged"])


def replay():
    key, owner = new_key(), new_owner()
    claimed = claim_key(key, owner)
    equal(claimed.disposition, Claim.CLAIMED)
    equal(complete_key(key, owner, claimed.fence).state, semel.KEY_STATE_SUCCEEDED)
    again = claim_key(key, new_owner())
    equal(again.disposition, Claim.REPLAY)
    equal(again.completion.response, ANSWER)
    equal(replay_key(key).completion.response, ANSWER)


def repeat():
    key, owner = new_key(), new_owner()
    first, second = claim_key(key, owner), claim_key(key, owner)
    equal((first.resumed, second.resumed), (False, True))
    equal(second.fence, first.fence)
    completions = [complete_key(key, owner, first.fence).already_completed for _ in range(2)]
    equal(completions, [False, True])


def wait():
    key, owner = new_key(), new_owner()
    claimed = claim_key(key, owner)
    request = claim_of(key, new_owner(), wait=timedelta(seconds=20))
    waiting = keys.ClaimKey.future(request, timeout=TIMEOUT_S)
    try:
        raise AssertionError(f"it did not wait: {waiting.result(timeout=0.3)}")
    except grpc.FutureTimeoutError:
        pass
    complete_key(key, owner, claimed.fence)
    equal(waiting.result(timeout=5).completion.response, ANSWER)


def mismatch():
    key = new_key()
    claim_key(key, new_owner())
    refused = refusal(claim_key, key, new_owner(), payload="43.00 €")
    equal(refused, ("FAILED_PRECONDITION", "KEY_PAYLOAD_MISMATCH", "semel.v1"))


def fencing():
    key, late, owner = new_key(), new_owner(), new_owner()
    lost = claim_key(
        key, late, lease=timedelta(milliseconds=100), on_owner_lost=semel.ON_OWNER_LOST_TAKE_OVER)
    taken = claim_key(key, owner, wait=timedelta(seconds=20))
    equal(taken.disposition, Claim.TAKEN_OVER)
    assert taken.fence > lost.fence, f"fence {taken.fence} after {lost.fence}"
    refused = refusal(complete_key, key, late, lost.fence)
    equal(refused, ("FAILED_PRECONDITION", "FENCED", "semel.v1"))
    equal(complete_key(key, owner, taken.fence).state, semel.KEY_STATE_SUCCEEDED)


def batch():
    one, two, owner = new_key(), new_key(), new_owner()
    claims = [
        claim_of(one, owner), claim_of(two, owner), claim_of(one, new_owner()), claim_of("", owner)]
    claimed = keys.ClaimKeys(semel.ClaimKeysRequest(claims=claims), timeout=TIMEOUT_S).results
    dispositions = [result.response.disposition for result in claimed[:3]]
    equal(dispositions, [Claim.CLAIMED, Claim.CLAIMED, Claim.IN_PROGRESS])
    equal(error_info_of(claimed[3].error.details).reason, "KEY_INVALID")

    fences = [result.response.fence for result in claimed]
    completions = [
        completion_of(one, owner, fences[0]),
        completion_of(two, owner, fences[1] + 1),
        completion_of(two, owner, fences[1]),
    ]
    request = semel.CompleteKeysRequest(completions=completions)
    completed = keys.CompleteKeys(request, timeout=TIMEOUT_S).results
    equal(completed[0].response.state, semel.KEY_STATE_SUCCEEDED)
    equal(error_info_of(completed[1].error.details).reason, "FENCED")
    equal(completed[2].response.state, semel.KEY_STATE_SUCCEEDED)


def retry_token():
    dependency = f"bank-{uuid.uuid4()}"
    deposits = retries_pb2.Deposits(reporter=os.urandom(16), seq=1, requests=100)

    def ask(kind, **fields):
        request = retries_pb2.AcquireRetryTokenRequest(
            tenant="acme", dependency=dependency, request_id=os.urandom(16), attempt=1,
            failure=retries_pb2.Failure(kind=kind), **fields)
        return retries.AcquireRetryToken(request, timeout=TIMEOUT_S)

    unknown = retries_pb2.FAILURE_KIND_UNKNOWN_OUTCOME
    granted = ask(unknown, repeatable=True, deposits=deposits)
    equal(granted.verdict, retries_pb2.RETRY_VERDICT_GRANTED)
    equal((len(granted.token), granted.deposits_counted), (16, True))
    equal(ask(unknown).verdict, retries_pb2.RETRY_VERDICT_UNSAFE)
    rejected = ask(retries_pb2.FAILURE_KIND_REJECTED, repeatable=True)
    equal(rejected.verdict, retries_pb2.RETRY_VERDICT_NOT_RETRYABLE)


def breaker_watch():
    breaker = dict(tenant="acme", dependency=f"bank-{uuid.uuid4()}")

    def force(override):
        breakers.OverrideBreaker(breakers_pb2.OverrideBreakerRequest(
            **breaker, override=override, actor="tests", reason="their maintenance"),
            timeout=TIMEOUT_S)

    watched = breakers.WatchBreakers(breakers_pb2.WatchBreakersRequest(
        tenant="acme", dependencies=[breaker["dependency"]]), timeout=TIMEOUT_S)
    equal(next(watched).breaker.condition, breakers_pb2.BREAKER_CONDITION_CLOSED)
    force(breakers_pb2.BREAKER_OVERRIDE_FORCED_OPEN)
    told = next(watched).breaker
    equal(told.condition, breakers_pb2.BREAKER_CONDITION_OPEN)
    equal(told.override.kind, breakers_pb2.BREAKER_OVERRIDE_FORCED_OPEN)
    force(breakers_pb2.BREAKER_OVERRIDE_RESET)
    equal(next(watched).breaker.condition, breakers_pb2.BREAKER_CONDITION_CLOSED)
    watched.cancel()


def deadline():
    key = new_key()
    claim_key(key, new_owner())
    began = time.monotonic()
    request = claim_of(key, new_owner(), wait=timedelta(seconds=20))
    try:
        equal(keys.ClaimKey(request, timeout=1).disposition, Claim.IN_PROGRESS)
    except grpc.RpcError as error:
        equal(error.code(), grpc.StatusCode.DEADLINE_EXCEEDED)
    took = time.monotonic() - began
    assert 0.5 < took < 5, f"it took {took} s"


def hand_over_claim(key):
    owner = new_owner()
    return f"fence={claim_key(key, owner).fence} owner={owner.hex()}"


def hand_over_complete(key, fence, owner):
    complete_key(key, bytes.fromhex(owner), int(fence))


def hand_over_replay(key):
    answer = replay_key(key).completion.response
    entries = [f"{entry.name}:{entry.value}".encode().hex() for entry in answer.metadata]
    return (
        f"status={answer.status} type={answer.content_type.encode().hex()}"
        f" metadata={','.join(entries)} body={answer.body.hex()}")


def lost_reply(key):
    equal(refusal(replay_key, key)[1], "KEY_UNKNOWN")
    print("ready", flush=True)
    sys.stdin.readline()
    equal(claim_key(key, new_owner()).resumed, True)


SCENARIOS = {
    "claim": claim,
    "replay": replay,
    "repeat": repeat,
    "wait": wait,
    "mismatch": mismatch,
    "fencing": fencing,
    "batch": batch,
    "retry-token": retry_token,
    "breaker-watch": breaker_watch,
    "deadline": deadline,
}
PARTS = {
    "hand-over-claim": hand_over_claim,
    "hand-over-complete": hand_over_complete,
    "hand-over-replay": hand_over_replay,
    "lost-reply": lost_reply,
}


def passed(name, parameters):
    try:
        found = (SCENARIOS | PARTS)[name](**parameters)
        print(f"ok {name} {found or ''}".strip(), flush=True)
        return True
    except Exception as error:
        why = " ".join(f"{type(error).__name__}: {error}".split())
        print(f"FAILED {name}: {why}", flush=True)
        return False


names, parameters = list(SCENARIOS), {}
if sys.argv[2:3] == ["--scenario"]:
    names = [sys.argv[3]]
    parameters = dict(parameter.split("=", 1) for parameter in sys.argv[4:])
sys.exit(0 if all([passed(name, parameters) for name in names]) else 1)
