"""test_ensembles.py - ensembles over both protocols: what comes out, by whichever way; how they end; their mistakes."""
# sanitizers: address thread
# quick sanitizers: address
import json
import pathlib
import re
import shutil
import threading
import urllib.request

import numpy as np
import pytest
import tritonclient.grpc as grpc
import tritonclient.http as http
from onnx import TensorProto, helper

from repository import measure, measured_once, save_model
from server import LOAD_S, Server, wait_until

FLOAT, INT64, BOOL, STRING = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL, TensorProto.STRING


def step(model, inputs, outputs):
    maps = "".join(f' input_map {{ key: "{k}" value: "{v}" }}' for k, v in inputs.items())
    maps += "".join(f' output_map {{ key: "{k}" value: "{v}" }}' for k, v in outputs.items())
    return f'  step {{ model_name: "{model}" model_version: -1{maps} }}\n'


def tensor(kind, name, of, dims):
    return f'{kind} {{ name: "{name}" data_type: TYPE_{of} dims: {json.dumps(dims)} }}\n'


def save_ensemble(folder, name, batch, tensors, steps, settings=None):
    path = folder / name
    (path / "1").mkdir(parents=True)
    (path / "config.pbtxt").write_text(f'platform: "ensemble"\nmax_batch_size: {batch}\n' + "".join(tensors) +
                                       "ensemble_scheduling {\n" + "".join(steps) + "}\n")
    if settings:
        (path / "symphony.yaml").write_text(settings)


@measured_once
def save_models(folder):
    two, one = helper.make_tensor("two", FLOAT, [1], [2]), helper.make_tensor("one", FLOAT, [1], [1])
    save_model(folder, "scale", [helper.make_node("Mul", ["x", "two"], ["y"])], [("x", FLOAT, ["N", 4])],
               [("y", FLOAT, ["N", 4])], [two])
    save_model(folder, "next", [helper.make_node("Add", ["x", "one"], ["y"])], [("x", FLOAT, ["N", 4])],
               [("y", FLOAT, ["N", 4])], [one])
    (folder / "next" / "config.pbtxt").write_text(
        'output { name: "y" data_type: TYPE_FP32 dims: 4 label_filename: "names.txt" }')
    (folder / "next" / "names.txt").write_text("a\nb\nc\nd\n")
    save_model(folder, "sum", [helper.make_node("Add", ["a", "b"], ["s"])], [("a", FLOAT, ["N", 4]), ("b", FLOAT, ["N", 4])],
               [("s", FLOAT, ["N", 4])])
    save_model(folder, "copy", [helper.make_node("Identity", ["t"], ["u"])], [("t", STRING, ["N", 1])],
               [("u", STRING, ["N", 1])])
    # rows that begin with something positive, and whether there is one
    zero, axis = helper.make_tensor("zero", FLOAT, [], [0]), helper.make_tensor("axis", INT64, [1], [1])
    first = [helper.make_node("Slice", ["x", "from", "to", "axis"], ["heads"]),
             helper.make_node("Squeeze", ["heads", "axis"], ["head"]),
             helper.make_node("Greater", ["head", "zero"], ["found"]),
             helper.make_node("Compress", ["x", "found"], ["rows"], axis=0),
             helper.make_node("Cast", ["found"], ["counts"], to=FLOAT),
             helper.make_node("ReduceMax", ["counts"], ["most"], keepdims=1),
             helper.make_node("Greater", ["most", "zero"], ["any"])]
    save_model(folder, "find", first, [("x", FLOAT, ["R", 4])], [("rows", FLOAT, ["M", 4]), ("any", BOOL, [1])],
               [zero, axis, helper.make_tensor("from", INT64, [1], [0]), helper.make_tensor("to", INT64, [1], [1])])
    (folder / "find" / "config.pbtxt").write_text("max_batch_size: 0\n")
    table = helper.make_tensor("table", FLOAT, [3, 4], range(12))
    save_model(folder, "pick", [helper.make_node("Gather", ["table", "i"], ["y3"]),
                                helper.make_node("Squeeze", ["y3", "axis"], ["y"])],
               [("i", INT64, ["N", 1])], [("y", FLOAT, ["N", 4])], [table, axis])
    save_model(folder, "weigh", [helper.make_node("Mul", ["x", "w"], ["y"])], [("w", FLOAT, ["N", 4]), ("x", FLOAT, ["N", 4])],
               [("y", FLOAT, ["N", 4])], [helper.make_tensor("w", FLOAT, [1, 4], [3] * 4)])
    (folder / "weigh" / "config.pbtxt").write_text(
        'max_batch_size: 8 input { name: "w" data_type: TYPE_FP32 dims: 4 optional: true }'
        'input { name: "x" data_type: TYPE_FP32 dims: 4 }')


    save_model(folder, "flip", [helper.make_node("Neg", ["x"], ["y"])], [("x", FLOAT, [4])], [("y", FLOAT, [4])])
    (folder / "flip" / "config.pbtxt").write_text("max_batch_size: 0\n")


