"""test_memory.py - more models than an accelerator's memory holds: what is loaded and unloaded live is what is simulated.

Requests come one at a time, so that which models are there does not depend on how fast the machine is."""
# sanitizers: address thread

import concurrent.futures
import json
import os
import random
import re
import shutil
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


def refused(server):
    """The trails of refused requests. Each is kept a moment after its answer has gone out."""
    def trails():
        return json.loads(get(server.metrics_port, "/v2/symphony/requests?state=refused")[1])["requests"]
    wait_until(trails)
    return trails()


def simulate(path):
    run = subprocess.run([BINARY, "simulate", path, "--json"], capture_output=True, check=True, text=True)
    return json.loads(run.stdout)


@pytest.mark.parametrize("policy", ["deferred", "clockwork"])
def test_a_model_that_loads_too_slowly_is_loaded_for_later_requests(tmp_path, policy):
    """The operator is told at the start."""
    path = tmp_path / "slow.yaml"
    path.write_text("cluster: {accelerators: 1, type: x, memory_gib: 1}\nmodels:\n"
                    "- {name: slow, alpha_ms: 0.1, beta_ms: 1, slo_ms: 1000, weights_mb: 30, load_ms: 3000, copies: 2}\n"
                    "- {name: quick, alpha_ms: 0.1, beta_ms: 1, slo_ms: 1000, weights_mb: 30, load_ms: 5}\n"
                    "- {name: kept, alpha_ms: 0.1, beta_ms: 1, slo_ms: 1000, weights_mb: 30, load_ms: 3000, pinned: true}\n"
                    "workload: {rate_rps: 10}\npolicy: {name: %s}\nrun: {seconds: 20, warmup_seconds: 10}\n" % policy)
    words = "cold requests are refused, since their models load too slowly"
    figures = "models=2 first=slow-1 load_ms=3000 slo_ms=1000"
    with Server("--scenario", path) as server:
        assert 'msg="%s" %s\n' % (words, figures) in server.log_text()
        x = [{"name": "INPUT", "datatype": "FP32", "shape": [1, 1], "data": [1]}]
        assert server.infer("slow-1", x)[0] == 503
        wait_until(lambda: server.infer("slow-1", x)[0] == 200, every_s=0.1)
    simulated = subprocess.run([BINARY, "simulate", path, "--json"], capture_output=True, text=True, check=True)
    assert "symphony simulate: warning: %s: %s\n" % (words, figures) in simulated.stderr
    assert all(model["bad_rate"] < 0.5 for model in json.loads(simulated.stdout)["models"])


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
        wait_until(lambda: counted(server) == (2, 0, 2))
        state("drain")
        wait_until(lambda: state() == "gone")
        state("join")
        wait_until(lambda: state() == "serving")
        for m in (1, 1, 2, 3, 4):  # the server may still be about to find that none was in service
            wait_until(lambda: server.infer("m-%d" % m, [{"name": "INPUT", "datatype": "FP32", "shape": (1, 1), "data": [1]}])[0] == 200)
        wait_until(lambda: counted(server) == (6, 1, 6))
        assert server.stop() == 0


def test_deferred_live_as_simulated(tmp_path):
    """It unloads by how often models are asked for, of which it hears every 10 ms: the last request may not be counted."""
    order = draw(2)
    path = write(tmp_path, order, "deferred")
    simulated = simulate(path)
    assert simulated["requests"] == REQUESTS and simulated["bad_rate"] == 0
    with Server("--scenario", path) as server:
        assert counted(server) == (0, 0, 0)
        for m in order:
            ask(server, m)
        loads, unloads, cold = counted(server)
        assert MODELS <= loads == cold < least_recently_used(order)[0] + REQUESTS / 10
        assert abs(loads - simulated["loads"]) <= REQUESTS / 10
        assert loads - ROOM <= unloads <= loads
        metrics = server.metrics()
        assert metrics['symphony_prediction_error_seconds_count{kind="load"}'] == loads
        assert total(metrics, "symphony_accelerator_absent_batches_total") == 0
        assert total(metrics, "symphony_model_load_failures_total") == 0
        status, recording = get(server.metrics_port, "/v2/symphony/recording")
        assert status == 200 and "  memory_gib: 0.109375\n" in recording
        assert server.stop() == 0


