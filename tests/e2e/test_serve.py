"""test_serve.py - what users of other model servers suffer, shown not to happen here."""
# sanitizers: address thread
# shards: 2
import concurrent.futures
import contextlib
import http.client
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import stat
import subprocess
import time

import pytest
from onnx import TensorProto, helper

from repository import save_model
from server import BINARY, MODELS, Server, arrivals_noted, free_port, wait_until

DATA = pathlib.Path(__file__).parent.parent / "unit" / "back" / "engine" / "data"

ONE = [{"name": "INPUT", "shape": [1, 1], "datatype": "FP32", "data": [0]}]


def scenario(folder, accelerators=1, alpha_ms=1.0, beta_ms=20.0, slo_ms=60000, models=1):
    """A scenario file of emulated models m-1, m-2, ..."""
    path = folder / "scenario.yaml"
    path.write_text(
        "cluster: {accelerators: %d, type: test}\n"
        "models:\n  - {name: m, alpha_ms: %g, beta_ms: %g, slo_ms: %g, copies: %d}\n"
        "workload: {rate_rps: 10}\n" % (accelerators, alpha_ms, beta_ms, slo_ms, models))
    return path


def raw_request(model, body, extra=b""):
    return (b"POST /v2/models/%s/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n%s\r\n" %
            (model.encode(), len(body), extra)) + body


def items_run(metrics, model="m"):
    return metrics['symphony_batch_size_sum{model="%s",version="1"}' % model]


def test_a_thousand_accelerators_need_few_threads(tmp_path):
    with Server("--scenario", scenario(tmp_path, accelerators=1000, beta_ms=50)) as server:
        assert len(os.listdir("/proc/%d/task" % server.process.pid)) < 11 + (os.cpu_count() or 1)
        with concurrent.futures.ThreadPoolExecutor(20) as pool:
            answers = list(pool.map(lambda _: server.infer("m", ONE)[0], range(60)))
        assert answers == [200] * 60
        assert server.metrics()["symphony_accelerators"] == 1000

        def counted():
            """Of all that were asked for: decisions, candidates, items run."""
            samples = server.metrics()
            decisions, candidates = (samples['symphony_decision_seconds_count{kind="%s",thread="model-0"}' % kind]
                                     for kind in ("decision", "candidate"))
            items = sum(v for k, v in samples.items() if k.startswith("symphony_accelerator_items_total"))
            assert decisions <= 60 and candidates <= 60 and items <= 60
            return decisions > 0 and candidates == items == 60
        wait_until(counted)


def moves(server, model):
    return server.metrics()['symphony_model_moves_total{model="%s",version="1"}' % model]


def part(server, model):
    return server.metrics()['symphony_model_rank_thread{model="%s",version="1"}' % model]


def answers_by_outcome(server):
    """Of all outcomes, and of those that are well; a request may be counted a moment after its client has its answer."""
    server.rests()
    counts = {k: v for k, v in server.metrics().items() if k.startswith("symphony_requests_total")}
    return sum(counts.values()), sum(v for k, v in counts.items() if 'outcome="ok"' in k)


def test_models_move_to_rank_threads_that_have_room(tmp_path):
    path = scenario(tmp_path, accelerators=8, alpha_ms=10, beta_ms=300, slo_ms=20000, models=8)
    told = []
    with Server("--scenario", path, "--rank-threads", "4", "--epoch", "1") as server:
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            def ask(count, model):
                """Well, but for those whose 20 s were over while the machine stood still."""
                answers = list(pool.map(lambda n: server.infer("m-%d" % model(n), ONE)[0], range(count)))
                assert set(answers) <= {200, 503}
                told.extend(answers)

            for hot in ((1, 5), (2, 6)):  # who becomes popular begins in the same part
                names = ["m-%d" % model for model in hot]
                assert part(server, names[0]) == part(server, names[1])
                until = time.monotonic() + 200
                while part(server, names[0]) == part(server, names[1]) and time.monotonic() < until:
                    ask(64, lambda n: hot[n % 2])
                assert part(server, names[0]) != part(server, names[1])
                assert moves(server, names[0]) + moves(server, names[1]) >= 1
            ask(80, lambda n: n % 8 + 1)
        assert told.count(200) > 0.9 * len(told)

        def adds_up():
            """The page is read row by row while the figures change."""
            samples = server.metrics()
            needed = [samples['symphony_rank_thread_accelerators_needed{rank_thread="%d"}' % k] for k in range(4)]
            return sum(needed) == pytest.approx(samples["symphony_accelerators_needed"], rel=0.01, abs=0.01)
        wait_until(adds_up)
        samples = server.metrics()
        assert [samples['symphony_rank_thread_accelerators{rank_thread="%d"}' % k] for k in range(4)] == [2] * 4
        owners = [samples['symphony_accelerator_rank_thread{accelerator="%d"}' % a] for a in range(8)]
        assert sorted(owners) == [0, 0, 1, 1, 2, 2, 3, 3]
        assert answers_by_outcome(server) == (len(told), told.count(200))
        assert server.stop() == 0


