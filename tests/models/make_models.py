#!/usr/bin/env python3
"""Writes the tiny models of tests/unit/back/engine/data (they are committed; run this to change them).

Needs the package `onnx`. The bytes depend on its version, the models do not.
"""
import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

OUT = pathlib.Path(__file__).parent.parent / "unit" / "back" / "engine" / "data"


def tensor(name, dims, type=T.FLOAT):
    return h.make_tensor_value_info(name, type, dims)


def save(name, nodes, inputs, outputs, weights=()):
    graph = h.make_graph(nodes, name, inputs, outputs, [nh.from_array(w, n) for n, w in weights])
    sets = [h.make_opsetid("", 17)] + [h.make_opsetid(n.domain, 3) for n in nodes if n.domain]
    model = h.make_model(graph, opset_imports=sets)
    model.ir_version = 9
    model.producer_name, model.producer_version = "symphony", ""
    onnx.checker.check_model(model, full_check=name not in UNSOUND)
    onnx.save(model, OUT / f"{name}.onnx")


# Models whose declared shapes do not hold when run.
UNSOUND = {"collapse", "fails"}


def main():
    OUT.mkdir(exist_ok=True)
    rng = np.random.default_rng(3)
    ramp = np.arange(16, dtype=np.float32)
    # sum = a + b; twice = 2 * a, as integers
    save("add", [h.make_node("Add", ["a", "b"], ["sum"]), h.make_node("Mul", ["c", "two"], ["twice"])],
         [tensor("a", ["N", 16]), tensor("b", ["N", 16]), tensor("c", ["N", 2], T.INT64)],
         [tensor("sum", ["N", 16]), tensor("twice", ["N", 2], T.INT64)], [("two", np.array([2]))])
    # two layers: enough weights for pre-packing, exact in floats (small integers)
    w1 = rng.integers(-2, 3, (32, 64)).astype(np.float32)
    w2 = rng.integers(-2, 3, (64, 8)).astype(np.float32)
    save("mlp", [h.make_node("MatMul", ["x", "w1"], ["m1"]), h.make_node("Relu", ["m1"], ["r"]),
                 h.make_node("MatMul", ["r", "w2"], ["y"])],
         [tensor("x", ["batch", 32])], [tensor("y", ["other", 8])], [("w1", w1), ("w2", w2)])
    # no batch dimension
    save("fixed", [h.make_node("Add", ["x", "ramp"], ["y"])], [tensor("x", [1, 16])], [tensor("y", [1, 16])],
         [("ramp", ramp)])
    # other dimensions vary: the mean over height and width
    save("image", [h.make_node("ReduceMean", ["x"], ["y"], axes=[2, 3], keepdims=0)],
         [tensor("x", ["N", 3, "H", "W"])], [tensor("y", ["N", 3])])
    # the first dimension varies, but the output is one row whatever comes in
    save("collapse", [h.make_node("ReduceSum", ["x", "axes"], ["y"], keepdims=1)],
         [tensor("x", ["N", 16])], [tensor("y", ["M", 16])], [("axes", np.array([0]))])
    # rows see each other: a batch gives other numbers than its items alone
    save("mixing", [h.make_node("ReduceSum", ["x", "axes"], ["s"], keepdims=1), h.make_node("Add", ["x", "s"], ["y"])],
         [tensor("x", ["N", 16])], [tensor("y", ["N", 16])], [("axes", np.array([0]))])
    # loads, and fails whenever it runs: 16 elements a row do not make rows of 7
    save("fails", [h.make_node("Reshape", ["x", "shape"], ["y"])], [tensor("x", ["N", 16])], [tensor("y", ["N", 7])],
         [("shape", np.array([-1, 7]))])
    # strings: as they are, lower case without the stop words, and the number that a label stands for
    save("text", [h.make_node("Identity", ["words"], ["y"])], [tensor("words", ["N"], T.STRING)],
         [tensor("y", ["N"], T.STRING)])
    save("lower", [h.make_node("StringNormalizer", ["words"], ["y"], case_change_action="LOWER", locale="C",
                              stopwords=["the"])],
         [tensor("words", [1, "C"], T.STRING)], [tensor("y", [1, "D"], T.STRING)])
    lookup = h.make_node("LabelEncoder", ["label"], ["number"], domain="ai.onnx.ml", default_int64=-1,
                         keys_strings=["cat", "dog"], values_int64s=[7, 8])
    save("lookup", [lookup], [tensor("label", ["N", 2], T.STRING)], [tensor("number", ["N", 2], T.INT64)])
    # what is no tensor is not served
    save("sequence", [h.make_node("SequenceConstruct", ["x"], ["y"])], [tensor("x", ["N"])],
         [h.make_tensor_sequence_value_info("y", T.FLOAT, None)])
    # y = x * scale + offset, of which scale and offset have values of their own
    save("affine", [h.make_node("Mul", ["x", "scale"], ["scaled"]), h.make_node("Add", ["scaled", "offset"], ["y"])],
         [tensor("x", ["N", 2]), tensor("scale", [1]), tensor("offset", [2])], [tensor("y", ["N", 2])],
         [("scale", np.array([2], np.float32)), ("offset", np.array([0, 10], np.float32))])
    # no dimensions at all
    save("scalar", [h.make_node("Add", ["x", "x"], ["y"])], [tensor("x", [])], [tensor("y", [])])


if __name__ == "__main__":
    sys.exit(main())
