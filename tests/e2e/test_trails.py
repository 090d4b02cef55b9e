"""test_trails.py - why requests were refused or late: what the answers say, and what the server keeps of them."""
# sanitizers: address thread

import concurrent.futures
import contextlib
import http.server
import json
import re
import resource
import signal
import subprocess
import threading
import time

import numpy as np
import pytest
import tritonclient.grpc as grpc
import tritonclient.http as triton_http
from onnx import TensorProto, helper

from repository import measure, save_model
from server import BINARY, Server, http_request, wait_until

INPUT = [{"name": "INPUT", "datatype": "FP32", "shape": [1, 1], "data": [0]}]
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
RUN_TAKES = r"a run takes 3\d(\.\d+)? ms"  # 30, and what runs took here
# `m` is flooded; a batch of 8 items takes its whole SLO. `heavy` has a share of its own.
SCENARIO = """
cluster: {accelerators: 1, type: slow}
models:
  - {name: m, alpha_ms: 10, beta_ms: 20, slo_ms: 100}
  - {name: heavy, alpha_ms: 10, beta_ms: 20, slo_ms: 100, weight: 4}
  - {name: m3, alpha_ms: 1, beta_ms: 300, slo_ms: 60000}
  - {name: patient, alpha_ms: 1, beta_ms: 1, slo_ms: 60000}
workload: {rate_rps: 1}
policy: {name: deferred}
run: {seconds: 1, seed: 1}
"""


@pytest.fixture(scope="module")
def scenario(tmp_path_factory):
    path = tmp_path_factory.mktemp("trails") / "scenario.yaml"
    path.write_text(SCENARIO)
    return str(path)


@pytest.fixture(scope="module")
def server(scenario):
    """Its tables are never corrected: however slow this machine is, runs are as long as they should be."""
    with Server("--scenario", scenario, "--no-learn", "--trails-every", 1) as running:
        yield running


def infer(server, model, headers=None, inputs=INPUT, **more):
    status, headers, body = server.request("POST", f"/v2/models/{model}/infer", json.dumps({"inputs": inputs, **more}), headers)
    return status, {name.lower(): value for name, value in headers.items()}, json.loads(body)


def get(server, path, headers=None):
    status, _, body = http_request(server.metrics_port, "GET", path, headers=headers)
    return status, body


def trails(server, **query):
    status, body = get(server, "/v2/symphony/requests?" + "&".join(f"{key}={value}" for key, value in query.items()))
    assert status == 200, body
    return json.loads(body)["requests"]


def trail_of(server, request_id):
    """It is kept a moment after the answer has gone out."""
    wait_until(lambda: trails(server, id=request_id))
    return trails(server, id=request_id)[0]


def flood(server, model, count, every_s=0):
    """So many requests at once, or at least so long apart; their answers."""
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(contextlib.closing(server.connect())) for _ in range(count)]
        for connection in connections:
            connection.request("POST", f"/v2/models/{model}/infer", json.dumps({"inputs": INPUT}))
            time.sleep(every_s)
        answers = [connection.getresponse() for connection in connections]
        return [(answer.status, dict(answer.getheaders()), json.loads(answer.read())) for answer in answers]


@contextlib.contextmanager
def asked(server, model, count):
    """Meanwhile so many clients ask for it, each again when all are answered: a load that is there on any machine."""
    over = threading.Event()

    def ask():
        while not over.is_set():
            flood(server, model, count)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        asking = pool.submit(ask)
        try:
            yield
        finally:
            over.set()
        asking.result()


def until_said(ask, pattern):
    """Asks until an answer's error says it; the answer. What this machine does meanwhile may be another reason."""
    found = []

    def said():
        found.extend(answer for answer in ask() if re.search(pattern, answer[2].get("error", "")))
        return found
    wait_until(said, seconds=600)
    return found[0]


# ---- ids ----

def test_the_clients_id_comes_back(server):
    status, headers, answer = infer(server, "patient", id="abc-1", headers={"X-Request-Id": "other"})
    assert status == 200 and headers["x-request-id"] == "abc-1" and answer["id"] == "abc-1"
    assert infer(server, "patient", headers={"X-Request-Id": "other"})[1]["x-request-id"] == "other"
    assert infer(server, "patient", headers={"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"})[1]["x-request-id"] == TRACE
    both = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01", "X-Request-Id": "mine"}
    assert infer(server, "patient", headers=both)[1]["x-request-id"] == "mine"
    assert infer(server, "patient", id="x" * 100)[1]["x-request-id"] == "x" * 64


