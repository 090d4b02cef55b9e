"""test_batching.py - what is batched is what stays apart: models drawn from a grammar of operators, half of which mix the rows of
a batch in some way, served as ONNX Runtime answers alone."""
import concurrent.futures
import json
import os
import random
import subprocess

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from server import BINARY, Server

SEED = int(os.environ.get("SYMPHONY_SEED", 1))
COUNT = max(8, int(os.environ.get("SYMPHONY_LENGTH", 25)) * 8 // 5)  # of models
WIDTH = 6  # of a row


class Graph:
    """Nodes and weights under names of their own."""

    def __init__(self, draw):
        self.draw, self.nodes, self.weights, self.count = draw, [], [], 0

    def name(self):
        self.count += 1
        return "t%d" % self.count

    def weight(self, value, dtype=np.float32):
        name = self.name()
        self.weights.append(numpy_helper.from_array(np.array(value, dtype), name))
        return name

    def numbers(self, *shape):
        return self.weight(np.array([self.draw.uniform(-1, 1) for _ in range(int(np.prod(shape)))]).reshape(shape))

    def integers(self, *values):
        return self.weight(values, np.int64)

    def give(self, op, *inputs, outputs=1, **attributes):
        names = [self.name() for _ in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), names, **attributes))
        return names[0] if outputs == 1 else names

    def fused(self, op, *inputs, **attributes):
        return self.give(op, *inputs, domain="com.microsoft", **attributes)

    def items(self, x):
        """How many rows there are, as a list of one."""
        return self.give("Gather", self.give("Shape", x), self.integers(0), axis=0)

    def rows(self, x, *rest):
        """x with other dimensions behind that of the items."""
        how = self.draw.randrange(3)
        first = self.items(x) if how == 0 else self.integers(-1 if how == 1 else 0)
        return self.give("Reshape", x, self.give("Concat", first, self.integers(*rest), axis=0))


def recurrent(g, x):
    sequence = g.give("Transpose", g.rows(x, 2, 3), perm=[1, 0, 2])
    last = g.give("GRU", sequence, g.numbers(1, 9, 3), g.numbers(1, 9, 3), outputs=2, hidden_size=3)[1]
    return g.give("MatMul", g.give("Squeeze", last, g.integers(0)), g.numbers(3, WIDTH))


def attention(g, x):
    rows = g.rows(x, 2, 3)
    scores = g.give("Softmax", g.give("MatMul", rows, g.give("Transpose", rows, perm=[0, 2, 1])), axis=-1)
    return g.rows(g.give("MatMul", scores, rows), WIDTH)


def heads(g, x):
    weights = g.numbers(3, 9), g.numbers(9)
    return g.rows(g.fused("Attention", g.rows(x, 2, 3), *weights, num_heads=3), WIDTH)


def queries(g, x):
    rows = g.rows(x, 2, 3)
    return g.rows(g.fused("MultiHeadAttention", rows, g.give("Tanh", rows), rows, num_heads=1), WIDTH)


def skipped(g, x):
    rows = g.rows(x, 2, 3)
    return g.rows(g.fused("SkipLayerNormalization", rows, g.give("Tanh", rows), g.numbers(3), g.numbers(3)), WIDTH)


def convolved(g, x):
    image = g.give("Conv", g.give("Unsqueeze", x, g.integers(1)), g.numbers(2, 1, 3), pads=[1, 1])
    return g.give("ReduceMean", image, axes=[1], keepdims=0)


