"""test_simulate.py - `symphony simulate` as a user runs it: results, searches, sweeps, pictures, mistakes, Ctrl-C.

Needs nothing but pytest and the program (and gnuplot for the pictures, where it is installed).
"""
# sanitizers: address
# shards: 2

import json
import math
import os
import pathlib
import re
import shutil
import signal
import subprocess

import pytest

from server import BINARY, cpu_seconds, wait_until

SANITIZED = bool(os.environ.get("SYMPHONY_SANITIZED"))
SCENARIOS = pathlib.Path(__file__).parent.parent.parent / "scenarios"
RESNET = SCENARIOS / "table4-resnet50.yaml"
SHORT = ("--set", "run.seconds=2", "--set", "run.warmup_seconds=1")
LONG = pytest.mark.long


def simulate(*args, status=0, **more):
    done = subprocess.run([BINARY, "simulate", *map(str, args)], capture_output=True, text=True, timeout=1200, **more)
    assert done.returncode == status, done.stderr
    return done


def result(*args):
    return json.loads(simulate(*args, "--json").stdout)


def test_a_run_says_what_happened():
    r = result(RESNET, *SHORT)
    assert (r["policy"], r["seed"], r["seconds"], r["warmup_seconds"]) == ("deferred", 1, 2, 1)
    assert r["requests"] == pytest.approx(8000, rel=0.05)
    assert r["offered_rps"] == r["requests"] / 2
    assert r["bad_rate"] == pytest.approx(r["dropped_rate"] + r["late_rate"], abs=1e-9)
    assert r["good_rps"] == pytest.approx(r["offered_rps"] * (1 - r["bad_rate"]))
    assert r["bad_rate"] < 0.01 and r["goodput_rps"] is None
    assert r["accelerators"] == {"gtx1080ti": 8} and r["accelerators_used"] == 8
    # Of batches of b the accelerators are busy 1.053 b + 5.072 ms; some of them end outside of the two seconds.
    busy_ms = sum(n * (1.053 * b + 5.072) for b, n in r["batch_sizes"])
    assert r["accelerator_busy"] == pytest.approx(busy_ms / (8 * 2000), rel=0.01)
    assert r["accelerator_idle"] == pytest.approx(1 - r["accelerator_busy"])
    batches = sum(n for _, n in r["batch_sizes"])
    assert r["batch_mean"] == pytest.approx(sum(b * n for b, n in r["batch_sizes"]) / batches)
    assert r["batch_size"]["max"] == r["batch_sizes"][-1][0]
    latency = r["latency_ms"]
    assert 6.125 <= latency["p50"] <= latency["p99"] <= latency["p999"] <= latency["max"] <= 25
    (model,) = r["models"]
    assert model["name"] == "ResNet50" and model["slo_ms"] == 25
    for key in ("offered_rps", "bad_rate", "batch_mean", "latency_ms", "queue_ms"):
        assert model[key] == r[key]


def test_placement_keeps_models_where_they_are():
    """The share that stays; no move waits for longer than a load and those before it."""
    at = {p: result(SCENARIOS / "blox-placement.yaml", "--set", "run.seconds=300", "--set", "policy.placement=" + p)
          for p in ("kept", "local", "random")}
    hits = {p: r["placement"]["hit_rate"] for p, r in at.items()}
    assert hits["random"] < 0.2 and 0.6 < hits["local"] < 1 and 0.6 < hits["kept"] < 1
    assert at["random"]["loads"] > 2 * at["kept"]["loads"] and at["random"]["bad_rate"] > at["kept"]["bad_rate"]
    for r in at.values():
        p = r["placement"]
        assert p["plans"] >= 9 and p["moves"] > 0 and 0 < p["wait_mean_ms"] <= p["wait_max_ms"] <= 6000
    assert "of their models' places were there before" in simulate(SCENARIOS / "blox-placement.yaml", "--set", "run.seconds=60").stdout
    assert "placement" not in result(RESNET, *SHORT)