def test_an_id_is_made(server):
    made = {infer(server, "patient", id=none)[1]["x-request-id"] for none in ("", None, "two words", "a\r\nx: y", "ü")}
    assert len(made) == 5 and all(re.fullmatch("[0-9a-f]{16}", one) for one in made)


def test_ids_over_grpc(server):
    """With a client that shows headers: of an answer, and of a refusal."""
    import grpc as plain
    from tritonclient.grpc import service_pb2, service_pb2_grpc
    with plain.insecure_channel("127.0.0.1:%d" % server.grpc_port) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)

        def request(**more):
            wanted = service_pb2.ModelInferRequest(model_name="m", **more)
            wanted.inputs.add(name="INPUT", datatype="FP32", shape=[1, 1])
            wanted.raw_input_contents.append(bytes(4))
            return wanted
        long = {"timeout": service_pb2.InferParameter(int64_param=60_000_000)}
        _, call = stub.ModelInfer.with_call(request(id="abc-2", parameters=long), timeout=600)
        assert dict(call.initial_metadata())["x-request-id"] == "abc-2"
        _, call = stub.ModelInfer.with_call(request(parameters=long), metadata=[("x-request-id", "mine")], timeout=600)
        assert dict(call.initial_metadata())["x-request-id"] == "mine"
        short = {"timeout": service_pb2.InferParameter(int64_param=1), "trail": service_pb2.InferParameter(bool_param=True)}
        with pytest.raises(plain.RpcError) as refused:
            stub.ModelInfer(request(parameters=short), timeout=600)
        told = {**dict(refused.value.initial_metadata()), **dict(refused.value.trailing_metadata())}
        assert refused.value.code() == plain.StatusCode.UNAVAILABLE
        assert re.search(RUN_TAKES + ", and 0.001 ms were left for all", refused.value.details())
        assert told["x-symphony-reason"] == "deadline_too_short" and told["x-symphony-state"] == "refused"
        assert trail_of(server, told["x-request-id"])["reason"] == "deadline_too_short"


# ---- times ----

def test_times_come_with_the_answer(server):
    for more, headers in [({"parameters": {"trail": True}}, {}), ({}, {"X-Symphony-Trail": "1"})]:
        status, told, _ = infer(server, "patient", headers=headers, **more)
        assert status == 200 and told["x-symphony-state"] == "in_time"
        assert told["x-symphony-batch"] == "1" and told["x-symphony-accelerator"] == "0"
        assert float(told["x-symphony-predicted-ms"]) == 2
        assert float(told["x-symphony-took-ms"]) >= float(told["x-symphony-run-ms"]) >= 2
        kept = trail_of(server, told["x-request-id"])
        assert kept["model"] == "patient" and kept["state"] == "in_time" and kept["batch"] == 1
        assert abs(kept["run_ms"] - float(told["x-symphony-run-ms"])) < 0.01
    assert not any(name.startswith("x-symphony") for name in infer(server, "patient")[1])
    assert infer(server, "patient", parameters={"trail": 1})[0] == 400


def test_times_over_tritonclient(server):
    with triton_http.InferenceServerClient("127.0.0.1:%d" % server.port, network_timeout=600) as client:
        x = triton_http.InferInput("INPUT", [1, 1], "FP32")
        x.set_data_from_numpy(np.zeros((1, 1), np.float32))
        answer = client.infer("patient", [x], request_id="triton-1", parameters={"trail": True})
        assert answer.get_response()["id"] == "triton-1"
    assert trail_of(server, "triton-1")["state"] == "in_time"
    with grpc.InferenceServerClient("127.0.0.1:%d" % server.grpc_port) as client:
        x = grpc.InferInput("INPUT", [1, 1], "FP32")
        x.set_data_from_numpy(np.zeros((1, 1), np.float32))
        client.infer("patient", [x], request_id="triton-2", parameters={"trail": True})
    assert trail_of(server, "triton-2")["accelerator"] == 0


# ---- reasons ----

def test_a_deadline_may_be_too_short(server):
    status, headers, answer = infer(server, "m", id="short", parameters={"timeout": 1000})
    assert status == 503 and "retry-after" not in headers
    assert re.search(RUN_TAKES + r", and 1 ms were left for all; a deadline of 3\d(\.\d+)? ms or more lets it run", answer["error"])
    kept = trail_of(server, "short")
    assert kept["state"] == "refused" and kept["status"] == 503 and kept["reason"] == "deadline_too_short"


