"""test_cluster_memory.py - a cluster whose accelerators have less memory than there are models.

Requests come one at a time, so that which models are there does not depend on how fast the machine is."""
# sanitizers: address thread

import collections
import contextlib
import json
import random
import signal
import subprocess

import pytest

from repository import measure
from server import BINARY, free_port, http_request, wait_until
from test_cluster_partial import BRISK, PATIENT, Metered
from test_control import put, scaled
from test_standby import Frontend, Role, status_of

MODELS, ROOM = 40, 10  # models of 2 pages of 16 MiB, of which so many fit
MEMORY_MIB = ROOM * 32
ASK = [{"name": "INPUT", "datatype": "FP32", "shape": [1, 1], "data": [1]}]


def scenario(path, models, accelerators=1, more=""):
    path.write_text("cluster: {accelerators: %d, type: x%s}\nmodels:\n" % (accelerators, more) + "".join(
        "- {name: m-%s, alpha_ms: 0.1, beta_ms: 1, slo_ms: 600000, weights_mb: 30, load_ms: 5}\n" % m for m in models))
    return path


class Loads:
    """A scheduler that orders loads, or several; a frontend; and backends."""

    def __init__(self, schedulers=1, more=(), policy="deferred", demand=True):
        addresses = ["127.0.0.1:%d" % free_port() for _ in range(schedulers)]
        beats = PATIENT if schedulers == 1 else BRISK
        peers = ("--peers", ",".join(addresses)) if schedulers > 1 else more
        self.join = ("--join", ",".join(addresses))
        demand = ("--resident", "demand") if demand and policy != "deferred" else ()
        self.schedulers = [Metered("scheduler", "--listen", address, "--policy", policy, *demand, *peers, *beats)
                           for address in addresses]
        self.frontend = Frontend(*self.join)
        self.frontend.args += beats
        self.beats = beats
        self.backends = []

    def __enter__(self):
        self.frontend.start()
        return self

    def __exit__(self, *error):
        for role in self.schedulers + self.backends:
            role.end(error[0])
        self.frontend.__exit__(*error)

    def backend(self, *args, role=Role):
        self.backends.append(role("backend", *self.join, *args, *self.beats))
        wait_until(lambda: self.frontend.log_text().count('msg="backend connected"') >= len(self.backends))
        return self.backends[-1]

    def whole(self, models):
        wait_until(lambda: all(self.frontend.request("GET", "/v2/models/%s/ready" % m)[0] == 200 for m in models))
        wait_until(lambda: status_of(self.join)["scheduler"]["accelerators"] == len(self.backends))

    def ask(self, model, inputs=ASK):
        status, answer = self.frontend.infer(model, inputs)
        assert status == 200, answer
        return answer

    def counted(self, what, scheduler=None):
        """How often each model was loaded, or what else the scheduler counts."""
        lines = (scheduler or self.schedulers[0]).get("/metrics")[1].splitlines()
        name = "symphony_model_%s_total{" % what
        counts = collections.Counter()
        for line in lines:
            if line.startswith(name):
                counts[line.split('model="')[1].split('"')[0]] += int(float(line.split()[-1]))
        return counts

    def loads(self, scheduler=None):
        return sum(self.counted("loads", scheduler).values())


def draw(seed, count):
    return random.Random(seed).choices(range(1, MODELS + 1), [1 / m for m in range(1, MODELS + 1)], k=count)


