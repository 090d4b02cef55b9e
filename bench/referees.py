"""referees.py - runs other people's clients against a server and prints a table; ./run referees builds them first.

    build/venv/bin/python bench/referees.py [--quick] [CLIENT]...

Starts a server with two models that compute next to nothing (inputs of 1 KB and of 600 KB). The last one, `k6 pool`, is a
load with deadlines: a ResNet-like model (2.438 b + 9.095 ms, SLO 37 ms) on 8 emulated accelerators, Poisson arrivals at 80 %
of its goodput in virtual time, by a client that takes its connections from Go's pool (the one used last first). Its
verdict is VALID if 99 % of the requests were answered in time as the client saw it; it also tells the server's count.

Exit status 1 if a request failed, a verdict is not VALID, or a client is not there. The times are those of a machine that
server and clients share.
"""
import argparse
import base64
import functools
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / "tests" / "e2e"))
os.environ.setdefault("SYMPHONY_BINARY", str(TOP / "build/release/symphony"))
import clients  # noqa: E402
from clients import Model, Outcome, find, output_of, save_model  # noqa: E402
from server import Server, wait_until  # noqa: E402

SMALL, LARGE, POOL = Model("small", 256), Model("large", 150528), Model("resnet", 1, input="INPUT")
INPUTS = {SMALL.name: "1 KB", LARGE.name: "600 KB", POOL.name: "4 B"}
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
    """Every method that changes nothing, and an inference."""
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


# One virtual user, so that all requests share one pool of connections (k6 has one for each user). It sends them at its
# own times, whether or not earlier ones were answered.
K6_POOL = """
import http from 'k6/http';
import { Counter, Trend } from 'k6/metrics';
import { setTimeout } from 'k6/experimental/timers';
const body = open(__ENV.BODY), gap = 1000 / Number(__ENV.RATE), slo = Number(__ENV.SLO_MS);
const answered = new Trend('answered'), late = new Counter('late'), refused = new Counter('refused'), failed = new Counter('failed');
export const options = { vus: 1, iterations: 1, batch: 10000, batchPerHost: 10000, discardResponseBodies: true };
function ask() {
    http.asyncRequest('POST', __ENV.TARGET, body).then((r) => {
        if (r.status === 200) {
            answered.add(r.timings.duration);
            late.add(r.timings.duration > slo ? 1 : 0);
        } else {
            (r.status === 503 ? refused : failed).add(1);
        }
    });
}
export default function () {
    let due = Date.now();
    const end = due + 1000 * Number(__ENV.SECONDS);
    function step() {
        for (; due <= Date.now() && due < end; due -= Math.log(1 - Math.random()) * gap) ask();
        if (due < end) setTimeout(step, Math.max(due - Date.now(), 0));
    }
    step();
}
"""
POOL_SLO_MS, POOL_SHARE = 37, 0.8
POOL_SCENARIO = """
cluster: {accelerators: 8, type: emulated}
models: [{name: resnet, alpha_ms: 2.438, beta_ms: 9.095, slo_ms: 37}]
workload: {rate_rps: 1000, arrivals: poisson}
run: {seconds: 20, warmup_seconds: 2, seed: 1}
"""


def k6_pool(_server, model, folder, seconds):
    scenario, script, body, summary = (folder / name for name in ("pool.yaml", "pool.js", "pool.json", "pool-summary.json"))
    scenario.write_text(POOL_SCENARIO)
    script.write_text(K6_POOL)
    body.write_text(model.json_body())
    found = subprocess.run([os.environ["SYMPHONY_BINARY"], "simulate", scenario, "--find", "goodput", "--json"],
                           check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    rate = POOL_SHARE * json.loads(found)["goodput_rps"]
    with Server("--scenario", scenario, "--pin", "none") as server:
        count = lambda name: int(sum(value for row, value in server.metrics().items() if row.startswith(name)))
        ok = 'symphony_requests_total{model="resnet",version="1",outcome="ok"}'
        output_of(find("k6"), "run", "--quiet", "--no-usage-report", "--summary-export", summary, "--summary-trend-stats",
                  "count,med,p(99)", script, env={"BODY": str(body), "TARGET": clients.infer_url(server, model),
                                                  "RATE": str(rate), "SECONDS": str(seconds), "SLO_MS": str(POOL_SLO_MS)})
        metrics = json.loads(summary.read_text())["metrics"]
        number = lambda name: metrics.get(name, {"count": 0})["count"]
        times, late, refused = metrics["answered"], number("late"), number("refused")
        answered = times["count"]
        wait_until(lambda: count(ok) >= answered)  # an answer may be here before it is counted
        server_late = count(ok) - count("symphony_requests_in_time_total")
    asked = answered + refused + number("failed")
    verdict = "%s at %.0f/s: %.2f %% late, %.2f %% refused; late to the server: %.2f %%" % (
        "VALID" if late + refused <= 0.01 * asked else "LATE", rate, 100 * late / asked, 100 * refused / asked,
        100 * server_late / asked)
    return Outcome("k6 pool", "HTTP", answered + refused, number("failed"), times["med"], times["p(99)"], verdict)


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
    yield "k6", POOL, functools.partial(k6_pool, seconds=5 if quick else 30)


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
        with Server("--repository", folder / "repository", "--slo-ms", 1000, "--shared-memory") as server:
            print(row % ("client", "protocol", "input", "requests", "failed", "p50 ms", "p99 ms", "verdict"), flush=True)
            for program, model, run in trials(options.quick):
                if options.clients and program not in options.clients:
                    continue
                if not installed(program):
                    print(row % (program, "", "", "-", "-", "-", "-", "not installed"), flush=True)
                    good = False
                    continue
                o = run(server, model, folder)
                good &= o.failed == 0 and o.requests > 0 and (not o.verdict or o.verdict.startswith("VALID"))
                ms = lambda value: "-" if value is None else "%.3f" % value
                print(row % (o.client, o.protocol, INPUTS[model.name], o.requests, o.failed,
                             ms(o.p50_ms), ms(o.p99_ms), o.verdict), flush=True)
    sys.exit(0 if good else 1)


main()
