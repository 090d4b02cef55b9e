"""test_cluster_status.py - what a cluster tells of itself: `symphony status`, `symphony drain`, metrics, health."""
# sanitizers: address thread
# shards: 2

import contextlib
import http.client
import json
import math
import os
import re
import subprocess
import threading
import time

import pytest

from server import BINARY, free_port, http_request, wait_until
from clients import find
from test_metrics import asked_by, panels_show, parse
from test_standby import status_of

SCENARIO = """cluster: {accelerators: 2, type: gpu}
models:
  - {name: m, alpha_ms: 1, beta_ms: 5, slo_ms: 60000, copies: 2}
workload: {rate_rps: 10}
"""
# A machine that is busy must not look dead. A frontend says that it is ready after seven of these: tests wait for its models instead.
BEAT_MS = 2000 if os.environ.get("SYMPHONY_SANITIZED") else 1000


class Process:
    """One process of a cluster, with its log."""

    def __init__(self, folder, command, *args):
        self.path = folder / ("%s.log" % args[args.index("--name") + 1])
        with open(self.path, "w") as log:
            self.process = subprocess.Popen([BINARY, command, "--host", "127.0.0.1", "--metrics-port", "0", "--heartbeat-ms",
                                             str(BEAT_MS), *args], stderr=log)

    def log(self):
        return self.path.read_text()

    def port(self, name):
        found = []
        wait_until(lambda: found.extend(re.findall(r'msg="ready".* %s=(\d+)' % name, self.log())) or found)
        return int(found[0])

    def get(self, path, port="metrics_port"):
        status, _, body = http_request(self.port(port), "GET", path)
        return status, body.decode()

    def ready(self):
        return self.get("/v2/health/ready")[0] == 200


class Cluster:
    def __init__(self, folder, token=None, secret=(), backend=(), options=(), frontend=(), scenario=SCENARIO):
        self.processes, self.backend_options, self.options = [], backend, options
        self.folder, self.scenario = folder, folder / "scenario.yaml"
        self.scenario.write_text(scenario)
        self.secret = [*secret, *(["--cluster-token-file", token] if token else [])]
        self.scheduler = self.start("scheduler", "s", "--listen", "127.0.0.1:0")
        self.join = "127.0.0.1:%d" % self.scheduler.port("port")
        self.frontend = self.start("frontend", "f", "--join", self.join, "--cluster-host", "127.0.0.1", "--http-port", "0",
                                   "--grpc-port", "0", *frontend)
        self.backends = [self.backend("b-%d" % i) for i in range(2)]
        wait_until(lambda: self.model_ready("m-1") and self.frontend.log().count('msg="backend connected"') >= 2)

    def start(self, command, name, *args):
        self.processes.append(Process(self.folder, command, "--name", name, *args, *self.options, *self.secret))
        return self.processes[-1]

    def backend(self, name):
        return self.start("backend", name, "--join", self.join, "--scenario", str(self.scenario), *self.backend_options)

    def model_ready(self, name):
        return self.frontend.get("/v2/models/%s/ready" % name, "http_port")[0] == 200

    def ask(self, command, *args):
        return subprocess.run([BINARY, command, "--join", self.join, "--timeout", "60", *args], capture_output=True,
                              text=True, timeout=600)

    def status(self):
        done = self.ask("status", "--json", *self.secret)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def infer(self, model="m-1"):
        """Its status, or that of a question about a model which the frontend does not know now."""
        status, about = self.frontend.get("/v2/models/%s" % model, "http_port")
        if status != 200:
            return status
        inputs = [{**one, "shape": [1 if d < 0 else d for d in one["shape"]]} for one in json.loads(about)["inputs"]]
        for one in inputs:
            one["data"] = [0] * math.prod(one["shape"])
        return http_request(self.frontend.port("http_port"), "POST", "/v2/models/%s/infer" % model, json.dumps({"inputs": inputs}))[0]

    def end(self):
        for one in reversed(self.processes):
            one.process.terminate()
            assert one.process.wait(600) == 0, one.log()

    def kill(self, first=0):
        """Kills the processes from the first-th on."""
        for one in self.processes[first:]:
            if one.process.poll() is None:
                one.process.kill()
            one.process.wait()
        del self.processes[first:]


@pytest.fixture
def cluster(tmp_path):
    made = Cluster(tmp_path)
    yield made
    made.kill()


@pytest.fixture(scope="module")
def lasting(tmp_path_factory):
    made = Cluster(tmp_path_factory.mktemp("lasting"))
    yield made
    made.kill()