def save_ensembles(folder):
    x, y = tensor("input", "X", "FP32", [4]), tensor("output", "Y", "FP32", [4])
    save_ensemble(folder, "alone", 8, [x, y], [step("scale", {"x": "X"}, {"y": "Y"})])
    save_ensemble(folder, "chain", 8, [x, y], [step("next", {"x": "D"}, {"y": "Y"}), step("scale", {"x": "X"}, {"y": "D"})])
    save_ensemble(folder, "named", 8, [x, tensor("output", "Y", "FP32", [4]).replace("}", 'label_filename: "own.txt" }')],
                  [step("next", {"x": "X"}, {"y": "Y"})])
    (folder / "named" / "own.txt").write_text("p\nq\nr\ns\n")
    save_ensemble(folder, "diamond", 8, [x, tensor("output", "S", "FP32", [4]), tensor("output", "D", "FP32", [4])],
                  [step("scale", {"x": "X"}, {"y": "D"}), step("next", {"x": "X"}, {"y": "E"}),
                   step("sum", {"a": "D", "b": "E"}, {"s": "S"})])
    save_ensemble(folder, "words", 8, [tensor("input", "T", "STRING", [1]), tensor("output", "U", "STRING", [1])],
                  [step("copy", {"t": "T"}, {"u": "V"}), step("copy", {"t": "V"}, {"u": "U"})])
    rows, out = tensor("input", "X", "FP32", [-1, 4]), tensor("output", "Y", "FP32", [-1, 4])
    each = [step("find", {"x": "X"}, {"rows": "ROWS"}), step("scale", {"x": "ROWS"}, {"y": "Y"})]
    save_ensemble(folder, "each", 0, [rows, out], each, "steps: [{step: scale, for_each: ROWS, limit: 5}]\n")
    save_ensemble(folder, "cut", 0, [rows, out], each, "steps: [{step: 2, for_each: ROWS, limit: 5, beyond: cut}]\n")
    save_ensemble(folder, "branch", 0, [rows, out],
                  [step("find", {"x": "X"}, {"any": "ANY"}), step("scale", {"x": "X"}, {"y": "D"}),
                   step("next", {"x": "D"}, {"y": "Y"})],
                  "steps: [{step: scale, when: ANY}]\n")
    x, y = tensor("input", "X", "FP32", [4]), tensor("output", "Y", "FP32", [4])
    save_ensemble(folder, "one", 0, [x, y], [step("scale", {"x": "X"}, {"y": "D"}), step("flip", {"x": "D"}, {"y": "E"}),
                                             step("next", {"x": "E"}, {"y": "Y"})])
    save_ensemble(folder, "one-word", 0, [tensor("input", "T", "STRING", [1]), tensor("output", "U", "STRING", [1])],
                  [step("copy", {"t": "T"}, {"u": "U"})])
    save_ensemble(folder, "mixed", 0, [x, tensor("input", "R", "FP32", [-1, 4]), y],
                  [step("sum", {"a": "X", "b": "R"}, {"s": "Y"})])
    save_ensemble(folder, "narrow", 0, [rows, y], [step("scale", {"x": "X"}, {"y": "Y"})])
    words = [tensor("input", "T", "STRING", [-1, 1]), tensor("output", "U", "STRING", [-1, 1])]
    copies = [step("copy", {"t": "T"}, {"u": "V"}), step("copy", {"t": "V"}, {"u": "U"})]
    save_ensemble(folder, "word", 0, words, copies, "steps: [{step: 1, for_each: T}, {step: 2, for_each: V}]\n")
    save_ensemble(folder, "many-words", 0, words, copies)
    save_ensemble(folder, "picky", 8, [tensor("input", "I", "INT64", [1]), y],
                  [step("pick", {"i": "I"}, {"y": "P"}), step("scale", {"x": "P"}, {"y": "Y"})])
    save_ensemble(folder, "weighed", 8, [tensor("input", "W", "FP32", [4]).replace("}", "optional: true }"), x, y],
                  [step("scale", {"x": "X"}, {"y": "D"}), step("weigh", {"w": "W", "x": "D"}, {"y": "Y"})])
    # ensembles of ensembles
    save_ensemble(folder, "over", 8, [x, y], [step("alone", {"X": "X"}, {"Y": "Y"})])
    save_ensemble(folder, "twice", 8, [x, y], [step("chain", {"X": "X"}, {"Y": "T"}), step("chain", {"X": "T"}, {"Y": "Y"})])
    save_ensemble(folder, "again", 8, [x, y, tensor("output", "S", "FP32", [4])],
                  [step("next", {"x": "T"}, {"y": "Y"}), step("twice", {"X": "X"}, {"Y": "T"}),
                   step("diamond", {"X": "T"}, {"S": "S"})])
    save_ensemble(folder, "named-within", 8, [x, y], [step("scale", {"x": "X"}, {"y": "D"}),
                                                      step("named", {"X": "D"}, {"Y": "Y"})])
    save_ensemble(folder, "each-within", 0, [rows, out], [step("each", {"X": "X"}, {"Y": "Z"}),
                                                          step("many-next", {"X": "Z"}, {"Y": "Y"})])
    save_ensemble(folder, "many-next", 0, [rows, out], [step("next", {"x": "X"}, {"y": "Y"})])
    save_ensemble(folder, "branch-within", 0, [rows, out],
                  [step("find", {"x": "X"}, {"any": "ANY"}), step("many-next", {"X": "X"}, {"Y": "Z"}),
                   step("each", {"X": "Z"}, {"Y": "Y"})],
                  "steps: [{step: many-next, when: ANY}]\n")
    save_ensemble(folder, "batched-within", 0, [x, y], [step("chain", {"X": "X"}, {"Y": "D"}), step("flip", {"x": "D"}, {"y": "Y"})])
    save_ensemble(folder, "weighed-within", 8, [x, y], [step("weighed", {"X": "X"}, {"Y": "Y"})])


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ensembles")
    save_models(folder)
    save_ensembles(folder)
    with Server("--repository", str(folder), "--slo-ms", "60000") as running:
        yield running


