"""onnx_suite.py - ONNX's own test models through a server: whether every answer is that of ONNX Runtime alone.

    build/venv/bin/python bench/onnx_suite.py [--only TEXT] [--folder DIR] [-- OPTION...]

The models are those of the package `onnx`: one or more for each operator, and some exported ones. Each is served as it is, and,
where all of its inputs have the same first dimension, once more with a first dimension of any size. Twelve clients ask each model
at once, with its own inputs and with others of one to three rows, so that requests share batches wherever the server thinks that
they may. Models whose answers differ from one run to the next are left out, and so are those that ONNX Runtime cannot run.

OPTIONs go to `symphony serve`, such as `--isolate on`; the models lie in DIR (a temporary folder), to be kept for another time.
Takes some minutes, for most of which the models are measured. Exit status 1 if an answer differs.
"""
import argparse
import collections
import concurrent.futures
import os
import pathlib
import random
import sys
import tempfile
import threading
import warnings

warnings.filterwarnings("ignore")  # of some of ONNX's own cases
TOP = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / "tests" / "e2e"))
os.environ.setdefault("SYMPHONY_BINARY", str(TOP / "build/release/symphony"))
import numpy as np  # noqa: E402
import onnx  # noqa: E402
import onnx.backend.test.case.node  # noqa: E402
import onnxruntime  # noqa: E402
import tritonclient.http as triton  # noqa: E402
from onnx import numpy_helper  # noqa: E402
from server import Server  # noqa: E402
from tritonclient.utils import np_to_triton_dtype  # noqa: E402

KINDS = ("pytorch-converted", "pytorch-operator", "simple")  # folders of exported models
ASKERS, ASKED = 12, 24  # clients, and requests to each model


def cases():
    """Yields name, model and inputs."""
    for case in onnx.backend.test.case.node.collect_testcases(None):
        yield case.name, case.model, [np.asarray(one) if isinstance(one, np.generic) else one for one in case.data_sets[0][0]]
    for folder in sorted(one for kind in KINDS for one in (pathlib.Path(onnx.__file__).parent / "backend/test/data" / kind).iterdir()):
        files = sorted((folder / "test_data_set_0").glob("input_*.pb"), key=lambda path: int(path.stem[6:]))
        try:
            yield folder.name, onnx.load(folder / "model.onnx"), [numpy_helper.to_array(onnx.load_tensor(path)) for path in files]
        except Exception:  # an input that is a list
            continue


def opened(model, given):
    """The model with a first dimension of any size. None: the inputs' first dimensions are not all the same."""
    rows = {one.shape[:1] for one in given}
    if len(rows) != 1 or rows & {(), (0,)}:
        return None
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    held = {one.name for one in copy.graph.initializer}
    del copy.graph.value_info[:]
    for value in (*copy.graph.input, *copy.graph.output):
        shape = value.type.tensor_type.shape.dim
        for at, dim in enumerate(shape if value.name not in held else ()):
            if at == 0 and dim.dim_value == rows.copy().pop()[0]:
                dim.dim_param = "N"
            elif value in copy.graph.output:
                dim.dim_param = f"{value.name}_{at}"  # whatever comes of it
    return copy


