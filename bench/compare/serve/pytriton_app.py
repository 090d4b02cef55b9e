"""pytriton_app.py - the models behind PyTriton, which runs Triton's server and calls back into this process.

Argument: a JSON file {"port", "models": [{"name", "path", "input", "datatype", "width", "output", "output_width",
"max_batch"}], "queue_delay_us"}.
"""

import json
import sys

import numpy as np
import onnxruntime
from pytriton.decorators import batch
from pytriton.model_config import DynamicBatcher, ModelConfig, Tensor
from pytriton.triton import Triton, TritonConfig

NUMPY_TYPES = {"FP32": np.float32, "INT32": np.int32}


def make_infer(model: dict):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model["path"], options, providers=["CPUExecutionProvider"])

    @batch
    def infer(**inputs):
        return {model["output"]: session.run([model["output"]], inputs)[0]}

    return infer


def main() -> None:
    with open(sys.argv[1]) as file:
        settings = json.load(file)
    config = TritonConfig(http_address="127.0.0.1", http_port=settings["port"], grpc_port=settings["port"] + 1,
                          metrics_port=settings["port"] + 2, allow_gpu_metrics=False)
    with Triton(config=config) as triton:
        for model in settings["models"]:
            triton.bind(
                model_name=model["name"],
                infer_func=make_infer(model),
                inputs=[Tensor(name=model["input"], dtype=NUMPY_TYPES[model["datatype"]], shape=(model["width"],))],
                outputs=[Tensor(name=model["output"], dtype=np.float32, shape=(model["output_width"],))],
                config=ModelConfig(max_batch_size=model["max_batch"], batcher=DynamicBatcher(
                    max_queue_delay_microseconds=settings["queue_delay_us"])),
            )
        triton.serve()


if __name__ == "__main__":
    main()
