"""prefixes.py - measures what it gains to run the layers that models share once for all of them.

    build/venv/bin/python bench/prefixes.py [--models N] [--width W] [--depth D] [--slo-ms M] [--rounds N] [--seconds S]
    build/venv/bin/python bench/prefixes.py --repository DIR ...

Serves N models of D fully connected layers of W x W in common and one of W x 100 of their own, or those of a repository,
with --share-prefixes off and on, in turns. Prints Markdown: how long the server takes to be ready at its first start
(profiles are measured, and cuts tried) and at later ones; its memory once each model has answered; the processor's time
that it takes for a request at --rate, with all its threads, which other work on the machine disturbs least; and the highest
rate of Poisson arrivals, over all models, at which 99 % of each model's answers are there within the SLO (not with
--no-search). Server and client share this machine.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np
from onnx import TensorProto, helper, numpy_helper

TOP = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / "tests" / "e2e"))
BINARY = os.environ.setdefault("SYMPHONY_BINARY", str(TOP / "build/release/symphony"))
from repository import save_model  # noqa: E402
from server import Server  # noqa: E402

CLASSES = 100


def variants(folder, count, width, depth):
    trunk, heads = np.random.default_rng(1), np.random.default_rng(2)
    shared = [(trunk.standard_normal((width, width)) / np.sqrt(width)).astype(np.float32) for _ in range(depth)]
    for n in range(count):
        own = (heads.standard_normal((width, CLASSES)) / np.sqrt(width)).astype(np.float32)
        nodes, at = [], "x"
        for i in range(depth):
            nodes += [helper.make_node("MatMul", [at, f"w{i}"], [f"m{i}"]), helper.make_node("Relu", [f"m{i}"], [f"t{i}"])]
            at = f"t{i}"
        nodes.append(helper.make_node("MatMul", [at, "own"], ["y"]))
        weights = [numpy_helper.from_array(w, f"w{i}") for i, w in enumerate(shared)]
        save_model(folder, f"variant-{n}", nodes, [("x", TensorProto.FLOAT, ["N", width])], [("y", TensorProto.FLOAT, ["N", CLASSES])],
                   weights + [numpy_helper.from_array(own, "own")])


def bench(server, options, *load):
    command = [BINARY, "bench", f"http://127.0.0.1:{server.port}", *map(str, load), "--slo-ms", str(options.slo_ms),
               "--timeout-from-slo", "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if not done.stdout:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)


def resident_mb(server):
    with open(f"/proc/{server.process.pid}/status") as status:
        [line] = [line for line in status if line.startswith("VmRSS")]
    return int(line.split()[1]) / 1024


def turn(folder, share, options, rate):
    start = time.monotonic()
    with Server("--repository", str(folder), "--share-prefixes", share, "--accelerators", "cpu:1", "--slo-ms",
                options.slo_ms, "--spin", "0") as server:
        ready_s = time.monotonic() - start
        shared = server.log_text().count('msg="model shares its first layers"')
        bench(server, options, "--rate", 20, "--seconds", 2)
        memory = resident_mb(server)
        if not rate:
            return {"ready_s": ready_s}
        before = server.cpu_seconds()
        bench(server, options, "--rate", rate, "--warmup", 0, "--seconds", 2 * options.seconds)
        cpu_ms = 1000 * (server.cpu_seconds() - before) / (rate * 2 * options.seconds)
        found = {} if options.no_search else bench(server, options, "--find", "goodput", "--precision", 0.05, "--rate", rate,
                                                   "--seconds", options.seconds)
    return {"ready_s": ready_s, "memory": memory, "shared": shared, "cpu_ms": cpu_ms, "rate": found.get("goodput_rps")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=6)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--slo-ms", type=float, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--rate", type=float, default=200, help="of the turn that measures the processor's time; the search "
                        "for the highest rate begins there")
    parser.add_argument("--no-search", action="store_true")
    parser.add_argument("--repository", help="a repository of models instead; it is copied")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as parent:
        folder = pathlib.Path(parent) / "models"
        if options.repository:
            shutil.copytree(options.repository, folder, ignore=shutil.ignore_patterns(".symphony"))
        else:
            variants(folder, options.models, options.width, options.depth)
        print("| | models that share | first start, s | later starts, s | memory, MB | CPU of a request, ms | highest rates, "
              "requests/s |\n|---|---|---|---|---|---|---|", flush=True)
        first = {share: turn(folder, share, options, 0)["ready_s"] for share in ("off", "on")}
        rows = {"off": [], "on": []}
        for _ in range(options.rounds):
            for share, row in rows.items():
                row.append(turn(folder, share, options, options.rate))
        for share, row in rows.items():
            rates = ", ".join(f"{r['rate']:.0f}" for r in row if r["rate"])
            print(f"| {share} | {row[0]['shared']} | {first[share]:.1f} | {min(r['ready_s'] for r in row):.1f} | "
                  f"{max(r['memory'] for r in row):.0f} | {', '.join('%.2f' % r['cpu_ms'] for r in row)} | {rates or '-'} |")
    print("\nThe first start with `on` finds the whole models' profiles of the one with `off` before it.")


if __name__ == "__main__":
    main()
