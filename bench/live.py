"""live.py - compares the live server with its cores in virtual time, and runs real models at 70 % of the raw engine.

    build/venv/bin/python bench/live.py [--quick] [--reuse newest|oldest] [table4] [real]

table4: the models of Table 4 (Symphony, arXiv 2308.07470), each live on 8 emulated accelerators over HTTP. Live
        goodput is searched by `symphony bench`, then that of the cores in virtual time with the margins that the
        server measured. Once the client takes the idle connection used last for its next request, as most pools of
        connections do; once it takes the one idle longest (--reuse: only this one).
real:   each demonstration model alone on one CPU accelerator at 70 % of the rate of the raw engine in a closed loop
        on the same core (at the best batch size of the profile), for 60 s; and all of them together at equal rates.
        The client runs on the other cores.
Prints Markdown. Server and client share this machine, so give it four cores, or trust only the ratios.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import numpy as np
import onnxruntime

TOP = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / "tests" / "e2e"))
from server import Server  # noqa: E402

BINARY = os.environ.setdefault("SYMPHONY_BINARY", str(TOP / "build/release/symphony"))
TABLE4 = [("ResNet50, SLO 25 ms", "table4-resnet50.yaml", 0), ("InceptionResNetV2, SLO 70 ms",
                                                              "table4-inceptionresnetv2.yaml", 1)]


REUSES = ("newest", "oldest")  # which idle connection takes the next request


def bench(server, *args):
    url = "http://127.0.0.1:%d" % server.port
    output = subprocess.run([BINARY, "bench", url, "--json", "--metrics",
                             "http://127.0.0.1:%d/metrics" % server.metrics_port, *map(str, args)],
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout
    return json.loads(output)


def margins(server):
    """ctrl, data and reply in microseconds, as the scheduler uses them now."""
    m = server.metrics()
    get = lambda name: max(v for k, v in m.items() if k.startswith(name)) * 1e6
    return (get('symphony_margin_seconds{kind="dispatch"'), get("symphony_model_gather_seconds"),
            get('symphony_margin_seconds{kind="reply"'))


def virtual_goodput(cell, ctrl_us, data_us, reply_us):
    run = subprocess.run([str(TOP / "build/release/bench_goodput"), "--cell", str(cell), "--ctrl-us", str(ctrl_us),
                          "--data-us", str(data_us), "--reply-us", str(reply_us)], stdout=subprocess.PIPE, text=True)
    return float(run.stdout.splitlines()[1][32:].split()[0])


def table4(arguments):
    print("| model | connections | live goodput | margins at 95 % of it (dispatch, gather an item, reply) | "
          "in virtual time with them | live / virtual | virtual, no delays | late at 80 % of that: to the client, to the server |\n"
          "|---|---|---|---|---|---|---|---|")
    for name, scenario, cell in TABLE4:
        ideal = virtual_goodput(cell, 0, 0, 0)
        for reuse in REUSES if arguments.reuse == "both" else [arguments.reuse]:
            with Server("--scenario", TOP / "scenarios" / scenario) as server:
                found = bench(server, "--find", "goodput", "--reuse", reuse, "--seconds",
                              5 if arguments.quick else 15)["goodput_rps"]
                samples = []
                for _ in range(3):
                    bench(server, "--rate", 0.95 * found, "--reuse", reuse, "--seconds", 3)
                    samples.append(margins(server))
                at_80 = bench(server, "--rate", 0.8 * ideal, "--reuse", reuse, "--seconds", 5 if arguments.quick else 30)
            us = [statistics.median(column) for column in zip(*samples)]
            virtual = virtual_goodput(cell, *us)
            print("| %s | %s | %.0f/s | %.0f, %.1f, %.0f us | %.0f/s | %.3f | %.0f/s | %.2f %%, %.2f %% |" %
                  (name, reuse + " first", found, *us, virtual, found / virtual, ideal, 100 * at_80["late_rate"],
                   100 * (1 - at_80["server"]["in_time_rate"])), flush=True)


class RawEngine:
    """ONNX Runtime alone: one thread on one core, in a closed loop at the profile's best batch size."""

    def __init__(self, model, core):
        profile = json.loads(subprocess.run([BINARY, "profile", "--json", str(model)], stdout=subprocess.PIPE,
                                            stderr=subprocess.DEVNULL, check=True).stdout)[0]
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        rng = np.random.default_rng(1)
        self.batch, self.core, self.slo_ms = profile["batch_best"], core, profile["slo_ms"]
        self.session = onnxruntime.InferenceSession(str(model / "1" / "model.onnx"), options)
        self.feed = {}
        for node, given in zip(self.session.get_inputs(), profile["inputs"]):
            shape = [self.batch] + given["item"][1:]
            self.feed[node.name] = (rng.random(shape, np.float32) if node.type == "tensor(float)" else
                                    rng.integers(0, 2, shape).astype(np.int32 if "int32" in node.type else np.int64))

    def rate(self, seconds):
        """Items per second."""
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {self.core})
        self.session.run(None, self.feed)
        runs, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            self.session.run(None, self.feed)
            runs += 1
        rate = runs * self.batch / (time.perf_counter() - start)
        os.sched_setaffinity(0, before)
        return rate


