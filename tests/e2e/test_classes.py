"""test_classes.py - best effort and priorities of a running server, over both protocols, from parameters, symphony.yaml
and config.pbtxt.
"""
# sanitizers: address thread

import concurrent.futures
import contextlib
import json
import time

import numpy as np
import pytest
import tritonclient.grpc as grpc
from onnx import TensorProto, helper
from tritonclient.grpc import service_pb2

from repository import SLOW_RUN_S, save_model
from server import Server, wait_until
from test_grpc import END_STREAM, HEADERS, Wire, frame, request_of

INPUT = [{"name": "INPUT", "datatype": "FP32", "shape": [1, 1], "data": [0]}]
HOLD_US = int(SLOW_RUN_S * 1e6)
HOLD_RUN_S = 1
LEVEL_RUN_S = 0.03


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    path = tmp_path_factory.mktemp("scenario") / "classes.yaml"
    path.write_text("cluster: {accelerators: 1, type: slow}\n"
                    "models:\n"
                    f"  - {{name: slow, alpha_ms: 1, beta_ms: {SLOW_RUN_S * 1000}, slo_ms: 60000}}\n"
                    f"  - {{name: hold, alpha_ms: 1, beta_ms: {HOLD_RUN_S * 1000}, slo_ms: 60000}}\n"
                    "  - {name: lazy, alpha_ms: 1, beta_ms: 1, slo_ms: 100, best_effort: 1}\n"
                    f"  - {{name: levels, alpha_ms: {LEVEL_RUN_S * 1000}, beta_ms: 0, slo_ms: 60000,"
                    " priorities: [1, 1]}\n"
                    "workload: {rate_rps: 1}\npolicy: {name: deferred}\nrun: {seconds: 1, seed: 1}\n")
    with Server("--scenario", str(path)) as running:
        yield running


def queued(server, model):
    return sum(value for name, value in server.metrics().items()
               if name.startswith('symphony_queued_requests{model="%s"' % model))


def infer(server, model, **parameters):
    return server.infer(model, INPUT, parameters=parameters)


def test_best_effort_runs_when_nothing_else_does(server):
    assert infer(server, "slow", best_effort=True)[0] == 200
    assert infer(server, "lazy")[0] == 200


def test_best_effort_over_grpc(server):
    with grpc.InferenceServerClient("127.0.0.1:%d" % server.grpc_port) as client:
        x = grpc.InferInput("INPUT", [1, 1], "FP32")
        x.set_data_from_numpy(np.zeros((1, 1), np.float32))
        client.infer("slow", [x], parameters={"best_effort": True})
        with pytest.raises(grpc.InferenceServerException, match="found no gap"):
            client.infer("slow", [x], timeout=1000, parameters={"best_effort": True})


def test_best_effort_says_when_there_was_no_gap(server):
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        running = pool.submit(infer, server, "slow")
        answers = [infer(server, "lazy", timeout=int(HOLD_US / 2), best_effort=True) for _ in range(2)]
        assert running.result()[0] == 200
    refused = [answer for status, answer in answers if status == 503]
    assert all("found no gap for this best-effort request within" in answer["error"] for answer in refused)
    assert infer(server, "slow", best_effort=True, timeout=1000)[0] == 503  # it takes longer than that


def test_a_timeout_is_an_slo(server):
    """Of a model without one."""
    assert infer(server, "lazy", timeout=1)[0] == 503
    status, answer = infer(server, "lazy", timeout=1)
    assert "cannot finish this request within its deadline" in answer["error"]
    assert infer(server, "lazy", timeout=60_000_000)[0] == 200


def test_wrong_parameters_are_refused(server):
    for parameters, want in [({"best_effort": "yes"}, "true or false"), ({"priority": -1}, "'priority'")]:
        status, answer = infer(server, "slow", **parameters)
        assert status == 400 and want in answer["error"]


def test_the_higher_priority_goes_first(server):
    """One accelerator, batches of one: while it is held, three of priority 1 come behind ten of priority 2. Answers of one
    connection come in the order in which they are ready, whenever the client looks."""
    def message(model, priority=0):
        parameters = {"priority": service_pb2.InferParameter(uint64_param=priority)}
        return frame(request_of(model=model, shape=(1, 1), raw=(bytes(4),), name="INPUT",
                                parameters=parameters).SerializeToString())

    def grants():
        return server.metrics()["symphony_grants_total"]

    def order():
        """Of the answers, by priority; None: the hold was over before all had come, as the machine was slow."""
        begun = grants()
        with Wire(server) as wire:
            wire.call("ModelInfer", message("hold"))
            wait_until(lambda: grants() > begun)
            priorities = {}
            for priority in [2] * 10 + [1] * 3:
                wire.call("ModelInfer", message("levels", priority))
                priorities[wire.stream] = priority
            wait_until(lambda: queued(server, "levels") == 13 or grants() > begun + 1)
            in_time, done, answers = grants() == begun + 1, [], 0
            for kind, flags, stream, payload in wire.frames():
                headers = dict(wire.decoder.decode(payload)) if kind == HEADERS else {}
                if flags & END_STREAM and kind == HEADERS:
                    assert headers["grpc-status"] == "0"
                    done += [priorities[stream]] if stream in priorities else []
                    answers += 1
                    if answers == 14:
                        return done if in_time else None

    done = next(filter(None, (order() for _ in range(30))))
    assert done.index(1) < 8 and done[-3:] == [2, 2, 2]


