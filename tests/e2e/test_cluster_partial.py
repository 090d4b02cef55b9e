"""test_cluster_partial.py - a cluster that fails in part: what others can do is done by these."""
import concurrent.futures
import contextlib
import shutil
import signal
import subprocess
import threading
import time

import pytest
from onnx import TensorProto, helper

from repository import measure, save_model
from server import BINARY, free_port, http_request, wait_until
from test_faults import BOXES, post_boxes, runs_when_idle, save_boxes
from test_standby import Frontend, Role, status_of

PATIENT = ("--heartbeat-ms", "20000")  # who stands still for a minute is not dead
BRISK = ("--heartbeat-ms", "400")  # who is new is ready after seven of them


class Metered(Role):
    """With a metrics port."""

    def start(self):
        self.metrics_port = free_port()
        self.args = ["--metrics-port=%d" % self.metrics_port if "metrics" in arg else arg for arg in self.args]
        super().start()

    def get(self, path):
        status, _, body = http_request(self.metrics_port, "GET", path)
        return status, body.decode()

    def says_metric(self, line):
        return line in self.get("/metrics")[1].splitlines()


def counting(folder):
    """A model `m` that counts as many ones as it is asked for: each takes 4 bytes of memory."""
    one = helper.make_tensor("one", TensorProto.FLOAT, [1], [1.0])
    save_model(folder, "m", [helper.make_node("ConstantOfShape", ["x"], ["ones"], value=one),
                             helper.make_node("ReduceSum", ["ones"], ["y"], keepdims=1)],
               [("x", TensorProto.INT64, [1])], [("y", TensorProto.FLOAT, [1])])
    (folder / "m" / "symphony.yaml").write_text("slo_ms: 60000\n")
    return folder


@contextlib.contextmanager
def cluster(*backends):
    """A scheduler, a frontend, and backends with these arguments. Yields the frontend, the backends and how to join."""
    join = ("--join", "127.0.0.1:%d" % free_port())
    roles = [Role("scheduler", "--listen", join[1], *PATIENT)]
    roles += [Role("backend", *join, *args, *PATIENT) for args in backends]
    frontend = Frontend(*join)
    frontend.args += PATIENT
    failed = True
    try:
        with frontend:
            yield frontend, roles[1:], join
        failed = False
    finally:
        for role in roles:
            role.end(failed)


def ask(frontend, value):
    return frontend.infer("m", [{"name": "x", "datatype": "INT64", "shape": [1], "data": [value]}])


def test_a_model_that_fails_at_one_backend_of_three(tmp_path):
    """No client notices; that backend sets the model aside, and says so. A request that fails everywhere is answered 500."""
    repository = ("--repository", counting(tmp_path), "--accelerators", "cpu:1")
    with cluster(("--name", "bad", *repository, "--run-memory-max-mib", 32), ("--name", "good", *repository),
                 ("--name", "better", *repository)) as (frontend, backends, join):
        wait_until(lambda: [m["backends"] for m in status_of(join)["models"]] == [3])
        wait_until(lambda: frontend.log_text().count('msg="backend connected"') == 3)
        wait_until(lambda: frontend.request("GET", "/v2/models/m/ready")[0] == 200)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            def some(count):
                for status, answer in pool.map(lambda i: ask(frontend, 16 << 20), range(count)):
                    assert status == 200, answer

            def set_aside():
                """It is tried again soon, and then set aside again."""
                some(4)
                told[:] = next(one for one in status_of(join)["members"] if one["name"] == "bad").get("aside", [])
                return told
            told = []
            wait_until(set_aside)
            assert backends[0].says('msg="model set aside"') >= 1
            some(20)
        (aside,) = told
        assert aside["name"] == "m" and "its runs fail here and not elsewhere; tried again after 10 s: " in aside["reason"]
        status, answer = ask(frontend, -1)
        assert status == 500 and "ConstantOfShape" in answer["error"]
        failed = 'symphony_cluster_requests_lost_total{reason="failed"}'  # a figure of links is shown a moment later
        wait_until(lambda: frontend.metrics()[failed] >= 4)  # three of the faults, and the last one


SCENARIO = ("cluster: {accelerators: 1, type: test}\n"
            "models:\n  - {name: m, alpha_ms: 0.5, beta_ms: 5, slo_ms: 300000}\n"
            "workload: {rate_rps: 10}\n")


def ask_emulated(frontend):
    return frontend.infer("m", [{"name": "INPUT", "datatype": "FP32", "shape": [1, 1], "data": [1]}])


def ready(frontend):
    return frontend.request("GET", "/v2/health/ready")[0] == 200


