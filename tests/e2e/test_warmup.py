"""test_warmup.py - model_warmup of config.pbtxt: samples run before a model is served, and what fails with them."""
# sanitizers: address thread

import json
import platform
import re

import numpy as np
import tritonclient.http as triton
from onnx import TensorProto, helper, numpy_helper

from repository import save_model
from server import Server

DOUBLE = {"nodes": [helper.make_node("Add", ["x", "x"], ["y"])], "inputs": [("x", TensorProto.FLOAT, ["N", 4])],
          "outputs": [("y", TensorProto.FLOAT, ["N", 4])]}


def sample(name, size, source, count=1, dims="4", key="x", kind="TYPE_FP32"):
    return (f'model_warmup {{ name: "{name}" batch_size: {size} count: {count}\n'
            f'  inputs {{ key: "{key}" value {{ data_type: {kind} dims: [ {dims} ] {source} }} }} }}\n')


def configure(folder, name, *samples):
    (folder / name / "config.pbtxt").write_text("max_batch_size: 4\n" + "".join(samples))


def file_put(folder, name, file, array):
    (folder / name / "warmup").mkdir(exist_ok=True)
    (folder / name / "warmup" / file).write_bytes(array.tobytes())


def reason(server, model):
    index = json.loads(server.request("POST", "/v2/repository/index")[2])
    return next(entry["reason"] for entry in index if entry["name"] == model)


def test_samples_run_on_every_accelerator_before_the_model_is_served(tmp_path):
    save_model(tmp_path, "double", **DOUBLE)
    configure(tmp_path, "double", sample("zeros", 1, "zero_data: true", count=3), sample("some", 4, "random_data: true"),
              sample("given", 2, 'input_data_file: "four"'), sample("none", 0, "zero_data: true"))
    file_put(tmp_path, "double", "four", np.arange(4, dtype=np.float32))
    for start in ("measured", "from the cached profile"):
        with Server("--repository", str(tmp_path), "--slo-ms", "60000", "--accelerators", "cpu:2", "--log-level",
                    "debug") as server:
            log = server.log_text()[:server.log_text().index('msg="ready"')]
            for accelerator in range(2):
                for name, items, runs in (("zeros", 1, 3), ("some", 4, 1), ("given", 2, 1)):
                    assert f'sample="{name}" accelerator={accelerator} items={items} runs={runs}' in log, start
            assert 'sample="none"' not in log
            assert server.infer("double", [{"name": "x", "datatype": "FP32", "shape": [1, 4],
                                            "data": [1, 2, 3, 4]}])[0] == 200
            assert server.stop() == 0


def test_strings(tmp_path):
    """Of a model that takes them as they are, by Triton's own client."""
    save_model(tmp_path, "text", [helper.make_node("Identity", ["x"], ["y"])], [("x", TensorProto.STRING, ["N", 2])],
               [("y", TensorProto.STRING, ["N", 2])])
    configure(tmp_path, "text", sample("given", 2, 'input_data_file: "words"', dims="2", kind="TYPE_STRING"),
              sample("empty", 1, "random_data: true", dims="2", kind="TYPE_STRING"))
    file_put(tmp_path, "text", "words", np.frombuffer(b"\3\0\0\0cat\1\0\0\0!", np.uint8))
    with Server("--repository", str(tmp_path), "--slo-ms", "60000", "--log-level", "debug") as server:
        assert 'sample="given"' in server.log_text() and 'sample="empty"' in server.log_text()
        with triton.InferenceServerClient("127.0.0.1:%d" % server.port) as client:
            x = triton.InferInput("x", [1, 2], "BYTES")
            x.set_data_from_numpy(np.array([["a", "b"]], object))
            assert client.infer("text", [x]).as_numpy("y").tolist() == [[b"a", b"b"]]


def test_a_model_that_fails_its_samples_is_not_served_and_others_are(tmp_path):
    """In three ways: the engine says no, it crashes (the least integer divided by -1), the sample is wrong."""
    table = numpy_helper.from_array(np.arange(3, dtype=np.float32), "table")
    save_model(tmp_path, "pick", [helper.make_node("Gather", ["table", "i"], ["y"])],
               [("i", TensorProto.INT64, ["N", 1])], [("y", TensorProto.FLOAT, ["N", 1])], [table])
    configure(tmp_path, "pick", sample("far", 1, 'input_data_file: "far"', dims="1", key="i", kind="TYPE_INT64"))
    file_put(tmp_path, "pick", "far", np.array([7]))
    by = numpy_helper.from_array(np.array([-1], np.int32), "by")
    save_model(tmp_path, "divide", [helper.make_node("Div", ["x", "by"], ["y"])], [("x", TensorProto.INT32, ["N", 1])],
               [("y", TensorProto.INT32, ["N", 1])], [by])
    configure(tmp_path, "divide", sample("least", 1, 'input_data_file: "least"', dims="1", kind="TYPE_INT32"))
    file_put(tmp_path, "divide", "least", np.array([-2**31], np.int32))
    for name, wrong in (("wrong", sample("q", 1, "zero_data: true", key="q")),
                        ("escapes", sample("out", 1, 'input_data_file: "../1/model.onnx"'))):
        save_model(tmp_path, name, **DOUBLE)
        configure(tmp_path, name, wrong)
    save_model(tmp_path, "double", **DOUBLE)
    with Server("--repository", str(tmp_path), "--slo-ms", "60000", env={"SYMPHONY_TEST_TRAPS": "1"}) as server:
        assert "sample 'far' failed" in reason(server, "pick") and "pick/config.pbtxt:2:1" in reason(server, "pick")
        if platform.machine() == "x86_64":  # others divide on
            assert re.search("(killed by signal 8|exited with status).* while running the sample 'least' of model_warmup",
                             reason(server, "divide"))
        assert "wrong/config.pbtxt:3:12: model_warmup: the model has no input 'q'" in reason(server, "wrong")
        assert "not within the model's folder warmup" in reason(server, "escapes")
        assert server.infer("pick", [{"name": "i", "datatype": "INT64", "shape": [1, 1], "data": [1]}])[0] == 503
        assert server.infer("double", [{"name": "x", "datatype": "FP32", "shape": [1, 4],
                                        "data": [1, 2, 3, 4]}])[0] == 200
