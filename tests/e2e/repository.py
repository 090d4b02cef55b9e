"""repository.py - models and scenarios that the tests of both protocols serve."""
import functools
import os
import pathlib
import shutil
import subprocess
import tempfile

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from server import BINARY, Server

TYPES = {  # datatype: element type in ONNX, in numpy, two values that show the range
    "BOOL": (TensorProto.BOOL, np.bool_, [True, False]),
    "UINT8": (TensorProto.UINT8, np.uint8, [0, 255]),
    "UINT16": (TensorProto.UINT16, np.uint16, [0, 65535]),
    "UINT32": (TensorProto.UINT32, np.uint32, [0, 2**32 - 1]),
    "UINT64": (TensorProto.UINT64, np.uint64, [0, 2**64 - 1]),
    "INT8": (TensorProto.INT8, np.int8, [-128, 127]),
    "INT16": (TensorProto.INT16, np.int16, [-32768, 32767]),
    "INT32": (TensorProto.INT32, np.int32, [-2**31, 2**31 - 1]),
    "INT64": (TensorProto.INT64, np.int64, [-2**63, 2**63 - 1]),
    "FP16": (TensorProto.FLOAT16, np.float16, [-65504.0, 0.1]),
    "FP32": (TensorProto.FLOAT, np.float32, [-3.4028235e38, 0.1]),
    "FP64": (TensorProto.DOUBLE, np.float64, [-1.7976931348623157e308, 0.1]),
}


def save_onnx(path, nodes, inputs, outputs, initializers=(), name="g", **how):
    """Saves a model, and makes the folders above it. `inputs`, `outputs`: name, type and shape of each; `how`: as of onnx.save()."""
    graph = helper.make_graph(nodes, name, [helper.make_tensor_value_info(*i) for i in inputs],
                              [helper.make_tensor_value_info(*o) for o in outputs], initializers)
    sets = [helper.make_opsetid("", 17)] + [helper.make_opsetid(n.domain, 3) for n in nodes if n.domain]
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(helper.make_model(graph, opset_imports=sets, ir_version=9), path, **how)


def save_model(folder, name, nodes, inputs, outputs, initializers=(), **how):
    save_onnx(folder / name / "1" / "model.onnx", nodes, inputs, outputs, initializers, name, **how)


def measure(folder):
    """All of its models at once: loading them later does not have to wait until nobody else wants the processor."""
    subprocess.run([BINARY, "profile", folder], check=True, capture_output=True)


def measured_once(save):
    """Decorates a function that saves models in a folder: models of the same arguments are saved and measured once, and then copied with
    what was measured. To measure one takes a process of its own, which sanitizers make slow."""
    kept = {}

    @functools.wraps(save)
    def copy(folder, *args):
        if args not in kept:
            kept[args] = tempfile.TemporaryDirectory(prefix="symphony-measured-")
            save(pathlib.Path(kept[args].name), *args)
            measure(kept[args].name)
        shutil.copytree(kept[args].name, folder, dirs_exist_ok=True)
    return copy


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    folder = tmp_path_factory.mktemp("repository")
    echoes = [(f"in_{t}", f"out_{t}", number) for t, (number, _, _) in TYPES.items()]
    save_model(folder, "echo", [helper.make_node("Identity", [i], [o]) for i, o, _ in echoes],
               [(i, n, ["N", 2]) for i, _, n in echoes], [(o, n, ["N", 2]) for _, o, n in echoes])
    save_model(folder, "double", [helper.make_node("Add", ["x", "x"], ["y"])], [("x", TensorProto.FLOAT, ["N", 4])],
               [("y", TensorProto.FLOAT, ["N", 4])])
    save_model(folder, "wide", [helper.make_node("Neg", ["x"], ["y"])], [("x", TensorProto.FLOAT, ["N", 150528])],
               [("y", TensorProto.FLOAT, ["N", 150528])])
    save_model(folder, "single", [helper.make_node("Neg", ["x"], ["y"])], [("x", TensorProto.FLOAT, [2, 2])],
               [("y", TensorProto.FLOAT, [2, 2])])
    save_model(folder, "root", [helper.make_node("Sqrt", ["x"], ["y"])], [("x", TensorProto.FLOAT, ["N", 1])],
               [("y", TensorProto.FLOAT, ["N", 1])])
    table = helper.make_tensor("table", TensorProto.FLOAT, [3], [1, 2, 3])
    save_model(folder, "pick", [helper.make_node("Gather", ["table", "i"], ["y"])], [("i", TensorProto.INT64, ["N", 1])],
               [("y", TensorProto.FLOAT, ["N", 1])], [table])
    (folder / "broken" / "1").mkdir(parents=True)
    (folder / "broken" / "1" / "model.onnx").write_bytes(b"this is no model")
    (folder / 'quo"ted' / "1").mkdir(parents=True)  # no name for a model
    (folder / os.fsdecode(b"\xffed") / "1").mkdir(parents=True)  # nor is this, which is not UTF-8
    return folder


@pytest.fixture(scope="module")
def server(repository):
    with Server("--repository", str(repository), "--slo-ms", "60000", "--shared-memory") as running:
        yield running


SLOW_RUN_S = 0.3
STUCK_RUN_S = 600


def scenario_of(folder, run_s, slo_s):
    """One accelerator and one emulated model, `slow`, that runs for so long."""
    path = folder / "slow.yaml"
    path.write_text("cluster: {accelerators: 1, type: slow}\n"
                    f"models:\n  - {{name: slow, alpha_ms: 1, beta_ms: {run_s * 1000}, slo_ms: {slo_s * 1000}}}\n"
                    "workload: {rate_rps: 1, arrivals: poisson}\npolicy: {name: deferred}\nrun: {seconds: 1, seed: 1}\n")
    return path


@pytest.fixture(scope="module")
def slow_scenario(tmp_path_factory):
    return scenario_of(tmp_path_factory.mktemp("scenario"), SLOW_RUN_S, 60)


@pytest.fixture
def stuck(tmp_path):
    """A fresh server; its accelerator does not come back from its first batch while a test runs, however slow that is."""
    with Server("--scenario", str(scenario_of(tmp_path, STUCK_RUN_S, 3600))) as running:
        yield running
