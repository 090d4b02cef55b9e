"""test_leftovers.py - a server that is killed leaves files behind; the next one removes them."""
import base64
import json
import os
import subprocess
import threading

import onnx
from onnx import TensorProto, helper

from server import Server, wait_until
from test_weights import save_table


def brought():
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 2])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "brought", [value("x")], [value("y")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()


def test_what_a_killed_server_left_goes_with_the_next_start(tmp_path):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    save_table(tmp_path / "models")
    env = {**os.environ, "HOME": "/dev/null", "XDG_CACHE_HOME": "/dev/null", "TMPDIR": str(temporary)}
    order = json.dumps({"parameters": {"config": json.dumps({"max_batch_size": 2}),
                                       "file:1/model.onnx": base64.b64encode(brought()).decode()}})
    there = lambda: set(temporary.iterdir())

    def load(server):
        try:
            server.request("POST", "/v2/repository/models/brought/load", order)
        except OSError:
            pass  # it was killed

    left = set()
    for point in ("begins", "serves", "loads", "is there"):
        server = Server("--repository", tmp_path / "models", "--model-control-mode", "explicit", "--load-model", "table",
                        "--accelerators", "cpu:1", env=env)
        if point == "begins":  # its copy is being made, or is there
            server.process = subprocess.Popen(server.args, stdout=subprocess.DEVNULL, stderr=server.log, env=server.env)
            wait_until(there)
        else:
            server.start()
            assert there() and not there() & left, (point, there(), left)
        if point == "loads":  # the folder of what the client brought is there, too
            thread = threading.Thread(target=load, args=[server])
            thread.start()
            wait_until(lambda: len(there()) > 1)
        if point == "is there":
            assert server.stop() == 0
        server.process.kill()
        server.process.wait()
        if point == "loads":
            thread.join()
        server.__exit__(None, None, None)
        left = there()
        assert bool(left) == (point != "is there"), (point, left)