def test_models_move_where_a_rank_thread_has_too_many_items(tmp_path):
    """Though that makes the accelerators' loads no more even: `heavy` takes more of them than both others."""
    path = tmp_path / "scenario.yaml"
    path.write_text("cluster: {accelerators: 4, type: test}\n"
                    "models:\n  - {name: heavy, alpha_ms: 300, beta_ms: 1, slo_ms: 600000}\n"
                    "  - {name: m, alpha_ms: 0.01, beta_ms: 0.01, slo_ms: 600000, copies: 3}\n")
    with Server("--scenario", path, "--rank-threads", "2", "--epoch", "1", "--rank-thread-rate", "5") as server:
        light = ["m-1", "m-3"]
        assert part(server, light[0]) == part(server, light[1]) != part(server, "heavy")
        with concurrent.futures.ThreadPoolExecutor(18) as pool:
            def moved():
                answers = pool.map(lambda model: server.infer(model, ONE)[0], ["heavy", "heavy", *light * 20])
                assert set(answers) == {200}
                return part(server, light[0]) != part(server, light[1])
            wait_until(moved)
        assert server.stop() == 0


def test_threads_that_poll_never_sleep(tmp_path):
    """Nobody asks anything, and the rank thread's core is busy all the same."""
    with Server("--scenario", scenario(tmp_path), "--busy-poll") as server:
        threads = pathlib.Path("/proc/%d/task" % server.process.pid)
        [rank] = [thread for thread in threads.iterdir() if (thread / "comm").read_text() == "rank-0\n"]

        def ran_s():
            user, system = (rank / "stat").read_text().rpartition(")")[2].split()[11:13]
            return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
        before_s = ran_s()
        wait_until(lambda: ran_s() >= before_s + 0.5)
        assert server.infer("m", ONE)[0] == 200
        assert server.stop() == 0


def placement(server):
    samples = server.metrics()
    return {name: samples["symphony_placement_" + name] for name in
            ("plans_total", 'places_total{was="kept"}', 'places_total{was="moved"}', "moved_requests_total")}


def test_sessions_of_nexus_move_with_the_load(tmp_path):
    """Epoch by epoch, while requests wait and run: none is lost."""
    path = scenario(tmp_path, accelerators=6, alpha_ms=1, beta_ms=90, slo_ms=60000, models=6)
    asked = 0
    with Server("--scenario", path, "--policy", "nexus:epoch_s=1,epoch_min_s=0.5") as server:
        with concurrent.futures.ThreadPoolExecutor(32) as pool:
            for hot in ((1,), (2, 3), (4, 5, 6)):
                before, until = placement(server), time.monotonic() + 200
                while time.monotonic() < until:
                    answers = list(pool.map(lambda n: server.infer("m-%d" % hot[n % len(hot)], ONE)[0], range(128)))
                    assert answers == [200] * 128
                    asked += 128
                    now = placement(server)
                    if now['places_total{was="moved"}'] > before['places_total{was="moved"}'] and \
                            now["plans_total"] >= before["plans_total"] + 3:
                        break
                else:
                    assert False, (before, now)
        assert answers_by_outcome(server) == (asked, asked)
        assert server.stop() == 0