APART = {
    "tanh": lambda g, x: g.give("Tanh", x),
    "product": lambda g, x: g.give("MatMul", x, g.numbers(WIDTH, WIDTH)),
    "gemm": lambda g, x: g.give("Gemm", x, g.numbers(WIDTH, WIDTH), g.numbers(WIDTH), transB=1),
    "layer normalised": lambda g, x: g.give("LayerNormalization", x, g.numbers(WIDTH), g.numbers(WIDTH)),
    "softmax": lambda g, x: g.give("Softmax", x, axis=1),
    "centred": lambda g, x: g.give("Sub", x, g.give("ReduceMean", x, axes=[1], keepdims=1)),
    "turned": lambda g, x: g.rows(g.give("Transpose", g.rows(x, 2, 3), perm=[0, 2, 1]), WIDTH),
    "halves": lambda g, x: g.give("Concat", *reversed(g.give("Split", x, outputs=2, axis=1)), axis=1),
    "columns": lambda g, x: g.give("Gather", x, g.integers(5, 3, 1, 0, 2, 4), axis=1),
    "sorted": lambda g, x: g.give("TopK", x, g.integers(WIDTH), outputs=2, axis=1)[0],
    "summed": lambda g, x: g.give("CumSum", x, g.weight(1, np.int64)),
    "padded": lambda g, x: g.give("Slice", g.give("Pad", x, g.integers(0, 1, 0, 0)), g.integers(0), g.integers(WIDTH), g.integers(1)),
    "stretched": lambda g, x: g.give("Add", x, g.give("Expand", g.numbers(1, WIDTH), g.give("Shape", x))),
    "chosen": lambda g, x: g.give("Where", g.give("Greater", x, g.numbers(WIDTH)), x, g.numbers(1)),
    "two rows an item": lambda g, x: g.give("Reshape", g.give("Softmax", g.give("Reshape", x, g.integers(-1, 3)), axis=1),
                                                g.integers(-1, WIDTH)),
    "einsum": lambda g, x: g.give("Einsum", x, g.numbers(WIDTH, WIDTH), equation="bi,ij->bj"),
    "one hot": lambda g, x: g.give("OneHot", g.give("ArgMax", x, axis=1, keepdims=0), g.weight(WIDTH, np.int64), g.numbers(2)),
    "normalised": lambda g, x: g.give("BatchNormalization", x, *[g.weight(np.arange(1, WIDTH + 1)) for _ in range(4)]),
    "recurrent": recurrent,
    "attention": attention,
    "convolved": convolved,
    "heads": heads,
    "queries": queries,
    "skipped": skipped,
    "fused product": lambda g, x: g.fused("FusedMatMul", x, g.numbers(WIDTH, WIDTH), transB=1, alpha=0.5),
    "biased": lambda g, x: g.fused("BiasGelu", x, g.numbers(WIDTH)),
}


def quantised(g, x):
    y, scale, zero = g.give("DynamicQuantizeLinear", x, outputs=3)
    return g.give("DequantizeLinear", y, scale, zero)


def rotated(g, x):
    part = lambda begin, end: g.give("Slice", x, g.integers(begin), g.integers(end), g.integers(0))
    return g.give("Concat", part(1, 2**40), part(0, 1), axis=0)


def fused_pairs(g, x):
    return g.fused("FusedMatMul", g.fused("FusedMatMul", x, x, transB=1), x)


def among_items(g, x):
    """One sequence of all items."""
    sequence = g.give("Unsqueeze", x, g.integers(0))
    return g.give("Squeeze", g.fused("MultiHeadAttention", sequence, sequence, sequence, num_heads=2), g.integers(0))


def pairs(g, x):
    return g.give("Add", x, g.give("ReduceSum", g.give("MatMul", x, g.give("Transpose", x)), g.integers(1)))


def whole_softmax(g, x):
    return g.give("Reshape", g.give("Softmax", g.give("Reshape", x, g.integers(-1)), axis=0), g.integers(-1, WIDTH))


def straddling(g, x):
    """Rows of a whole of two items, where their number is even; so it is made even."""
    twice = g.give("Concat", x, x, axis=1)
    over = g.give("Reshape", g.give("Transpose", g.give("Reshape", twice, g.integers(-1, 2, WIDTH)), perm=[1, 0, 2]),
                  g.integers(-1, 2 * WIDTH))
    return g.give("Slice", g.give("Softmax", over, axis=1), g.integers(0), g.integers(WIDTH), g.integers(1))


