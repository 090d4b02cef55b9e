"""prepare.py - measures images that are decoded while their requests wait, against images decoded before they are sent.

    build/venv/bin/python bench/prepare.py [--seconds S] [--rounds N] [--rates R,...] [--slo-ms MS] [--threads N]

One emulated accelerator runs a model that takes 500 x 375 pixels and as long as ResNet-50 on a GTX 1080Ti (Symphony,
arXiv 2308.07470, Table 4), so that the processors are free for decoding. Requests come at random times (Poisson), with a
JPEG of some 70 KB each. `decoded while queued` sends the file to the model with `prepare` in its symphony.yaml. `decoded
before` decodes it in the client with the same library, and sends the pixels to the same model without. Latency counts
from when a request was due. Prints Markdown: the medians over the rounds. Server and clients share this machine.
"""
import argparse
import http.client
import json
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
from onnx import TensorProto, helper  # noqa: E402

from images import jpeg, jpeg_pixels, picture  # noqa: E402
from repository import save_model  # noqa: E402
from server import Server  # noqa: E402

HEIGHT, WIDTH = 375, 500
ALPHA_MS, BETA_MS, BATCH = 1.053, 5.072, 32
CLIENTS = 48


def repository(folder, slo_ms):
    nodes = [helper.make_node("Cast", ["image"], ["x"], to=TensorProto.FLOAT),
             helper.make_node("ReduceMean", ["x"], ["y"], axes=[1, 2], keepdims=0)]
    points = [{"batch": b, "latency_ms": ALPHA_MS * b + BETA_MS} for b in (1, BATCH)]
    profile = folder / "profile.json"
    profile.write_text(json.dumps({"symphony_profile": 1, "points": points}))
    for name, more in (("queued", "prepare: [{step: decode_image}]\n"), ("before", "")):
        save_model(folder, name, nodes, [("image", TensorProto.UINT8, ["N", HEIGHT, WIDTH, 3])],
                   [("y", TensorProto.FLOAT, ["N", 3])])
        (folder / name / "symphony.yaml").write_text(f"slo_ms: {slo_ms}\nmax_batch: {BATCH}\nprofile: ../{profile.name}\n{more}")


def quantile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] if values else float("nan")


def turn(port, model, rate, seconds, slo_s, files, seed):
    """Latencies of the answers, and how many requests were answered in time."""
    due, latencies, lock, rng = queue.Queue(), [], threading.Lock(), random.Random(seed)
    counts = {"sent": 0, "good": 0}

    def client():
        connection = http.client.HTTPConnection("127.0.0.1", port)
        head = {"Inference-Header-Content-Length": "0"}
        while (job := due.get()) is not None:
            at, file = job
            body = file if model == "queued" else jpeg_pixels(file, HEIGHT, WIDTH).tobytes()
            connection.request("POST", f"/v2/models/{model}/infer", body, head)
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
        due.put((at, rng.choice(files)))
        at += rng.expovariate(rate)
    for _ in threads:
        due.put(None)
    for thread in threads:
        thread.join()
    return latencies, counts["good"] / counts["sent"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rates", default="20,50,100,150")
    parser.add_argument("--slo-ms", type=float, default=40)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    files = [jpeg(picture(HEIGHT, WIDTH, seed), 92) for seed in range(8)]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        repository(folder, options.slo_ms)
        with Server("--repository", str(folder), "--accelerators", "emulated:1", "--prepare-threads",
                    str(options.threads)) as server:
            turn(server.port, "queued", 20, 2, 1, files, 0)  # promises and margins are measured
            print(f"{len(files[0]) / 1000:.0f} KB a file, SLO {options.slo_ms:g} ms, {os.cpu_count()} cores, "
                  f"{options.rounds} rounds of {options.seconds:g} s\n")
            print("| requests/s | decoded | p50 | p99 | in time |\n|---|---|---|---|---|")
            for rate in map(float, options.rates.split(",")):
                rows = {"queued": [], "before": []}
                for n in range(options.rounds):
                    for model in rows:
                        latencies, good = turn(server.port, model, rate, options.seconds, options.slo_ms / 1000, files, n)
                        rows[model].append((quantile(latencies, 0.5), quantile(latencies, 0.99), good))
                for model, what in (("queued", "while queued"), ("before", "before it is sent")):
                    p50, p99, good = (statistics.median(row[i] for row in rows[model]) for i in range(3))
                    print(f"| {rate:g} | {what} | {p50 * 1000:.1f} ms | {p99 * 1000:.1f} ms | {good:.1%} |", flush=True)


if __name__ == "__main__":
    main()