def test_models_stay_without_an_epoch(tmp_path):
    with Server("--scenario", scenario(tmp_path, accelerators=2, models=2), "--rank-threads", "2", "--epoch",
                "0") as server:
        assert [part(server, "m-1"), part(server, "m-2")] == [0, 1]
        assert moves(server, "m-1") == 0


def test_more_rank_threads_than_accelerators_make_no_sense(tmp_path):
    done = subprocess.run([BINARY, "serve", "--scenario", scenario(tmp_path, accelerators=2), "--rank-threads", "3"],
                          capture_output=True, text=True, timeout=600)
    assert done.returncode == 2 and "--rank-threads" in done.stderr


def test_clients_that_left_are_not_run(tmp_path):
    # One accelerator: the first occupies it for ten minutes, the others queue and leave.
    path = scenario(tmp_path, beta_ms=600e3, slo_ms=3600e3)
    body = json.dumps({"inputs": ONE}).encode()
    with Server("--scenario", path) as server:
        first = socket.create_connection(("127.0.0.1", server.port))
        first.sendall(raw_request("m", body))
        wait_until(lambda: items_run(server.metrics()) == 1)
        others = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(20)]
        for other in others:
            other.sendall(raw_request("m", body))
        wait_until(lambda: server.metrics()['symphony_queued_requests{model="m",version="1"}'] == 20)
        for other in others:
            other.close()
        wait_until(lambda: server.metrics()['symphony_queued_requests{model="m",version="1"}'] == 0)
        wait_until(lambda: server.metrics()['symphony_requests_total{model="m",version="1",outcome="cancelled"}'] == 20)
        assert items_run(server.metrics()) == 1


def test_hopeless_requests_are_refused_at_once_and_not_run(tmp_path):
    with Server("--scenario", scenario(tmp_path, beta_ms=600e3, slo_ms=3600e3)) as server:
        for timeout_s in (0.001, 300, 599):  # the client waits for one minute
            status, answer = server.infer("m", ONE, parameters={"timeout": int(timeout_s * 1e6)})
            assert status == 503, answer
            assert "deadline" in answer["error"]
        assert items_run(server.metrics()) == 0


def test_what_is_read_too_late_is_not_parsed(tmp_path):
    """A server that does not read for longer than the SLO: what came meanwhile is refused, wrong or not, unless it asks for more time."""
    bodies = [b"no JSON", json.dumps({"inputs": ONE}).encode(), json.dumps({"inputs": ONE, "parameters": {"timeout": 600000000}}).encode()]
    with arrivals_noted(), Server("--scenario", scenario(tmp_path, slo_ms=500), "--no-grpc") as server, contextlib.ExitStack() as stack:
        waiting = [stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=600)) for _ in bodies]
        for one in waiting:  # they are connected, and their sockets tell when bytes come
            one.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n")
            assert one.recv(4096).startswith(b"HTTP/1.1 200")
        server.hold()
        for one, body in zip(waiting, bodies):
            one.sendall(raw_request("m", body))
        sent = time.monotonic()
        wait_until(lambda: time.monotonic() > sent + 1)
        server.process.send_signal(signal.SIGCONT)
        answers = [one.recv(4096) for one in waiting]
        assert all(b"503 Service Unavailable" in answer and b"within its deadline of 500 ms" in answer for answer in answers[:2]), answers
        assert answers[2].startswith(b"HTTP/1.1 200"), answers


def test_refusals_come_before_the_deadline(tmp_path):
    # One a second at most, 200 asked for within 3 s: most are refused, and nobody waits for the minutes that all would take.
    with Server("--scenario", scenario(tmp_path, alpha_ms=1000, beta_ms=0.1, slo_ms=3000)) as server:
        with concurrent.futures.ThreadPoolExecutor(200) as pool:
            statuses = list(pool.map(lambda _: server.infer("m", ONE)[0], range(200)))
        assert set(statuses) <= {200, 503}
        assert statuses.count(503) > 0 and statuses.count(200) > 0


