"""models.py - the three models every server is given, and the repositories in the form each server reads."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np

NUMPY_TYPES = {"FP32": np.float32, "INT32": np.int32}
MLP_WIDTHS = (2048, 2048, 2048, 2048, 512)  # 54.5 MB: reading them is most of the work, and a batch shares it
MLP_SEED = 2308


@dataclass(frozen=True)
class Model:
    name: str
    input: str
    datatype: str
    width: int  # items of one request are [1, width]
    output: str
    output_width: int
    slo_ms: float
    what: str

    def inputs(self, count: int, seed: int = 1) -> np.ndarray:
        rng = np.random.default_rng(seed)
        if self.datatype == "INT32":  # Magika reads bytes, and 256 as padding
            return rng.integers(0, 257, (count, self.width), dtype=np.int32)
        return rng.standard_normal((count, self.width), dtype=np.float32)


MODELS = {
    model.name: model
    for model in (
        Model("tiny", "x", "FP32", 16, "y", 16, 25, "one addition, [N,16] FP32: the server's own cost"),
        Model("mlp", "x", "FP32", MLP_WIDTHS[0], "y", MLP_WIDTHS[-1], 25,
              "four 2048-wide layers with ReLU, 54.5 MB, random weights: bound by memory, gains from batching"),
        Model("filetype", "bytes", "INT32", 2048, "target_label", 214, 38,
              "Google's Magika, int32 [N,2048]: bound by arithmetic, gains nothing from batching"),
    )
}


def max_batch(model: Model, batch_ms: dict[int, float]) -> int:
    """The largest batch of which two in a row still meet the SLO, as a careful operator would set it. If an item costs
    the same at every batch size, as filetype's do, a batch of 32 would only make the first of its items late."""
    return max((batch for batch, ms in batch_ms.items() if 2 * ms <= model.slo_ms), default=1)


def make_tiny(path: Path) -> None:
    from onnx import TensorProto, helper, numpy_helper

    one = numpy_helper.from_array(np.ones(MODELS["tiny"].width, np.float32), "one")
    save_graph(path, MODELS["tiny"], [helper.make_node("Add", ["x", "one"], ["y"])], [one], TensorProto.FLOAT)


def make_mlp(path: Path) -> None:
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(MLP_SEED)
    nodes, weights, last = [], [], "x"
    layers = list(zip(MLP_WIDTHS, MLP_WIDTHS[1:]))
    for i, (rows, columns) in enumerate(layers):
        scale = np.float32(np.sqrt(2.0 / rows))
        weights.append(numpy_helper.from_array(rng.standard_normal((rows, columns), np.float32) * scale, f"w{i}"))
        weights.append(numpy_helper.from_array(np.zeros(columns, np.float32), f"b{i}"))
        final = i == len(layers) - 1
        linear = "y" if final else f"l{i}"
        nodes.append(helper.make_node("Gemm", [last, f"w{i}", f"b{i}"], [linear]))
        if not final:
            last = f"r{i}"
            nodes.append(helper.make_node("Relu", [linear], [last]))
    save_graph(path, MODELS["mlp"], nodes, weights, TensorProto.FLOAT)


def save_graph(path: Path, model: Model, nodes: list, weights: list, element_type: int) -> None:
    import onnx
    from onnx import helper

    x = helper.make_tensor_value_info(model.input, element_type, ["N", model.width])
    y = helper.make_tensor_value_info(model.output, element_type, ["N", model.output_width])
    graph = helper.make_graph(nodes, model.name, [x], [y], weights)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(proto)
    partial = path.with_suffix(".partial")
    onnx.save(proto, str(partial))
    partial.rename(path)


def make_all(folder: Path, demonstration: Path) -> dict[str, Path]:
    """Makes what is missing under folder; returns the path of each model's .onnx file. filetype is one of the
    demonstration models."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {name: folder / f"{name}.onnx" for name in MODELS}
    for name, make in (("tiny", make_tiny), ("mlp", make_mlp)):
        if not paths[name].exists():
            make(paths[name])
    link(paths["filetype"], demonstration / "filetype" / "1" / "model.onnx")
    return paths


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def link(path: Path, target: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    os.symlink(target.resolve(), path)


def triton_repository(folder: Path, onnx: dict[str, Path], model_py: Path | None, batch: dict[str, int],
                      queue: dict[str, str]) -> Path:
    """A model each, of the Python backend, or without model_py of `engine`; batch and queue give its max_batch_size and the inside of its
    dynamic_batching."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, model in MODELS.items():
        write(folder / name / "config.pbtxt", f"""\
name: "{name}"
backend: "{'python' if model_py else 'engine'}"
max_batch_size: {batch[name]}
input [ {{ name: "{model.input}", data_type: TYPE_{model.datatype}, dims: [ {model.width} ] }} ]
output [ {{ name: "{model.output}", data_type: TYPE_FP32, dims: [ {model.output_width} ] }} ]
instance_group [ {{ kind: KIND_CPU, count: 1 }} ]
dynamic_batching {{ {queue[name]} }}
""")
        if model_py:
            shutil.copyfile(model_py, make_parent(folder / name / "1" / "model.py"))
        link(folder / name / "1" / "model.onnx", onnx[name])
    return folder


def make_parent(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def mlserver_repository(folder: Path, onnx: dict[str, Path], runtime_py: Path, settings: str, batch: dict[str, int],
                        batch_time_s: float) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    write(folder / "settings.json", settings)
    shutil.copyfile(runtime_py, make_parent(folder / "onnx_runtime.py"))
    for name, model in MODELS.items():
        write(folder / name / "model-settings.json", f"""\
{{
  "name": "{name}",
  "implementation": "onnx_runtime.OnnxModel",
  "max_batch_size": {batch[name]},
  "max_batch_time": {batch_time_s},
  "inputs": [{{"name": "{model.input}", "datatype": "{model.datatype}", "shape": [-1, {model.width}]}}],
  "outputs": [{{"name": "{model.output}", "datatype": "FP32", "shape": [-1, {model.output_width}]}}],
  "parameters": {{"uri": "{onnx[name].resolve()}"}}
}}
""")
    return folder


def symphony_repository(folder: Path, onnx: dict[str, Path]) -> Path:
    """The models and their SLOs. Made each time, so that Symphony profiles them under the conditions of this run."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, model in MODELS.items():
        # A copy, not a link: Symphony keeps the optimised model and the profile beside it.
        shutil.copyfile(onnx[name], make_parent(folder / name / "1" / "model.onnx"))
        write(folder / name / "symphony.yaml", f"slo_ms: {model.slo_ms:g}\n")
    return folder
