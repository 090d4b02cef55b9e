"""Models serve as soon as each is prepared, while others are still measured: one of these runs for ever, until its measurement is
killed."""
# sanitizers: thread
import json
import os
import pathlib
import re
import signal
import subprocess

import grpc
import pytest
from onnx import TensorProto, helper

from repository import measure, save_model
from server import Server, wait_until

pytest.importorskip("tritonclient.grpc")
from tritonclient import grpc as triton  # noqa: E402

X = [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]
START_S = 600


class Early(Server):
    """As Server, but started as soon as it listens."""

    def start(self):
        self.log.truncate(0)
        self.process = subprocess.Popen(self.args, stdout=subprocess.DEVNULL, stderr=self.log, env=self.env)
        wait_until(lambda: 'msg="listening"' in self.log_text() or self.process.poll() is not None, START_S)
        found = re.search(r'msg="listening" http_port=(\d+) grpc_port=(-?\d+) metrics_port=(-?\d+)', self.log_text())
        assert found, self.log_text()
        self.port, self.grpc_port, self.metrics_port = map(int, found.groups())

    def state(self, model):
        body = json.loads(self.request("POST", "/v2/repository/index")[2])
        return [(entry["state"], entry.get("reason", "")) for entry in body if entry["name"] == model]

    def measurements(self):
        """The processes that measure, of this server."""
        found = []
        for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rsplit(")", 1)[1].split()
                words = (stat.parent / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if int(fields[1]) == self.process.pid and b"--worker" in words:
                found.append(int(stat.parent.name))
        return found

    def measurement_kill(self):
        wait_until(self.measurements, START_S)
        for pid in self.measurements():
            os.kill(pid, signal.SIGKILL)

    def is_ready(self):
        return 'msg="ready" http_port=' in self.log_text()  # its processes are ready before it, and have no ports


def endless(folder, name):
    """A model that counts to 10^12."""
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["goes"]), helper.make_node("Add", ["sum", "one"], ["next"])], "body",
        [value("i", TensorProto.INT64, []), value("go", TensorProto.BOOL, []), value("sum", TensorProto.FLOAT, [None, 4])],
        [value("goes", TensorProto.BOOL, []), value("next", TensorProto.FLOAT, [None, 4])],
        [helper.make_tensor("one", TensorProto.FLOAT, [], [1])])
    save_model(folder, name, [helper.make_node("Loop", ["count", "true", "x"], ["y"], body=body)],
               [("x", TensorProto.FLOAT, ["N", 4])], [("y", TensorProto.FLOAT, ["N", 4])],
               [helper.make_tensor("count", TensorProto.INT64, [], [10**12]),
                helper.make_tensor("true", TensorProto.BOOL, [], [True])])


@pytest.fixture
def folder(tmp_path):
    """A model that was measured, and before it by name one that is never done."""
    save_model(tmp_path, "quick", [helper.make_node("Add", ["x", "x"], ["y"])], [("x", TensorProto.FLOAT, ["N", 4])],
               [("y", TensorProto.FLOAT, ["N", 4])])
    measure(tmp_path)
    endless(tmp_path, "endless")
    return tmp_path


MODES = {"none": (), "processes": ("--isolate", "on"), "poll": ("--model-control-mode", "poll"),
         "explicit": ("--model-control-mode", "explicit", "--load-model", "*", "--isolate", "off")}


@pytest.mark.parametrize("mode", MODES)
def test_what_is_ready_is_served_while_others_are_measured(folder, mode):
    with Early("--repository", folder, "--slo-ms", "60000", *MODES[mode]) as server:
        client = triton.InferenceServerClient("127.0.0.1:%d" % server.grpc_port)
        assert server.request("GET", "/v2/health/live")[0] == 200
        wait_until(lambda: server.request("GET", "/v2/models/quick/ready")[0] == 200, START_S)
        assert server.infer("quick", X)[1]["outputs"][0]["data"] == [2, 4, 6, 8]
        waits = "it waits until it is measured and loaded" if mode == "processes" else "its profile is being measured"
        wait_until(lambda: server.state("endless") == [("LOADING", waits)] and server.measurements(), START_S)
        wait_until(lambda: b"profiling" in server.request("GET", "/v2/health/ready")[2], START_S)
        status, headers, body = server.request("GET", "/v2/health/ready")
        assert (status, headers["Retry-After"]) == (503, "1")
        assert json.loads(body) == {"ready": False, "waits_for": "profiling %d of 2" % (1 if mode == "processes" else 2)}
        assert not client.is_server_ready() and client.is_server_live()
        assert client.is_model_ready("quick") and not client.is_model_ready("endless")
        said = "'endless' has no available versions: it is still loading: " + waits
        status, headers, body = server.request("POST", "/v2/models/endless/infer", json.dumps({"inputs": X}))
        assert (status, headers["Retry-After"]) == (503, "1") and said in body.decode()
        with pytest.raises(triton.InferenceServerException, match="it is still loading") as refused:
            client.get_model_metadata("endless")
        assert refused.value.status() == str(grpc.StatusCode.UNAVAILABLE)
        samples = server.metrics()
        assert (samples["symphony_ready"], samples["symphony_models_awaited"]) == (0, 2 if mode == "processes" else 1)
        assert not server.is_ready()

        server.measurement_kill()
        wait_until(server.is_ready, START_S)
        assert server.request("GET", "/v2/health/ready")[0] == 200 and client.is_server_ready()
        [(state, reason)] = server.state("endless")
        assert state == "UNAVAILABLE" and "killed by signal 9" in reason
        samples = server.metrics()
        assert (samples["symphony_ready"], samples["symphony_models_awaited"]) == (1, 0)
        assert server.infer("quick", X)[0] == 200 and server.stop() == 0


def test_a_measurement_does_not_hold_up_the_end(folder):
    with Early("--repository", folder) as server:
        wait_until(server.measurements, START_S)
        [child] = server.measurements()
        assert server.stop() == 0
        assert not server.is_ready() and not os.path.exists("/proc/%d" % child)


def test_nothing_to_serve_is_said_after_the_preparation(tmp_path):
    endless(tmp_path, "endless")
    with Early("--repository", tmp_path) as server:
        server.measurement_kill()
        assert server.process.wait(START_S) == 2
        assert "symphony serve: %s: its model cannot be served: " % tmp_path in server.log_text()


def test_versions_of_a_name_come_together(tmp_path):
    """A client that names no version never gets the lower one because the higher one takes longer."""
    save_model(tmp_path, "m", [helper.make_node("Add", ["x", "x"], ["y"])], [("x", TensorProto.FLOAT, ["N", 4])],
               [("y", TensorProto.FLOAT, ["N", 4])])
    save_model(tmp_path, "other", [helper.make_node("Neg", ["x"], ["y"])], [("x", TensorProto.FLOAT, ["N", 4])],
               [("y", TensorProto.FLOAT, ["N", 4])])
    measure(tmp_path)
    endless(tmp_path / "made", "endless")
    (tmp_path / "m" / "config.pbtxt").write_text("version_policy: { all {} }\n")
    (tmp_path / "made" / "endless" / "1").rename(tmp_path / "m" / "2")
    (tmp_path / "made" / "endless").rmdir()
    (tmp_path / "made").rmdir()
    with Early("--repository", tmp_path, "--slo-ms", "60000") as server:
        wait_until(lambda: server.request("GET", "/v2/models/other/ready")[0] == 200, START_S)
        assert server.infer("m", X)[0] == 503
        server.measurement_kill()
        wait_until(server.is_ready, START_S)
        assert server.infer("m", X)[1]["model_version"] == "1"


