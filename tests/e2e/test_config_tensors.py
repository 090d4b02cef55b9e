"""test_config_tensors.py - what config.pbtxt makes of a model's tensors, as with Triton: single numbers as [1], `reshape`, outputs
that it leaves out or orders otherwise; and models that need no input.
"""
# sanitizers: address
# sanitizers: address
import contextlib
import json
import os
import subprocess

import numpy as np
import pytest
from onnx import TensorProto, helper
from tritonclient.utils import InferenceServerException, shared_memory

from repository import measure, save_model
from server import BINARY, Server
from test_ensembles import save_ensemble, step, tensor
from test_tensors import Client, encoded

FLOAT, STRING = TensorProto.FLOAT, TensorProto.STRING


def configure(folder, name, text):
    (folder / name / "config.pbtxt").write_text(text)


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    folder = tmp_path_factory.mktemp("config-tensors")
    # s and t have no dimensions in the model
    save_model(folder, "number", [helper.make_node("Mul", ["x", "s"], ["y"]), helper.make_node("ReduceSum", ["y"], ["t"], keepdims=0)],
               [("x", FLOAT, ["N", 4]), ("s", FLOAT, [])], [("y", FLOAT, ["N", 4]), ("t", FLOAT, [])])
    configure(folder, "number", """max_batch_size: 0
        input { name: "x" data_type: TYPE_FP32 dims: [ -1, 4 ] } input { name: "s" data_type: TYPE_FP32 dims: 1 }
        output { name: "y" data_type: TYPE_FP32 dims: [ -1, 4 ] } output { name: "t" data_type: TYPE_FP32 dims: 1 }""")
    # Triton's quick start has such a model, whose batch dimension clients do not see
    save_model(folder, "densenet", [helper.make_node("GlobalAveragePool", ["data_0"], ["fc6_1"])],
               [("data_0", FLOAT, [1, 3, 8, 8])], [("fc6_1", FLOAT, [1, 3, 1, 1])])
    configure(folder, "densenet", """platform: "onnxruntime_onnx" max_batch_size: 0
        input { name: "data_0" data_type: TYPE_FP32 format: FORMAT_NCHW dims: [ 3, 8, 8 ] reshape { shape: [ 1, 3, 8, 8 ] } }
        output { name: "fc6_1" data_type: TYPE_FP32 dims: 3 reshape { shape: [ 1, 3, 1, 1 ] } label_filename: "labels.txt" }""")
    (folder / "densenet" / "labels.txt").write_text("cat\ndog\nbird\n")
    # an item of the model has no dimension
    for name, datatype, node in (("line", FLOAT, "Neg"), ("words", STRING, "Identity")):
        save_model(folder, name, [helper.make_node(node, ["x"], ["y"])], [("x", datatype, ["N"])], [("y", datatype, ["N"])])
        configure(folder, name, "max_batch_size: 8 input { name: 'x' dims: 1 reshape { shape: [] } }"
                                "output { name: 'y' dims: 1 reshape { shape: [] } }")
    # sizes of clients' dimensions are those of the model's, in order
    save_model(folder, "open", [helper.make_node("Transpose", ["x"], ["y"], perm=[0, 3, 1, 2])],
               [("x", FLOAT, ["N", "A", 2, "B"])], [("y", FLOAT, ["N", "B", "A", 2])])
    configure(folder, "open", "max_batch_size: 4 input { name: 'x' dims: [ 1, -1, 2, -1 ] reshape { shape: [ -1, 2, -1 ] } }"
                              "output { name: 'y' dims: [ -1, -1, 2, 1 ] reshape { shape: [ -1, -1, 2 ] } }")
    # outputs: some of them, in another order; the scalar, which has no batch dimension, is not among them
    save_model(folder, "some", [helper.make_node("Neg", ["x"], ["a"]), helper.make_node("Abs", ["x"], ["b"]),
                                helper.make_node("Identity", ["x"], ["c"]), helper.make_node("ReduceSum", ["x"], ["t"], keepdims=0)],
               [("x", FLOAT, ["N", 2])], [(name, FLOAT, ["N", 2]) for name in "abc"] + [("t", FLOAT, [])])
    configure(folder, "some", "max_batch_size: 4 output { name: 'c' dims: 2 } output { name: 'a' dims: 2 }")
    # no input is needed
    constant = lambda name, values: helper.make_tensor(name, FLOAT, [len(values)], values)
    save_model(folder, "constant", [helper.make_node("Neg", ["v"], ["y"])], [], [("y", FLOAT, [2])], [constant("v", [3, 4])])
    for name, config in (("unnamed", ""), ("named", "input { name: 'v' dims: 2 optional: true }")):
        save_model(folder, name, [helper.make_node("Neg", ["v"], ["y"])], [("v", FLOAT, [2])], [("y", FLOAT, [2])],
                   [constant("v", [3, 4])])
        configure(folder, name, config)
    measure(folder)
    save_ensemble(folder, "lines", 8, [tensor("input", "X", "FP32", [1]), tensor("output", "Y", "FP32", [1])],
                  [step("line", {"x": "X"}, {"y": "M"}), step("line", {"x": "M"}, {"y": "Y"})])
    return folder


