"""test_isolate.py - `serve --isolate`: what ends an accelerator's process costs the requests of its run, and no others."""
# sanitizers: address thread
# quick sanitizers: address
# shards: 2
import base64
import concurrent.futures
import json
import os
import pathlib
import platform
import re
import shutil
import signal
import subprocess
import time

import pytest
from onnx import TensorProto, helper

from repository import measured_once, save_model
from server import BINARY, TSAN_OPTIONS, Server, wait_until

INT64, LEAST = TensorProto.INT64, -2**63
os.environ["SYMPHONY_TEST_TRAPS"] = "1"
# Sanitizers would take the signal of a trap, and look up lines for a report for longer than everything else takes.
for sanitizer in "ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS":
    own = TSAN_OPTIONS if sanitizer == "TSAN_OPTIONS" else ""
    os.environ[sanitizer] = os.environ.get(sanitizer, own) + ":handle_sigfpe=0"
traps = pytest.mark.skipif(platform.machine() != "x86_64", reason="elsewhere the lowest number divided by -1 is no trap")


ROUNDS = 1 if os.environ.get("SYMPHONY_SANITIZED") and not os.environ.get("SYMPHONY_TEST_ALL") else 3


def repeats(item):
    """A request that traps, and a process that is killed, once."""
    return item.name in ("test_poison_in_a_loop_takes_no_more_than_its_own", "test_a_process_that_is_killed_costs_no_request[emulated:2]")


@measured_once
def save_div(folder, name="div"):
    """y = x / (k - 2), of which (LEAST, 1) traps in the engine; waits for company."""
    two = helper.make_tensor("two", INT64, [1], [2])
    save_model(folder, name, [helper.make_node("Sub", ["k", "two"], ["d"]), helper.make_node("Div", ["x", "d"], ["y"])],
               [("x", INT64, ["N", 1]), ("k", INT64, ["N", 1])], [("y", INT64, ["N", 1])], [two])
    (folder / name / "config.pbtxt").write_text(
        "max_batch_size: 64 dynamic_batching { preferred_batch_size: [ 64 ] max_queue_delay_microseconds: 100000 }")


def inputs(x, k=5):
    return [{"name": tensor, "datatype": "INT64", "shape": [1, 1], "data": [value]} for tensor, value in (("x", x), ("k", k))]


def ask(server, x, k=5, name="div"):
    return server.infer(name, inputs(x, k))


