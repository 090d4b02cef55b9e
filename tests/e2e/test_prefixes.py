"""test_prefixes.py - symphony plan prefixes: which models share layers, and their parts, which answer as the whole."""
# sanitizers: address
import json
import subprocess

import numpy as np
import onnx
import onnxruntime
import pytest
import tritonclient.http as http
from onnx import TensorProto, helper, numpy_helper

from server import BINARY, Server

FLOAT = TensorProto.FLOAT


def weights(name, seed, *shape):
    return numpy_helper.from_array(np.random.default_rng(seed).standard_normal(shape).astype(np.float32) / 4, name)


def save(folder, name, nodes, initializers, inputs=None, outputs=None, batch="N", external=False, opset=17):
    graph = helper.make_graph(nodes, name, inputs or [helper.make_tensor_value_info("x", FLOAT, [batch, 3, 8, 8])],
                              outputs or [helper.make_tensor_value_info("y", FLOAT, [batch, 10])], initializers)
    path = folder / name / "1"
    path.mkdir(parents=True)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    onnx.save(model, path / "model.onnx", save_as_external_data=external, location="weights.bin", size_threshold=0)
    return path / "model.onnx"


def trunk(prefix="", seed=1, layers=3):
    """Convolutions with a shortcut, a mean over the image: nodes and weights, whose names begin with `prefix`."""
    nodes, initializers, last, channels = [], [], "x", 3
    for i in range(layers):
        w, c, r = f"{prefix}w{i}", f"{prefix}c{i}", f"{prefix}r{i}"
        nodes += [helper.make_node("Conv", [last, w], [c], pads=[1, 1, 1, 1]), helper.make_node("Relu", [c], [r])]
        initializers.append(weights(w, seed + i, 16, channels, 3, 3))
        last, channels = r, 16
        if i:
            nodes.append(helper.make_node("Add", [r, f"{prefix}r{i - 1}"], [f"{prefix}s{i}"]))
            last = f"{prefix}s{i}"
    nodes += [helper.make_node("GlobalAveragePool", [last], [f"{prefix}p"]),
              helper.make_node("Flatten", [f"{prefix}p"], [f"{prefix}f"])]
    return nodes, initializers


def head(seed, prefix="", out="y", name="fc", size=10):
    return ([helper.make_node("Gemm", [f"{prefix}f", name], [out])], [weights(name, seed, 16, size)])


def save_variant(folder, name, seed, prefix="", **more):
    nodes, initializers = trunk(prefix)
    last, own = head(seed, prefix)
    return save(folder, name, nodes + last, initializers + own, **more)


def plan(*args, status=0):
    done = subprocess.run([BINARY, "plan", "prefixes", *map(str, args), "--json"], capture_output=True, text=True)
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout) if done.stdout else done.stderr


def test_variants_share_all_but_their_last_layer(tmp_path):
    save_variant(tmp_path, "a", 11)
    save_variant(tmp_path, "b", 12, prefix="other/")  # the same nodes by other names
    save_variant(tmp_path, "c", 13, external=True)    # and with weights in a file of their own
    answer = plan(tmp_path)
    [group] = answer["groups"]
    assert [m["model"] for m in group["models"]] == ["a", "b", "c"] and not answer["alone"]
    assert group["shared"] and group["tried"] and group["reason"] is None
    assert group["nodes"] == 10 and all(m["nodes"] == 11 for m in group["models"])
    assert group["weights_bytes"] == 4 * 9 * (3 * 16 + 16 * 16 + 16 * 16)
    assert group["weights_bytes_saved"] == 2 * group["weights_bytes"]
    assert [m["tensors"] for m in group["models"]] == [["f"], ["other/f"], ["f"]]


