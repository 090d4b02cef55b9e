"""test_cluster_control.py - models that come and go in the backends of a cluster while clients ask for them."""
# sanitizers: address thread
import concurrent.futures
import json
import re
import signal
import subprocess
import threading

import pytest

from server import BINARY, free_port, http_request, wait_until
from test_control import keep_measured, put, remove, scaled
from test_standby import Frontend, Role, status_of

WAIT_S = 600  # sanitizers are slow, and a model is measured when the machine has nothing better to do


class Backend(Role):
    """A backend with a repository of its own."""

    def __init__(self, folder, join, mode, *args, **more):
        self.folder = folder
        super().__init__("backend", *join, "--repository", folder, "--accelerators", "cpu:1", "--pin", "none",
                         "--model-control-mode", mode, "--host", "127.0.0.1", "--metrics-port", 0, *args, **more)

    def start(self):
        if "--no-metrics" in self.args:
            self.args.remove("--no-metrics")
        super().start()

    def ready(self):
        found = []
        with open(self.log.name) as file:
            found = re.findall(r'msg="ready" metrics_port=(\d+)', file.read())
        return int(found[-1]) if found else None

    def order(self, path, method="POST", body=None, headers=None):
        wait_until(self.ready, WAIT_S)
        status, _, answer = http_request(self.ready(), method, "/v2/repository/models/" + path, body, headers)
        return status, answer.decode()

    def load(self, name):
        assert self.order(name + "/load")[0] == 202

    def unload(self, name):
        assert self.order(name + "/unload")[0] == 202


class Cluster:
    def __init__(self, folder, policy="deferred"):
        self.folder, self.backends = folder, []
        self.join = ("--join", "127.0.0.1:%d" % free_port())
        self.scheduler = Role("scheduler", "--listen", self.join[1], "--policy", policy)
        wait_until(lambda: self.scheduler.says('msg="ready"'))
        self.frontend = Frontend(*self.join)

    def backend(self, mode="explicit", *args, models=()):
        folder = self.folder / ("backend-%d" % len(self.backends))
        folder.mkdir(parents=True)
        for name, factor in models:
            put(folder, name, scaled(factor))
        self.backends.append(Backend(folder, self.join, mode, *args))
        return self.backends[-1]

    def __enter__(self):
        self.frontend.start()
        return self

    def __exit__(self, *error):
        for role in [self.scheduler] + self.backends:
            role.end(error[0])
        self.frontend.__exit__(*error)
        for backend in self.backends:
            for path in backend.folder.glob("*/*"):
                keep_measured(path)

    def status(self):
        return status_of(self.join)

    def served(self):
        """How many backends have each model."""
        return {one["name"]: one["backends"] for one in self.status()["models"]}

    def serves(self, **models):
        wait_until(lambda: self.served() == models, WAIT_S)

    def ask(self, model):
        """What the model multiplies by, or the status and the sentence."""
        status, answer = self.frontend.infer(model, [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 1, 1, 1]}])
        return answer["outputs"][0]["data"][0] if status == 200 else (status, answer["error"])

    def answers(self, model, factor):
        wait_until(lambda: self.ask(model) == factor, WAIT_S)


class Clients:
    """Ask for a model again and again, and keep what they were told. They rest between requests, since models are measured when nobody
    else wants the processor."""

    def __init__(self, cluster, model, count=4):
        self.cluster, self.model, self.told, self.stop = cluster, model, [], threading.Event()
        self.pool = concurrent.futures.ThreadPoolExecutor(count)
        self.runs = [self.pool.submit(self.run) for _ in range(count)]

    def run(self):
        while not self.stop.wait(0.005):
            self.told.append(self.cluster.ask(self.model))

    def answered(self, more):
        before = len(self.told)
        wait_until(lambda: len(self.told) >= before + more, WAIT_S)

    def end(self):
        self.stop.set()
        for run in self.runs:
            run.result(WAIT_S)
        self.pool.shutdown()
        return set(self.told)