def test_wrong_neighbours_hurt_nobody():
    # Good requests and wrong ones, all at once, for one model that batches.
    good = json.dumps({"inputs": [{"name": "x", "shape": [1, 32], "datatype": "FP32", "data": [1] * 32}]})
    wrong = [
        json.dumps({"inputs": [{"name": "x", "shape": [1, 31], "datatype": "FP32", "data": [1] * 31}]}),
        json.dumps({"inputs": [{"name": "x", "shape": [32], "datatype": "FP32", "data": [1] * 32}]}),
        json.dumps({"inputs": [{"name": "x", "shape": [1, 32], "datatype": "INT32", "data": [1] * 32}]}),
        json.dumps({"inputs": [{"name": "x", "shape": [1, 32], "datatype": "FP32", "data": [1] * 31}]}),
        json.dumps({"inputs": [{"name": "x", "shape": [1, 32], "datatype": "FP32"}]}),
        json.dumps({"inputs": []}),
        "{",
    ]
    bodies = (wrong + [good] * 4) * 20
    with Server("--repository", DATA / "mlp.onnx", "--slo-ms", 60000) as server:
        with concurrent.futures.ThreadPoolExecutor(32) as pool:
            statuses = list(pool.map(lambda b: server.request("POST", "/v2/models/mlp/infer", b)[0], bodies))
        for body, status in zip(bodies, statuses):
            assert status == (200 if body is good else 400)


def test_a_lone_request_pays_no_queue_delay(tmp_path):
    with Server("--scenario", scenario(tmp_path, accelerators=2, beta_ms=20)) as server:
        took = []
        for _ in range(15):
            start = time.monotonic()
            assert server.infer("m", ONE)[0] == 200
            took.append(time.monotonic() - start)
            time.sleep(0.05)
        # 21 ms of running; the SLO would allow to wait for company for most of a minute
        assert min(took) < 1


@pytest.mark.parametrize("accelerators, alpha_ms, rate_rps, seconds", [
    (2, 100, 110, 4), pytest.param(4, 20, 900, 10, marks=pytest.mark.long)])  # the long one: twenty times the requests
def test_overload_leaves_no_trace(tmp_path, accelerators, alpha_ms, rate_rps, seconds):
    """Accelerators that hold a sixth of it; a third of that must be served whole again afterwards."""
    path = scenario(tmp_path, accelerators=accelerators, alpha_ms=alpha_ms, beta_ms=100, slo_ms=2000)
    with Server("--scenario", path) as server:
        def bad_rate(rate, seconds):
            output = subprocess.run(
                [BINARY, "bench", "http://127.0.0.1:%d" % server.port, "--rate", str(rate), "--seconds", str(seconds),
                 "--warmup", "0", "--slo-ms", "2000", "--json", "--metrics",
                 "http://127.0.0.1:%d/metrics" % server.metrics_port],
                stdout=subprocess.PIPE, check=True).stdout
            return json.loads(output)["bad_rate"]

        assert bad_rate(rate_rps, seconds) > 0.5
        wait_until(lambda: bad_rate(rate_rps / 18, 2) == 0)
        for left in ("symphony_requests_in_flight", "symphony_inputs_bytes"):
            wait_until(lambda: server.metrics()[left] == 0)


def test_sigterm_finishes_what_is_in_flight(tmp_path):
    path = scenario(tmp_path, accelerators=4, alpha_ms=1, beta_ms=700, slo_ms=60000)
    with Server("--scenario", path) as server:
        idle = socket.create_connection(("127.0.0.1", server.port))  # must not hold it up
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            asked = [pool.submit(server.infer, "m", ONE) for _ in range(4)]
            wait_until(lambda: items_run(server.metrics()) == 4)
            assert server.stop() == 0
            assert [a.result()[0] for a in asked] == [200] * 4
        idle.close()