def real_row(server, raws, load, arrivals, arguments):
    """Serves several times in a row, each at 70 % of what the raw engine has just done, and sums up: a machine whose
    speed drifts is compared with its own speed at the moment."""
    names, parts, rates = list(raws), [], []
    for _ in range(1 if arguments.quick else 6):
        rates.append(len(names) / sum(1 / raw.rate(1) for raw in raws.values()))
        parts.append(bench(server, "--models", ",".join(names), "--rate", 0.7 * rates[-1], "--seconds", 10, "--arrivals",
                           arrivals, "--connections", 64, "--seed", len(parts) + 1, "--reuse",
                           "newest" if arguments.reuse == "both" else arguments.reuse))
    offered = sum(part["offered_rps"] for part in parts)
    latency = lambda name: statistics.median(part["latency_ms"][name] for part in parts)
    print("| %s | %s | %.1f/s | %.1f/s | %.2f %% (%s) | %.1f ms | %.1f ms | %.2f |" % (
        load, arrivals, statistics.mean(rates), offered / len(parts),
        100 * sum(part["bad_rate"] * part["offered_rps"] for part in parts) / offered,
        ", ".join("%.1f" % (100 * part["bad_rate"]) for part in parts), latency("p50"), latency("p99"),
        statistics.mean(part.get("batch_mean") or 0 for part in parts)), flush=True)


def real(arguments):
    cores = sorted(os.sched_getaffinity(0))
    names = sorted(p.name for p in (TOP / "models").iterdir() if (p / "1" / "model.onnx").exists())
    print("| load | arrivals | raw engine, closed loop | offered (70 %) | bad (each 10 s) | p50 | p99 | mean batch |\n"
          "|---|---|---|---|---|---|---|---|")
    raws = {name: RawEngine(TOP / "models" / name, cores[-1]) for name in names}
    with Server("--repository", TOP / "models", "--accelerators", "cpu:1", "--pin", cores[-1]) as server:
        os.sched_setaffinity(0, set(cores[:-1]) or set(cores))  # the client leaves the executor's core alone
        for name, raw in raws.items():
            load = "%s, batch %d, SLO %g ms" % (name, raw.batch, raw.slo_ms)
            for arrivals in ("poisson",) if arguments.quick else ("poisson", "uniform"):
                real_row(server, {name: raw}, load, arrivals, arguments)
        real_row(server, raws, "all, equal rates", "poisson", arguments)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="seconds instead of minutes")
    parser.add_argument("--reuse", choices=[*REUSES, "both"], default="both",
                        help="of table4 (default: both, one row each); real takes this one, or the newest first")
    parser.add_argument("what", nargs="*", choices=["table4", "real", []], help="default: both")
    arguments = parser.parse_args()
    for what in arguments.what or ["table4", "real"]:
        {"table4": table4, "real": real}[what](arguments)
        print()


if __name__ == "__main__":
    main()
