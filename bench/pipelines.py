"""pipelines.py - measures ensembles: what one of a single model costs, and wake words in three ways.

    ./run pipelines && build/venv/bin/python bench/pipelines.py [--seconds S] [--rounds N] [--slo-ms M] [--no-whole]

1. A model, an ensemble of it alone, and a chain of two models, in turns: the latency of requests one after the other.
2. The demonstration pipeline wake-words: the highest rate of Poisson arrivals at which 99 % of its answers are there
   within the SLO, asked as an ensemble; as the same stages called one after the other by the client, with what is left
   of the SLO as their timeout; and as six whole models, one a wake word, each of which runs all stages.

Prints Markdown. Server and client share this machine, so compare what is measured in one run.
"""
import argparse
import os
import pathlib
import queue
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np
import tritonclient.grpc as triton
from onnx import TensorProto, helper

TOP = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / "tests" / "e2e"))
os.environ.setdefault("SYMPHONY_BINARY", str(TOP / "build/release/symphony"))
from repository import save_model  # noqa: E402
from server import Server  # noqa: E402

WORDS = {"alexa": 16, "jarvis": 16, "marvin": 16, "mycroft": 16, "timer": 34, "weather": 22}
SAMPLES = 54752
CLIENTS = 48         # requests that the client has outstanding at most
QUERIES_LEAST = 150  # of a trial, so that one late query decides nothing; but a trial takes
SECONDS_MOST = 60


# ---- what an ensemble costs ----

def small_repository(folder):
    x, y = ((name, TensorProto.FLOAT, ["N", 16]) for name in "xy")
    save_model(folder, "model", [helper.make_node("Neg", ["x"], ["y"])], [x], [y])
    for name, steps in (("alone", ["XY"]), ("chain", ["XM", "MY"])):
        (folder / name / "1").mkdir(parents=True)
        (folder / name / "config.pbtxt").write_text(
            'platform: "ensemble"\nmax_batch_size: 8\ninput { name: "X" data_type: TYPE_FP32 dims: 16 }\n'
            'output { name: "Y" data_type: TYPE_FP32 dims: 16 }\nensemble_scheduling {\n' + "".join(
                f'  step {{ model_name: "model" model_version: -1 input_map {{ key: "x" value: "{a}" }} '
                f'output_map {{ key: "y" value: "{b}" }} }}\n' for a, b in steps) + "}\n")


def one_after_the_other(client, model, name, seconds):
    given = triton.InferInput(name, [1, 16], "FP32")
    given.set_data_from_numpy(np.zeros((1, 16), np.float32))
    took, until = [], time.monotonic() + seconds
    while time.monotonic() < until:
        begin = time.perf_counter()
        client.infer(model, [given])
        took.append(time.perf_counter() - begin)
    return statistics.median(took) * 1e6


def cost(arguments):
    print("| a request after the other, median of %d turns | us | over the model |\n|---|---|---|" % arguments.rounds)
    with tempfile.TemporaryDirectory() as folder:
        small_repository(pathlib.Path(folder))
        models = {"model": "x", "alone": "X", "chain": "X"}
        took = {model: [] for model in models}
        with Server("--repository", folder, "--slo-ms", 1000) as server, \
                triton.InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as client:
            for _ in range(arguments.rounds):
                for model, name in models.items():
                    took[model].append(one_after_the_other(client, model, name, arguments.seconds / 5))
    for model, title in (("model", "a model"), ("alone", "an ensemble of it"), ("chain", "an ensemble of it twice")):
        over = statistics.median(a - b for a, b in zip(took[model], took["model"]))
        print(f"| {title} | {statistics.median(took[model]):.0f} | {over:+.0f} |", flush=True)


# ---- wake words ----

def tensor(name, array):
    given = triton.InferInput(name, list(array.shape), "FP32")
    given.set_data_from_numpy(array)
    return given


SOUND = (np.random.default_rng(1).standard_normal((1, SAMPLES)) * 1000).astype(np.float32)


def as_an_ensemble(client, left_us):
    client.infer("wake-words", [tensor("SOUND", SOUND)], timeout=left_us())