def test_what_a_draining_server_takes_it_answers(tmp_path):
    """Clients keep their connections, and ask now and then: between two requests nothing is in flight, and that is not the end."""
    quick = scenario(tmp_path, accelerators=2, alpha_ms=0.2, beta_ms=1)
    for _ in range(10):
        with Server("--scenario", quick) as server, concurrent.futures.ThreadPoolExecutor(24) as pool:
            def ask(n):
                """What each request was told, until its connection was closed."""
                told, draw = [], random.Random(n)
                connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=600)
                while True:
                    time.sleep(draw.uniform(0, 0.06))
                    try:
                        connection.request("POST", "/v2/models/m/infer", json.dumps({"inputs": ONE}))
                        answer = connection.getresponse()
                        told.append((answer.status, answer.read()))
                    except (OSError, http.client.HTTPException):  # closed while it waited for a request
                        return told
                    if answer.getheader("Connection") == "close":
                        return told

            asked = [pool.submit(ask, n) for n in range(24)]
            wait_until(lambda: items_run(server.metrics()) > 24)
            assert server.stop() == 0
            told = sum((a.result() for a in asked), [])
            assert [one for one in told if one[0] != 200] == []
            assert len(told) > 24


def test_connections_are_kept_a_little_while_draining(tmp_path):
    """Who asks soon after is answered, and told that the connection ends. Ten tries, since this process may be slow itself."""
    def once():
        with Server("--scenario", scenario(tmp_path)) as server:
            with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=600)) as connection:
                connection.connect()
                server.process.send_signal(signal.SIGTERM)
                time.sleep(0.02)
                try:
                    connection.request("POST", "/v2/models/m/infer", json.dumps({"inputs": ONE}))
                    answer = connection.getresponse()
                except (OSError, http.client.HTTPException):
                    return False
                assert answer.status == 200 and answer.getheader("Connection") == "close"
            server.process.wait(timeout=600)
            return True
    assert any(once() for _ in range(10))


def test_a_draining_server_takes_all_who_have_connected(tmp_path):
    """Connections that wait to be accepted are answered, however many they are."""
    body = json.dumps({"inputs": ONE}).encode()
    request = b"POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    with Server("--scenario", scenario(tmp_path)) as server:
        server.hold()
        waiting = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(400)]
        for one in waiting:
            one.settimeout(600)
            one.sendall(request)
        server.process.send_signal(signal.SIGTERM)
        server.process.send_signal(signal.SIGCONT)
        assert [one.makefile("rb").readline() for one in waiting] == [b"HTTP/1.1 200 OK\r\n"] * len(waiting)
        assert server.process.wait(timeout=600) == 0
        for one in waiting:
            one.close()


def test_readiness_fails_first_while_draining(tmp_path):
    with Server("--scenario", scenario(tmp_path), "--drain-grace", "600") as server:
        assert server.request("GET", "/v2/health/ready")[0] == 200
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: server.request("GET", "/v2/health/ready")[0] == 503)
        assert server.request("GET", "/v2/health/live")[0] == 200
        assert server.infer("m", ONE)[0] == 200  # still served
        assert server.stop() == -signal.SIGTERM  # a second one ends it at once


def test_the_grace_of_draining_ends(tmp_path):
    with Server("--scenario", scenario(tmp_path), "--drain-grace", "1") as server:
        assert server.stop() == 0


def test_an_idle_server_sleeps(tmp_path):
    with Server("--scenario", scenario(tmp_path, accelerators=8, models=20)) as server:
        for i in range(20):
            assert server.infer("m-%d" % (i + 1), ONE)[0] == 200

        def rests():
            before = server.cpu_seconds()
            time.sleep(4)
            return server.cpu_seconds() - before <= 0.04  # 1 % of a core; counted in steps of 0.01 s
        wait_until(rests)


def test_killed_under_load_it_comes_up_again_on_the_same_ports(tmp_path):
    path = scenario(tmp_path, accelerators=2, beta_ms=600e3, slo_ms=3600e3)
    body = json.dumps({"inputs": ONE}).encode()
    ports = free_port(), free_port()
    with Server("--scenario", path, http_port=ports[0], metrics_port=ports[1]) as server:
        assert (server.port, server.metrics_port) == ports
        clients = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(300)]
        for client in clients:
            client.sendall(raw_request("m", body))
        wait_until(lambda: server.metrics()["symphony_requests_in_flight"] == 300)
        server.process.kill()
        server.process.wait()
        with Server("--scenario", scenario(tmp_path), http_port=ports[0], metrics_port=ports[1]) as again:
            assert (again.port, again.metrics_port) == ports
            assert again.infer("m", ONE)[0] == 200
            assert again.stop() == 0
        for client in clients:
            client.close()