def test_cold_models_do_not_evict_what_is_hot(tmp_path):
    """One of twenty requests is for the hot model, and the others for 2,000 models, each once, with room for three."""
    path = tmp_path / "cold.yaml"
    path.write_text("""cluster: {accelerators: 1, type: x, memory_gib: 0.109375, link_gb_s: 60}
models:
- {name: hot, alpha_ms: 0.1, beta_ms: 0.1, slo_ms: 600000, weights_mb: 30}
- {name: m, alpha_ms: 0.1, beta_ms: 0.1, slo_ms: 600000, weights_mb: 30, copies: 2000}
workload: {rate_rps: 50, arrivals: {trace: cold.csv}}
policy: {name: deferred}
run: {seconds: 8, warmup_seconds: 0}
""")
    order = ["hot" if i < 4 or i % 20 == 0 else "m-%d" % (1 + i) for i in range(400)]
    (tmp_path / "cold.csv").write_text(
        "seconds,model\n" + "".join("%g,%s\n" % (i / 50, m) for i, m in enumerate(order)))
    simulated = {model["name"]: model["loads"] for model in simulate(path)["models"]}
    assert simulated["hot"] == 1
    with Server("--scenario", path) as server:
        for m in order:
            ask(server, m)
        metrics = server.metrics()
        loads = {key: value for key, value in metrics.items() if key.startswith("symphony_model_loads_total{")}
        assert sum(loads.values()) == sum(simulated.values()) == 1 + 396 - 19
        assert [value for key, value in loads.items() if 'model="hot"' in key] == [1]
        assert server.stop() == 0


def test_a_small_model_does_not_wait_for_the_load_of_a_large_one(tmp_path):
    """On the only link. It has less time than that load takes, which goes on afterwards."""
    path = tmp_path / "cut.yaml"
    path.write_text("""cluster: {accelerators: 1, type: x, memory_gib: 40}
models:
- {name: large, alpha_ms: 0.1, beta_ms: 1, slo_ms: 600000, weights_mb: 10000, load_ms: 3000, copies: 3}
- {name: small, alpha_ms: 0.1, beta_ms: 1, slo_ms: 2500, weights_mb: 10, load_ms: 1, copies: 3}
""")
    with Server("--scenario", path) as server:
        tensor = [{"name": "INPUT", "datatype": "FP32", "shape": [1, 1], "data": [1]}]
        for again in range(1, 4):
            loads, _, colds = counted(server)
            with concurrent.futures.ThreadPoolExecutor(1) as asker:
                large = asker.submit(ask, server, "large-%d" % again)
                wait_until(lambda: counted(server)[2] > colds)
                status, _ = server.infer("small-%d" % again, tensor)  # refused if all stands still: then nobody loads it
                first = status == 200 and counted(server)[0] == loads + 1
                large.result()
            if first:
                break
        assert first
        wait_until(lambda: counted(server)[0] == loads + 2)
        assert server.stop() == 0


@pytest.mark.parametrize("policy, accelerators, isolate", [
    ("deferred", "emulated:1", "off"), ("clockwork", "emulated:1", "off"), ("deferred", "cpu:1", "on"), ("clockwork", "cpu:1", "off")])
