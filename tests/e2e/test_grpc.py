"""test_grpc.py - the gRPC frontend from outside: the unmodified Triton client, and gRPC calls of every wrong kind."""
# sanitizers: address thread
# quick sanitizers: address

import contextlib
import gzip
import os
import queue
import signal
import socket
import struct
import threading
import time
import zlib

import grpc
import hpack
import numpy as np
import pytest
import tritonclient.grpc as triton
from onnx import TensorProto, helper
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException, shared_memory

from repository import (SLOW_RUN_S, STUCK_RUN_S, TYPES, repository, save_model, server, slow_scenario,  # noqa: F401
                        stuck)
from server import Server, http_request, wait_until
from test_http_client import region


@pytest.fixture(scope="module")
def slow(slow_scenario):
    with Server("--scenario", str(slow_scenario)) as running:
        yield running


@pytest.fixture(scope="module")
def packing(repository):
    with Server("--repository", str(repository), "--slo-ms", "60000", "--grpc-infer-response-compression-level",
                "medium") as running:
        yield running


@pytest.fixture(scope="module")
def client(server):
    with triton.InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as connected:
        yield connected


@contextlib.contextmanager
def channel_to(server, **options):
    options = {"max_receive_message_length": -1, "max_send_message_length": -1, **options}
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}",
                               options=[(f"grpc.{name}", value) for name, value in options.items()]) as channel:
        yield channel


@pytest.fixture(scope="module")
def stub(server):
    with channel_to(server) as channel:
        yield service_pb2_grpc.GRPCInferenceServiceStub(channel)


def tensor(name, array, datatype="FP32"):
    given = triton.InferInput(name, list(array.shape), datatype)
    given.set_data_from_numpy(array)
    return given


X = np.array([[1, 2, 3, 4]], np.float32)


def code_of(call, *args, **kwargs):
    """The status that the call fails with, and its sentence."""
    with pytest.raises(grpc.RpcError) as failed:
        call(*args, **kwargs)
    return failed.value.code(), failed.value.details()


def request_of(model="double", shape=(1, 4), raw=(X.tobytes(),), name="x", datatype="FP32", **more):
    given = service_pb2.ModelInferRequest.InferInputTensor(name=name, datatype=datatype, shape=shape)
    return service_pb2.ModelInferRequest(model_name=model, inputs=[given], raw_input_contents=raw, **more)


# ---- what the client asks beside inference ----

def test_health(server, client):
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("double")
    assert client.is_model_ready("double", "1") and not client.is_model_ready("double", "9")
    assert not client.is_model_ready("none") and not client.is_model_ready("broken")
    with channel_to(server) as channel:
        check = channel.unary_unary("/grpc.health.v1.Health/Check")
        assert check(b"") == b"\x08\x01"
        assert check(b"\x0a\x1einference.GRPCInferenceService") == b"\x08\x01"
        assert code_of(check, b"\x0a\x04none")[0] == grpc.StatusCode.NOT_FOUND


def test_metadata(client):
    about = client.get_server_metadata()
    assert about.name == "symphony" and "binary_tensor_data" in about.extensions
    model = client.get_model_metadata("double")
    assert model.name == "double" and list(model.versions) == ["1"] and model.platform == "onnxruntime_onnx"
    assert [(i.name, i.datatype, list(i.shape)) for i in model.inputs] == [("x", "FP32", [-1, 4])]
    assert [(o.name, o.datatype, list(o.shape)) for o in model.outputs] == [("y", "FP32", [-1, 4])]
    with pytest.raises(InferenceServerException) as failed:
        client.get_model_metadata("none")
    assert failed.value.status() == "StatusCode.NOT_FOUND" and failed.value.message() == "Request for unknown model: 'none' is not found"


def test_configuration(client):
    config = client.get_model_config("double").config
    assert config.name == "double" and config.backend == "onnxruntime" and config.max_batch_size > 1
    assert config.input[0].name == "x" and list(config.input[0].dims) == [4] and config.HasField("dynamic_batching")
    single = client.get_model_config("single").config
    assert single.max_batch_size == 0 and list(single.output[0].dims) == [2, 2]


def test_repository_index(client):
    states = {entry.name: entry for entry in client.get_model_repository_index().models}
    assert states["double"].state == "READY" and states["double"].version == "1" and not states["double"].reason
    assert states["broken"].state == "UNAVAILABLE" and states["broken"].reason


def test_statistics(server, client):
    def of(model):
        return client.get_inference_statistics(model).model_stats[0]
    server.rests()
    before = of("double")
    client.infer("double", [tensor("x", np.zeros((3, 4), np.float32))])
    wait_until(lambda: of("double").inference_count == before.inference_count + 3)
    wait_until(lambda: of("double").execution_count > before.execution_count)  # a batch is counted a moment after it was sent
    server.rests()
    after = of("double")
    assert after.last_inference > time.time() * 1000 - 60000
    for name in ("success", "queue", "compute_input", "compute_infer", "compute_output"):
        assert getattr(after.inference_stats, name).count == getattr(before.inference_stats, name).count + 1
    assert after.inference_stats.success.ns > before.inference_stats.success.ns
    parts = sum(getattr(after.inference_stats, name).ns for name in ("queue", "compute_infer", "compute_output"))
    assert parts == after.inference_stats.success.ns
    everything = client.get_inference_statistics().model_stats
    assert {"double", "broken", "echo"} <= {m.name for m in everything}
    with pytest.raises(InferenceServerException):
        client.get_inference_statistics("none")


def test_settings(client):
    assert client.get_trace_settings().settings["trace_level"].value == ["OFF"]
    assert client.get_log_settings().settings["log_info"].bool_param
    assert client.update_log_settings({"log_verbose_level": 1}).settings["log_verbose_level"].uint32_param == 1
    assert client.update_log_settings({"log_verbose_level": 0}).settings["log_verbose_level"].uint32_param == 0
    for wrong in (lambda: client.update_log_settings({"log_file": "/x"}),
                  lambda: client.update_log_settings({"nope": True}),
                  lambda: client.update_trace_settings(settings={"trace_level": ["TIMESTAMPS"]})):
        with pytest.raises(InferenceServerException):
            wrong()
    assert client.get_trace_settings("double").settings["trace_level"].value == ["OFF"]
    for unknown in (lambda: client.get_trace_settings("none"),
                    lambda: client.update_trace_settings("none", {"trace_level": ["OFF"]})):
        with pytest.raises(InferenceServerException) as failed:
            unknown()
        assert failed.value.status() == "StatusCode.NOT_FOUND"
        assert failed.value.message() == "Request for unknown model: 'none' is not found"