@pytest.mark.parametrize("policy", ["nexus", "clockwork", "deferred"])
def test_accelerators_come_with_nothing_loaded(tmp_path, policy):
    """The load is high, low, and high again: whoever comes back loads its model again."""
    path = tmp_path / "cold.yaml"
    path.write_text("cluster: {accelerators: 6, type: t, memory_gib: 1}\n"
                    "models: [{name: R, alpha_ms: 1, beta_ms: 5, slo_ms: 40, weights_mb: 100, load_ms: 20}]\n"
                    "workload: {rate_rps: {steps: [[0, 2600], [30, 300], [90, 2600]]}}\n"
                    "autoscale: {max: 8, start_delay_s: 3, every_s: 1}\nrun: {seconds: 130, warmup_seconds: 0}\n")
    r = result(path, "--policy", policy)
    counts = [6] + [a["accelerators"] for a in r["advice"]]
    least = counts.index(min(counts))
    assert min(counts) < max(counts[least:])
    assert r["bad_rate"] < 0.2
    assert r["loads"] > max(counts)


@pytest.mark.parametrize("policy", ["deferred", "eager", "symphony", "timeout"])
def test_hot_models_stay_where_a_thousand_cold_ones_are_asked_for(tmp_path, policy):
    """Two accelerators have room for ten models each. Half of the requests are for six models, the others for each of 1,000
    in turn, once."""
    hot = [(i / 50, f"h-{i % 6 + 1}") for i in range(1000)]
    cold = [(i / 50 + 0.01, f"c-{i + 1}") for i in range(1000)]
    (tmp_path / "trace.csv").write_text("seconds,model\n" + "".join("%g,%s\n" % row for row in sorted(hot + cold)))
    path = tmp_path / "guests.yaml"
    path.write_text("cluster: {accelerators: 2, type: t, memory_gib: 1.09375}\n"
                    "models:\n"
                    "  - {name: h, alpha_ms: 1, beta_ms: 5, slo_ms: 25, weights_mb: 100, load_ms: 12, copies: 6}\n"
                    "  - {name: c, alpha_ms: 1, beta_ms: 5, slo_ms: 60, weights_mb: 100, load_ms: 12, copies: 1000}\n"
                    "workload: {arrivals: {trace: trace.csv}}\nrun: {seconds: 18, warmup_seconds: 2}\n")
    r = result(path, "--policy", policy)
    assert r["bad_rate"] < 0.01
    assert 880 <= r["loads"] < 930  # each cold one once
    assert r["hit_rate"] == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("policy", ["deferred", "clockwork"])
def test_pinned_models_stay(tmp_path, policy):
    """Two models that are asked for every ten seconds, and have no time for a load; 30 others take turns in what room is left."""
    rare = [(1 + 5 * i, f"p-{i % 2 + 1}") for i in range(8)]
    others = [(i / 50 + 0.01, f"c-{i * 7 % 30 + 1}") for i in range(2000)]
    (tmp_path / "trace.csv").write_text("seconds,model\n" + "".join("%g,%s\n" % row for row in sorted(rare + others)))
    path = tmp_path / "pinned.yaml"
    path.write_text("cluster: {accelerators: 2, type: t, memory_gib: 0.46875}\n"
                    "models:\n"
                    "  - {name: p, alpha_ms: 1, beta_ms: 5, slo_ms: 16, weights_mb: 100, load_ms: 12, copies: 2, pinned: true}\n"
                    "  - {name: c, alpha_ms: 1, beta_ms: 5, slo_ms: 100, weights_mb: 100, load_ms: 12, copies: 30}\n"
                    "workload: {arrivals: {trace: trace.csv}}\nrun: {seconds: 41, warmup_seconds: 0}\n")
    r = result(path, "--policy", policy)
    assert r["bad_rate"] == 0
    assert [m["loads"] for m in r["models"][:2]] == [1, 1]
    r = result(path, "--policy", policy, "--set", "models.0.pinned=false")
    least = 1 if policy == "deferred" else 0.5  # clockwork loads them for later requests
    assert all(m["bad_rate"] >= least for m in r["models"][:2])


def test_overload_is_counted_as_dropped():
    r = result(RESNET, *SHORT, "--set", "workload.rate_rps=9000")
    assert r["dropped_rate"] > 0.3 and r["late_rate"] == 0
    assert r["accelerator_busy"] == pytest.approx(1, abs=0.002)
    assert r["good_rps"] > 5000


