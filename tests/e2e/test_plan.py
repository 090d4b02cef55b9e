"""test_plan.py - `symphony plan`: plans, JSON, mistakes and exit status, through the program.

Needs nothing but pytest and the program.
"""
# sanitizers: yes

import json
import os
import pathlib
import subprocess

BINARY = os.environ.get("SYMPHONY_BINARY", "build/release/symphony")
PLANS = pathlib.Path(__file__).parents[2] / "scenarios" / "plans"


def plan(*args):
    return subprocess.run([BINARY, "plan", *map(str, args)], capture_output=True, text=True, timeout=60)


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
    for what in "pool", "squishy":
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