@pytest.fixture(scope="module")
def server(repository):
    with Server("--repository", repository, "--slo-ms", "60000", "--shared-memory") as running:
        yield running


@pytest.fixture(scope="module", params=["http", "grpc"])
def client(request, server):
    connected = Client(server, request.param)
    with contextlib.closing(connected.triton):
        yield connected


def shapes(client, model):
    """Of its inputs and outputs, as metadata says them."""
    metadata = client.triton.get_model_metadata(model, **({"as_json": True} if client.protocol == "grpc" else {}))
    return [{t["name"]: [int(d) for d in t["shape"]] for t in metadata.get(kind, [])} for kind in ("inputs", "outputs")]


def config(client, model):
    if client.protocol == "http":
        return client.triton.get_model_config(model)
    return client.triton.get_model_config(model, as_json=True)["config"]


def refusal(client, *args, **kwargs):
    with pytest.raises(InferenceServerException) as failed:
        client.triton.infer(*args, **kwargs)
    return failed.value.message()


# ---- dims: [1], reshape ----

def test_single_numbers(client):
    assert shapes(client, "number") == [{"x": [-1, 4], "s": [1]}, {"y": [-1, 4], "t": [1]}]
    x = client.input(np.array([[1, 2, 3, 4]], np.float32), "FP32")
    answer = client.triton.infer("number", [x, client.input(np.array([2], np.float32), "FP32", name="s")])
    assert answer.as_numpy("y").tolist() == [[2, 4, 6, 8]] and answer.as_numpy("t").tolist() == [20]
    wrong = client.input(np.array([2, 3], np.float32), "FP32", name="s")
    assert "Expected [1], got [2]" in refusal(client, "number", [x, wrong])


def test_a_model_whose_batch_dimension_clients_do_not_see(client):
    assert shapes(client, "densenet") == [{"data_0": [3, 8, 8]}, {"fc6_1": [3]}]
    told = config(client, "densenet")
    assert [int(d) for d in told["input"][0]["dims"]] == [3, 8, 8]
    assert [int(d) for d in told["input"][0]["reshape"]["shape"]] == [1, 3, 8, 8]
    assert [int(d) for d in told["output"][0]["reshape"]["shape"]] == [1, 3, 1, 1]
    image = np.arange(192, dtype=np.float32).reshape(3, 8, 8)
    given = client.input(image, "FP32", name="data_0")
    assert client.triton.infer("densenet", [given]).as_numpy("fc6_1").tolist() == [31.5, 95.5, 159.5]
    best = client.module.InferRequestedOutput("fc6_1", class_count=1)
    assert client.triton.infer("densenet", [given], outputs=[best]).as_numpy("fc6_1").tolist() == [b"159.500000:2:bird"]
    batch = client.input(image[None], "FP32", name="data_0")
    assert "Expected [3,8,8], got [1,3,8,8]" in refusal(client, "densenet", [batch])


@pytest.mark.parametrize("items", [1, 3, 8])
def test_items_without_dimensions(client, items):
    assert shapes(client, "line") == [{"x": [-1, 1]}, {"y": [-1, 1]}]
    told = config(client, "line")
    assert [int(d) for d in told["input"][0]["dims"]] == [1] and not told["input"][0]["reshape"].get("shape")
    column = np.arange(items, dtype=np.float32)[:, None]
    assert np.array_equal(client.infer("line", column, "FP32"), -column)
    both = client.triton.infer("lines", [client.input(column, "FP32", name="X")])
    assert np.array_equal(both.as_numpy("Y"), column)
    words = encoded(np.array([["w" * i] for i in range(items)], object))
    assert np.array_equal(client.infer("words", words, "BYTES"), words)