def test_what_differs_is_not_shared(tmp_path):
    """Other weights in the second layer, another attribute, another opset, inputs of another shape."""
    save_variant(tmp_path, "a", 11)
    nodes, initializers = trunk()
    initializers[1] = weights("w1", 99, 16, 16, 3, 3)
    last, own = head(12)
    save(tmp_path, "b", nodes + last, initializers + own)
    [group] = plan(tmp_path)["groups"]
    assert group["nodes"] == 2 and group["models"][0]["tensors"] == ["r0"]

    nodes, initializers = trunk()
    nodes[0].attribute.append(helper.make_attribute("auto_pad", "NOTSET"))
    save(tmp_path, "attribute", nodes + last, initializers + own)
    save_variant(tmp_path, "opset", 14, opset=16)
    save_variant(tmp_path, "shape", 15, batch=1)
    alone = {m["model"]: m["reason"] for m in plan(tmp_path)["alone"]}
    assert set(alone) == {"attribute", "opset", "shape"}
    assert all("no other model begins with the same nodes" in reason for reason in alone.values())


def test_the_groups_that_save_most(tmp_path):
    for i in range(3):
        save_variant(tmp_path, f"a{i}", 20 + i)
    nodes, initializers = trunk(seed=50)
    for i in range(2):
        last, own = head(30 + i)
        save(tmp_path, f"b{i}", nodes + last, initializers + own)
    save(tmp_path, "lone", [helper.make_node("GlobalAveragePool", ["x"], ["g"]), helper.make_node("Flatten", ["g"], ["f"]),
                            helper.make_node("Gemm", ["f", "fc"], ["y"])], [weights("fc", 3, 3, 10)])
    answer = plan(tmp_path)
    assert [[m["model"] for m in g["models"]] for g in answer["groups"]] == [["a0", "a1", "a2"], ["b0", "b1"]]
    assert [m["model"] for m in answer["alone"]] == ["lone"]


def test_outputs_within_the_prefix_are_handed_through(tmp_path):
    """One variant also gives the features themselves, another one is nothing but the trunk."""
    save_variant(tmp_path, "a", 11)
    nodes, initializers = trunk()
    last, own = head(12)
    features = [helper.make_tensor_value_info("y", FLOAT, ["N", 10]), helper.make_tensor_value_info("f", FLOAT, ["N", 16])]
    save(tmp_path, "b", nodes + last, initializers + own, outputs=features)
    save(tmp_path, "c", nodes, initializers, outputs=features[1:])
    out = tmp_path.parent / (tmp_path.name + "-parts")
    [group] = plan(tmp_path, "--write", out)["groups"]
    assert group["nodes"] == 10 and group["shared"]
    check_parts(tmp_path, out, group)


def check_parts(folder, out, group):
    """The parts by ONNX Runtime, one after the other, against the whole; they pass ONNX's own check."""
    for path in out.glob("*/1/model.onnx"):
        onnx.checker.check_model(str(path), full_check=True)
    first = onnxruntime.InferenceSession(out / group["prefix"] / "1" / "model.onnx")
    for member in group["models"]:
        whole = onnxruntime.InferenceSession(folder / member["model"] / "1" / "model.onnx")
        last = onnxruntime.InferenceSession(out / member["suffix"] / "1" / "model.onnx")
        for items in (1, 2, 5):
            x = np.random.default_rng(items).standard_normal((items, 3, 8, 8)).astype(np.float32)
            wanted = whole.run(None, {"x": x})
            between = first.run(None, {"x": x})
            names = [i.name for i in last.get_inputs()]
            assert len(names) == len(between) == 1
            got = last.run(None, {names[0]: between[0]})
            assert [o.name for o in last.get_outputs()] == [o.name for o in whole.get_outputs()]
            assert all(np.array_equal(a, b) for a, b in zip(wanted, got))


