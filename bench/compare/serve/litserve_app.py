"""litserve_app.py - a LitServe server that speaks the Open Inference Protocol's binary form on its usual paths.

Argument: a JSON file {"port", "models": [{"name", "path", "input", "datatype", "width", "output", "output_width",
"max_batch"}], "batch_timeout_s", "fast_queue"}.
"""

import json
import sys
from typing import Annotated

import litserve
import numpy as np
import onnxruntime
from fastapi import Depends, Request, Response

NUMPY_TYPES = {"FP32": np.float32, "INT32": np.int32}


async def read_body(request: Request) -> tuple[int, bytes]:
    return int(request.headers["Inference-Header-Content-Length"]), await request.body()


class OnnxApi(litserve.LitAPI):
    def __init__(self, model: dict, batch_timeout: float):
        super().__init__(max_batch_size=model["max_batch"], batch_timeout=batch_timeout,
                         api_path=f"/v2/models/{model['name']}/infer")
        self.model = model

    def setup(self, device):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(self.model["path"], options, providers=["CPUExecutionProvider"])

    def decode_request(self, request: Annotated[tuple, Depends(read_body)]):
        header_length, body = request
        tensor = json.loads(body[:header_length])["inputs"][0]
        return np.frombuffer(body, NUMPY_TYPES[tensor["datatype"]], offset=header_length).reshape(tensor["shape"])

    def batch(self, inputs):
        self.rows = [len(x) for x in inputs]
        return inputs[0] if len(inputs) == 1 else np.concatenate(inputs)

    def predict(self, x):
        return self.session.run([self.model["output"]], {self.model["input"]: x})[0]

    def unbatch(self, output):
        return np.split(output, np.cumsum(self.rows)[:-1])

    def encode_response(self, output) -> Response:
        header = json.dumps({
            "model_name": self.model["name"],
            "outputs": [{"name": self.model["output"], "datatype": "FP32", "shape": list(output.shape),
                         "parameters": {"binary_data_size": output.nbytes}}],
        }).encode()
        return Response(header + output.tobytes(), media_type="application/octet-stream",
                        headers={"Inference-Header-Content-Length": str(len(header))})


def add_metadata_routes(server: litserve.LitServer, models: list) -> None:
    by_name = {model["name"]: model for model in models}

    @server.app.get("/v2/models/{name}")
    async def metadata(name: str):
        model = by_name[name]
        return {
            "name": name,
            "versions": ["1"],
            "platform": "onnxruntime",
            "inputs": [{"name": model["input"], "datatype": model["datatype"], "shape": [-1, model["width"]]}],
            "outputs": [{"name": model["output"], "datatype": "FP32", "shape": [-1, model["output_width"]]}],
        }


def main() -> None:
    with open(sys.argv[1]) as file:
        settings = json.load(file)
    apis = [OnnxApi(model, settings["batch_timeout_s"]) for model in settings["models"]]
    server = litserve.LitServer(apis, accelerator="cpu", timeout=False, healthcheck_path="/v2/health/ready",
                                fast_queue=settings["fast_queue"])
    add_metadata_routes(server, settings["models"])
    server.run(host="127.0.0.1", port=settings["port"], num_api_servers=1, log_level="warning",
               generate_client_file=False)


if __name__ == "__main__":
    main()
