"""test_cluster_poison.py - a request at which every process ends that runs it."""
# sanitizers: address thread
import concurrent.futures
import json
import os
import platform
import subprocess

import pytest
from onnx import TensorProto, helper

from repository import save_model
from server import BINARY, free_port, wait_until
from test_standby import Frontend, Role

LEAST = -2**31
os.environ["SYMPHONY_TEST_TRAPS"] = "1"
LOST_LEAST = 3
LOST_MOST = LOST_LEAST + 2  # one may end before it has said that it has read the request, and does not count


def ends_a_few(folder):
    """Whether it does, and no more: not if backends stand still before they have said that they have read it."""
    join = "--join", "127.0.0.1:%d" % free_port()
    roles = [Role("scheduler", "--listen", join[1])]
    backends = []
    try:
        with Frontend(*join) as frontend, concurrent.futures.ThreadPoolExecutor(32) as pool:
            def ask(x, by):
                return frontend.infer("rest", [{"name": name, "datatype": "INT32", "shape": [1, 1], "data": [value]}
                                                 for name, value in (("x", x), ("by", by))])

            def told(x):
                status, answer = ask(x, 6)
                return answer["outputs"][0]["data"] == [x % 7] if status == 200 else answer

            def ended():
                return sum(one.process.poll() is not None for one in backends)

            def served():
                done = subprocess.run([BINARY, "status", *join, "--json", "--timeout", "60"], capture_output=True, text=True)
                if done.returncode != 0:  # the scheduler does not listen yet
                    return None
                return sum(model["backends"] for model in json.loads(done.stdout)["models"])

            for count in range(1, LOST_MOST + 2):  # one after the other: the first one's profile is for all
                backends.append(Role("backend", *join, "--repository", folder, "--accelerators", "cpu:1", "--pin", "none",
                                     "--slo-ms", "120000"))
                wait_until(lambda: served() == count, 600)
            wait_until(lambda: told(8) is True)
            others = [pool.submit(told, x) for x in range(500)]
            poison = pool.submit(ask, LEAST, -2)
            others += [pool.submit(told, x) for x in range(500)]
            status, answer = poison.result()
            if ended() > LOST_MOST:
                return False
            assert (status, answer["error"]) == (500, "model 'rest' failed: 3 backends were lost while they had this request; it "
                                                      "is not sent to another")
            assert {str(one.result()) for one in others} == {"True"}
            wait_until(lambda: ended() >= LOST_LEAST and served() == len(backends) - ended())
            assert told(8) is True
            return ended() <= LOST_MOST
    finally:
        for role in roles + backends:
            role.end()


@pytest.mark.skipif(platform.machine() != "x86_64", reason="elsewhere the lowest number divided by -1 is no trap")
def test_it_ends_a_few_backends_and_no_more(tmp_path):
    """Whoever asks is told; whatever ran or waited beside it is answered by others. Inputs are zeros while the model is measured, so it
    divides by one more than it is told: what is left over. In one of five tries."""
    one = helper.make_tensor("one", TensorProto.INT32, [1], [1])
    save_model(tmp_path, "rest", [helper.make_node("Add", ["by", "one"], ["more"]), helper.make_node("Mod", ["x", "more"], ["y"])],
               [("x", TensorProto.INT32, ["N", 1]), ("by", TensorProto.INT32, ["N", 1])], [("y", TensorProto.INT32, ["N", 1])], [one])
    assert any(ends_a_few(tmp_path) for _ in range(5))