def infer(module, client, model, arrays, outputs=None, **more):
    types = {"f": "FP32", "i": "INT64", "b": "BOOL", "O": "BYTES"}
    inputs = []
    for name, array in arrays.items():
        given = module.InferInput(name, list(array.shape), types[array.dtype.kind])
        given.set_data_from_numpy(array)
        inputs.append(given)
    return client.infer(model, inputs, outputs=outputs, **more)


@pytest.fixture(params=["http", "grpc"])
def ask(request, server):
    module = {"http": http, "grpc": grpc}[request.param]
    port = server.port if module is http else server.grpc_port
    with module.InferenceServerClient(f"127.0.0.1:{port}") as client:
        yield lambda model, arrays, **more: infer(module, client, model, arrays, **more)


X = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.mark.parametrize("model, given, wanted", [
    ("alone", X, {"Y": 2 * X}), ("chain", X, {"Y": 2 * X + 1}), ("diamond", X, {"S": 3 * X + 1, "D": 2 * X}),
    ("each", X, {"Y": 2 * X[1:]}), ("each", -X, {"Y": np.zeros((0, 4), np.float32)}),
    ("branch", X, {"Y": 2 * X + 1}), ("branch", -X, {"Y": np.zeros((0, 4), np.float32)}),
    ("branch", np.tile(X, (500, 1)), {"Y": np.tile(2 * X + 1, (500, 1))}),
    ("cut", np.ones((7, 4), np.float32), {"Y": 2 * np.ones((5, 4), np.float32)}),
    ("over", X, {"Y": 2 * X}), ("twice", X, {"Y": 4 * X + 3}), ("again", X, {"Y": 4 * X + 4, "S": 12 * X + 10}), ("each-within", X, {"Y": 2 * X[1:] + 1}),
    ("branch-within", X, {"Y": 2 * X + 2}), ("branch-within", -X, {"Y": np.zeros((0, 4), np.float32)}),
    ("weighed-within", X, {"Y": 6 * X}), ("batched-within", X[1], {"Y": -2 * X[1] - 1})])
def test_steps_hand_on_what_they_make(ask, model, given, wanted):
    answer = ask(model, {"X": given})
    for name, array in wanted.items():
        assert np.array_equal(answer.as_numpy(name), array)


def test_a_batch_dimension_of_one_comes_and_goes(ask):
    """What goes into a step that batches, in an ensemble that does not, is one item; what comes out is it again."""
    answer = ask("one", {"X": X[1]})
    assert answer.as_numpy("Y").tolist() == (1 - 2 * X[1]).tolist()
    assert ask("one-word", {"T": np.array([b"zw"], dtype=object)}).as_numpy("U").tolist() == [b"zw"]
    assert ask("mixed", {"X": X[0], "R": X[1:2]}).as_numpy("Y").tolist() == (X[0] + X[1]).tolist()
    with pytest.raises(Exception, match="batch size does not match"):
        ask("mixed", {"X": X[0], "R": X})
    assert ask("narrow", {"X": X[:1]}).as_numpy("Y").tolist() == (2 * X[0]).tolist()
    with pytest.raises(Exception, match="'narrow': output 'Y' is FP32 \\[3,4\\], but its config.pbtxt says FP32 \\[4\\]"):
        ask("narrow", {"X": X})


@pytest.mark.parametrize("model, most", [("chain", b"23.000000:3:d"), ("named", b"12.000000:3:s"), ("alone", b"22.000000:3"),
                                         ("twice", b"47.000000:3:d"), ("named-within", b"23.000000:3:s"), ("over", b"22.000000:3")])
