"""test_random_scenarios.py - random scenarios under every policy, and what their results must add up to.

The same run is looked at twice: as JSON, and as the timeline that --trace writes, from which batches, busy time and
dropped requests are counted anew. `sim/random_clusters` holds the scheduler's decisions to their invariants; this holds
what a user is told, with everything that a scenario may hold: traces, tables of sizes, autoscale, memory, prices,
faults, noise, bad networks. SYMPHONY_RUNS scenarios a policy from SYMPHONY_SEED on; a failure names its scenario.
"""
# sanitizers: address

import collections
import json
import math
import os
import random
import subprocess

import pytest

from server import BINARY

RUNS, FIRST_SEED = int(os.environ.get("SYMPHONY_RUNS", 12)), int(os.environ.get("SYMPHONY_SEED", 1))
CORES = ["deferred", "symphony", "eager", "timeout", "fifo"]
OPTIONS = {
    "deferred": {"consolidate": ["true", "false"]},
    "symphony": {"schedulable": ["frontrun", "immediately", "beta_lambda", "target_batch"],
                 "drop": ["window", "timeout"], "target_share": [0.01, 0.3, 1],
                 "order": ["frontrun", "invalid_after", "exec_at"]},
    "eager": {"order": ["frontrun", "invalid_after", "first_come", "last_update"], "drop": ["window", "timeout"],
              "target_share": [0.01, 0.3, 1]},
    "timeout": {"max_queue_delay_us": [0, 100, 1e4, 1e9], "preferred_batch_size": [0, 1, 8, 1024],
                "max_batch_size": [0, 1, 8, 1024], "delay_share": [0, 0.3, 1], "batch_share": [0, 0.5, 1]},
    "fifo": {},
    "clockwork": {"ahead_ms": [0, 1, 100], "sizes": ["all", "powers"], "batch_most": [1, 3, 16],
                  "capacity_ms": [1, 100], "learn": ["true", "false"],
                  "heads": ["keep", "skip"]},
    "kairos": {"scheme": ["kairos", "ribbon", "drs", "clkwrk", "oracle"], "late": ["refuse", "serve"],
               "start": ["profile", "nothing"], "guard": [0.01, 0.5, 1], "penalty": [0, 1], "window": [1, 10],
               "threshold": [5, 500], "climb_queries": [1, 100], "noise": [0.1, 0.5]},
    "nexus": {"frontends": [1, 8, 64], "drop": ["early", "lazy"], "epoch_s": [0.1, 1], "epoch_min_s": [0.1, 1],
              "plan": ["squishy", "oblivious"]},
}


class Draw(random.Random):
    def by_size(self, low, high):
        return math.exp(self.uniform(math.log(low), math.log(high)))

    def sometimes(self, share=0.3):
        return self.random() < share


def latency(r):
    """A line or a table, and its latency of one item at the most."""
    if r.sometimes(0.6):
        alpha, beta = r.by_size(0.1, 5), r.choice([0, r.by_size(0.1, 20)])
        return {"alpha_ms": alpha, "beta_ms": beta}, alpha + beta
    batches, ms, rows = sorted(r.sample(range(1, 40), r.choice([1, 2, 4]))), 0, []
    for batch in batches:
        ms += r.by_size(0.05, 5) + (batches[0] * 0.05 if not rows else 0)
        rows.append([batch, ms])
    return {"latency_ms": rows}, rows[-1][1]


def model(r, i, types, policy):
    made, one_ms = latency(r)
    if len(types) > 1 and r.sometimes(0.5):
        own = {t: latency(r) for t in types if r.sometimes(0.7)}
        made["types"] = {t: l for t, (l, _) in own.items()}
        one_ms = max([one_ms] + [ms for _, ms in own.values()])
    made |= {"name": f"m{i}", "slo_ms": 0.01 + one_ms * r.choice([1.001, 1.5, 3, 10, 100])}
    if r.sometimes(0.03):
        made["slo_ms"] = 3600000
    if r.sometimes():
        made["copies"] = r.choice([1, 2, 5])
    if r.sometimes(0.5):
        made |= {"weights_mb": r.by_size(1, 3000), "load_ms": r.by_size(0.1, 100)}
    if policy in CORES and r.sometimes(0.2):
        made["best_effort"] = r.choice([0.3, 1])
    if policy in CORES and r.sometimes(0.2):
        made["priorities"] = [0.01 + r.random() for _ in range(r.choice([1, 3, 32]))]
    return made


