"""test_faults.py - requests that make runs fail, hang, or take accelerators along: what others see of them."""
# sanitizers: address thread
# quick sanitizers: address
import concurrent.futures
import json
import os
import pathlib
import queue
import re
import signal
import threading
import time

import grpc
import numpy as np
import pytest
from onnx import TensorProto, helper

from repository import measure, save_model
from server import LOAD_S, Server, wait_until

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
SERVING, NOT_SERVING = b"\x08\x01", b"\x08\x02"


def save_pick(folder):
    """y = 10 x + 1 for indices x below 3; others fail. Waits for company."""
    table = helper.make_tensor("table", FLOAT, [3], [1, 11, 21])
    save_model(folder, "pick", [helper.make_node("Gather", ["table", "i"], ["y"])], [("i", INT64, ["N", 1])],
               [("y", FLOAT, ["N", 1])], [table])
    (folder / "pick" / "config.pbtxt").write_text(
        "max_batch_size: 64 dynamic_batching { preferred_batch_size: [ 64 ] max_queue_delay_microseconds: 300000 }")


def save_turns(folder):
    """Adds 1 to 0 as often as it is told to, one node at a time."""
    one = helper.make_tensor("one", INT64, [1], [1])
    body = helper.make_graph(
        [helper.make_node("Add", ["v", "one"], ["w"]), helper.make_node("Identity", ["go"], ["on"])], "body",
        [helper.make_tensor_value_info("k", INT64, []), helper.make_tensor_value_info("go", TensorProto.BOOL, []),
         helper.make_tensor_value_info("v", INT64, [1])],
        [helper.make_tensor_value_info("on", TensorProto.BOOL, []), helper.make_tensor_value_info("w", INT64, [1])])
    yes = helper.make_tensor("yes", TensorProto.BOOL, [], [True])
    zero = helper.make_tensor("zero", INT64, [1], [0])
    axis = helper.make_tensor("axis", INT64, [1], [0])
    save_model(folder, "turns",
               [helper.make_node("Squeeze", ["n", "axis"], ["count"]),
                helper.make_node("Loop", ["count", "yes", "zero"], ["y"], body=body)],
               [("n", INT64, [1])], [("y", INT64, [1])], [one, yes, zero, axis])


BOXES = 300_000  # two minutes on a core: the square of them are compared; and a run may take in proportion to them


def save_boxes(folder):
    """One node that takes the square of its input's size, and looks at no flag meanwhile."""
    most = helper.make_tensor("most", INT64, [1], [2**40])
    overlap = helper.make_tensor("overlap", FLOAT, [1], [0.5])
    save_model(folder, "boxes",
               [helper.make_node("Transpose", ["x"], ["scores4"], perm=[0, 2, 1]),
                helper.make_node("Slice", ["scores4", "start", "end", "axes"], ["scores"]),
                helper.make_node("NonMaxSuppression", ["x", "scores", "most", "overlap"], ["chosen"])],
               [("x", FLOAT, [1, "N", 4])], [("chosen", INT64, ["K", 3])],
               [most, overlap, helper.make_tensor("start", INT64, [1], [3]), helper.make_tensor("end", INT64, [1], [4]),
                helper.make_tensor("axes", INT64, [1], [1])])


def runs_when_idle(server):
    """Its executors have cores only while nobody else needs them: what they compute for ever costs others nothing."""
    for task in pathlib.Path(f"/proc/{server.process.pid}/task").iterdir():
        if (task / "comm").read_text().startswith("executor"):
            os.sched_setscheduler(int(task.name), os.SCHED_IDLE, os.sched_param(0))


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "repository"
    path.mkdir()
    return path


def pick(server, index):
    return server.infer("pick", [{"name": "i", "datatype": "INT64", "shape": [1, 1], "data": [index]}])


def test_an_input_that_fails_fails_alone(folder):
    """Of requests that share a batch with one that makes it fail."""
    save_pick(folder)
    with Server("--repository", folder, "--slo-ms", "60000", "--accelerators", "cpu:1") as server, \
            concurrent.futures.ThreadPoolExecutor(32) as pool:
        of = lambda what: server.metrics()[f'symphony_accelerator_{what}_batches_total{{accelerator="0",type="cpu"}}']
        for round_ in range(3):
            indices = [7 if k == 5 * round_ else k % 3 for k in range(32)]
            for index, (status, answer) in zip(indices, pool.map(lambda i: pick(server, i), indices)):
                if index < 3:
                    assert status == 200, answer
                    assert answer["outputs"][0]["data"] == [10 * index + 1]
                else:
                    assert status == 500 and "model 'pick' failed" in answer["error"] and "7" in answer["error"]
        assert re.search(r'msg="a request failed" model=pick accelerator=0 reason="run: .*Gather', server.log_text())
        assert of("failed") + of("lost") >= 3  # lost: on a slow machine the time for parts was up, and it came again
        wait_until(lambda: server.metrics()["symphony_accelerators_serving"] == 1)
        assert server.stop() == 0


def test_a_run_that_needs_too_much_memory_fails_alone(folder):
    """A few bytes ask for as much as the client likes."""
    save_model(folder, "ones", [helper.make_node("ConstantOfShape", ["shape"], ["many"]),
                                helper.make_node("ReduceSum", ["many"], ["y"])], [("shape", INT64, ["D"])],
               [("y", FLOAT, ["K"])])
    (folder / "ones" / "config.pbtxt").write_text("max_batch_size: 0")
    save_pick(folder)
    with Server("--repository", folder, "--slo-ms", "60000", "--accelerators", "cpu:1", "--run-memory-max-mib",
                "100") as server:
        ones = lambda count: server.infer("ones", [{"name": "shape", "datatype": "INT64", "shape": [1], "data": [count]}])
        for _ in range(2):
            assert ones(1 << 20)[0] == 200  # 4 MiB
            for count in (1 << 28, 1 << 40):  # 1 GiB, 4 TiB
                status, answer = ones(count)
                assert status == 500 and answer["error"] == (
                    "model 'ones' failed: run: it needs more memory than runs may take, 100 MiB for all "
                    "(--run-memory-max-mib)")
            status, answer = pick(server, 1)
            assert status == 200 and answer["outputs"][0]["data"] == [11]
        assert server.metrics()["symphony_accelerators_serving"] == 1
        assert server.stop() == 0


