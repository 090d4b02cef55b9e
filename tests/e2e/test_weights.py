"""test_weights.py - weights in files of their own that others write while the model is served: in place, and cut short."""
# sanitizers: address
import os

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from repository import measure, save_model
from server import Server

ROWS = 20000


def save_table(folder):
    """A model that looks rows of ones up, and that no optimised copy can be kept of."""
    table = numpy_helper.from_array(np.ones((ROWS, 64), np.float32), "table")
    save_model(folder, "table", [helper.make_node("Gather", ["table", "i"], ["y"])], [("i", TensorProto.INT64, ["N"])],
               [("y", TensorProto.FLOAT, ["N", 64])], [table], save_as_external_data=True, location="weights.bin", size_threshold=0)
    (folder / "table" / "1" / ".symphony").write_text("")  # where the copy's folder would be
    return folder / "table" / "1" / "weights.bin"


def test_weights_stay_as_they_were_loaded(tmp_path):
    (tmp_path / "temporary").mkdir()
    weights = save_table(tmp_path / "models")
    nowhere = {"HOME": "/dev/null", "XDG_CACHE_HOME": "/dev/null", "TMPDIR": str(tmp_path / "temporary")}
    with Server("--repository", tmp_path / "models", "--accelerators", "cpu:2", env={**os.environ, **nowhere}) as server:

        def rows(*numbers):
            status, answer = server.infer("table", [{"name": "i", "datatype": "INT64", "shape": [len(numbers)], "data": numbers}],
                                          parameters={"timeout": 600 * 10**6})
            return status == 200 and set(answer["outputs"][0]["data"])

        assert rows(ROWS - 1) == {1}
        assert len(list((tmp_path / "temporary").glob(".symphony-temporary-*"))) == 1  # for both accelerators
        with open(weights, "r+b") as file:
            file.write(np.full(ROWS * 64, 2, np.float32).tobytes())
        assert rows(ROWS - 2, 0) == {1}
        os.truncate(weights, 0)
        assert rows(ROWS - 3, *range(0, ROWS, 5000)) == {1}
        assert server.stop() == 0
    assert list((tmp_path / "temporary").glob(".symphony-temporary-*")) == []


def test_weights_of_a_copy_that_is_cut_come_from_the_original(tmp_path):
    """The sessions of both accelerators map the copy. No request is lost."""
    table = numpy_helper.from_array(np.ones((64, 1024), np.float32), "table")
    save_model(tmp_path, "dense", [helper.make_node("MatMul", ["x", "table"], ["y"])], [("x", TensorProto.FLOAT, ["N", 64])],
               [("y", TensorProto.FLOAT, ["N", 1024])], [table])
    measure(tmp_path)
    with Server("--repository", tmp_path, "--accelerators", "cpu:2", "--slo-ms", "600000") as server:

        def right():
            status, answer = server.infer("dense", [{"name": "x", "datatype": "FP32", "shape": [1, 64], "data": [1] * 64}])
            return status == 200 and set(answer["outputs"][0]["data"]) == {64}

        assert right()
        copy, = (tmp_path / "dense" / "1" / ".symphony").glob("*.weights")
        os.truncate(copy, 0)
        for _ in range(10):
            assert right()
        assert "weights can no longer be read: the model was loaded anew" in server.log_text()
        assert server.stop() == 0
