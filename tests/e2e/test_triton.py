"""test_triton.py - what Triton's own examples of clients (triton-inference-server/client, src/python/examples) insist on
beyond right answers: names, sentences and codes. docs/clients.md lists the examples.
"""
# sanitizers: address thread

import contextlib
import json
import subprocess

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from onnx import TensorProto, helper
from tritonclient.utils import InferenceServerException

from repository import measure, save_model
from server import BINARY, LOAD_S, Server


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    folder = tmp_path_factory.mktemp("triton")
    names = [[f"{kind}{i}" for i in range(2)] for kind in ("INPUT", "OUTPUT")]
    tensors = [[(name, TensorProto.INT32, ["N", 16]) for name in given] for given in names]
    save_model(folder, "simple", [helper.make_node("Add", names[0], names[1][:1]),
                                  helper.make_node("Sub", names[0], names[1][1:])], *tensors)
    (folder / "simple" / "config.pbtxt").write_text("max_batch_size: 8")
    save_model(folder, "image", [helper.make_node("GlobalAveragePool", ["x"], ["y"])],
               [("x", TensorProto.FLOAT, ["N", 3, 8, 8])], [("y", TensorProto.FLOAT, ["N", 3, 1, 1])])
    (folder / "image" / "config.pbtxt").write_text(
        'max_batch_size: 4 input { name: "x" data_type: TYPE_FP32 format: FORMAT_NCHW dims: [ 3, 8, 8 ] }')
    measure(folder)
    return folder


@pytest.fixture(scope="module")
def server(repository):
    with Server("--repository", repository, "--slo-ms", "60000", "--model-control-mode", "explicit", "--load-model", "*",
                "--server-name", "triton", "--shared-memory") as running:
        yield running


@pytest.fixture(params=["http", "grpc"])
def client(request, server):
    module = getattr(tritonclient, request.param)
    port = server.port if request.param == "http" else server.grpc_port
    patience = {"connection_timeout": LOAD_S, "network_timeout": LOAD_S} if request.param == "http" else {}
    with contextlib.closing(module.InferenceServerClient(f"127.0.0.1:{port}", **patience)) as triton:
        triton.module, triton.by_grpc = module, request.param == "grpc"
        triton.as_json = {"as_json": True} if triton.by_grpc else {}
        yield triton


def fails(call, *args, **kwargs):
    """The code and the sentence of a mistake."""
    with pytest.raises(InferenceServerException) as failed:
        call(*args, **kwargs)
    return failed.value.status().removeprefix("StatusCode."), failed.value.message()


def simple_inputs(client, datatype="INT32", shape=(1, 16), names=("INPUT0", "INPUT1")):
    given = []
    for name in names:
        given.append(client.module.InferInput(name, list(shape), datatype))
        given[-1].set_data_from_numpy(np.ones(shape, {"INT32": np.int32, "INT64": np.int64}[datatype]))
    return given


def test_the_servers_name_is_an_option(client, repository):
    assert client.get_server_metadata(**client.as_json)["name"] == "triton"
    for name in ("", "\xff".encode("latin-1")):
        wrong = subprocess.run([BINARY, "serve", "--repository", str(repository), "--server-name", name], capture_output=True)
        assert wrong.returncode == 2 and b"--server-name" in wrong.stderr


def test_it_is_symphony_if_nobody_says_otherwise(scenario):
    with Server("--scenario", str(scenario)) as running:
        with contextlib.closing(tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{running.grpc_port}")) as triton:
            assert triton.get_server_metadata().name == "symphony"
        assert json.loads(running.request("GET", "/v2")[2])["name"] == "symphony"


def test_a_model_that_is_not_there(client):
    missing = ("NOT_FOUND" if client.by_grpc else "404", "Request for unknown model: 'wrong_model_name' is not found")
    assert fails(client.get_model_metadata, "wrong_model_name") == missing
    assert fails(client.get_model_config, "wrong_model_name") == missing
    assert fails(client.infer, "wrong_model_name", simple_inputs(client)) == missing
    assert fails(client.infer, "simple", simple_inputs(client), model_version="7") == (
        missing[0], "Request for unknown model: 'simple' version 7 is not found")
    assert not client.is_model_ready("wrong_model_name")


def test_mistakes_in_requests_are_told_in_tritons_words(client):
    code = "INVALID_ARGUMENT" if client.by_grpc else "400"
    cases = [
        (dict(names=("INPUT0", "zz")), "unexpected inference input 'zz' for model 'simple'"),
        (dict(datatype="INT64"), "inference input 'INPUT0' data-type is 'INT64', but model 'simple' expects 'INT32'"),
        (dict(shape=(1, 15)), "unexpected shape for input 'INPUT0' for model 'simple'. Expected [-1,16], got [1,15]"),
        (dict(shape=(9, 16)), "inference request batch-size must be <= 8 for 'simple'"),
        (dict(names=("INPUT1",)), "expected 2 inputs but got 1 inputs for model 'simple'. Got input(s) ['INPUT1'], but "
                                  "missing required input(s) ['INPUT0']. Please provide all required input(s)."),
    ]
    for wrong, sentence in cases:
        got = fails(client.infer, "simple", simple_inputs(client, **wrong))
        assert got[0] == code and got[1].startswith(sentence), got
    wanted = [client.module.InferRequestedOutput("q")]
    assert fails(client.infer, "simple", simple_inputs(client), outputs=wanted) == (
        code, "unexpected inference output 'q' for model 'simple'")


def test_shared_memory_that_is_not_there(client):
    code, sentence = fails(client.register_system_shared_memory, "r", "/symphony-none", 64)
    assert sentence.startswith("Unable to open shared memory region: '/symphony-none'")
    assert fails(client.get_system_shared_memory_status, "none") == (
        "NOT_FOUND" if client.by_grpc else "404", "Unable to find system shared memory region: 'none'")


def test_model_control(client):
    internal, wrong = ("INTERNAL", "INVALID_ARGUMENT") if client.by_grpc else ("500", "400")
    client.load_model("simple")
    code, sentence = fails(client.load_model, "simple", config='"parameters": {"config": {{"max_batch_size": "16"}}}')
    assert code == wrong and sentence.startswith("failed to load 'simple', failed to poll from model repository: ")
    client.load_model("simple", config='{"max_batch_size":"16"}')
    config = client.get_model_config("simple", **client.as_json)
    assert config.get("config", config)["max_batch_size"] == 16
    client.unload_model("simple")
    assert not client.is_model_ready("simple")
    code, sentence = fails(client.load_model, "simple", config="{}", files={"file:" + 256 * "A": b"a"})
    assert code == internal and "failed to poll from model repository" in sentence
    code, sentence = fails(client.load_model, "wrong_model_name")
    assert code == internal
    assert sentence.startswith("failed to load 'wrong_model_name', failed to poll from model repository")
    client.load_model("simple")
    assert client.is_server_live() and client.is_model_ready("simple")


def test_clients_of_images_learn_the_order_of_dimensions(client):
    config = client.get_model_config("image", **client.as_json)
    assert config.get("config", config)["input"][0]["format"] == "FORMAT_NCHW"