def test_cuda_shared_memory_is_not_supported(client):
    assert len(client.get_cuda_shared_memory_status().regions) == 0
    client.unregister_cuda_shared_memory()
    with pytest.raises(InferenceServerException) as failed:
        client.register_cuda_shared_memory("r", b"0" * 64, 0, 64)
    assert failed.value.status() == "StatusCode.UNIMPLEMENTED"


def test_what_is_not_served_says_so(server, stub):
    with channel_to(server) as channel:
        for path in ("/inference.GRPCInferenceService/Nothing", "/other.Service/ModelInfer", "/"):
            assert code_of(channel.unary_unary(path), b"")[0] == grpc.StatusCode.UNIMPLEMENTED
    assert code_of(stub.RepositoryModelLoad, service_pb2.RepositoryModelLoadRequest(model_name="double"))[0] == \
        grpc.StatusCode.UNAVAILABLE


# ---- inference ----

def test_infer(client):
    result = client.infer("double", [tensor("x", X)], request_id="seven", outputs=[triton.InferRequestedOutput("y")],
                          priority=1, timeout=60_000_000, parameters={"own": "key"})
    assert np.array_equal(result.as_numpy("y"), 2 * X)
    response = result.get_response()
    assert (response.id, response.model_name, response.model_version) == ("seven", "double", "1")


def test_batches(client):
    for items in (1, 3, 8):
        array = np.arange(4 * items, dtype=np.float32).reshape(items, 4)
        assert np.array_equal(client.infer("double", [tensor("x", array)]).as_numpy("y"), 2 * array)


def test_every_type_raw(client):
    arrays = {name: np.array([values], dtype) for name, (_, dtype, values) in TYPES.items()}
    result = client.infer("echo", [tensor(f"in_{name}", array, name) for name, array in arrays.items()])
    for name, array in arrays.items():
        assert np.array_equal(result.as_numpy(f"out_{name}"), array), name


def test_typed_contents(stub):
    typed = service_pb2.ModelInferRequest.InferInputTensor(
        name="x", datatype="FP32", shape=[1, 4], contents=service_pb2.InferTensorContents(fp32_contents=[1, 2, 3, 4]))
    answer = stub.ModelInfer(service_pb2.ModelInferRequest(model_name="double", inputs=[typed]))
    assert answer.raw_output_contents[0] == (2 * X).tobytes()
    typed = service_pb2.ModelInferRequest.InferInputTensor(
        name="i", datatype="INT64", shape=[2, 1], contents=service_pb2.InferTensorContents(int64_contents=[-1, 0]))
    answer = stub.ModelInfer(service_pb2.ModelInferRequest(model_name="pick", inputs=[typed]))
    assert np.frombuffer(answer.raw_output_contents[0], np.float32).tolist() == [3, 1]


def test_large_tensors(client):
    for items in (1, 5):
        array = np.random.default_rng(1).random((items, 150528), np.float32)
        assert np.array_equal(client.infer("wide", [tensor("x", array)]).as_numpy("y"), -array)


@pytest.mark.parametrize("change, code, words", [
    (dict(model="none"), "NOT_FOUND", "Request for unknown model: 'none' is not found"),
    (dict(model_version="9"), "NOT_FOUND", "Request for unknown model: 'double' version 9 is not found"),
    (dict(model_version="x"), "NOT_FOUND", "Request for unknown model: 'double' version x is not found"),
    (dict(model="broken"), "UNAVAILABLE", "Request for unknown model: 'broken' has no available versions: "),
    (dict(name="zz"), "INVALID_ARGUMENT", "unexpected inference input 'zz' for model 'double'"),
    (dict(datatype="INT32"), "INVALID_ARGUMENT", "inference input 'x' data-type is 'INT32', but model 'double' expects 'FP32'"),
    (dict(datatype="FP99"), "INVALID_ARGUMENT", "unknown datatype 'FP99'"),
    (dict(datatype="BYTES"), "INVALID_ARGUMENT", "data-type is 'BYTES', but model 'double' expects 'FP32'"),
    (dict(shape=(1, 5)), "INVALID_ARGUMENT", "unexpected shape for input 'x' for model 'double'. Expected [-1,4]"),
    (dict(shape=(-1, 4)), "INVALID_ARGUMENT", "negative dimension -1"),
    (dict(shape=(1,) * 9), "INVALID_ARGUMENT", "more than 8 dimensions"),
    (dict(shape=(2, 4)), "INVALID_ARGUMENT", "input byte size mismatch for input 'x' for model 'double'. Expected 32, got 16"),
    (dict(shape=(1 << 40, 4)), "INVALID_ARGUMENT", "unexpected shape for input"),
    (dict(raw=()), "INVALID_ARGUMENT", "input 'x' has neither contents nor raw_input_contents"),
    (dict(raw=(X.tobytes(), b"1")), "INVALID_ARGUMENT", "2 raw_input_contents for 1 inputs"),
    (dict(outputs=[service_pb2.ModelInferRequest.InferRequestedOutputTensor(name="q")]), "INVALID_ARGUMENT",
     "unexpected inference output 'q' for model 'double'"),
    (dict(parameters={"timeout": service_pb2.InferParameter(string_param="x")}), "INVALID_ARGUMENT", "'timeout'"),
    (dict(parameters={"timeout": service_pb2.InferParameter(int64_param=-1)}), "INVALID_ARGUMENT", "'timeout'"),
])
def test_mistakes(stub, change, code, words):
    got, sentence = code_of(stub.ModelInfer, request_of(**change))
    assert got.name == code and words in sentence


def test_raw_and_typed_contents_do_not_mix(stub):
    request = request_of()
    request.inputs[0].contents.fp32_contents.extend([1, 2, 3, 4])
    assert code_of(stub.ModelInfer, request)[0] == grpc.StatusCode.INVALID_ARGUMENT
    request = request_of(raw=())
    request.inputs[0].contents.fp32_contents.extend([1, 2, 3])
    assert "fewer values" in code_of(stub.ModelInfer, request)[1]
    request.inputs[0].contents.fp32_contents.extend([4, 5])
    assert "more values" in code_of(stub.ModelInfer, request)[1]


