"""test_many_tensors.py - models with as many inputs and outputs as are served: columns of features, keys and values of layers."""
# sanitizers: address
import concurrent.futures
import contextlib
import os

import numpy as np
import pytest
from onnx import TensorProto, helper
from tritonclient.utils import InferenceServerException, shared_memory

from repository import measure, save_model
from server import Server
from test_ensembles import save_ensemble
from test_tensors import Client

FLOAT = TensorProto.FLOAT
MOST = 128
OWN = 25  # inputs that have values of their own
LAYERS, WIDTH = 24, 1024  # more outputs, and more bytes of them, than an answer has in pieces
MODELS = ("columns", "most", "optional", "layers", "steps")


def neg(names):
    return ([helper.make_node("Neg", [f"x{i}"], [f"y{i}"]) for i in range(names)])


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    folder = tmp_path_factory.mktemp("many-tensors")
    columns = [f"column_{i}" for i in range(26)]
    save_model(folder, "columns", [helper.make_node("Sum", columns, ["y"])], [(name, FLOAT, ["N", 1]) for name in columns],
               [("y", FLOAT, ["N", 1])])
    for name, count, width in (("most", MOST, 2), ("layers", LAYERS, WIDTH)):
        save_model(folder, name, neg(count), [(f"x{i}", FLOAT, ["N", width]) for i in range(count)],
                   [(f"y{i}", FLOAT, ["N", width]) for i in range(count)])
    # some inputs have values of their own
    first = helper.make_node("Sum", [f"x{i}" for i in range(MOST)], ["y"])
    save_model(folder, "optional", [first], [(f"x{i}", FLOAT, [1]) for i in range(MOST)], [("y", FLOAT, [1])],
               [helper.make_tensor(f"x{i}", FLOAT, [1], [i]) for i in range(OWN)])
    (folder / "optional" / "config.pbtxt").write_text("".join(
        f'input {{ name: "x{i}" dims: 1 optional: {"true" if i < OWN else "false"} }}\n' for i in range(MOST)))
    names = range(MOST)
    save_ensemble(folder, "steps", 8,
                  [f'{kind} {{ name: "{letter}{i}" data_type: TYPE_FP32 dims: 2 }}\n'
                   for kind, letter in (("input", "A"), ("output", "B")) for i in names],
                  ['step { model_name: "most" model_version: -1 ' + " ".join(
                      f'{kind}_map {{ key: "{model}{i}" value: "{ensemble}{i}" }}'
                      for kind, model, ensemble in (("input", "x", "A"), ("output", "y", "between")) for i in names) + " }\n",
                   'step { model_name: "most" model_version: -1 ' + " ".join(
                       f'{kind}_map {{ key: "{model}{i}" value: "{ensemble}{i}" }}'
                       for kind, model, ensemble in (("input", "x", "between"), ("output", "y", "B")) for i in names) + " }\n"])
    measure(folder)
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


def given(client, name, array, **how):
    return client.input(np.asarray(array, np.float32), "FP32", name=name, **how)


def test_columns(client):
    inputs = [given(client, f"column_{i}", [[i], [2 * i]]) for i in range(26)]
    assert client.triton.infer("columns", inputs).as_numpy("y").tolist() == [[325], [650]]


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("model", ["most", "steps"])
def test_as_many_as_are_served(client, model, binary):
    """By HTTP as bytes and as JSON; by a model itself and as a step."""
    give, get, sign = ("x", "y", -1) if model == "most" else ("A", "B", 1)
    how = {"binary_data": binary} if client.protocol == "http" else {}
    metadata = client.triton.get_model_metadata(model, **({"as_json": True} if client.protocol == "grpc" else {}))
    assert [t["name"] for t in metadata["outputs"]] == [f"{get}{i}" for i in range(MOST)]
    inputs = [given(client, f"{give}{i}", [[i, i + 0.5]], **how) for i in reversed(range(MOST))]
    outputs = None if binary else [client.module.InferRequestedOutput(f"{get}{i}", **how) for i in range(MOST)]
    answer = client.triton.infer(model, inputs, outputs=outputs)
    assert all(answer.as_numpy(f"{get}{i}").tolist() == [[sign * i, sign * (i + 0.5)]] for i in range(MOST))
    last = [client.module.InferRequestedOutput(f"{get}{MOST - 1}", **how)]
    answer = client.triton.infer(model, inputs, outputs=last)
    assert answer.as_numpy(f"{get}{MOST - 1}").tolist() == [[sign * (MOST - 1), sign * (MOST - 0.5)]]
    assert answer.as_numpy(f"{get}0") is None
    with pytest.raises(InferenceServerException, match=f"expected {MOST} inputs but got {MOST - 1} inputs .*missing required .*'{give}0'"):
        client.triton.infer(model, inputs[:-1])


