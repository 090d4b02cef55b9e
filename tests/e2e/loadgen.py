"""loadgen.py - MLPerf's load generator in its Server scenario as a client; prints what it found as JSON.

    python loadgen.py HTTP|gRPC PORT MODEL INPUT WIDTH RATE REQUESTS LATENCY_MS FOLDER

It issues queries at times of its own choosing (Poisson) whether or not earlier ones are answered, counts from when each
was due, and is content if 99 % are answered within LATENCY_MS and enough of them for that to be sure. A process of its
own: the load generator keeps global state."""
import http.client
import json
import pathlib
import queue
import re
import sys
import threading

import mlperf_loadgen as lg
import numpy as np

THREADS = 16
SAMPLES = 64


def http_caller(port, model, name):
    connection = http.client.HTTPConnection("127.0.0.1", port)

    def call(array):
        head = {"inputs": [{"name": name, "datatype": "FP32", "shape": array.shape,
                            "parameters": {"binary_data_size": array.nbytes}}]}
        text = json.dumps(head).encode()
        connection.request("POST", "/v2/models/%s/infer" % model, text + array.tobytes(),
                           {"Inference-Header-Content-Length": str(len(text))})
        response = connection.getresponse()
        if response.read() and response.status != 200:
            raise OSError(response.status)
    return call


def grpc_caller(port, model, name):
    import tritonclient.grpc as triton
    client = triton.InferenceServerClient("127.0.0.1:%d" % port)

    def call(array):
        given = triton.InferInput(name, array.shape, "FP32")
        given.set_data_from_numpy(array)
        client.infer(model, [given])
    return call


def main():
    protocol, port, model, name, width, rate, requests, latency_ms, folder = sys.argv[1:]
    arrays = np.random.default_rng(1).random((SAMPLES, 1, int(width)), np.float32)
    waiting, issued, failures = queue.SimpleQueue(), [], []

    def issue(samples):
        issued.extend(samples)
        for sample in samples:
            waiting.put(sample)

    def work():
        call = (http_caller if protocol == "HTTP" else grpc_caller)(int(port), model, name)
        while (sample := waiting.get()) is not None:
            try:
                call(arrays[sample.index])
            except Exception as error:  # whatever it is, it is the verdict that tells
                failures.append(error)
            lg.QuerySamplesComplete([lg.QuerySampleResponse(sample.id, 0, 0)])

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    settings, log = lg.TestSettings(), lg.LogSettings()
    settings.scenario, settings.mode = lg.TestScenario.Server, lg.TestMode.PerformanceOnly
    settings.server_target_qps = float(rate)
    settings.server_target_latency_ns = int(float(latency_ms) * 1e6)
    settings.min_query_count = int(requests)
    settings.min_duration_ms = 0
    log.log_output.outdir = folder
    log.enable_trace = False
    sut = lg.ConstructSUT(issue, lambda: None)
    library = lg.ConstructQSL(SAMPLES, SAMPLES, lambda indices: None, lambda indices: None)
    lg.StartTestWithLogSettings(sut, library, settings, log)
    for _ in threads:
        waiting.put(None)
    for thread in threads:
        thread.join()
    lg.DestroyQSL(library)
    lg.DestroySUT(sut)

    summary = (pathlib.Path(folder) / "mlperf_log_summary.txt").read_text()
    number = lambda what: float(re.search(r"%s\s*: ([\d.]+)" % re.escape(what), summary)[1])
    print(json.dumps({
        "verdict": re.search(r"Result is : (\w+)", summary)[1],
        "answered": len(issued) - len(failures), "failed": len(failures),
        "p50_ms": number("50.00 percentile latency (ns)") / 1e6, "p99_ms": number("99.00 percentile latency (ns)") / 1e6,
    }))


main()