@pytest.fixture
def shared(lasting):
    """One cluster for all tests that leave its own processes as they were; what a test starts ends with the test."""
    own = len(lasting.processes)
    yield lasting
    lasting.kill(own)


def members(status, role):
    return {one["name"]: one for one in status["members"] if one["role"] == role}


def complete(cluster):
    status = cluster.status()
    backends = members(status, "backend").values()
    return len(backends) == 2 and all(one.get("models") and "clock_error_us" in one for one in backends) and \
        status["scheduler"]["accelerators"] == 4


def test_status(shared):
    cluster = shared
    wait_until(lambda: complete(cluster))
    status = cluster.status()
    assert status["scheduler"]["leads"] and status["scheduler"]["term"] >= 1
    backend = members(status, "backend")["b-0"]
    assert backend["models"] == ["m-1/1", "m-2/1"]
    assert backend["accelerators"] == [{"type": "gpu", "count": 2, "serving": 2, "leaving": 0, "gone": 0, "slow": 1}]
    assert len({one["incarnation"] for one in status["members"]}) == 3
    assert backend["round_trip_us"] > 0 and backend["clock_error_us"] > 0
    wait_until(lambda: {one["name"]: one["backends"] for one in cluster.status()["models"]} == {"m-1": 2, "m-2": 2})
    wait_until(lambda: re.search("^symphony_accelerators_wanted [1-4]$", cluster.scheduler.get("/metrics")[1], re.M))
    assert cluster.status()["scheduler"]["accelerators_wanted"] in range(1, 5)
    table = cluster.ask("status").stdout
    assert re.search(r"LOST +ACCELERATORS +WANTED\n.* 4 +[1-4]\n", table), table
    assert re.search(r"^backend +\d+ +b-1 +[0-9.]+ +[0-9]+ +[0-9a-f]{16} .* 0 +0 +gpu:2/2 +2$", table, re.M), table
    assert re.search(r"^m-2 +1 +60000 +2 +100% +0 +0$", table, re.M), table


def test_states_and_timelines(shared):
    """Each process tells what it knows: the scheduler of models and links, frontends of requests, backends of accelerators."""
    cluster = shared

    def state(process):
        return json.loads(process.get("/v2/symphony/state?sort=name")[1])
    wait_until(lambda: complete(cluster))
    assert cluster.infer() == 200
    wait_until(lambda: state(cluster.scheduler)["models"][0]["totals"]["in_time"] >= 1)
    wait_until(lambda: {one["role"] for one in state(cluster.scheduler)["cluster"]["links"]} == {"frontend", "backend"})
    now = state(cluster.scheduler)
    assert now["cluster"]["leads"]
    assert [one["name"] for one in now["models"]] == ["m-1", "m-2"] and now["models"][0]["queued"] == 0
    assert now["advice"]["serving"] == 4 and now["accelerators_count"] == 0
    wait_until(lambda: state(cluster.frontend)["models"][0]["totals"]["in_time"] >= 1)
    assert cluster.frontend.get("/v2/symphony/timeline")[0] == 404
    boxes = [event for backend in cluster.backends for event in json.loads(backend.get("/v2/symphony/timeline?seconds=3600")[1])["traceEvents"]
             if event.get("name") == "m-1 (1)"]
    assert len(boxes) == now["models"][0]["totals"]["in_time"]
    assert all(state(backend)["accelerators_count"] == 2 for backend in cluster.backends)
    shown = subprocess.run([BINARY, "top", "127.0.0.1:%d" % cluster.scheduler.port("metrics_port"), "--once"], capture_output=True, text=True)
    assert "leads a cluster" in shown.stdout and re.search(r"^backend +b-1 ", shown.stdout, re.M), shown


def by_peer(one, what):
    """What a process says of requests by the peer's role and name."""
    family = "symphony_cluster_link_%s_requests_total" % what
    return {(dict(labels)["role"], dict(labels)["peer"]): count
            for (_, labels), count in parse(one.get("/metrics")[1])[family][1].items()}


