"""test_live.py - what a server does now and did lately: its state, timelines of accelerators, `symphony top`, `status` and `timeline`."""
# sanitizers: address thread

import collections
import contextlib
import fcntl
import http.client
import json
import os
import pty
import re
import select
import struct
import subprocess
import termios

import pytest

from onnx import TensorProto, helper

from repository import save_model
from server import BINARY, Server, wait_until
from test_trails import INPUT, flood, get, infer

SCENARIO = """
cluster: {accelerators: 2, type: slow}
models:
  - {name: m, alpha_ms: 1, beta_ms: 20, slo_ms: 60000}
  - {name: other, alpha_ms: 1, beta_ms: 1, slo_ms: 60000}
workload: {rate_rps: 1}
policy: {name: deferred}
run: {seconds: 1, seed: 1}
"""


@pytest.fixture(scope="module")
def scenario(tmp_path_factory):
    path = tmp_path_factory.mktemp("live") / "scenario.yaml"
    path.write_text(SCENARIO)
    return str(path)


@pytest.fixture(scope="module")
def server(scenario):
    with Server("--scenario", scenario, "--no-learn") as running:
        yield running


def state(server, query=""):
    status, body = get(server, "/v2/symphony/state" + query)
    assert status == 200, body
    return json.loads(body)


def events(server, query="?stream", count=2, headers=None):
    """The first events of a stream."""
    connection = http.client.HTTPConnection("127.0.0.1", server.metrics_port, timeout=600)
    with contextlib.closing(connection):
        connection.request("GET", "/v2/symphony/state" + query, headers=headers or {})
        answer = connection.getresponse()
        assert answer.status == 200 and answer.getheader("Content-Type") == "text/event-stream"
        lines = []
        while len(lines) < count:
            line = answer.readline()
            assert line
            lines += [json.loads(line[6:])] if line.startswith(b"data: ") else []
        return lines


def timeline(server, query="?seconds=3600"):
    status, body = get(server, "/v2/symphony/timeline" + query)
    assert status == 200, body
    return json.loads(body)["traceEvents"]


def run(*command):
    return subprocess.run([BINARY, *map(str, command)], capture_output=True, text=True)


# ---- the state ----

def test_the_state_says_what_the_metrics_say(server):
    for _ in range(3):
        assert infer(server, "m")[0] == 200
    assert infer(server, "m", parameters={"timeout": 1000})[0] == 503
    server.rests()
    metrics, now = server.metrics(), state(server)
    m = next(one for one in now["models"] if one["name"] == "m")
    labels = '{model="m",version="1"'
    assert m["totals"]["refused"] == metrics['symphony_requests_total%s,outcome="refused"}' % labels] >= 1
    assert m["totals"]["in_time"] == metrics["symphony_requests_in_time_total%s}" % labels]
    assert m["totals"]["requests"] == sum(metrics['symphony_requests_total%s,outcome="%s"}' % (labels, outcome)]
                                          for outcome in ("ok", "refused", "failed"))
    assert m["refused_by"]["deadline"]["total"] == metrics['symphony_refused_requests_total%s,reason="deadline"}' % labels]
    assert m["slo_ms"] == 60000 and m["state"] == "ready" and m["queued"] == 0
    assert now["all"]["totals"]["requests"] == sum(one["totals"]["requests"] for one in now["models"])
    assert [one["number"] for one in now["accelerators"]] == [0, 1]
    assert now["types"][0]["type"] == "slow" and now["types"][0]["count"] == now["types"][0]["serving"] == 2
    wait_until(lambda: sum(one["batches"] for one in state(server)["accelerators"]) ==
               sum(value for name, value in server.metrics().items() if name.startswith("symphony_accelerator_batches_total")))
    assert now["advice"]["serving"] == 2 and now["state"] == "ready" and now["policy"] == "deferred"


def test_a_query_chooses(server):
    names = [one["name"] for one in state(server, "?sort=name")["models"]]
    assert names == ["m", "other"]
    one = state(server, "?model=oth&accelerators=1&first=1")
    assert [m["name"] for m in one["models"]] == ["other"] and one["models_matching"] == 1 and one["models_count"] == 2
    assert [a["number"] for a in one["accelerators"]] == [1] and one["accelerators_count"] == 2
    assert not state(server, "?limit=0")["models"]
    for query in ("?sort=size", "?limit=x", "?other=1", "?stream&first=-1"):
        status, body = get(server, "/v2/symphony/state" + query)
        assert status == 400 and json.loads(body)["error"]


def test_a_stream_says_it_again(server):
    infer(server, "m")
    first, second, third = events(server, "?stream&sort=name", 3)
    assert first["uptime_s"] < second["uptime_s"] < third["uptime_s"]
    assert third["all"]["totals"]["requests"] >= 1
    assert events(server, "?limit=0", 1, {"Accept": "text/event-stream"})[0]["models"] == []


