"""loading.py - measures what a model notices while another one is loaded and unloaded all the time.

    build/venv/bin/python bench/loading.py [--seconds S] [--rounds N] [--rate R] [--mib M] [--accelerators LIST]

Serves a small model at R requests a second (uniform arrivals, so that its requests do not queue), in turns of S
seconds: either nothing else happens, or a client loads and unloads a model of M MiB in a loop. Prints Markdown: the
latency of the small model in each turn, and how long the loads took. Server and clients share this machine.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np
import tritonclient.grpc as triton
from onnx import TensorProto, helper, numpy_helper

TOP = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / "tests" / "e2e"))
from repository import save_model  # noqa: E402
from server import Server  # noqa: E402

BINARY = os.environ.setdefault("SYMPHONY_BINARY", str(TOP / "build/release/symphony"))


def dense(folder, name, width, depth):
    """`depth` layers of width x width weights."""
    rng = np.random.default_rng(1)
    nodes, weights, at = [], [], "x"
    for i in range(depth):
        layer = (rng.standard_normal((width, width)) / np.sqrt(width)).astype(np.float32)
        weights.append(numpy_helper.from_array(layer, f"w{i}"))
        to = "y" if i == depth - 1 else f"h{i}"
        nodes.append(helper.make_node("MatMul", [at, f"w{i}"], [to]))
        at = to
    save_model(folder, name, nodes, [("x", TensorProto.FLOAT, ["N", width])], [("y", TensorProto.FLOAT, ["N", width])], weights)


def load_in_a_loop(server, stop, took):
    client = triton.InferenceServerClient(f"127.0.0.1:{server.grpc_port}")
    while not stop.is_set():
        start = time.monotonic()
        client.load_model("large")
        took.append(time.monotonic() - start)
        client.unload_model("large")


def turn(server, options, loading):
    stop, took = threading.Event(), []
    loader = threading.Thread(target=load_in_a_loop, args=(server, stop, took))
    if loading:
        loader.start()
    output = subprocess.run([BINARY, "bench", f"http://127.0.0.1:{server.port}", "--models", "small", "--rate",
                             str(options.rate), "--arrivals", "uniform", "--seconds", str(options.seconds), "--json"],
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout
    stop.set()
    if loading:
        loader.join()
    return json.loads(output), took


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rate", type=float, default=200)
    parser.add_argument("--mib", type=int, default=128)
    parser.add_argument("--accelerators", default=None)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        dense(folder, "small", 512, 4)
        dense(folder, "large", 2048, max(1, options.mib // 16))
        args = ["--repository", folder, "--model-control-mode", "explicit", "--load-model", "small", "--slo-ms", "50"]
        args += ["--accelerators", options.accelerators] if options.accelerators else []
        with Server(*args) as server:
            client = triton.InferenceServerClient(f"127.0.0.1:{server.grpc_port}")
            client.load_model("large")  # profiled once, and its optimised form kept
            client.unload_model("large")
            print("| | p50 | p99 | p99.9 | greatest | late or refused | loads | a load |\n|---|---|---|---|---|---|---|---|")
            for _ in range(options.rounds):
                for loading in (False, True):
                    result, took = turn(server, options, loading)
                    ms = result["latency_ms"]
                    print("| %s | %.2f ms | %.2f ms | %.2f ms | %.2f ms | %.3f %% | %s | %s |" % (
                        "loading and unloading" if loading else "quiet", ms["p50"], ms["p99"], ms["p999"], ms["max"],
                        100 * result["bad_rate"], len(took) or "", "%.2f s" % statistics.median(took) if took else ""),
                        flush=True)


if __name__ == "__main__":
    main()