def test_a_seed_is_a_run_whatever_the_threads():
    args = (RESNET, *SHORT, "--json", "--sweep", "workload.rate_rps=1000:6000:1000")
    one = simulate(*args, "--threads", 1).stdout
    assert simulate(*args, "--threads", 5).stdout == one
    assert simulate(*args, "--seed", 2).stdout != one
    assert simulate(*args, "--seed", 1).stdout == one


def test_seed_policy_and_sets_change_the_scenario():
    r = result(RESNET, *SHORT, "--seed", 7, "--policy", "deferred:consolidate=true", "--set", "workload.rate_rps=800",
               "--set", "models.0.slo_ms=50")
    assert r["seed"] == 7 and r["models"][0]["slo_ms"] == 50
    assert r["requests"] == pytest.approx(1600, rel=0.2)
    eager = result(RESNET, *SHORT, "--seed", 7, "--set", "workload.rate_rps=800", "--set", "models.0.slo_ms=50")
    assert r["batch_mean"] > 2 * eager["batch_mean"]  # it waits for company; the default does not


def test_the_goodput_is_where_one_percent_is_bad():
    r = result(RESNET, *SHORT, "--find", "goodput")
    assert 5300 < r["goodput_rps"] < 5700
    assert r["worst_bad_rate"] <= 0.01
    held = [t["rate_rps"] for t in r["trials"] if t["held"]]
    failed = [t["rate_rps"] for t in r["trials"] if not t["held"]]
    assert max(held) == r["goodput_rps"]
    above = [rate for rate in failed if rate > r["goodput_rps"]]
    assert min(above) <= 1.0101 * r["goodput_rps"] and max(above) > 1.6 * r["goodput_rps"]
    direct = result(RESNET, *SHORT, "--set", f"workload.rate_rps={r['goodput_rps']}")
    assert direct["bad_rate"] == pytest.approx(r["bad_rate"], abs=0.002)


