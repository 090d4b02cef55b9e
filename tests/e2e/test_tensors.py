"""test_tensors.py - what tensors may be, over both protocols, with the unmodified Triton clients: strings, every datatype
to its edges, nothing at all.
"""
# sanitizers: address thread
# quick sanitizers: address

import concurrent.futures
import contextlib
import json
import os
import queue

import ml_dtypes
import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from onnx import TensorProto, helper, numpy_helper
from tritonclient.utils import InferenceServerException, serialize_byte_tensor, shared_memory

from prepared import Cluster
from repository import measure, save_model
from server import LOAD_S, Server, wait_until


def save_lookup(folder, name, input_type, output_type, **table):
    """A model of [N, 1] that looks its input up in a table."""
    node = helper.make_node("LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml", **table)
    save_model(folder, name, [node], [("x", input_type, ["N", 1])], [("y", output_type, ["N", 1])])


def save_identity(folder, name, datatype, dims):
    save_model(folder, name, [helper.make_node("Identity", ["x"], ["y"])], [("x", datatype, dims)], [("y", datatype, dims)])


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tensors")
    save_identity(folder, "words", TensorProto.STRING, ["N", 2])
    save_lookup(folder, "number", TensorProto.STRING, TensorProto.INT64, keys_strings=["cat", "dog"],
                values_int64s=[7, 8], default_int64=-1)
    save_lookup(folder, "name", TensorProto.INT64, TensorProto.STRING, keys_int64s=list(range(50)),
                values_strings=["x" * i for i in range(50)], default_string="none")
    lower = helper.make_node("StringNormalizer", ["x"], ["y"], case_change_action="LOWER", locale="C", stopwords=["the"])
    save_model(folder, "lower", [lower], [("x", TensorProto.STRING, [1, "C"])], [("y", TensorProto.STRING, [1, "D"])])
    save_identity(folder, "scores", TensorProto.FLOAT, ["N", 4])
    (folder / "scores" / "config.pbtxt").write_text(
        'max_batch_size: 8 output { name: "y" data_type: TYPE_FP32 dims: 4 label_filename: "labels.txt" }')
    (folder / "scores" / "labels.txt").write_text("cat\ndog\nbird\n")
    save_identity(folder, "unlabelled", TensorProto.FLOAT, ["N", 4])
    (folder / "unlabelled" / "config.pbtxt").write_text(
        'output { name: "y" label_filename: "labels.txt" }')
    save_identity(folder, "counts", TensorProto.INT32, [2, 2])
    save_identity(folder, "brain", TensorProto.BFLOAT16, ["N", 3])
    save_identity(folder, "open", TensorProto.FLOAT, ["N", "M"])
    save_model(folder, "relu", [helper.make_node("Relu", ["x"], ["y"])], [("x", TensorProto.FLOAT, ["N", "A", "B"])],
               [("y", TensorProto.FLOAT, ["N", "A", "B"])])
    axes = [helper.make_tensor(f"axes_{i}", TensorProto.INT64, [2], list(a)) for i, a in enumerate(((3, 4), (2, 4), (2, 3)))]
    save_model(folder, "outer", [helper.make_node("Unsqueeze", [x, f"axes_{i}"], [f"{x}_wide"]) for i, x in enumerate("abc")]
               + [helper.make_node("Mul", ["a_wide", "b_wide"], ["ab"]), helper.make_node("Mul", ["ab", "c_wide"], ["y"])],
               [(x, TensorProto.FLOAT, ["N", "K", x]) for x in "abc"], [("y", TensorProto.FLOAT, ["N", "K", "a", "b", "c"])],
               axes)
    (folder / "outer" / "symphony.yaml").write_text("shapes: {a: [2, 2], b: [2, 2], c: [2, 2]}\n")
    save_identity(folder, "any", TensorProto.STRING, ["M"])
    (folder / "any" / "config.pbtxt").write_text("max_batch_size: 0")
    save_model(folder, "root", [helper.make_node("Sqrt", ["x"], ["y"])], [("x", TensorProto.DOUBLE, ["N", 1])],
               [("y", TensorProto.DOUBLE, ["N", 1])])
    number = lambda name, value: helper.make_tensor(name, TensorProto.FLOAT, [1], [value])
    save_model(folder, "affine", [helper.make_node("Mul", ["x", "scale"], ["scaled"]),
                                  helper.make_node("Add", ["scaled", "offset"], ["y"])],
               [(name, TensorProto.FLOAT, dims) for name, dims in (("x", ["N", 2]), ("scale", [1]), ("offset", [1]))],
               [("y", TensorProto.FLOAT, ["N", 2])], [number("scale", 2), number("offset", 10)])
    (folder / "affine" / "config.pbtxt").write_text(
        'input { name: "x" data_type: TYPE_FP32 dims: [ -1, 2 ] }'
        'input { name: "scale" data_type: TYPE_FP32 dims: 1 optional: true }')
    return folder