def test_classes_have_the_labels_of_the_step_s_model(server, model, most):
    with http.InferenceServerClient(f"127.0.0.1:{server.port}") as client:
        answer = infer(http, client, model, {"X": X[2:]}, outputs=[http.InferRequestedOutput("Y", class_count=1)])
        assert answer.as_numpy("Y").tolist() == [[most]]


def test_strings_travel(ask):
    words = np.array([[b"one"], [b""], ["zw\u00f6lf".encode()]], dtype=object)
    assert ask("words", {"T": words}).as_numpy("U").tolist() == words.tolist()
    assert ask("word", {"T": words}).as_numpy("U").tolist() == words.tolist()
    words = np.array([[b"%d" % 10 ** (i % 20)] for i in range(1000)], dtype=object)
    assert ask("many-words", {"T": words}).as_numpy("U").tolist() == words.tolist()


def test_an_optional_input_may_be_left_out(ask):
    assert np.array_equal(ask("weighed", {"X": X}).as_numpy("Y"), 6 * X)  # the model has a weight of its own
    assert np.array_equal(ask("weighed", {"X": X, "W": X}).as_numpy("Y"), 2 * X * X)
    with pytest.raises(Exception, match=re.escape("missing required input(s) ['X']")):
        ask("weighed", {"W": X})


def test_mistakes_of_a_request_name_the_step(ask):
    with pytest.raises(Exception, match="ensemble 'each', step 2: 'ROWS' has 6 rows, and no more than 5 may be"):
        ask("each", {"X": np.ones((6, 4), np.float32)})
    with pytest.raises(Exception, match="ensemble 'picky', step 1: model 'pick' failed"):
        ask("picky", {"I": np.array([[7]])})
    with pytest.raises(Exception, match="unexpected inference input 'Z' for model 'chain'"):
        ask("chain", {"Z": X})
    with pytest.raises(Exception, match="batch-size must be <= 8 for 'chain'"):
        ask("chain", {"X": np.ones((9, 4), np.float32)})


def test_the_log_says_which_ensemble_asks_a_model_that_fails(server, ask):
    def said():
        with pytest.raises(Exception, match="model 'pick' failed"):
            ask("picky", {"I": np.array([[7]])})
        return re.search(r'msg="requests are not served in time" model=pick .* reason=ensemble why="[^"]*of ensembles, such as \'picky\'',
                         server.log_text())
    wait_until(said)


def test_steps_of_an_ensemble_within_are_named(server, ask):
    with pytest.raises(Exception, match="ensemble 'twice', step 1.2: model 'scale' cannot finish this request"):
        ask("twice", {"X": X}, timeout=1)
    with pytest.raises(Exception, match="ensemble 'each-within', step 1.2: 'ROWS' has 6 rows, and no more than 5 may be"):
        ask("each-within", {"X": np.ones((6, 4), np.float32)})
    assert metric(server, "symphony_ensemble_step_part_seconds", "again", "sum") > 0