def test_tensors_without_elements(tmp_path):
    """They need no contents, whether all inputs are empty or one of them."""
    save_model(tmp_path, "joined", [helper.make_node("Concat", ["a", "b"], ["y"], axis=1)],
               [("a", TensorProto.FLOAT, ["N", "A"]), ("b", TensorProto.FLOAT, ["N", "B"])],
               [("y", TensorProto.FLOAT, ["N", "C"])])
    (tmp_path / "joined" / "symphony.yaml").write_text("max_batch: 1\nslo_ms: 60000\n")

    def ask(stub, *inputs):
        request = service_pb2.ModelInferRequest(model_name="joined")
        for name, values in inputs:
            request.inputs.add(name=name, datatype="FP32", shape=(1, len(values)))
            if values:
                request.inputs[-1].contents.fp32_contents.extend(values)
        answer = stub.ModelInfer(request)
        assert list(answer.outputs[0].shape) == [1, sum(len(values) for _, values in inputs)]
        return np.frombuffer(answer.raw_output_contents[0], np.float32).tolist()
    with Server("--repository", str(tmp_path)) as running, channel_to(running) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        assert ask(stub, ("a", []), ("b", [])) == []
        assert ask(stub, ("a", []), ("b", [5])) == [5] and ask(stub, ("b", []), ("a", [5, 6])) == [5, 6]


def test_missing_input(stub):
    assert "missing" in code_of(stub.ModelInfer, service_pb2.ModelInferRequest(model_name="double"))[1]


def test_not_protobuf(server):
    with channel_to(server) as channel:
        infer = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        for body in (b"\xff", b"\x0a\xff", b"\x0a\x01", b"\x0a\x06double\x2a\x02\x0a\x05", b"\x3a\xff\xff\xff\xff\x0f"):
            assert code_of(infer, body)[0] == grpc.StatusCode.INVALID_ARGUMENT
        assert code_of(infer, b"")[0] == grpc.StatusCode.NOT_FOUND  # an empty request names no model
        metadata = channel.unary_unary("/inference.GRPCInferenceService/ModelMetadata")
        assert code_of(metadata, b"\x0a\x05x")[0] == grpc.StatusCode.INVALID_ARGUMENT


# ---- many at once ----

def test_concurrent_requests_on_one_connection(client):
    answers = queue.Queue()
    for i in range(300):
        array = np.full((1 + i % 3, 4), i, np.float32)
        client.async_infer("double", [tensor("x", array)], request_id=str(i),
                           callback=lambda result, error: answers.put((result, error)))
    seen = set()
    for _ in range(300):
        result, error = answers.get(timeout=600)
        assert error is None
        i = int(result.get_response().id)
        seen.add(i)
        assert np.all(result.as_numpy("y") == 2 * i)
    assert len(seen) == 300


# ---- shared memory ----

def fails(code, words, call, *args, **kwargs):
    with pytest.raises(InferenceServerException) as failed:
        call(*args, **kwargs)
    assert failed.value.status() == f"StatusCode.{code}" and words in failed.value.message()


def shared_infer(client, handle, request_id="", **places):
    """double, from the region `in` to the region `out`."""
    given, wanted = triton.InferInput("x", [2, 4], "FP32"), triton.InferRequestedOutput("y")
    given.set_shared_memory("in", places.get("in_bytes", 32), places.get("in_offset", 0))
    wanted.set_shared_memory("out", places.get("out_bytes", 32), places.get("out_offset", 0))
    return client.infer("double", [given], outputs=[wanted], request_id=request_id)


def test_shared_memory(client):
    array = np.arange(8, dtype=np.float32).reshape(2, 4)
    with region(client, "in", 64) as (sent, _), region(client, "out", 64, offset=32) as (got, key):
        status = client.get_system_shared_memory_status().regions
        assert set(status) == {"in", "out"} and (status["out"].key, status["out"].offset) == (key, 32)
        assert status["out"].byte_size == 64
        shared_memory.set_shared_memory_region(sent, [np.zeros(8, np.float32), array])
        result = shared_infer(client, got, in_offset=32, out_offset=16)
        output = result.get_output("y")
        assert output.parameters["shared_memory_region"].string_param == "out"
        assert output.parameters["shared_memory_byte_size"].int64_param == 32
        assert output.parameters["shared_memory_offset"].int64_param == 16
        assert np.array_equal(shared_memory.get_contents_as_numpy(got, np.float32, [2, 4], offset=48), 2 * array)
        with pytest.raises(InferenceServerException) as failed:
            client.register_system_shared_memory("in", key, 64)
        assert failed.value.status() == "StatusCode.ALREADY_EXISTS"
    assert not client.get_system_shared_memory_status().regions
    with pytest.raises(InferenceServerException) as failed:
        client.get_system_shared_memory_status("in")
    assert failed.value.status() == "StatusCode.NOT_FOUND"


def test_shared_memory_beside_raw(client):
    """An output in shared memory leaves the others' raw contents in their places."""
    arrays = {name: np.array([values], dtype) for name, (_, dtype, values) in TYPES.items()}
    with region(client, "out", 64) as (got, _):
        wanted = [triton.InferRequestedOutput("out_FP32"), triton.InferRequestedOutput("out_INT64")]
        wanted[0].set_shared_memory("out", 8)
        result = client.infer("echo", [tensor(f"in_{n}", a, n) for n, a in arrays.items()], outputs=wanted)
        assert np.array_equal(result.as_numpy("out_INT64"), arrays["INT64"])
        assert np.array_equal(shared_memory.get_contents_as_numpy(got, np.float32, [1, 2]), arrays["FP32"])