def test_a_shortcut_crosses_the_cut(tmp_path):
    """Heads that take two of the trunk's tensors, each in another order, and one input of the model's: both tensors cross
    the cut, or one far before them with --tensors 1; the input never counts."""
    for name, order in (("a", ["f", "f1"]), ("b", ["f1", "f"])):
        nodes, initializers = trunk()
        nodes += [helper.make_node("GlobalAveragePool", ["r1"], ["p1"]), helper.make_node("Flatten", ["p1"], ["f1"]),
                  helper.make_node("Concat", order, ["ff"], axis=1), helper.make_node("Gemm", ["ff", "fc"], ["y0"]),
                  helper.make_node("ReduceMax", ["x"], ["m"], axes=[1, 2, 3 if name == "a" else -1], keepdims=0),
                  helper.make_node("Unsqueeze", ["m", "one"], ["m1"]), helper.make_node("Add", ["y0", "m1"], ["y"])]
        save(tmp_path, name, nodes, initializers + [weights("fc", 5, 32, 10), numpy_helper.from_array(np.array([1]), "one")])
    deep, shallow = plan(tmp_path)["groups"][0], plan(tmp_path, "--tensors", "1")["groups"][0]
    assert sorted(deep["models"][0]["tensors"]) == ["f", "f1"] and deep["nodes"] == 12 and deep["shared"]
    assert shallow["models"][0]["tensors"] == ["r0"] and shallow["nodes"] == 2 and shallow["shared"]


def test_random_numbers_and_subgraphs_stay_behind(tmp_path):
    for name, seed in (("a", 1), ("b", 2)):
        nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Sigmoid", ["r"], ["s"]),
                 helper.make_node("RandomNormalLike", ["s"], ["n"]), helper.make_node("Mul", ["n", "zero"], ["z"]),
                 helper.make_node("Add", ["s", "z"], ["t"]), helper.make_node("GlobalAveragePool", ["t"], ["p"]),
                 helper.make_node("Flatten", ["p"], ["f"]), helper.make_node("Gemm", ["f", "fc"], ["y"])]
        save(tmp_path, name, nodes, [weights("fc", seed, 3, 10), numpy_helper.from_array(np.float32(0), "zero")])
    answer = plan(tmp_path)
    assert answer["groups"][0]["nodes"] == 2 and answer["groups"][0]["models"][0]["tensors"] == ["s"]
    # a subgraph that takes a tensor from around it keeps that tensor at the cut
    for name, seed in (("c", 3), ("d", 4)):
        then, other = (helper.make_graph([helper.make_node(op, ["r"], [out])], op, [],
                                         [helper.make_tensor_value_info(out, FLOAT, None)])
                       for op, out in (("Neg", "o1"), ("Abs", "o2")))
        nodes = [helper.make_node("Tanh", ["x"], ["r"]), helper.make_node("Sigmoid", ["r"], ["s"]),
                 helper.make_node("If", ["yes"], ["i"], then_branch=then, else_branch=other),
                 helper.make_node("Add", ["i", "s"], ["t"]), helper.make_node("GlobalAveragePool", ["t"], ["p"]),
                 helper.make_node("Flatten", ["p"], ["f"]), helper.make_node("Gemm", ["f", "fc"], ["y"])]
        save(tmp_path, name, nodes, [weights("fc", seed, 3, 10), numpy_helper.from_array(np.array(True), "yes")])
    group = [g for g in plan(tmp_path)["groups"] if g["models"][0]["model"] == "c"][0]
    assert sorted(group["models"][0]["tensors"]) == ["r", "s"] and group["shared"]


def test_a_cut_that_changes_answers_is_not_taken(tmp_path):
    """ONNX Runtime folds a BatchNormalization into the Conv before it, which rounds differently than the two alone: not
    between them, but a cut before the Conv is as good."""
    for name, seed in (("a", 1), ("b", 2)):
        nodes, initializers = trunk()
        nodes = nodes[:-2] + [helper.make_node("Conv", ["s2", "w9"], ["c9"], pads=[1, 1, 1, 1]),
                              helper.make_node("BatchNormalization", ["c9", "scale", "b", "mean", "var"], ["n"]),
                              helper.make_node("GlobalAveragePool", ["n"], ["p"]), helper.make_node("Flatten", ["p"], ["f"])]
        last, own = head(seed)
        own.append(weights("w9", 9, 16, 16, 3, 3))
        for i, norm in enumerate(["scale", "b", "mean", "var"]):
            values = np.random.default_rng(seed + i).random(16).astype(np.float32) + 0.5
            own.append(numpy_helper.from_array(values, norm))
        save(tmp_path, name, nodes + last, initializers + own)
    untried = plan(tmp_path, "--untried")["groups"][0]
    assert untried["nodes"] == 9 and not untried["tried"]
    tried = plan(tmp_path)["groups"][0]
    assert tried["shared"] and tried["nodes"] == 8 and "differs from the whole model's" in tried["reason"]


