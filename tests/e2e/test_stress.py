"""test_stress.py - `symphony stress` says what it measured, checks what it did, and refuses what makes no sense. Counts,
not speed: the machine may be busy."""
# sanitizers: address thread
import json
import os
import subprocess

import pytest

BINARY = os.environ.get("SYMPHONY_BINARY", "build/release/symphony")
ZOO = os.path.join(os.path.dirname(__file__), "..", "..", "scenarios", "zoo-1080ti.yaml")
QUICK = ["--sleep", "--warmup", "0.1", "--seconds", "0.5", "--rate", "5000", "--slo-us", "200000"]  # the last of an option counts


def stress(*args):
    return subprocess.run([BINARY, "stress", *args], capture_output=True, text=True, timeout=600)


def measured(*args, things=("requests", "batches")):
    """What a run says. A machine that stands still may do nothing while it is measured: then it is, for longer."""
    for seconds in ("0.5", "3", "20"):
        done = stress("--json", *args, "--seconds", seconds)
        assert done.returncode == 0, done.stdout + done.stderr
        result = json.loads(done.stdout)
        assert result["wrong"] is None
        if all(result[thing] for thing in things):
            return result
    pytest.fail("nothing was done: %s" % result)


def test_json_has_what_is_promised():
    result = measured("--models", "5", "--accelerators", "20", *QUICK, things=("requests", "batches", "checked_requests"))
    assert result["requests_per_s"] > 0 and result["grants_per_s"] > 0
    assert 0 <= result["bad_rate"] <= 1
    assert result["bad_rate"] == pytest.approx(result["dropped_rate"] + result["late_rate"] + result["lost_rate"],
                                              abs=1e-9)
    assert 1 <= result["batch_mean"] <= 1024
    for times in ("decision_us", "request_to_candidate_us", "due_to_grant_us", "grant_to_plan_us"):
        assert 0 <= result[times]["p50"] <= result[times]["p99"] <= result[times]["p999"]
    assert result["pauses"] is None and result["undisturbed"] is None  # threads that sleep cannot tell
    assert result["cpu_ns_per_request"]["model_thread"] > 0
    assert result["cpu_ns_per_request"]["rank_thread"] > 0
    assert result["memory_bytes"]["queued_request"] < 128
    assert result["memory_bytes"]["accelerator"] < 1024


def test_threads_that_never_sleep_tell_of_pauses():
    done = stress("--json", "--models", "5", "--accelerators", "20", *QUICK[1:])
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["wrong"] is None
    assert result["threads"] <= 3
    for kind in ("model_thread", "rank_thread", "feeder"):
        pauses = result["pauses"][kind]
        assert 0 <= pauses["longest_ms"] <= pauses["total_ms"] and (pauses["count"] > 0) == (pauses["total_ms"] > 0)
        assert 0 <= result["busy"][kind] <= 1
    undisturbed = result["undisturbed"]
    assert 0 <= undisturbed["requests_share"] <= 1 and 0 <= undisturbed["bad_rate"] <= 1
    assert undisturbed["decision_us"]["p50"] <= undisturbed["decision_us"]["p99"]


def test_closed_loop_and_text():
    done = stress("--closed", "40", "--accelerators", "4", *QUICK)
    assert done.returncode == 0, done.stderr
    assert "requests/s" in done.stdout and "all right" in done.stdout


def test_policies_that_look_at_no_deadlines_are_not_wrong():
    for policy in "fifo", "timeout:max_queue_delay_us=1000":
        measured("--policy", policy, "--accelerators", "1", *QUICK, "--rate", "20000", "--slo-us", "2000", things=("late_rate",))


def test_models_move_and_accelerators_die():
    measured("--models", "8", "--accelerators", "20", "--rank-threads", "2", "--moves", "500", "--deaths", "200", *QUICK,
             things=("moves", "deaths"))


def test_find_max_finds_a_rate_unless_pauses_touch_all_of_it():
    done = stress("--json", "--find", "max", "--precision", "0.5", "--warmup", "0.02", "--seconds", "0.05", "--rate", "2000",
                  "--slo-us", "200000")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["wrong"] is None
    assert result["max_rate_per_s"] is None or result["max_rate_per_s"] >= 1000


LINKS = ["--links", "--warmup", "0.2", "--rate", "2000", "--slo-us", "1000000"]


def test_links_have_what_is_promised():
    result = measured(*LINKS, "--models", "5", "--accelerators", "20", things=("requests", "batches", "goodput_per_s"))
    assert 1 <= result["batch_mean"] <= 1024
    assert result["bad_rate"] == pytest.approx(
        sum(result[why] for why in ("refused_rate", "late_rate", "expired_rate", "lost_rate", "unsent_rate")))
    for times in ("decision_us", "request_to_candidate_us", "due_to_grant_us", "grant_to_plan_us", "plan_to_backend_us"):
        assert 0 <= result[times]["p50"] <= result[times]["p99"] <= result[times]["p999"]
    for kind in ("link", "model", "rank", "feeder"):
        assert result["threads"][kind]["threads"] == 1
        assert result["threads"][kind]["cpu_ns_per_request"] > 0 and result["threads"][kind]["ran"] > 0
    per_s = result["link_per_s"]
    assert per_s["bytes_in"] > 48 * 0.5 * result["requests_per_s"]  # a request is 48 bytes
    assert per_s["frames_in"] > 0 and per_s["sends"] > 0 and per_s["turns"] > 0 and per_s["reads"] > 0


def test_links_of_many_members_and_threads():
    result = measured(*LINKS, "--models", "6", "--model-threads", "2", "--rank-threads", "2", "--frontends", "3", "--backends",
                      "20", "--accelerators", "4", "--feeders", "3", things=("requests",))
    assert result["threads"]["model"]["threads"] == 2 and result["threads"]["feeder"]["threads"] == 3


def test_links_closed_loop_with_a_scenario():
    done = stress("--links", "--closed", "200", "--scenario", ZOO, "--backends", "2", "--accelerators",
                  "8", "--warmup", "0.1", "--seconds", "0.3")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "requests/s" in done.stdout and "all right" in done.stdout


@pytest.mark.parametrize("args, says", [
    (["--links", "--find", "max"], "--find"),
    (["--links", "--deaths", "5"], "--deaths"),
    (["--links", "--feeders", "3"], "--feeders"),
    (["--links", "--policy", "clockwork"], "clockwork"),
    (["--links", "--backends", "1000", "--accelerators", "100"], "65536"),
    (["--links", "--backends", "4095"], "4095"),
    (["--backends", "5"], "--links"),
    (["--scenario", "x.yaml"], "--links"),
    (["--policy", "nexus"], "nexus"),
    (["--policy", "nope"], "nope"),
    (["--slo-us", "100"], "--slo-us"),
    (["--models", "2", "--model-threads", "4"], "--model-threads"),
    (["--rank-threads", "3", "--accelerators", "2"], "--rank-threads"),
    (["--closed", "5", "--find", "max"], "--closed"),
    (["--pin", "x"], "--pin"),
    (["--rate", "-1"], "--rate"),
])
def test_mistakes_are_named(args, says):
    done = stress(*args)
    assert done.returncode == 2
    assert says in done.stderr and len(done.stderr.strip().splitlines()) == 1
