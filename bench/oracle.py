"""oracle.py - how many accelerators a load takes that is known beforehand, and how many the advice takes.

    build/venv/bin/python bench/oracle.py [SCENARIO] [--every N] [--seconds S] [--bad SHARE] [--seed N]

SCENARIO (scenarios/day.yaml) has `autoscale`, and a trace of jobs, each for `job_s` seconds, as its arrivals. Of every Nth
step (4) the least number of accelerators is found with which at most SHARE of the requests (0.01) are bad: `symphony
simulate` of the step's rates for S seconds (60), by bisection. An oracle has so many in each step from its beginning to its
end. Then the scenario itself is simulated, whose accelerators come after their start delay and by advice alone. Prints
Markdown. The day takes some minutes.
"""
import argparse
import collections
import concurrent.futures
import csv
import json
import os
import pathlib
import re
import statistics
import subprocess

TOP = pathlib.Path(__file__).resolve().parent.parent
BINARY = os.environ.get("SYMPHONY_BINARY", str(TOP / "build/release/symphony"))


def simulate(scenario, *sets):
    done = subprocess.run([BINARY, "simulate", scenario, "--json", "--threads", "1", *(part for text in sets for part in ("--set", text))],
                          capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def steps_read(scenario):
    """The length of a step, and the rates of each: a list of {model: rate}, in order."""
    found = re.search(r"trace: (\S+\.csv), job_s: ([0-9.]+)", scenario.read_text())
    assert found, f"{scenario} has no 'arrivals: {{trace: FILE.csv, job_s: S}}'"
    steps = collections.defaultdict(dict)
    with open(scenario.parent / found[1]) as file:
        for row in csv.DictReader(line for line in file if not line.startswith("#")):
            steps[float(row["arrival"])][row["model"]] = float(row["rate"])
    return float(found[2]), [steps[at] for at in sorted(steps)]


def is_enough(options, rates, count):
    shares = ", ".join(f"{model}: {rate:g}" for model, rate in rates.items())
    made = simulate(options.scenario, f"workload={{rate_rps: {sum(rates.values()):g}, popularity: {{shares: {{{shares}}}}}}}",
                    f"cluster.accelerators={count}", f"autoscale={{min: {count}, max: {count}}}", f"run.seed={options.seed}",
                    f"run.seconds={options.seconds:g}", "run.warmup_seconds=5")
    return made["bad_rate"] <= options.bad


def least(options, rates):
    """Of the accelerators of a step, by bisection: more are taken to be never worse."""
    most = 1
    while not is_enough(options, rates, most):
        most *= 2
    fewer = most // 2  # which are too few
    while most - fewer > 1:
        middle = (fewer + most) // 2
        fewer, most = (fewer, middle) if is_enough(options, rates, middle) else (middle, most)
    return most


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenario", nargs="?", type=pathlib.Path, default=TOP / "scenarios" / "day.yaml")
    parser.add_argument("--every", type=int, default=4, metavar="N", help="look at every Nth step (default: 4)")
    parser.add_argument("--seconds", type=float, default=60, metavar="S", help="of a step that are simulated (default: 60)")
    parser.add_argument("--bad", type=float, default=0.01, metavar="SHARE", help="of the requests that may be bad (default: 0.01)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    step_s, steps = steps_read(options.scenario)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        advised = pool.submit(simulate, options.scenario, f"run.seed={options.seed}")
        oracle = list(pool.map(lambda rates: least(options, rates), steps[::options.every]))
        advised = advised.result()
    mean = statistics.mean(oracle)
    print(f"{options.scenario.name}, seed {options.seed}; {len(oracle)} of {len(steps)} steps of {step_s:g} s:\n")
    print("| | accelerators, mean | most | over the oracle | bad, % | changes |\n|---|---|---|---|---|---|")
    print(f"| oracle | {mean:.2f} | {max(oracle)} | 1 | at most {100 * options.bad:g} | - |")
    print(f"| advice | {advised['accelerators_mean']:.2f} | {advised['accelerators_max']} | {advised['accelerators_mean'] / mean:.3f} | "
          f"{100 * advised['bad_rate']:.2f} | {len(advised['advice'])} |")


if __name__ == "__main__":
    main()
