"""prepare.py - measures inputs that are prepared while their requests wait, against inputs prepared before.

    build/venv/bin/python bench/prepare.py [--work jpeg,resize] [--ways queued,cluster,stage,client] [--rates R,...] [--seconds S]
                                           [--rounds N] [--slo-ms MS] [--threads N] [--busy N]

One emulated accelerator runs a model that takes as long as ResNet-50 on a GTX 1080Ti (Symphony, arXiv 2308.07470, Table 4),
so that the processors are free for preparing. Requests come at random times (Poisson). The work is

    jpeg    a JPEG of some 70 KB is decoded to 500 x 375 pixels, which are the model's input
    resize  500 x 375 pixels become FP32 [3,224,224], resized and normalised by an ONNX model

and it is done

    queued  by the server while the request waits: `prepare` in the model's symphony.yaml, --threads threads
    cluster the same by a frontend of a cluster, with the same accelerator in a backend and a scheduler beside it
    stage   by the server before that: an ensemble whose first step is the same ONNX model, served on --threads CPU
            accelerators. Not of jpeg, which no ONNX model decodes
    client  by the client, with the same library, before it sends

Latency counts from when a request was due. --busy processes take the processors meanwhile. Prints Markdown: medians over the
rounds, in which the ways take turns. Server and clients share this machine.
"""
import argparse
import contextlib
import http.client
import json
import multiprocessing
import os
import pathlib
import queue
import random
import statistics
import sys
import tempfile
import threading
import time

TOP = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / "tests" / "e2e"))
os.environ.setdefault("SYMPHONY_BINARY", str(TOP / "build/release/symphony"))
import numpy as np  # noqa: E402
import onnxruntime  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from images import jpeg, jpeg_pixels, picture  # noqa: E402
from prepared import Cluster  # noqa: E402
from repository import save_onnx as save  # noqa: E402
from server import Server  # noqa: E402

HEIGHT, WIDTH, SIDE = 375, 500, 224
ALPHA_MS, BETA_MS, BATCH = 1.053, 5.072, 32
CLIENTS = 48
UINT8, FLOAT = TensorProto.UINT8, TensorProto.FLOAT
PIXELS, TENSOR = ["N", HEIGHT, WIDTH, 3], ["N", 3, SIDE, SIDE]
WAYS = {"queued": "while queued", "cluster": "while queued, in a cluster", "stage": "in a stage before", "client": "in the client"}


def save_resize(path):
    def constant(name, value, kind):
        return numpy_helper.from_array(np.array(value, kind), name)

    # smaller first: what follows has a third of the elements
    save(path, [helper.make_node("Cast", ["pixels"], ["f"], to=FLOAT),
                helper.make_node("Transpose", ["f"], ["t"], perm=[0, 3, 1, 2]),
                helper.make_node("Resize", ["t", "", "scales"], ["r"], mode="linear"),
                helper.make_node("Sub", ["r", "mean"], ["c"]), helper.make_node("Mul", ["c", "scale"], ["x"])],
         [("pixels", UINT8, PIXELS)], [("x", FLOAT, TENSOR)],
         [constant("mean", np.reshape([123.675, 116.28, 103.53], (3, 1, 1)), np.float32),
          constant("scale", np.reshape([1 / 58.395, 1 / 57.12, 1 / 57.375], (3, 1, 1)), np.float32),
          constant("scales", [1, 1, (SIDE + 0.01) / HEIGHT, (SIDE + 0.01) / WIDTH], np.float32)])


def save_model(folder, name, x, settings, group="KIND_GPU"):
    kind, shape = x
    nodes = [helper.make_node("Cast", ["x"], ["f"], to=FLOAT), helper.make_node("ReduceMean", ["f"], ["y"], axes=[1, 2, 3])]
    save(folder / name / "1" / "model.onnx", nodes, [("x", kind, shape)], [("y", FLOAT, ["N", 1, 1, 1])])
    (folder / name / "config.pbtxt").write_text(f"instance_group {{ kind: {group} }}\n")
    (folder / name / "symphony.yaml").write_text(settings)


def repository(folder, slo_ms):
    points = [{"batch": b, "latency_ms": ALPHA_MS * b + BETA_MS} for b in (1, BATCH)]
    (folder / "profile.json").write_text(json.dumps({"symphony_profile": 1, "points": points}))
    settings = f"slo_ms: {slo_ms}\nmax_batch: {BATCH}\nprofile: ../profile.json\n"
    save_model(folder, "jpeg_queued", (UINT8, PIXELS), settings + "prepare: [{step: decode_image}]\n")
    save_model(folder, "jpeg_client", (UINT8, PIXELS), settings)
    save_model(folder, "resize_queued", (FLOAT, TENSOR), settings + "prepare: [{step: onnx, model: prepare.onnx}]\n")
    save_model(folder, "resize_client", (FLOAT, TENSOR), settings)
    save_resize(folder / "resize_queued" / "1" / "prepare.onnx")
    save_resize(folder / "resize" / "1" / "model.onnx")
    (folder / "resize" / "config.pbtxt").write_text("instance_group { kind: KIND_CPU }\n")
    (folder / "resize" / "symphony.yaml").write_text(f"max_batch: {BATCH}\n")
    (folder / "resize_stage").mkdir()
    (folder / "resize_stage" / "symphony.yaml").write_text(f"slo_ms: {slo_ms}\n")
    (folder / "resize_stage" / "config.pbtxt").write_text(f'''platform: "ensemble"
max_batch_size: {BATCH}
input {{ name: "pixels" data_type: TYPE_UINT8 dims: [ {HEIGHT}, {WIDTH}, 3 ] }}
output {{ name: "y" data_type: TYPE_FP32 dims: [ 1, 1, 1 ] }}
ensemble_scheduling {{
  step {{ model_name: "resize" input_map {{ key: "pixels" value: "pixels" }} output_map {{ key: "x" value: "x" }} }}
  step {{ model_name: "resize_client" input_map {{ key: "x" value: "x" }} output_map {{ key: "y" value: "y" }} }}
}}
''')