def variations(given, is_open, rng):
    """Inputs: the model's own, others of the same shapes, and, if any number of rows may come, others of one to three rows."""
    yield given
    for turn in range(ASKED // 2 - 1):
        rows = rng.integers(0, len(given[0]), turn % 3 + 1) if is_open else None
        some = [np.ascontiguousarray(one[rows]) if is_open else one for one in given]
        yield [np.asarray(one * rng.uniform(-2, 2, one.shape), one.dtype) if one.dtype.kind == "f" and turn % 2 else one for one in some]


def equal(mine, theirs):
    if mine is None or mine.shape != theirs.shape:
        return False
    if theirs.dtype.kind == "f":
        near = 2e-2 if theirs.dtype == np.float16 else 1e-4  # a batch may be computed in another order
        return np.allclose(mine.astype(float), theirs.astype(float), rtol=near, atol=near, equal_nan=True)
    if theirs.dtype.kind == "O":
        return [one.decode() if isinstance(one, bytes) else one for one in mine.flat] == list(theirs.flat)
    return np.array_equal(mine, theirs)


def prepare(folder, only, left_out):
    """Saves the models. Returns by name: names of inputs and outputs, and pairs of inputs and outputs (None: ONNX Runtime refuses them)."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    onnxruntime.set_default_logger_severity(4)
    asked = {}
    for name, model, given in cases():
        if only not in name:
            continue
        if not given or not all(isinstance(one, np.ndarray) and np_to_triton_dtype(one.dtype) for one in given):
            left_out["inputs that are no tensors of the protocol"] += 1
            continue
        for kind, form in (("", model), ("_open", opened(model, given))):
            if form is None:
                continue
            try:
                session = onnxruntime.InferenceSession(form.SerializeToString(), options, providers=["CPUExecutionProvider"])
            except Exception:
                left_out["not for ONNX Runtime"] += 1
                continue
            names = [one.name for one in session.get_inputs()]
            run = lambda some: session.run(None, dict(zip(names, some)))
            pairs = []
            for some in variations(given, bool(kind), np.random.default_rng(7)):
                try:
                    pairs.append((some, run(some)))
                except Exception:
                    pairs.append((some, None))
            plain = all(isinstance(one, np.ndarray) and np_to_triton_dtype(one.dtype) for _, out in pairs for one in out or ())
            if len(names) != len(given) or not plain or not pairs[0][1] or not all(map(equal, pairs[0][1], run(given))):
                left_out["other outputs at every run, or none, or no tensors of the protocol"] += 1
                continue
            path = folder / (name + kind).replace(".", "_") / "1" / "model.onnx"
            path.parent.mkdir(parents=True, exist_ok=True)
            onnx.save(form, path)
            asked[path.parent.parent.name] = names, [one.name for one in session.get_outputs()], pairs
    return asked


class Client(threading.local):
    def __init__(self, port):
        self.triton = triton.InferenceServerClient(f"127.0.0.1:{port}", network_timeout=600)

    def ask(self, model, names, given):
        tensors = []
        for name, one in zip(names, given):
            tensors.append(triton.InferInput(name, list(one.shape), np_to_triton_dtype(one.dtype)))
            tensors[-1].set_data_from_numpy(one)
        try:
            return self.triton.infer(model, tensors)
        except triton.InferenceServerException as error:
            return error


def drive(server, asked):
    """Prints what differs. Returns counts of requests by what came of them."""
    client, counts = Client(server.port), collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(ASKERS) as pool:
        for model, (names, outputs, pairs) in asked.items():
            order = random.Random(model).sample(pairs * 2, 2 * len(pairs))
            answers = list(pool.map(lambda pair: client.ask(model, names, pair[0]), order))
            for (given, wanted), answer in zip(order, answers):
                if isinstance(answer, Exception):
                    what = "refused by both" if wanted is None else "set aside" if answer.status() == "503" else "refused"
                elif wanted is None:
                    what = "answered by the server alone"
                else:
                    what = "equal" if all(equal(answer.as_numpy(name), one) for name, one in zip(outputs, wanted)) else "different"
                counts[what] += 1
                if what in ("different", "answered by the server alone", "refused"):
                    print(f"{model}: {what}: inputs {[one.shape for one in given]}{f': {answer}' if what == 'refused' else ''}")
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="TEXT", default="", help="models whose names have TEXT")
    parser.add_argument("--folder", type=pathlib.Path)
    parser.add_argument("options", nargs="*", metavar="OPTION")
    args = parser.parse_args()
    left_out = collections.Counter()
    with tempfile.TemporaryDirectory(prefix="symphony-onnx-") as temporary:
        folder = args.folder or pathlib.Path(temporary)
        asked = prepare(folder, args.only, left_out)
        print(f"{len(asked)} models, {sum(name.endswith('_open') for name in asked)} of them with a first dimension of any size")
        for why, count in left_out.items():
            print(f"left out: {count}: {why}")
        with Server("--repository", folder, "--slo-ms", 60000, "--accelerators", "cpu:1", *args.options) as server:
            counts = drive(server, asked)
            sizes = server.metrics()
        shared = [name for name in sizes if name.startswith("symphony_batch_size_sum") and sizes[name] > sizes[name.replace("_sum{", "_count{")]]
    print("requests: " + ", ".join(f"{count} {what}" for what, count in sorted(counts.items())))
    print(f"models that had batches of several items: {len(shared)}")
    return 1 if counts["different"] or counts["answered by the server alone"] else 0


if __name__ == "__main__":
    sys.exit(main())