def test_a_pinned_model_is_there_before_it_is_asked_for_and_stays(tmp_path, policy, accelerators, isolate):
    """Room for two of four models: three take turns in what is left beside the pinned one."""
    models = tmp_path / "models"
    for m in range(1, 5):
        put(models, "m-%d" % m, scaled(m, 1024))
    (models / "m-1" / "symphony.yaml").write_text("pinned: true\n")
    measure(models)
    largest = max(json.loads(path.read_text())["weights_bytes"] for path in models.glob("*/1/.symphony/*.profile.json"))
    room = 2 * max(16 if "emulated" in accelerators else 0, largest // 2**20 + 1)
    with Server("--repository", models, "--accelerators", accelerators, "--memory-mib", room, "--slo-ms", 60000, "--policy", policy,
                "--isolate", isolate, "--model-control-mode", "explicit", "--load-model", "*") as server:
        def loads():
            lines = [(key, value) for key, value in server.metrics().items() if key.startswith("symphony_model_loads_total{")]
            return [sum(value for key, value in lines if 'model="m-%d"' % m in key) for m in range(1, 5)]

        wait_until(lambda: loads() == [1, 0, 0, 0])
        for m in (2, 3, 4, 2, 3, 1):
            ask(server, "m-%d" % m, "x", (1, 4))
        wait_until(lambda: loads() == [1, 2, 2, 1])
        assert server.order("m-1", "unload")[0] == 200
        wait_until(lambda: server.request("GET", "/v2/models/m-1/ready")[0] != 200)

        def beside_each_other():
            before = loads()
            for m in (2, 3):
                ask(server, "m-%d" % m, "x", (1, 4))
            return loads() == before
        wait_until(beside_each_other)
        assert server.stop() == 0


def test_who_cannot_wait_for_a_load_is_told_as_simulated(tmp_path):
    def plain(words):
        return re.sub(r"[0-9]+(\.[0-9]+)?", "N", words)
    path = write(tmp_path, [1, 2], "deferred")
    path.write_text(path.read_text().replace("slo_ms: 600000", "slo_ms: 5000, load_ms: 60000"))
    told = simulate(path)
    assert set(told["bad_reasons"]) == {"model_not_in_memory"}
    with Server("--scenario", path) as server:
        tensor = {"name": "INPUT", "datatype": "FP32", "shape": [1, 1], "data": [1]}
        assert server.infer("m-1", [tensor])[0] == 503
        trail, = refused(server)
        assert trail["reason"] == "model_not_in_memory"
        assert plain(trail["why"]) == plain(told["bad_words"]["model_not_in_memory"])
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
    with Server("--scenario", path, "--policy", "kairos") as server:
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
    (["--policy", "kairos"], "--memory-mib: the policy kairos keeps every model loaded"),
    (["--accelerators", "cuda:1"], "--memory-mib goes with CPU and emulated accelerators only"),
    (["--resident", "all"], "--resident all does not go with --memory-mib"),
    (["--share-prefixes", "on"], "--memory-mib does not go with --share-prefixes on"),
    (["--inputs-max-mib", "1", "--frontends", "2"], "--inputs-max-mib: 1, and each of 2 threads of a protocol (--frontends) takes 1"),
    (["--policy", "kairos", "--isolate", "on"], "--resident demand: the policy kairos keeps every model loaded"),
])
def test_mistakes_are_named(tmp_path, more, says):
    put(tmp_path / "models", "scaled", scaled(2))
    run = subprocess.run([BINARY, "serve", "--repository", tmp_path / "models", "--memory-mib", "64", *more],
                         capture_output=True, text=True, timeout=600)
    assert run.returncode != 0
    assert says in run.stderr


@pytest.mark.parametrize("policy", ["clockwork", "deferred"])
def test_a_repository_has_memory_too(tmp_path, policy):
    put(tmp_path / "models", "scaled", scaled(2))
    measure(tmp_path / "models")
    with Server("--repository", tmp_path / "models", "--policy", policy, "--accelerators", "emulated:1", "--memory-mib",
                1024, "--slo-ms", 60000) as server:
        ask(server, "scaled", "x", (1, 4))
        wait_until(lambda: total(server.metrics(), "symphony_model_loads_total") == 1)
        assert server.stop() == 0