def test_a_frontend_without_backends_or_scheduler(tmp_path):
    """It waits for them for as long as it was told, then refuses at once and is not ready; the scheduler has none of its requests."""
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(SCENARIO)
    join = ("--join", "127.0.0.1:%d" % free_port())
    scheduler = Role("scheduler", "--listen", join[1], *BRISK)
    backend = Role("backend", *join, "--scenario", scenario, "--transport", "tcp", *BRISK)
    cut, linked = (Frontend(*join, *more) for more in (("--advertise", "127.0.0.1:%d" % free_port(), "--open-links"), ()))  # nobody listens there
    for frontend in (cut, linked):
        frontend.args += (*BRISK, "--link-wait", "1")
    failed = True
    try:
        with cut, linked, concurrent.futures.ThreadPoolExecutor(8) as pool:
            for frontend in (cut, linked):
                wait_until(lambda: frontend.request("GET", "/v2/models/m/ready")[0] == 200)
            wait_until(lambda: cut.log_text().count('msg="requests are refused" reason="no backend is connected"') == 1)
            wait_until(lambda: ask_emulated(linked)[0] == 200)  # the backend has found it
            before = status_of(join)["scheduler"]["requests"]
            for status, answer in pool.map(lambda _: ask_emulated(cut), range(8)):
                assert status == 503 and "no accelerator that runs model 'm' is in service" in answer["error"]
            assert status_of(join)["scheduler"]["requests"] == before
            assert not ready(cut)
            scheduler.kill()
            wait_until(lambda: linked.log_text().count('msg="requests are refused" reason="no scheduler is connected"') == 1)
            assert not ready(linked)
            status, answer = ask_emulated(linked)  # long before its deadline
            assert status == 503 and "no connection to a scheduler" in answer["error"]
            scheduler.start()
            wait_until(lambda: ready(linked))
            assert ask_emulated(linked)[0] == 200
        failed = False
    finally:
        for role in (scheduler, backend):
            role.end(failed)


@pytest.mark.long  # half a minute: a run is given up after ten seconds at the earliest
def test_backends_whose_accelerators_fail(tmp_path):
    """Their metrics, the scheduler's status, readiness and liveness all know."""
    save_boxes(tmp_path)
    measure(tmp_path)
    join = ("--join", "127.0.0.1:%d" % free_port())
    scheduler = Role("scheduler", "--listen", join[1], *PATIENT)
    backends = [Metered("backend", *join, "--repository", tmp_path, "--slo-ms", 600000, "--accelerators", "cpu:1", "--run-limit", 0.5,
                        *PATIENT) for _ in range(2)]
    frontend = Frontend(*join)
    frontend.args += PATIENT
    failed = True
    try:
        with frontend:
            wait_until(lambda: all(backend.says('msg="ready"') for backend in backends))
            wait_until(lambda: all(backend.get("/v2/health/ready")[0] == 200 for backend in backends))
            wait_until(lambda: [m["backends"] for m in status_of(join)["models"]] == [2])
            wait_until(lambda: frontend.request("GET", "/v2/models/boxes/ready")[0] == 200)
            for backend in backends:
                assert backend.get("/v2/health/live")[0] == 200
                assert backend.says_metric("symphony_accelerators_serving 1")
                assert backend.says_metric("symphony_accelerators_failed 0")
            status, answer = post_boxes(frontend, BOXES)
            while "was stopped after" in answer["error"]:  # on a busy machine, before it came to the node that does not end
                status, answer = post_boxes(frontend, BOXES)
            for backend in backends:
                runs_when_idle(backend)
            assert status == 500 and "2 accelerators failed while they ran this request" in answer["error"], answer
            for backend in backends:
                wait_until(lambda: backend.says_metric("symphony_accelerators_serving 0"))
                assert backend.says_metric("symphony_accelerators_failed 1")
                assert backend.get("/v2/health/ready")[0] == 400
                wait_until(lambda: backend.get("/v2/health/live")[0] == 400)
            for member in status_of(join)["members"]:
                for one in member.get("accelerators", ()):
                    assert (one["count"], one["serving"], one["gone"]) == (1, 0, 1)
        failed = False
    finally:
        for role in (scheduler, *backends):
            role.end(failed)


def test_a_new_version_begins(tmp_path):
    """Requests that name no version go to it once as many backends have it as have the one before, and back."""
    old, both = counting(tmp_path / "old"), counting(tmp_path / "both")
    shutil.copytree(both / "m" / "1", both / "m" / "2")
    (both / "m" / "config.pbtxt").write_text('name: "m"\nversion_policy: { all { } }\n')
    for folder in (old, both):
        measure(folder)
    of = lambda folder: ("--repository", folder, "--accelerators", "cpu:1")
    with cluster(of(old), of(old), of(both)) as (frontend, backends, join):
        def backends_of(*counts):
            wait_until(lambda: [m["backends"] for m in status_of(join)["models"]] == list(counts))

        def answers(version):
            """Clients notice of a change nothing but the version."""
            def one():
                status, answer = ask(frontend, 3)
                return (status, answer.get("model_version")) == (200, version)
            wait_until(one)
            for _ in range(5):
                status, answer = ask(frontend, 3)
                assert (status, answer["model_version"]) == (200, version), answer

        backends_of(3, 1)
        answers("1")
        assert frontend.request("GET", "/v2/models/m/versions/2/ready")[0] == 200
        backends[0].kill(signal.SIGTERM)
        backends_of(2, 1)
        answers("1")
        backends[1].kill(signal.SIGTERM)
        backends_of(1, 1)
        answers("2")
        backends[0].start()
        backends_of(2, 1)
        answers("1")


