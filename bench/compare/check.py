"""check.py - does a server answer what the engine answers? Asked before anything is measured."""

import http.client
import json

import numpy as np
import onnxruntime

import models
from servers import HOST


def expected(path, model: models.Model, x: np.ndarray) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return session.run([model.output], {model.input: x})[0]


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
    connection = http.client.HTTPConnection(HOST, port, timeout=30)
    connection.request("POST", f"/v2/models/{model.name}/infer", body, headers)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    if answer.status != 200:
        raise ValueError(f"{model.name}: status {answer.status}: {content[:300]!r}")
    length = answer.headers.get("Inference-Header-Content-Length")
    output = json.loads(content[: int(length)] if length else content)["outputs"][0]
    if "data" in output:
        return np.array(output["data"], np.float32).reshape(output["shape"])
    return np.frombuffer(content, np.float32, offset=int(length)).reshape(output["shape"])


def check(server, onnx: dict) -> None:
    """Raises ValueError if an answer differs from the engine's by more than float rounding."""
    for name, model in models.MODELS.items():
        for seed in (1, 2):
            x = model.inputs(seed, seed)
            got, want = ask(server.port, model, x, server.tensors), expected(onnx[name], model, x)
            if got.shape != want.shape or not np.allclose(got, want, rtol=1e-3, atol=1e-4):
                raise ValueError(f"{name}: a wrong answer of shape {got.shape}, {np.abs(got - want).max()} off")