def told(server, x, name="div"):
    """True, or what was said instead."""
    status, answer = ask(server, x, name=name)
    return True if status == 200 and answer["outputs"][0]["data"] == [x // 3] else (status, answer)


def ended(server):
    return server.log_text().count('msg="backend ended; it is started again"')


def isolated(folder, *more):
    return Server("--repository", folder, "--isolate", "on", "--slo-ms", "120000", "--pin", "none", *more)


@traps
def test_a_request_that_traps_is_answered_500_after_two_ends(tmp_path):
    """Whatever ran or waited beside it is answered, right."""
    save_div(tmp_path)
    save_div(tmp_path, "other")
    with isolated(tmp_path, "--accelerators", "cpu:2") as server, concurrent.futures.ThreadPoolExecutor(64) as pool:
        for round_ in range(1, ROUNDS + 1):
            good = [pool.submit(told, server, x, name) for x in range(50) for name in ("div", "other")]
            poison = pool.submit(ask, server, LEAST, 1)
            good += [pool.submit(told, server, x, name) for x in range(50) for name in ("div", "other")]
            assert poison.result() == (500, {"error": "model 'div' failed: 2 accelerators failed while they ran this request; "
                                                      "it is not sent to another"})
            assert {str(one.result()) for one in good} == {"True"}
            wait_until(lambda: ended(server) == 2 * round_ and len(server.children()) == 2)
        assert server.log_text().count("Floating point exception") == 2 * ROUNDS
        assert server.stop() == 0


@traps
def test_poison_in_a_loop_takes_no_more_than_its_own(tmp_path):
    save_div(tmp_path)
    with isolated(tmp_path, "--accelerators", "cpu:2") as server, concurrent.futures.ThreadPoolExecutor(64) as pool:
        poisons = [pool.submit(lambda: [ask(server, LEAST, 1)[0] for _ in range(3)]) for _ in range(2)]
        good, x = [], 0
        while not all(one.done() for one in poisons):
            good.append(told(server, x))
            x += 1
        assert [one.result() for one in poisons] == [[500] * 3] * 2
        assert {str(one) for one in good} == {"True"} and told(server, 7) is True
        wait_until(lambda: len(server.children()) == 2)
        assert ended(server) <= 2 * 6
        assert server.stop() == 0


def test_a_log_is_opened_anew_before_the_models_are_ready(tmp_path):
    models, log = tmp_path / "models", tmp_path / "access.log"
    models.mkdir()
    save_div(models)
    server = isolated(models, "--accelerators", "cpu:1", "--access-log", log)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        start = pool.submit(server.start)
        try:
            wait_until(lambda: start.done() or (server.process and server.children()))
            child, = server.children()
            os.kill(child, signal.SIGSTOP)
            log.rename(tmp_path / "old")
            server.process.send_signal(signal.SIGHUP)
            wait_until(lambda: start.done() or log.exists())
            assert log.exists()
            os.kill(child, signal.SIGCONT)
            start.result()
            assert told(server, 7) is True and server.stop() == 0
        finally:
            server.__exit__(None, None, None)


@pytest.mark.parametrize("accelerators, more", [("cpu:2", []), ("emulated:2", []), ("cpu:2", ["--memory-mib", "1024"])],
                         ids=["cpu:2", "emulated:2", "memory"])
def test_a_process_that_is_killed_costs_no_request(tmp_path, accelerators, more):
    save_div(tmp_path)
    right = told if accelerators == "cpu:2" else lambda server, x: ask(server, x)[0] == 200
    with isolated(tmp_path, "--accelerators", accelerators, *more) as server, \
            concurrent.futures.ThreadPoolExecutor(64) as pool:
        for round_ in range(1, ROUNDS + 1):
            good = [pool.submit(right, server, x) for x in range(200)]
            wait_until(lambda: any(one.done() for one in good))
            os.kill(server.children()[0], signal.SIGKILL)
            assert {str(one.result()) for one in good} == {"True"}
            wait_until(lambda: ended(server) == round_ and len(server.children()) == 2)
        assert server.stop() == 0


def test_the_metrics_have_models_and_accelerators(tmp_path):
    save_div(tmp_path)
    with isolated(tmp_path, "--accelerators", "cpu:1") as server:
        def shown(*names):
            metrics = server.metrics()
            return [metrics.get(name) for name in names]

        items, model = 'symphony_accelerator_items_total{accelerator="0",type="cpu"}', '{model="div",version="1"}'
        assert told(server, 3) is True
        wait_until(lambda: shown(items, "symphony_accelerators_serving", "symphony_batch_size_sum" + model,
                                 "symphony_run_duration_seconds_count" + model, "symphony_queued_requests" + model, "nv_inference_exec_count" + model) == [1, 1, 1, 1, 0, 1])
        assert json.loads(server.request("GET", "/v2/models/div/stats")[2])["model_stats"][0]["execution_count"] == 1
        os.kill(server.children()[0], signal.SIGKILL)
        wait_until(lambda: ended(server) == 1)
        assert told(server, 3) is True
        wait_until(lambda: shown(items, "symphony_accelerators_serving") == [2, 1])  # the next process counts on
        assert server.stop() == 0


def test_a_drained_accelerator_stays_so_in_its_next_process(tmp_path):
    save_div(tmp_path)
    with isolated(tmp_path, "--accelerators", "cpu:2", "--accelerator-control") as server:
        def states():
            return [one["state"] for one in json.loads(server.request("GET", "/v2/symphony/accelerators")[2])]

        def order(number, action):
            return server.request("POST", "/v2/symphony/accelerators/%d" % number, json.dumps({"action": action}))[0]

        assert states() == ["serving"] * 2 and order(0, "drain") == 200
        wait_until(lambda: states() == ["gone", "serving"])
        for pid in server.children():
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: ended(server) == 2 and states() == ["gone", "serving"])
        assert told(server, 8) is True
        items = 'symphony_accelerator_items_total{accelerator="%d",type="cpu"}'
        assert [server.metrics()[items % n] for n in (0, 1)] == [0, 1]
        assert order(0, "join") == 200
        wait_until(lambda: states() == ["serving"] * 2)
        assert server.stop() == 0