def test_metrics_and_health(cluster):
    wait_until(lambda: complete(cluster))
    assert cluster.infer() == 200
    for one, family, value in ((cluster.scheduler, "symphony_cluster_leads", 1),
                               (cluster.scheduler, "symphony_cluster_accelerators", 4),
                               (cluster.scheduler, "symphony_cluster_requests_total", 1),
                               (cluster.frontend, "symphony_cluster_connected", 1),
                               (cluster.backends[0], "symphony_cluster_connected", 1)):
        wait_until(lambda: parse(one.get("/metrics")[1])[family][1][family, frozenset()] == value)
    batches = "symphony_batch_size"  # the scheduler's figures by model
    wait_until(lambda: sum(value for (name, _), value in parse(cluster.scheduler.get("/metrics")[1])[batches][1].items()
                           if name == batches + "_count") == 1)
    errors = "symphony_prediction_error_seconds"
    wait_until(lambda: parse(cluster.scheduler.get("/metrics")[1])[errors][1][errors + "_count", frozenset({("kind", "run")})] == 1)
    wait_until(lambda: sum(by_peer(cluster.frontend, "pulled").values()) == 1)
    wait_until(lambda: sum(by_peer(one, "pulled")["frontend", "f"] for one in cluster.backends) == 1)
    assert by_peer(cluster.scheduler, "late") == {("frontend", "f"): 0, ("backend", "b-0"): 0, ("backend", "b-1"): 0}
    peers = "symphony_cluster_peers"
    wait_until(lambda: parse(cluster.frontend.get("/metrics")[1])[peers][1][peers, frozenset({("role", "backend")})] == 2)
    assert cluster.scheduler.ready() and cluster.scheduler.get("/v2/health/live")[0] == 200
    wait_until(lambda: all(one.ready() for one in cluster.backends) and cluster.frontend.get("/v2/health/ready", "http_port")[0] == 200)
    cluster.scheduler.process.kill()
    wait_until(lambda: not cluster.backends[0].ready())
    assert cluster.backends[0].get("/v2/health/live") == (200, '{"live":true}')
    assert cluster.backends[0].get("/v2/health/ready") == (400, '{"ready":false}')


def test_who_held_an_accelerator(tmp_path):
    """A trail at the frontend names the model whose run a request waited for at a backend."""
    cluster = Cluster(tmp_path, frontend=("--trails-every", "1", "--metrics-port", str(free_port())), scenario="""cluster: {accelerators: 1, type: gpu}
models:
  - {name: long, alpha_ms: 1, beta_ms: 500, slo_ms: 60000}
  - {name: m, alpha_ms: 1, beta_ms: 5, slo_ms: 60000, copies: 2}
workload: {rate_rps: 10}
""")

    def held():
        asking = [threading.Thread(target=cluster.infer, args=("long",)) for _ in cluster.backends]
        for one in asking:
            one.start()
        cluster.infer()
        for one in asking:
            one.join()
        kept = json.loads(cluster.frontend.get("/v2/symphony/requests?model=m-1")[1])["requests"]
        return any(one.get("before") == "long" for one in kept)
    try:
        wait_until(held)
        seen = cluster.start("backend", "b-2", "--join", cluster.join, "--scenario", str(cluster.scenario), "--metrics-port", str(free_port()))
        wait_until(lambda: cluster.frontend.log().count('msg="backend connected"') == 3)
        wait_until(lambda: held() and '"m-1 (1)"' in seen.get("/v2/symphony/timeline")[1])
        merged = merged_timeline(cluster, "b-2")
        own = json.loads(seen.get("/v2/symphony/timeline?seconds=3600")[1])
        one, other = ([e for e in events if e.get("cat") == "batch"] for events in (merged["traceEvents"], own["traceEvents"]))
        assert [(e["name"], e["dur"]) for e in one] == [(e["name"], e["dur"]) for e in other][:len(one)] and one
        assert {e["pid"] for e in merged["traceEvents"]} == {1001}
        top = [BINARY, "top", "127.0.0.1:%d" % cluster.scheduler.port("metrics_port"), "--json"]
        # what the frontend measured stands among what its scheduler knows
        wait_until(lambda: held() and any(one.get("latency_ms", {}).get("p99", 0) > 5 for one in json.loads(
            subprocess.run(top, capture_output=True, text=True, timeout=600).stdout)["models"]))
    finally:
        cluster.kill()


def merged_timeline(cluster, name):
    """What the scheduler's URL gives, of the backends whose metrics it can reach."""
    url, found = "127.0.0.1:%d" % cluster.scheduler.port("metrics_port"), []

    def told():
        done = subprocess.run([BINARY, "timeline", url, "--seconds", "3600"], capture_output=True, text=True, timeout=600)
        found[:] = [json.loads(done.stdout)] if done.returncode == 0 else []
        return found and "%s: gpu" % name in {e["args"]["name"] for e in found[0]["traceEvents"] if e["name"] == "process_name"}
    wait_until(told)
    return found[0]


def test_dashboards_and_alerts_ask_for_what_there_is(shared):
    assert shared.infer() == 200

    def rows():
        return {name for one in (shared.scheduler, shared.frontend, *shared.backends)
                for _, family in parse(one.get("/metrics")[1]).values() for name, _ in family}
    wanted = asked_by("grafana-dashboard.json", "grafana-cluster.json", "alerts.yaml") - {"symphony_spans_total"}
    wanted -= {"nv_inference_exec_count", "nv_inference_pending_request_count"}  # "or symphony_...": no process of a cluster has both
    wait_until(lambda: "symphony_accelerators_wanted" in rows())
    assert wanted <= rows()