def trace(r, models, rate, run_s, path):
    form = r.choice(["azure", "timestamps", "blox"])
    if form == "azure":
        lines = ["HashOwner,HashApp,HashFunction,Trigger,1,2", "a,b,c,http,500,0"]
        lines += [f"a,b,c,http,{int(rate * r.choice([0, 1, 10]))},1" for _ in range(r.choice([0, 3, 10]))]
    elif form == "timestamps":
        lines = [f"{r.uniform(0, run_s):.6f}{r.choice(['', ',' + r.choice(models)['name']])}"
                 for _ in range(int(rate * run_s) + 1)]
    else:
        jobs = [r.choice(models) for _ in range(r.choice([1, 5, 20]))]
        lines = ["job_id,model,slo,rate,arrival", f"0,{models[0]['name']},100,5,0"]
        lines += [f"1,{m['name']},{max(1, min(1e5, m['slo_ms'] * r.choice([0.01, 1, 10])))},{rate * r.random()},"
                  f"{r.uniform(0, run_s)}" for m in jobs]
    path.write_text("\n".join(lines) + "\n")
    return {"trace": str(path), "format": form} | ({"job_s": r.choice([0.1, 1, 60])} if form == "blox" else {})


def workload(r, models, rate, run_s, folder):
    made = {"rate_rps": rate}
    if r.sometimes(0.5):
        made["query_size"] = r.choice([3, 1024, {"uniform": [1, 20]}, {"gaussian": [r.choice([1, 10]), 30]}, "kairos",
                                       {"table": str(folder / "sizes.csv")}])
        (folder / "sizes.csv").write_text("1,0\n5,3\n5\n7,0\n1024,0.01\n")
    if r.sometimes(0.5):
        made["popularity"] = r.choice([{"zipf": r.uniform(0, 3)}, {"shares": {models[0]["name"]: 1}}])
    kind = r.choice(["poisson", "uniform", "gamma", "trace", "steps"])
    if kind == "steps":
        made["rate_rps"] = {"steps": [[0, rate * r.choice([0, 1])], [run_s / 2, rate], [run_s * 0.7, 0]]}
    elif kind == "trace":
        made["arrivals"] = trace(r, models, rate, run_s, folder / "trace.csv")
    else:
        made["arrivals"] = {"gamma": r.by_size(0.01, 5)} if kind == "gamma" else kind
    return made


def fail(r, made):
    """A bad network, and processes that die."""
    cluster, network = made["cluster"], made.setdefault("network", {})
    if r.sometimes(0.5):
        network |= {"jitter_us": r.choice([0, r.by_size(1, 1e5)]), "margin_us": r.choice([0, r.by_size(1, 1e4)]),
                    "loss": r.choice([0, 0.001, 0.2, 0.5]), "resend_ms": r.choice([0, r.by_size(0.1, 1000)])}
    if r.sometimes(0.5):
        cluster["faults"] = {"every_s": r.by_size(0.01, 1), "for_s": r.by_size(0.01, 0.5), "kind": r.choice(["kill", "silent"]),
                             "noticed_ms": r.choice([0, r.by_size(0.1, 1000)])}
    if "faults" in cluster and r.sometimes(0.5):
        cluster["faults"]["backends"] = r.randint(1, sum(a["count"] for a in cluster["accelerators"]))
    if "memory_gib" not in cluster and "subclusters" not in cluster and r.sometimes(0.5):
        cluster["scheduler_faults"] = {"every_s": r.by_size(0.01, 1), "for_s": r.by_size(0.001, 0.5)}