def test_a_port_in_use_is_one_clear_line(tmp_path):
    path = scenario(tmp_path)
    with Server("--scenario", path) as server:
        second = subprocess.run(
            [BINARY, "serve", "--scenario", path, "--host", "127.0.0.1", "--http-port", str(server.port), "--no-metrics"],
            stderr=subprocess.PIPE, text=True, timeout=600)
        assert second.returncode == 1
        assert "HTTP port %d is in use" % server.port in second.stderr


def test_broken_models_are_set_aside_and_the_others_served(tmp_path):
    repository = tmp_path / "models"
    repository.mkdir()
    shutil.copy(DATA / "mlp.onnx", repository / "good.onnx")
    (repository / "empty.onnx").write_bytes(b"")
    (repository / "garbage.onnx").write_bytes(bytes(range(256)) * 20)
    (repository / "truncated.onnx").write_bytes((DATA / "mlp.onnx").read_bytes()[:-200])
    (repository / "wrong" / "1").mkdir(parents=True)
    shutil.copy(DATA / "mlp.onnx", repository / "wrong" / "1" / "model.onnx")
    (repository / "wrong" / "config.pbtxt").write_text('max_batch_size: "eight"\n')
    with Server("--repository", repository, "--slo-ms", "60000") as server:
        for name in ("empty", "garbage", "truncated", "wrong"):
            status, answer = server.infer(name, [])
            assert status == 503, (name, answer)
            assert name in answer["error"]
        assert "config.pbtxt:1:" in server.infer("wrong", [])[1]["error"]
        inputs = [{"name": "x", "shape": [1, 32], "datatype": "FP32", "data": [1] * 32}]
        assert server.infer("good", inputs)[0] == 200
        assert server.request("GET", "/v2/health/ready")[0] == 200


def test_pipes_in_a_repository_are_not_waited_for(tmp_path):
    """Whoever may write the repository could stop the server, and its looks at the repository, by one of them."""
    pipes = {"config": "config.pbtxt", "settings": "symphony.yaml", "profile": "times", "labels": "names",
             "prepare": "1/prepare.onnx", "model": "1/model.onnx"}
    for name in ("good", *pipes):
        save_model(tmp_path, name, nodes=[helper.make_node("Identity", ["x"], ["y"])],
                   inputs=[("x", TensorProto.UINT8, [4, 4, 3])], outputs=[("y", TensorProto.UINT8, [4, 4, 3])])
    for name, pipe in pipes.items():
        (tmp_path / name / pipe).unlink(missing_ok=True)
        os.mkfifo(tmp_path / name / pipe)
    (tmp_path / "profile/symphony.yaml").write_text("profile: times\n")
    (tmp_path / "labels/config.pbtxt").write_text(
        'output { name: "y" data_type: TYPE_UINT8 dims: [4, 4, 3] label_filename: "names" }\n')
    (tmp_path / "prepare/symphony.yaml").write_text("prepare:\n  - {step: onnx, model: prepare.onnx}\n")
    with Server("--repository", tmp_path, "--slo-ms", "60000") as server:
        for name, pipe in pipes.items():
            status, answer = server.infer(name, [])
            assert status == 503 and pipe in answer["error"] and "file" in answer["error"], (name, answer)
        assert server.request("GET", "/v2/models/good/ready")[0] == 200


