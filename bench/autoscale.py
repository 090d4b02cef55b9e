"""autoscale.py - a day of load in minutes, live: emulated accelerators come and go as the server advises.

    build/venv/bin/python bench/autoscale.py [--faster 100] [--slower 10] [--until SECOND] [--every S]
                                             [--start-delay S]

scenarios/day.yaml, its steps --faster times as short, its batches and SLOs --slower times as long, and its rates as much lower, so
that the load is the same and a busy machine matters less, is served by `symphony serve` with 40 emulated accelerators, of which
four are in service at first. `symphony bench --scenario` puts its requests on it. Meanwhile an autoscaler, here, reads the
advice from the metrics page, lets accelerators join --start-delay seconds after they were asked for, and drains those with
the highest numbers, by `POST /v2/symphony/accelerators/N`. Then `symphony simulate` runs the same scenario, with the margins
that the server measured, in the median. Prints Markdown: both, and how far the number of accelerators was apart.
Server, client and autoscaler share this machine.
"""
import argparse
import csv
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time

TOP = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / "tests" / "e2e"))
from server import Server  # noqa: E402

BINARY = os.environ.setdefault("SYMPHONY_BINARY", str(TOP / "build/release/symphony"))
DAY = TOP / "scenarios"
FIRST, MOST = 4, 40


def models_of(options):
    """The day's models, with batches and SLOs as much slower."""
    rows = csv.DictReader(line for line in open(TOP / "data" / "symphony_model_zoo.csv") if not line.startswith("#"))
    return {row["model"]: {"name": row["model"]} | {key: float(row[key]) * options.slower for key in ("alpha_ms", "beta_ms", "slo_ms")}
            for row in rows if row["gpu"] == "GTX1080Ti"}


def scenario_make(folder, options):
    """The day, shorter: its jobs, and a scenario of them; `served.yaml` has all accelerators from the start. Returns the
    scenario's path and how long it lasts."""
    last, zoo, names = 0, models_of(options), {}
    with open(folder / "day.csv", "w") as to:
        for line in open(DAY / "day.csv"):
            fields = line.rstrip("\n").split(",")
            if len(fields) != 5 or not fields[0].isdigit():
                continue
            at = float(fields[4]) / options.faster
            last = max(last, at + 300 / options.faster)
            names[fields[1]] = zoo[fields[1]]
            to.write(",".join([fields[0], fields[1], f"{float(fields[2]) * options.slower:g}", f"{float(fields[3]) / options.slower:g}",
                               f"{at:g}"]) + "\n")
    seconds = min(last, options.until)
    text = re.sub(r"models: \{[^}]*\}", lambda _: "models: " + json.dumps(list(names.values())), (DAY / "day.yaml").read_text())
    for old, new in [("job_s: 300", f"job_s: {300 / options.faster:g}"), ("max: 100", f"max: {MOST}"),
                     ("start_delay_s: 60, every_s: 10", f"start_delay_s: {options.start_delay:g}, every_s: {options.every:g}"),
                     ("seconds: 86400", f"seconds: {seconds:g}")]:
        assert old in text, f"scenarios/day.yaml has no '{old}' any more"
        text = text.replace(old, new)
    (folder / "day.yaml").write_text(text)
    (folder / "served.yaml").write_text(text.replace(f"accelerators: {FIRST},", f"accelerators: {MOST},"))
    return folder / "day.yaml", seconds


class Autoscaler(threading.Thread):
    """Follows the advice of a server; accelerators 0 to present - 1 are in service."""

    def __init__(self, server, start_delay):
        super().__init__(daemon=True)
        self.server, self.start_delay = server, start_delay
        self.present, self.starts, self.advice, self.ended = MOST, [], [], False
        self.margins = {"dispatch": [], "reply": []}  # in microseconds, as the server measured them
        self.set(FIRST)

    def order(self, number, action):
        answer = self.server.request("POST", f"/v2/symphony/accelerators/{number}", json.dumps({"action": action}))
        assert answer[0] == 200, answer

    def set(self, count):
        for number in range(count, self.present):
            self.order(number, "drain")
        for number in range(self.present, count):
            self.order(number, "join")
        self.present = count

    def run(self):
        self.began = time.monotonic()
        while not self.ended:
            now = time.monotonic() - self.began
            metrics = self.server.metrics()
            for name, values in self.margins.items():
                values.append(1e6 * max(value for row, value in metrics.items()
                                        if row.startswith(f'symphony_margin_seconds{{kind="{name}"')))
            if "symphony_accelerators_wanted" in metrics:
                self.follow(now, int(metrics["symphony_accelerators_wanted"]))
            time.sleep(0.1)

    def follow(self, now, wanted):
        asked = self.present + len(self.starts)
        if wanted != asked:
            self.advice.append((now, wanted))
        self.starts += [now + self.start_delay] * (wanted - asked)
        while self.starts and self.present + len(self.starts) > wanted:
            self.starts.pop()
        due = sum(at <= now for at in self.starts)
        self.starts = self.starts[due:]
        self.set(self.present + due if wanted >= self.present else wanted)