@pytest.mark.skipif(not find("promtool"), reason="promtool (Debian: prometheus) is not installed")
def test_no_panel_of_the_dashboards_is_empty(shared, tmp_path):
    def pages():
        return [one.get("/metrics")[1] for one in (shared.scheduler, shared.frontend, *shared.backends)]
    before = pages()
    assert [shared.infer() for _ in range(3)] == [200] * 3

    def counted(family):
        return sum(count for page in pages() for (name, _), count in parse(page).get(family, (0, {}))[1].items() if name == family + "_count")
    wait_until(lambda: any("symphony_accelerators_wanted" in page for page in pages()))
    wait_until(lambda: counted("symphony_prediction_error_seconds") > 0 and counted("symphony_run_duration_seconds") > 0)
    panels_show(tmp_path, before, pages(), "grafana-dashboard.json", "grafana-cluster.json")


def test_drain_loses_nothing(cluster):
    wait_until(lambda: complete(cluster))
    answers, over = [], threading.Event()

    def ask():
        while not over.wait(0.01):
            answers.append(cluster.infer())

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for one in threads:
        one.start()
    wait_until(lambda: len(answers) > 20)
    done = cluster.ask("drain", "--wait", "b-0")
    assert (done.returncode, done.stderr) == (0, "")
    assert cluster.backends[0].process.wait(600) == 0
    enough = len(answers) + 20
    wait_until(lambda: len(answers) > enough)
    over.set()
    for one in threads:
        one.join()
    assert set(answers) == {200}
    assert 'msg="member left" role=backend name=b-0' in cluster.scheduler.log()
    assert "member lost" not in cluster.scheduler.log()
    lost = {key: value for key, value in parse(cluster.scheduler.get("/metrics")[1])[
        "symphony_cluster_requests_lost_total"][1].items() if value}
    assert not lost
    assert cluster.ask("drain", "--wait", "f").returncode == 0
    assert cluster.frontend.process.wait(600) == 0
    cluster.end()


def test_a_frontend_ends_before_a_long_run(tmp_path):
    """It does not wait for its backends longer than for runs of its own: 5 s."""
    long = SCENARIO.replace("beta_ms: 5, slo_ms: 60000", "beta_ms: 100000, slo_ms: 900000")
    cluster = Cluster(tmp_path, frontend=("--drain-timeout", "1"), scenario=long)

    def ask(model):
        with contextlib.suppress(http.client.HTTPException, OSError):
            assert cluster.infer(model) == 503

    asking = [threading.Thread(target=ask, args=(model,)) for model in ("m-1", "m-2")]
    try:
        wait_until(lambda: complete(cluster))
        for one in asking:
            one.start()
        batches = "symphony_cluster_batches_total"
        wait_until(lambda: parse(cluster.scheduler.get("/metrics")[1])[batches][1][batches, frozenset()] == 2)
        held, name = max((one["batches"], name) for name, one in members(cluster.status(), "backend").items())
        killed = cluster.backends[int(name[-1])]
        killed.process.kill()
        for one in (cluster.scheduler, cluster.frontend):  # both still say so when the connection is over
            wait_until(lambda: by_peer(one, "lost")["backend", name] == held)
        wait_until(lambda: parse(cluster.scheduler.get("/metrics")[1])[batches][1][batches, frozenset()] == 2 + held)
        (other,) = (one for one in cluster.backends if one is not killed)
        wait_until(lambda: by_peer(other, "pulled")["frontend", "f"] == 2)  # both run there
        began = time.monotonic()
        cluster.frontend.process.terminate()
        assert cluster.frontend.process.wait(600) == 1
        assert time.monotonic() - began >= 5
        assert 'msg="requests cut off" requests=2' in cluster.frontend.log()
        assert other.process.poll() is None
    finally:
        cluster.kill()
        for one in asking:
            one.join()