def scenario(seed, policy, folder):
    r = Draw(f"{policy} {seed}")
    types = [f"t{i}" for i in range(r.choice([1, 1, 2, 3]))]
    priced = r.sometimes()
    cluster = {"accelerators": [{"type": t, "count": r.choice([1, 2, 8])} | ({"price": r.uniform(0.1, 3)} if priced else {})
                                for t in types]}
    made = {"cluster": cluster, "models": [model(r, i, types, policy) for i in range(r.choice([1, 2, 6]))]}
    longest_s = max(min(m["slo_ms"], 1000) for m in made["models"]) / 1000
    seconds, warmup = max(0.1, 2 * longest_s), r.choice([0, 0, longest_s])
    rate = min(r.by_size(1, 20000), 20000 / (seconds + warmup))
    made["workload"] = workload(r, made["models"], rate, seconds + warmup, folder)
    made["policy"] = {"name": policy} | {k: r.choice(v) for k, v in OPTIONS[policy].items() if r.sometimes()}
    made["run"] = {"seconds": seconds, "warmup_seconds": warmup, "seed": r.randrange(1 << 40)}
    if r.sometimes():
        cluster["noise"] = r.random()
    if r.sometimes(0.4):
        made["network"] = {"ctrl_us": r.uniform(0, 500), "data_us_per_request": r.uniform(0, 50),
                           "reply_margin_us": r.choice([0, 500, 3000])}
    if r.sometimes():
        cluster["faults"] = {"every_s": r.by_size(0.01, 1), "for_s": r.by_size(0.01, 0.5),
                             "kind": r.choice(["die", "stall", "both"])}
    elif len(types) == 1 and r.sometimes():
        made["autoscale"] = {"max": cluster["accelerators"][0]["count"] + r.choice([0, 3, 20]),
                             "start_delay_s": r.choice([0, 0.05, 1]), "every_s": r.choice([0.01, 0.1]),
                             "headroom": r.choice([0, 0.1, 0.9])}
        if r.sometimes():
            cluster["memory_gib"] = r.by_size(0.03, 2)
    elif r.sometimes():
        cluster["memory_gib"] = r.by_size(0.03, 2)
    least = min(a["count"] for a in cluster["accelerators"])
    if policy in CORES and least > 1 and r.sometimes():
        cluster |= {"subclusters": r.randint(2, least), "epoch_s": r.choice([0, 0.05, 1])}
        if "autoscale" in made:
            made["autoscale"]["min"] = cluster["subclusters"]
    if "autoscale" not in made and r.sometimes(0.4):
        fail(r, made)
    return made


def check_row(row, seconds):
    """What is said of one model, or of all of them."""
    offered, good = row["requests"], row["good_rps"] * seconds
    assert good + offered * (row["dropped_rate"] + row["late_rate"]) == pytest.approx(offered, abs=1e-3)
    assert row["bad_rate"] == pytest.approx(row["dropped_rate"] + row["late_rate"])
    took, queue, batch = row["latency_ms"], row["queue_ms"], row["batch_size"]
    assert 0 <= took["p50"] <= took["p99"] <= took["p999"] <= took["max"] * 1.009 + 0.0006
    assert 0 <= queue["p50"] <= queue["p99"] and 0 <= batch["p50"] <= batch["p90"] <= batch["max"]


def timeline(path):
    """The boxes of batches by row, in their order, and how many requests of each model were dropped."""
    names, batches, dropped, row_ends = {}, collections.defaultdict(list), collections.Counter(), {}
    for event in json.loads(path.read_text())["traceEvents"]:
        row = event["pid"], event["tid"]
        if event["ph"] == "M" and event["name"] == "thread_name":
            names[row] = event["args"]["name"]
        elif event["ph"] == "X":
            assert row in names and event["ts"] >= row_ends.get(row, 0) - 1e-3, "two boxes of a row overlap"
            row_ends[row] = event["ts"] + event["dur"]
            if event["cat"] == "batch":
                batches[row].append((event["ts"], row_ends[row], event["args"]["size"]))
        elif event["ph"] == "i" and event["cat"] == "drop":
            dropped[names[row]] += 1
    return batches, dropped