def turns(server, count):
    return server.infer("turns", [{"name": "n", "datatype": "INT64", "shape": [1], "data": [count]}])


def few_turns(server, count):
    """What comes of them. A short run is stopped, too, if its thread stands still for as long as a run may take: then once more."""
    for _ in range(20):
        status, answer = turns(server, count)
        if status == 200:
            return answer["outputs"][0]["data"]
        assert "took too long, and was stopped" in answer["error"]
    pytest.fail("it was stopped each time")


def test_a_run_that_takes_for_ever_is_stopped(folder):
    save_turns(folder)
    with Server("--repository", folder, "--slo-ms", "60000", "--accelerators", "cpu:1", "--run-limit", "0.5") as server:
        assert few_turns(server, 3) == [3]
        status, answer = turns(server, 10**15)
        assert status == 500 and "took too long, and was stopped" in answer["error"]
        assert few_turns(server, 4) == [4]
        assert server.metrics()["symphony_accelerators_serving"] == 1
        assert server.stop() == 0


def test_a_server_ends_though_a_run_keeps_back_a_model(folder):
    """One that is being loaded, and handed to the executor once its run has ended."""
    save_turns(folder)
    save_pick(folder)
    measure(folder)
    with Server("--repository", folder, "--slo-ms", "60000", "--accelerators", "cpu:1", "--run-limit", "3600",
                "--drain-timeout", "1", "--model-control-mode", "explicit", "--load-model", "turns") as server, \
            concurrent.futures.ThreadPoolExecutor(2) as pool:
        order = lambda what: server.request("POST", "/v2/repository/models/pick/" + what, b"{}", timeout=LOAD_S)
        assert order("load")[0] == order("unload")[0] == 200
        assert few_turns(server, 3) == [3]
        runs_when_idle(server)
        pool.submit(turns, server, 10**15)
        wait_until(lambda: server.metrics()["symphony_requests_in_flight"] == 1)
        pool.submit(order, "load")
        time.sleep(1)  # both are under way by then, or not: the server ends in either case
        assert server.stop() in (0, 1)


def post_boxes(server, count, headers=None):
    """(status, answer) of an inference of so many boxes, none over another."""
    boxes = np.zeros((1, count, 4), np.float32)
    boxes[0, :, 0] = np.arange(count) * 2
    boxes[0, :, 2] = boxes[0, :, 0] + 1
    boxes[0, :, 3] = 1
    head = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, count, 4],
                                   "parameters": {"binary_data_size": boxes.nbytes}}]}).encode()
    status, _, body = server.request("POST", "/v2/models/boxes/infer", head + boxes.tobytes(),
                                     {"Inference-Header-Content-Length": str(len(head))}, timeout=600)
    return status, json.loads(body)


def test_an_accelerator_whose_run_does_not_come_back_is_out_of_service(folder):
    """Two of them: the request is tried on both, and nothing else is left; the server says so, and ends all the same."""
    save_boxes(folder)
    with Server("--repository", folder, "--slo-ms", "600000", "--accelerators", "cpu:2", "--run-limit", "0.5",
                "--drain-timeout", "5") as server, \
            grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        ready = lambda path: server.request("GET", path)[0]
        flag = lambda method, message=b"": channel.unary_unary("/inference.GRPCInferenceService/" + method)(message)
        told = queue.Queue()

        def watch():
            try:
                for answer in channel.unary_stream("/grpc.health.v1.Health/Watch")(b""):
                    told.put(answer)
            except grpc.RpcError:
                pass
        threading.Thread(target=watch, daemon=True).start()
        assert told.get(timeout=600) == SERVING
        model = b"\x0a\x05boxes"
        assert ready("/v2/health/ready") == ready("/v2/models/boxes/ready") == 200
        assert flag("ServerReady") == flag("ModelReady", model) == b"\x08\x01"
        wait_until(lambda: post_boxes(server, 10)[0] == 200)  # as above
        wait_until(lambda: server.metrics()["symphony_accelerators_serving"] == 2)
        status, answer = post_boxes(server, BOXES)
        while "was stopped after" in answer["error"]:  # on a busy machine, before it came to the node that does not end
            status, answer = post_boxes(server, BOXES)
        runs_when_idle(server)
        assert status == 500
        assert "2 accelerators failed while they ran this request" in answer["error"]
        wait_until(lambda: ready("/v2/health/ready") == 400)  # as Triton says it
        assert ready("/v2/models/boxes/ready") == 400
        wait_until(lambda: ready("/v2/health/live") == 400)  # only a new process can help
        assert flag("ServerLive") == b""
        assert server.metrics()["symphony_accelerators_failed"] == 2
        assert flag("ServerReady") == flag("ModelReady", model) == b""
        assert told.get(timeout=600) == NOT_SERVING
        assert server.metrics()["symphony_accelerators_serving"] == 0
        status, answer = post_boxes(server, 10)
        assert status == 503 and "no accelerator that runs it is in service" in answer["error"]
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(600) == 1
        assert "stopped" in server.log_text()