def test_configurations_are_in_force(tmp_path):
    save_model(tmp_path, "double", [helper.make_node("Add", ["x", "x"], ["y"])], [("x", TensorProto.FLOAT, ["N", 4])],
               [("y", TensorProto.FLOAT, ["N", 4])])
    (tmp_path / "double" / "config.pbtxt").write_text(
        "max_batch_size: 8\ninstance_group { gpus: [ 0, 7 ] }\n"
        "dynamic_batching { max_queue_delay_microseconds: 500 priority_levels: 2 default_priority_level: 2\n"
        "  default_queue_policy { default_timeout_microseconds: 4000000 allow_timeout_override: true max_queue_size: 9 }\n"
        "}\n")
    with Server("--repository", str(tmp_path)) as server:
        status, _, body = server.request("GET", "/v2/models/double/config")
        batching = json.loads(body)["dynamic_batching"]
        assert status == 200 and batching["priority_levels"] == 2 and batching["max_queue_delay_microseconds"] == 500
        assert batching["default_queue_policy"]["default_timeout_microseconds"] == 4000000
        assert batching["default_queue_policy"]["max_queue_size"] == 9
        metadata = json.loads(server.request("GET", "/v2/models/double")[2])
        assert metadata["parameters"]["slo_ms"] == 4000
        assert "model runs on all accelerators\" model=double wanted=gpu" in server.log_text()


X = [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]


@contextlib.contextmanager
def batcher(folder, **batching):
    """Triton's dynamic batcher: real models, each with a dynamic_batching of its own."""
    for name, text in batching.items():
        save_model(folder, name, [helper.make_node("Add", ["x", "x"], ["y"])], [("x", TensorProto.FLOAT, ["N", 4])],
                   [("y", TensorProto.FLOAT, ["N", 4])])
        (folder / name / "config.pbtxt").write_text("max_batch_size: 8\n" + text)
    with Server("--repository", str(folder), "--slo-ms", "60000", "--policy", "timeout") as server:
        yield server


def batch_sizes(server, model):
    statistics = json.loads(server.request("GET", f"/v2/models/{model}/stats")[2])["model_stats"][0]
    return {batch["batch_size"]: batch["compute_infer"]["count"] for batch in statistics["batch_stats"]}


def test_every_level_has_a_queue_limit_of_its_own(tmp_path):
    """They wait for a batch of five, which the levels' limits let come together as 2 + 1 + 2."""
    with batcher(tmp_path, levels="dynamic_batching { priority_levels: 3 default_priority_level: 2\n"
                 "  preferred_batch_size: [ 5 ] max_queue_delay_microseconds: 50000000\n"
                 "  default_queue_policy { max_queue_size: 1 }\n"
                 "  priority_queue_policy { key: 1 value { max_queue_size: 2 } }\n"
                 "  priority_queue_policy { key: 3 value { } }\n}\n") as server, \
            concurrent.futures.ThreadPoolExecutor(8) as pool:

        def ask(priority):
            return server.infer("levels", X, parameters={"priority": priority})

        def submit(priority, waiting):
            future = pool.submit(ask, priority)
            wait_until(lambda: queued(server, "levels") == waiting)
            return future

        leaver = server.connect()
        leaver.request("POST", "/v2/models/levels/infer", json.dumps({"inputs": X, "parameters": {"priority": 1}}))
        wait_until(lambda: queued(server, "levels") == 1)
        asked = [submit(1, 2)]
        status, answer = ask(1)
        assert status == 503 and "queue" in answer["error"]
        leaver.close()  # and gives its place back
        wait_until(lambda: queued(server, "levels") == 1)
        asked += [submit(1, 2), submit(0, 3)]
        with grpc.InferenceServerClient("127.0.0.1:%d" % server.grpc_port) as client:
            x = grpc.InferInput("x", [1, 4], "FP32")
            x.set_data_from_numpy(np.zeros((1, 4), np.float32))
            for priority in (1, 2):
                with pytest.raises(grpc.InferenceServerException) as refused:
                    client.infer("levels", [x], priority=priority)
                assert refused.value.status() == "StatusCode.UNAVAILABLE"
        asked += [pool.submit(ask, 3) for _ in range(2)]
        assert [future.result()[0] for future in asked] == [200] * 5
        wait_until(lambda: batch_sizes(server, "levels"))  # a batch is counted a moment after its answers
        assert batch_sizes(server, "levels") == {5: 1}
        batching = json.loads(server.request("GET", "/v2/models/levels/config")[2])["dynamic_batching"]
        assert batching["default_queue_policy"]["max_queue_size"] == 1
        assert batching["priority_queue_policy"]["1"]["max_queue_size"] == 2
        assert batching["preferred_batch_size"] == [5]
    profile = next((tmp_path / "levels" / "1" / ".symphony").glob("*.profile.json"))
    assert 5 in [point["batch"] for point in json.loads(profile.read_text())["points"]]


def test_each_model_has_its_own_batch_sizes_and_delay(tmp_path):
    """`sized` waits for two or four, or nearly forever; `aged` for eight, or 0.2 s; `plain` says nothing: at once."""
    with batcher(tmp_path, plain="", aged="dynamic_batching { preferred_batch_size: 8 max_queue_delay_microseconds: 200000 }",
                 sized="dynamic_batching { preferred_batch_size: [ 4, 2 ] max_queue_delay_microseconds: 50000000 }"
                 ) as server, concurrent.futures.ThreadPoolExecutor(6) as pool:
        begin = time.monotonic()
        assert server.infer("aged", X)[0] == 200
        assert time.monotonic() - begin >= 0.2
        for _ in range(3):
            asked = [pool.submit(server.infer, "sized", X) for _ in range(6)]
            assert [future.result()[0] for future in asked] == [200] * 6
        wait_until(lambda: sum(size * count for size, count in batch_sizes(server, "sized").items()) == 18)
        assert set(batch_sizes(server, "sized")) <= {2, 4}
        assert server.infer("plain", X)[0] == 200