@pytest.mark.parametrize("policy", ["deferred", "clockwork"])
def test_cpu_accelerators_load_what_is_asked_for(tmp_path, policy):
    """Six models with room for three: each answers by its own weights, the memory is never exceeded, and a model whose file has gone
    fails alone, until it is back."""
    models = tmp_path / "models"
    for m in range(1, MODELS + 1):
        put(models, "m-%d" % m, scaled(m, 1024))
    measure(models)
    takes = [json.loads(path.read_text())["weights_bytes"] for path in models.glob("*/1/.symphony/*.profile.json")]
    assert len(takes) == MODELS and max(takes) < 1.2 * min(takes)
    room = ROOM * (max(takes) // 2**20 + 1) + 1
    lost = models / "m-6" / "1"

    def answer(server, model, seconds=60):
        tensor = {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}
        status, answer = server.infer(model, [tensor], parameters={"timeout": seconds * 1_000_000})
        return answer["outputs"][0]["data"] if status == 200 else status

    with Server("--repository", models, "--accelerators", "cpu:1", "--memory-mib", room, "--slo-ms", 60000, "--policy",
                policy) as server:
        def resident():
            status, text = get(server.metrics_port, "/v2/symphony/state")
            return json.loads(text)["accelerators"][0]

        assert counted(server) == (0, 0, 0) and resident()["models"] == 0
        for m in [1, 2, 3, 4, 5, 1, 5, 2, 3]:
            assert answer(server, "m-%d" % m) == [m, 2 * m, 3 * m, 4 * m]
            assert 1 <= resident()["models"] <= ROOM and resident()["memory_mib"] <= room
            assert total(server.metrics(), "symphony_accelerator_memory_bytes") <= room * 2**20

        def adds_up():
            """A load may be counted a moment after the answer."""
            loads, unloads, cold = counted(server)
            return 5 <= loads == cold <= 9 and unloads == loads - ROOM
        wait_until(adds_up)
        lost.rename(tmp_path / "lost")

        def fails():
            """If the server stands still, a request's time is over before the load has failed."""
            assert answer(server, "m-6", 2) == 503
            return "model cannot be loaded" in server.log_text() and "model_not_in_memory" in {one["reason"] for one in refused(server)}
        wait_until(fails)
        assert answer(server, "m-3") == [3, 6, 9, 12]
        assert total(server.metrics(), "symphony_model_load_failures_total") >= 1
        (tmp_path / "lost").rename(lost)
        wait_until(lambda: answer(server, "m-6") == [6, 12, 18, 24])
        assert server.stop() == 0


def test_unloaded_models_stay_open_without_their_weights(tmp_path):
    """Room for one of three: each is loaded once, later its weights come back; one whose copy has been cut short is loaded anew."""
    models = tmp_path / "models"
    for m in range(1, 4):
        put(models, "m-%d" % m, scaled(m, 1024))
    measure(models)
    room = max(json.loads(path.read_text())["weights_bytes"] for path in models.glob("*/1/.symphony/*.profile.json")) // 2**20 + 2
    with Server("--repository", models, "--accelerators", "cpu:1", "--memory-mib", room, "--slo-ms", 60000, "--log-level",
                "debug") as server:
        def answer(m):
            status, answer = server.infer("m-%d" % m, [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}])
            assert status == 200, answer
            return answer["outputs"][0]["data"]

        for m in 3 * [1, 2, 3]:
            assert answer(m) == [m, 2 * m, 3 * m, 4 * m]
            assert total(server.metrics(), "symphony_accelerator_memory_bytes") <= room * 2**20
        assert counted(server) == (9, 8, 9)
        assert server.log_text().count("weights are back") == 6
        copy, = (models / "m-1" / "1" / ".symphony").glob("*.weights")
        os.truncate(copy, 4096)
        assert answer(1) == [1, 2, 3, 4]
        assert "weights do not come back" in server.log_text() and server.log_text().count("weights are back") == 6
        assert total(server.metrics(), "symphony_model_load_failures_total") == 0
        assert server.stop() == 0


@pytest.mark.parametrize("policy, accelerators, takes, isolate", [
    ("deferred", "cpu:2", 0, "off"), ("clockwork", "cpu:2", 0, "off"), ("deferred", "cpu:2", 0, "on"), ("clockwork", "emulated:2", 16, "off"),
    pytest.param("clockwork", "cpu:2", 0, "on", marks=pytest.mark.long),
    pytest.param("deferred", "emulated:2", 16, "off", marks=pytest.mark.long)])
