"""referees.py - other people's clients against a server, one after the other, as a table; ./run referees builds them first.

    build/venv/bin/python bench/referees.py [--quick] [CLIENT]...

Starts a server with two models that compute next to nothing (inputs of 1 KB and of 600 KB). Exit status 1 if a request
failed, a verdict is not VALID, or a client is not there. The times are those of a machine that server and clients share.
"""
import argparse
import base64
import functools
import json
import os
import pathlib
import struct
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / "tests" / "e2e"))
os.environ.setdefault("SYMPHONY_BINARY", str(TOP / "build/release/symphony"))
import clients  # noqa: E402
from clients import Model, Outcome, find, output_of, save_model  # noqa: E402
from server import Server  # noqa: E402

SMALL, LARGE = Model("small", 256), Model("large", 150528)
PROTO = TOP / "proto"
INFER = "inference.GRPCInferenceService/ModelInfer"


def grpc_json(model):
    """A ModelInferRequest in protobuf's JSON."""
    raw = base64.b64encode(struct.pack("<f", 0.5) * model.width).decode()
    return {"model_name": model.name, "raw_input_contents": [raw],
            "inputs": [{"name": model.input, "datatype": "FP32", "shape": [1, model.width]}]}


def ghz(server, model, folder, requests):
    body = folder / "ghz.json"
    body.write_text(json.dumps(grpc_json(model)))
    report = json.loads(output_of(find("ghz"), "--insecure", "--import-paths", PROTO, "--proto", PROTO / "inference.proto",
                                  "--call", INFER, "--data-file", body, "-n", requests, "-c", 8, "--connections", 4,
                                  "--format", "json", "127.0.0.1:%d" % server.grpc_port))
    ok = report["statusCodeDistribution"].get("OK", 0)
    at = {part["percentage"]: part["latency"] / 1e6 for part in report["latencyDistribution"]}
    return Outcome("ghz", "gRPC", ok, requests - ok, at[50], at[99])


def grpcurl(server, model, folder):
    """Every method that only asks, and an inference."""
    asked = {"ServerLive": {}, "ServerReady": {}, "ServerMetadata": {}, "ModelReady": {"name": model.name},
             "ModelMetadata": {"name": model.name}, "ModelConfig": {"name": model.name}, "ModelStatistics": {},
             "RepositoryIndex": {}, "SystemSharedMemoryStatus": {}, "CudaSharedMemoryStatus": {}, "LogSettings": {},
             "TraceSetting": {}, "ModelInfer": grpc_json(model)}
    body, ok = folder / "grpcurl.json", 0
    for method, message in asked.items():
        body.write_text(json.dumps(message))
        with open(body) as data:
            answer = output_of(find("grpcurl"), "-plaintext", "-import-path", PROTO, "-proto", "inference.proto", "-d", "@",
                               "127.0.0.1:%d" % server.grpc_port, "inference.GRPCInferenceService/" + method, stdin=data)
        ok += isinstance(json.loads(answer), dict)
    return Outcome("grpcurl", "gRPC", ok, len(asked) - ok)


K6_HTTP = """
import http from 'k6/http';
import { check } from 'k6';
const body = open(__ENV.BODY);
export default function () {
    check(http.post(__ENV.TARGET, body), { answered: (r) => r.status === 200 && r.json().outputs.length === 1 });
}
"""
K6_GRPC = """
import grpc from 'k6/net/grpc';
import { check } from 'k6';
const client = new grpc.Client(), message = JSON.parse(open(__ENV.BODY));
client.load([__ENV.PROTO], 'inference.proto');
export default function () {
    if (__ITER === 0) client.connect(__ENV.TARGET, { plaintext: true });
    const answer = client.invoke(__ENV.METHOD, message);
    check(answer, { answered: (r) => r.status === grpc.StatusOK && r.message.outputs.length === 1 });
}
"""


