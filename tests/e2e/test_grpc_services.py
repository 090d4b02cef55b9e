"""test_grpc_services.py - what gRPC servers have beside their own service: health that is watched, and reflection."""
# sanitizers: address thread
import queue
import signal
import subprocess
import threading

import grpc
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from clients import find
from server import Server

SERVICES = ["externalscaler.ExternalScaler", "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection",
            "grpc.reflection.v1alpha.ServerReflection", "inference.GRPCInferenceService"]


@pytest.fixture(scope="module")
def server(scenario):
    with Server("--scenario", scenario) as running:
        yield running


def channel_to(server):
    return grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}", options=[("grpc.use_local_subchannel_pool", 1)])


# ---- health ----

WATCH = "/grpc.health.v1.Health/Watch"
SERVING, NOT_SERVING, SERVICE_UNKNOWN = b"\x08\x01", b"\x08\x02", b"\x08\x03"


def test_watch_tells_of_the_end(scenario):
    with Server("--scenario", scenario, "--drain-grace", 3) as running, channel_to(running) as channel:
        told = queue.Queue()

        def watch():
            try:
                for answer in channel.unary_stream(WATCH)(b""):
                    told.put(answer)
            except grpc.RpcError as error:
                told.put(error.code())
        threading.Thread(target=watch, daemon=True).start()
        assert told.get(timeout=600) == SERVING
        running.process.send_signal(signal.SIGTERM)
        assert told.get(timeout=600) == NOT_SERVING
        assert told.get(timeout=600) == grpc.StatusCode.UNAVAILABLE
        assert running.process.wait(600) == 0


def test_watch_of_many(server):
    """They stay, cost no request, and end when their clients go."""
    with channel_to(server) as channel:
        streams = [channel.unary_stream(WATCH)(b"\x0a\x1einference.GRPCInferenceService") for _ in range(100)]
        assert [next(stream) for stream in streams] == [SERVING] * 100
        unknown = channel.unary_stream(WATCH)(b"\x0a\x04none")
        assert next(unknown) == SERVICE_UNKNOWN
        with pytest.raises(grpc.RpcError) as failed:
            next(channel.unary_stream(WATCH, request_serializer=lambda message: message)(b"\xff"))
        assert failed.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        with pytest.raises(grpc.RpcError) as failed:
            list(channel.unary_stream(WATCH)(b"", timeout=1.5))
        assert failed.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
        assert server.metrics()["symphony_requests_in_flight"] == 0
        for stream in streams:
            stream.cancel()
        assert channel.unary_unary("/grpc.health.v1.Health/Check")(b"") == SERVING


# ---- reflection: its messages are those that it tells of ----

class Reflection:
    def __init__(self, channel, version):
        self.ask_raw = channel.stream_stream(f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo")
        pool = descriptor_pool.DescriptorPool()
        name = b"grpc.reflection.%s.ServerReflectionResponse" % version.encode()
        answer = next(self.ask_raw(iter([b"\x22" + bytes([len(name)]) + name])))  # file_containing_symbol
        at = answer.index(b"\x0a", answer.index(b"\x22", 2 + 2 + 2 + len(name)))
        size, shift = 0, 0
        while True:  # the length of the one file
            at += 1
            size |= (answer[at] & 127) << shift
            shift += 7
            if answer[at] < 128:
                break
        pool.Add(descriptor_pb2.FileDescriptorProto.FromString(answer[at + 1:at + 1 + size]))
        self.Request, self.Response = (
            message_factory.GetMessageClass(pool.FindMessageTypeByName(f"grpc.reflection.{version}.ServerReflection{kind}"))
            for kind in ("Request", "Response"))

    def ask(self, *requests):
        return [self.Response.FromString(answer)
                for answer in self.ask_raw(request.SerializeToString() for request in requests)]

    def files(self, **request):
        answer, = self.ask(self.Request(**request))
        return [descriptor_pb2.FileDescriptorProto.FromString(file)
                for file in answer.file_descriptor_response.file_descriptor_proto]


@pytest.fixture(params=["v1", "v1alpha"])
def reflection(server, request):
    with channel_to(server) as channel:
        yield Reflection(channel, request.param)


def test_services(reflection):
    answer, = reflection.ask(reflection.Request(host="here", list_services=""))
    assert sorted(service.name for service in answer.list_services_response.service) == SERVICES
    assert answer.valid_host == "here" and answer.original_request.HasField("list_services")


def test_files(reflection):
    """A file comes with what it imports, so that it can be understood."""
    for request, first in (({"file_by_filename": "inference.proto"}, "inference.proto"),
                           ({"file_containing_symbol": "inference.GRPCInferenceService"}, "inference.proto"),
                           ({"file_containing_symbol": "inference.GRPCInferenceService.ModelInfer"}, "inference.proto"),
                           ({"file_containing_symbol": "inference.ModelInferRequest.InferInputTensor"}, "inference.proto"),
                           ({"file_containing_symbol": "inference.ModelInferRequest.model_name"}, "inference.proto"),
                           ({"file_containing_symbol": "inference.ModelConfig"}, "model_config.proto"),
                           ({"file_containing_symbol": "grpc.health.v1.HealthCheckResponse.ServingStatus"}, "health.proto")):
        files = reflection.files(**request)
        assert files[0].name == first
        pool = descriptor_pool.DescriptorPool()
        for file in reversed(files):
            pool.Add(file)
        for file in files:
            pool.FindFileByName(file.name)


def test_every_symbol_is_found(reflection):
    def names(prefix, message):
        yield prefix + message.name
        for nested in message.nested_type:
            yield from names(prefix + message.name + ".", nested)
    file = reflection.files(file_by_filename="inference.proto")[0]
    symbols = [name for message in file.message_type for name in names("inference.", message)]
    answers = reflection.ask(*(reflection.Request(file_containing_symbol=symbol) for symbol in symbols))
    assert len(symbols) > 50 and all(answer.HasField("file_descriptor_response") for answer in answers)


def test_what_is_not_there(reflection):
    requests = [{"file_by_filename": "none.proto"}, {"file_containing_symbol": "inference"},
                {"file_containing_symbol": "inference.None"}, {"file_containing_symbol": "inference.ModelInferRequest."},
                {"file_containing_symbol": ""}, {"file_containing_symbol": "."},
                {"file_containing_extension": {"containing_type": "inference.ModelInferRequest", "extension_number": 1}},
                {"all_extension_numbers_of_type": "none"}, {}]
    answers = reflection.ask(*(reflection.Request(**request) for request in requests))
    assert [answer.error_response.error_code for answer in answers] == [5] * 8 + [12]
    answer, = reflection.ask(reflection.Request(all_extension_numbers_of_type="inference.ModelInferRequest"))
    assert answer.all_extension_numbers_response.base_type_name == "inference.ModelInferRequest"


@pytest.mark.skipif(not find("grpcurl"), reason="no grpcurl here: './run referees' makes it")
def test_grpcurl(server):
    def grpcurl(*arguments):
        return subprocess.run([find("grpcurl"), "-plaintext", *arguments], capture_output=True, text=True, timeout=600,
                              check=True).stdout
    address = f"127.0.0.1:{server.grpc_port}"
    assert sorted(grpcurl(address, "list").split()) == SERVICES
    assert "rpc ModelInfer" in grpcurl(address, "describe", "inference.GRPCInferenceService")
    assert '"name": "m"' in grpcurl("-d", '{"name":"m"}', address, "inference.GRPCInferenceService/ModelMetadata")
