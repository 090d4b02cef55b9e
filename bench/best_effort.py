#!/usr/bin/env python3
"""What best effort costs requests with SLOs, and how much of it runs, by several builds of the program, in drawn clusters in virtual time.

    python3 bench/best_effort.py before/symphony build/release/symphony --draw 901 --clusters 48
    python3 bench/best_effort.py ... --draw 902 --most 4             # few accelerators
    python3 bench/best_effort.py ... --draw 903 --slower 40          # runs and SLOs of seconds

A cluster has 1 to 16 models of either zoo with SLOs of 1.8 to 7 lone runs, at 20 to 95 % of about their peak, and beside them 1 to 3
models with more best effort than the accelerators could run. Each other program is compared with the first one: geometric means over the
clusters, with 95 % intervals.
"""
import argparse
import csv
import json
import math
import pathlib
import random
import statistics
import subprocess
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[1]
BAD_LEAST, BAD_MOST = 3e-4, 0.3  # less and more count as these


def zoos():
    found = {}
    for row in csv.DictReader(line for line in (TOP / "data/symphony_model_zoo.csv").open() if line[0] != "#"):
        found.setdefault(row["gpu"], []).append((float(row["alpha_ms"]), float(row["beta_ms"])))
    return list(found.values())


def scenario(rng, zoo, most, slower):
    count = rng.randint(1, 16 if most > 4 else 2 * most)
    accelerators = min(most, max(1, round(count * rng.choice([0.4, 0.7, 1, 2, 4]))))
    models, load, skew = [], 0, rng.choice([0, 0.9])
    for i in range(count):
        alpha, beta = (slower * ms for ms in rng.choice(zoo))
        slo = (alpha + beta) * 1.8 * (7 / 1.8) ** rng.random()
        share = (i + 1) ** -skew
        models.append((f"m{i}", alpha, beta, slo, share))
        load += share * (alpha + beta / min(16, max(1, (slo / 1.5 - beta) / alpha))) / 1000
    rate = rng.choice([0.2, 0.4, 0.6, 0.8, 0.95]) * accelerators / load
    models = [(*model, share * rate / sum(m[4] for m in models)) for *model, share in models]
    extra = rng.randint(1, 3)
    for i in range(extra):
        alpha, beta = (slower * ms for ms in rng.choice(zoo))
        models.append((f"b{i}", alpha, beta, rng.uniform(2, 8) * (alpha + beta), 1500 * accelerators / extra / (alpha + beta / 8)))
    total = sum(model[4] for model in models)
    seconds = slower ** 0.5 * max(3, min(20, 60000 / slower / rate))
    lines = [f"cluster: {{accelerators: {accelerators}, type: drawn}}", "models:"]
    lines += [f"  - {{name: {name}, alpha_ms: {alpha}, beta_ms: {beta}, slo_ms: {slo:.3f}, best_effort: {int(name[0] == 'b')}}}"
              for name, alpha, beta, slo, _ in models]
    shares = ", ".join(f"{model[0]}: {model[4] / total:.9f}" for model in models)
    lines += [f"workload: {{rate_rps: {total:.2f}, arrivals: {rng.choice(['poisson', '{gamma: 0.3}'])}, popularity: {{shares: {{{shares}}}}}}}",
              f"run: {{seconds: {seconds:.1f}, warmup_seconds: 3, seed: {rng.randint(1, 9999)}}}"]
    return "\n".join(lines) + "\n"


def run(program, path):
    result = json.loads(subprocess.run([program, "simulate", path, "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout)
    slo = [m for m in result["models"] if m["name"][0] == "m" and m["offered_rps"] > 0]
    offered = sum(m["offered_rps"] for m in slo)
    return {"worst": max(m["bad_rate"] for m in slo), "all": sum(m["offered_rps"] * m["bad_rate"] for m in slo) / offered,
            "p99": sum(m["offered_rps"] * m["latency_ms"]["p99"] / m["slo_ms"] for m in slo) / offered,
            "best effort": sum(m["best_effort"]["good_rps"] for m in result["models"] if m["name"][0] == "b")}


def ratio(runs, program, key):
    least, most = (BAD_LEAST, BAD_MOST) if key in ("worst", "all") else (1e-3, math.inf)
    logs = [math.log(min(max(r[program][key], least), most) / min(max(r[0][key], least), most)) for r in runs]
    mean = math.exp(statistics.fmean(logs))
    return f"{mean:.2f} ± {mean * 1.96 * statistics.stdev(logs) / math.sqrt(len(logs)):.2f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="+", metavar="PROGRAM")
    parser.add_argument("--draw", type=int, default=901, metavar="SEED")
    parser.add_argument("--clusters", type=int, default=40, metavar="N")
    parser.add_argument("--most", type=int, default=48, metavar="N", help="accelerators of a cluster at most")
    parser.add_argument("--slower", type=float, default=1, metavar="X", help="how many times as long runs and SLOs are")
    args = parser.parse_args()
    rng, runs = random.Random(args.draw), []
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        for _ in range(args.clusters):
            file.seek(0)
            file.truncate()
            file.write(scenario(rng, rng.choice(zoos()), args.most, args.slower))
            file.flush()
            runs.append([run(program, file.name) for program in args.programs])
    print("| program | bad of the worst model | bad of all | p99 | best effort that ran |\n|---|---|---|---|---|")
    for number, program in enumerate(args.programs[1:], 1):
        print(f"| {program} | " + " | ".join(ratio(runs, number, key) for key in runs[0][0]) + " |")


if __name__ == "__main__":
    main()