def test_children_are_limited_and_end_with_their_parent(tmp_path):
    save_div(tmp_path)
    with isolated(tmp_path, "--accelerators", "cpu:1,emulated:1:other") as server:
        pids = server.children()
        names = set()
        for pid in pids:
            proc = pathlib.Path("/proc/%d" % pid)
            names.add((proc / "comm").read_text().strip())
            status = (proc / "status").read_text()
            assert "NoNewPrivs:\t1" in status
            assert "Seccomp:" not in status or "Seccomp:\t2" in status  # no sockets of a network, where the kernel has filters
            assert [line.split()[4:6] for line in (proc / "limits").read_text().splitlines() if "core file" in line] == [["0", "0"]]
            data, = [line.split()[3:5] for line in (proc / "limits").read_text().splitlines() if "data size" in line]
            assert os.environ.get("SYMPHONY_SANITIZED") or max(map(int, data)) <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") + 2**30
            assert os.getpgid(pid) == pid  # a terminal's signals go to the parent alone
        assert names == {"accelerator-0", "accelerator-1"}
        assert "process=accelerator-1 msg=" in server.log_text()
        server.process.kill()
        server.process.wait()
        wait_until(lambda: not any(os.path.exists("/proc/%d/exe" % pid) for pid in pids))


@pytest.mark.parametrize("options, children, line", [
    (["--model-control-mode", "explicit", "--load-model", "div", "--memory-mib", "1024"], 1,
     'msg="clients may send models: each accelerator has a process of its own" instead="--isolate off"'),
    ([], 0, 'msg="a model that crashes ends the server" instead="--isolate on"')], ids=["explicit", "none"])
def test_it_is_the_default_where_clients_send_models(tmp_path, options, children, line):
    save_div(tmp_path)
    with Server("--repository", tmp_path, "--slo-ms", "120000", "--pin", "none", "--accelerators", "cpu:1", *options) as server:
        assert len(server.children()) == children and line in server.log_text()
        assert told(server, 8) is True
        assert server.stop() == 0


def test_requests_in_flight_are_answered_before_it_ends(tmp_path):
    save_div(tmp_path)
    with isolated(tmp_path, "--accelerators", "cpu:1") as server, concurrent.futures.ThreadPoolExecutor(16) as pool:
        pids = server.children()
        good = [pool.submit(told, server, x) for x in range(16)]
        sent = sum(len(json.dumps({"inputs": inputs(x)})) for x in range(16))
        wait_until(lambda: server.metrics()["symphony_request_bytes_total"] == sent)
        assert server.stop() == 0
        assert {str(one.result()) for one in good} == {"True"}
        assert not any(os.path.exists("/proc/%d/exe" % pid) for pid in pids)


def test_a_model_set_aside_says_why(tmp_path):
    save_div(tmp_path)
    (tmp_path / "bad" / "1").mkdir(parents=True)
    (tmp_path / "bad" / "1" / "model.onnx").write_bytes(b"no model")
    with isolated(tmp_path, "--accelerators", "cpu:1") as server, \
            Server("--repository", tmp_path, "--accelerators", "cpu:1") as plain:
        assert told(server, 8) is True
        both = [one.infer("bad", []) for one in (server, plain)]
        assert both[0] == both[1] and both[0][0] != 404
        for one in server, plain:
            assert re.search(r'msg="model set aside" model=bad reason=".*Protobuf parsing failed', one.log_text())
        assert server.request("GET", "/v2/health/ready")[0] == 200


