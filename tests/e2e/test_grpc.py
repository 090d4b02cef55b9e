"""test_grpc.py - the gRPC frontend from outside: the unmodified Triton client, and gRPC calls of every wrong kind."""
# sanitizers: yes

import contextlib
import os
import queue
import signal
import socket
import struct
import threading
import time

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException

from repository import SLOW_RUN_S, TYPES, repository, slow_scenario, wait_until  # noqa: F401 (fixtures)
from server import Server


@pytest.fixture(scope="module")
def server(repository):
    with Server("--repository", str(repository), "--slo-ms", "10000") as running:
        yield running


@pytest.fixture(scope="module")
def slow(slow_scenario):
    with Server("--scenario", str(slow_scenario)) as running:
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
    assert failed.value.status() == "StatusCode.NOT_FOUND" and failed.value.message() == "there is no model 'none'"


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


def test_what_is_not_served_says_so(server, stub):
    with channel_to(server) as channel:
        for path in ("/inference.GRPCInferenceService/Nothing", "/other.Service/ModelInfer", "/"):
            assert code_of(channel.unary_unary(path), b"")[0] == grpc.StatusCode.UNIMPLEMENTED
    assert code_of(stub.RepositoryModelLoad, service_pb2.RepositoryModelLoadRequest(model_name="double"))[0] == \
        grpc.StatusCode.UNIMPLEMENTED


# ---- inference ----

def test_infer(client):
    result = client.infer("double", [tensor("x", X)], request_id="seven", outputs=[triton.InferRequestedOutput("y")],
                          priority=1, timeout=5_000_000, parameters={"own": "key"})
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
    (dict(model="none"), "NOT_FOUND", "there is no model 'none'"),
    (dict(model_version="9"), "NOT_FOUND", "no version 9"),
    (dict(model_version="x"), "NOT_FOUND", "no version x"),
    (dict(model="broken"), "UNAVAILABLE", "not available"),
    (dict(name="zz"), "INVALID_ARGUMENT", "unexpected input 'zz'"),
    (dict(datatype="INT32"), "INVALID_ARGUMENT", "the model expects FP32"),
    (dict(datatype="FP99"), "INVALID_ARGUMENT", "unknown datatype 'FP99'"),
    (dict(datatype="BYTES"), "UNIMPLEMENTED", "BYTES"),
    (dict(shape=(1, 5)), "INVALID_ARGUMENT", "expected the shape [-1,4]"),
    (dict(shape=(-1, 4)), "INVALID_ARGUMENT", "negative dimension -1"),
    (dict(shape=(1,) * 9), "INVALID_ARGUMENT", "more than 8 dimensions"),
    (dict(shape=(2, 4)), "INVALID_ARGUMENT", "take 32 bytes, but 16 came"),
    (dict(shape=(1 << 40, 4)), "INVALID_ARGUMENT", "expected the shape"),
    (dict(raw=()), "INVALID_ARGUMENT", "0 raw_input_contents for 1 inputs"),
    (dict(raw=(X.tobytes(), b"1")), "INVALID_ARGUMENT", "2 raw_input_contents for 1 inputs"),
    (dict(outputs=[service_pb2.ModelInferRequest.InferRequestedOutputTensor(name="q")]), "INVALID_ARGUMENT",
     "unexpected output 'q'"),
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
        result, error = answers.get(timeout=60)
        assert error is None
        i = int(result.get_response().id)
        seen.add(i)
        assert np.all(result.as_numpy("y") == 2 * i)
    assert len(seen) == 300


# ---- the end ----

def test_draining_finishes_what_is_under_way(slow_scenario):
    with Server("--scenario", str(slow_scenario), "--drain-grace", "0.5") as running:
        with triton.InferenceServerClient(f"127.0.0.1:{running.grpc_port}") as draining:
            assert draining.is_server_ready()
            answers = queue.Queue()
            draining.async_infer("slow", [tensor("INPUT", np.zeros((1, 1), np.float32))],
                                 callback=lambda result, error: answers.put(error))
            time.sleep(0.1)
            running.process.send_signal(signal.SIGTERM)
            time.sleep(0.1)
            assert not draining.is_server_ready() and draining.is_server_live()
            assert answers.get(timeout=20) is None
            assert running.process.wait(20) == 0