def test_many_at_once_get_their_own(server, ask):
    wrong = []

    def client(seed):
        try:
            asks(seed)
        except Exception as error:
            wrong.append(error)

    def asks(seed):
        random = np.random.default_rng(seed)
        with grpc.InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as c:
            for _ in range(40):
                given = random.integers(-9, 9, (random.integers(1, 8), 4)).astype(np.float32)
                answer = infer(grpc, c, "diamond", {"X": given})
                found = infer(grpc, c, "cut", {"X": given}).as_numpy("Y")
                if not np.array_equal(answer.as_numpy("S"), 3 * given + 1) or \
                   not np.array_equal(found, 2 * given[given[:, 0] > 0][:5]):
                    wrong.append(given)

    threads = [threading.Thread(target=client, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_it_is_described_as_a_model(server):
    with http.InferenceServerClient(f"127.0.0.1:{server.port}") as client:
        assert client.is_model_ready("diamond")
        metadata = client.get_model_metadata("diamond")
        assert metadata["platform"] == "ensemble"
        assert metadata["inputs"] == [{"name": "X", "datatype": "FP32", "shape": [-1, 4]}]
        assert [o["name"] for o in metadata["outputs"]] == ["S", "D"]
        assert client.get_model_metadata("each")["inputs"] == [{"name": "X", "datatype": "FP32", "shape": [-1, 4]}]
        assert client.get_model_metadata("each")["parameters"]["item_shapes"] == {}
        assert client.get_model_metadata("find")["parameters"]["item_shapes"]["x"][1] == 4
        config = client.get_model_config("diamond")
        assert config["max_batch_size"] == 8
        steps = config["ensemble_scheduling"]["step"]
        assert [s["model_name"] for s in steps] == ["scale", "next", "sum"]
        assert steps[2]["input_map"] == {"a": "D", "b": "E"}

        def counts(of):
            server.rests()
            return {m["name"]: m[of] for m in client.get_inference_statistics()["model_stats"]}
        items, runs = counts("inference_count"), counts("execution_count")
        infer(http, client, "diamond", {"X": X})
        after = counts("inference_count")
        assert [after[m] - items[m] for m in ("diamond", "scale", "next", "sum")] == [3, 3, 3, 3]
        assert counts("execution_count")["diamond"] == runs["diamond"] + 1


@pytest.mark.parametrize("output, steps", [("D", [3, 0, 0]), ("S", [3, 3, 3])])
def test_only_steps_that_lead_to_what_is_asked_for_are_run(server, output, steps):
    def counts():
        server.rests()
        return {m["name"]: m["inference_count"] for m in client.get_inference_statistics()["model_stats"]}
    with http.InferenceServerClient(f"127.0.0.1:{server.port}") as client:
        before = counts()
        answer = infer(http, client, "diamond", {"X": X}, outputs=[http.InferRequestedOutput(output)])
        assert [o["name"] for o in answer.get_response()["outputs"]] == [output]
        assert np.array_equal(answer.as_numpy(output), {"D": 2 * X, "S": 3 * X + 1}[output])
        wait_until(lambda: counts()["diamond"] == before["diamond"] + 3)
        after = counts()
        assert [after[m] - before[m] for m in ("scale", "next", "sum")] == steps


def test_a_deadline_that_no_step_can_make_ends_it(server, ask):
    def refused(model):
        server.rests()
        return server.metrics()[f'symphony_refused_requests_total{{model="{model}",version="1",reason="deadline"}}']
    before = {model: refused(model) for model in ("chain", "scale")}
    with pytest.raises(Exception, match="ensemble 'chain', step 2: model 'scale' cannot finish this request within its "
                                        "deadline"):
        ask("chain", {"X": X}, timeout=1)
    assert {model: refused(model) for model in before} == {model: n + 1 for model, n in before.items()}


def test_nothing_is_left_behind(server):
    wait_until(lambda: all(v == 0 for k, v in server.metrics().items() if k.startswith("symphony_requests_in_flight")))
    assert any(k.startswith("symphony_requests_in_flight") for k in server.metrics())
    wait_until(lambda: server.metrics().get("symphony_inputs_bytes", 0) == 0)


# ---- loading ----

def reason(client, model):
    index = {m["name"]: m for m in client.get_model_repository_index()}
    return index[model].get("state"), index[model].get("reason", "")


def test_mistakes_name_file_line_and_step(tmp_path):
    save_models(tmp_path)
    x, y = tensor("input", "X", "FP32", [4]), tensor("output", "Y", "FP32", [4])
    save_ensemble(tmp_path, "nobody", 8, [x, y], [step("nobody-there", {"x": "X"}, {"y": "Y"})])
    save_ensemble(tmp_path, "circle", 8, [x, y], [step("sum", {"a": "X", "b": "B"}, {"s": "A"}),
                                                  step("next", {"x": "A"}, {"y": "B"}), step("scale", {"x": "B"}, {"y": "Y"})])
    save_ensemble(tmp_path, "typed", 8, [x, y], [step("pick", {"i": "X"}, {"y": "Y"})])
    save_ensemble(tmp_path, "inner", 8, [x, y], [step("scale", {"x": "X"}, {"y": "Y"})])
    save_ensemble(tmp_path, "outer", 8, [x, y], [step("inner", {"X": "X"}, {"Y": "Y"})])
    save_ensemble(tmp_path, "around", 8, [x, y], [step("nobody", {"X": "X"}, {"Y": "Y"})])
    save_ensemble(tmp_path, "egg", 8, [x, y], [step("hen", {"X": "X"}, {"Y": "Y"})])
    save_ensemble(tmp_path, "hen", 8, [x, y], [step("scale", {"x": "X"}, {"y": "T"}), step("egg", {"X": "T"}, {"Y": "Y"})])
    save_ensemble(tmp_path, "itself", 8, [x, y], [step("itself", {"X": "X"}, {"Y": "Y"})])
    save_ensemble(tmp_path, "rows", 8, [x, y], [step("inner", {"X": "X"}, {"Y": "Y"})], "steps: [{step: 1, for_each: X}]\n")
    save_ensemble(tmp_path, "wide", 16, [x, y], [step("inner", {"X": "X"}, {"Y": "Y"})])
    save_ensemble(tmp_path, "unknown", 8, [x, y], [step("inner", {"x": "X"}, {"Y": "Y"})])
    for n in range(1, 9):
        save_ensemble(tmp_path, f"deep{n}", 8, [x, y], [step(f"deep{n - 1}" if n > 1 else "inner", {"X": "X"}, {"Y": "Y"})])
    save_ensemble(tmp_path, "long", 8, [x, y], [step("inner", {"X": f"T{n}" if n else "X"}, {"Y": f"T{n + 1}" if n < 32 else "Y"})
                                               for n in range(33)])
    save_ensemble(tmp_path, "long-long", 8, [x, y], [step("long", {"X": "X"}, {"Y": "T"}), step("long", {"X": "T"}, {"Y": "Y"})])
    with Server("--repository", str(tmp_path), "--slo-ms", "60000") as server:
        with http.InferenceServerClient(f"127.0.0.1:{server.port}") as client:
            for model, sentence in [("nobody", "nobody/config.pbtxt:6:3: step 1 (nobody-there): there is no such model"),
                                    ("circle", "circle/config.pbtxt:6:3: step 1 (sum): the steps wait for each other in a circle"), ("typed", "step 1 (pick)"),
                                    ("around", "around/config.pbtxt:6:3: step 1 (nobody): "),
                                    ("around", "nobody/config.pbtxt:6:3: step 1 (nobody-there): there is no such model"),
                                    ("egg", "hen/config.pbtxt:7:3: step 2 (egg): the ensembles are steps of each other in a "
                                            "circle: egg, whose step is hen, whose step is egg"),
                                    ("hen", "circle: hen, whose step is egg, whose step is hen"),
                                    ("itself", "itself/config.pbtxt:6:3: step 1 (itself): the ensembles are steps of each other "
                                               "in a circle: itself, whose step is itself"),
                                    ("rows", "rows/config.pbtxt:6:3: step 1 (inner): for_each: the model is an ensemble"),
                                    ("wide", "the ensemble's max_batch_size is 16, but the model's is 8"),
                                    ("unknown", "the model has no input 'x'"),
                                    ("deep8", "deep8/config.pbtxt:6:3: step 1 (deep7): "), ("deep8", "deep1/config.pbtxt:6:3: step 1 (inner): more ensembles within each other than may be: 8"),
                                    ("long-long", "long-long/config.pbtxt: with the steps of its ensembles it has 66; at most 64 may be")]:
                state, why = reason(client, model)
                assert state == "UNAVAILABLE" and sentence in why
                assert not client.is_model_ready(model)
            for model in ("inner", "outer", "deep7", "long"):
                assert client.is_model_ready(model)
                assert np.array_equal(infer(http, client, model, {"X": X}).as_numpy("Y"), (2**33 if model == "long" else 2) * X)
        assert server.stop() == 0


def test_it_loads_with_its_models_and_waits_for_them(tmp_path):
    save_models(tmp_path)
    save_ensembles(tmp_path)
    with Server("--repository", str(tmp_path), "--slo-ms", "60000", "--model-control-mode", "explicit") as server:
        with http.InferenceServerClient(f"127.0.0.1:{server.port}", network_timeout=LOAD_S) as client:
            assert not client.is_model_ready("scale")
            client.load_model("diamond")
            assert all(client.is_model_ready(m) for m in ("diamond", "scale", "next", "sum"))
            assert not client.is_model_ready("pick")
            assert np.array_equal(infer(http, client, "diamond", {"X": X}).as_numpy("S"), 3 * X + 1)
            client.unload_model("next")
            wait_until(lambda: not client.is_model_ready("diamond"))
            assert "step 2 (next): there is no such model" in reason(client, "diamond")[1]
            with pytest.raises(Exception, match="step 2 .next.: there is no such model"):
                infer(http, client, "diamond", {"X": X})
            client.load_model("next")
            wait_until(lambda: client.is_model_ready("diamond"))
            assert np.array_equal(infer(http, client, "diamond", {"X": X}).as_numpy("S"), 3 * X + 1)
            client.unload_model("diamond")
            wait_until(lambda: reason(client, "diamond") == ("UNAVAILABLE", "unloaded"))
            client.load_model("diamond")
            assert np.array_equal(infer(http, client, "diamond", {"X": X}).as_numpy("S"), 3 * X + 1)
            client.unload_model("diamond", unload_dependents=True)
            wait_until(lambda: not any(client.is_model_ready(m) for m in ("diamond", "scale", "next", "sum")))
            with grpc.InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as other:
                other.load_model("diamond")
                other.unload_model("diamond", unload_dependents=True)
                wait_until(lambda: not any(client.is_model_ready(m) for m in ("diamond", "scale", "next", "sum")))
        assert server.stop() == 0


def test_it_has_versions(tmp_path):
    save_models(tmp_path)
    save_ensembles(tmp_path)
    for version in ("3", "4"):
        (tmp_path / "chain" / version).mkdir()
    config = tmp_path / "chain" / "config.pbtxt"
    config.write_text(config.read_text() + "version_policy { specific { versions: [ 1, 2, 3 ] } }\n")
    for mode in (), ("--model-control-mode", "explicit", "--load-model", "chain"):
        with Server("--repository", str(tmp_path), "--slo-ms", "60000", *mode) as server:
            with http.InferenceServerClient(f"127.0.0.1:{server.port}", network_timeout=LOAD_S) as client:
                assert client.get_model_metadata("chain")["versions"] == ["1", "3"]
                for version in ("1", "3"):
                    answer = infer(http, client, "chain", {"X": X}, model_version=version)
                    assert answer.get_response()["model_version"] == version
                    assert np.array_equal(answer.as_numpy("Y"), 2 * X + 1)
                assert infer(http, client, "chain", {"X": X}).get_response()["model_version"] == "3"
                with pytest.raises(Exception, match="version 4 is not found"):
                    infer(http, client, "chain", {"X": X}, model_version="4")
            assert server.stop() == 0


def test_models_are_replaced_under_it(tmp_path):
    """Every answer is that of the model before or after; no request is lost."""
    save_models(tmp_path)
    save_ensembles(tmp_path)
    with Server("--repository", str(tmp_path), "--slo-ms", "60000", "--model-control-mode", "explicit", "--load-model",
                "chain") as server, http.InferenceServerClient(f"127.0.0.1:{server.port}", network_timeout=LOAD_S) as client:
        stop, wrong, answers = threading.Event(), [], [0]

        def asks():
            with grpc.InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as c:
                while not stop.wait(0.01):
                    try:
                        y = infer(grpc, c, "chain", {"X": X}).as_numpy("Y")
                        answers[0] += 1
                        if not any(np.array_equal(y, f * X + 1) for f in (2, 3)):
                            wrong.append(y)
                    except Exception as error:
                        wrong.append(error)

        thread = threading.Thread(target=asks)
        thread.start()
        three = helper.make_tensor("three", FLOAT, [1], [3])
        save_model(tmp_path, "new", [helper.make_node("Mul", ["x", "three"], ["y"])], [("x", FLOAT, ["N", 4])],
                   [("y", FLOAT, ["N", 4])], [three])
        measure(tmp_path / "new")
        for version in (2, 3, 4):
            shutil.copytree(tmp_path / "new" / "1", tmp_path / "scale" / str(version))
            client.load_model("scale")
        now = answers[0]
        wait_until(lambda: answers[0] > now + 10 or wrong)
        stop.set()
        thread.join()
        assert not wrong, wrong[0]
        assert np.array_equal(infer(http, client, "chain", {"X": X}).as_numpy("Y"), 3 * X + 1)
        assert server.stop() == 0


def test_ensembles_load_with_their_ensembles(tmp_path):
    save_models(tmp_path)
    save_ensembles(tmp_path)
    x, y = tensor("input", "X", "FP32", [4]), tensor("output", "Y", "FP32", [4])
    save_ensemble(tmp_path, "egg", 8, [x, y], [step("hen", {"X": "X"}, {"Y": "Y"})])
    save_ensemble(tmp_path, "hen", 8, [x, y], [step("egg", {"X": "X"}, {"Y": "Y"})])
    within = ("twice", "chain", "scale", "next")
    with Server("--repository", str(tmp_path), "--slo-ms", "60000", "--model-control-mode", "explicit") as server:
        with http.InferenceServerClient(f"127.0.0.1:{server.port}", network_timeout=LOAD_S) as client:
            client.load_model("twice")
            assert all(client.is_model_ready(m) for m in within)
            assert np.array_equal(infer(http, client, "twice", {"X": X}).as_numpy("Y"), 4 * X + 3)
            config = client.get_model_config("twice")["ensemble_scheduling"]["step"]
            assert [s["model_name"] for s in config] == ["chain", "chain"]  # as it is written
            client.unload_model("chain")
            wait_until(lambda: not client.is_model_ready("twice"))
            assert "step 1 (chain): there is no such model" in reason(client, "twice")[1]
            client.load_model("chain")
            wait_until(lambda: client.is_model_ready("twice"))
            client.unload_model("scale")
            wait_until(lambda: not client.is_model_ready("twice"))
            assert "chain/config.pbtxt" in reason(client, "twice")[1]
            assert "(scale): there is no such model" in reason(client, "twice")[1]
            client.load_model("scale")
            wait_until(lambda: client.is_model_ready("twice"))
            assert np.array_equal(infer(http, client, "twice", {"X": X}).as_numpy("Y"), 4 * X + 3)
            with pytest.raises(Exception, match="load failed for model 'egg': .* it is an ensemble whose steps lead back to it"):
                client.load_model("egg")
            client.unload_model("twice", unload_dependents=True)
            wait_until(lambda: not any(client.is_model_ready(m) for m in within))
        assert server.stop() == 0


def test_ensembles_are_replaced_under_others(tmp_path):
    """Every answer is that of the steps before or after, whatever their number; no request is lost."""
    save_models(tmp_path)
    save_ensembles(tmp_path)
    with Server("--repository", str(tmp_path), "--slo-ms", "60000", "--model-control-mode", "explicit", "--load-model",
                "twice") as server, http.InferenceServerClient(f"127.0.0.1:{server.port}", network_timeout=LOAD_S) as client:
        stop, wrong, answers = threading.Event(), [], []

        def asks():
            with grpc.InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as c:
                while not stop.wait(0.01):
                    try:
                        y = infer(grpc, c, "twice", {"X": X}).as_numpy("Y")
                        answers.append(next(n for n, f in enumerate((4 * X + 3, 4 * X, X + 4)) if np.array_equal(y, f)))
                    except Exception as error:
                        wrong.append(error)

        threads = [threading.Thread(target=asks) for _ in range(3)]
        for thread in threads:
            thread.start()
        x, y = tensor("input", "X", "FP32", [4]), tensor("output", "Y", "FP32", [4])
        config = tmp_path / "chain" / "config.pbtxt"
        before = config.read_text()
        kinds = [before, re.sub("ensemble_scheduling.*", "ensemble_scheduling { " + step("scale", {"x": "X"}, {"y": "Y"}) + "}",
                                before, flags=re.S)]
        kinds.append(kinds[1].replace("ensemble_scheduling { ", "ensemble_scheduling { " + step("next", {"x": "X"}, {"y": "T"}))
                     .replace('"scale"', '"next"').replace('step { model_name: "next" model_version: -1 input_map { key: "x" value: "X" } '
                                                           'output_map { key: "y" value: "Y" }',
                                                           'step { model_name: "next" model_version: -1 input_map { key: "x" value: "T" } '
                                                           'output_map { key: "y" value: "Y" }'))
        for kind in (1, 2, 0, 1, 2):
            config.write_text(kinds[kind])
            client.load_model("chain")
            wait_until(lambda: wrong or answers and answers[-1] == kind)
        stop.set()
        for thread in threads:
            thread.join()
        assert not wrong, wrong[0]
        assert {0, 1, 2} == set(answers)
        steps = [k for k in server.metrics() if k.startswith("symphony_ensemble_steps_total{model=\"twice\"")]
        assert len(steps) == 4 and len(set(steps)) == 4
        assert any('step="2.1",step_model="next"' in k for k in steps)
        assert server.stop() == 0


def test_the_example_of_the_documentation(tmp_path):
    """docs/pipelines.md, "Your own": crops of several queries, each a request of its own."""
    text = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "pipelines.md").read_text()
    config, settings = re.search(r"## Your own.*?```\n(.*?)```\n+```yaml\n(.*?)```", text, re.S).groups()
    zero, axis = helper.make_tensor("zero", FLOAT, [], [0]), helper.make_tensor("axis", INT64, [1], [1])
    ends = [helper.make_tensor(f"at{n}", INT64, [1], [n]) for n in range(3)]
    # An object is a row whose first number is positive: its box the first two numbers, its crop the row.
    save_model(tmp_path, "detect", [helper.make_node("Slice", ["image", "at0", "at1", "axis"], ["heads"]),
                                    helper.make_node("Squeeze", ["heads", "axis"], ["head"]),
                                    helper.make_node("Greater", ["head", "zero"], ["found"]),
                                    helper.make_node("Compress", ["image", "found"], ["crops"], axis=0),
                                    helper.make_node("Slice", ["crops", "at0", "at2", "axis"], ["boxes"])],
               [("image", FLOAT, ["R", 4])], [("boxes", FLOAT, ["O", 2]), ("crops", FLOAT, ["O", 4])],
               [zero, axis, *ends])
    (tmp_path / "detect" / "config.pbtxt").write_text("max_batch_size: 0\n")
    save_model(tmp_path, "classify", [helper.make_node("ReduceSum", ["crop", "axis"], ["label"])],
               [("crop", FLOAT, ["N", 4])], [("label", FLOAT, ["N", 1])], [axis])
    (tmp_path / "find_and_name").mkdir()
    (tmp_path / "find_and_name" / "config.pbtxt").write_text(config)
    (tmp_path / "find_and_name" / "symphony.yaml").write_text(settings.replace("150", "60000"))
    with Server("--repository", str(tmp_path)) as server, \
            http.InferenceServerClient(f"127.0.0.1:{server.port}", network_timeout=LOAD_S) as client:
        image = np.array([[1, 2, 3, 4], [-1, 0, 0, 0], [5, 6, 7, 8]], np.float32)
        for rows in (image, image[1:2]):
            result = infer(http, client, "find_and_name", {"IMAGE": rows})
            found = rows[rows[:, 0] > 0]
            assert np.array_equal(result.as_numpy("BOXES"), found[:, :2])
            assert np.array_equal(result.as_numpy("LABELS"), found.sum(axis=1, keepdims=True))
        server.rests()
        assert metric(server, "symphony_ensemble_step_items_total", "find_and_name", "classify") == 2
        assert metric(server, "symphony_ensemble_steps_total", "find_and_name", "classify") == 1
        parts = [metric(server, "symphony_ensemble_step_part_seconds", "find_and_name", m) for m in ("detect", "classify")]
        assert 59.9 < sum(parts) <= 60


def metric(server, name, ensemble, step_model):
    with urllib.request.urlopen(f"http://127.0.0.1:{server.metrics_port}/metrics") as page:
        text = page.read().decode()
    [value] = re.findall(rf'^{name}{{model="{ensemble}",version="1",step="[\d.]+",step_model="{step_model}"}} (\S+)$', text, re.M)
    return float(value)
