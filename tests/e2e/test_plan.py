"""test_plan.py - `symphony plan`: plans, JSON, mistakes and exit status, through the program.

Needs nothing but pytest and the program; where `cbc` is on the path, it says what the best partition is.
"""
# sanitizers: address

import json
import os
import pathlib
import random
import re
import shutil
import subprocess

import pytest

BINARY = os.environ.get("SYMPHONY_BINARY", "build/release/symphony")
PLANS = pathlib.Path(__file__).parents[2] / "scenarios" / "plans"


def plan(*args):
    return subprocess.run([BINARY, "plan", *map(str, args)], capture_output=True, text=True, timeout=600)


def test_the_paper_s_example():
    done = plan("squishy", PLANS / "nexus-table2.yaml", "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["gpus_used"] == 2 and not answer["missing"]
    shared, alone = answer["gpus"]
    assert [(s["session"], s["batch"]) for s in shared["sessions"]] == [("A", 8), ("B", 4)]
    assert shared["duty_cycle_ms"] == 125 and abs(shared["occupancy"] - 1) < 1e-9
    assert [s["session"] for s in alone["sessions"]] == ["C"]
    table = plan("squishy", PLANS / "nexus-table2.yaml").stdout
    assert "2 GPUs" in table and "125.000" in table


def test_spare_gpus_are_room_to_grow(tmp_path):
    file = tmp_path / "f.yaml"
    file.write_text("gpus: 8\nsessions: [{name: R, rate_rps: 1000, slo_ms: 40, alpha_ms: 1, beta_ms: 10}]\n")
    answer = json.loads(plan("squishy", file, "--json").stdout)  # 10 in 20 ms: 500 items/s a GPU
    assert answer["gpus_used"] == 8
    assert 3.9 < answer["scale"] <= 4.001
    assert abs(sum(g["sessions"][0]["rate_rps"] for g in answer["gpus"]) - 1000) < 1


def test_sessions_that_share_a_prefix():
    shared, whole = (json.loads(plan("squishy", PLANS / "prefixes.yaml", "--json", *more).stdout) for more in ([], ["--whole"]))
    assert [s["session"] for s in shared["gpus"][0]["sessions"]] == ["birds and 2 more", "faces"]
    [together] = shared["shared"]
    assert together["sessions"] == ["birds", "cars", "icons"] and together["weights_mib"] == 90 + 3 * 8
    assert [s["session"] for s in whole["gpus"][0]["sessions"]] == ["birds", "cars", "icons", "faces"]
    assert not whole["shared"] and shared["scale"] > 1.7 * whole["scale"] > 1.7
    # 12 items: the prefix, four of each suffix
    assert abs(shared["gpus"][0]["sessions"][0]["latency_ms"] - (12 * 2.05 + 5.378 + 3 * (4 * 0.005 + 0.03))) < 1e-9


def test_what_does_not_fit_is_named(tmp_path):
    file = tmp_path / "f.yaml"
    file.write_text("sessions:\n"
                    "  - {name: tight, rate_rps: 10, slo_ms: 40, alpha_ms: 1, beta_ms: 20}\n"
                    "  - {name: loose, rate_rps: 10, slo_ms: 60, alpha_ms: 1, beta_ms: 20}\n")
    done = plan("squishy", file)
    assert done.returncode == 1
    assert "tight: no GPU for 10.0 of its 10.0 items/s: two runs of a single item take longer" in done.stdout
    assert "loose: " not in done.stdout
    missing = json.loads(plan("squishy", file, "--json").stdout)["missing"]
    assert [m["session"] for m in missing] == ["tight"]


def test_too_few_gpus_serve_a_part_of_the_rates(tmp_path):
    file = tmp_path / "f.yaml"
    rows = [f"{{name: {name}, rate_rps: {rate}, slo_ms: 40, alpha_ms: 1, beta_ms: 10}}" for name, rate in (("A", 4000), ("B", 1000))]
    file.write_text(f"gpus: 2\nsessions: [{', '.join(rows)}]\n")  # 10 in 20 ms: 500 items/s a GPU
    done = plan("squishy", file, "--json")
    assert done.returncode == 1
    answer = json.loads(done.stdout)
    assert 0.1 < answer["scale"] <= 0.2001
    given = {name: sum(s["rate_rps"] for g in answer["gpus"] for s in g["sessions"] if s["session"] == name) for name in "AB"}
    missing = {m["session"]: m["rate_rps"] for m in answer["missing"]}
    assert sum(given.values()) <= 1000.01
    assert {m["reason"] for m in answer["missing"]} == {"there are not enough GPUs"}
    for name, rate in (("A", 4000), ("B", 1000)):
        assert abs(given[name] + missing[name] - rate) < 0.01 * rate
    table = plan("squishy", file).stdout
    assert f"A: no GPU for {missing['A']:.1f} of its 4000.0 items/s: there are not enough GPUs" in table


def test_without_any_rate_nothing_is_multiplied(tmp_path):
    file = tmp_path / "f.yaml"
    file.write_text("gpus: 1\nsessions: [{name: R, rate_rps: 0, slo_ms: 40, alpha_ms: 1, beta_ms: 10}]\n")
    answer = json.loads(plan("squishy", file, "--json").stdout)
    assert answer["scale"] == 1 and answer["gpus_used"] == 0 and not answer["missing"]


SCENARIOS = PLANS.parent


def test_a_pool_under_a_budget(tmp_path):
    file = SCENARIOS / "kairos" / "mtwnd.yaml"
    done = plan("pool", file, "--budget", "2.5", "--top", "3", "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert [t["type"] for t in answer["types"] if t["base"]] == ["g4dn.xlarge"]
    bounds = [c["bound_rps"] for c in answer["top"]]
    assert len(bounds) == 3 and bounds == sorted(bounds, reverse=True)
    for config in answer["top"] + [answer["choice"]]:
        prices = {t["type"]: t["price"] for t in answer["types"]}
        assert abs(sum(n * prices[t] for t, n in config["count"].items()) - config["price"]) < 1e-9
        assert config["price"] <= 2.5 and "goodput_rps" not in config
    assert "<- chosen" in plan("pool", file, "--budget", "2.5").stdout
    poor = plan("pool", file, "--budget", "0.5")
    assert poor.returncode == 1 and "do not pay for one g4dn.xlarge" in poor.stderr
    tight = plan("pool", file, "--set", "models.slo_ms=10")
    assert tight.returncode == 2 and "no type serves queries of 999 items within the SLO of 10 ms" in tight.stderr


def test_a_pool_is_searched(tmp_path):
    file = tmp_path / "f.yaml"
    file.write_text("cluster: {accelerators: [{type: strong, count: 2, price: 2}, {type: weak, count: 1, price: 1}]}\n"
                    "models: [{name: M, alpha_ms: 1, beta_ms: 1, types: {weak: {alpha_ms: 3, beta_ms: 0}}, slo_ms: 30}]\n"
                    "workload: {query_size: {uniform: [1, 20]}}\n"
                    "policy: {name: kairos}\n"
                    "run: {seconds: 20, warmup_seconds: 1}\n")
    answer = json.loads(plan("pool", file, "--search", "--json").stdout)
    assert answer["budget"] == 5
    best = answer["search"]["best"]
    assert 0 < best["goodput_rps"] < 1.02 * best["bound_rps"]
    assert best["goodput_rps"] >= answer["choice"]["goodput_rps"]
    assert 1 <= answer["search"]["evaluations"] <= answer["configurations"]


def test_a_base_type_that_the_budget_does_not_pay_for():
    args = ("pool", SCENARIOS / "kairos" / "rm2.yaml", "--set", "workload.query_size=10", "--base", "g4dn.xlarge",
            "--budget", "0.3", "--set", "run.seconds=1", "--precision", "0.2")
    homogeneous = json.loads(plan(*args, "--evaluate", "1", "--json").stdout)["homogeneous"]
    assert homogeneous["count"] == 0 and homogeneous["bound_rps"] == 0 and "goodput_rps" not in homogeneous
    assert 0 < homogeneous["bound_scaled_rps"]
    table = plan(*args).stdout
    assert "only g4dn.xlarge: 0, bound 0.00/s" in table and "nan" not in table


def test_what_is_too_much_is_said_at_once(tmp_path):
    rich = plan("pool", SCENARIOS / "kairos" / "rm2.yaml", "--budget", "1e6")
    assert rich.returncode == 2 and "1e+06 dollars an hour pay for more than 65535 of 'g4dn.xlarge'" in rich.stderr
    rich = plan("pool", SCENARIOS / "kairos" / "rm2.yaml", "--budget", "9000")
    assert rich.returncode == 1 and "the budget allows more than 5000000 configurations" in rich.stderr
    file = tmp_path / "f.yaml"
    file.write_text("sessions: [{name: A, rate_rps: 1e9, slo_ms: 3600000, alpha_ms: 1e6, beta_ms: 0},"
                    "{name: B, rate_rps: 1e9, slo_ms: 3600000, alpha_ms: 1e6, beta_ms: 0}]")
    done = plan("squishy", file)
    assert done.returncode == 1 and done.stderr.endswith("the rates need more than 100000 GPUs\n")


def test_a_full_disk_is_no_success():
    with open("/dev/full", "w") as full:
        for args in [("squishy", PLANS / "nexus-table2.yaml"), ("squishy", PLANS / "nexus-table2.yaml", "--json"),
                     ("pool", SCENARIOS / "kairos" / "rm2.yaml", "--budget", "2.5"), ("pool", "--help")]:
            done = subprocess.run([BINARY, "plan", *map(str, args)], stdout=full, stderr=subprocess.PIPE, text=True)
            assert done.returncode == 1 and "No space left on device" in done.stderr


def test_help_says_each_thing_once():
    for what in "pool", "split", "squishy":
        assert plan(what, "--help").stdout.count("Exit status") == 1


def test_mistakes_are_one_line(tmp_path):
    file = tmp_path / "f.yaml"
    file.write_text("sessions:\n  - {name: A, rate_rps: fast, slo_ms: 40, alpha_ms: 1}\n")
    for args, words in [(("squishy", file), f"{file}:2: sessions.0.rate_rps: 'fast' is not a number"),
                        (("squishy", tmp_path / "no.yaml"), "No such file"), (("squishy",), "FILE.yaml"),
                        (("fly", file), "there is no planner 'fly'")]:
        done = plan(*args)
        assert done.returncode == 2
        assert words in done.stderr and done.stderr.count("\n") == 1
    assert plan().returncode == 2
    assert "squishy" in plan("--help").stdout


# ---- partition ----


def partition(tmp_path, problem, *args):
    file = tmp_path / "f.yaml"
    file.write_text(json.dumps(problem))
    done = plan("partition", file, "--json", *args)
    assert done.returncode in (0, 1), done.stderr
    return done.returncode, json.loads(done.stdout)


def is_what_it_says(problem, answer):
    """Appendix A's definitions, once more."""
    models, count = problem["models"], problem["subclusters"]
    assert set(answer["assignment"]) == {m["name"] for m in models}
    inside = [[m for m in models if answer["assignment"][m["name"]] == k] for k in range(count)]
    assert sum(map(len, inside)) == len(models)
    rates, sizes = ([sum(m.get(key, 0) for m in some) for some in inside] for key in ("rate_rps", "static_mb"))
    fits = all(rate <= problem.get("max_rate_rps", 1e300) * 1.00000001 for rate in rates)
    fits &= all(size + max((m.get("dynamic_mb", 0) for m in some), default=0) <= problem.get("max_memory_mb", 1e300) * 1.00000001
                for size, some in zip(sizes, inside))
    moved = sum(m.get("move_cost", 1) for m in models if m.get("current", answer["assignment"][m["name"]]) != answer["assignment"][m["name"]])
    fits &= moved <= problem.get("max_move_cost", 1e300) * 1.00000001
    deltas = [max(abs(x * count / sum(all_) - 1) for x in all_) if sum(all_) else 0 for all_ in (rates, sizes)]
    assert answer["delta_rate"] == pytest.approx(deltas[0], abs=1e-9) and answer["delta_memory"] == pytest.approx(deltas[1], abs=1e-9)
    assert answer["objective"] == pytest.approx(deltas[0] + problem.get("memory_weight", 1) * deltas[1], abs=1e-9)
    assert answer["moved_cost"] == pytest.approx(moved) and answer["feasible"] == fits and (answer["reason"] is None) == fits


def best_by_cbc(tmp_path, problem):
    """The least objective, or None if there is no assignment."""
    models, count = problem["models"], problem["subclusters"]
    rate, size = (sum(m[key] for m in models) / count for key in ("rate_rps", "static_mb"))
    rows, binaries = [], []
    for k in range(count):
        x = ["x%d_%d" % (i, k) for i in range(len(models))]
        binaries += x
        rates, sizes = (" + ".join("%.12g %s" % (m[key], v) for m, v in zip(models, x)) for key in ("rate_rps", "static_mb"))
        rows += ["%s - %.12g dr <= %.12g" % (rates, rate, rate), "%s + %.12g dr >= %.12g" % (rates, rate, rate),
                 "%s - %.12g dm <= %.12g" % (sizes, size, size), "%s + %.12g dm >= %.12g" % (sizes, size, size),
                 "%s <= %.12g" % (rates, problem["max_rate_rps"]), "%s + d%d <= %.12g" % (sizes, k, problem["max_memory_mb"])]
        rows += ["d%d - %.12g %s >= 0" % (k, m["dynamic_mb"], v) for m, v in zip(models, x)]
    rows += [" + ".join("x%d_%d" % (i, k) for k in range(count)) + " = 1" for i in range(len(models))]
    rows.append(" + ".join("%.12g x%d_%d" % (m["move_cost"], i, k) for i, m in enumerate(models) if "current" in m
                           for k in range(count) if k != m["current"]) + " + 0 dr <= %.12g" % problem["max_move_cost"])
    (tmp_path / "p.lp").write_text("Minimize\n obj: dr + %.12g dm\nSubject To\n" % problem["memory_weight"] +
                                   "".join(" c%d: %s\n" % row for row in enumerate(rows)) + "Binaries\n " + " ".join(binaries) + "\nEnd\n")
    done = subprocess.run(["cbc", tmp_path / "p.lp", "ratioGap", "0", "allowableGap", "0", "solve", "solution", tmp_path / "out"],
                          capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout
    first = (tmp_path / "out").read_text().splitlines()[0]
    found = re.match(r"Optimal - objective value ([-0-9.e]+)", first)
    assert found or first.startswith("Infeasible") or "infeasible" in first, first
    return float(found[1]) if found else None


@pytest.mark.skipif(not shutil.which("cbc"), reason="cbc is not installed")
@pytest.mark.parametrize("seed", range(12))
def test_small_partitions_are_the_best(tmp_path, seed):
    r = random.Random(seed)
    count, total = r.randint(2, 3), r.randint(5, 9)
    models = [{"name": "m%d" % i, "rate_rps": round(r.expovariate(0.01), 3), "static_mb": r.randint(0, 500),
               "dynamic_mb": r.randint(0, 200), "move_cost": r.randint(0, 3)} for i in range(total)]
    for m in models[:r.choice([0, total])]:
        m["current"] = r.randrange(count)
    problem = {"subclusters": count, "models": models, "memory_weight": r.choice([0, 0.5, 1]), "max_move_cost": r.choice([2, 5, 1000]),
               "max_rate_rps": sum(m["rate_rps"] for m in models) / count * r.choice([1.1, 1.5, 10]),
               "max_memory_mb": 200 + sum(m["static_mb"] for m in models) / count * r.choice([1, 1.3, 10])}
    best = best_by_cbc(tmp_path, problem)
    for limit_s in ("1", "30"):  # a machine that stands still may search for nothing of that time
        status, answer = partition(tmp_path, problem, "--time-limit", limit_s)
        is_what_it_says(problem, answer)
        if status == (best is None) and (best is None or answer["objective"] == pytest.approx(best, abs=1e-5)):
            return
    pytest.fail("the best is %s, and %s was found" % (best, answer["objective"] if status == 0 else "nothing"))


def test_a_large_partition(tmp_path):
    r = random.Random(1)
    models = [{"name": "m%d" % i, "rate_rps": r.expovariate(0.01), "static_mb": r.choice([20, 98, 330, 528]), "current": r.randrange(20)}
              for i in range(400)]
    problem = {"subclusters": 20, "models": models, "max_move_cost": 60}
    for limit_s in ("0.3", "3", "30"):  # a machine that stands still may search for nothing of that time
        status, answer = partition(tmp_path, problem, "--time-limit", limit_s)
        assert status == 0 and 0 <= answer["moved_cost"] <= 60
        is_what_it_says(problem, answer)
        free = {key: value for key, value in problem.items() if key != "max_move_cost"}
        freely = partition(tmp_path, free, "--time-limit", limit_s, "--seed", "7")[1]
        is_what_it_says(free, freely)
        if answer["moved_cost"] > 0 and freely["objective"] < answer["objective"]:
            break
    else:
        pytest.fail("nothing was found: %s, %s" % (answer["moved_cost"], freely["objective"]))


def test_ten_thousand_models(tmp_path):
    r = random.Random(2)
    models = [{"name": "m%d" % i, "rate_rps": r.expovariate(0.01), "static_mb": r.uniform(17, 822), "dynamic_mb": r.uniform(1000, 6000)}
              for i in range(10000)]
    problem = {"subclusters": 100, "models": models}
    assert len(json.dumps(problem)) > 1 << 20
    for limit_s in ("1", "10", "60"):  # a machine that stands still may search for nothing of that time
        status, answer = partition(tmp_path, problem, "--time-limit", limit_s)
        is_what_it_says(problem, answer)
        if answer["objective"] < 0.02:
            break
    assert status == 0 and answer["objective"] < 0.02


def test_an_slo_is_split(tmp_path):
    done = plan("split", PLANS / "traffic.yaml", "--json")
    answer = json.loads(done.stdout)
    assert done.returncode == 0 and answer["feasible"]
    ssd, car, face = answer["best"]["stages"]
    assert ssd["part_ms"] + car["part_ms"] <= 400 and ssd["part_ms"] + face["part_ms"] <= 400
    for stage in answer["best"]["stages"]:
        assert stage["latency_ms"] <= stage["part_ms"]
        assert stage["gpus"] == pytest.approx(stage["rate_rps"] * stage["latency_ms"] / stage["batch"] / 1000)
    assert [stage["part_ms"] for stage in answer["even"]["stages"]] == [200, 200, 200]
    assert answer["best"]["gpus"] < answer["even"]["gpus"]
    ssd, car, face = answer["gathering"]["stages"]
    assert ssd["part_ms"] + max(car["part_ms"], face["part_ms"]) == pytest.approx(400, abs=1e-3)
    for stage in answer["gathering"]["stages"]:  # there is time to gather and to run
        assert stage["latency_ms"] + (stage["batch"] - 1) / stage["rate_rps"] * 1000 <= stage["part_ms"]
        assert stage["batch_most"] >= stage["batch"]
    assert answer["gathering"]["gpus"] > answer["best"]["gpus"]
    table = plan("split", PLANS / "traffic.yaml").stdout
    assert "googlenet-car" in table and f"{answer['best']['gpus']:.3f} GPUs; in even parts" in table
    file = tmp_path / "tight.yaml"
    file.write_text("slo_ms: 10\nrate_rps: 1\nstages:\n  - {name: A, alpha_ms: 1, beta_ms: 5}\n"
                    "  - {name: B, after: [A], alpha_ms: 1, beta_ms: 5}\n")
    done = plan("split", file)
    assert done.returncode == 1 and "this is no plan" in done.stdout
    answer = json.loads(plan("split", file, "--json").stdout)
    assert not answer["feasible"] and answer["best"] is None and answer["gathering"] is None and answer["even"]["gpus"] is None


@pytest.mark.parametrize("more, reason", [
    ({"max_rate_rps": 80}, "max_rate_rps: all models together take 170 requests/s of 160: 10 too many"),
    ({"max_rate_rps": 110, "max_memory_mb": 85}, "max_memory_mb: of the 3 largest models 2 must share"),
    ({"max_memory_mb": 39}, "max_memory_mb: model 'c' alone takes 65 MB of 39: 26 too many"),
    ({"max_rate_rps": 110, "max_move_cost": 1},
     "max_move_cost: the cheapest assignment found that keeps the other limits costs 2 of 1: 1 too many"),
])
def test_what_makes_a_partition_impossible(tmp_path, more, reason):
    models = [{"name": "a", "rate_rps": 60, "static_mb": 60, "move_cost": 2, "current": 0},
              {"name": "b", "rate_rps": 60, "static_mb": 40, "move_cost": 2, "current": 0},
              {"name": "c", "rate_rps": 50, "static_mb": 50, "dynamic_mb": 15, "move_cost": 3, "current": 0}]
    problem = {"subclusters": 2, "models": models, **more}
    status, answer = partition(tmp_path, problem)
    is_what_it_says(problem, answer)
    assert status == 1 and answer["reason"].startswith(reason), answer["reason"]


def test_variants_are_only_simulated():
    file = PLANS.parent / "nexus" / "figure15.yaml"
    for command, words in [(["serve", "--scenario", file], "has variants, which are only simulated, not served"),
                           (["stress", "--links", "--policy", "deferred", "--scenario", file], "variants of a model are only simulated"),
                           (["plan", "pool", file, "--budget", "2"], "a pool is planned for one model without variants")]:
        done = subprocess.run([BINARY, *map(str, command)], capture_output=True, text=True, timeout=600)
        assert done.returncode != 0 and words in done.stderr, done.stderr