MIXES = {
    "softmax over items": lambda g, x: g.give("Softmax", x, axis=0),
    "centred over items": lambda g, x: g.give("Sub", x, g.give("ReduceMean", x, axes=[0], keepdims=1)),
    "scaled by the greatest": lambda g, x: g.give("Div", x, g.give("ReduceMax", g.give("Abs", x), keepdims=1)),
    "quantised by the whole": quantised,
    "summed over items": lambda g, x: g.give("CumSum", x, g.weight(0, np.int64)),
    "sorted over items": lambda g, x: g.give("TopK", x, g.items(x), outputs=2, axis=0)[0],
    "rotated": rotated,
    "pairs": pairs,
    "pairs, fused": fused_pairs,
    "attention among items": among_items,
    "softmax of the whole": whole_softmax,
    "straddling": straddling,
    "with their number": lambda g, x: g.give("Add", x, g.give("Cast", g.items(x), to=TensorProto.FLOAT)),
    "with the first": lambda g, x: g.give("Add", x, g.give("Gather", x, g.integers(0), axis=0)),
    "turned softmax": lambda g, x: g.give("Transpose", g.give("Softmax", g.give("Transpose", x), axis=1)),
    "mean and variance": lambda g, x: g.give("MeanVarianceNormalization", x, axes=[0]),
    "numbered": lambda g, x: g.give("Add", x, g.give("Unsqueeze", g.give("Cast", g.give(
        "Range", g.weight(0, np.int64), g.give("Squeeze", g.items(x)), g.weight(1, np.int64)), to=TensorProto.FLOAT), g.integers(1))),
}


def drawn(number):
    """A model, and whether it mixes rows."""
    draw = random.Random("%d-%d" % (SEED, number))
    g, mixes = Graph(draw), number % 2 == 1
    steps = draw.sample(sorted(APART), draw.randint(1, 4))
    if mixes:
        steps.insert(draw.randint(0, len(steps)), sorted(MIXES)[number // 2 % len(MIXES)])
    x = "x"
    for step in steps:
        x = (APART.get(step) or MIXES[step])(g, x)
    g.nodes.append(helper.make_node("Identity", [x], ["y"]))
    named = draw.choice(["N", "", "unk__%d"])
    value = lambda name, k: helper.make_tensor_value_info(name, TensorProto.FLOAT, [named % k if "%" in named else named or None, WIDTH])
    model = helper.make_model(helper.make_graph(g.nodes, "drawn", [value("x", 1)], [value("y", 2)], g.weights),
                              opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)], ir_version=9)
    onnx.checker.check_model(model)
    return model, mixes, "%d: %s" % (number, ", ".join(steps))


