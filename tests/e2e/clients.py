"""clients.py - runs other people's clients and load generators against a server, and says what they found.

Each function runs one client for a bounded number of requests, or time, against a model with one FP32 input of shape
[N, width], and returns an Outcome."""
import contextlib
import dataclasses
import fcntl
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[2]
TOOLS = pathlib.Path(os.environ.get("SYMPHONY_CLIENTS", TOP / "build/clients"))  # what scripts/setup.sh has fetched
TIMEOUT_S = 900
STUCK_S = 120


@dataclasses.dataclass
class Model:
    name: str
    width: int
    answer: int = None  # width of the output, if another
    input: str = "x"

    def json_body(self):
        data = [0.5] * self.width
        return json.dumps({"inputs": [{"name": self.input, "datatype": "FP32", "shape": [1, self.width], "data": data}]})

    def binary_body(self):
        """The JSON and the tensor behind it."""
        raw = struct.pack("<f", 0.5) * self.width
        given = {"name": self.input, "datatype": "FP32", "shape": [1, self.width],
                 "parameters": {"binary_data_size": len(raw)}}
        return json.dumps({"inputs": [given], "parameters": {"binary_data_output": True}}).encode(), raw

    def grpc_message(self):
        """A ModelInferRequest with raw contents, and the five bytes before it."""
        from tritonclient.grpc import service_pb2
        given = service_pb2.ModelInferRequest.InferInputTensor(name=self.input, datatype="FP32", shape=[1, self.width])
        raw = struct.pack("<f", 0.5) * self.width
        message = service_pb2.ModelInferRequest(model_name=self.name, inputs=[given], raw_input_contents=[raw])
        return b"\0" + struct.pack(">I", message.ByteSize()) + message.SerializeToString()


def save_model(folder, model):
    """The model itself, in a repository: y = -x, or only the first so many of that."""
    import onnx
    from onnx import TensorProto, helper
    info = lambda name, width: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", width])
    constant = lambda name, value: helper.make_tensor(name, TensorProto.INT64, [1], [value])
    nodes = [helper.make_node("Slice", [model.input, "from", "to", "axis"], ["part"]), helper.make_node("Neg", ["part"], ["y"])]
    answer = model.answer or model.width
    graph = helper.make_graph(nodes, model.name, [info(model.input, model.width)], [info("y", answer)],
                              [constant("from", 0), constant("to", answer), constant("axis", 1)])
    path = pathlib.Path(folder) / model.name / "1"
    path.mkdir(parents=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path / "model.onnx")


@dataclasses.dataclass
class Outcome:
    client: str
    protocol: str
    requests: int  # answered well
    failed: int
    p50_ms: float = None
    p99_ms: float = None
    verdict: str = ""  # the client's own, if it has one


def outcome(client, protocol, milliseconds, failed, verdict=""):
    ordered = sorted(milliseconds)
    at = lambda part: ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else None
    return Outcome(client, protocol, len(ordered), failed, at(0.5), at(0.99), verdict)


def find(program):
    """Its path, or None if it is not installed."""
    for place in (TOOLS / "bin" / program, TOOLS / "perf_analyzer/bin" / program):
        if place.exists():
            return str(place)
    return shutil.which(program)


def output_of(*command, env=None, stdin=None, timeout=TIMEOUT_S):
    """What it prints; raises if it fails."""
    run = subprocess.run([str(part) for part in command], stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                         text=True, timeout=timeout, env={**os.environ, **(env or {})})
    if run.returncode != 0:
        raise RuntimeError("%s ended with %d:\n%s" % (command[0], run.returncode, run.stdout[-4000:]))
    return run.stdout


def infer_url(server, model):
    return "http://127.0.0.1:%d/v2/models/%s/infer" % (server.port, model.name)


def grpc_ok(server):
    return int(server.metrics().get('symphony_grpc_calls_total{code="OK"}', 0))


def curl(server, model, folder, requests=100):
    """One after the other on one connection."""
    body = folder / "curl.json"
    body.write_text(model.json_body())
    lines = output_of(find("curl"), "-s", "-o", "/dev/null", "-w", "%{http_code} %{time_total}\n", "--data-binary",
                      "@%s" % body, "%s#[1-%d]" % (infer_url(server, model), requests)).splitlines()
    times = [float(seconds) * 1000 for status, seconds in map(str.split, lines) if status == "200"]
    return outcome("curl", "HTTP", times, requests - len(times))


WRK_SCRIPT = """
wrk.method = "POST"
wrk.body = io.open(os.getenv("BODY")):read("*a")
function done(summary, latency, requests)
    local e = summary.errors
    io.write(string.format("outcome %d %d %d %d\\n", summary.requests - e.status,
             e.connect + e.read + e.write + e.status + e.timeout, latency:percentile(50), latency:percentile(99)))
end
"""