def test_what_runs_is_shown(scenario, tmp_path):
    """Runs of a minute."""
    path = tmp_path / "long.yaml"
    path.write_text(SCENARIO.replace("beta_ms: 20, slo_ms: 60000", "beta_ms: 60000, slo_ms: 600000"))
    with Server("--scenario", path, "--no-learn") as server:
        with contextlib.closing(server.connect()) as connection:
            connection.request("POST", "/v2/models/m/infer", json.dumps({"inputs": INPUT}))
            wait_until(lambda: any("runs" in one for one in state(server)["accelerators"]))
            running = next(one for one in state(server)["accelerators"] if "runs" in one)
            assert running["runs"]["model"] == "m" and running["runs"]["items"] == 1
            wait_until(lambda: max(one["busy"] for one in state(server)["accelerators"]) > 0)
            assert state(server)["types"][0]["running"] == 1 and state(server)["in_flight"] == 1
            box = [event for event in timeline(server) if event.get("args", {}).get("end") == "running"]
            assert len(box) == 1 and box[0]["name"] == "m (1)"


def test_a_token_is_needed(scenario, tmp_path):
    (tmp_path / "tokens").write_text("secret-secret-secret\n")
    with Server("--scenario", scenario, "--auth-token-file", tmp_path / "tokens", "--auth-metrics") as server:
        for path in ("state", "state?stream", "timeline"):
            assert get(server, "/v2/symphony/" + path)[0] == 401
        done = run("status", "127.0.0.1:%d" % server.metrics_port)
        assert done.returncode == 1 and "answers 401" in done.stderr
        for token in ("secret-secret-secret", "@%s" % (tmp_path / "tokens")):
            assert run("status", "127.0.0.1:%d" % server.metrics_port, "--token", token).returncode == 0


# ---- timelines ----

def test_batches_and_idle_times_are_kept(server, tmp_path):
    server.rests()
    before = [event for event in timeline(server) if event.get("cat") == "batch"]
    for _ in range(3):
        infer(server, "m")
    wait_until(lambda: len([event for event in timeline(server) if event.get("cat") == "batch"]) == len(before) + 3)
    found = timeline(server)
    batches = [event for event in found if event.get("cat") == "batch"]
    assert all(event["name"] == "m (1)" and event["dur"] >= 21000 for event in batches)
    assert all(event["args"]["predicted_ms"] == 21 for event in batches)
    for row in (0, 1):  # what an accelerator does follows each other
        boxes = sorted((event for event in found if event["ph"] == "X" and event["tid"] == row), key=lambda event: event["ts"])
        assert all(one["ts"] + one["dur"] <= next_one["ts"] + 1 for one, next_one in zip(boxes, boxes[1:]))
    assert {"nothing queued"} <= {event["name"] for event in found if event.get("cat") == "idle"}
    names = {(event["name"], event["args"]["name"]) for event in found if event["ph"] == "M"}
    assert names == {("process_name", "slow"), ("thread_name", "slow 0"), ("thread_name", "slow 1")}
    assert all(event["tid"] == 1 for event in timeline(server, "?first=1") if event["ph"] == "X")
    assert len([event for event in timeline(server, "?limit=1&seconds=3600") if event.get("cat") == "batch"]) <= 2
    done = run("timeline", "127.0.0.1:%d" % server.metrics_port, "--seconds", 3600, "-o", tmp_path / "out.json")
    assert done.returncode == 0 and done.stdout == done.stderr == ""
    assert [event for event in json.loads((tmp_path / "out.json").read_text())["traceEvents"] if event.get("cat") == "batch"] == batches


def test_nothing_is_kept_if_nobody_wants_it(scenario):
    with Server("--scenario", scenario, "--timeline-mib", 0) as server:
        assert infer(server, "m")[0] == 200
        assert get(server, "/v2/symphony/timeline")[0] == 404
        assert state(server)["accelerators_count"] == 2
        done = run("timeline", "127.0.0.1:%d" % server.metrics_port)
        assert done.returncode == 1 and "answers 404" in done.stderr


def test_loads_are_kept(tmp_path):
    path = tmp_path / "loads.yaml"
    path.write_text("""
cluster: {accelerators: 1, type: slow, memory_gib: 1}
models:
  - {name: m, alpha_ms: 1, beta_ms: 5, slo_ms: 60000, weights_mb: 900, load_ms: 30, copies: 2}
workload: {rate_rps: 1}
policy: {name: clockwork}
run: {seconds: 1, seed: 1}
""")
    with Server("--scenario", path) as server:
        def both():
            return infer(server, "m-1")[0] == infer(server, "m-2")[0] == 200
        wait_until(both)
        wait_until(lambda: len({event["name"] for event in timeline(server) if event.get("cat") == "load" and event["ph"] == "X"}) == 2)
        found = collections.Counter(event["name"] for event in timeline(server) if event.get("cat") == "load")
        assert found["load m-1"] and found["load m-2"] and found["unload m-1"]
        accelerator = state(server)["accelerators"][0]
        assert accelerator["models"] == 1 and 860 <= accelerator["memory_mib"] <= accelerator["memory_max_mib"] == 1024


