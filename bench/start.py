"""start.py - how soon `symphony serve` listens, answers its first request and is ready, of many models.

    build/venv/bin/python bench/start.py --models 4000 --graphs 20 [--emulated] [--again] [-- OPTION...]

The models are small MLPs: every one has weights of its own, and one of --graphs graphs, which differ in their widths. They are
made below --folder, if they are not there, and profiled by the first start; --again: started twice, so that the second start
finds the profiles. With --emulated they are a scenario's. Options behind `--` go to `symphony serve`.
"""
import argparse
import http.client
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

BINARY = os.environ.get("SYMPHONY_BINARY", "build/release/symphony")


def models_make(folder, models, graphs):
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    random = np.random.default_rng(1)
    for n in range(models):
        path = folder / ("m%04d" % n) / "1" / "model.onnx"
        if path.exists():
            continue
        widths = [32, 64 + 16 * (n % graphs), 8]
        weights, nodes, value = [], [], "x"
        for layer, (rows, columns) in enumerate(zip(widths, widths[1:])):
            weights.append(numpy_helper.from_array(random.standard_normal((rows, columns), np.float32) / rows, "w%d" % layer))
            nodes.append(helper.make_node("MatMul", [value, "w%d" % layer], ["p%d" % layer]))
            nodes.append(helper.make_node("Tanh", ["p%d" % layer], ["y" if layer == 1 else "h"]))
            value = "h"
        graph = helper.make_graph(nodes, "mlp", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", widths[0]])],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", widths[-1]])], weights)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())


def scenario_make(path, models):
    path.write_text("cluster: {accelerators: 8, type: test}\n"
                    "models:\n  - {name: m, alpha_ms: 0.01, beta_ms: 0.1, slo_ms: 1000, copies: %d}\n"
                    "workload: {rate_rps: 10}\n" % models)


def memory_mib(pid):
    with open("/proc/%d/status" % pid) as file:
        return int(re.search(r"VmRSS:\s+(\d+)", file.read()).group(1)) / 1024


def ask(port, method, path, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path, body)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def start(options, first, last, body, seconds):
    """Starts a server, and asks for readiness and for the first model until both are there. The figures, in s and MiB."""
    log = tempfile.NamedTemporaryFile(mode="w+", prefix="symphony-start-", suffix=".log")
    began = time.monotonic()
    server = subprocess.Popen([BINARY, "serve", "--host", "127.0.0.1", "--http-port", "0", "--grpc-port", "0", "--metrics-port",
                               "0", *options], stdout=subprocess.DEVNULL, stderr=log)
    figures, port = {}, None
    try:
        while "ready_s" not in figures and time.monotonic() < began + seconds and server.poll() is None:
            time.sleep(0.01)
            text = pathlib.Path(log.name).read_text()
            found = re.search(r'msg="(?:listening|ready)" http_port=(\d+)', text)
            if not port and found:
                port = int(found.group(1))
                figures["listening_s"] = time.monotonic() - began
            if port and "first_answer_s" not in figures:
                if ask(port, "POST", "/v2/models/%s/infer" % first, body)[0] == 200:
                    figures["first_answer_s"] = time.monotonic() - began
            if re.search(r'msg="ready"', text):
                figures["ready_s"] = time.monotonic() - began
        figures["resident_mib"] = memory_mib(server.pid)
        if "ready_s" in figures:
            figures["last_model"] = ask(port, "POST", "/v2/models/%s/infer" % last, body)[0]
        elif port:
            figures["says"] = ask(port, "GET", "/v2/health/ready")[1].decode()
        asked = time.monotonic()
        server.send_signal(signal.SIGTERM)
        server.wait(120)
        figures["stopped_s"] = time.monotonic() - asked
    finally:
        if server.poll() is None:
            server.kill()
    return {name: round(value, 3) if isinstance(value, float) else value for name, value in figures.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=4000)
    parser.add_argument("--graphs", type=int, default=20)
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("build/start"))
    parser.add_argument("--emulated", action="store_true")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--seconds", type=float, default=3600, help="most time for a start")
    parser.add_argument("options", nargs="*")
    args = parser.parse_args()
    folder = args.folder / ("%d-%d" % (args.models, args.graphs))
    folder.mkdir(parents=True, exist_ok=True)
    if args.emulated:
        scenario_make(folder / "scenario.yaml", args.models)
        options, first, last = ["--scenario", folder / "scenario.yaml"], "m-1", "m-%d" % args.models
        tensor = {"name": "INPUT", "shape": [1, 1], "datatype": "FP32", "data": [0]}
    else:
        models_make(folder / "models", args.models, args.graphs)
        options, first, last = ["--repository", folder / "models"], "m0000", "m%04d" % (args.models - 1)
        tensor = {"name": "x", "shape": [1, 32], "datatype": "FP32", "data": [0.0] * 32}
    for _ in range(1 + args.again):
        print(json.dumps(start([*map(str, options), *args.options], first, last, json.dumps({"inputs": [tensor]}), args.seconds)))
        sys.stdout.flush()


if __name__ == "__main__":
    main()