def wrk(server, model, folder, seconds=1, connections=8):
    script, body = folder / "wrk.lua", folder / "wrk.json"
    script.write_text(WRK_SCRIPT)
    body.write_text(model.json_body())
    text = output_of(find("wrk"), "-t1", "--timeout", "60s", "-c%d" % connections, "-d%ds" % seconds, "-s", script,
                     infer_url(server, model), env={"BODY": str(body)})
    ok, failed, p50_us, p99_us = map(int, text[text.index("outcome ") + 8:].split())
    return Outcome("wrk", "HTTP", ok, failed, p50_us / 1000, p99_us / 1000)


def h2load(server, model, folder, protocol="gRPC", requests=2000, connections=4, at_once=8):
    body, log = folder / "h2load.body", folder / "h2load.log"
    command = [find("h2load"), "-n", requests, "-c", connections, "-d", body, "--log-file", log]
    log.unlink(missing_ok=True)
    if protocol == "HTTP":
        body.write_text(model.json_body())
        output_of(*command, "--h1", infer_url(server, model))
    else:
        body.write_bytes(model.grpc_message())
        before = grpc_ok(server)
        output_of(*command, "-m", at_once, "-H", "content-type: application/grpc", "-H", "te: trailers",
                  "http://127.0.0.1:%d/inference.GRPCInferenceService/ModelInfer" % server.grpc_port)
        server.rests()  # calls are counted a moment after their answers
    lines = [line.split() for line in log.read_text().splitlines()]  # start, status, microseconds
    times = [int(us) / 1000 for _, status, us in lines if status == "200"]
    answered = len(times) if protocol == "HTTP" else min(len(times), grpc_ok(server) - before)
    return outcome("h2load", protocol, times, requests - answered)


def perf_analyzer(server, model, folder, protocol="gRPC", shared_memory="none", requests=400, at_once=4, streaming=False,
                  metrics=False):
    """Triton's own; ends with an error if a request fails. Its regions are named after the model's inputs alone, so two of it on
    one machine would cut each other's: only one at a time uses shared memory."""
    export = folder / "perf_analyzer.json"
    libraries = [TOOLS / "perf_analyzer/nvidia/cuda_runtime/lib", os.environ.get("LD_LIBRARY_PATH", "")]
    export.unlink(missing_ok=True)
    command = [find("perf_analyzer"), "-m", model.name, "-i", protocol.lower(), "-u",
               "127.0.0.1:%d" % (server.port if protocol == "HTTP" else server.grpc_port), "--shared-memory",
               shared_memory, "--concurrency-range", at_once, "--request-count", requests, "--profile-export-file", export,
               *(["--streaming", "--async"] if streaming else []),
               *(["--collect-metrics", "--metrics-url", "127.0.0.1:%d/metrics" % server.metrics_port] if metrics else [])]
    env = {"LD_LIBRARY_PATH": ":".join(str(place) for place in libraries if place)}
    with contextlib.ExitStack() as held:
        if shared_memory != "none":
            lock = held.enter_context(open(os.path.join(tempfile.gettempdir(), "symphony-perf_analyzer-%d.lock" % os.getuid()), "w"))
            fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            output_of(*command, env=env, timeout=STUCK_S)
        except subprocess.TimeoutExpired:
            # Seen: all its requests are answered, its threads have ended, and it waits for more of them.
            in_flight = server.metrics().get("symphony_requests_in_flight", 0)
            assert in_flight == 0, "%d requests are not answered" % in_flight
            output_of(*command, env=env)
    report = json.loads(export.read_text("latin-1"))  # tensors stand in it as the bytes that they are
    asked = report["experiments"][0]["requests"]
    times = [(r["response_timestamps"][-1] - r["timestamp"]) / 1e6 for r in asked if r["response_timestamps"]]
    name = protocol + (" stream" if streaming else "") + (", shared memory" if shared_memory != "none" else "")
    return outcome("perf_analyzer", name, times, len(asked) - len(times))


def loadgen(server, model, folder, protocol="gRPC", rate=50, requests=300, latency_ms=500):
    """MLPerf's load generator, Server scenario: Poisson arrivals, 99 % within latency_ms; its own verdict."""
    result = json.loads(output_of(sys.executable, "-B", pathlib.Path(__file__).with_name("loadgen.py"), protocol,
                                  server.port if protocol == "HTTP" else server.grpc_port, model.name, model.input,
                                  model.width, rate, requests, latency_ms, folder).splitlines()[-1])
    return Outcome("loadgen", protocol, result["answered"], result["failed"], result["p50_ms"], result["p99_ms"],
                   result["verdict"])
