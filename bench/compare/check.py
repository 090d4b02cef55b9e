"""check.py - checks that a server answers what the engine answers, before anything is measured."""

import http.client
import json
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnxruntime

import models
from servers import HOST

TOGETHER = 8
REFUSALS_MAX = 10  # a server that has just started may refuse requests that it has time for later


def expected(path, model: models.Model, inputs: list[np.ndarray]) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return [session.run([model.output], {model.input: x})[0] for x in inputs]


def ask(port: int, model: models.Model, x: np.ndarray, tensors: str) -> np.ndarray:
    """One request of the Open Inference Protocol, as JSON alone or with binary tensors."""
    tensor = {"name": model.input, "datatype": model.datatype, "shape": list(x.shape)}
    headers = {}
    if tensors == "json":
        tensor["data"] = x.ravel().tolist()
        body = json.dumps({"inputs": [tensor]}).encode()
    else:
        tensor["parameters"] = {"binary_data_size": x.nbytes}
        header = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
        headers["Inference-Header-Content-Length"] = str(len(header))
        body = header + x.tobytes()
    for _ in range(REFUSALS_MAX):
        connection = http.client.HTTPConnection(HOST, port, timeout=30)
        connection.request("POST", f"/v2/models/{model.name}/infer", body, headers)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        if answer.status != 503:
            break
        time.sleep(0.2)
    if answer.status != 200:
        raise ValueError(f"{model.name}: status {answer.status}: {content[:300]!r}")
    length = answer.headers.get("Inference-Header-Content-Length")
    output = json.loads(content[: int(length)] if length else content)["outputs"][0]
    if "data" in output:
        return np.array(output["data"], np.float32).reshape(output["shape"])
    if not length:
        raise ValueError(f"{model.name}: an answer without data: {content[:300]!r}")
    return np.frombuffer(content, np.float32, offset=int(length)).reshape(output["shape"])


def check(server, onnx: dict) -> None:
    """Sends many requests at once, so that they are batched. Raises ValueError if an answer differs from the engine's
    by more than float rounding."""
    for name, model in models.MODELS.items():
        inputs = [model.inputs(1, seed) for seed in range(TOGETHER)]
        with ThreadPoolExecutor(TOGETHER) as pool:
            answers = list(pool.map(lambda x: ask(server.port, model, x, server.tensors), inputs))
        for got, want in zip(answers, expected(onnx[name], model, inputs)):
            if got.shape != want.shape or not np.allclose(got, want, rtol=1e-3, atol=1e-4):
                raise ValueError(f"{name}: a wrong answer of shape {got.shape}")