def test_processes_of_isolate_are_seen(tmp_path):
    save_model(tmp_path, "m", [helper.make_node("Identity", ["INPUT"], ["y"])], [("INPUT", TensorProto.FLOAT, ["N", 1])],
               [("y", TensorProto.FLOAT, ["N", 1])], [])
    (tmp_path / "m" / "profile.json").write_text(json.dumps({"symphony_profile": 1, "points": [{"batch": 1, "latency_ms": 1}]}))
    (tmp_path / "m" / "symphony.yaml").write_text("slo_ms: 60000\nmax_batch: 1\nprofile: profile.json\n")
    with Server("--repository", tmp_path, "--isolate", "on", "--accelerators", "cpu:2", "--pin", "none") as server:
        wait_until(lambda: infer(server, "m")[0] == 200)
        wait_until(lambda: any(event.get("name") == "m (1)" for event in timeline(server)))
        wait_until(lambda: state(server)["advice"]["serving"] == 2 and state(server)["models"][0]["totals"]["in_time"] >= 1)
        now = state(server)
        assert now["accelerators_count"] == 2 and "queued" in now["models"][0]


# ---- commands ----

def test_status_of_one_server(server):
    infer(server, "m")
    done = run("status", "http://127.0.0.1:%d" % server.metrics_port)
    assert done.returncode == 0
    assert re.search(r"^m +1 +ready +60000 +[1-9]", done.stdout, re.M)
    assert re.search(r"^0 +slow +serving", done.stdout, re.M)
    assert json.loads(run("status", "127.0.0.1:%d/" % server.metrics_port, "--json").stdout)["models_count"] == 2
    assert run("status", "127.0.0.1:1").returncode == 1
    assert run("status", "ftp://127.0.0.1").returncode == 2
    assert run("status", "127.0.0.1:%d" % server.port).returncode == 1  # that of clients
    assert run("status").returncode == 2


def test_top_without_a_terminal(server):
    url = "127.0.0.1:%d" % server.metrics_port
    infer(server, "m")
    done = run("top", url, "--once", "--sort", "name")
    assert done.returncode == 0 and "\033" not in done.stdout
    assert "\033[1m" in run("top", url, "--once", "--color", "always").stdout
    assert re.search(r"^m +ready", done.stdout, re.M) and "accelerators: " in done.stdout
    assert json.loads(run("top", url, "--json").stdout)["window_s"] >= 2
    with subprocess.Popen([BINARY, "top", url, "--model", "oth"], stdout=subprocess.PIPE, text=True) as top:
        lines = [top.stdout.readline() for _ in range(4)]
        top.terminate()
        assert top.wait() == 0
    assert all(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ (all|model=other) .*rate=", line) for line in lines)


def test_top_on_a_terminal(server):
    """It uses the other screen, follows its size and keys, and leaves the terminal as it was."""
    def size_set(fd, rows, columns):
        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    waits, begins = os.pipe()
    pid, fd = pty.fork()
    if pid == 0:
        os.read(waits, 1)  # until it is known how the terminal was
        os.execv(BINARY, [BINARY, "top", "127.0.0.1:%d" % server.metrics_port])
    seen = [""]

    def read_until(pattern):
        def found():
            if select.select([fd], [], [], 0.1)[0]:
                with contextlib.suppress(OSError):
                    seen[0] += os.read(fd, 1 << 16).decode(errors="replace")
            return re.search(pattern, seen[0])
        wait_until(found)
        seen[0] = seen[0][re.search(pattern, seen[0]).end():]
    before = termios.tcgetattr(fd)
    size_set(fd, 20, 100)
    os.write(begins, b"x")
    read_until(r"\033\[\?1049h")
    read_until(r"MODEL .*\033")
    os.write(fd, b"n")
    read_until(r"s sorts \(name\)")
    os.write(fd, b"/oth\r")
    read_until(r"/ filters: oth.* 1-1 of 1")
    size_set(fd, 10, 50)
    read_until(r"q ends, s sorts \(name\), / filters: oth, a accel\w*\033")
    os.write(fd, b"a")
    read_until(r"\n  0 ")
    os.write(fd, b"q")
    read_until(r"\033\[\?1049l")
    assert os.waitpid(pid, 0)[1] == 0
    with contextlib.suppress(termios.error):  # the terminal may be gone with its program
        assert termios.tcgetattr(fd)[3] == before[3]
    for each in (fd, waits, begins):
        os.close(each)


def test_refusals_have_their_reason(scenario):
    with Server("--scenario", scenario, "--no-learn", "--queue-max", 1) as server:
        wait_until(lambda: any(answer[0] == 503 for answer in flood(server, "m", 40)))
        wait_until(lambda: state(server)["models"][0].get("refused_by"))
        assert "scheduler_full" in state(server)["models"][0]["refused_by"]