def test_models_of_the_repository_come_and_go(tmp_path):
    save_div(tmp_path)
    with isolated(tmp_path, "--accelerators", "cpu:2", "--model-control-mode", "poll", "--repository-poll-secs",
                  "0.1") as server:
        assert told(server, 8) is True
        save_div(tmp_path, "late")
        wait_until(lambda: server.request("GET", "/v2/models/late/ready")[0] == 200)
        assert told(server, 9, "late") is True
        os.kill(server.children()[0], signal.SIGKILL)  # the next one finds it, too
        wait_until(lambda: ended(server) == 1 and len(server.children()) == 2)
        assert told(server, 9, "late") is True
        (tmp_path / "late" / "1" / "model.onnx").unlink()
        (tmp_path / "late" / "config.pbtxt").unlink()
        os.rename(tmp_path / "late", tmp_path.parent / "gone")
        wait_until(lambda: server.request("GET", "/v2/models/late/ready")[0] != 200)
        assert told(server, 8) is True
        assert server.stop() == 0


def kill_one(server):
    before = ended(server)
    os.kill(server.children()[0], signal.SIGKILL)
    wait_until(lambda: ended(server) == before + 1 and len(server.children()) == 2)


def test_clients_load_and_unload_models(tmp_path):
    """Each process has what is loaded, and one that is started again, too."""
    save_div(tmp_path)
    save_div(tmp_path, "late")
    with isolated(tmp_path, "--accelerators", "cpu:2", "--model-control-mode", "explicit", "--load-model", "div") as server:
        assert told(server, 8) is True and ask(server, 9, name="late")[0] != 200
        assert server.order("late", "load")[0] == 200
        assert told(server, 9, "late") is True
        for _ in range(2):
            kill_one(server)
            assert {told(server, x, name) for x in range(20) for name in ("div", "late")} == {True}
        assert server.order("late", "unload")[0] == 200
        assert ask(server, 9, name="late")[0] != 200
        kill_one(server)
        assert told(server, 8) is True and ask(server, 9, name="late")[0] != 200
        status, body = server.order("nowhere", "load")
        with Server("--repository", tmp_path, "--model-control-mode", "explicit", "--accelerators", "cpu:1") as plain:
            assert (status, body) == plain.order("nowhere", "load") and status != 200
        assert server.stop() == 0


def save_add(folder, number, name="add"):
    """y = x + number"""
    shutil.rmtree(folder / name, ignore_errors=True)
    save_model(folder, name, [helper.make_node("Add", ["x", "n"], ["y"])], [("x", INT64, ["N", 1])],
               [("y", INT64, ["N", 1])], [helper.make_tensor("n", INT64, [1], [number])])
    (folder / name / "symphony.yaml").write_text("max_batch: 1\n")  # it is soon measured


TEN = {"inputs": [{"name": "x", "datatype": "INT64", "shape": [1, 1], "data": [10]}]}


def added(server, name="add"):
    """What the model adds, or what was said instead."""
    status, answer = server.infer(name, TEN["inputs"])
    return answer["outputs"][0]["data"][0] - 10 if status == 200 else (status, answer)


def explicit(folder, *more):
    return isolated(folder, "--accelerators", "cpu:2", "--model-control-mode", "explicit", "--head-timeout", "600", *more)


class Upload:
    """A request whose body stops in the middle."""

    def __init__(self, server, name="add"):
        self.body = json.dumps(TEN).encode()
        self.connection = server.connect()
        self.connection.putrequest("POST", "/v2/models/%s/infer" % name)
        self.connection.putheader("Content-Length", str(len(self.body)))
        self.connection.endheaders()
        self.connection.send(self.body[:10])
        wait_until(lambda: server.metrics()["symphony_requests_in_flight"] >= 1)

    def end(self):
        """What the model that it asked for adds, or what was said instead."""
        self.connection.send(self.body[10:])
        answer = self.connection.getresponse()
        text = answer.read()
        self.connection.close()
        return json.loads(text)["outputs"][0]["data"][0] - 10 if answer.status == 200 else (answer.status, text)


def test_a_model_that_is_replaced_answers_no_more(tmp_path):
    """Once its order is answered."""
    save_add(tmp_path, 1)
    with explicit(tmp_path, "--load-model", "add") as server:
        for number in range(2, 7):
            save_add(tmp_path, number)
            assert server.order("add", "load")[0] == 200
            assert added(server) == number
        assert server.stop() == 0