def check(made, r, batches, dropped):
    seconds, classes = r["seconds"], [m for m in made["models"] if "best_effort" in m]
    begin, end = r["warmup_seconds"] * 1e6, (r["warmup_seconds"] + seconds) * 1e6
    for row in [r] + r["models"]:
        check_row(row, seconds)
    assert sum(m["requests"] for m in r["models"]) == r["requests"]
    assert sum(m["good_rps"] for m in r["models"]) == pytest.approx(r["good_rps"])
    assert max(m["bad_rate"] for m in r["models"]) == pytest.approx(r["worst_bad_rate"])
    for m in r["models"]:
        assert "priorities" not in m or sum(c["requests"] for c in m["priorities"]) == m["requests"]
        if not r["warmup_seconds"] and not classes:
            assert dropped[m["name"]] == round(m["dropped_rate"] * m["requests"])
    boxes = [box for row in batches.values() for box in row]
    sizes = collections.Counter(size for at, _, size in boxes if begin - 5e-4 <= at < end - 5e-4)
    assert sorted(sizes.items()) == [tuple(pair) for pair in r["batch_sizes"]]
    assert len(batches) == r["accelerators_used"]
    count = r.get("accelerators_mean", sum(r["accelerators"].values()))
    busy = sum(max(0, min(end, until) - max(begin, at)) for at, until, _ in boxes) / (count * seconds * 1e6)
    assert r["accelerator_busy"] == pytest.approx(busy, rel=1e-6, abs=1e-9) and r["accelerator_busy"] <= 1 + 1e-9
    assert r["accelerator_idle"] == pytest.approx(1 - r["accelerator_busy"], abs=1e-9)
    if "cost_dollars" in r:
        price = sum(a["price"] * (count if "autoscale" in made else a["count"]) for a in made["cluster"]["accelerators"])
        assert r["cost_dollars"]["per_hour"] == pytest.approx(price)
        if r["good_rps"]:
            assert r["cost_dollars"]["per_million_good"] == pytest.approx(price / 3600 * 1e6 / r["good_rps"])
    late_links = made.get("network", {}).get("jitter_us") or made.get("network", {}).get("loss")
    surprises = made["cluster"].keys() & {"noise", "faults"} or late_links
    if made["policy"]["name"] not in ("timeout", "fifo", "kairos") and not surprises:
        assert r["late_rate"] == 0  # nothing is begun that could not end in time, whichever scheduler begins it
    again = made["cluster"].get("faults", {}).get("kind") in ("kill", "silent")
    assert ("faults" in r) == bool(again or "scheduler_faults" in made["cluster"])
    assert "faults" not in r or ((again or r["faults"]["sent_again"] == 0) and
                                 ("scheduler_faults" in made["cluster"] or r["faults"]["takeovers"] == 0))


@pytest.mark.parametrize("policy", OPTIONS)
def test_results_add_up(policy, tmp_path):
    ran = 0
    for seed in range(FIRST_SEED, FIRST_SEED + RUNS):
        made = scenario(seed, policy, tmp_path)
        path, marks = tmp_path / "s.yaml", tmp_path / "trace.json"
        path.write_text(json.dumps(made))
        command = [BINARY, "simulate", path, "--json"]
        done = subprocess.run(command + ["--trace", marks], capture_output=True, text=True, timeout=600)
        if done.returncode == 2 and ("one request alone takes" in done.stderr or "no requests in" in done.stderr):
            continue  # such a model, or such a trace, is refused
        try:
            assert done.returncode == 0, done.stderr
            check(made, json.loads(done.stdout), *timeline(marks))
            assert seed % 4 or subprocess.run(command, capture_output=True, text=True).stdout == done.stdout
        except AssertionError as wrong:
            raise AssertionError(f"{policy}, seed {seed}: {json.dumps(made)}") from wrong
        ran += 1
    assert ran > RUNS / 2