@pytest.mark.parametrize("arguments, says", [
    ([], "--repository"),
    (["--repository", "/nonexistent"], "/nonexistent"),
    (["--scenario", "/nonexistent.yaml"], "/nonexistent.yaml"),
    (["--repository", MODELS, "--accelerators", "tpu:2"], "tpu"),
    (["--repository", MODELS, "--policy", "best"], "best"),
    (["--repository", MODELS, "--pin", "9999"], "9999"),
    (["--repository", MODELS, "--http-port", "70000"], "--http-port"),
    (["--repository", MODELS, "--frontends", "65"], "--frontends: '65' is neither auto nor a number from 1 to 64"),
    (["--repository", MODELS, "--frontends", "many"], "--frontends: 'many'"),
    (["--scenario", "x", "--repository", "y"], "--repository"),
    (["--scenario", "x", "--share-prefixes", "on"], "--share-prefixes"),
    (["--repository", MODELS, "--accelerators", "cpu:0"], "--accelerators: '0'"),
    (["--repository", MODELS, "--auth-token-file", "/nonexistent"], "--auth-token-file: /nonexistent"),
    # These are found before a model is looked at, since it might have to be profiled.
    (["--repository", MODELS, "--autoscale", "best=1"], "--autoscale"),
    (["--repository", MODELS, "--accelerators", "emulated:2", "--rank-threads", "3"], "--rank-threads: 3 for 2"),
    (["--repository", MODELS, "--policy", "nexus", "--record-decisions", "/tmp"], "--record-decisions"),
])
def test_wrong_usage_is_one_line_and_status_2(arguments, says):
    run = subprocess.run([BINARY, "serve", *arguments], stderr=subprocess.PIPE, text=True, timeout=600)
    assert run.returncode == 2
    assert says in run.stderr
    assert run.stderr.count("\n") == 1


def test_one_file_is_enough():
    with Server("--repository", DATA / "mlp.onnx", "--slo-ms", "60000") as server:
        status, _, body = server.request("GET", "/v2/models/mlp")
        assert status == 200
        metadata = json.loads(body)
        inputs = [{"name": i["name"], "datatype": i["datatype"], "shape": [1] + i["shape"][1:],
                   "data": [0.5] * i["shape"][1]} for i in metadata["inputs"]]
        assert server.infer("mlp", inputs)[0] == 200


def test_the_engine_reports_to_nobody(tmp_path, monkeypatch):
    """ONNX Runtime, as it is distributed, sends reports to its maker, and keeps them in the home folder until then."""
    monkeypatch.delenv("ORT_DISABLE_TELEMETRY", raising=False)
    home = tmp_path / "home"
    home.mkdir()
    with Server("--repository", DATA / "mlp.onnx", env={"HOME": str(home), "XDG_CACHE_HOME": str(home)}) as server:
        assert server.request("GET", "/v2/models/mlp/ready")[0] == 200
        assert server.stop() == 0
    assert not [path for path in home.rglob("*") if "onnxruntime" in path.name.lower()]


def policies():
    wrong = subprocess.run([BINARY, "serve", "--policy", "nope", "--scenario", "x.yaml"], stderr=subprocess.PIPE, text=True)
    assert wrong.returncode == 2 and "there is no policy 'nope'" in wrong.stderr
    return wrong.stderr[wrong.stderr.index("expected ") + len("expected "):].strip().rstrip(")").split(", ")


POLICIES = {"deferred", "symphony", "eager", "clockwork", "nexus", "kairos", "timeout", "fifo"}


def test_these_are_all_policies():
    assert set(policies()) == POLICIES


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_every_policy_serves(tmp_path, policy):
    path = scenario(tmp_path, accelerators=2, alpha_ms=1, beta_ms=5, slo_ms=1000, models=3)
    with Server("--scenario", path, "--policy", policy) as server:
        with concurrent.futures.ThreadPoolExecutor(30) as pool:  # all at once: a policy may wait for company for as long as it can
            statuses = []
            while statuses.count(200) < 60:  # on a busy machine some may miss their deadlines; or the test's time is over
                statuses += pool.map(lambda i: server.infer("m-%d" % (1 + i % 3), ONE)[0], range(30))
        good = statuses.count(200)
        assert good + statuses.count(503) == len(statuses)
        # a batch is counted a moment after it was sent
        wait_until(lambda: sum(items_run(server.metrics(), "m-%d" % m) for m in (1, 2, 3)) >= good)
        assert server.stop() == 0