@pytest.fixture(scope="module")
def server(repository):
    with Server("--repository", repository, "--slo-ms", "60000", "--shared-memory") as running:
        yield running


class Client:
    """What the clients of both protocols have in common."""

    def __init__(self, server, protocol):
        self.module = getattr(tritonclient, protocol)
        self.protocol = protocol
        port = server.port if protocol == "http" else server.grpc_port
        patience = {"connection_timeout": LOAD_S, "network_timeout": LOAD_S} if protocol == "http" else {}
        self.triton = self.module.InferenceServerClient(f"127.0.0.1:{port}", **patience)

    def input(self, array, datatype, name="x", **how):
        given = self.module.InferInput(name, list(array.shape), datatype)
        given.set_data_from_numpy(array, **how)
        return given

    def infer(self, model, array, datatype, outputs=None, **how):
        return self.triton.infer(model, [self.input(array, datatype, **how)], outputs=outputs).as_numpy("y")

    def statistics(self, model):
        answer = self.triton.get_inference_statistics(model, **({"as_json": True} if self.protocol == "grpc" else {}))
        return answer["model_stats"][0]


@pytest.fixture(scope="module", params=["http", "grpc"])
def client(request, server):
    connected = Client(server, request.param)
    with contextlib.closing(connected.triton):
        yield connected


# ---- strings ----

WORDS = np.array([["cat", "dog"], ["", "\u00e9\U0001f600"]], object)


def encoded(words):
    return np.vectorize(lambda word: word.encode(), otypes=[object])(words)


def test_strings_go_through(client):
    for words in (WORDS, WORDS[:1], WORDS[1:]):
        assert np.array_equal(client.infer("words", encoded(words), "BYTES"), encoded(words))


def test_any_bytes_go_through(client):
    words = np.array([[bytes(range(256)), b"\0"]], object)
    assert np.array_equal(client.infer("words", words, "BYTES"), words)
    long = np.array([[b"x" * 3_000_000, b"y"]], object)
    assert np.array_equal(client.infer("words", long, "BYTES"), long)


def test_strings_are_looked_up(client):
    labels = np.array([[b"dog"], [b"cow"], [b"cat"]], object)
    assert client.infer("number", labels, "BYTES").tolist() == [[8], [-1], [7]]
    numbers = np.array([[3], [99], [0]], np.int64)
    assert client.infer("name", numbers, "INT64").tolist() == [[b"xxx"], [b"none"], [b""]]
    shout = np.array([[b"THE", b"Cat"]], object)
    assert client.infer("lower", shout, "BYTES").tolist() == [[b"cat"]]


def many_answers(client, server, model, arrays):
    """The answers to requests that are under way at once."""
    given = [[client.input(array, "INT64")] for array in arrays]
    if client.protocol == "http":
        with contextlib.closing(client.module.InferenceServerClient(f"127.0.0.1:{server.port}",
                                                                    concurrency=len(arrays))) as many:
            pending = [many.async_infer(model, inputs) for inputs in given]
            return [answer.get_result().as_numpy("y") for answer in pending]
    answers = queue.Queue()
    for i, inputs in enumerate(given):
        client.triton.async_infer(model, inputs, request_id=str(i),
                                  callback=lambda result, error: answers.put((result, error)))
    got = [answers.get(timeout=600) for _ in given]
    assert not any(error for _, error in got)
    got.sort(key=lambda pair: int(pair[0].get_response().id))
    return [result.as_numpy("y") for result, _ in got]


def numbers_and_names(count):
    numbers = [np.array([[i % 50]] * (1 + i % 3)) for i in range(count)]
    return numbers, [[[b"x" * n] for (n,) in array.tolist()] for array in numbers]


