"""autoscale.py - a day of load in minutes, live: emulated accelerators come and go as the server advises.

    build/venv/bin/python bench/autoscale.py [--faster 100] [--slower 10] [--until SECOND] [--every S]
                                             [--start-delay S]

scenarios/day.yaml, its steps --faster times as short, its batches and SLOs --slower times as long, and its rates as much lower, so
that the load is the same and a busy machine matters less, is served by `symphony serve` with 40 emulated accelerators, of which
eight are in service at first, more than the load needs then. `symphony bench --scenario` puts its requests on it. Meanwhile an
autoscaler, here, reads the advice from the metrics page, lets accelerators join --start-delay seconds after they were asked for,
and drains those with the highest numbers, by `POST /v2/symphony/accelerators/N`. Then the same is simulated twice: the scenario,
with the margins that the server measured, in the median; and the requests that the server recorded (`symphony whatif --save`),
with the times that its batches took. Prints Markdown: all three, and how far the numbers of accelerators were apart.

Server, client and autoscaler share this machine, which must have nothing else to do: requests that are late for lack of a
processor have the live server ask for accelerators, too. A day takes a quarter of an hour.
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
FIRST, MOST = 8, 40


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
    for old, new in [("accelerators: 4,", f"accelerators: {FIRST},"), ("job_s: 300", f"job_s: {300 / options.faster:g}"), ("max: 100", f"max: {MOST}"),
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


def simulate(path, sets):
    done = subprocess.run([BINARY, "simulate", path, "--json", *(part for text in sets for part in ("--set", text))],
                          capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def replay(path, options, seconds):
    """The recording, on as many accelerators as the advice says."""
    return simulate(path, [f"cluster.accelerators=[{{type: gtx1080ti, count: {FIRST}}}]", f"run.seconds={seconds:g}",
                           "run.warmup_seconds=0", f"autoscale={{min: 1, max: {MOST}, headroom: 0.05, "
                           f"start_delay_s: {options.start_delay:g}, every_s: {options.every:g}}}"])


def counts(first, changes, seconds):
    """The number that was wanted in each second."""
    wanted, number, rest = [], first, list(changes)
    for second in range(int(seconds)):
        while rest and rest[0][0] <= second:
            number = rest.pop(0)[1]
        wanted.append(number)
    return wanted


def apart(a, b):
    """In words; of the shifts by up to three seconds the one that fits best, as the clocks do not begin at once."""
    size = len(a) - 6
    best = min(([abs(x - y) for x, y in zip(a[3:], b[3 + shift:3 + shift + size])] for shift in range(-3, 4)), key=sum)
    return (f"the numbers wanted are the same in {100 * best.count(0) / len(best):.0f} % of the seconds, and at most one apart in "
            f"{100 * sum(x <= 1 for x in best) / len(best):.0f} %; {max(best)} at most.")


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
            subprocess.run([BINARY, "whatif", f"127.0.0.1:{server.metrics_port}", "--seconds", "86400", "--save", f"{folder}/recorded"],
                           stdout=subprocess.DEVNULL, check=True)
        if done.returncode:
            sys.exit(done.stderr)
        margins = {"ctrl_us": statistics.median(scaler.margins["dispatch"]),
                   "reply_margin_us": statistics.median(scaler.margins["reply"])}
        simulated = simulate(path, [f"network.{key}={value:.1f}" for key, value in margins.items()])
        replayed = replay(f"{folder}/recorded/scenario.yaml", options, seconds)
    live = json.loads(done.stdout)
    runs = {"simulated": simulated, "replayed": replayed, "live": live}
    wanted = {name: counts(FIRST, [(change["second"], change["accelerators"]) for change in run["advice"]], seconds)
              for name, run in runs.items() if name != "live"}
    wanted["live"] = counts(FIRST, scaler.advice, seconds)
    changes = {"simulated": len(simulated["advice"]), "replayed": len(replayed["advice"]), "live": len(scaler.advice)}
    print("| | " + " | ".join(runs) + " |\n" + "|---" * (1 + len(runs)) + "|")
    for title, values in [
            ("requests/s offered", [f"{run['offered_rps']:.1f}" for run in runs.values()]),
            ("bad, %", [f"{100 * run['bad_rate']:.2f}" for run in runs.values()]),
            ("accelerators wanted, mean", [f"{statistics.mean(wanted[name]):.2f}" for name in runs]),
            ("most", [str(max(wanted[name])) for name in runs]),
            ("changes", [str(changes[name]) for name in runs])]:
        print(f"| {title} | " + " | ".join(values) + " |")
    print("\nMargins: dispatch {ctrl_us:.0f} us, reply {reply_margin_us:.0f} us.\n".format(**margins))
    for name in ("simulated", "replayed"):
        print(f"Live and {name}, " + apart(wanted[name], wanted["live"]))


if __name__ == "__main__":
    main()
