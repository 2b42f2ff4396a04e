"""Claims, completes and replays a key, knowing only the address of a node."""

import os
import sys

import grpc
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

channel = grpc.insecure_channel(sys.argv[1])
database = ProtoReflectionDescriptorDatabase(channel)
services = list(database.get_services())
assert {"semel.v1.Keys", "grpc.health.v1.Health"} <= set(services), services
pool = DescriptorPool(database)


def call(service, method, /, **fields):
    """Calls a method that reflection describes."""
    described = pool.FindServiceByName(service).FindMethodByName(method)
    request = GetMessageClass(described.input_type)(**fields)
    send = channel.unary_unary(
        f"/{service}/{method}",
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=GetMessageClass(described.output_type).FromString,
    )
    return send(request, timeout=10)


def reason(error):
    """The stable reason of an error, from details that reflection describes."""
    status = GetMessageClass(pool.FindMessageTypeByName("google.rpc.Status"))()
    status.ParseFromString(dict(error.trailing_metadata())["grpc-status-details-bin"])
    info = GetMessageClass(pool.FindMessageTypeByName("google.rpc.ErrorInfo"))()
    assert any(detail.Unpack(info) for detail in status.details), status
    return info.reason


def claim(owner_id):
    fingerprint = {"algorithm": "sha256/v1", "digest": bytes(32)}
    reply = call("semel.v1.Keys", "ClaimKey", **key, fingerprints=[fingerprint], owner_id=owner_id)
    names = reply.DESCRIPTOR.enum_types_by_name["Disposition"].values_by_number
    return reply, names[reply.disposition].name


for service in ("", "semel.v1.Keys"):
    assert call("grpc.health.v1.Health", "Check", service=service).status == 1, service

key = {"tenant": "acme", "operation": "payments.charge", "key": "generic"}
owner = os.urandom(16)
claimed, disposition = claim(owner)
assert disposition == "CLAIMED", disposition
response = {"status": 201, "body": b"charged"}
call(
    "semel.v1.Keys", "CompleteKey",
    **key, fence=claimed.fence, owner_id=owner, outcome="OUTCOME_SUCCEEDED", response=response,
)
replayed, disposition = claim(os.urandom(16))
assert disposition == "REPLAY", disposition
assert replayed.completion.response.body == b"charged"

try:
    call("semel.v1.Keys", "ClaimKey", **{**key, "key": ""})
    raise AssertionError("an empty key was accepted")
except grpc.RpcError as error:
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT, error
    assert reason(error) == "KEY_INVALID", error
print("claimed, completed, replayed")