def test_many_requests_of_strings(client, server):
    numbers, names = numbers_and_names(100)
    assert [answer.tolist() for answer in many_answers(client, server, "name", numbers)] == names


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_requests_of_strings_are_batched(repository, protocol):
    """They wait until there are 12 items, which run as one batch: each request gets its own strings back."""
    with Server("--repository", repository, "--slo-ms", "60000", "--policy",
                "timeout:max_queue_delay_us=50000000,preferred_batch_size=12") as patient:
        client = Client(patient, protocol)
        with contextlib.closing(client.triton):
            numbers, names = numbers_and_names(6)
            assert [answer.tolist() for answer in many_answers(client, patient, "name", numbers)] == names
            # requests are counted a moment after their answers, and so is a batch
            wait_until(lambda: int(client.statistics("name")["inference_count"]) == 12 and
                       int(client.statistics("name")["execution_count"]) >= 1)
            statistics = client.statistics("name")
            assert (int(statistics["inference_count"]), int(statistics["execution_count"])) == (12, 1)
            batch, = statistics["batch_stats"]
            assert int(batch["batch_size"]) == 12
            assert all(int(batch[part]["count"]) == 1 for part in ("compute_input", "compute_infer", "compute_output"))
            assert int(batch["compute_infer"]["ns"]) > 0


def test_strings_in_shared_memory(client):
    words = encoded(WORDS)
    key = f"/symphony-test-{os.getpid()}-strings"
    region = shared_memory.create_shared_memory_region("strings", key, 256)
    client.triton.register_system_shared_memory("strings", key, 256)
    try:
        shared_memory.set_shared_memory_region(region, [serialize_byte_tensor(words)])
        size = sum(4 + len(word) for word in words.flat)
        given = client.module.InferInput("x", [2, 2], "BYTES")
        given.set_shared_memory("strings", size)
        wanted = client.module.InferRequestedOutput("y")
        wanted.set_shared_memory("strings", 128, offset=128)
        client.triton.infer("words", [given], outputs=[wanted])
        got = shared_memory.get_contents_as_numpy(region, np.object_, [2, 2], offset=128)
        assert np.array_equal(got, words)
        for wrong in (size - 1, size + 1, 4):
            given.set_shared_memory("strings", wrong)
            with pytest.raises(InferenceServerException) as failed:
                client.triton.infer("words", [given])
            assert "string" in failed.value.message() or "Expected at least 16" in failed.value.message()
        given.set_shared_memory("strings", size)
        wanted.set_shared_memory("strings", 10, offset=128)
        with pytest.raises(InferenceServerException) as failed:
            client.triton.infer("words", [given], outputs=[wanted])
        assert "does not fit" in failed.value.message()
    finally:
        client.triton.unregister_system_shared_memory("strings")
        shared_memory.destroy_shared_memory_region(region)


# ---- classification ----

def classes(client, model, array, datatype, count, **how):
    wanted = client.module.InferRequestedOutput("y", class_count=count, **how)
    result = client.triton.infer(model, [client.input(array, datatype)], outputs=[wanted])
    output = result.get_output("y")
    described = output if client.protocol == "http" else {"datatype": output.datatype, "shape": list(output.shape)}
    return result.as_numpy("y").tolist(), described["datatype"], described["shape"]


SCORES = np.array([[0.1, 8, -1, 2], [5, 5, 5, 6]], np.float32)


def test_classification(client):
    got = classes(client, "scores", SCORES, "FP32", 2)
    assert got == ([[b"8.000000:1:dog", b"2.000000:3"], [b"6.000000:3", b"5.000000:0:cat"]], "BYTES", [2, 2])
    got, _, shape = classes(client, "scores", SCORES[:1], "FP32", 1000)
    assert got == [[b"8.000000:1:dog", b"2.000000:3", b"0.100000:0:cat", b"-1.000000:2:bird"]] and shape == [1, 4]
    got = classes(client, "counts", np.array([[7, -8], [9, 7]], np.int32), "INT32", 3)  # no batch: all of it
    assert got == ([b"9:2", b"7:0", b"7:3"], "BYTES", [3])
    assert np.array_equal(client.infer("scores", SCORES, "FP32"), SCORES)


def test_classification_as_json(client):
    if client.protocol == "http":
        got, _, _ = classes(client, "scores", SCORES, "FP32", 1, binary_data=False)
        assert got == [["8.000000:1:dog"], ["6.000000:3"]]