def stage_by_stage(client, left_us):
    def run(model, name, array):
        return client.infer(model, [tensor(name, array)], timeout=left_us())
    at = run("wake-spectrogram", "sound", SOUND).as_numpy("spectrogram")
    at = run("wake-windows", "spectrogram", at).as_numpy("windows")
    at = run("wake-embedding", "window", at).as_numpy("embedding")
    last = run("wake-features", "embeddings", at)
    for word, length in WORDS.items():
        run("wake-" + word, f"last{length}", last.as_numpy(f"last{length}"))


def whole_models(client, left_us):
    for word in WORDS:
        client.infer("whole-" + word, [tensor("sound", SOUND)], timeout=left_us())


def share_good(server, ask, rate, slo_s, seconds, seed):
    """Of the queries that arrive in so many seconds, how many are answered within the SLO from when they were due."""
    arrivals, good, rng = queue.Queue(), [], random.Random(seed)

    def client_run():
        with triton.InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as client:
            while (due := arrivals.get()) is not None:
                try:
                    ask(client, lambda: max(1, int((due + slo_s - time.monotonic()) * 1e6)))
                    good.append(time.monotonic() <= due + slo_s)
                except triton.InferenceServerException:
                    good.append(False)
    clients = [threading.Thread(target=client_run) for _ in range(CLIENTS)]
    for thread in clients:
        thread.start()
    at = begin = time.monotonic() + 0.2
    while at < begin + seconds:
        time.sleep(max(0, at - time.monotonic()))
        arrivals.put(at)
        at += rng.expovariate(rate)
    for _ in clients:
        arrivals.put(None)
    for thread in clients:
        thread.join()
    return sum(good) / max(1, len(good))


def highest_rate(server, ask, arguments):
    low, high, rate = 0.0, None, 2.0
    while high is None or high / max(low, 0.1) > 1.1:
        seconds = max(arguments.seconds, min(SECONDS_MOST, QUERIES_LEAST / rate))
        good = share_good(server, ask, rate, arguments.slo_ms / 1e3, seconds, 1)
        print(f"{ask.__name__.replace('_', ' ')}: {good:.1%} in time at {rate:.2f}/s", file=sys.stderr, flush=True)
        if good >= 0.99:
            low = rate
        else:
            high = rate
        if rate < 0.5:
            return low
        rate = rate * 1.5 if high is None else high / 1.5 if low == 0 else (low * high) ** 0.5
    return low


def wake_words(arguments):
    print(f"\n| wake words within {arguments.slo_ms:g} ms, 99 % | queries/s | of the whole models' |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, TOP / "scripts" / "demo_pipelines.py", "--whole", "--repository", folder,
                        "--models", TOP / "models", "--downloads", TOP / "build" / "downloads"], check=True,
                       stdout=subprocess.DEVNULL)
        for name in ("read-text", *(path.name for path in pathlib.Path(folder).glob("text-*"))):
            subprocess.run(["rm", "-r", os.path.join(folder, name)], check=True)
        with Server("--repository", folder, "--slo-ms", arguments.slo_ms) as server:
            ways = (as_an_ensemble, stage_by_stage) if arguments.no_whole else (as_an_ensemble, stage_by_stage, whole_models)
            rates = {ask: highest_rate(server, ask, arguments) for ask in ways}
    for ask in ways:
        times = "" if arguments.no_whole else "%.1f" % (rates[ask] / max(rates[whole_models], 0.1))
        print("| %s | %.1f | %s |" % (ask.__name__.replace("_", " "), rates[ask], times), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seconds", type=float, default=10, help="of a trial, which is longer at low rates (default: 10)")
    parser.add_argument("--rounds", type=int, default=9, help="turns of the first part (default: 9)")
    parser.add_argument("--slo-ms", type=float, default=2000, help="of wake words (default: 2000)")
    parser.add_argument("--no-whole", action="store_true", help="leave out the whole models")
    arguments = parser.parse_args()
    cost(arguments)
    wake_words(arguments)


if __name__ == "__main__":
    main()
