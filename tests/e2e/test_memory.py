"""test_memory.py - more models than an accelerator's memory holds: what is loaded and unloaded live is what is simulated.

Requests come one at a time, so that which models are there does not depend on how fast the machine is."""
# sanitizers: address thread

import json
import random
import subprocess

import pytest

from repository import measure
from server import BINARY, Server, wait_until
from test_control import put, scaled
from test_whatif import get

MODELS, ROOM, REQUESTS = 6, 3, 60  # models of 2 pages of 16 MiB each, of which so many fit
SCENARIO = """cluster: {accelerators: 1, type: x, memory_gib: 0.109375, noise: 0.05, link_gb_s: 6}
models: [{name: m, alpha_ms: 0.1, beta_ms: 1, slo_ms: 600000, weights_mb: 30, copies: %d}]
workload: {rate_rps: 1, arrivals: {trace: trace.csv}}
policy: {name: %s}
run: {seconds: %d, warmup_seconds: 0}
"""


def draw(seed):
    """Models in the order in which they are asked for, some of them much more often than others."""
    rng = random.Random(seed)
    return rng.choices(range(1, MODELS + 1), [1 / m for m in range(1, MODELS + 1)], k=REQUESTS)


def write(folder, order, policy="clockwork"):
    (folder / "trace.csv").write_text("seconds,model\n" + "".join("%d,m-%d\n" % (i, m) for i, m in enumerate(order)))
    path = folder / "memory.yaml"
    path.write_text(SCENARIO % (MODELS, policy, len(order)))
    return path


def least_recently_used(order):
    """How often models are loaded and unloaded."""
    there, loads, unloads = [], 0, 0
    for m in order:
        if m in there:
            there.remove(m)
        else:
            loads += 1
            unloads += len(there) == ROOM
            there = there[-(ROOM - 1):]
        there.append(m)
    return loads, unloads


def total(metrics, name):
    return sum(value for key, value in metrics.items() if key.startswith(name + "{"))


def counted(server):
    metrics = server.metrics()
    return tuple(total(metrics, "symphony_model_%s_total" % what) for what in ("loads", "unloads", "cold_requests"))


def ask(server, model, tensor="INPUT", shape=(1, 1)):
    tensor = {"name": tensor, "datatype": "FP32", "shape": shape, "data": [1] * (shape[0] * shape[1])}
    status, answer = server.infer("m-%d" % model if model in range(MODELS + 1) else model, [tensor])
    assert status == 200, answer


def simulate(path):
    run = subprocess.run([BINARY, "simulate", path, "--json"], capture_output=True, check=True, text=True)
    return json.loads(run.stdout)


def test_live_as_simulated(tmp_path):
    order = draw(1)
    path = write(tmp_path, order)
    loads, unloads = least_recently_used(order)
    assert REQUESTS / 4 < loads < REQUESTS
    simulated = simulate(path)
    assert simulated["requests"] == REQUESTS and simulated["bad_rate"] == 0
    assert simulated["loads"] == loads
    assert round((1 - simulated["hit_rate"]) * REQUESTS) == loads
    with Server("--scenario", path) as server:
        assert counted(server) == (0, 0, 0)  # nothing is loaded before it is asked for
        for m in order:
            ask(server, m)
        wait_until(lambda: counted(server) == (loads, unloads, loads))
        metrics = server.metrics()
        assert metrics['symphony_prediction_error_seconds_count{kind="load"}'] == loads
        wait_until(lambda: server.metrics()['symphony_prediction_error_seconds_count{kind="run"}'] == REQUESTS)
        assert total(metrics, "symphony_accelerator_absent_batches_total") == 0
        status, recording = get(server.metrics_port, "/v2/symphony/recording")
        assert status == 200
        assert "  memory_gib: 0.109375\n" in recording and ", weights_mb: 30, load_ms: 5" in recording
        assert server.stop() == 0


def test_an_accelerator_comes_back_with_nothing(tmp_path):
    path = write(tmp_path, [1])
    with Server("--scenario", path, "--accelerator-control") as server:
        def state(action=None):
            status, _, text = server.request("POST" if action else "GET", "/v2/symphony/accelerators" + "/0" * bool(action),
                                             action and json.dumps({"action": action}))
            assert status == 200, text
            return None if action else json.loads(text)[0]["state"]

        for m in (1, 2, 1):
            ask(server, m)
        assert counted(server) == (2, 0, 2)
        state("drain")
        wait_until(lambda: state() == "gone")
        state("join")
        wait_until(lambda: state() == "serving")
        for m in (1, 1, 2, 3, 4):
            ask(server, m)
        wait_until(lambda: counted(server) == (6, 1, 6))
        assert server.stop() == 0


def test_nexus_has_memory_too(tmp_path):
    order = [1, 2, 3] * 5
    with Server("--scenario", write(tmp_path, order, "nexus")) as server:
        for m in order:
            ask(server, m)
        assert total(server.metrics(), "symphony_model_loads_total") >= 3
        assert server.stop() == 0


def test_where_all_models_stay_memory_has_no_effect(tmp_path):
    path = write(tmp_path, [1])
    with Server("--scenario", path, "--policy", "deferred") as server:
        for m in range(1, MODELS + 1):
            ask(server, m)
        errors = "symphony_prediction_error_seconds_count"
        wait_until(lambda: server.metrics()[errors + '{kind="run"}'] == MODELS)
        assert not [key for key in server.metrics() if key.startswith(("symphony_model_loads", errors + '{kind="load"'))]
        assert server.stop() == 0


def test_a_model_that_is_too_large_is_set_aside(tmp_path):
    path = write(tmp_path, [1])
    with Server("--scenario", path, "--memory-mib", 32) as server:
        ask(server, 1)
        assert server.stop() == 0
    large = "{name: large, alpha_ms: 0.1, beta_ms: 1, slo_ms: 1000, weights_mb: 34}"
    path.write_text(path.read_text().replace("models: [", "models: [%s, " % large))
    with Server("--scenario", path, "--memory-mib", 32) as server:
        ask(server, 1)
        assert server.request("GET", "/v2/models/large/ready")[0] != 200
        assert "its weights take 3 pages of 16 MiB, and an accelerator's memory has 2" in server.log_text()
        assert server.stop() == 0


@pytest.mark.parametrize("more, says", [
    (["--policy", "fifo"], "--memory-mib: the policy fifo keeps every model loaded"),
    (["--policy", "clockwork"], "--memory-mib goes with emulated accelerators only"),
    (["--policy", "clockwork", "--accelerators", "emulated:1", "--model-control-mode", "poll"],
     "--memory-mib does not go with --model-control-mode poll or explicit"),
    (["--policy", "clockwork", "--isolate", "on"], "--isolate on does not go with --memory-mib"),
])
def test_mistakes_are_named(tmp_path, more, says):
    put(tmp_path / "models", "scaled", scaled(2))
    run = subprocess.run([BINARY, "serve", "--repository", tmp_path / "models", "--memory-mib", "64", *more],
                         capture_output=True, text=True, timeout=600)
    assert run.returncode != 0
    assert says in run.stderr


def test_a_repository_has_memory_too(tmp_path):
    put(tmp_path / "models", "scaled", scaled(2))
    measure(tmp_path / "models")
    with Server("--repository", tmp_path / "models", "--policy", "clockwork", "--accelerators", "emulated:1", "--memory-mib",
                1024, "--slo-ms", 60000) as server:
        ask(server, "scaled", "x", (1, 4))
        assert total(server.metrics(), "symphony_model_loads_total") == 1
        assert server.stop() == 0
