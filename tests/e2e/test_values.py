"""test_values.py - inputs whose values are sizes or divisors: values for measuring are given, or found."""

import json

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from repository import save_model
from server import Server

# A mask decoder: `size` (floats) says how large its output is. Numbers in [0.5, 1) are a size of 0.
MASKS = {"nodes": [helper.make_node("Cast", ["size"], ["hw"], to=TensorProto.INT64),
                   helper.make_node("Concat", ["nc", "hw"], ["sizes"], axis=0),
                   helper.make_node("Resize", ["low", "", "", "sizes"], ["masks"], mode="nearest")],
         "inputs": [("low", TensorProto.FLOAT, [1, 1, 8, 8]), ("size", TensorProto.FLOAT, [2])],
         "outputs": [("masks", TensorProto.FLOAT, [1, 1, "h", "w"])],
         "initializers": [numpy_helper.from_array(np.array([1, 1], np.int64), "nc")]}
# It runs only if its two sizes are 5 and 3, which no step finds.
SPLIT = {"nodes": [helper.make_node("Split", ["x", "sizes"], ["a", "b"], axis=1)],
         "inputs": [("x", TensorProto.FLOAT, ["N", 8]), ("sizes", TensorProto.INT64, [2])],
         "outputs": [("a", TensorProto.FLOAT, ["N", "A"]), ("b", TensorProto.FLOAT, ["N", "B"])]}
# A divisor of 0 ends the process, where it is let.
DIVIDE = {"nodes": [helper.make_node("Div", ["x", "divisor"], ["y"])],
          "inputs": [("x", TensorProto.INT64, ["N", 4]), ("divisor", TensorProto.INT64, ["N", 4])],
          "outputs": [("y", TensorProto.INT64, ["N", 4])]}


def masks(server, name, size=16):
    return server.infer(name, [{"name": "low", "datatype": "FP32", "shape": [1, 1, 8, 8], "data": [1] * 64},
                               {"name": "size", "datatype": "FP32", "shape": [2], "data": [size, size]}])


def test_values_are_given_or_found(tmp_path):
    for name in ("given", "warmed", "found"):
        save_model(tmp_path, name, **MASKS)
    (tmp_path / "given/symphony.yaml").write_text("sample: {size: [32, 24]}\n")
    (tmp_path / "warmed/config.pbtxt").write_text(
        'max_batch_size: 0\nmodel_warmup { name: "real" batch_size: 1\n'
        '  inputs { key: "low" value { data_type: TYPE_FP32 dims: [ 1, 1, 8, 8 ] random_data: true } }\n'
        '  inputs { key: "size" value { data_type: TYPE_FP32 dims: [ 2 ] input_data_file: "size" } } }\n')
    (tmp_path / "warmed/warmup").mkdir()
    (tmp_path / "warmed/warmup/size").write_bytes(np.array([32, 32], np.float32).tobytes())
    save_model(tmp_path, "split", **SPLIT)
    (tmp_path / "split/symphony.yaml").write_text("sample:\n  sizes: [5, 3]\n")
    save_model(tmp_path, "divide", **DIVIDE)
    for start in ("measured", "from the cached profiles"):
        with Server("--repository", str(tmp_path), "--slo-ms", "60000", env={"SYMPHONY_TEST_TRAPS": "1"}) as server:
            log = server.log_text()
            for name in ("given", "warmed", "found"):
                status, answer = masks(server, name)[:2]
                assert status == 200 and answer["outputs"][0]["shape"] == [1, 1, 16, 16], (start, name, answer)
            x = {"name": "x", "datatype": "FP32", "shape": [1, 8], "data": [1] * 8}
            sizes = {"name": "sizes", "datatype": "INT64", "shape": [2], "data": [2, 6]}
            assert server.infer("split", [x, sizes])[0] == 200, start
            numbers = {"datatype": "INT64", "shape": [1, 4], "data": [8, 6, 4, 2]}
            assert server.infer("divide", [{"name": "x", **numbers}, {"name": "divisor", **numbers}])[0] == 200, start
            assert "trial run failed" not in log, start
            if start == "measured":
                assert 'model=given values="size: given"' in log
                assert 'model=warmed values="size: given"' in log
                assert 'model=found values="size: 1"' in log
                assert 'model=divide values="x: 1, divisor: 1"' in log
            else:
                assert 'msg="values of inputs"' not in log
            assert server.stop() == 0
    # Other values: measured again.
    (tmp_path / "given/symphony.yaml").write_text("sample: {size: [8, 8]}\n")
    with Server("--repository", str(tmp_path), "--slo-ms", "60000") as server:
        assert 'model=given values="size: given"' in server.log_text()
        assert 'model=split values=' not in server.log_text()
        assert server.stop() == 0


def test_an_item_that_does_not_run_is_named(tmp_path):
    """The engine's sentence names neither the item nor the setting that would help."""
    save_model(tmp_path, "split", **{**SPLIT, "inputs": [("x", TensorProto.FLOAT, ["N", 37]), SPLIT["inputs"][1]]})
    save_model(tmp_path, "divide", **DIVIDE)
    with Server("--repository", str(tmp_path)) as server:
        assert 'msg="model is being measured" model=split' in server.log_text()
        assert ("(measured with x: [128,37], sizes: [2]; if it needs others, give 'shapes' or 'sample' in symphony.yaml)"
                in server.log_text())


def test_wrong_samples_are_refused_with_their_place(tmp_path):
    wrong = {"name": ("sample: {sise: [1, 1]}", ":1: sample: the model has no input 'sise'"),
             "type": ("slo_ms: 5000\nsample: {size: [a, b]}", ":2: sample.size: 'a' is not a value of type FP32"),
             "count": ("sample: {size: [1, 2, 3]}",
                       ":1: sample.size: an item of the input cannot be filled with 3 values evenly")}
    for name, (text, _) in wrong.items():
        save_model(tmp_path, name, **MASKS)
        (tmp_path / name / "symphony.yaml").write_text(text + "\n")
    save_model(tmp_path, "good", **MASKS)
    with Server("--repository", str(tmp_path)) as server:
        index = {entry["name"]: entry for entry in json.loads(server.request("POST", "/v2/repository/index")[2])}
        for name, (_, sentence) in wrong.items():
            assert index[name]["reason"].endswith("symphony.yaml" + sentence), index[name]
        assert server.stop() == 0


def test_divisions_that_trap_are_those_of_arm(tmp_path):
    """The least number by -1: on x86-64 it ended the process."""
    least = -2**63
    for name, operator in (("quotient", "Div"), ("remainder", "Mod")):
        save_model(tmp_path, name, [helper.make_node(operator, ["x", "divisor"], ["y"])],
                   [("x", TensorProto.INT64, ["N", 2]), ("divisor", TensorProto.INT64, ["N", 2])], [("y", TensorProto.INT64, ["N", 2])])
    with Server("--repository", str(tmp_path), "--slo-ms", "60000", env={"SYMPHONY_TEST_TRAPS": ""}) as server:
        for name, wanted in (("quotient", [least, 3]), ("remainder", [0, 1])) * 10:
            x = {"name": "x", "datatype": "INT64", "shape": [1, 2], "data": [least, 7]}
            divisor = {"name": "divisor", "datatype": "INT64", "shape": [1, 2], "data": [-1, 2]}
            status, answer = server.infer(name, [x, divisor])
            assert status == 200 and answer["outputs"][0]["data"] == wanted, (name, answer)