class Work:
    """What clients have, and what they send."""

    def __init__(self, name, folder):
        images = [picture(HEIGHT, WIDTH, seed) for seed in range(8)]
        self.name = name
        self.items = [jpeg(image, 92) for image in images] if name == "jpeg" else [image.tobytes() for image in images]
        self.ways = [way for way in WAYS if way != "stage" or name != "jpeg"]
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(str(folder / "resize" / "1" / "model.onnx"), options)

    def body(self, way, item):
        if way != "client":
            return item
        if self.name == "jpeg":
            return jpeg_pixels(item, HEIGHT, WIDTH).tobytes()
        pixels = np.frombuffer(item, np.uint8).reshape(1, HEIGHT, WIDTH, 3)
        return self.session.run(None, {"pixels": pixels})[0].tobytes()


def quantile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] if values else float("nan")


def turn(ports, work, way, rate, seconds, slo_s, seed):
    """Latencies of the answers, and how many requests were answered in time."""
    due, latencies, lock, rng = queue.Queue(), [], threading.Lock(), random.Random(seed)
    counts = {"sent": 0, "good": 0}

    def client():
        connection = http.client.HTTPConnection("127.0.0.1", ports[way == "cluster"])
        model = f"{work.name}_{'queued' if way == 'cluster' else way}"
        head = {"Inference-Header-Content-Length": "0"}
        while (job := due.get()) is not None:
            at, item = job
            connection.request("POST", f"/v2/models/{model}/infer", work.body(way, item), head)
            answer = connection.getresponse()
            answer.read()
            took = time.monotonic() - at
            with lock:
                counts["sent"] += 1
                if answer.status == 200:
                    latencies.append(took)
                    counts["good"] += took <= slo_s
        connection.close()

    threads = [threading.Thread(target=client) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    at, end = time.monotonic() + 0.05, time.monotonic() + 0.05 + seconds
    while at < end:
        time.sleep(max(0, at - time.monotonic()))
        due.put((at, rng.choice(work.items)))
        at += rng.expovariate(rate)
    for _ in threads:
        due.put(None)
    for thread in threads:
        thread.join()
    return latencies, counts["good"] / max(1, counts["sent"])


def spin():
    while True:
        pass


def table(options, folder, ports, name):
    work = Work(name, folder)
    ways = [way for way in options.ways.split(",") if way in work.ways]
    for way in ways:
        turn(ports, work, way, 20, 2, 1, 0)  # promises, margins and the ensemble's times are measured
    print(f"\n{name}: {len(work.items[0]) / 1000:.0f} KB an item, SLO {options.slo_ms:g} ms, {os.cpu_count()} cores, "
          f"{options.busy} busy processes, {options.rounds} rounds of {options.seconds:g} s\n")
    print("| requests/s | prepared | p50 | p99 | in time | good/s |\n|---|---|---|---|---|---|")
    for rate in map(float, options.rates.split(",")):
        rows = {way: [] for way in ways}
        for n in range(options.rounds):
            for way in ways:
                latencies, good = turn(ports, work, way, rate, options.seconds, options.slo_ms / 1000, n)
                rows[way].append((quantile(latencies, 0.5), quantile(latencies, 0.99), good))
        for way in ways:
            p50, p99, good = (statistics.median(row[i] for row in rows[way]) for i in range(3))
            print(f"| {rate:g} | {WAYS[way]} | {p50 * 1000:.1f} ms | {p99 * 1000:.1f} ms | {good:.1%} | {rate * good:.1f} |",
                  flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", default="jpeg,resize")
    parser.add_argument("--ways", default="queued,stage,client")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rates", default="20,50,100,150")
    parser.add_argument("--slo-ms", type=float, default=40)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--busy", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        repository(folder, options.slo_ms)
        accelerators = "--accelerators", f"emulated:1,cpu:{options.threads}"
        threads = "--prepare-threads", str(options.threads)
        names = [f"{work}_queued" for work in options.work.split(",")]
        with contextlib.ExitStack() as stack:
            server = stack.enter_context(Server("--repository", str(folder), *accelerators, *threads))
            ports = [server.port, None]
            if "cluster" in options.ways:
                ports[1] = stack.enter_context(Cluster(folder, names, *threads, backend=accelerators)).frontend.port
            busy = [multiprocessing.Process(target=spin, daemon=True) for _ in range(options.busy)]
            for process in busy:
                process.start()
            for work in options.work.split(","):
                table(options, folder, ports, work)
            for process in busy:
                process.terminate()


if __name__ == "__main__":
    main()