def planted(models, model, other):
    """Puts the optimised copy of another model where the model's own is, as whoever can write there may; gives its files."""
    own, foreign = (models / name / "1" / ".symphony" for name in (model, other))
    verdict = next(own.glob("*.cache.json"))
    forged = json.loads(verdict.read_text())
    forged.update({key: json.loads((foreign / verdict.name).read_text())[key] for key in ("format", "files")})
    for file in own.glob("*.cache.*"):
        file.unlink()
    for file in forged["files"]:
        shutil.copy(foreign / file["name"], own)
    verdict.write_text(json.dumps(forged))
    return [verdict, *(own / file["name"] for file in forged["files"])]


def test_planted_copies_and_profiles_are_not_believed(tmp_path):
    """What others may have written, because they may write it or its folder, is ignored with one line, and made again."""
    for name, node in (("same", helper.make_node("Abs", ["x"], ["y"])), ("negated", helper.make_node("Neg", ["x"], ["y"]))):
        save_model(tmp_path, name, [node], [("x", TensorProto.FLOAT, ["N", 4])], [("y", TensorProto.FLOAT, ["N", 4])])
    options = "--repository", str(tmp_path), "--slo-ms", "60000"
    asked = [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]
    folder = tmp_path / "same" / "1" / ".symphony"

    def answer(server):
        status, body = server.infer("same", asked)
        assert status == 200
        return body["outputs"][0]["data"]

    with Server(*options) as server:
        assert answer(server) == [1, 2, 3, 4] and server.stop() == 0
    profile = next(folder.glob("*.profile.json"))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}
    files = planted(tmp_path, "same", "negated")
    for file in files:
        file.chmod(0o644)
    with Server(*options) as server:  # this is what such a copy can do
        assert answer(server) == [-1, -2, -3, -4] and server.stop() == 0
    for file in files:
        file.chmod(0o666)
    with Server(*options) as server:
        assert answer(server) == [1, 2, 3, 4] and server.stop() == 0
        assert "cached file not used" in server.log_text()
    for file in files:
        file.chmod(0o644)
    profile.chmod(0o666)
    with Server(*options) as server:  # measured again, and copied again
        assert answer(server) == [1, 2, 3, 4] and server.stop() == 0
        assert server.log_text().count(f'msg="cached file not used" file="{profile}"') == 1
    assert stat.S_IMODE(profile.stat().st_mode) == 0o600
    planted(tmp_path, "same", "negated")
    folder.chmod(0o777)
    with Server(*options) as server:
        assert answer(server) == [1, 2, 3, 4] and server.stop() == 0
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755


@pytest.mark.parametrize("options", [["--outstanding", "100"], ["--in-place", "--pause-us", "100"]])
def test_requests_from_within_the_process_go_the_same_way(tmp_path, options):
    shutil.copy(DATA / "mlp.onnx", tmp_path)
    inside = pathlib.Path(BINARY).parent / "bench_inside"
    for seconds in ("1", "5", "25"):  # for longer if the machine stood still
        said = subprocess.run([inside, tmp_path, "mlp", "--seconds", seconds, *options], stdout=subprocess.PIPE, check=True).stdout
        result = json.loads(said)
        if result["requests"] > 10:
            break
    assert result["failed"] == 0 and result["requests"] > 10
    assert 0 < result["p50_us"] <= result["p99_us"]


def test_the_server_serves_without_the_lab(tmp_path):
    binary = pathlib.Path(BINARY).with_name("symphony-server")
    shutil.copy(DATA / "mlp.onnx", tmp_path)
    said = subprocess.run([binary, "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout
    assert [line.split()[0] for line in said.split("Commands:\n")[1].split("\n\n")[0].splitlines()] == \
        "backend cordon drain frontend profile rollout scheduler serve status timeline top uncordon".split()
    refused = subprocess.run([binary, "bench"], capture_output=True, text=True)
    assert refused.returncode == 2 and "unknown command 'bench'" in refused.stderr
    server = Server("--repository", tmp_path)
    server.args[0] = str(binary)
    with server:  # it measures the model by a process of the same program
        assert server.request("GET", "/v2/models/mlp/ready")[0] == 200 and server.stop() == 0
