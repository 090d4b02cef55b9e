"""engine.py - measures the engine alone: its time for each batch size, and at a pace at which the caches lose its data.

Run as a program of its own, so that it can be pinned to the server's core: engine.py SECONDS PACE_RPS NAME=PATH...
"""

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import models

BATCHES = (1, 2, 4, 8, 16, 32)


def measure(path: str, model: models.Model, seconds: float, pace_rps: float) -> dict:
    session = session_open(path)
    batch_ms = {batch: closed_ms(session, model.inputs(batch), model, seconds) for batch in BATCHES}
    return {"batch_ms": batch_ms, "paced_ms": paced_ms(session, model.inputs(1), model, 2 * seconds, pace_rps)}


def session_open(path: str):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def closed_ms(session, x, model: models.Model, seconds: float) -> float:
    """Median time of a run, one after the other."""
    for _ in range(3):
        session.run([model.output], {model.input: x})
    times, end = [], time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        times.append(run_s(session, x, model))
    return statistics.median(times) * 1e3


def paced_ms(session, x, model: models.Model, seconds: float, pace_rps: float) -> float:
    """Median time of a run when they come at the pace at which the servers' latency is measured."""
    times, due = [], time.perf_counter()
    for _ in range(int(seconds * pace_rps)):
        due += 1 / pace_rps
        time.sleep(max(0.0, due - time.perf_counter()))
        times.append(run_s(session, x, model))
    return statistics.median(times) * 1e3


def run_s(session, x, model: models.Model) -> float:
    began = time.perf_counter()
    session.run([model.output], {model.input: x})
    return time.perf_counter() - began


def measure_all(python: Path, core: int, onnx: dict[str, Path], seconds: float, pace_rps: float) -> dict:
    command = ["taskset", "--cpu-list", str(core), str(python), __file__, str(seconds), str(pace_rps),
               *(f"{name}={path}" for name, path in onnx.items())]
    results = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    for result in results.values():  # JSON's keys are strings
        result["batch_ms"] = {int(batch): ms for batch, ms in result["batch_ms"].items()}
    return results


def main() -> None:
    seconds, pace_rps = float(sys.argv[1]), float(sys.argv[2])
    rows = (argument.partition("=")[::2] for argument in sys.argv[3:])
    print(json.dumps({name: measure(path, models.MODELS[name], seconds, pace_rps) for name, path in rows}))


if __name__ == "__main__":
    main()