def stumbles(process, until):
    """It stands still most of the time."""
    while not until.is_set():
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.04)
        process.send_signal(signal.SIGCONT)
        time.sleep(0.004)


def test_a_backend_becomes_slow(tmp_path):
    """It is named in the log, the status and the metrics, and no more once it has recovered. No request is lost."""
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(SCENARIO.replace("beta_ms: 5", "beta_ms: 8"))
    join = ("--join", "127.0.0.1:%d" % free_port())
    scheduler = Metered("scheduler", "--listen", join[1], *PATIENT)
    backends = [Role("backend", *join, "--name", name, "--scenario", scenario, *PATIENT) for name in ("one", "two", "three")]
    frontend = Frontend(*join)
    frontend.args += PATIENT
    failed, recovers = True, threading.Event()
    try:
        with frontend, concurrent.futures.ThreadPoolExecutor(8) as pool:
            def slow():
                for status, answer in pool.map(lambda _: ask_emulated(frontend), range(100)):
                    assert status == 200, answer
                return [m["name"] for m in status_of(join)["members"] for a in m.get("accelerators", ()) if a["slow"] > 1.5]

            wait_until(lambda: [m["backends"] for m in status_of(join)["models"]] == [3])
            wait_until(lambda: ask_emulated(frontend)[0] == 200)
            thread = threading.Thread(target=stumbles, args=(backends[1].process, recovers))
            thread.start()
            wait_until(lambda: slow() == ["two"])
            assert scheduler.says('msg="a backend is slower than others of its type" backend=two type=test') >= 1
            wait_until(lambda: any(line.startswith('symphony_cluster_backend_slow{peer="two"') and float(line.split()[1]) > 1.5
                                   for line in scheduler.get("/metrics")[1].splitlines()))
            recovers.set()
            thread.join()
            wait_until(lambda: slow() == [])
        failed = False
    finally:
        recovers.set()
        for role in (scheduler, *backends):
            role.end(failed)


def order(command, join, name, timeout=60):
    done = subprocess.run([BINARY, command, *join, "--timeout", str(timeout), name], capture_output=True, text=True)
    return done.returncode, done.stderr


def test_a_backend_is_cordoned(tmp_path):
    """It gets no more batches, from the next scheduler neither, and stays; until it is asked back. Who is asked that cannot know says so."""
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(SCENARIO)
    addresses = ["127.0.0.1:%d" % free_port() for _ in range(2)]
    join = ("--join", ",".join(addresses))
    schedulers = [Role("scheduler", "--listen", one, "--peers", join[1]) for one in addresses]
    backends = [Role("backend", *join, "--name", name, "--scenario", scenario) for name in ("one", "two")]
    frontend = Frontend(*join)
    frontend.args += ("--name", "front")
    failed = True
    try:
        with frontend:
            def serving():
                return {m["name"]: (m["accelerators"][0]["serving"], m["cordoned"]) for m in status_of(join)["members"]
                        if m.get("accelerators")}

            wait_until(lambda: serving() == {"one": (1, False), "two": (1, False)})
            wait_until(lambda: ask_emulated(frontend)[0] == 200)
            for command, whom, name, why in (
                    ("cordon", join, "nobody", "no member has the name or number 'nobody'"),
                    ("cordon", join, "front", "'front' is a frontend; only backends get batches"),
                    ("drain", join, "nobody", "no member has the name or number 'nobody'")):
                status, said = order(command, whom, name)
                assert status == 1 and why in said, said

            def leads_and_stands():
                """The addresses of the one that leads, as its log has it, and of the other."""
                return sorted(addresses, key=lambda one: not schedulers[addresses.index(one)].leads())

            def stands_by():
                leads, stands = leads_and_stands()
                says = "This scheduler stands by, and knows of no frontends, backends and models: ask the one that leads, %s.\n" % leads
                return says in subprocess.run([BINARY, "status", "--join", stands, "--timeout", "60"], capture_output=True, text=True).stdout

            wait_until(stands_by)
            wait_until(lambda: order("drain", ("--join", leads_and_stands()[1]), "nobody", timeout=0.1) == (
                1, "symphony drain: no scheduler leads: who was asked stands by\n"))
            assert order("cordon", join, "one") == (0, "")
            wait_until(lambda: serving() == {"one": (0, True), "two": (1, False)})
            assert ask_emulated(frontend)[0] == 200
            for scheduler in schedulers:
                scheduler.kill()
                scheduler.start()
            wait_until(lambda: serving() == {"one": (0, True), "two": (1, False)})
            assert order("uncordon", join, "one") == (0, "")
            wait_until(lambda: serving() == {"one": (1, False), "two": (1, False)})
            assert ask_emulated(frontend)[0] == 200
        failed = False
    finally:
        for role in (*schedulers, *backends):
            role.end(failed)
