"""test_models.py - what the server answers for the demonstration models is what ONNX Runtime itself computes: the same
bits for a request alone, the same values within float tolerance when it shares its batch with others.
"""
import concurrent.futures
import functools
import http.client
import json
import pathlib
import re
import time

import numpy as np
import onnxruntime
import pytest

from server import MODELS as REPOSITORY, Server, http_request, wait_until

MODELS = pathlib.Path(REPOSITORY)
TIMEOUT_US = 60_000_000  # nothing may be refused here: this is about values

DATATYPES = {"FP32": np.float32, "INT64": np.int64, "INT32": np.int32, "UINT8": np.uint8, "FP64": np.float64}
ORT_TYPES = {"tensor(float)": "FP32", "tensor(int64)": "INT64", "tensor(int32)": "INT32"}


def text_image(rng, height, width):
    """A picture as the text models want it: normalised to -1..1, with some structure in it."""
    picture = rng.uniform(-1, 1, (1, 3, height // 8, width // 8)).astype(np.float32)
    return picture.repeat(8, axis=2).repeat(8, axis=3)


# name: one item's inputs, from a random generator; all items of a model have one shape, so that they may share batches.
ITEMS = {
    "filetype": lambda rng: {"bytes": rng.integers(0, 257, (1, 2048), dtype=np.int32)},
    "recommender": lambda rng: {"dense": rng.normal(0, 1, (1, 13)).astype(np.float32),
                                "sparse": rng.integers(0, 1 << 40, (1, 26), dtype=np.int64)},
    "text-orientation": lambda rng: {"x": text_image(rng, 48, 192)},
    "text-detection": lambda rng: {"x": text_image(rng, 96, 160)},
    "text-recognition": lambda rng: {"x": text_image(rng, 48, 160)},
}
# More shapes of the models that take any.
SHAPES = {"text-detection": [(64, 96), (160, 64)], "text-recognition": [(48, 80), (48, 320)]}


@pytest.fixture(scope="module")
def server():
    with Server("--repository", MODELS) as running:
        yield running
        assert running.stop() == 0


@functools.cache
def session_of(name):
    """The same library, called directly with one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(MODELS / name / "1" / "model.onnx"), options, providers=["CPUExecutionProvider"])


def reference(name, inputs):
    """{output: array}"""
    session = session_of(name)
    return dict(zip([output.name for output in session.get_outputs()], session.run(None, inputs)))


class Client:
    """One keep-alive connection."""

    def __init__(self, server):
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=600)

    def post(self, name, body, headers):
        self.connection.request("POST", f"/v2/models/{name}/infer", body, headers)
        response = self.connection.getresponse()
        data = response.read()
        assert response.status == 200, data[:500]
        return response, data

    def infer_json(self, name, inputs):
        request = {"parameters": {"timeout": TIMEOUT_US}, "inputs": [
            {"name": key, "shape": list(value.shape), "datatype": datatype_of(value), "data": value.ravel().tolist()}
            for key, value in inputs.items()]}
        _, data = self.post(name, json.dumps(request), {"Content-Type": "application/json"})
        return {output["name"]: np.array(output["data"], DATATYPES[output["datatype"]]).reshape(output["shape"])
                for output in json.loads(data)["outputs"]}

    def infer_binary(self, name, inputs):
        head = json.dumps({"parameters": {"timeout": TIMEOUT_US, "binary_data_output": True}, "inputs": [
            {"name": key, "shape": list(value.shape), "datatype": datatype_of(value),
             "parameters": {"binary_data_size": value.nbytes}} for key, value in inputs.items()]}).encode()
        response, data = self.post(name, head + b"".join(value.tobytes() for value in inputs.values()),
                                   {"Inference-Header-Content-Length": str(len(head))})
        head_bytes = int(response.headers["Inference-Header-Content-Length"])
        outputs, at = {}, head_bytes
        for output in json.loads(data[:head_bytes])["outputs"]:
            size = output["parameters"]["binary_data_size"]
            outputs[output["name"]] = np.frombuffer(data[at:at + size], DATATYPES[output["datatype"]]).reshape(
                output["shape"])
            at += size
        assert at == len(data)
        return outputs


def datatype_of(array):
    return next(name for name, dtype in DATATYPES.items() if dtype == array.dtype)


def assert_same_bits(got, wanted):
    assert got.keys() == wanted.keys()
    for name, value in wanted.items():
        assert got[name].dtype == value.dtype and got[name].shape == value.shape
        assert got[name].tobytes() == value.tobytes(), f"{name}: off by up to {np.abs(got[name] - value).max()}"


def assert_close(got, wanted):
    assert got.keys() == wanted.keys()
    for name, value in wanted.items():
        assert got[name].shape == value.shape
        np.testing.assert_allclose(got[name], value, rtol=1e-4, atol=1e-5, err_msg=name)


def counter(server, family, model):
    text = http_request(server.metrics_port, "GET", "/metrics")[2].decode()
    return sum(float(value) for labels, value in re.findall(rf"^{family}{{([^}}]*)}} (\S+)$", text, re.M)
               if f'model="{model}"' in labels)


@pytest.mark.parametrize("name", ITEMS)
def test_metadata_is_the_models(server, name):
    metadata = json.loads(server.request("GET", f"/v2/models/{name}")[2])
    session = session_of(name)
    for listed, found in ((metadata["inputs"], session.get_inputs()), (metadata["outputs"], session.get_outputs())):
        assert [tensor["name"] for tensor in listed] == [tensor.name for tensor in found]
        assert [tensor["datatype"] for tensor in listed] == [ORT_TYPES[tensor.type] for tensor in found]
        assert [tensor["shape"] for tensor in listed] == [
            [size if isinstance(size, int) else -1 for size in tensor.shape] for tensor in found]


@pytest.mark.parametrize("name", ITEMS)
def test_alone_gives_the_same_bits(server, name):
    rng = np.random.default_rng(1)
    client = Client(server)
    for _ in range(3):
        inputs = ITEMS[name](rng)
        wanted = reference(name, inputs)
        assert_same_bits(client.infer_binary(name, inputs), wanted)
        assert_same_bits(client.infer_json(name, inputs), wanted)


def test_a_lone_client_does_not_wait_for_company(server):
    """One request at a time keeps the load near 1, where batches are worth waiting for; nobody else comes, though, and
    the wait must end long before the deadline, a minute away."""
    rng = np.random.default_rng(6)
    client, took = Client(server), []
    for _ in range(3):
        for name in ITEMS:
            inputs = ITEMS[name](rng)
            start = time.monotonic()
            client.infer_binary(name, inputs)
            took.append(time.monotonic() - start)
    assert sorted(took)[len(took) // 2] < 10


@pytest.mark.parametrize("name", SHAPES)
def test_other_shapes_give_the_same_bits(server, name):
    rng = np.random.default_rng(2)
    client = Client(server)
    for height, width in SHAPES[name]:
        inputs = {"x": text_image(rng, height, width)}
        assert_same_bits(client.infer_binary(name, inputs), reference(name, inputs))


@pytest.mark.parametrize("name", ITEMS)
def test_a_request_of_several_items(server, name):
    rng = np.random.default_rng(3)
    items = [ITEMS[name](rng) for _ in range(3)]
    inputs = {key: np.concatenate([item[key] for item in items]) for key in items[0]}
    assert_close(Client(server).infer_binary(name, inputs), reference(name, inputs))


@pytest.mark.parametrize("name", ITEMS)
def test_batched_with_others_gives_each_its_own(server, name):
    """Many clients at once, every request different, requests of one and of two items mixed, every answer checked."""
    clients, rounds = 12, 2
    rng = np.random.default_rng(4)
    inputs = [[ITEMS[name](rng) for _ in range(rounds)] for _ in range(clients)]
    for mine in inputs[::3]:
        mine[0] = {key: np.concatenate([mine[0][key], mine[1][key]]) for key in mine[0]}
    wanted = [[reference(name, item) for item in mine] for mine in inputs]
    asked_items = clients * rounds + len(inputs[::3])

    def ask(mine):
        client = Client(server)
        return [client.infer_binary(name, item) for item in mine]

    def batches_of_all():
        """Asks for all, looks at the answers, and returns how many batches they were."""
        items_before, before = (counter(server, "symphony_batch_size_" + what, name) for what in ("sum", "count"))
        with concurrent.futures.ThreadPoolExecutor(clients) as pool:
            got = list(pool.map(ask, inputs))
        for mine, mine_wanted in zip(got, wanted):
            for answer, answer_wanted in zip(mine, mine_wanted):
                assert_close(answer, answer_wanted)
        # a batch is counted a moment after it was sent
        wait_until(lambda: counter(server, "symphony_batch_size_sum", name) >= items_before + asked_items)
        assert counter(server, "symphony_batch_size_sum", name) == items_before + asked_items
        return counter(server, "symphony_batch_size_count", name) - before

    if name != "recommender":
        batches_of_all()  # these gain nothing from batches on a CPU, so that the server may run them singly
        return
    # on a machine that is slow to ask, not the first time
    assert any(batches_of_all() < clients * rounds for _ in range(5)), "no two requests shared a batch: nothing was shown"


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_do_not_mix(server, name):
    """Requests of different shapes at once: they may not share a batch, and each gets its own answer."""
    rng = np.random.default_rng(5)
    inputs = [{"x": text_image(rng, *SHAPES[name][i % 2])} for i in range(8)]
    wanted = [reference(name, item) for item in inputs]
    with concurrent.futures.ThreadPoolExecutor(len(inputs)) as pool:
        got = list(pool.map(lambda item: Client(server).infer_binary(name, item), inputs))
    for answer, answer_wanted in zip(got, wanted):
        assert_close(answer, answer_wanted)