def test_a_request_under_way_ends_on_the_model_that_it_began_with(tmp_path):
    """However long its body takes, and whatever takes over, as without processes."""
    save_add(tmp_path, 1)
    with explicit(tmp_path, "--load-model", "add") as server:
        first = Upload(server)
        save_add(tmp_path, 2)
        assert server.order("add", "load")[0] == 200
        assert added(server) == 2
        second = Upload(server)
        save_add(tmp_path, 3)
        assert server.order("add", "load")[0] == 200
        assert added(server) == 3
        time.sleep(1.5)  # more than a cluster's frontends give it
        assert (first.end(), second.end(), added(server)) == (1, 2, 3)
        assert server.stop() == 0


def test_a_request_under_way_delays_no_order(tmp_path):
    save_add(tmp_path, 1)
    save_add(tmp_path, 5, "other")
    with explicit(tmp_path, "--load-model", "add") as server:
        slow = Upload(server)
        assert server.order("add", "unload")[0] == 200
        for _ in range(2):
            assert server.order("other", "load")[0] == 200
            assert added(server, "other") == 5
            assert server.order("other", "unload")[0] == 200
        kill_one(server)  # the next one does not have what the request needs
        assert server.order("other", "load")[0] == 200
        assert added(server, "other") == 5
        assert slow.end() == 1
        assert server.stop() == 0


def test_what_one_process_cannot_load_none_serves(tmp_path):
    """What was served before goes on, in all of them."""
    save_add(tmp_path, 1)
    with explicit(tmp_path, "--load-model", "add") as server, concurrent.futures.ThreadPoolExecutor(1) as pool:
        later, prepared = server.children()[1], 'process=accelerator-0 msg="model prepared"'
        before = server.log_text().count(prepared)
        save_add(tmp_path, 2)
        os.kill(later, signal.SIGSTOP)
        try:
            order = pool.submit(server.order, "add", "load")
            wait_until(lambda: server.log_text().count(prepared) > before)
            (tmp_path / "add" / "1" / "model.onnx").write_bytes(b"no model")
        finally:
            os.kill(later, signal.SIGCONT)
        assert order.result()[0] == 400
        assert {added(server) for _ in range(40)} == {1}
        save_add(tmp_path, 3)
        assert server.order("add", "load")[0] == 200
        assert {added(server) for _ in range(40)} == {3}
        assert server.stop() == 0


def test_an_ensemble_that_does_not_fit_replaces_none(tmp_path):
    """Its steps run in the processes, which can say so before any of them lets the present one go."""
    def save_ensemble(tensor):
        (tmp_path / "twice" / "1").mkdir(parents=True, exist_ok=True)
        (tmp_path / "twice" / "config.pbtxt").write_text(
            'platform: "ensemble" max_batch_size: 1 input { name: "x" data_type: TYPE_INT64 dims: 1 } '
            'output { name: "y" data_type: TYPE_INT64 dims: 1 } ensemble_scheduling { '
            'step { model_name: "add" input_map { key: "%s" value: "x" } output_map { key: "y" value: "z" } } '
            'step { model_name: "add" input_map { key: "x" value: "z" } output_map { key: "y" value: "y" } } }' % tensor)

    save_add(tmp_path, 1)
    save_ensemble("x")
    with explicit(tmp_path, "--load-model", "twice") as server:
        assert added(server, "twice") == 2
        save_ensemble("none")
        status, body = server.order("twice", "load")
        assert status == 400 and b"the model has no input 'none'" in body
        assert {added(server, "twice") for _ in range(10)} == {2}
        save_ensemble("x")
        assert server.order("twice", "load")[0] == 200
        assert added(server, "twice") == 2
        assert server.stop() == 0