def test_what_cannot_be_classified(client):
    words = encoded(WORDS)
    with pytest.raises(InferenceServerException) as failed:
        classes(client, "words", words, "BYTES", 1)
    assert "class result not available for output due to unsupported type 'BYTES'" in failed.value.message()


def test_a_model_without_its_labels_is_set_aside(client):
    assert not client.triton.is_model_ready("unlabelled")
    index = client.triton.get_model_repository_index(**({"as_json": True} if client.protocol == "grpc" else {}))
    models = index if client.protocol == "http" else index["models"]
    assert "labels.txt" in next(m["reason"] for m in models if m["name"] == "unlabelled")


def test_models_that_come_later_have_their_labels_and_strings(tmp_path):
    """Loaded, replaced and unloaded while the server runs: the labels are those of the folder at the time."""
    save_identity(tmp_path, "scores", TensorProto.FLOAT, ["N", 4])
    save_identity(tmp_path, "words", TensorProto.STRING, ["N", 2])
    measure(tmp_path)
    (tmp_path / "scores" / "config.pbtxt").write_text('output { name: "y" label_filename: "labels.txt" }')
    with Server("--repository", tmp_path, "--slo-ms", "60000", "--model-control-mode", "explicit") as later:
        client = Client(later, "http")
        with contextlib.closing(client.triton):
            with pytest.raises(InferenceServerException) as failed:
                client.triton.load_model("scores")
            assert "labels.txt" in failed.value.message()
            for labels, wanted in (("a\nb\n", b"8.000000:1:b"), ("a\nbee\n", b"8.000000:1:bee")):
                (tmp_path / "scores" / "labels.txt").write_text(labels)
                client.triton.load_model("scores")
                assert classes(client, "scores", SCORES[:1], "FP32", 1)[0] == [[wanted]]
            client.triton.unload_model("scores")
            client.triton.load_model("words")
            assert np.array_equal(client.infer("words", encoded(WORDS), "BYTES"), encoded(WORDS))


# ---- numbers to their edges, and none ----

EDGES = {
    np.float32: [0.0, -0.0, np.nan, np.inf, -np.inf, 1.4e-45, 3.4028235e38],
    np.float64: [0.0, -0.0, np.nan, np.inf, -np.inf, 5e-324, 1.7976931348623157e308],
}


def test_every_float_goes_through_as_it_is(client):
    array = np.array([EDGES[np.float32]], np.float32)
    assert client.infer("open", array, "FP32").tobytes() == array.tobytes()
    squares = np.array([[x] for x in EDGES[np.float64]], np.float64)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(client.infer("root", squares, "FP64"), np.sqrt(squares))


def test_bf16(client):
    array = np.array([[1.5, -2.0, 3.0e38], [0.0, np.inf, 1e-38]], ml_dtypes.bfloat16)
    assert np.array_equal(client.infer("brain", array, "BF16"), array)


def test_bf16_as_json(server):
    data = [1.5, -3.14, 1e38]
    status, answer = server.infer("brain", [{"name": "x", "datatype": "BF16", "shape": [1, 3], "data": data}])
    got = np.array(answer["outputs"][0]["data"])
    assert status == 200 and np.array_equal(got.astype(ml_dtypes.bfloat16), np.array(data, ml_dtypes.bfloat16))


def test_nothing_at_all(client):
    """Tensors without elements; a batch of none is a mistake."""
    for shape in ((1, 0), (3, 0)):
        got = client.infer("open", np.zeros(shape, np.float32), "FP32")
        assert got.shape == shape
    assert client.infer("any", np.array([], object), "BYTES").shape == (0,)
    with pytest.raises(InferenceServerException) as failed:
        client.infer("open", np.zeros((0, 4), np.float32), "FP32")
    assert "got [0,4]" in failed.value.message()


def test_nothing_as_json(server):
    for shape, data in (([2, 0], []), ([2, 0], [[], []])):
        status, answer = server.infer("open", [{"name": "x", "datatype": "FP32", "shape": shape, "data": data}])
        assert status == 200 and answer["outputs"][0]["shape"] == shape and answer["outputs"][0]["data"] == []
    status, answer = server.infer("open", [{"name": "x", "datatype": "FP32", "shape": [2, 0], "data": [1]}])
    assert status == 400 and "more values" in answer["error"]


# ---- optional inputs ----