@pytest.mark.parametrize("policy", ["deferred", "clockwork"])
def test_models_come_and_go_under_load(tmp_path, policy):
    """Requests of a model that stays, and of one that only moves between backends, are all answered."""
    with Cluster(tmp_path, policy) as cluster:
        first = cluster.backend("explicit", "--load-model", "stays", models=[("stays", 2), ("moves", 3), ("goes", 5)])
        cluster.serves(stays=1)
        cluster.answers("stays", 2)
        stays = Clients(cluster, "stays")
        first.load("moves")
        cluster.serves(stays=1, moves=1)
        cluster.answers("moves", 3)
        moves = Clients(cluster, "moves")
        second = cluster.backend("explicit", "--load-model", "*", models=[("moves", 3)])
        cluster.serves(stays=1, moves=2)
        first.unload("moves")
        cluster.serves(stays=1, moves=1)
        moves.answered(20)
        first.load("goes")
        cluster.answers("goes", 5)
        first.load("moves")
        cluster.serves(stays=1, moves=2, goes=1)
        second.unload("moves")
        cluster.serves(stays=1, moves=1, goes=1)
        moves.answered(20)
        first.unload("goes")
        cluster.serves(stays=1, moves=1)
        wait_until(lambda: cluster.ask("goes") != 5, WAIT_S)
        assert cluster.ask("goes")[0] in (404, 503)
        stays.answered(20)
        assert stays.end() == {2} and moves.end() == {3}
        wait_until(lambda: first.says("model is being unloaded") == 2)
        assert second.kill(signal.SIGTERM) == 0 and first.kill(signal.SIGTERM) == 0


def test_repository_is_followed(tmp_path):
    """A model that is replaced by another one of its name is served by no backend for a moment; its requests wait."""
    with Cluster(tmp_path) as cluster:
        backend = cluster.backend("poll", "--repository-poll-secs", "0.1", models=[("one", 2)])
        cluster.answers("one", 2)
        put(backend.folder, "two", scaled(3))
        cluster.answers("two", 3)
        clients = Clients(cluster, "one")
        clients.answered(1)
        put(backend.folder, "one", scaled(7, columns=4))
        cluster.answers("one", 7)
        clients.answered(10)
        assert clients.end() == {2, 7}
        remove(backend.folder, "two")
        cluster.serves(one=1)


@pytest.mark.parametrize("policy", ["deferred", "clockwork"])
def test_the_next_version_takes_over_at_once(tmp_path, policy):
    """Some version is served at any time, though one backend has them all."""
    with Cluster(tmp_path, policy) as cluster:
        backend = cluster.backend("explicit", "--load-model", "one", models=[("one", 2)])
        cluster.answers("one", 2)
        clients = Clients(cluster, "one")
        for version, factor in (("2", 3), ("3", 4), ("4", 5)):
            clients.answered(10)
            put(backend.folder, "one", scaled(factor), version)
            backend.load("one")
            cluster.answers("one", factor)
        clients.answered(10)
        assert clients.end() == {2, 3, 4, 5}


def test_backend_with_two_repositories(tmp_path):
    with Cluster(tmp_path) as cluster:
        put(tmp_path / "more", "two", scaled(3))
        cluster.backend("poll", "--model-repository", str(tmp_path / "more"), models=[("one", 2)])
        cluster.answers("one", 2)
        cluster.answers("two", 3)


def test_backends_with_batches_of_different_sizes(tmp_path):
    """Both have the same model, in batches of four on one of them, and of two on the other: who asks for three is told."""
    with Cluster(tmp_path) as cluster:
        for most in (4, 2):
            backend = cluster.backend(models=[("one", 2)])
            (backend.folder / "one" / "symphony.yaml").write_text("max_batch: %d\nslo_ms: 60000\n" % most)
            backend.load("one")
            wait_until(lambda: cluster.served() == {"one": len(cluster.backends)}, WAIT_S)
            cluster.answers("one", 2)

        def most_items():
            return json.loads(cluster.frontend.request("GET", "/v2/models/one/config")[2])["max_batch_size"]

        def ask(items):
            status, answer = cluster.frontend.infer("one", [{"name": "x", "datatype": "FP32", "shape": [items, 4],
                                                             "data": [1] * 4 * items}])
            return answer["outputs"][0]["data"] == [2] * 4 * items if status == 200 else (status, answer["error"])

        wait_until(lambda: most_items() == 2, WAIT_S)
        assert ask(3) == (400, "inference request batch-size must be <= 2 for 'one': input 'x' has 3")
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            assert set(pool.map(ask, [1, 2] * 30)) == {True}
        assert not any(one.says("inputs refused") for one in cluster.backends)
        lost = [value for name, value in cluster.frontend.metrics().items() if "requests_lost_total" in name]
        assert len(lost) > 5 and not any(lost)


def test_backend_without_models_joins(tmp_path):
    with Cluster(tmp_path) as cluster:
        backend = cluster.backend(models=[("late", 4)])
        wait_until(lambda: any(one["role"] == "backend" and "models" in one for one in cluster.status()["members"]), WAIT_S)
        assert cluster.served() == {}
        backend.load("late")
        cluster.answers("late", 4)
        backend.unload("late")
        cluster.serves()
        backend.load("late")
        cluster.answers("late", 4)


