"""How a service in Python does a write once."""

import datetime
import hashlib
import json
import os

import grpc
from google.rpc.error_details_pb2 import ErrorInfo
from grpc_status import rpc_status
from semel.v1 import keys_pb2 as semel

# After UNAVAILABLE the library sends the same request again. Its ids are the same, so a claim or a
# completion whose reply was lost is recognised.
REPEAT = {"methodConfig": [{
    "name": [{"service": "semel.v1.Keys"}],
    "retryPolicy": {
        "maxAttempts": 5,
        "initialBackoff": "0.1s",
        "maxBackoff": "2s",
        "backoffMultiplier": 2,
        "retryableStatusCodes": ["UNAVAILABLE"],
    },
}]}


def connect(address):
    return grpc.insecure_channel(address, [("grpc.service_config", json.dumps(REPEAT))])


def fingerprint(*parts):
    """What a key stands for: each part framed by its length, so that no two lists look the same."""
    framed = b",".join(b"%d:%s" % (len(part), part) for part in parts)
    return semel.Fingerprint(algorithm="sha256/v1", digest=hashlib.sha256(framed).digest())


def once(keys, operation, key, payload, work):
    """Does the work of a key, or returns the answer of whoever did it."""
    name = dict(tenant="acme", operation=operation, key=key)
    owner_id = os.urandom(16)  # One for each execution.
    wait = datetime.timedelta(seconds=10)
    claim = keys.ClaimKey(semel.ClaimKeyRequest(
        **name, fingerprints=[fingerprint(operation.encode(), payload)], owner_id=owner_id,
        wait=wait), timeout=15)
    if claim.disposition == semel.ClaimKeyResponse.REPLAY:
        return claim.completion.response
    if claim.disposition != semel.ClaimKeyResponse.CLAIMED:
        # Busy for longer than we wait, or lost: look what the last owner did, or ask again later.
        raise RuntimeError(semel.ClaimKeyResponse.Disposition.Name(claim.disposition))
    response = work()
    keys.CompleteKey(semel.CompleteKeyRequest(
        **name, fence=claim.fence, owner_id=owner_id, outcome=semel.OUTCOME_SUCCEEDED,
        response=response), timeout=15)
    return response


def error_info(error):
    """Why a call failed: its reason is stable. Empty if nothing says so."""
    status = rpc_status.from_call(error)
    return error_info_of(status.details if status else [])


def error_info_of(details):
    info = ErrorInfo()
    any(detail.Unpack(info) for detail in details)
    return info