def test_optional_inputs(client):
    x = client.input(np.array([[1, 2]], np.float32), "FP32")
    scale = client.input(np.array([-3], np.float32), "FP32", name="scale")
    assert client.triton.infer("affine", [x]).as_numpy("y").tolist() == [[12, 14]]
    assert client.triton.infer("affine", [x, scale]).as_numpy("y").tolist() == [[7, 4]]
    assert client.triton.infer("affine", [scale, x]).as_numpy("y").tolist() == [[7, 4]]
    assert client.triton.infer("affine", [x]).as_numpy("y").tolist() == [[12, 14]]
    offset = client.input(np.array([0], np.float32), "FP32", name="offset")  # the configuration does not have it
    for wrong, words in (([scale], "missing required input(s) ['x']"), ([x, offset], "unexpected inference input 'offset'")):
        with pytest.raises(InferenceServerException) as failed:
            client.triton.infer("affine", wrong)
        assert words in failed.value.message()


# ---- strings as JSON ----

def test_strings_as_json(server):
    def infer(data, shape, **more):
        return server.infer("words", [{"name": "x", "datatype": "BYTES", "shape": shape, "data": data}], **more)
    for data in (["a\"\\\n\0", "\u00e9\U0001f600"], [["", "b"]]):
        status, answer = infer(data, [1, 2])
        flat = data if isinstance(data[0], str) else data[0]
        assert status == 200 and answer["outputs"][0]["data"] == flat and answer["outputs"][0]["datatype"] == "BYTES"
    for data, piece in ((["a"], "expected 2 values"), (["a", 1], "string"), (["a", None], "string"),
                        (["a", ["b"]], "string"), (["a", "b", "c"], "more values")):
        status, answer = infer(data, [1, 2])
        assert status == 400 and piece in answer["error"]
    # what is no UTF-8 can only leave as bytes
    head = json.dumps({"inputs": [{"name": "x", "datatype": "BYTES", "shape": [1, 2],
                                   "parameters": {"binary_data_size": 9}}]}).encode()
    status, _, answer = server.request("POST", "/v2/models/words/infer", head + b"\x01\0\0\0\xff\0\0\0\0",
                                       {"Inference-Header-Content-Length": str(len(head))})
    assert status == 500 and "UTF-8" in json.loads(answer)["error"]


def test_a_raw_body_is_one_string(server):
    status, headers, answer = server.request("POST", "/v2/models/number/infer", b"dog",
                                             {"Inference-Header-Content-Length": "0"})
    length = int(headers["Inference-Header-Content-Length"])
    assert status == 200 and np.frombuffer(answer[length:], np.int64).tolist() == [8]


# ---- shapes that somebody chose because of others ----

def shape_like(a, b):
    """A shape of no elements whose FNV-1a hash, by which shapes were once told apart, is that of [a, b]."""
    prime, key = 0x100000001b3, 0xcbf29ce484222325 ^ 1
    return [0, (((key ^ a) * prime) ^ (key * prime) ^ b) % 2**64]


def relu_body(dims, values):
    return json.dumps({"inputs": [{"name": "x", "shape": [1, *dims], "datatype": "FP32", "data": values}]})


def test_strangers_shapes_reach_nobody(server):
    """Six clients' requests beside those of six who would have theirs run with them, sent before any is answered."""
    a, b = 4, 6
    assert shape_like(224, 224) == [0, 2216615441821888]
    strangers = [(shape_like(a, b), 400), ([0, b], 200), ([a, 0], 200), ([b, a], 200), ([0, 2**30 + 1], 400),
                 ([1, a * b], 200)]
    asked = [(dims, status) for stranger in strangers for dims, status in (([a, b], 200), stranger)]
    wrong = 0
    with contextlib.ExitStack() as stack:
        lines = [stack.enter_context(contextlib.closing(server.connect())) for _ in asked]
        for turn in range(6 if os.environ.get("SYMPHONY_SANITIZED") else 40):
            for line, (dims, _) in zip(lines, asked):
                values = [turn + k if k % 2 else -k for k in range(min(dims[0] * dims[1], a * b))]
                line.request("POST", "/v2/models/relu/infer", relu_body(dims, values))
            for line, (dims, status) in zip(lines, asked):
                response = line.getresponse()
                answer = json.loads(response.read())
                right = response.status == status
                if right and status == 200:
                    output = answer["outputs"][0]
                    values = [turn + k if k % 2 else 0 for k in range(dims[0] * dims[1])]
                    right = output["shape"] == [1, *dims] and output["data"] == values
                wrong += not right
                if not right:
                    print(turn, dims, response.status, answer)
    assert wrong == 0