def test_models_come_and_go(tmp_path, policy, accelerators, takes, isolate):
    """With room for two of them: loaded, replaced, unloaded by order, while others are asked for, and also while an accelerator that has
    them is out of service."""
    models = tmp_path / "models"
    for m in range(1, 5):
        put(models, "m-%d" % m, scaled(m, 1024))
    measure(models)
    largest = max(json.loads(path.read_text())["weights_bytes"] for path in models.glob("*/1/.symphony/*.profile.json"))
    room = 2 * max(takes, largest // 2**20 + 2)

    with Server("--repository", models, "--accelerators", accelerators, "--memory-mib", room, "--slo-ms", 60000,
                "--model-control-mode", "explicit", "--load-model", "*", "--policy", policy, "--isolate", isolate) as server:
        def answer(m):
            tensor = {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}
            status, answer = server.infer("m-%d" % m, [tensor])
            return status == 200 and answer["outputs"][0]["data"][0]

        def right(m, factor):
            assert answer(m) == (0 if takes else factor)

        def accelerator(number, action):
            status, _, text = server.request("POST", "/v2/symphony/accelerators/%d" % number, json.dumps({"action": action}))
            assert status == 200, text

        wait_until(lambda: all(server.request("GET", "/v2/models/m-%d/ready" % m)[0] == 200 for m in range(1, 5)))
        for again in range(3):
            for m in range(1, 5):
                right(m, m if again == 0 else 10 * again + m)
                put(models, "m-%d" % m, scaled(10 * again + 10 + m, 1024))
                assert server.order("m-%d" % m, "load")[0] == 200
                right(m, 10 * again + 10 + m)
        assert server.order("m-1", "unload")[0] == 200
        wait_until(lambda: server.request("GET", "/v2/models/m-1/ready")[0] != 200)
        for m in (2, 3, 4):
            right(m, 30 + m)
        for number in (0, 1):
            accelerator(number, "drain")
        for m in (2, 3):
            assert server.order("m-%d" % m, "unload")[0] == 200
        put(models, "m-5", scaled(5, 1024))
        assert server.order("m-5", "load")[0] == 200
        for number in (1, 0):
            accelerator(number, "join")
        # they are ready, set aside if it is only now seen that all accelerators had left, and ready again
        wait_until(lambda: all(answer(m) == (0 if takes else factor) for m, factor in ((5, 5), (4, 34))))
        right(5, 5)
        metrics = server.metrics()
        assert total(metrics, "symphony_accelerator_memory_bytes") <= 2 * room * 2**20
        assert total(metrics, "symphony_accelerator_absent_batches_total") == 0
        assert total(metrics, "symphony_model_load_failures_total") == 0
        assert server.stop() == 0


@pytest.mark.parametrize("policy", ["deferred", "clockwork"])
def test_a_repository_that_changes_is_followed(tmp_path, policy):
    """A model comes, is replaced and goes while others are asked for, with room for two."""
    models = tmp_path / "models"
    for m in range(1, 4):
        put(models, "m-%d" % m, scaled(m, 1024))
    measure(models)
    largest = max(json.loads(path.read_text())["weights_bytes"] for path in models.glob("*/1/.symphony/*.profile.json"))
    room = 2 * (largest // 2**20 + 2)
    with Server("--repository", models, "--accelerators", "cpu:1", "--memory-mib", room, "--slo-ms", 60000, "--policy", policy,
                "--model-control-mode", "poll", "--repository-poll-secs", "0.1") as server:
        def answer(m):
            status, answer = server.infer("m-%d" % m, [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1] * 4}])
            return answer["outputs"][0]["data"][0] if status == 200 else status

        for m in (1, 2, 3, 1):
            assert answer(m) == m
        put(models, "m-4", scaled(4, 1024))
        put(models, "m-1", scaled(11, 1024))
        for m, factor in ((4, 4), (1, 11)):
            wait_until(lambda: answer(m) == factor)
        shutil.rmtree(models / "m-2")
        wait_until(lambda: answer(2) == 404)
        for m, factor in ((3, 3), (4, 4), (1, 11)):
            assert answer(m) == factor
        metrics = server.metrics()
        assert total(metrics, "symphony_accelerator_memory_bytes") <= room * 2**20
        assert total(metrics, "symphony_accelerator_absent_batches_total") == 0
        assert total(metrics, "symphony_model_load_failures_total") == 0
        assert server.stop() == 0


def test_nothing_is_loaded_before_it_is_asked_for(tmp_path):
    put(tmp_path / "models", "scaled", scaled(2))
    measure(tmp_path / "models")
    with Server("--repository", tmp_path / "models", "--accelerators", "cpu:1", "--resident", "demand") as server:
        assert counted(server) == (0, 0, 0)
        ask(server, "scaled", "x", (1, 4))
        assert counted(server) == (1, 0, 1)
        assert server.stop() == 0