def test_loads_as_simulated_and_without_a_backend(tmp_path):
    """Two backends with room for ten models each, of forty. The one that dies and comes back has nothing."""
    order = draw(1, 120)
    alike = scenario(tmp_path / "all.yaml", range(1, MODELS + 1), 2, ", memory_gib: %g, link_gb_s: 6" % (MEMORY_MIB / 1024))
    (tmp_path / "trace.csv").write_text("seconds,model\n" + "".join("%d,m-%d\n" % (i, m) for i, m in enumerate(order)))
    alike.write_text(alike.read_text() + "workload: {rate_rps: 1, arrivals: {trace: trace.csv}}\npolicy: {name: deferred}\n"
                     "run: {seconds: %d, warmup_seconds: 0}\n" % len(order))
    simulated = json.loads(subprocess.run([BINARY, "simulate", alike, "--json"], capture_output=True, check=True).stdout)
    one = scenario(tmp_path / "one.yaml", range(1, MODELS + 1))
    with Loads(more=("--record-decisions", tmp_path / "log")) as cluster:
        for _ in range(2):
            cluster.backend("--scenario", one, "--memory-mib", MEMORY_MIB)
        cluster.whole(["m-%d" % m for m in range(1, MODELS + 1)])
        for m in order:
            cluster.ask("m-%d" % m)
        distinct = len(set(order))
        assert distinct <= cluster.loads() < len(order) / 2
        assert abs(cluster.loads() - simulated["loads"]) <= len(order) / 8
        assert cluster.loads() - sum(cluster.counted("unloads").values()) <= 2 * ROOM
        assert not sum(cluster.counted("load_failures").values())
        before = cluster.loads()
        cluster.ask("m-%d" % order[-1])
        assert cluster.loads() == before  # it is there
        cluster.backends[0].kill()
        wait_until(lambda: status_of(cluster.join)["scheduler"]["accelerators"] == 1)
        for m in range(1, MODELS + 1):
            cluster.ask("m-%d" % m)
        assert cluster.loads() >= before + MODELS - ROOM
        cluster.backends[0].start()
        cluster.whole([])
        for m in order[:20]:
            cluster.ask("m-%d" % m)
        assert cluster.schedulers[0].kill(signal.SIGTERM) == 0
    done = subprocess.run([BINARY, "whatif", "--check", tmp_path / "log"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr  # what the rank core is told of memories is logged, too


@pytest.mark.parametrize("threads", [1, 3])
def test_each_backend_has_models_and_memory_of_its_own(tmp_path, threads):
    """Ten backends, of which no two have the same models, and no more memory than for two; and one that has all of its models for
    good. With several rank threads each model goes to one that has accelerators for it."""
    with Loads(more=("--rank-threads", threads, "--record-decisions", tmp_path / "log")) as cluster:
        for b in range(10):
            models = scenario(tmp_path / ("%d.yaml" % b), ["all", "even" if b % 2 == 0 else "odd", b, b + 100])
            cluster.backend("--scenario", models, "--memory-mib", 32 * (1 + b % 2))
        cluster.backend("--scenario", scenario(tmp_path / "for-good.yaml", ["for-good", 3]))
        names = ["m-%s" % m for m in ["all", "even", "odd", "for-good", *range(10), *range(100, 110)]]
        cluster.whole(names)
        for name in 3 * names:
            cluster.ask(name)
        loads = cluster.counted("loads")
        assert loads["m-for-good"] == 0
        assert all(loads[name] >= 1 for name in names if name not in ("m-for-good", "m-3"))
        assert not sum(cluster.counted("load_failures").values())
        cluster.backends[4].kill(signal.SIGTERM)  # which alone had m-4
        wait_until(lambda: cluster.frontend.request("GET", "/v2/models/m-4/ready")[0] != 200)
        for name in names:
            if name not in ("m-4", "m-104"):
                cluster.ask(name)
        assert cluster.schedulers[0].kill(signal.SIGTERM) == 0
    done = subprocess.run([BINARY, "whatif", "--check", tmp_path / "log"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("policy", ["clockwork", "nexus"])
def test_central_policies_order_loads(tmp_path, policy):
    """Two backends with room for ten models each, of twenty, as one that has all of its models for good joins and another one dies."""
    twenty = scenario(tmp_path / "twenty.yaml", range(1, 21))
    names = ["m-%d" % m for m in range(1, 21)]
    with Loads(policy=policy) as cluster:
        for _ in range(2):
            cluster.backend("--scenario", twenty, "--memory-mib", MEMORY_MIB)
        cluster.whole(names)
        for name in 3 * names:
            cluster.ask(name)
        before = cluster.loads()
        assert 20 <= before and sum(cluster.counted("unloads").values()) <= before - 20
        cluster.backend("--scenario", scenario(tmp_path / "more.yaml", ["more"]))
        cluster.whole(["m-more"])
        cluster.ask("m-more")
        for name in names:
            cluster.ask(name)
        if policy == "clockwork":  # what was loaded has stayed; nexus plans anew
            assert cluster.loads() - before == cluster.counted("loads")["m-more"]
        cluster.backends[0].kill()
        wait_until(lambda: status_of(cluster.join)["scheduler"]["accelerators"] == 2)
        for name in names if policy == "clockwork" else []:
            cluster.ask(name)
        cluster.backends[0].start()
        wait_until(lambda: status_of(cluster.join)["scheduler"]["accelerators"] == 3)
        wait_until(lambda: all(cluster.frontend.infer(name, ASK)[0] == 200 for name in names))
        assert not sum(cluster.counted("load_failures").values())
        assert cluster.schedulers[0].kill(signal.SIGTERM) == 0


def test_what_is_urgent_is_loaded_ahead_of_what_can_wait(tmp_path):
    """The load of a large model takes ten minutes, page by page; small ones that cannot wait for its end are loaded meanwhile."""
    models = tmp_path / "models.yaml"
    models.write_text("cluster: {accelerators: 1, type: x}\nmodels:\n"
                      "- {name: large, alpha_ms: 0.1, beta_ms: 1, slo_ms: 3600000, weights_mb: 100000, load_ms: 600000}\n" + "".join(
                          "- {name: small-%d, alpha_ms: 0.1, beta_ms: 1, slo_ms: 120000, weights_mb: 30, load_ms: 5}\n" % m for m in range(9)))
    with Loads() as cluster:
        cluster.backend("--scenario", models, "--memory-mib", 128 * 1024)
        cluster.whole(["large"] + ["small-%d" % m for m in range(9)])
        with contextlib.closing(cluster.frontend.connect()) as waits:
            waits.request("POST", "/v2/models/large/infer", json.dumps({"inputs": ASK}))
            for m in range(9):
                cluster.ask("small-%d" % m)
            assert sum(cluster.counted("loads").values()) == 9 and not sum(cluster.counted("load_failures").values())


def learns_what_is_there(models):
    """Whether another scheduler does; not if it took over before, since the one that led stood still for 0.3 s."""
    with Loads(schedulers=2) as cluster:
        cluster.backend("--scenario", models, "--memory-mib", MEMORY_MIB)
        cluster.whole(["m-%d" % m for m in range(1, 21)])
        for m in range(1, ROOM + 3):
            cluster.ask("m-%d" % m)
        leads, other = sorted(cluster.schedulers, key=lambda one: not one.says('msg="leads"'))
        there = set(range(3, ROOM + 3))
        if other.says('msg="leads"'):
            return False
        assert cluster.loads(leads) == ROOM + 2
        leads.kill()
        for m in sorted(there) * 2:
            cluster.ask("m-%d" % m)
        assert cluster.loads(other) == 0
        cluster.ask("m-1")
        assert cluster.loads(other) == 1
        return True


def test_another_scheduler_learns_what_is_there(tmp_path):
    models = scenario(tmp_path / "models.yaml", range(1, 21))
    assert any(learns_what_is_there(models) for _ in range(10))


@pytest.mark.parametrize("policy", ["deferred", "clockwork"])
def test_a_load_that_fails_costs_its_own_requests(tmp_path, policy):
    """The file is gone at one backend, where the model cannot be loaded: it is loaded at the other, if that has it."""
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        for m in (1, 2):
            put(folder, "m-%d" % m, scaled(m, 1024))
        measure(folder)
    put(folders[0], "m-3", scaled(3, 1024))
    measure(folders[0])
    x = [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]
    with Loads(policy=policy) as cluster, contextlib.ExitStack():
        for folder in folders:
            cluster.backend("--repository", folder, "--accelerators", "cpu:1", "--memory-mib", 2048, "--slo-ms", 60000)
        wait_until(lambda: sorted(len(m["models"]) for m in status_of(cluster.join)["members"] if "models" in m) == [2, 3])
        cluster.whole(["m-1", "m-2", "m-3"])
        for m in (1, 3):
            (folders[0] / ("m-%d" % m) / "1").rename(tmp_path / ("gone-%d" % m))
        for m in (1, 2):
            assert cluster.ask("m-%d" % m, x)["outputs"][0]["data"] == [m, 2 * m, 3 * m, 4 * m]

        def fails():
            """If the backend stands still, a request's time is over before the load has failed."""
            status, answer = cluster.frontend.infer("m-3", x, parameters={"timeout": 2_000_000})
            assert status == 503, answer
            return cluster.backends[0].says("model cannot be loaded") and cluster.counted("load_failures")["m-3"]
        wait_until(fails)
        (tmp_path / "gone-3").rename(folders[0] / "m-3" / "1")
        wait_until(lambda: cluster.frontend.infer("m-3", x)[0] == 200)


@pytest.mark.parametrize("policy", ["deferred", "clockwork"])
def test_models_come_and_go(tmp_path, policy):
    """By orders to the backends, with room for two of them at each."""
    for m in (1, 2, 3):
        put(tmp_path / "models", "m-%d" % m, scaled(m, 1024))
    measure(tmp_path / "models")
    largest = max(json.loads(path.read_text())["weights_bytes"]
                  for path in tmp_path.glob("models/*/1/.symphony/*.profile.json"))
    x = [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]
    with Loads(policy=policy) as cluster:
        def order(backend, model, verb):
            assert http_request(backend.metrics_port, "POST", "/v2/repository/models/%s/%s" % (model, verb))[0] == 202

        def answers(m, factor):
            def told():
                status, answer = cluster.frontend.infer("m-%d" % m, x)
                return status == 200 and answer["outputs"][0]["data"][0] == factor
            wait_until(told)

        backends = [cluster.backend("--repository", tmp_path / "models", "--accelerators", "cpu:1", "--memory-mib",
                                    2 * (largest // 2**20 + 2), "--slo-ms", 60000, "--model-control-mode", "explicit",
                                    "--load-model", "*", role=Metered) for _ in range(2)]
        cluster.whole(["m-1", "m-2", "m-3"])
        for again in range(1, 3):
            for m in (1, 2, 3):
                answers(m, m if again == 1 else 10 * (again - 1) + m)
            for m in (1, 2, 3):
                put(tmp_path / "models", "m-%d" % m, scaled(10 * again + m, 1024))
                for backend in backends:
                    order(backend, "m-%d" % m, "load")
                answers(m, 10 * again + m)
        for backend in backends:
            order(backend, "m-1", "unload")
        wait_until(lambda: "m-1" not in [model["name"] for model in status_of(cluster.join)["models"]])
        for m in (2, 3):
            answers(m, 20 + m)
        for backend in backends:
            order(backend, "m-1", "load")
        answers(1, 21)
        order(backends[0], "m-2", "unload")
        for _ in range(5):
            answers(2, 22)
        assert not sum(cluster.counted("load_failures").values())


@pytest.mark.parametrize("threads", [pytest.param(1, marks=pytest.mark.long), 3])
def test_twelve_sets_of_models(tmp_path, threads):
    """Of twelve backends no two have the same models, and all of them change these at once: nothing waits for another's place."""
    count = 12
    x = [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]
    for m in range(1, count + 2):
        put(tmp_path / "models", "m-%d" % m, scaled(m, 1024))
    measure(tmp_path / "models")
    with Loads(more=("--rank-threads", threads)) as cluster:
        def order(backend, verb, m):
            assert http_request(backend.metrics_port, "POST", "/v2/repository/models/m-%d/%s" % (m, verb))[0] == 202

        def has():
            return {m["name"]: sorted(model.split("/")[0] for model in m["models"]) for m in status_of(cluster.join)["members"] if "models" in m}

        def right():
            for m in range(1, count + 2):
                assert cluster.ask("m-%d" % m, x)["outputs"][0]["data"] == [m, 2 * m, 3 * m, 4 * m]

        backends = {b: cluster.backend("--repository", tmp_path / "models", "--accelerators", "cpu:1", "--slo-ms", 60000, "--name",
                                       "b-%d" % b, "--model-control-mode", "explicit", "--load-model", "m-%d" % (count + 1),
                                       "--load-model", "m-%d" % b, role=Metered) for b in range(1, count + 1)}
        cluster.whole(["m-%d" % m for m in range(1, count + 2)])
        right()
        for step in (1, 5):
            for b, backend in backends.items():
                order(backend, "load", (b + step - 1) % count + 1)
            wait_until(lambda: all(len(models) == 3 for models in has().values()))
            right()
            for b, backend in backends.items():
                order(backend, "unload", (b + (1 if step == 5 else 0) - 1) % count + 1)
            wait_until(lambda: has() == {"b-%d" % b: sorted(["m-%d" % ((b + step - 1) % count + 1), "m-%d" % (count + 1)])
                                         for b in backends})
            right()
        assert not cluster.schedulers[0].says("wait")


@pytest.mark.parametrize("policy", ["clockwork", "nexus", "kairos"])
def test_ten_sets_of_models_with_a_central_policy(tmp_path, policy):
    """More than there are types of accelerators. A backend that comes with other models is another type."""
    with Loads(policy=policy, demand=False) as cluster:
        for b in range(10):
            cluster.backend("--scenario", scenario(tmp_path / ("%d.yaml" % b), ["all", b]))
        names = ["m-all"] + ["m-%d" % b for b in range(10)]
        cluster.whole(names)
        for name in 2 * names:
            cluster.ask(name)
        cluster.backends[3].kill(signal.SIGTERM)  # which alone had m-3
        wait_until(lambda: cluster.frontend.request("GET", "/v2/models/m-3/ready")[0] != 200)
        cluster.backend("--scenario", scenario(tmp_path / "more.yaml", ["all", "more"]))
        wait_until(lambda: cluster.frontend.request("GET", "/v2/models/m-more/ready")[0] == 200)
        for name in [*names, "m-more"]:
            if name != "m-3":
                cluster.ask(name)
        assert not cluster.schedulers[0].says("refused")


def test_mistakes_are_named(tmp_path):
    models = scenario(tmp_path / "models.yaml", [1])
    join = "127.0.0.1:%d" % free_port()
    scheduler = Role("scheduler", "--listen", join, "--policy", "clockwork", *PATIENT)
    backend = Role("backend", "--join", join, "--scenario", models, "--memory-mib", 64, *PATIENT)
    failed = True
    try:
        wait_until(lambda: backend.says("this scheduler orders no loads"))
        failed = False
    finally:
        for role in (scheduler, backend):
            role.end(failed)
    run = subprocess.run([BINARY, "scheduler", "--listen", "127.0.0.1:0", "--policy", "kairos", "--resident", "demand"],
                         capture_output=True, text=True, timeout=600)
    assert run.returncode != 0 and "--resident demand: the policy kairos keeps every model loaded" in run.stderr