def test_mistakes(tmp_path):
    save_variant(tmp_path, "a", 11)
    (tmp_path / "broken" / "1").mkdir(parents=True)
    (tmp_path / "broken" / "1" / "model.onnx").write_bytes(b"this is no model")
    assert [m["model"] for m in plan(tmp_path, status=1)["alone"]] == ["a"]
    assert "No such file" in plan(tmp_path / "nothing", status=2)
    assert "No such file" in plan(tmp_path, tmp_path / "nothing", status=2)
    for args in (["--tensors", "0"], ["--untried", "--write", str(tmp_path / "out")]):
        assert plan(tmp_path, *args, status=2)
    save_variant(tmp_path, "b", 12)
    out = tmp_path.parent / (tmp_path.name + "-out")
    assert plan(tmp_path, "--write", out)["groups"][0]["shared"]
    again = plan(tmp_path, "--write", out, status=1)["groups"][0]
    assert not again["shared"] and "is there already" in again["reason"]
    assert not list(out.glob(".symphony-temporary*"))
    twice = plan(tmp_path, save_variant(tmp_path.parent / "others", "a", 13).parents[2], status=2)
    assert f"there are two models 'a': {tmp_path}/a/1/model.onnx and {tmp_path.parent}/others/a/1/model.onnx" in twice


def test_the_highest_version_that_is_served_is_taken(tmp_path):
    save_variant(tmp_path, "a", 11)
    for version, seed in ((2, 12), (10, 13), (11, 14)):
        save_variant(tmp_path / "more", "b", seed)
        (tmp_path / "b").mkdir(exist_ok=True)
        (tmp_path / "more" / "b" / "1").rename(tmp_path / "b" / str(version))
    (tmp_path / "b" / "config.pbtxt").write_text("version_policy { specific { versions: [2, 10] } }\n")
    (tmp_path / "more" / "b").rmdir()
    (tmp_path / "more").rmdir()
    out = tmp_path.parent / (tmp_path.name + "-out")
    done = subprocess.run([BINARY, "plan", "prefixes", tmp_path, "--json", "--write", out], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    [group] = json.loads(done.stdout)["groups"]
    assert group["shared"] and [m["file"] for m in group["models"]] == [str(tmp_path / "a" / "1" / "model.onnx"),
                                                                        str(tmp_path / "b" / "10" / "model.onnx")]
    assert done.stderr.strip() == (f"symphony plan prefixes: {tmp_path}/b/2/model.onnx: version 2 is passed over, "
                                   "as there is a higher one")


@pytest.mark.parametrize("batch", ["N", 1])
def test_served_as_ensembles(tmp_path, batch):
    """The written repository answers as the whole models do."""
    folder, out = tmp_path / "whole", tmp_path / "out"
    for i, name in enumerate("abc"):
        save_variant(folder, name, 40 + i, batch=batch)
    (folder / "a" / "symphony.yaml").write_text("slo_ms: 60000\n")
    assert plan(folder, "--write", out)["groups"][0]["shared"]
    assert (out / "a" / "symphony.yaml").read_text() == "slo_ms: 60000\n"
    with Server("--repository", str(out), "--slo-ms", "60000") as server:
        with http.InferenceServerClient(f"127.0.0.1:{server.port}") as client:
            for name in "abc":
                x = np.random.default_rng(1).standard_normal((1 if batch == 1 else 3, 3, 8, 8)).astype(np.float32)
                given = http.InferInput("x", list(x.shape), "FP32")
                given.set_data_from_numpy(x)
                wanted = onnxruntime.InferenceSession(folder / name / "1" / "model.onnx").run(None, {"x": x})[0]
                np.testing.assert_array_equal(client.infer(name, [given]).as_numpy("y"), wanted)
            server.rests()  # requests are counted a moment after their answers
            counts = {m["name"]: m for m in client.get_inference_statistics()["model_stats"]}
            assert counts["a.prefix"]["inference_count"] >= 3