def test_shared_memory_mistakes(client):
    fails("INVALID_ARGUMENT", "Unable to open shared memory region: '/symphony-none'", client.register_system_shared_memory, "r", "/symphony-none", 64)
    fails("INVALID_ARGUMENT", "Unable to open shared memory region", client.register_system_shared_memory, "r", "/../../etc/passwd", 64)
    fails("INVALID_ARGUMENT", "1 to 255", client.register_system_shared_memory, "r" * 300, "/x", 64)
    with region(client, "in", 64) as (sent, key):
        fails("INVALID_ARGUMENT", "fewer than", client.register_system_shared_memory, "r", key, 65)
        fails("INVALID_ARGUMENT", "fewer than", client.register_system_shared_memory, "r", key, 64, offset=2**63)
        fails("NOT_FOUND", "Unable to find shared memory region: 'out'", shared_infer, client, None)
        with region(client, "out", 64) as (got, _):
            fails("INVALID_ARGUMENT", "input byte size mismatch for input 'x' for model 'double'. Expected 32, got 16", shared_infer, client, got, in_bytes=16)
            fails("INVALID_ARGUMENT", "Invalid offset + byte size for shared memory region: 'in'", shared_infer, client, got, in_offset=33)
            fails("INVALID_ARGUMENT", "does not fit into 31", shared_infer, client, got, out_bytes=31)
            os.truncate("/dev/shm" + key, 16)  # not the end of the server
            fails("INVALID_ARGUMENT", "shorter than it was", shared_infer, client, got)
            os.truncate("/dev/shm" + key, 64)
            assert shared_infer(client, got).get_output("y") is not None


def test_shared_memory_is_off_unless_asked_for(slow):
    with triton.InferenceServerClient(f"127.0.0.1:{slow.grpc_port}") as refused:
        fails("UNIMPLEMENTED", "--shared-memory", refused.register_system_shared_memory, "r", "/x", 64)
        fails("UNIMPLEMENTED", "--shared-memory", refused.get_system_shared_memory_status)
        refused.unregister_system_shared_memory()  # there are none
        assert "system_shared_memory" not in refused.get_server_metadata().extensions


