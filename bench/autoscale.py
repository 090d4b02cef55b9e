"""autoscale.py - a day of load in minutes, live: emulated accelerators come and go as the server advises.

    build/venv/bin/python bench/autoscale.py [--faster 100] [--slower 10] [--until SECOND] [--every S]
                                             [--start-delay S]

scenarios/day.yaml, its steps --faster times as short, its batches and SLOs --slower times as long, and its rates as much lower, so
that the load is the same and a busy machine matters less, is served by `symphony serve` with 40 emulated accelerators, of which
eight are in service at first, more than the load needs then. `symphony bench --scenario` puts its requests on it. Meanwhile an
autoscaler, here, reads the advice from the metrics page, lets accelerators join --start-delay seconds after they were asked for,
and drains those with the highest numbers, by `POST /v2/symphony/accelerators/N`. Then the same is simulated: the scenario, with the
margins that the server measured, in the median, and once more with a margin longer by 0.1 ms; and the requests that the server
recorded (`symphony whatif --save`), with the times that its batches took, and looks at the load when the server looked. At last
every decision is made again from the server's log (`--record-decisions`, `symphony whatif --check`), the advice included. Prints
Markdown: all runs, how far the numbers of accelerators were apart, and what was decided again.

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
import urllib.request

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


def looks_of(recording):
    """The looks at the load that a recording has: [second, requests, bad, needed, wanted, in service] each."""
    return json.loads(recording.split("--- server\n")[1].split("\n")[0])["looks"]


def looks_align(folder, begin):
    """Lets the recorded requests of `folder`, as `whatif --save` made it, begin with the server's first look, when it began to
    advise, so that the simulator looks when the server did. Returns when the first request comes then."""
    trace = next(folder.glob("*.csv"))
    head, *rows = trace.read_text().splitlines()
    rows = [row.split(",", 1) for row in rows]
    rows = [f"{float(second) - begin:.9f},{rest}" for second, rest in rows if float(second) >= begin]
    trace.write_text("\n".join([head] + rows) + "\n")
    return float(rows[0].split(",")[0])


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


def apart(a, b, shift_most=3):
    """In words; of the shifts by so many seconds the one that fits best, where the clocks do not begin at once."""
    def at(shift):
        size = min(len(a), len(b)) - 2 * shift_most
        return [abs(x - y) for x, y in zip(a[shift_most:], b[shift_most + shift:shift_most + shift + size])]
    best = min((at(shift) for shift in range(-shift_most, shift_most + 1)), key=sum)
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
        folder = pathlib.Path(folder)
        with Server("--scenario", path.with_name("served.yaml"), "--accelerator-control", "--record-decisions", folder / "log",
                    "--record-decisions-mib", "1024") as server:
            scaler = Autoscaler(server, options.start_delay)
            scaler.start()
            done = subprocess.run([BINARY, "bench", f"127.0.0.1:{server.port}", "--scenario", path, "--json",
                                   "--metrics", f"http://127.0.0.1:{server.metrics_port}/metrics"],
                                  capture_output=True, text=True)
            scaler.ended = True
            scaler.join()
            with urllib.request.urlopen(f"http://127.0.0.1:{server.metrics_port}/v2/symphony/recording/86400") as answer:
                recording = answer.read().decode()
            (folder / "recording").write_text(recording)
            subprocess.run([BINARY, "whatif", folder / "recording", "--save", folder / "recorded"], stdout=subprocess.DEVNULL, check=True)
        if done.returncode:
            sys.exit(done.stderr)
        margins = {"ctrl_us": statistics.median(scaler.margins["dispatch"]),
                   "reply_margin_us": statistics.median(scaler.margins["reply"])}
        sets = [f"network.reply_margin_us={margins['reply_margin_us']:.1f}"]
        simulated, again = (simulate(path, sets + [f"network.ctrl_us={margins['ctrl_us'] + more:.1f}"]) for more in (0, 100))
        looks = looks_of(recording)
        began = looks_align(folder / "recorded", looks[0][0])
        replayed = replay(folder / "recorded" / "scenario.yaml", options, seconds + began)
        check = subprocess.run([BINARY, "whatif", "--check", folder / "log"], capture_output=True, text=True)
    live = json.loads(done.stdout)
    runs = {"simulated": simulated, "with 0.1 ms more": again, "replayed": replayed, "live": live}
    wanted = {name: counts(FIRST, [(change["second"], change["accelerators"]) for change in run["advice"]], seconds)
              for name, run in runs.items() if name != "live"}
    at_looks = [FIRST if look[4] is None else look[4] for look in looks]
    wanted["live"] = at_looks[round(began):][:int(seconds)]
    changes = {name: len(scaler.advice if name == "live" else run["advice"]) for name, run in runs.items()}
    print("| | " + " | ".join(runs) + " |\n" + "|---" * (1 + len(runs)) + "|")
    for title, values in [
            ("requests/s offered", [f"{run['offered_rps']:.1f}" for run in runs.values()]),
            ("bad, %", [f"{100 * run['bad_rate']:.2f}" for run in runs.values()]),
            ("accelerators wanted, mean", [f"{statistics.mean(wanted[name]):.2f}" for name in runs]),
            ("most", [str(max(wanted[name])) for name in runs]),
            ("changes", [str(changes[name]) for name in runs])]:
        print(f"| {title} | " + " | ".join(values) + " |")
    print("\nMargins: dispatch {ctrl_us:.0f} us, reply {reply_margin_us:.0f} us.\n".format(**margins))
    print("Live and simulated: " + apart(wanted["simulated"], wanted["live"]))
    print("Live and replayed, look by look: " + apart(wanted["replayed"], at_looks, 0))
    print("Simulated and with 0.1 ms more: " + apart(wanted["simulated"], wanted["with 0.1 ms more"], 0))
    print("\nDecided again from the log:\n\n" + check.stdout.replace(str(folder), "").replace("/log/", "- ") + check.stderr)


if __name__ == "__main__":
    main()
