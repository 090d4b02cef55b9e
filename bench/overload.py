"""overload.py - what a frontend that cannot keep up answers in time: the curve over the offered rate.

    build/venv/bin/python bench/overload.py [--seconds S] [--rounds N] [--connections C] [--numbers N] [--slo-ms M]
                                            [--against SYMPHONY]

One emulated accelerator runs a model whose batches take 50 us, and a microsecond an item, so that only the server's
threads limit it. Requests hold N numbers as JSON (512), so that a frontend has more to do for a request than the client.
The server has the first half of the cores, `symphony bench` the second half: neither takes time from the other. It sends
at times of its own over C connections (2,000), and counts from when a request was due.

First the peak is searched: the most answers in time a second at any rate, from three tenths below what a closed loop of
64 requests reaches to three tenths above. Then come 0.5 to 3 times that rate. Prints Markdown: at each rate what was in time
(a second, and as a share of the peak), late, refused, and never sent or answered, and how busy the two halves were.
If the client's is full where the server's is not, the table says nothing of the server: give the client more cores, or
requests more numbers. With --against the two builds take turns. Figures are medians of the rounds.
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
sys.path.insert(0, str(TOP / "tests" / "e2e"))
BINARY = os.environ.setdefault("SYMPHONY_BINARY", str(TOP / "build/release/symphony"))
import server as server_module  # noqa: E402
from clients import Model, save_model  # noqa: E402

ALPHA_MS, BETA_MS, BATCH = 0.001, 0.05, 256
NEAR_PEAK = (0.7, 0.8, 0.9, 1.0, 1.15, 1.3)  # of a closed loop's rate
TIMES = (0.5, 0.75, 1, 1.25, 1.5, 2, 3)  # the peak


def cores_of_halves():
    cores = sorted(os.sched_getaffinity(0))
    assert len(cores) > 1, "server and client need a core each"
    return cores[:len(cores) // 2], cores[len(cores) // 2:]


def repository(folder, options):
    model = Model("tiny", options.numbers, 1)
    save_model(folder, model)
    points = [{"batch": b, "latency_ms": ALPHA_MS * b + BETA_MS} for b in (1, BATCH)]
    (folder / "tiny" / "profile.json").write_text(json.dumps({"symphony_profile": 1, "points": points}))
    (folder / "tiny" / "symphony.yaml").write_text("slo_ms: %g\nmax_batch: %d\nprofile: profile.json\n" % (options.slo_ms, BATCH))


class Side:
    """A build that serves, and the client that asks it."""

    def __init__(self, binary, folder, server_cores, client_cores, options):
        self.options, self.client_cores = options, client_cores
        server_module.BINARY = binary
        self.server = server_module.Server("--repository", folder, "--accelerators", "emulated:1", "--pin", "none")
        self.server.args = ["taskset", "-c", ",".join(map(str, server_cores)), *self.server.args]
        self.server_cores = server_cores
        self.server.start()

    def bench(self, *load):
        before = self.server.cpu_seconds()
        command = ["taskset", "-c", ",".join(map(str, self.client_cores)), BINARY, "bench",
                   "http://127.0.0.1:%d" % self.server.port, "--json", "--json-tensors", "--connections", self.options.connections,
                   "--connections-max", self.options.connections, "--warmup", 1, "--grace", 0.2, *load]
        client = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        result = json.loads(client.stdout.read())
        _, status, usage = os.wait4(client.pid, 0)
        assert status == 0, status
        took = result["seconds"] + 1.2
        busy = [(self.server.cpu_seconds() - before) / took / len(self.server_cores),
                (usage.ru_utime + usage.ru_stime) / took / len(self.client_cores)]
        return result, [100 * min(1, share) for share in busy]

    def at(self, rate):
        result, busy = self.bench("--rate", rate, "--seconds", self.options.seconds)
        return [result["good_rps"], *(100 * result[kind] for kind in ("late_rate", "refused_rate", "unanswered_rate")), *busy]

    def closed(self):
        return self.bench("--closed", 64, "--seconds", self.options.seconds)[0]["good_rps"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connections", type=int, default=2000)
    parser.add_argument("--numbers", type=int, default=512)
    parser.add_argument("--slo-ms", type=float, default=15)
    parser.add_argument("--against", metavar="SYMPHONY", help="another build of the server")
    options = parser.parse_args()
    binaries = {"": BINARY, **({" (against)": options.against} if options.against else {})}
    halves = cores_of_halves()
    with tempfile.TemporaryDirectory() as folder:
        repository(pathlib.Path(folder), options)
        sides = {name: Side(binary, folder, *halves, options) for name, binary in binaries.items()}
        try:
            near = {}
            for name, side in sides.items():
                closed = statistics.median(side.closed() for _ in range(options.rounds))
                near[name] = {closed * part: [] for part in NEAR_PEAK}
            for _ in range(options.rounds):
                for name, side in sides.items():
                    for rate, good in near[name].items():
                        good.append(side.at(rate)[0])
            peaks = {name: max(map(statistics.median, rates.values())) for name, rates in near.items()}
            for name, peak in peaks.items():
                print("peak%s: %.0f requests/s in time" % (name, peak))
            print("\n| times the peak | offered/s | in time/s | of the peak | late | refused | never | server's cores | client's cores |\n"
                  "|---|" + "---:|" * 8)
            for times in TIMES:
                rows = {name: [] for name in sides}
                for _ in range(options.rounds):
                    for name, side in sides.items():
                        rows[name].append(side.at(times * peaks[name]))
                for name, row in rows.items():
                    good, *shares = (statistics.median(column) for column in zip(*row))
                    print("| %g%s | %.0f | %.0f | %.0f %% | %s |" % (times, name, times * peaks[name], good, 100 * good / peaks[name],
                                                                    " | ".join("%.0f %%" % share for share in shares)), flush=True)
        finally:
            for side in sides.values():
                side.server.__exit__(None, None, None)


main()