def test_no_dimension_hides_behind_a_zero_over_grpc(server):
    with contextlib.closing(Client(server, "grpc").triton) as triton:
        given = tritonclient.grpc.InferInput("x", [1, *shape_like(224, 224)], "FP32")
        given._raw_content = b""
        with pytest.raises(InferenceServerException, match="Expected .-1,-1,-1., got .1,0,2216615441821888"):
            triton.infer("relu", [given])


def save_lengths(folder):
    """A model of any length, slow enough that a hundred requests at once wait for each other."""
    axes = [numpy_helper.from_array(np.array([i], np.int64), "axis%d" % i) for i in (1, 2)]
    nodes = [helper.make_node("Unsqueeze", ["x", "axis%d" % i], ["x%d" % i]) for i in (1, 2)]
    nodes += [helper.make_node("MatMul", ["x2", "x1"], ["m0"])]
    nodes += [helper.make_node("MatMul", ["m0", "m%d" % i], ["m%d" % (i + 1)]) for i in range(4)]
    nodes += [helper.make_node("Identity", ["x"], ["y"]), helper.make_node("ReduceMax", ["m4"], ["z"], axes=[1, 2], keepdims=0)]
    save_model(folder, "lengths", nodes, [("x", TensorProto.FLOAT, ["N", "L"])],
               [("y", TensorProto.FLOAT, ["N", "L"]), ("z", TensorProto.FLOAT, ["N"])], axes)
    (folder / "lengths" / "symphony.yaml").write_text("shapes: {x: [300]}\n")


def hundred_lengths(server):
    """Sends them at once, and checks that each is answered with its own values. Each has the time that it needs."""
    def ask(length):
        inputs = [{"name": "x", "shape": [1, length], "datatype": "FP32", "data": [length] * length}]
        status, answer = server.infer("lengths", inputs, parameters={"timeout": 3600 * 10**6}, outputs=[{"name": "y"}])
        return status, answer["outputs"][0]["data"] == [length] * length if status == 200 else answer

    with concurrent.futures.ThreadPoolExecutor(100) as pool:
        assert [answer for answer in pool.map(ask, range(300, 400)) if answer != (200, True)] == []


def test_no_length_is_one_too_many(tmp_path):
    """More lengths at once than have a queue of their own."""
    save_lengths(tmp_path)
    with Server("--repository", tmp_path, "--accelerators", "cpu:1") as server:
        hundred_lengths(server)


def test_nor_in_a_cluster(tmp_path):
    save_lengths(tmp_path)
    measure(tmp_path)
    with Cluster(tmp_path, ["lengths"]) as cluster:
        hundred_lengths(cluster.frontend)


def test_an_output_of_nothing_may_be_wide(server):
    """No elements, and dimensions whose product is beyond 64 bits."""
    wide = [{"name": x, "shape": [1, 0, 2**30], "datatype": "FP32", "data": []} for x in "abc"]
    status, answer = server.infer("outer", wide)
    assert status == 200 and answer["outputs"][0]["shape"] == [1, 0, 2**30, 2**30, 2**30], answer
    assert answer["outputs"][0]["data"] == []


def test_a_missing_locale_is_named(tmp_path):
    node = helper.make_node("StringNormalizer", ["x"], ["y"], case_change_action="LOWER", locale="xx_YY.UTF-8", stopwords=["a"])
    save_model(tmp_path, "text", [node], [("x", TensorProto.STRING, ["N"])], [("y", TensorProto.STRING, ["N"])])
    save_identity(tmp_path, "other", TensorProto.FLOAT, ["N", 4])
    with Server("--repository", tmp_path) as server:
        with tritonclient.http.InferenceServerClient(f"127.0.0.1:{server.port}") as client:
            reasons = {model["name"]: model.get("reason", "") for model in client.get_model_repository_index()}
            assert "needs the locale 'xx_YY.UTF-8', which this system lacks (on Debian: apt-get install locales, then " \
                "localedef -i xx_YY -f UTF-8 xx_YY.UTF-8)" in reasons["text"]