def test_overload(server):
    """It says so, and how many accelerators would be enough."""
    answer = until_said(lambda: flood(server, "m", 40), "given up: [0-9]+ later ones fit instead while the load is "
                        r"[0-9.]+ times the capacity; [0-9.]+ accelerators are needed, 1 is there")
    assert answer[0] == 503 and answer[1]["Retry-After"] == "1"
    kept = trail_of(server, answer[1]["X-Request-Id"])
    assert kept["reason"] == "given_up_for_later_ones" and kept["accelerators_needed"] > 1
    assert kept["why"] in answer[2]["error"] and kept["help"] in answer[2]["error"]


def test_over_its_share(server):
    """`heavy` asks for what it has a right to, so `m` is held to its own share."""
    with asked(server, "heavy", 4):
        answer = until_said(lambda: flood(server, "m", 40),
                            "over its model's share while the load is [0-9.]+ times the capacity")
    assert trail_of(server, answer[1]["X-Request-Id"])["reason"] == "over_share"


def test_waits_for_company_and_for_an_accelerator(scenario):
    """As a server that batches by age does: it waits for 60 ms, whatever the deadline."""
    with Server("--scenario", scenario, "--no-learn", "--policy", "timeout:max_queue_delay_us=60000") as server, \
            concurrent.futures.ThreadPoolExecutor(1) as pool:
        answer = until_said(lambda: [infer(server, "m", parameters={"timeout": 30_000})],
                            r"30 ms: waited [0-9.]+ ms for company")
        assert answer[1]["retry-after"] == "1"
        assert trail_of(server, answer[1]["x-request-id"])["reason"] in ("waited_for_company", "waited_for_accelerator")

        def behind_m3():
            held = pool.submit(infer, server, "m3")
            wait_until(lambda: server.metrics()["symphony_requests_in_flight"] > 0 or held.done())
            answers = [infer(server, "m")]
            held.result()
            return answers

        def waited():
            """As it should: what the server stands still before it has queued the request is no wait for company."""
            answer = until_said(behind_m3, WAITS)
            kept = trail_of(server, answer[1]["x-request-id"])
            assert kept["before"] == "m3" and kept["why"] in answer[2]["error"]
            return kept["company_ms"] > 50
        wait_until(waited)


def test_a_late_answer(scenario):
    """Nothing is refused by this policy; the answer after the deadline says why it is late."""
    with Server("--scenario", scenario, "--no-learn", "--policy", "timeout") as server:
        def late():
            with concurrent.futures.ThreadPoolExecutor(30) as pool:
                list(pool.map(lambda _: infer(server, "m"), range(30)))
            return trails(server, state="late", model="m")
        wait_until(late)
        kept = trails(server, state="late", model="m", limit=1)[0]
        assert kept["status"] == 200 and kept["took_ms"] > kept["deadline_ms"] == 100 and kept["why"]
        assert trails(server, state="slow", limit=1)[0]["took_ms"] >= kept["took_ms"]