def test_contents_by_grpc(server):
    """Values in `contents`, as clients without Triton's library send them."""
    import tritonclient.grpc as grpc
    from tritonclient.grpc import service_pb2
    with grpc.InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as connected:
        request = service_pb2.ModelInferRequest(model_name="most")
        for i in range(MOST):
            tensor = request.inputs.add(name=f"x{i}", datatype="FP32", shape=[1, 2])
            tensor.contents.fp32_contents.extend([i, 7])
        answer = connected._client_stub.ModelInfer(request)
        assert [o.name for o in answer.outputs] == [f"y{i}" for i in range(MOST)]
        assert all(np.frombuffer(answer.raw_output_contents[i], np.float32).tolist() == [-i, -7] for i in range(MOST))


def test_many_large_outputs(client):
    arrays = [np.random.default_rng(i).random((3, WIDTH), np.float32) for i in range(LAYERS)]
    answer = client.triton.infer("layers", [given(client, f"x{i}", array) for i, array in enumerate(arrays)])
    assert all(np.array_equal(answer.as_numpy(f"y{i}"), -array) for i, array in enumerate(arrays))


def test_the_last_bits_count(client):
    """Which inputs a request gives is part of what it may be batched with."""
    needed = [given(client, f"x{i}", [0]) for i in range(OWN, MOST)]
    assert client.triton.infer("optional", needed).as_numpy("y").tolist() == [sum(range(OWN))]
    for i in (0, 15, 16, OWN - 1):
        assert client.triton.infer("optional", [given(client, f"x{i}", [1000])] + needed).as_numpy("y").tolist() == [sum(range(OWN)) - i + 1000]
    with pytest.raises(InferenceServerException, match=f"between {MOST - OWN} and {MOST} but got {MOST - OWN - 1} inputs"):
        client.triton.infer("optional", needed[:-1])


def test_many_at_once_get_their_own(client, server):
    def ask(seed):
        random = np.random.default_rng(seed)
        mine = Client(server, client.protocol)
        with contextlib.closing(mine.triton):
            for _ in range(5):
                items = int(random.integers(1, 4))
                arrays = [random.integers(-99, 99, (items, 2)).astype(np.float32) for _ in range(MOST)]
                answer = mine.triton.infer("most", [given(mine, f"x{i}", array) for i, array in enumerate(arrays)])
                assert all(np.array_equal(answer.as_numpy(f"y{i}"), -array) for i, array in enumerate(arrays))

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(ask, seed) for seed in range(8)]:
            done.result()


def test_in_shared_memory(repository):
    with Server("--repository", repository, "--slo-ms", "60000", "--shared-memory") as server:
        for protocol in ("http", "grpc"):
            client = Client(server, protocol)
            key = f"/symphony-many-{os.getpid()}"
            region = shared_memory.create_shared_memory_region("many", key, MOST * 16)
            with contextlib.closing(client.triton):
                client.triton.register_system_shared_memory("many", key, MOST * 16)
                try:
                    shared_memory.set_shared_memory_region(region, [np.arange(2 * MOST, dtype=np.float32)])
                    inputs = [client.module.InferInput(f"x{i}", [1, 2], "FP32") for i in range(MOST)]
                    outputs = [client.module.InferRequestedOutput(f"y{i}") for i in range(MOST)]
                    for i in range(MOST):
                        inputs[i].set_shared_memory("many", 8, offset=8 * i)
                        outputs[i].set_shared_memory("many", 8, offset=8 * (MOST + i))
                    client.triton.infer("most", inputs, outputs=outputs)
                    got = shared_memory.get_contents_as_numpy(region, np.float32, [2 * MOST], offset=8 * MOST)
                    assert np.array_equal(got, -np.arange(2 * MOST, dtype=np.float32))
                finally:
                    client.triton.unregister_system_shared_memory("many")
                    shared_memory.destroy_shared_memory_region(region)


def test_more_set_the_model_aside(tmp_path):
    for name, inputs, outputs in (("wide", MOST + 1, 1), ("tall", 1, MOST + 1)):
        save_model(tmp_path, name, [helper.make_node("Sum", [f"x{i}" for i in range(inputs)], [f"y{k}"]) for k in range(outputs)],
                   [(f"x{i}", FLOAT, ["N", 2]) for i in range(inputs)], [(f"y{k}", FLOAT, ["N", 2]) for k in range(outputs)])
    save_model(tmp_path, "small", [helper.make_node("Neg", ["x"], ["y"])], [("x", FLOAT, ["N", 2])], [("y", FLOAT, ["N", 2])])
    with Server("--repository", tmp_path) as server:
        client = Client(server, "http")
        with contextlib.closing(client.triton):
            reasons = {model["name"]: model.get("reason", "") for model in client.triton.get_model_repository_index()}
        assert "wide" in reasons["wide"] and "the model has 129 inputs; 0 to 128 are served" in reasons["wide"]
        assert "tall" in reasons["tall"] and "the model has 129 outputs; 1 to 128 are served" in reasons["tall"]
        for model in ("wide", "tall"):
            assert reasons[model] in server.log_text()
