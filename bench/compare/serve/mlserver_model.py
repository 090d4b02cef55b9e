"""mlserver_model.py - a custom MLServer runtime: one ONNX Runtime session; MLServer batches before it."""

import onnxruntime
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceResponse


class OnnxModel(MLModel):
    async def load(self) -> bool:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        path = self.settings.parameters.uri
        self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self.input = self.session.get_inputs()[0].name
        self.output = self.session.get_outputs()[0].name
        return True

    async def predict(self, payload):
        x = NumpyCodec.decode_input(payload.inputs[0])
        y = self.session.run([self.output], {self.input: x})[0]
        return InferenceResponse(model_name=self.name, outputs=[NumpyCodec.encode_output(self.output, y)])
