"""triton_model.py - the model.py of Triton's Python backend: one ONNX Runtime session, a batch at a time."""

import json
import os

import numpy as np
import onnxruntime
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args["model_config"])
        self.input = config["input"][0]["name"]
        self.output = config["output"][0]["name"]
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        path = os.path.join(args["model_repository"], args["model_version"], "model.onnx")
        self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def execute(self, requests):
        inputs = [pb_utils.get_input_tensor_by_name(request, self.input).as_numpy() for request in requests]
        batch = inputs[0] if len(inputs) == 1 else np.concatenate(inputs)
        result = self.session.run([self.output], {self.input: batch})[0]
        responses, row = [], 0
        for x in inputs:
            tensor = pb_utils.Tensor(self.output, result[row : row + len(x)])
            responses.append(pb_utils.InferenceResponse(output_tensors=[tensor]))
            row += len(x)
        return responses