def test_dimensions_of_any_size(client):
    assert shapes(client, "open") == [{"x": [-1, 1, -1, 2, -1]}, {"y": [-1, -1, -1, 2, 1]}]
    for shape in ((1, 1, 3, 2, 5), (2, 1, 1, 2, 4)):
        given = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        wanted = given[:, 0].transpose(0, 3, 1, 2)[..., None]
        assert np.array_equal(client.infer("open", given, "FP32"), wanted)


def test_shared_memory(client):
    key = f"/symphony-test-{os.getpid()}-reshape"
    region = shared_memory.create_shared_memory_region("reshape", key, 64)
    client.triton.register_system_shared_memory("reshape", key, 64)
    try:
        column = np.array([[1], [2], [3]], np.float32)
        shared_memory.set_shared_memory_region(region, [column])
        given = client.module.InferInput("x", [3, 1], "FP32")
        given.set_shared_memory("reshape", 12)
        wanted = client.module.InferRequestedOutput("y")
        wanted.set_shared_memory("reshape", 12, offset=32)
        client.triton.infer("line", [given], outputs=[wanted])
        assert np.array_equal(shared_memory.get_contents_as_numpy(region, np.float32, [3, 1], offset=32), -column)
    finally:
        client.triton.unregister_system_shared_memory("reshape")
        shared_memory.destroy_shared_memory_region(region)


def test_profiles_hold(server):
    """The models were measured before the server started; their items have the shapes that clients see."""
    assert 'msg="model profiled"' not in server.log_text()
    assert "to be measured again" not in server.log_text()


def test_another_reshape_is_measured_anew(tmp_path):
    """An item that was measured before the configuration had it is not taken for one of the new shape."""
    def measured():
        told = subprocess.run([BINARY, "profile", tmp_path, "--json"], check=True, capture_output=True).stdout
        return json.loads(told)[0]["measured_now"]

    save_model(tmp_path, "open", [helper.make_node("Neg", ["x"], ["y"])], [("x", FLOAT, ["N", "A", 2, "B"])],
               [("y", FLOAT, ["N", "A", 2, "B"])])
    settings = tmp_path / "open" / "symphony.yaml"
    settings.write_text("shapes: {x: [1, 2, 2]}")
    assert measured() and not measured()
    settings.unlink()
    configure(tmp_path, "open", "input { name: 'x' dims: [ 1, -1, 2, -1 ] reshape { shape: [ -1, 2, -1 ] } }")
    assert measured() and not measured()


# ---- outputs ----

def test_outputs_are_those_of_the_configuration(client):
    assert list(shapes(client, "some")[1].items()) == [("c", [-1, 2]), ("a", [-1, 2])]
    x = client.input(np.array([[1, -2], [3, 4]], np.float32), "FP32")
    answer = client.triton.infer("some", [x])
    assert answer.as_numpy("c").tolist() == [[1, -2], [3, 4]] and answer.as_numpy("a").tolist() == [[-1, 2], [-3, -4]]
    assert answer.as_numpy("b") is None and answer.as_numpy("t") is None
    asked = lambda name: [client.module.InferRequestedOutput(name)]
    assert client.triton.infer("some", [x], outputs=asked("a")).as_numpy("a").tolist() == [[-1, 2], [-3, -4]]
    assert "unexpected inference output 'b' for model 'some'" in refusal(client, "some", [x], outputs=asked("b"))


# ---- no inputs ----

def test_models_that_need_no_input(client):
    assert shapes(client, "constant") == shapes(client, "unnamed") == [{}, {"y": [2]}]
    assert shapes(client, "named") == [{"v": [2]}, {"y": [2]}]
    for model in ("constant", "unnamed", "named"):
        for _ in range(3):
            assert client.triton.infer(model, []).as_numpy("y").tolist() == [-3, -4]
    v = client.input(np.array([5, 6], np.float32), "FP32", name="v")
    assert client.triton.infer("named", [v]).as_numpy("y").tolist() == [-5, -6]
    assert "unexpected inference input 'v'" in refusal(client, "unnamed", [v])