def k6(server, model, folder, requests, protocol):
    script, body, summary = folder / "k6.js", folder / "k6.json", folder / "k6-summary.json"
    script.write_text(K6_HTTP if protocol == "HTTP" else K6_GRPC)
    body.write_text(model.json_body() if protocol == "HTTP" else json.dumps(grpc_json(model)))
    target = clients.infer_url(server, model) if protocol == "HTTP" else "127.0.0.1:%d" % server.grpc_port
    output_of(find("k6"), "run", "--quiet", "--no-usage-report", "--vus", 8, "--iterations", requests, "--summary-export",
              summary, "--summary-trend-stats", "med,p(99)", script,
              env={"BODY": str(body), "TARGET": target, "PROTO": str(PROTO), "METHOD": INFER})
    metrics = json.loads(summary.read_text())["metrics"]
    times = metrics["http_req_duration" if protocol == "HTTP" else "grpc_req_duration"]
    ok = metrics["checks"]["passes"]
    return Outcome("k6", protocol, ok, requests - ok, times["med"], times["p(99)"])


def trials(quick):
    """(program, input, function of server and folder)"""
    n = lambda requests: requests // 10 if quick else requests
    yield "curl", SMALL, functools.partial(clients.curl, requests=n(1000))
    yield "wrk", SMALL, functools.partial(clients.wrk, seconds=1 if quick else 5)
    yield "grpcurl", SMALL, grpcurl
    for protocol in ("HTTP", "gRPC"):
        yield "h2load", SMALL, functools.partial(clients.h2load, protocol=protocol, requests=n(50000))
        yield "h2load", LARGE, functools.partial(clients.h2load, protocol=protocol, requests=n(1000))
        for memory in ("none", "system"):
            for model in (SMALL, LARGE):
                yield "perf_analyzer", model, functools.partial(clients.perf_analyzer, protocol=protocol,
                                                                shared_memory=memory, requests=n(3000))
        yield "k6", SMALL, functools.partial(k6, protocol=protocol, requests=n(10000))
        yield "loadgen", SMALL, functools.partial(clients.loadgen, protocol=protocol, rate=200,
                                                  requests=1500 if quick else 6000, latency_ms=1000)
    yield "perf_analyzer", SMALL, functools.partial(clients.perf_analyzer, requests=n(3000), streaming=True)
    yield "ghz", SMALL, functools.partial(ghz, requests=n(20000))
    yield "ghz", LARGE, functools.partial(ghz, requests=n(1000))


def installed(program):
    if program == "loadgen":
        try:
            import mlperf_loadgen  # noqa: F401
            return True
        except ImportError:
            return False
    return find(program) is not None


def main():
    parser = argparse.ArgumentParser(prog="./run referees", description="other people's clients against a server")
    parser.add_argument("--quick", action="store_true", help="a tenth of the requests")
    parser.add_argument("clients", nargs="*", metavar="CLIENT", help="only these")
    options = parser.parse_args()
    row = "%-14s %-20s %6s %9s %7s %9s %9s  %s"
    good = True
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for model in (SMALL, LARGE):
            save_model(folder / "repository", model)
        with Server("--repository", folder / "repository", "--slo-ms", 1000) as server:
            print(row % ("client", "protocol", "input", "requests", "failed", "p50 ms", "p99 ms", "verdict"), flush=True)
            for program, model, run in trials(options.quick):
                if options.clients and program not in options.clients:
                    continue
                if not installed(program):
                    print(row % (program, "", "", "-", "-", "-", "-", "not installed"), flush=True)
                    good = False
                    continue
                o = run(server, model, folder)
                good &= o.failed == 0 and o.requests > 0 and o.verdict in ("", "VALID")
                ms = lambda value: "-" if value is None else "%.3f" % value
                print(row % (o.client, o.protocol, "600 KB" if model is LARGE else "1 KB", o.requests, o.failed,
                             ms(o.p50_ms), ms(o.p99_ms), o.verdict), flush=True)
    sys.exit(0 if good else 1)


main()