def test_a_name_that_is_another_member_s_number(cluster):
    """Nobody is drained by it, since either could be meant; each can be by what only it has."""
    wait_until(lambda: complete(cluster))
    number = members(cluster.status(), "backend")["b-0"]["number"]
    cluster.start("backend", str(number), "--join", cluster.join, "--scenario", str(cluster.scenario))
    wait_until(lambda: str(number) in members(cluster.status(), "backend"))
    other = members(cluster.status(), "backend")[str(number)]["number"]
    done = cluster.ask("drain", "--wait", str(number))
    sentence = "'%d' is the number of the backend 'b-0', and the name of the backend of number %d; use that" % (number, other)
    assert done.returncode == 1 and sentence in done.stderr
    assert {"b-0", "b-1", str(number)} == set(members(cluster.status(), "backend"))
    assert cluster.ask("drain", "--wait", str(other)).returncode == 0
    assert cluster.processes[-1].process.wait(600) == 0
    for wanted in ("-1", "+%d" % number, " %d" % number, ""):
        assert "no member has the name or number '%s'" % wanted in cluster.ask("drain", "--", wanted).stderr
    assert cluster.ask("drain", "--wait", str(number)).returncode == 0
    assert cluster.backends[0].process.wait(600) == 0


def test_mistakes(shared):
    done = shared.ask("drain", "nobody")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1) and "no member has the name" in done.stderr
    done = subprocess.run([BINARY, "status", "--join", "nonsense"], capture_output=True, text=True)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    done = subprocess.run([BINARY, "status"], capture_output=True, text=True)
    assert done.returncode == 2 and "--join" in done.stderr
    done = subprocess.run([BINARY, "status", "--registry", "etcd://127.0.0.1:1/x", "--timeout", "0.5"], capture_output=True,
                          text=True)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1) and "the registry at 127.0.0.1:1" in done.stderr


@pytest.mark.parametrize("role, port, reason", [
    ("backend", "cluster_port", "this is a frontend; a backend joins the scheduler"),
    ("frontend", "cluster_port", "only backends connect here"),
    ("backend", "http_port", "no process of a cluster, or one of another release"),
    ("frontend", "grpc_port", "no process of a cluster, or one of another release"),
])
def test_a_member_that_joins_at_a_wrong_port(shared, role, port, reason):
    """Its log says what is wrong, and so does the frontend's, at most once a second."""
    at = "127.0.0.1:%d" % shared.frontend.port(port)
    more = ["--scenario", str(shared.scenario)] if role == "backend" else ["--http-port", "0", "--grpc-port", "0"]
    lost = shared.start(role, "lost", "--join", at, *more)
    wait_until(lambda: reason in lost.log())
    if port == "cluster_port":
        wait_until(lambda: reason in shared.frontend.log())
    assert "backend=lost" not in shared.frontend.log()


def test_token(tmp_path):
    token, other = tmp_path / "token", tmp_path / "other"
    token.write_text("right\n")
    other.write_text("wrong\n")
    cluster = Cluster(tmp_path, str(token))
    try:
        assert cluster.status()["members"]
        for args in ((), ("--cluster-token-file", str(other))):
            done = cluster.ask("status", *args)
            assert done.returncode == 1 and "its token does not let it in" in done.stderr
        # another one takes its place, and nobody is started again but who was killed
        token.write_text("new\n")
        other.write_text("right\n")
        wait_until(lambda: cluster.ask("status", "--cluster-token-file", str(other)).returncode == 1)
        cluster.scheduler.process.kill()
        cluster.scheduler.process.wait()
        cluster.start("scheduler", "s-2", "--listen", cluster.join)
        wait_until(lambda: len(status_of(("--join", cluster.join, *cluster.secret))["members"]) == 3)
        wait_until(lambda: cluster.infer() == 200)
    finally:
        cluster.kill()


def test_a_frontend_says_why_requests_are_refused(cluster):
    def refuse(timeout_us):
        body = {"parameters": {"timeout": timeout_us},
                "inputs": [{"name": "INPUT", "shape": [1, 1], "datatype": "FP32", "data": [0]}]}
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", cluster.frontend.port("http_port"),
                                                           timeout=600)) as connection:
            connection.request("POST", "/v2/models/m-2/infer", json.dumps(body))
            assert connection.getresponse().status == 503

    def reasons():
        found = re.findall(r'^symphony_refused_requests_total\{model="m-2",version="1",reason="(\w+)"\} (\d+)$',
                           cluster.frontend.get("/metrics")[1], re.M)
        assert len(found) == 12
        return {reason: int(count) for reason, count in found if count != "0"}

    wait_until(lambda: complete(cluster))
    assert reasons() == {}
    for _ in range(2):
        refuse(1)
    wait_until(lambda: reasons() == {"deadline": 2})  # counted a moment after the answers
    cluster.scheduler.process.kill()
    cluster.scheduler.process.wait()
    wait_until(lambda: 'msg="scheduler lost"' in cluster.frontend.log())
    refuse(10000)
    wait_until(lambda: reasons() == {"deadline": 2, "no_scheduler": 1})