def test_a_model_that_a_client_sent_is_listed_until_its_last_request_is_answered(tmp_path):
    (tmp_path / "models").mkdir()
    save_add(tmp_path / "models", 5, "other")
    save_add(tmp_path, 1)
    content = base64.b64encode((tmp_path / "add" / "1" / "model.onnx").read_bytes()).decode()

    def state():
        index = json.loads(server.request("POST", "/v2/repository/index")[2])
        return [(one["state"], one.get("reason", "")) for one in index if one["name"] == "add"]

    with explicit(tmp_path / "models", "--repository-poll-secs", "0.1") as server:
        parameters = {"config": json.dumps({"max_batch_size": 0}), "file:1/model.onnx": content}
        assert server.request("POST", "/v2/repository/models/add/load", json.dumps({"parameters": parameters}))[0] == 200
        assert state() == [("READY", "")]
        slow = Upload(server)
        assert server.order("add", "unload")[0] == 200
        for _ in range(5):
            assert state() == [("UNLOADING", "")]
            assert server.order("other", "load")[0] == server.order("other", "unload")[0] == 200  # the list is made anew
        assert slow.end() == 1
        wait_until(lambda: state() == [])
        assert server.stop() == 0


def test_rows_of_another_number_are_answered(tmp_path):
    """As without processes: an output has as many rows as the model says, however many items were asked for."""
    save_model(tmp_path, "drops", [helper.make_node("Compress", ["x", "keep"], ["y"], axis=0)], [("x", INT64, ["N", 1])],
               [("y", INT64, ["M", 1])], [helper.make_tensor("keep", TensorProto.BOOL, [1], [True])])
    (tmp_path / "drops" / "symphony.yaml").write_text("batch: true\n")
    with isolated(tmp_path, "--accelerators", "cpu:1") as server:
        status, answer = server.infer("drops", [{"name": "x", "datatype": "INT64", "shape": [2, 1], "data": [7, 8]}])
        assert status == 200 and answer["outputs"][0]["data"] == [7], answer
        assert server.stop() == 0


@traps
def test_a_model_that_a_client_sends_ends_no_other(tmp_path):
    """It is loaded again in a process that is started again; the repository does not have it."""
    (tmp_path / "models").mkdir()
    save_div(tmp_path / "models")
    save_div(tmp_path, "sent")
    content = base64.b64encode((tmp_path / "sent" / "1" / "model.onnx").read_bytes()).decode()
    parameters = {"config": json.dumps({"max_batch_size": 64}), "file:1/model.onnx": content}
    with isolated(tmp_path / "models", "--accelerators", "cpu:2", "--model-control-mode", "explicit", "--load-model",
                  "*") as server:
        status, _, body = server.request("POST", "/v2/repository/models/sent/load", json.dumps({"parameters": parameters}))
        assert status == 200, body
        for _ in range(min(ROUNDS, 2)):
            assert ask(server, LEAST, 1, "sent")[0] == 500
            assert {told(server, x, name) for x in range(20) for name in ("div", "sent")} == {True}
        assert server.stop() == 0


@pytest.mark.parametrize("option", [("--share-prefixes", "on")])
def test_what_does_not_go_with_it(tmp_path, option):
    save_div(tmp_path)
    done = subprocess.run([BINARY, "serve", "--repository", tmp_path, "--isolate", "on", *option], capture_output=True, text=True)
    assert done.returncode == 2 and "--isolate on does not go with " + " ".join(option) in done.stderr


def test_what_cannot_start_ends_as_without_it(tmp_path):
    """The same status, and the same reason."""
    save_div(tmp_path)
    for options, status, reason in ((["--auth-token-file", tmp_path / "none"], 2, "--auth-token-file"),
                                    (["--accelerators", "cuda:1"], 1, "accelerator ")):
        for isolate in "on", "off":
            done = subprocess.run([BINARY, "serve", "--repository", tmp_path, "--model-control-mode", "explicit", "--http-port", "0",
                                   "--grpc-port", "0", "--metrics-port", "0", "--isolate", isolate, *options], capture_output=True, text=True,
                                  env={"TSAN_OPTIONS": TSAN_OPTIONS, **os.environ})
            assert (done.returncode, reason in done.stderr) == (status, True), done.stderr


def test_nobody_else_is_such_a_child(tmp_path):
    save_div(tmp_path)
    done = subprocess.run([BINARY, "backend", "--join", "127.0.0.1:1", "--repository", tmp_path, "--isolated", "0"],
                          capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 2 and "'symphony serve --isolate'" in done.stderr