def test_what_stays_apart_is_batched_and_nothing_else(tmp_path):
    models = [drawn(n) for n in range(COUNT)]
    alone, wrong = {}, []
    for n, (model, _, _) in enumerate(models):
        folder = tmp_path / ("m%d" % n) / "1"
        folder.mkdir(parents=True)
        onnx.save(model, folder / "model.onnx")
        (folder.parent / "symphony.yaml").write_text("max_batch: %d\nslo_ms: 60000\n" % (2 + n % 5))
        alone[n] = onnxruntime.InferenceSession(model.SerializeToString())

    def ask(n, k):
        x = np.random.default_rng(SEED + 100 * n + k).uniform(-1, 1, (1, WIDTH)).astype(np.float32) * np.float32(10.0)**(k % 7 - 3)
        body = [{"name": "x", "datatype": "FP32", "shape": [1, WIDTH], "data": x[0].tolist()}]
        status, headers, answer = server.request("POST", "/v2/models/m%d/infer" % n, json.dumps(
            {"inputs": body, "outputs": [{"name": "y", "parameters": {"binary_data": True}}]}))
        expected = alone[n].run(None, {"x": x})[0]
        if status != 200:
            return wrong.append((models[n][2], answer))
        head = int(headers["Inference-Header-Content-Length"])
        given = np.frombuffer(answer[head:], np.float32).reshape(json.loads(answer[:head])["outputs"][0]["shape"])
        if given.shape != expected.shape or not np.allclose(given, expected, rtol=1e-3, atol=1e-4 * np.nanmax(np.abs(expected), initial=0),
                                                            equal_nan=True):
            wrong.append((models[n][2], given.tolist(), expected.tolist()))

    with Server("--repository", tmp_path) as server, concurrent.futures.ThreadPoolExecutor(16) as pool:
        for n, (_, mixes, steps) in enumerate(models):
            status, _, text = server.request("GET", "/v2/models/m%d" % n)
            assert status == 200, (steps, text)
            most = json.loads(text)["parameters"]["max_batch_size"]
            assert most == (1 if mixes else 2 + n % 5), (steps, most, server.log_text())
        list(pool.map(lambda i: ask(i // 24, i % 24), range(24 * COUNT)))
    assert not wrong, wrong[:3]


def told(tmp_path, model, name, settings):
    folder = tmp_path / name / "1"
    folder.mkdir(parents=True)
    onnx.save(model, folder / "model.onnx")
    (folder.parent / "symphony.yaml").write_text(settings)


def test_who_was_told_to_batch_says_what_it_does(tmp_path):
    mixing, apart = drawn(1)[0], drawn(0)[0]
    told(tmp_path, mixing, "mixing", "max_batch: 4\nbatch: true\n")
    told(tmp_path, apart, "apart", "max_batch: 4\nbatch: true\n")
    told(tmp_path, apart, "never", "batch: false\n")
    with Server("--repository", tmp_path) as server:
        about = {name: json.loads(server.request("GET", "/v2/models/" + name)[2])["parameters"] for name in ("mixing", "apart", "never")}
        assert about["mixing"]["max_batch_size"] == about["apart"]["max_batch_size"] == 4
        assert about["never"]["max_batch_size"] == 1
        assert about["mixing"]["batch_mixes"] and "batch_mixes" not in about["apart"]
        assert "model=mixing reason=" in server.log_text()
    shown = subprocess.run([BINARY, "profile", str(tmp_path)], capture_output=True, text=True).stdout
    assert shown.count("\n  mixes      ") == 1 and "; batched since somebody said so" in shown, shown


def test_no_larger_batch_is_measured_than_asked_for(tmp_path):
    """What serves larger ones measures again."""
    told(tmp_path, drawn(0)[0], "apart", "slo_ms: 60000\n")
    measured = json.loads(subprocess.run([BINARY, "profile", tmp_path, "--max-batch", "5", "--json"], capture_output=True, check=True).stdout)
    assert [one["points"][-1]["batch"] for one in measured] == [5]
    with Server("--repository", tmp_path) as server:
        assert "reaches to batches of 5, wanted are 64" in server.log_text()
        assert json.loads(server.request("GET", "/v2/models/apart")[2])["parameters"]["max_batch_size"] > 5


def test_rows_of_another_number_are_nobody_elses(tmp_path):
    """A model that was told to be batched, and drops rows by their values: that is not seen before a client sends such a row."""
    seven = numpy_helper.from_array(np.array(7, np.int64), "seven")
    first = numpy_helper.from_array(np.array(0, np.int64), "first")
    nodes = [helper.make_node("Gather", ["x", "first"], ["c"], axis=1), helper.make_node("Equal", ["c", "seven"], ["e"]),
             helper.make_node("Not", ["e"], ["k"]), helper.make_node("Compress", ["x", "k"], ["y"], axis=0)]
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.INT64, ["N", 2])
    model = helper.make_model(helper.make_graph(nodes, "drops", [value("x")], [value("y")], [seven, first]),
                              opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    told(tmp_path, model, "drops", "max_batch: 8\nbatch: true\nslo_ms: 60000\n")

    def ask(k):
        rows = [[7 if (k + r) % 3 == 0 else k, r] for r in range(1 + k % 2)]
        status, answer = server.infer("drops", [{"name": "x", "datatype": "INT64", "shape": [len(rows), 2], "data": sum(rows, [])}])
        expected = [row for row in rows if row[0] != 7]
        assert status == 200 and answer["outputs"][0]["shape"] == [len(expected), 2], (rows, answer)
        assert answer["outputs"][0]["data"] == sum(expected, []), (rows, answer)

    with Server("--repository", tmp_path) as server, concurrent.futures.ThreadPoolExecutor(16) as pool:
        assert server.log_text().count("model=drops") and "batched=no" not in server.log_text()
        list(pool.map(ask, range(1000)))
        assert server.log_text().count("requests run one at a time from now on") == 1