def test_the_simulator_says_the_same(server, tmp_path):
    """The same models under the same overload give the same reasons, in words that differ in numbers only."""
    def plain(words):
        return re.sub(r"[0-9]+(\.[0-9]+)?", "N", words)
    path = tmp_path / "overload.yaml"
    path.write_text(SCENARIO.replace("{rate_rps: 1}", "{rate_rps: 150}").replace("seconds: 1,", "seconds: 20,"))
    done = subprocess.run([BINARY, "simulate", path, "--json"], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    simulated = {name: plain(words) for name, words in told["bad_words"].items()}
    assert set(simulated) == set(told["bad_reasons"]) >= {"given_up_for_later_ones", "over_share", "waited_for_accelerator"}

    def said():
        flood(server, "m", 40)
        live = {plain(one["why"]) for one in trails(server, state="refused", limit=1000)}
        return live >= {simulated["given_up_for_later_ones"], simulated["over_share"]}
    with asked(server, "heavy", 4):
        wait_until(said)


WAITS = "waited [0-9.]+ ms for company, then accelerator 0 was busy with m3 for [0-9.]+ ms"
SLOW = ("runs take [0-9.e+]+ ms, [0-9.]+ were expected: "
        "this machine is busy with something else, or these inputs cost more than the measured ones")


def test_the_simulator_says_what_was_waited_for(tmp_path):
    """The words that test_waits_for_company_and_for_an_accelerator() and test_a_slow_machine() find live."""
    def words(reason, *options):
        path = tmp_path / "waits.yaml"
        path.write_text(SCENARIO.replace("{rate_rps: 1}", "{rate_rps: 2, popularity: {shares: {m: 0.7, heavy: 0, patient: 0, m3: 0.3}}}")
                        .replace("seconds: 1,", "seconds: 200,"))
        done = subprocess.run([BINARY, "simulate", path, "--json", *options], capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["bad_words"][reason]
    assert re.fullmatch(WAITS, words("waited_for_company", "--policy", "timeout:max_queue_delay_us=60000"))
    assert re.search(SLOW, words("slow_runs", "--set", "cluster.noise=1"))


@pytest.mark.parametrize("policy, reason", [("clockwork", "waited_for_accelerator"), ("nexus", "given_up_for_later_ones"),
                                            ("kairos", "waited_for_accelerator")])
def test_central_policies_say_why(scenario, tmp_path, policy, reason):
    """Live and simulated, in the same words."""
    path = tmp_path / "overload.yaml"
    path.write_text(SCENARIO.replace("{rate_rps: 1}", "{rate_rps: 150}").replace("seconds: 1,", "seconds: 20,"))
    done = subprocess.run([BINARY, "simulate", path, "--policy", policy, "--json"], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    words = json.loads(done.stdout)["bad_words"]
    assert not {"deadline", "frontend"} & set(words)
    said = re.sub(r"[0-9]+(\\\.[0-9]+)?", r"[0-9.]+", re.escape(words[reason]))
    with Server("--scenario", scenario, "--policy", policy) as server:
        answer = until_said(lambda: flood(server, "m", 40, every_s=0.002), said)  # `nexus` gives none up for another of the same age
        assert trail_of(server, answer[1]["X-Request-Id"])["reason"] == reason
        short = infer(server, "m", parameters={"timeout": 1000})[2]["error"]  # the run, and what dispatch is measured to take
        assert re.search("a run takes [0-9.]+ ms, and 1 ms were left for all", short)


def test_a_slow_machine(tmp_path):
    """The profile promises runs of 1 ms; they take far longer."""
    size = 512
    weights = helper.make_tensor("w", TensorProto.FLOAT, [size, size], np.ones(size * size, np.float32))
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h0"])]
    nodes += [helper.make_node("MatMul", [f"h{i}", "w"], [f"h{i + 1}"]) for i in range(7)]
    nodes += [helper.make_node("Identity", ["h7"], ["y"])]
    save_model(tmp_path, "dense", nodes, [("x", TensorProto.FLOAT, ["N", size, size])],
               [("y", TensorProto.FLOAT, ["N", size, size])], [weights])
    (tmp_path / "dense" / "profile.json").write_text(json.dumps(
        {"symphony_profile": 1, "points": [{"batch": 1, "latency_ms": 1}, {"batch": 2, "latency_ms": 2}]}))
    (tmp_path / "dense" / "symphony.yaml").write_text("slo_ms: 60000\nmax_batch: 2\nprofile: profile.json\n")
    x = np.zeros((1, size, size), np.float32)
    with Server("--repository", tmp_path, "--accelerators", "cpu:1") as server, \
            triton_http.InferenceServerClient("127.0.0.1:%d" % server.port, network_timeout=600,
                                              connection_timeout=600) as client:
        given = triton_http.InferInput("x", list(x.shape), "FP32")
        given.set_data_from_numpy(x)

        def refused():
            try:
                client.infer("dense", [given])
                client.infer("dense", [given], request_id="slow", timeout=5_000)
            except triton_http.InferenceServerException as error:
                return re.search(SLOW, error.message())
            return None
        wait_until(refused)
        assert trail_of(server, "slow")["state"] in ("refused", "late")


# ---- the log ----

def test_the_log_says_so(server):
    """While clients flood a model, with the reason that most have; and when it is over."""
    begins = re.compile(r'level=warn msg="requests are not served in time" model=m version=1 bad_percent=\d+\.\d requests=\d+ '
                        r'refused=\d+ failed=0 late=\d+ reason=[a-z_]+ why="[^"]+')

    def said():
        flood(server, "m", 40)
        return begins.search(server.log_text())
    wait_until(said)
    wait_until(lambda: re.search(r'msg="requests are served in time again" model=m version=1 after_s=\d+ bad=\d+ requests=\d+',
                                 server.log_text()))


def test_the_log_says_why_a_model_is_not_ready(tmp_path):
    (tmp_path / "broken" / "1").mkdir(parents=True)
    (tmp_path / "broken" / "1" / "model.onnx").write_bytes(b"this is no model")
    save_model(tmp_path, "sound", [helper.make_node("Relu", ["x"], ["y"])], *([(name, TensorProto.FLOAT, ["N", 1])] for name in "xy"))
    with Server("--repository", tmp_path, "--slo-ms", 60000) as running:
        def said():
            assert infer(running, "broken")[0] == 503
            return re.search(r'msg="requests are not served in time" model=broken .* reason=not_ready why="[^"]*model.onnx failed',
                             running.log_text())
        wait_until(said)


# ---- what is kept ----

def test_a_query_chooses(server):
    infer(server, "patient", id="chosen")
    assert trail_of(server, "chosen")["model"] == "patient"
    assert len(trails(server, model="patient", limit=1)) == 1
    assert not trails(server, model="nobody") and not trails(server, id="chose")
    assert all(one["state"] == "refused" for one in trails(server, state="refused"))
    for query in ("state=lost", "limit=0", "limit=x", "models=m"):
        status, body = get(server, "/v2/symphony/requests?" + query)
        assert status == 400 and json.loads(body)["error"]


def test_nothing_is_kept_if_nobody_wants_it(scenario):
    with Server("--scenario", scenario, "--trails", 0) as server:
        status, headers, _ = infer(server, "patient", parameters={"trail": True})
        assert status == 200 and headers["x-request-id"] and headers["x-symphony-state"]
        assert get(server, "/v2/symphony/requests")[0] == 404


def test_a_token_is_needed(scenario, tmp_path):
    (tmp_path / "tokens").write_text("secret-secret-secret\n")
    with Server("--scenario", scenario, "--auth-token-file", tmp_path / "tokens", "--auth-metrics") as server:
        assert get(server, "/v2/symphony/requests")[0] == 401
        assert get(server, "/v2/symphony/requests", {"Authorization": "Bearer secret-secret-secret"})[0] == 200


def test_an_access_log_is_written(scenario, tmp_path):
    """Into a file that may be renamed, or to standard output, without that anything waits for its reader."""
    path, old = tmp_path / "access.json", tmp_path / "access.json.1"

    def ids(file):
        return [json.loads(line)["id"] for line in file.read_text().splitlines()]
    with Server("--scenario", scenario, "--trails-every", 1, "--access-log", path) as server:
        assert infer(server, "patient", id="one")[0] == 200
        assert infer(server, "m", id="two", parameters={"timeout": 1000})[0] == 503
        wait_until(lambda: set(ids(path)) == {"one", "two"})
        path.rename(old)
        server.process.send_signal(signal.SIGHUP)
        wait_until(path.exists)
        assert infer(server, "patient", id="three")[0] == 200
        last = [json.loads(line) for line in old.read_text().splitlines()]
        assert {(one["model"], one["state"]) for one in last} == {("patient", "in_time"), ("m", "refused")}
        assert server.stop() == 0
        assert ids(path) == ["three"]
    for wrong, sentence in [(("--access-log", path, "--trails", "0"), "--trails 0 keeps none"),
                            (("--access-log", tmp_path / "no" / "file"), "no/file: No such file")]:
        ended = subprocess.run([BINARY, "serve", "--scenario", scenario, "--http-port", "0", "--no-grpc", "--no-metrics", *map(str, wrong)],
                               stderr=subprocess.PIPE, text=True, timeout=600)
        assert ended.returncode != 0 and sentence in ended.stderr


def test_lines_that_an_access_log_lacks_are_said_at_the_end_too(scenario, tmp_path):
    """Once a minute, and when the server stops: all of them."""
    with Server("--scenario", scenario, "--trails-every", 1, "--access-log", "/dev/full") as server:
        def missing():
            return [int(n) for n in re.findall(r"lines of the access log are missing.* lines=(\d+) .*No space left", server.log_text())]
        assert infer(server, "patient")[0] == 200
        wait_until(missing)
        assert infer(server, "patient")[0] == infer(server, "patient")[0] == 200
        assert server.stop() == 0
        assert sum(missing()) == 3


def test_a_file_that_may_not_grow_does_not_end_the_server(scenario, tmp_path):
    """The system's limit of a file's size (ulimit -f) is an error like others."""
    log, limit = tmp_path / "access.json", 10**6
    log.write_bytes(b"\n" * limit)
    with Server("--scenario", scenario, "--trails-every", 1, "--access-log", log) as server:
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (limit, limit))
        assert infer(server, "patient")[0] == 200
        wait_until(lambda: re.search(r"lines of the access log are missing.*File too large", server.log_text()))
        assert server.stop() == 0


def test_a_model_that_is_gone_has_its_name(tmp_path):
    """In the access log, which is written a moment after the answer, where trails are kept, and in the timeline."""
    save_model(tmp_path / "models", "neg", [helper.make_node("Neg", ["x"], ["y"])],
               *([(name, TensorProto.FLOAT, ["N", 1])] for name in "xy"))
    measure(tmp_path / "models")
    log = tmp_path / "access.json"
    with Server("--repository", tmp_path / "models", "--model-control-mode", "explicit", "--load-model", "*", "--isolate", "off",
                "--trails-every", 1, "--access-log", log) as server:
        ids = ["r%d" % number for number in range(20)]
        for number in ids:
            assert server.infer("neg", [{"name": "x", "datatype": "FP32", "shape": [1, 1], "data": [1]}], id=number)[0] == 200
        assert server.order("neg", "unload")[0] == 200
        wait_until(lambda: len(log.read_text().splitlines()) == len(ids))
        for told in [json.loads(line) for line in log.read_text().splitlines()], trails(server, model="neg"):
            assert sorted((one["id"], one["model"], one["version"]) for one in told) == sorted((one, "neg", "1") for one in ids)
        lanes = json.loads(get(server, "/v2/symphony/timeline?seconds=600")[1])["traceEvents"]
        assert {one["args"]["model"] for one in lanes if one.get("cat") == "batch"} == {"neg"}


def test_logs_of_json(scenario, tmp_path):
    """The log on standard error, the access log on standard output: every line is an object."""
    def objects(file):
        return [json.loads(line) for line in file.read_text().splitlines()]
    log, access = tmp_path / "log", tmp_path / "access"
    with open(log, "w") as error, open(access, "w") as output:
        process = subprocess.Popen([BINARY, "serve", "--scenario", scenario, "--http-port", "0", "--no-grpc", "--no-metrics",
                                    "--log-format", "json", "--access-log", "-", "--trails-every", "1"],
                                   stdout=output, stderr=error)
        wait_until(lambda: '"msg":"ready"' in log.read_text())
        ready = [line for line in objects(log) if line["msg"] == "ready"][0]
        assert http_request(ready["http_port"], "POST", "/v2/models/patient/infer", json.dumps({"inputs": INPUT, "id": "one"}))[0] == 200
        process.terminate()
        assert process.wait(600) == 0
    assert [line["id"] for line in objects(access)] == ["one"]
    assert objects(log)[-1]["msg"] == "stopped" and all(line["level"] and line["time"] for line in objects(log))


def test_spans_are_sent(scenario):
    """To a collector, over HTTP; what it does not take is counted."""
    posts, statuses = [], [200]

    class Collector(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            posts.append((self.path, self.headers, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
            self.send_response(statuses[-1])
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    def spans():
        return [span for _, _, body in posts for scope in body["resourceSpans"][0]["scopeSpans"] for span in scope["spans"]]
    collector = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=collector.serve_forever, daemon=True).start()
    with Server("--scenario", scenario, "--otlp", "http://127.0.0.1:%d" % collector.server_port, "--trails-every", 0,
                env={"OTEL_EXPORTER_OTLP_HEADERS": "x-key=a%20b", "OTEL_SERVICE_NAME": "models"}) as server:
        for sampled in "10":  # the client records the first trace, and not the second
            for model, timeout in [("patient", 60_000_000), ("m", 1000)]:
                trace = f"{'a' if timeout > 1000 else 'b'}{sampled}" + TRACE[2:]
                infer(server, model, headers={"traceparent": f"00-{trace}-00f067aa0ba902b7-0{sampled}"},
                      parameters={"timeout": timeout})
        wait_until(lambda: len({span["traceId"] for span in spans()}) == 2)
        assert {span["traceId"][:2] for span in spans()} == {"a1", "b1"}
        names = [span["name"] for span in spans() if span["traceId"].startswith("a1")]
        assert names == ["infer patient", "receive", "queue", "run", "reply"]
        assert [span.get("status", {}).get("code") for span in spans() if span["name"] == "infer m"] == [2]
        path, headers, body = posts[0]
        assert path == "/v1/traces" and headers["x-key"] == "a b" and headers["Content-Type"] == "application/json"
        assert body["resourceSpans"][0]["resource"]["attributes"][0]["value"] == {"stringValue": "models"}
        wait_until(lambda: 'symphony_spans_total{result="sent"} 8' in get(server, "/metrics")[1].decode())  # once the collector has answered
        statuses.append(500)
        infer(server, "m", parameters={"timeout": 1000})
        wait_until(lambda: 'symphony_spans_total{result="dropped"} 3' in get(server, "/metrics")[1].decode())
        assert re.search('msg="the collector takes no spans" url=[^ ]* status=500', server.log_text())
        collector.shutdown()
        collector.server_close()  # nobody listens: the server ends all the same
        infer(server, "m", parameters={"timeout": 1000})
        assert server.stop() == 0


def test_traces_are_written_as_tritons(scenario, tmp_path):
    """Which requests are, clients say over HTTP and gRPC. The file is whole at any time. (With one frontend an answered request is over
    before settings change; another frontend might change them in between.)"""
    path = tmp_path / "trace.json"

    def traces(file=path):
        found = json.loads(file.read_text())
        named = {one["id"]: one for one in found if "model_name" in one}
        return [{**named[one["id"]], **{event["name"]: event["ns"] for event in one["timestamps"]}}
                for one in found if "timestamps" in one]
    with Server("--scenario", scenario, "--trace-file", path, "--frontends", "1") as server, \
            triton_http.InferenceServerClient("127.0.0.1:%d" % server.port, network_timeout=600) as client, \
            grpc.InferenceServerClient("127.0.0.1:%d" % server.grpc_port) as other:
        infer(server, "patient", id="before")
        assert client.is_server_live()  # the thread that has answered is done with the request; another one changes the settings
        assert other.update_trace_settings("patient", {"trace_level": ["TIMESTAMPS"], "trace_rate": "1", "trace_count": "3"}) \
            .settings["trace_count"].value == ["3"]
        assert client.get_trace_settings("patient") == {
            "trace_level": ["TIMESTAMPS"], "trace_rate": "1", "trace_count": "3", "log_frequency": "0", "trace_file": str(path),
            "trace_mode": "triton"}
        assert client.get_trace_settings()["trace_level"] == ["OFF"]
        for n in range(4):
            infer(server, "patient", id=f"p-{n}")
        infer(server, "m3", id="other")
        wait_until(lambda: len(traces()) == 3)
        assert [one["request_id"] for one in traces()] == ["p-0", "p-1", "p-2"]
        for one in traces():
            assert one["model_name"] == "patient" and one["model_version"] == 1
            times = [one[name] for name in ("REQUEST_START", "QUEUE_START", "COMPUTE_START", "COMPUTE_INPUT_END",
                                            "COMPUTE_OUTPUT_START", "COMPUTE_END", "REQUEST_END")]
            assert times == sorted(times) and one["COMPUTE_END"] - one["COMPUTE_START"] >= 2_000_000
        client.update_trace_settings(settings={"trace_level": ["TIMESTAMPS"], "trace_rate": "1", "log_frequency": "2"})
        for n in range(3):
            infer(server, "m3", id=f"q-{n}", parameters={"timeout": 60_000_000})
        infer(server, "m", id="refused", parameters={"timeout": 1000})
        wait_until(lambda: (tmp_path / "trace.json.1").exists() and len(traces(tmp_path / "trace.json.1")) == 2)
        assert [one["request_id"] for one in traces(tmp_path / "trace.json.0")] == ["q-0", "q-1"]
        last = traces(tmp_path / "trace.json.1")
        assert [one["request_id"] for one in last] == ["q-2", "refused"] and "COMPUTE_START" not in last[1]
        for settings in ({"trace_file": "/tmp/other"}, {"trace_level": ["TENSORS"]}, {"trace_rate": "0"}):
            with pytest.raises(triton_http.InferenceServerException):
                client.update_trace_settings(settings=settings)
        client.update_trace_settings(settings={"trace_level": None})
        assert client.get_trace_settings()["trace_level"] == ["OFF"]