def test_shared_memory_is_for_this_machine(slow_scenario):
    """A client that comes over another address than loopback can neither register memory nor use what is registered."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as route:
        try:
            route.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            pytest.skip("the machine has no address but loopback")
        address = route.getsockname()[0]
    with Server("--scenario", str(slow_scenario), "--shared-memory-prefix", "symphony-test", "--host", "0.0.0.0") as running, \
            triton.InferenceServerClient(f"127.0.0.1:{running.grpc_port}") as near, \
            triton.InferenceServerClient(f"{address}:{running.grpc_port}") as far:
        fails("INVALID_ARGUMENT", "'/symphony-test'", near.register_system_shared_memory, "r", "/other", 64)
        with region(near, "r", 64):
            assert "system_shared_memory" in near.get_server_metadata().extensions
            fails("PERMISSION_DENIED", "loopback", far.register_system_shared_memory, "s", "/x", 64)
            fails("PERMISSION_DENIED", "loopback", far.get_system_shared_memory_status)
            fails("PERMISSION_DENIED", "loopback", far.unregister_system_shared_memory)
            given = triton.InferInput("INPUT", [1, 1], "FP32")
            given.set_shared_memory("r", 4)
            fails("PERMISSION_DENIED", "loopback", far.infer, "slow", [given])
            status, _, answer = http_request(running.port, "POST", "/v2/systemsharedmemory/region/s/register",
                                            '{"key":"/x","byte_size":1}', host=address)
            assert status == 403 and b"loopback" in answer
            assert len(near.get_system_shared_memory_status().regions) == 1


# ---- streams ----

class Stream:
    """A ModelStreamInfer of the Triton client; answers come in a queue."""

    def __init__(self, server):
        self.client = triton.InferenceServerClient(f"127.0.0.1:{server.grpc_port}")
        self.answers = queue.Queue()
        self.client.start_stream(callback=lambda result, error: self.answers.put((result, error)))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.stop_stream()
        self.client.close()

    def infer(self, model, array, **more):
        self.client.async_stream_infer(model, [tensor("x", array)], **more)

    def next(self):
        return self.answers.get(timeout=600)


def test_stream_answers_in_order(server):
    with Stream(server) as stream:
        for i in range(1000):
            stream.infer("double" if i % 2 else "root", np.full((1, 4 if i % 2 else 1), i, np.float32), request_id=str(i))
        for i in range(1000):
            result, error = stream.next()
            assert error is None
            response = result.get_response()
            assert response.id == str(i) and response.parameters["triton_final_response"].bool_param
            assert np.allclose(result.as_numpy("y"), 2 * i if i % 2 else np.sqrt(i))


def test_stream_goes_on_after_a_mistake(server):
    with Stream(server) as stream:
        stream.infer("double", X, request_id="1")
        stream.infer("none", X, request_id="2")
        stream.infer("double", np.zeros((1, 5), np.float32), request_id="3")
        stream.infer("double", X, request_id="4", enable_empty_final_response=True)
        answers = [stream.next() for _ in range(4)]
        assert [error is None for _, error in answers] == [True, False, False, True]
        assert "Request for unknown model: 'none' is not found" in str(answers[1][1]) and "unexpected shape for input" in str(answers[2][1])


def test_a_stream_goes_on_after_names_of_any_length(server):
    """A sentence may end in the middle of what it quotes; a message of protobuf holds nothing but UTF-8."""
    with Stream(server) as stream:
        for pad in range(3):
            stream.infer("x" * pad + "\u20ac" * 100, X)
        stream.infer("double", X)
        for _ in range(3):
            assert "Request for unknown model: 'x" in str(stream.next()[1]).replace("'\u20ac", "'x")
        assert stream.next()[1] is None


def test_empty_and_broken_streams(server):
    with channel_to(server) as channel:
        stream = channel.stream_stream("/inference.GRPCInferenceService/ModelStreamInfer")
        assert list(stream(iter(()))) == []
        good = request_of().SerializeToString()
        got = stream(iter([good, b"\xff\xff", good]))
        answer = service_pb2.ModelStreamInferResponse.FromString(next(got))
        assert answer.infer_response.raw_output_contents[0] == (2 * X).tobytes()
        with pytest.raises(grpc.RpcError) as failed:
            next(got)
        assert failed.value.code() == grpc.StatusCode.INVALID_ARGUMENT


def test_stream_held_open_while_the_server_ends(slow_scenario):
    with Server("--scenario", str(slow_scenario)) as running, Stream(running) as stream:
        stream.infer("none", X)
        assert stream.next()[1] is not None
        assert running.stop() == 0
        assert "UNAVAILABLE" in str(stream.next()[1])


# ---- deadlines and cancellation ----

SLOW = dict(model="slow", shape=(1, 1), raw=(bytes(4),), name="INPUT")


def outcomes(server, outcome):
    return server.metrics()[f'symphony_requests_total{{model="slow",version="1",outcome="{outcome}"}}']


def test_client_deadline(slow):
    with channel_to(slow) as channel:
        infer = service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer
        assert code_of(infer, request_of(**SLOW), timeout=SLOW_RUN_S / 2)[0] == grpc.StatusCode.DEADLINE_EXCEEDED
        assert infer(request_of(**SLOW), timeout=600).model_name == "slow"


def test_a_deadline_that_cannot_be_met_is_refused_at_once(stuck):
    """Not when it has come, in ten minutes: the clients wait for one."""
    with Wire(stuck) as wire:  # a client that does not give up by itself
        wire.call("ModelInfer", frame(request_of(**SLOW).SerializeToString()), [("grpc-timeout", f"{STUCK_RUN_S}S")])
        trailers = wire.trailers()
        assert trailers["grpc-status"] == "4" and "within its deadline of" in trailers["grpc-message"]
    with channel_to(stuck) as channel:
        infer = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        request = request_of(**SLOW, parameters={"timeout": service_pb2.InferParameter(int64_param=STUCK_RUN_S * 10**6)})
        code, sentence = code_of(infer, request.SerializeToString())
        assert code == grpc.StatusCode.UNAVAILABLE and "within its deadline of 600000 ms" in sentence


def queued(server):
    return server.metrics()['symphony_queued_requests{model="slow",version="1"}']


def test_cancelled_requests_are_not_run(stuck):
    with channel_to(stuck) as channel:
        infer = service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer
        running = infer.future(request_of(**SLOW))
        wait_until(lambda: stuck.metrics()["symphony_grants_total"] == 1)
        waiting = [infer.future(request_of(**SLOW)) for _ in range(20)]
        wait_until(lambda: queued(stuck) == 20)
        for call in waiting:
            call.cancel()
        wait_until(lambda: outcomes(stuck, "cancelled") == 20)
        assert stuck.metrics()['symphony_grpc_calls_total{code="CANCELLED"}'] == 20
        wait_until(lambda: queued(stuck) == 0 and stuck.metrics()["symphony_requests_in_flight"] == 1)
        assert not running.done() and stuck.metrics()["symphony_grants_total"] == 1


def test_a_closed_connection_cancels(stuck):
    with channel_to(stuck, use_local_subchannel_pool=1) as channel:
        infer = service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer
        calls = [infer.future(request_of(**SLOW))]
        wait_until(lambda: stuck.metrics()["symphony_grants_total"] == 1)
        calls += [infer.future(request_of(**SLOW)) for _ in range(4)]
        wait_until(lambda: queued(stuck) == 4)
        assert not any(call.done() for call in calls)
    wait_until(lambda: outcomes(stuck, "cancelled") == 4)
    wait_until(lambda: queued(stuck) == 0)


# ---- compression ----

@pytest.mark.parametrize("algorithm", ["gzip", "deflate"])
def test_compressed_requests(client, algorithm):
    assert np.array_equal(client.infer("double", [tensor("x", X)], compression_algorithm=algorithm).as_numpy("y"), 2 * X)
    zeros = np.zeros((4, 150528), np.float32)
    assert np.array_equal(client.infer("wide", [tensor("x", zeros)], compression_algorithm=algorithm).as_numpy("y"), zeros)


@pytest.mark.parametrize("accepted, encoding", [("identity,deflate,gzip", "gzip"), ("deflate", "deflate"),
                                                ("identity", None), (None, None)])
def test_compressed_answers(packing, accepted, encoding):
    zeros = np.zeros((1, 150528), np.float32)
    request = request_of(model="wide", shape=zeros.shape, raw=(zeros.tobytes(),)).SerializeToString()
    with Wire(packing) as wire:
        wire.send(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1 << 24))
        wire.send(SETTINGS, 0, 0, struct.pack(">HI", 4, 1 << 24))
        wire.send(SETTINGS, ACK, 0)
        stream = wire.open("ModelInfer", (("grpc-accept-encoding", accepted),) if accepted else ())
        message = frame(request)
        for at in range(0, len(message), 16384):
            wire.send(DATA, END_STREAM if at + 16384 >= len(message) else 0, stream, message[at:at + 16384])
        headers, body = {}, b""
        for kind, flags, number, payload in wire.frames():
            if kind == HEADERS:
                headers |= dict(wire.decoder.decode(payload))
            elif kind == DATA:
                body += payload
            if number == stream and flags & END_STREAM:
                break
    assert headers["grpc-status"] == "0" and headers.get("grpc-encoding") == encoding
    assert body[0] == (encoding is not None) and int.from_bytes(body[1:5], "big") == len(body) - 5
    unpack = {"gzip": gzip.decompress, "deflate": zlib.decompress, None: bytes}[encoding]
    answer = service_pb2.ModelInferResponse.FromString(unpack(body[5:]))
    assert answer.raw_output_contents[0] == (-zeros).tobytes() and (encoding is None or len(body) < 10000)


def test_compressed_answers_to_the_client(packing):
    """Answers that are too short to compress among those that are not, unary and in a stream."""
    zeros = np.zeros((2, 150528), np.float32)
    with triton.InferenceServerClient(f"127.0.0.1:{packing.grpc_port}") as client:
        assert np.array_equal(client.infer("wide", [tensor("x", zeros)]).as_numpy("y"), -zeros)
        assert np.array_equal(client.infer("double", [tensor("x", X)]).as_numpy("y"), 2 * X)
        answers = queue.Queue()
        client.start_stream(lambda result, error: answers.put((result, error)))
        for model, array in (("wide", zeros), ("double", X), ("wide", zeros)):
            client.async_stream_infer(model, [tensor("x", array)])
        for wanted in (-zeros, 2 * X, -zeros):
            result, error = answers.get(timeout=600)
            assert error is None and np.array_equal(result.as_numpy("y"), wanted)
        client.stop_stream()


def test_compressed_nonsense(server):
    gzip_header = (("grpc-encoding", "gzip"),)
    for metadata, flag, body, code in (((), 1, b"abc", "INVALID_ARGUMENT"), (gzip_header, 1, b"abc", "INVALID_ARGUMENT"),
                                       ((("grpc-encoding", "snappy"),), 1, b"abc", "UNIMPLEMENTED"),
                                       (gzip_header, 2, b"abc", "INVALID_ARGUMENT")):
        with Wire(server) as wire:
            wire.call("ModelInfer", frame(body, flag), metadata)
            assert wire.trailers()["grpc-status"] == str(grpc.StatusCode[code].value[0])


# ---- limits ----

def test_too_long_a_message(repository):
    with Server("--repository", str(repository), "--body-max-mib", "1", "--slo-ms", "60000") as running, \
            channel_to(running) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        for size in (2 << 20, 40 << 20):
            code, sentence = code_of(stub.ModelInfer, request_of(raw=(bytes(size),)))
            assert code == grpc.StatusCode.RESOURCE_EXHAUSTED and "more than 1048576: --body-max-mib" in sentence
        code, _ = code_of(stub.ModelMetadata, service_pb2.ModelMetadataRequest(name="x" * 70000))
        assert code == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert stub.ModelInfer(request_of()).model_name == "double"


def test_many_connections(server):
    with contextlib.ExitStack() as stack:
        for _ in range(50):
            channel = stack.enter_context(channel_to(server, use_local_subchannel_pool=1))
            assert service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(request_of()).id == ""
        assert server.metrics()["symphony_grpc_connections"] >= 50
    wait_until(lambda: server.metrics()["symphony_grpc_connections"] < 10)


# ---- by hand: HTTP/2 as no client speaks it ----

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, END_HEADERS, ACK = 1, 4, 1


def frame(body, flag=0):
    return struct.pack(">BI", flag, len(body)) + body


class Wire:
    """A connection that sends frames, and reads those of the server."""

    def __init__(self, server, port=None):
        self.socket = socket.create_connection(("127.0.0.1", port or server.grpc_port), timeout=600)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""
        self.stream = -1
        self.encoder, self.decoder = hpack.Encoder(), hpack.Decoder()
        self.socket.sendall(PREFACE)
        self.send(SETTINGS, 0, 0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, kind, flags, stream, payload=b""):
        self.socket.sendall(struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload)

    def open(self, method, metadata=(), path=None, verb="POST", kind="application/grpc", flags=END_HEADERS):
        self.stream += 2
        headers = [(":method", verb), (":scheme", "http"), (":authority", "x"),
                   (":path", path or "/inference.GRPCInferenceService/" + method), ("content-type", kind),
                   ("te", "trailers"), *metadata]
        self.send(HEADERS, flags, self.stream, self.encoder.encode(headers))
        return self.stream

    def call(self, method, data, metadata=(), **more):
        self.open(method, metadata, **more)
        self.send(DATA, END_STREAM, self.stream, data)

    def frames(self):
        """Frames until the server closes; empty payloads of settings and windows are left out."""
        while True:
            while len(self.buffer) < 9 or len(self.buffer) < 9 + int.from_bytes(self.buffer[:3], "big"):
                try:
                    more = self.socket.recv(65536)
                except ConnectionResetError:
                    return
                if not more:
                    return
                self.buffer += more
            length = int.from_bytes(self.buffer[:3], "big")
            kind, flags, stream = struct.unpack(">BBI", self.buffer[3:9])
            payload, self.buffer = self.buffer[9:9 + length], self.buffer[9 + length:]
            yield kind, flags, stream, payload

    def frames_for(self, seconds):
        """What comes within the time."""
        self.socket.settimeout(seconds)
        with contextlib.suppress(TimeoutError):
            yield from self.frames()

    def trailers(self):
        """The headers that end the present call."""
        for kind, flags, stream, payload in self.frames():
            if kind != HEADERS:
                continue
            headers = dict(self.decoder.decode(payload))
            if stream == self.stream and flags & END_STREAM:
                return headers
        raise AssertionError("the connection was closed without trailers")

    def closes(self):
        """The error code of the GOAWAY that the server closes with; None: it closes without."""
        code = None
        for kind, _, _, payload in self.frames():
            if kind == GOAWAY:
                code = int.from_bytes(payload[4:8], "big")
        return code


def test_statuses_of_what_is_no_grpc(server):
    with Wire(server) as wire:
        wire.call("ModelInfer", b"{}", kind="application/json")
        assert wire.trailers()[":status"] == "415"
        wire.open("ModelInfer", verb="GET", flags=END_HEADERS | END_STREAM)
        assert wire.trailers()[":status"] == "405"
        wire.call("ServerLive", frame(b""), kind="application/grpc+proto")
        assert wire.trailers()["grpc-status"] == "0"
        wire.call("ServerLive", frame(b""), [("grpc-timeout", "soon")])
        assert wire.trailers()["grpc-status"] == "3"


def test_wrong_framing(server):
    good = frame(request_of().SerializeToString())
    with Wire(server) as wire:
        for data in (b"", b"\0\0", good[:-1], good + good, good + b"\0", frame(b"", 7), b"\0\xff\xff\xff\xff" + b"x" * 100):
            wire.call("ModelInfer", data)
            assert wire.trailers()["grpc-status"] in ("3", "8")
        wire.call("ModelInfer", good)
        assert wire.trailers()["grpc-status"] == "0"


def test_a_message_in_small_pieces(server):
    good = frame(request_of().SerializeToString())
    with Wire(server) as wire:
        wire.open("ModelInfer")
        for i in range(len(good)):
            wire.send(DATA, 0, wire.stream, good[i:i + 1])
        wire.send(DATA, END_STREAM, wire.stream)
        assert wire.trailers()["grpc-status"] == "0"


def test_pings_are_answered(server):
    with Wire(server) as wire:
        wire.send(PING, 0, 0, b"12345678")
        assert next(f for f in wire.frames() if f[0] == PING)[1:] == (ACK, 0, b"12345678")


@pytest.mark.parametrize("attack", [
    lambda wire: wire.socket.sendall(b"\xff" * 1000),
    lambda wire: wire.send(HEADERS, END_HEADERS, 2, b""),               # an even stream
    lambda wire: wire.send(DATA, 0, 99, b"x"),                          # a stream that is not open
    lambda wire: wire.send(WINDOW_UPDATE, 0, 0, bytes(4)),              # by nothing
    lambda wire: wire.send(HEADERS, END_HEADERS, 1, b"\xff" * 100),     # no HPACK
    lambda wire: [wire.send(HEADERS, 0, 1, b"")] + [wire.send(9, 0, 1, b"\x00\x01a\x01b" * 10) for _ in range(100)],
])
def test_attacks_end_in_goaway(server, attack):
    with Wire(server) as wire:
        with contextlib.suppress(OSError):
            attack(wire)
        assert wire.closes() != 0
    with Wire(server) as wire:
        wire.call("ServerLive", frame(b""))
        assert wire.trailers()["grpc-status"] == "0"


def test_not_http2(server):
    for line in (b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x02\x00", bytes(100)):
        with socket.create_connection(("127.0.0.1", server.grpc_port), timeout=600) as plain:
            plain.sendall(line)
            plain.shutdown(socket.SHUT_WR)
            while plain.recv(1000):
                pass


def test_too_many_headers(server):
    with Wire(server) as wire:
        wire.open("ServerLive", [(f"x-{i}", "v" * 100) for i in range(150)])  # 20 KB: fits
        wire.send(DATA, END_STREAM, wire.stream, frame(b""))
        assert wire.trailers()["grpc-status"] == "0"
    with Wire(server) as wire:
        wire.open("ServerLive", [("x", "v")] * 8000 + [("y", "w")])  # 8 KB on the wire
        assert wire.trailers()["grpc-status"] == "8"


def test_resets_and_streams_at_once(server):
    """Streams that are opened and reset at once must not stay."""
    with Wire(server) as wire:
        good = frame(request_of().SerializeToString())
        for _ in range(3000):
            stream = wire.open("ModelInfer")
            wire.send(DATA, END_STREAM, stream, good)
            wire.send(RST_STREAM, 0, stream, struct.pack(">I", 8))
        wire.call("ModelInfer", good)
        assert wire.trailers()["grpc-status"] == "0"
    wait_until(lambda: server.metrics()["symphony_requests_in_flight"] == 0)


# ---- by hand: more on a stream than may be under way ----

STREAM_MOST = 1024  # docs/security.md


class Flood:
    """A stream that sends all its messages at once, as no client written in Python can."""

    def __init__(self, wire, messages, end=True):
        self.wire, self.messages = wire, messages
        wire.send(SETTINGS, 0, 0, struct.pack(">HI", 4, 2**31 - 1))  # windows for all answers
        wire.send(WINDOW_UPDATE, 0, 0, struct.pack(">I", 2**30))
        wire.send(SETTINGS, ACK, 0)  # from here on the server's own are in force
        wire.open("ModelStreamInfer")
        data = b"".join(map(frame, messages))
        pieces = [data[at:at + 16384] for at in range(0, len(data), 16384)]
        self.sender = threading.Thread(target=self.send, args=(pieces, end))
        self.sender.start()

    def send(self, pieces, end):
        with contextlib.suppress(OSError):
            for i, piece in enumerate(pieces):
                self.wire.send(DATA, END_STREAM if end and i == len(pieces) - 1 else 0, self.wire.stream, piece)

    def answers(self):
        """All of them, and the trailers."""
        data, trailers = b"", None
        for kind, flags, _, payload in self.wire.frames():
            data += payload if kind == DATA else b""
            if kind == HEADERS:
                trailers = dict(self.wire.decoder.decode(payload))
                if flags & END_STREAM:
                    break
        self.sender.join()
        answers, at = [], 0
        while at < len(data):
            size = struct.unpack(">I", data[at + 1:at + 5])[0]
            answers.append(service_pb2.ModelStreamInferResponse.FromString(data[at + 5:at + 5 + size]))
            at += 5 + size
        return answers, trailers


def test_a_stream_may_send_any_number_at_once(server):
    count = 20000  # more than requests there may be
    messages = [request_of("double" if i % 3 else "none", id=str(i)).SerializeToString() for i in range(count)]
    with Wire(server) as wire:
        answers, trailers = Flood(wire, messages).answers()
    assert trailers["grpc-status"] == "0" and len(answers) == count
    for i, answer in enumerate(answers):
        assert answer.infer_response.id == str(i) and bool(answer.error_message) == (i % 3 == 0)


@pytest.mark.parametrize("last, status, words", [
    (b"\xff\xff", "3", "not valid protobuf"), (None, "3", "ended within a message")])
def test_a_stream_that_ends_badly_is_answered_so_far(server, last, status, words):
    good = [request_of().SerializeToString()] * 5000
    with Wire(server) as wire:
        flood = Flood(wire, good + [last] if last else good, end=last is not None)
        if last is None:
            flood.sender.join()
            wire.send(DATA, END_STREAM, wire.stream, frame(good[0])[:-1])
        answers, trailers = flood.answers()
    assert len(answers) == len(good) and trailers["grpc-status"] == status and words in trailers["grpc-message"]


@pytest.mark.parametrize("leave", [
    lambda wire: wire.send(RST_STREAM, 0, wire.stream, struct.pack(">I", 8)), lambda wire: wire.socket.close()])
def test_a_stream_leaves_room_for_others(stuck, leave):
    """And what it sent too much of goes with it."""
    message = request_of(**SLOW).SerializeToString()
    in_flight = lambda: stuck.metrics()["symphony_requests_in_flight"]
    with Wire(stuck) as wire:
        flood = Flood(wire, [message] * 20000)
        wait_until(lambda: in_flight() == STREAM_MOST)
        flood.sender.join()
        with Wire(stuck) as other:
            other.call("ModelInfer", frame(message), [("grpc-timeout", "1n")])
            assert other.trailers()["grpc-status"] == "4"  # and not that there are too many
        wait_until(lambda: in_flight() == STREAM_MOST)
        leave(wire)
        wait_until(lambda: queued(stuck) == 0 and in_flight() < STREAM_MOST)


def test_what_a_stream_sent_too_much_does_not_hold_up_the_end(slow_scenario):
    with Server("--scenario", str(slow_scenario), "--drain-timeout", "1") as running, Wire(running) as wire:
        flood = Flood(wire, [request_of(**SLOW).SerializeToString()] * 60000)
        wait_until(lambda: running.metrics()["symphony_requests_in_flight"] >= STREAM_MOST)
        flood.sender.join()
        assert running.stop() == 1  # requests were cut off


def test_more_streams_than_may_be(slow):
    with Wire(slow) as wire:
        for _ in range(1100):
            wire.open("ModelInfer")
        refused = (payload for kind, _, _, payload in wire.frames() if kind == RST_STREAM)
        assert {next(refused) for _ in range(76)} == {struct.pack(">I", 7)}


def test_a_client_that_does_not_read(server):
    """Its answers wait in the outputs; others are served."""
    array = np.ones((8, 150528), np.float32)
    with Wire(server) as wire:
        wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        wire.send(WINDOW_UPDATE, 0, 0, struct.pack(">I", 2**31 - 65536))
        wire.send(SETTINGS, 0, 0, struct.pack(">HI", 4, 2**31 - 1))
        message = frame(request_of(model="wide", shape=array.shape, raw=(array.tobytes(),)).SerializeToString())
        for _ in range(2):
            stream = wire.open("ModelInfer")
            for at in range(0, len(message), 16384):
                wire.send(DATA, END_STREAM if at + 16384 >= len(message) else 0, stream, message[at:at + 16384])
        with Wire(server) as other:
            other.call("ModelInfer", frame(request_of().SerializeToString()))
            assert other.trailers()["grpc-status"] == "0"
    wait_until(lambda: server.metrics()["symphony_requests_in_flight"] == 0)


# ---- the end ----

def test_draining_finishes_what_is_under_way(slow_scenario):
    with Server("--scenario", str(slow_scenario)) as running:
        with triton.InferenceServerClient(f"127.0.0.1:{running.grpc_port}") as draining:
            answers = queue.Queue()
            draining.async_infer("slow", [tensor("INPUT", np.zeros((1, 1), np.float32))],
                                 callback=lambda result, error: answers.put(error))
            wait_until(lambda: running.metrics()["symphony_grants_total"] == 1)
            running.process.send_signal(signal.SIGTERM)
            assert answers.get(timeout=600) is None
            assert running.process.wait(600) == 0


def test_draining_servers_are_alive_and_not_ready(slow_scenario):
    with Server("--scenario", str(slow_scenario), "--drain-grace", "60") as running:
        with triton.InferenceServerClient(f"127.0.0.1:{running.grpc_port}") as draining:
            assert draining.is_server_ready()
            running.process.send_signal(signal.SIGTERM)
            wait_until(lambda: not draining.is_server_ready())
            assert draining.is_server_live()
            draining.infer("slow", [tensor("INPUT", np.zeros((1, 1), np.float32))])


# ---- answers that go out from where the engine left them ----

def wide_request(seed):
    array = np.random.default_rng(seed).random((1, 150528), np.float32)
    return request_of(model="wide", shape=array.shape, raw=[array.tobytes()]), (-array).tobytes()


def test_large_answers_beside_each_other(server):
    pairs = [wide_request(seed) for seed in range(24)]
    with channel_to(server) as one, channel_to(server, use_local_subchannel_pool=1) as two:
        stubs = [service_pb2_grpc.GRPCInferenceServiceStub(channel) for channel in (one, two)]
        calls = [stubs[i % 2].ModelInfer.future(request) for i, (request, _) in enumerate(pairs)]
        for call, (_, wanted) in zip(calls, pairs):
            assert call.result().raw_output_contents[0] == wanted


def test_large_answers_of_a_stream(stub):
    pairs = [wide_request(seed) for seed in range(12)]
    small = request_of()
    asked = [request for pair in pairs for request in (pair[0], small)]
    answers = [answer.infer_response.raw_output_contents[0] for answer in stub.ModelStreamInfer(iter(asked))]
    assert answers[::2] == [wanted for _, wanted in pairs] and answers[1::2] == [(2 * X).tobytes()] * len(pairs)


def test_clients_that_leave_within_a_large_answer(server, stub):
    request, wanted = wide_request(1)
    for seconds in (0, 0.001, 0.003, 0.01):
        with channel_to(server, use_local_subchannel_pool=1) as channel:
            leaving = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            calls = [leaving.ModelInfer.future(request) for _ in range(16)]
            time.sleep(seconds)
            for call in calls[::2]:
                call.cancel()
            for call in calls[1::2]:
                assert call.result().raw_output_contents[0] == wanted
            calls = [leaving.ModelInfer.future(request) for _ in range(8)]
            time.sleep(seconds)
        del calls
    assert stub.ModelInfer(request).raw_output_contents[0] == wanted


def test_a_client_that_reads_slowly_gets_all_of_a_large_answer(server):
    request, wanted = wide_request(2)
    message = request.SerializeToString()
    data = b"\0" + struct.pack(">I", len(message)) + message
    encoder = hpack.Encoder()

    def frame(kind, flags, stream, body):
        return struct.pack(">I", len(body))[1:] + struct.pack(">BBI", kind, flags, stream) + body

    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(600)
        connection.connect(("127.0.0.1", server.grpc_port))
        # windows that hold all answers, so that it is the socket that is full
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, struct.pack(">HI", 4, 2**31 - 1)) +
                           frame(4, 1, 0, b"") + frame(8, 0, 0, struct.pack(">I", 2**31 - 1 - 65535)))
        answers = {stream: b"" for stream in (1, 3, 5, 7)}
        for stream in answers:
            connection.sendall(frame(1, 4, stream, encoder.encode([
                (":method", "POST"), (":scheme", "http"), (":path", "/inference.GRPCInferenceService/ModelInfer"),
                (":authority", "x"), ("content-type", "application/grpc"), ("te", "trailers")])))
            for at in range(0, len(data), 16384):
                connection.sendall(frame(0, int(at + 16384 >= len(data)), stream, data[at:at + 16384]))
        time.sleep(0.5)  # the answers are there, and the socket is full
        file, left = connection.makefile("rb"), set(answers)
        while left:
            length, kind, flags, stream = struct.unpack(">IBBI", b"\0" + file.read(9))
            body = file.read(length)
            assert kind != 3 and kind != 7  # no reset, no good-bye
            if kind == 0:
                answers[stream] += body
            elif kind == 1 and flags & 1:
                left.remove(stream)
    for answer in answers.values():
        assert service_pb2.ModelInferResponse.FromString(answer[5:]).raw_output_contents[0] == wanted