def simulate(path, margins_us):
    sets = [part for key, value in margins_us.items() for part in ("--set", f"network.{key}={value:.1f}")]
    done = subprocess.run([BINARY, "simulate", path, "--json", *sets], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def counts(first, changes, seconds):
    """The number that was wanted in each second."""
    wanted, number, rest = [], first, list(changes)
    for second in range(int(seconds)):
        while rest and rest[0][0] <= second:
            number = rest.pop(0)[1]
        wanted.append(number)
    return wanted


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faster", type=float, default=100)
    parser.add_argument("--slower", type=float, default=10, help="batches and SLOs are so many times as long (default: 10)")
    parser.add_argument("--until", type=float, default=1e9, metavar="SECOND", help="end there (default: the whole day)")
    parser.add_argument("--every", type=float, default=1, metavar="S", help="between two looks at the load (default: 1)")
    parser.add_argument("--start-delay", type=float, default=1, metavar="S", help="of an accelerator (default: 1)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path, seconds = scenario_make(pathlib.Path(folder), options)
        with Server("--scenario", path.with_name("served.yaml"), "--accelerator-control") as server:
            scaler = Autoscaler(server, options.start_delay)
            scaler.start()
            done = subprocess.run([BINARY, "bench", f"127.0.0.1:{server.port}", "--scenario", path, "--json",
                                   "--metrics", f"http://127.0.0.1:{server.metrics_port}/metrics"],
                                  capture_output=True, text=True)
            scaler.ended = True
            scaler.join()
            recorded = subprocess.run([BINARY, "whatif", f"127.0.0.1:{server.metrics_port}", "--seconds", "86400", "--save",
                                       f"{folder}/recorded", "--json"], capture_output=True, text=True)
            print(recorded.stderr, file=sys.stderr); import shutil; shutil.rmtree("/tmp/ep/rec", ignore_errors=True); shutil.copytree(f"{folder}/recorded", "/tmp/ep/rec")
        if done.returncode:
            sys.exit(done.stderr)
        margins = {"ctrl_us": statistics.median(scaler.margins["dispatch"]),
                   "reply_margin_us": statistics.median(scaler.margins["reply"])}
        simulated = simulate(path, margins)
    live = json.loads(done.stdout)
    a = counts(FIRST, [(change["second"], change["accelerators"]) for change in simulated["advice"]], seconds)
    b = counts(FIRST, scaler.advice, seconds)
    apart = [abs(x - y) for x, y in zip(a, b)]
    print("| | simulated | live |\n|---|---|---|")
    print(f"| requests/s offered | {simulated['offered_rps']:.1f} | {live['offered_rps']:.1f} |")
    print(f"| bad, % | {100 * simulated['bad_rate']:.2f} | {100 * live['bad_rate']:.2f} |")
    print(f"| accelerators wanted, mean | {statistics.mean(a):.2f} | {statistics.mean(b):.2f} |")
    print(f"| most | {max(a)} | {max(b)} |")
    print(f"| changes | {len(simulated['advice'])} | {len(scaler.advice)} |")
    print("\nMargins: dispatch {ctrl_us:.0f} us, reply {reply_margin_us:.0f} us.".format(**margins))
    print(f"\nThe numbers wanted are the same in {100 * apart.count(0) / len(apart):.0f} % of the seconds, and at most one apart in "
          f"{100 * sum(x <= 1 for x in apart) / len(apart):.0f} %; {max(apart)} at most.")


if __name__ == "__main__":
    main()
