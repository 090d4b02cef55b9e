"""tracing.py - what it costs that a server notes what it does: trails, timelines and the rest of docs/observe.md.

    build/venv/bin/python bench/tracing.py [--rounds 15] [--seconds 2] [--outstanding 64] [MODEL]...

For each model of bench/compare (tiny, mlp) two servers run side by side, one that keeps nothing (--trails 0
--timeline-mib 0) and one as it is (one trail in 100 requests in time). Each in turn, in an order that alternates, answers as
many requests as it can; what counts is the processor time of its process, by request. Prints the median of each, and the
median of the ratios of neighbours with its quartiles: the machine's speed drifts, which concerns neighbours alike.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TOP / "tests" / "e2e"), str(TOP / "bench")]
from compare import models  # noqa: E402
from server import Server  # noqa: E402

BINARY = os.environ.setdefault("SYMPHONY_BINARY", str(TOP / "build/release/symphony"))
OFF, ON = ("--trails", 0, "--timeline-mib", 0), ()


def cpu_s(pid):
    """Processor time of a process, to a nanosecond."""
    return sum(int(pathlib.Path(f"/proc/{pid}/task/{task}/schedstat").read_text().split()[0])
               for task in os.listdir(f"/proc/{pid}/task")) / 1e9


def answered(server):
    return sum(count for row, count in server.metrics().items() if row.startswith("symphony_requests_total{") and 'outcome="ok"' in row)


def cpu_us_a_request(server, name, seconds, outstanding):
    began_s, began = cpu_s(server.process.pid), answered(server)
    subprocess.run([BINARY, "bench", "http://127.0.0.1:%d" % server.port, "--closed", str(outstanding), "--seconds", str(seconds),
                    "--warmup", "0.2", "--models", name, "--json"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    count = answered(server) - began
    return (cpu_s(server.process.pid) - began_s) / count * 1e6


def compare(folder, name, arguments):
    options = ("--repository", folder, "--accelerators", "cpu:1")
    with Server(*options, *OFF) as off, Server(*options, *ON) as on:
        figures = {off: [], on: []}
        for n in range(arguments.rounds + 1):
            for server in (off, on) if n % 2 else (on, off):
                figures[server].append(cpu_us_a_request(server, name, arguments.seconds, arguments.outstanding))
        pairs = [(x, y) for x, y in zip(figures[off], figures[on])][1:]  # the first is a warm-up
    low, middle, high = statistics.quantiles([y / x for x, y in pairs], n=4)
    print(json.dumps({"model": name, "off_us": round(statistics.median(x for x, _ in pairs), 3),
                      "on_us": round(statistics.median(y for _, y in pairs), 3), "ratio": round(middle, 4),
                      "quartiles": [round(low, 4), round(high, 4)]}), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--outstanding", type=int, default=64)
    parser.add_argument("models", nargs="*", default=["tiny", "mlp"])
    arguments = parser.parse_args()
    for name in arguments.models:
        with tempfile.TemporaryDirectory() as folder:
            {"tiny": models.make_tiny, "mlp": models.make_mlp}[name](pathlib.Path(folder) / f"{name}.onnx")
            compare(folder, name, arguments)


if __name__ == "__main__":
    main()