def test_a_scenario_without_a_rate_can_only_be_searched(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text("cluster: {accelerators: 1}\nmodels: [{name: m, alpha_ms: 1, beta_ms: 1, slo_ms: 20}]\n")
    assert "workload.rate_rps is missing" in simulate(path, status=2).stderr
    assert result(path, *SHORT, "--find", "goodput")["goodput_rps"] > 300


def test_a_sweep_is_the_product_in_order():
    rows = result(RESNET, *SHORT, "--sweep", "cluster.accelerators=2,4", "--sweep", "workload.rate_rps=500:1500:500")
    assert [(r["sweep"]["cluster.accelerators"], r["sweep"]["workload.rate_rps"]) for r in rows] == [
        (n, rate) for n in (2, 4) for rate in (500, 1000, 1500)]
    for r in rows:
        assert r["accelerators"] == {"gtx1080ti": r["sweep"]["cluster.accelerators"]}
        assert r["offered_rps"] == pytest.approx(r["sweep"]["workload.rate_rps"], rel=0.15)
    rows = result(RESNET, *SHORT, "--find", "goodput", "--sweep", "workload.arrivals=poisson,{gamma: 0.1}")
    assert [r["sweep"]["workload.arrivals"] for r in rows] == ["poisson", "{gamma: 0.1}"]
    assert rows[0]["goodput_rps"] > 1.1 * rows[1]["goodput_rps"] > 0


@pytest.mark.parametrize("path", sorted(SCENARIOS.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_scenario_that_comes_along_is_served(path):
    r = result(path, *SHORT)
    assert r["requests"] > 20
    assert r["good_rps"] > 0.2 * r["offered_rps"] > 0  # some are overloads


def test_a_cluster_whose_network_and_processes_fail():
    """All policies have the same deaths; each fault costs something, and the results do not depend on threads."""
    path, quiet = SCENARIOS / "faults.yaml", ["--set", "cluster.faults.every_s=1e6", "--set", "network.loss=0",
                                              "--set", "cluster.scheduler_faults.every_s=1e6"]
    all_of_it = (path, "--set", "run.seconds=30", "--sweep", "policy.name=deferred,symphony,nexus", "--json")
    text = simulate(*all_of_it, "--threads", 2).stdout
    assert text == simulate(*all_of_it, "--threads", 1).stdout
    runs = json.loads(text)
    assert len({r["faults"]["takeovers"] for r in runs}) == 1 and runs[0]["faults"]["takeovers"] > 0
    assert all(r["faults"]["sent_again"] > 0 and 0.003 < r["bad_rate"] < 0.1 for r in runs)
    well = result(path, *quiet)
    assert well["bad_rate"] == 0 and well["faults"] == {"takeovers": 0, "sent_again": 0}
    for i, worse in enumerate(["network.loss=0.01", "cluster.faults.every_s=1", "cluster.scheduler_faults.every_s=3"]):
        r = result(path, *quiet, "--set", worse)
        assert r["bad_rate"] > 0.0005, worse
        assert (r["faults"]["sent_again"] > 0, r["faults"]["takeovers"] > 0) == (i == 1, i == 2)
    assert "faults: the scheduler died" in simulate(path, *SHORT).stdout
    assert "faults" not in result(RESNET, *SHORT)


def test_models_may_be_loaded_on_demand():
    many = (SCENARIOS / "clockwork-fig6.yaml", *SHORT, "--set", "models.0.copies=600")  # memory is for 201
    for policy in "clockwork", "deferred":
        r = result(*many, "--policy", policy)
        assert r["loads"] > 0 and 0 < r["hit_rate"] < 1, policy
        assert r["loads"] == sum(m["loads"] for m in r["models"]), policy
    assert "loads" not in result(RESNET, *SHORT)


def test_accelerators_follow_the_load(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text(RESNET.read_text() + "autoscale: {min: 2, max: 20, start_delay_s: 2, every_s: 1}\n")
    run = (path, "--set", "run.seconds=60", "--set", "workload.rate_rps={steps: [[0, 1000], [20, 8000], [40, 1000]]}")
    r = result(*run)
    assert 2 < r["accelerators_mean"] < r["accelerators_max"] <= 20
    asked = [(a["second"], a["accelerators"]) for a in r["advice"]]
    assert 11 <= max(n for _, n in asked) <= 16
    assert 20 < next(second for second, n in asked if n >= 11) < 30
    assert asked[-1][1] < 6
    assert r["bad_rate"] < 0.25
    busy = r["accelerator_busy"]
    always = result(*run, "--set", "autoscale.min=20", "--set", "cluster.accelerators=20")
    assert busy > 1.3 * always["accelerator_busy"]
    done = simulate(*run, "--set", "cluster.faults={every_s: 1, for_s: 1}", status=2)
    assert "autoscale is not simulated together with cluster.faults" in done.stderr


@pytest.mark.parametrize("rate, seed, seconds", [(2500, 4, 600), *(pytest.param(rate, seed, 1200, marks=LONG)
                                                                   for rate, seed in ((1000, 3), (2500, 4), (5500, 5)))])
def test_a_steady_load_is_left_alone(tmp_path, rate, seed, seconds):
    path = tmp_path / "s.yaml"
    path.write_text(RESNET.read_text() + "autoscale: {min: 1, max: 16}\n")
    r = result(path, "--set", "workload.rate_rps=%d" % rate, "--set", "run.seconds=%d" % seconds, "--seed", str(seed))
    assert [a for a in r["advice"] if a["second"] > 300] == []
    assert r["bad_rate"] < 0.01


@pytest.mark.skipif(SANITIZED, reason="millions of requests")
@pytest.mark.parametrize("policy, rates, seed, seconds", [
    ("deferred", "68:612:272", 11, 1200), ("clockwork", "68:612:272", 1, 1800), ("kairos", "16:144:64", 12, 1800),
    pytest.param("deferred", "68:612:68", 11, 4200, marks=LONG), pytest.param("clockwork", "68:612:68", 1, 4200, marks=LONG),
    pytest.param("kairos", "16:144:16", 12, 4200, marks=LONG)])
def test_a_part_of_what_20_accelerators_can_take_is_left_alone(tmp_path, policy, rates, seed, seconds):
    """10 to 90 % of it, in batches or, with kairos, one by one; up to an hour after the first ten minutes."""
    path = tmp_path / "s.yaml"
    path.write_text("cluster: {accelerators: 20}\nmodels: [{name: m, copies: 5, alpha_ms: 21, beta_ms: 101, slo_ms: 500}]\n"
                    "workload: {rate_rps: 685}\nautoscale: {min: 1, max: 40}\nrun: {seconds: %d, warmup_seconds: 0}\n" % seconds)
    done = simulate(path, "--json", "--policy", policy, "--sweep", "workload.rate_rps=" + rates, "--seed", str(seed))
    loads = json.loads(done.stdout)
    assert len(loads) >= 3
    for r in loads:
        assert [a for a in r["advice"] if a["second"] > 600] == [], r["sweep"]
        assert r["bad_rate"] < 0.01
    means = [r["accelerators_mean"] for r in loads]
    assert means == sorted(means) and means[0] < 5 and means[-1] > 17, means


def test_every_sub_cluster_gets_what_its_own_load_takes(tmp_path):
    """Four sub-clusters cannot share an accelerator, so each has its own headroom, and nothing is bad any more that was for want
    of it. The load is steady, and so is the advice."""
    path = tmp_path / "s.yaml"
    path.write_text("cluster: {accelerators: 20}\nmodels: [{name: m, copies: 16, alpha_ms: 21, beta_ms: 101, slo_ms: 500}]\n"
                    "workload: {rate_rps: 150}\nautoscale: {min: 4, max: 40}\nrun: {seconds: 600, warmup_seconds: 0}\n")
    whole, parts = (result(path, "--set", "cluster.subclusters=%d" % count, "--seed", "11") for count in (1, 4))
    assert parts["advice"][-1]["accelerators"] > whole["advice"][-1]["accelerators"]
    assert parts["bad_rate"] < 0.001
    assert [a for a in parts["advice"] if a["second"] > 300] == []


@LONG
@pytest.mark.skipif(SANITIZED, reason="four million requests")
def test_a_day_takes_hardly_more_than_who_knows_it_beforehand(tmp_path):
    """24 steps up and down, one of them twice the load all at once. The oracle knows each, and lets 1 % be bad."""
    path, step_s = tmp_path / "s.yaml", 300
    rates = [round(330 - 270 * math.cos(2 * math.pi * i / 24)) * (2 if i == 15 else 1) for i in range(24)]
    path.write_text("cluster: {accelerators: 4}\nmodels: [{name: m, copies: 5, alpha_ms: 21, beta_ms: 101, slo_ms: 500}]\n"
                    "workload: {rate_rps: 60}\nautoscale: {min: 1, max: 60, headroom: 0.05, start_delay_s: 20}\n"
                    "policy: {name: deferred, consolidate: true}\nrun: {seconds: %d, warmup_seconds: 0}\n" % (24 * step_s))

    def is_enough(rate, count):
        return result(path, "--set", "workload.rate_rps=%d" % rate, "--set", "cluster.accelerators=%d" % count, "--set",
                      "autoscale={min: %d, max: %d}" % (count, count), "--set", "run.seconds=60")["bad_rate"] <= 0.01

    oracle, least = [], {}
    for rate in rates:
        if rate not in least:
            least[rate] = next(count for count in range(rate // 40, 60) if count and is_enough(rate, count))
        oracle.append(least[rate])
    r = result(path, "--set", "workload.rate_rps={steps: %s}" % json.dumps([[i * step_s, rate] for i, rate in enumerate(rates)]))
    assert r["accelerators_mean"] < 1.12 * sum(oracle) / len(oracle)
    assert r["bad_rate"] < 0.015
    assert len(r["advice"]) < 50


def test_load_goes_to_the_accelerators_with_the_lowest_numbers():
    """At half load a good part of them is never used, so that the idle share says how many are too many."""
    half = (SCENARIOS / "zoo-1080ti.yaml", "--set", "workload.rate_rps=3750", "--set", "run.seconds=20", "--seed", "3")
    assert result(*half, "--policy", "deferred:consolidate=true")["accelerators_used"] <= 52
    for policy in ("deferred", "eager", "clockwork"):
        assert result(*half, "--policy", policy)["accelerators_used"] == 64


def test_a_released_accelerator_is_in_service_until_it_has_ended(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text("cluster: {accelerators: 8}\nmodels: [{name: m, alpha_ms: 0, beta_ms: 20, slo_ms: 400}]\n"
                    "workload: {rate_rps: 2000, arrivals: uniform}\nrun: {seconds: 0.2, warmup_seconds: 0}\n"
                    "autoscale: {min: 1, max: 8, start_delay_s: 0, every_s: 0.01, headroom: 0}\n")
    r = result(path)
    assert 0.5 < r["accelerator_busy"] <= 1 and r["accelerator_idle"] >= 0
    assert r["accelerators_mean"] * 0.2 * r["accelerator_busy"] <= sum(n for _, n in r["batch_sizes"]) * 0.02 + 1e-9


def test_accelerators_asked_for_anew_while_they_still_run_all_come(tmp_path):
    path = tmp_path / "s.yaml"  # the first is late, and with it those behind it
    path.write_text("cluster: {accelerators: 8}\nmodels: [{name: m, alpha_ms: 0, beta_ms: 100, slo_ms: 300}]\n"
                    "workload: {rate_rps: {steps: [[0, 1000], [0.21, 0], [0.25, 5000]]}, arrivals: uniform}\n"
                    "autoscale: {min: 1, max: 8, start_delay_s: 0.02, every_s: 0.01, headroom: 0}\n"
                    "run: {seconds: 1, warmup_seconds: 0}\n")
    for policy in "timeout", "eager", "deferred", "clockwork":
        assert result(path, "--policy", policy)["accelerators_max"] > 1


def test_tables_are_for_people():
    out = simulate(SCENARIOS / "zoo-1080ti.yaml", *SHORT)
    lines = out.stdout.splitlines()
    assert "deferred, 64 gtx1080ti, poisson arrivals, 2 s after 1 s of warm-up, seed 1" in lines[0]
    assert sum(line.startswith(("ResNet50 ", "BERT ", "all ")) for line in lines) == 3
    assert re.search(r"^accelerators: [\d.]+ % busy, [\d.]+ % idle; 64 of 64 used$", out.stdout, re.M)
    assert re.fullmatch(r"simulated \d+ requests in [\d.]+ s: [\d.]+ million requests/s\n", out.stderr)
    lines = simulate(RESNET, *SHORT, "--sweep", "workload.rate_rps=1000,9000").stdout.splitlines()
    assert lines[0].split()[:3] == ["workload.rate_rps", "offered", "good"]
    assert [line.split()[0] for line in lines[1:]] == ["1000", "9000"]


def test_of_many_models_the_worst_are_listed(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text("cluster: {accelerators: 4}\nmodels: [{name: m, alpha_ms: 1, beta_ms: 1, slo_ms: 20, copies: 300}]\n"
                    "workload: {rate_rps: 500, popularity: {zipf: 1}}\n")
    out = simulate(path, *SHORT).stdout
    assert "(the 20 worst of 300 models)" in out
    assert len([line for line in out.splitlines() if line.startswith("m-")]) == 20
    assert len(result(path, *SHORT)["models"]) == 300


def test_the_trace_is_the_batches_and_the_drops(tmp_path):
    path = tmp_path / "trace.json"
    r = result(RESNET, *SHORT, "--set", "run.warmup_seconds=0", "--set", "workload.rate_rps=7000", "--trace", path)
    events = json.loads(path.read_text())["traceEvents"]
    batches = [e for e in events if e.get("cat") == "batch"]
    assert sum(e["args"]["size"] for e in batches) == pytest.approx(r["good_rps"] * 2)
    rows = {}
    for e in sorted(batches, key=lambda e: e["ts"]):
        assert e["dur"] == pytest.approx((1.053 * e["args"]["size"] + 5.072) * 1000, abs=0.01)
        assert e["args"]["predicted_ms"] * 1000 == pytest.approx(e["dur"], abs=1)
        assert e["ts"] >= rows.get(e["tid"], 0) - 0.001  # no accelerator runs two at once
        rows[e["tid"]] = e["ts"] + e["dur"]
    assert sorted(rows) == list(range(8))
    drops = [e for e in events if e["ph"] == "i"]
    assert len(drops) == round(r["requests"] * r["dropped_rate"])
    assert {e["args"]["reason"] for e in drops} == {"deadline"}
    names = {(e["name"], e["args"]["name"]) for e in events if e["ph"] == "M"}
    assert ("process_name", "gtx1080ti") in names and ("thread_name", "gtx1080ti 7") in names


def test_the_trace_shows_loads(tmp_path):
    path = tmp_path / "trace.json"
    r = result(SCENARIOS / "clockwork-fig6.yaml", "--set", "run.seconds=2", "--set", "run.warmup_seconds=0", "--trace", path)
    events = [e for e in json.loads(path.read_text())["traceEvents"] if e.get("cat") == "load"]
    loads = [e for e in events if e["ph"] == "X"]
    assert len(loads) >= r["loads"] > 0  # some end after the run
    assert {round(e["dur"]) for e in loads} == {8330} and {e["tid"] for e in events} == {1}
    assert any(e["ph"] == "i" and e["name"].startswith("unload") for e in events)


def test_the_trace_says_why_accelerators_were_idle(tmp_path):
    """In the words of a server's timeline; batches and these fill the rows."""
    def idle(*args):
        simulate(*args, "--set", "run.seconds=2", "--set", "run.warmup_seconds=0", "--trace", path)
        ends, sums = {}, {}
        for e in sorted(json.loads(path.read_text())["traceEvents"], key=lambda e: e.get("ts", 0)):
            if e.get("cat") in ("batch", "idle"):
                assert 0 <= e["ts"] - ends.get(e["tid"], e["ts"]) + 0.01 < 80  # each of four parts that is shorter than 20 us is not shown
                ends[e["tid"]] = e["ts"] + e["dur"]
            if e.get("cat") == "idle":
                sums[e["name"]] = sums.get(e["name"], 0) + e["dur"]
        return sums
    path = tmp_path / "trace.json"
    table4 = (SCENARIOS / "table4-resnet50.yaml", "--set", "workload.rate_rps=2000")
    assert set(idle(*table4)) == {"nothing queued"}
    assert set(idle(*table4, "--policy", "timeout:max_queue_delay_us=10000")) == {"nothing queued", "waits for company"}
    assert set(idle(SCENARIOS / "clockwork-fig6.yaml")) == {"nothing queued", "no model here"}
    assert "hand-over" in idle(*table4, "--set", "network.ctrl_us=500")


@pytest.mark.skipif(not shutil.which("gnuplot"), reason="gnuplot is not installed (./run test does it)")
@pytest.mark.parametrize("args, words", [
    ((), ["ResNet50", "share of the requests"]),
    (("--sweep", "workload.rate_rps=2000,4000,6000"), ["workload.rate_rps", "bad, %", "accelerators idle, %"]),
    (("--sweep", "workload.arrivals=poisson,uniform", "--sweep", "cluster.accelerators=4,8"), ["poisson", "p50, 8"]),
    (("--sweep", "cluster.accelerators=2,4", "--find", "goodput"), ["goodput, requests/s"]),
])
def test_pictures(tmp_path, args, words):
    path = tmp_path / "it's.svg"
    simulate(RESNET, *SHORT, "--plot", path, *args)
    svg = path.read_text()
    assert svg.rstrip().endswith("</svg>")
    for word in words:
        assert word in svg


def test_without_gnuplot_a_plot_says_so(tmp_path):
    done = simulate(RESNET, "--plot", tmp_path / "x.svg", status=2, env={"PATH": str(tmp_path)})
    assert "gnuplot" in done.stderr and "apt-get install gnuplot-nox" in done.stderr


@pytest.mark.parametrize("args, sentence", [
    ((), "SCENARIO.yaml"),
    (("nowhere.yaml",), "nowhere.yaml"),
    ((RESNET, "--set", "workload.rate_rps=fast"), "--set: workload.rate_rps: 'fast' is not a number"),
    ((RESNET, "--set", "workload"), "expected KEY=VALUE"),
    ((RESNET, "--set", "workload.rat=1"), "rat"),
    ((RESNET, "--policy", "eager-ish"), "there is no policy 'eager-ish'"),
    ((RESNET, "--policy", "deferred:consolidate=7"), "consolidate: expected true or false"),
    ((RESNET, "--sweep", "workload.rate_rps"), "expected KEY=FROM:TO:STEP"),
    ((RESNET, "--sweep", "workload.rate_rps=100,1e99"), "--set: workload.rate_rps: 1e99 is not in"),
    ((RESNET, "--sweep", "run.seed=1,2", "--sweep", "run.seed=3,4"), "--sweep: run.seed: given twice"),
    ((RESNET, "--set", "models..slo_ms=30"), "there is no ''"),
    ((RESNET, "--sweep", "a=1:1000:1", "--sweep", "b=1:1000:1"), "more than 100000 combinations"),
    ((RESNET, "--sweep", "run.seed=1,2", "--trace", "x.json"), "--trace is of one simulation"),
    ((RESNET, "--trace", "/nonexistent/x.json"), "--trace: cannot write '/nonexistent/x.json': No such file or directory"),
    ((RESNET, "--find", "good"), "--find"),
    ((RESNET, "--seed", "-1"), "--seed"),
    ((SCENARIOS / "faults.yaml", "--set", "cluster.subclusters=2"), "cluster.scheduler_faults: not with cluster.subclusters"),
    ((SCENARIOS / "day.yaml", "--set", "network.jitter_us=1"), "network.jitter_us, loss and margin_us: not with autoscale"),
])
def test_mistakes_are_one_line(args, sentence):
    done = simulate(*args, status=2)
    assert done.stdout == ""
    assert sentence in done.stderr and done.stderr.count("\n") == 1


def test_a_mistake_in_the_file_names_its_line(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text("cluster: {accelerators: 4}\nmodels: {zoo: gtx1080ti}\nworkload:\n  rate_rps: 100\n  arrivals: odd\n")
    assert f"{path}:5: workload.arrivals: expected poisson" in simulate(path, status=2).stderr


@pytest.mark.parametrize("policy", ["eager", pytest.param("deferred", marks=LONG)])  # this one looks at all of them each second
def test_many_accelerators_for_hours_are_busy_as_they_are(tmp_path, policy):
    path = tmp_path / "s.yaml"  # 10^19 ns in all
    path.write_text("cluster: {accelerators: 1000000}\nmodels: [{name: m, alpha_ms: 5, beta_ms: 5, slo_ms: 20}]\n"
                    "workload: {rate_rps: 1}\nrun: {seconds: 10000, warmup_seconds: 0}\n")
    r = result(path, "--policy", policy)
    assert r["accelerator_busy"] == pytest.approx(r["requests"] * 0.01 / 1e10, rel=1e-6)


def test_an_interrupted_sweep_gives_what_is_done():
    started = subprocess.Popen([BINARY, "simulate", RESNET, "--json", "--threads", "1", "--sweep", "run.seconds=0.1,100000"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: cpu_seconds(started.pid) > 0.5)  # of which the first takes a small part
    started.send_signal(signal.SIGINT)
    out, err = started.communicate(timeout=600)
    assert started.returncode == 1 and "interrupted" in err
    assert [r["sweep"]["run.seconds"] for r in json.loads(out)] == [0.1]


def test_a_sweep_ends_with_its_reader():
    started = subprocess.Popen([BINARY, "simulate", RESNET, "--sweep", "run.seed=1:10000:1", *SHORT],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert started.stdout.readline().startswith("run.seed")
    assert started.stdout.readline().startswith("1 ")  # each line comes when it is known
    started.stdout.close()
    assert "cannot write the result: Broken pipe" in started.stderr.read()
    assert started.wait(timeout=600) == 1


def test_help_lists_the_options():
    out = simulate("--help").stdout
    for option in ("--set", "--policy", "--seed", "--find", "--sweep", "--plot", "--trace", "--json", "--threads"):
        assert option in out