def test_description_is_long(tmp_path):
    """A model with a megabyte of labels, which take twice that; the frontend classifies by them."""
    with Cluster(tmp_path) as cluster:
        backend = cluster.backend(models=[("wordy", 2)])
        (backend.folder / "wordy" / "labels.txt").write_text("".join("%d %s\n" % (i, 94 * '"') for i in range(10000)))
        (backend.folder / "wordy" / "config.pbtxt").write_text(
            'max_batch_size: 1\noutput [{name: "y" data_type: TYPE_FP32 dims: [4] label_filename: "labels.txt"}]\n')
        backend.load("wordy")
        cluster.answers("wordy", 2)
        status, answer = cluster.frontend.infer(
            "wordy", [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 4, 3]}],
            outputs=[{"name": "y", "parameters": {"classification": 1}}])
        assert status == 200 and answer["outputs"][0]["data"] == ["8.000000:2:2 " + 94 * '"']


def test_orders_that_will_not_do(tmp_path):
    token = tmp_path / "token"
    token.write_text("secret\n")
    with Cluster(tmp_path) as cluster:
        backend = cluster.backend("explicit", "--auth-token-file", token, models=[("one", 2)])
        allowed = {"Authorization": "Bearer secret"}
        assert backend.order("one/load")[0] == 401
        assert backend.order("one/load", "GET", headers=allowed)[0] == 405
        assert backend.order("one/explode", headers=allowed)[0] == 404
        assert backend.order("/load", headers=allowed)[0] == 404
        assert backend.order("one/load", body='{"parameters": {"config": "{}"}}', headers=allowed)[0] == 400
        assert backend.order("one/load", headers={**allowed, "Origin": "http://elsewhere.example"})[0] == 403
        assert cluster.served() == {}
        assert backend.order("none/load", headers=allowed)[0] == 202
        wait_until(lambda: backend.says("model not loaded"))
        assert backend.order("one/load", body="{}", headers=allowed)[0] == 202
        cluster.answers("one", 2)
        status, _, answer = cluster.frontend.request("POST", "/v2/repository/models/one/unload", "{}")
        assert (status, b"at its backends" in answer) == (503, True)
    with Cluster(tmp_path / "other") as cluster:
        backend = cluster.backend("poll", models=[("one", 2)])
        assert backend.order("one/load")[0] == 404


def test_scheduler_comes_back_while_models_change(tmp_path):
    with Cluster(tmp_path) as cluster:
        backend = cluster.backend("explicit", "--load-model", "one", models=[("one", 2), ("two", 3)])
        cluster.answers("one", 2)
        cluster.scheduler.kill()
        backend.load("two")
        wait_until(lambda: backend.says('msg="model loaded" model=two'), WAIT_S)
        backend.unload("one")
        wait_until(lambda: backend.says("model is being unloaded"))
        cluster.scheduler.start()
        cluster.answers("two", 3)
        cluster.serves(two=1)


def test_status_lists_models_that_are_not_served(tmp_path):
    """A backend could not load it, or it differs from another backend's."""
    with Cluster(tmp_path) as cluster:
        first = cluster.backend("explicit", "--load-model", "*", "--name", "first", models=[("one", 2)])
        cluster.serves(one=1)
        second = cluster.backend("explicit", "--load-model", "*", "--name", "second", models=[("two", 3)])
        cluster.serves(one=1, two=1)
        put(second.folder, "one", scaled(2, columns=3))
        put(second.folder, "torn", b"no model")

        def aside():
            return {(one["name"], entry["name"], entry["version"]): entry["reason"] for one in cluster.status()["members"]
                    for entry in one.get("aside", [])}

        wait_until(lambda: aside() == {}, WAIT_S)
        second.load("one")
        second.load("torn")
        wait_until(lambda: set(aside()) == {("second", "one", 1), ("second", "torn", 1)}, WAIT_S)
        reasons = aside()
        differs = "model 'one' version 1 is another one on other backends: .* is .* here and .* there"
        assert re.search(differs, reasons["second", "one", 1])
        table = subprocess.run([BINARY, "status", *cluster.join, "--timeout", "60"], capture_output=True, text=True).stdout
        assert re.search(r"^NOT_SERVED +VERSION +BACKEND +REASON\n(.*\n)*one +1 +second +model 'one' version 1 ", table, re.M)
        assert "torn" in reasons["second", "torn", 1] and second.says(reasons["second", "torn", 1][:40])
        put(second.folder, "torn", scaled(4))
        second.load("torn")
        wait_until(lambda: set(aside()) == {("second", "one", 1)}, WAIT_S)
        first.unload("one")
        wait_until(lambda: aside() == {}, WAIT_S)
        cluster.serves(one=1, two=1, torn=1)
        table = subprocess.run([BINARY, "status", *cluster.join, "--timeout", "60"], check=True, capture_output=True, text=True).stdout
        assert "NOT_SERVED" not in table
