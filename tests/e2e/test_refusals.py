"""test_refusals.py - an operating system that refuses or dawdles, at every place: refusals.c makes it so. Answers are right or refusals
that are answers, and once nothing is refused any more everything is served as before, and nothing is held."""
import base64
import ctypes
import errno
import json
import mmap
import os
import pathlib
import random
import resource
import subprocess

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
import tritonclient.utils.shared_memory as shm
from onnx import TensorProto, helper
from tritonclient.utils import InferenceServerException

from repository import measure, save_model
from server import Server, http_request, wait_until
from test_ensembles import save_ensemble, step, tensor

# of each kind what errno says; as enum kind in refusals.c
KINDS = {"part": 0, "again": errno.EAGAIN, "interrupt": errno.EINTR, "memory": errno.ENOMEM, "map": errno.ENOMEM, "size": errno.ENOSPC,
         "thread": errno.EAGAIN, "process": errno.EAGAIN, "open": errno.EMFILE, "list": errno.EIO, "about": errno.EIO, "save": errno.ENOSPC, "change": errno.EIO,
         "descriptor": errno.EMFILE, "watch": errno.ENOSPC, "connect": errno.ENETUNREACH, "resolve": errno.EAGAIN}
REFUSED = list(KINDS)[3:]
ALL = 2**62
WIDTH = 40000
PATIENCE_S = 600  # a request that takes longer has been forgotten
SEED = int(os.environ.get("SYMPHONY_SEED", 1))


class Rule(ctypes.Structure):
    _fields_ = [("per_million", ctypes.c_uint32), ("error", ctypes.c_int32), ("skip", ctypes.c_uint64), ("most", ctypes.c_uint64),
                ("least", ctypes.c_uint64), ("calls", ctypes.c_uint64), ("refused", ctypes.c_uint64)]


class Rules(ctypes.Structure):
    _fields_ = [("seed", ctypes.c_uint64), ("of", Rule * len(KINDS))]


class Refusals:
    """The rules of the processes that are started with self.env."""

    def __init__(self, library, folder):
        path = folder / "rules"
        path.write_bytes(bytes(ctypes.sizeof(Rules)))
        with open(path, "r+b") as file:
            self.rules = Rules.from_buffer(mmap.mmap(file.fileno(), 0))
        self.rules.seed, self.parts = SEED, 0
        self.env = {"LD_PRELOAD": str(library), "SYMPHONY_REFUSALS": str(path)}

    def refuse(self, kind, share=1.0, skip=0, most=ALL, least=0):
        """So many of the calls of a kind, once some were left alone, from now on. `least`: of memory only blocks of so many bytes."""
        rule = self.rules.of[list(KINDS).index(kind)]
        rule.per_million = 0
        rule.calls = rule.refused = 0
        rule.error, rule.skip, rule.most, rule.least = KINDS[kind], skip, most, least
        rule.per_million = round(share * 1e6)

    def stop(self):
        """But for what comes in parts, if that is to stay."""
        for rule in self.rules.of[1 if self.parts else 0:]:
            rule.per_million = 0

    def calls(self, kind, what):
        """How many of a kind there are meanwhile."""
        self.refuse(kind, skip=ALL)
        what()
        self.stop()
        return self.rules.of[list(KINDS).index(kind)].calls


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    path = tmp_path_factory.mktemp("library") / "refusals.so"
    subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-O1", "-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror",
                    pathlib.Path(__file__).parent / "refusals.c", "-o", path], check=True)
    return path


@pytest.fixture
def refusals(library, tmp_path):
    return Refusals(library, tmp_path)


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    folder = tmp_path_factory.mktemp("repository")
    number, text = TensorProto.FLOAT, TensorProto.STRING
    save_model(folder, "double", [helper.make_node("Add", ["x", "x"], ["y"])], [("x", number, ["N", 4])], [("y", number, ["N", 4])])
    save_model(folder, "wide", [helper.make_node("Neg", ["x"], ["y"])], [("x", number, ["N", WIDTH])], [("y", number, ["N", WIDTH])])
    save_model(folder, "text", [helper.make_node("Identity", ["x"], ["y"])], [("x", text, ["N", 1])], [("y", text, ["N", 1])])
    save_ensemble(folder, "twice", 8, [tensor("input", "x", "FP32", [4]), tensor("output", "y", "FP32", [4])],
                  [step("double", {"x": "x"}, {"y": "once"}), step("double", {"x": "once"}, {"y": "y"})])
    measure(folder)
    return folder


# ---- what clients ask: each function raises a Refusal or what its client raises, unless the answer is right ----

class Refusal(Exception):
    """An answer that says that there is none."""


def answer(server, method, path, body=None, port=None):
    status, _, data = http_request(port or server.port, method, path, body, timeout=PATIENCE_S)
    if status != 200:
        assert status >= 400 and (json.loads(data)["error"] if data else True), (path, status, data)
        raise Refusal(path, status, data)
    return data


def infer_json(model, datatype, data, wanted):
    body = json.dumps({"inputs": [{"name": "x", "datatype": datatype, "shape": [1, len(data)], "data": data}]})

    def ask(server):
        told = json.loads(answer(server, "POST", f"/v2/models/{model}/infer", body))
        assert told["outputs"][0]["data"] == wanted
    return ask


def looks_up(path, key, port="port"):
    def ask(server):
        data = answer(server, "GET", path, port=getattr(server, port))
        assert key in (json.loads(data) if port == "port" else data.decode()), (path, data[:300])
    return ask


WIDE = np.random.default_rng(1).random((1, WIDTH), np.float32)
FOUR = np.float32([[1, 2, 3, 4]])


def wide_over_http(server):
    client = triton_http.InferenceServerClient("127.0.0.1:%d" % server.port, network_timeout=PATIENCE_S)
    try:
        given = triton_http.InferInput("x", [1, WIDTH], "FP32")
        given.set_data_from_numpy(WIDE)
        for packed in (None, "gzip"):
            told = client.infer("wide", [given], outputs=[triton_http.InferRequestedOutput("y")],
                                request_compression_algorithm=packed, response_compression_algorithm=packed)
            assert np.array_equal(told.as_numpy("y"), -WIDE)
    finally:
        client.close()


def over_grpc(server):
    # it shares no connection with earlier clients, one of which may have been refused and waits
    client = triton_grpc.InferenceServerClient("127.0.0.1:%d" % server.grpc_port, channel_args=[("grpc.use_local_subchannel_pool", 1)])
    try:
        for model, array, wanted in (("double", FOUR, 2 * FOUR), ("wide", WIDE, -WIDE), ("twice", FOUR, 4 * FOUR)):
            given = triton_grpc.InferInput("x", list(array.shape), "FP32")
            given.set_data_from_numpy(array)
            assert np.array_equal(client.infer(model, [given], client_timeout=PATIENCE_S).as_numpy("y"), wanted)
        assert client.get_model_config("twice", client_timeout=PATIENCE_S).config.name == "twice"
        assert len(client.get_inference_statistics(client_timeout=PATIENCE_S).model_stats) == 4
    finally:
        client.close()


def in_shared_memory(server):
    key, forget = "/symphony-refusals-%d" % os.getpid(), "/v2/systemsharedmemory/region/region/unregister"
    answer(server, "POST", forget)  # which may have been refused
    region = shm.create_shared_memory_region("region", key, 64)
    client = triton_http.InferenceServerClient("127.0.0.1:%d" % server.port, network_timeout=PATIENCE_S)
    try:
        shm.set_shared_memory_region(region, [FOUR])
        client.register_system_shared_memory("region", key, 64)
        given, told = triton_http.InferInput("x", [1, 4], "FP32"), triton_http.InferRequestedOutput("y")
        given.set_shared_memory("region", 16)
        told.set_shared_memory("region", 16, 16)
        client.infer("double", [given], outputs=[told])
        assert np.array_equal(shm.get_contents_as_numpy(region, np.float32, [1, 4], 16), 2 * FOUR)
    finally:
        client.close()
        shm.destroy_shared_memory_region(region)
    answer(server, "POST", forget)


def long_path(server):
    """Which no model has."""
    with pytest.raises(Refusal) as refusal:
        answer(server, "GET", "/v2/models/" + 2000 * "x")
    if refusal.value.args[1] != 404:
        raise refusal.value
    assert b"unknown model" in refusal.value.args[2]


SMALL = [long_path, infer_json("double", "FP32", [1, 2, 3, 4], [2, 4, 6, 8]), infer_json("text", "BYTES", ["d\u20ac"], ["d\u20ac"]),
         infer_json("twice", "FP32", [1, 2, 3, 4], [4, 8, 12, 16])]
REQUESTS = [*SMALL, infer_json("wide", "FP32", [0.5] * WIDTH, [-0.5] * WIDTH), wide_over_http, over_grpc, in_shared_memory,
            looks_up("/v2", "version"), looks_up("/v2/models/wide", "inputs"), looks_up("/v2/models/twice/config", "ensemble_scheduling"),
            looks_up("/v2/models/stats", "model_stats"), looks_up("/v2/trace/setting", "trace_rate"),
            looks_up("/metrics", "symphony_model_ready", "metrics_port"), looks_up("/metrics", "nv_inference_count", "metrics_port"),
            looks_up("/v2/symphony/state", "accelerators", "metrics_port"),
            looks_up("/v2/symphony/requests", "requests", "metrics_port"), looks_up("/metrics/fine", "symphony_", "metrics_port")]


def all_are_right(server):
    for ask in REQUESTS:
        ask(server)


def is_right(server, ask):
    """Or refused: a connection may end, or be none. But it does not wait for ever."""
    try:
        ask(server)
    except TimeoutError:
        raise
    except (Refusal, OSError, InferenceServerException) as refusal:
        assert "Deadline Exceeded" not in str(refusal)
        return False
    except Exception as other:  # what Python's HTTP and gevent's clients make of a connection that ends
        if type(other).__module__.split(".")[0] not in ("http", "gevent", "geventhttpclient"):
            raise
        return False
    return True


def descriptors(server):
    return len(os.listdir("/proc/%d/fd" % server.process.pid))


def holds_nothing(server, before):
    figures = server.metrics()
    return figures["symphony_requests_in_flight"] == 0 and figures["symphony_inputs_bytes"] == 0 and descriptors(server) <= before + 1


def serve(repository, refusals, *args):
    return Server("--repository", repository, "--slo-ms", 3600000, "--accelerators", "cpu:1", *args, env=refusals.env)


@pytest.mark.parametrize("isolate", ["off", "on"])
def test_parts_are_as_good_as_the_whole(repository, refusals, isolate):
    refusals.refuse("part", 0.3)
    refusals.refuse("again", 0.15)
    refusals.refuse("interrupt", 0.05)
    with serve(repository, refusals, "--shared-memory", "--isolate", isolate) as server:
        for _ in range(5):
            all_are_right(server)
        server.rests()
        assert server.stop() == 0


@pytest.mark.parametrize("asked, parts", [(REQUESTS, 0), (SMALL[:2], 1)], ids=["whole", "in parts"])
def test_each_call_of_a_request_is_refused_once(repository, refusals, tmp_path, asked, parts):
    """Also where each request comes in parts, which have to be kept."""
    refusals.parts = parts
    with serve(repository, refusals, "--shared-memory", "--trace-file", tmp_path / "trace", "--access-log", tmp_path / "log") as server:
        for _ in range(2):
            all_are_right(server)
        before = descriptors(server)
        refusals.refuse("part", parts)
        for ask in asked:
            for kind in REFUSED:
                for n in range(refusals.calls(kind, lambda: ask(server))):
                    refusals.refuse(kind, skip=n, most=1)
                    is_right(server, ask)
                    refusals.stop()
                    assert server.process.poll() is None
                ask(server)
        wait_until(lambda: holds_nothing(server, before))
        all_are_right(server)
        assert server.stop() == 0


def test_all_is_refused_for_a_while(repository, refusals):
    with serve(repository, refusals, "--shared-memory") as server:
        all_are_right(server)
        before = descriptors(server)
        for kind in REFUSED:
            refusals.refuse(kind, share=0.5)
            for ask in REQUESTS:
                is_right(server, ask)
            refusals.stop()
            wait_until(lambda: all(is_right(server, ask) for ask in REQUESTS))
        wait_until(lambda: holds_nothing(server, before))
        assert server.stop() == 0


def test_a_start_that_is_refused_something_ends_with_a_word_or_serves(repository, refusals):
    """What is not needed may be missing; a model of the start may be set aside."""
    with serve(repository, refusals) as server:
        server.stop()
        counts = {kind: refusals.calls(kind, lambda: (server.start(), server.stop())) for kind in REFUSED}
        chosen = random.Random(SEED)
        for kind, count in counts.items():
            for n in sorted(chosen.sample(range(count), min(count, 8 if kind == "memory" else 2))):
                refusals.refuse(kind, skip=n, most=1)
                try:
                    server.start()
                    assert server.stop() == 0, (kind, n)
                except RuntimeError as ended:
                    assert server.process.returncode in (1, 2) and "symphony serve: " in str(ended), (kind, n, ended)
                refusals.stop()


@pytest.mark.parametrize("isolate", ["off", "on"])
def test_models_stay_while_their_repository_cannot_be_read(repository, refusals, isolate):
    """None of them is taken for gone, and none for another one."""
    with serve(repository, refusals, "--model-control-mode", "poll", "--repository-poll-secs", "0.1", "--isolate", isolate,
               "--shared-memory") as server:
        all_are_right(server)
        for kind, share in (("list", 1), ("about", 1), ("about", 0.3), ("open", 1)):
            refusals.refuse(kind, share)
            rule = refusals.rules.of[list(KINDS).index(kind)]
            wait_until(lambda: rule.refused > 200 or kind == "list" and rule.refused > 20)
            for ask in SMALL:
                ask(server)
            refusals.stop()
        assert "repository not looked at" in server.log_text()
        all_are_right(server)
        assert server.stop() == 0


def brought():
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 2])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "brought", [value("x")], [value("y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()
    return json.dumps({"parameters": {"config": json.dumps({"max_batch_size": 2}),
                                      "file:1/model.onnx": base64.b64encode(model).decode()}})


def test_models_are_brought_to_processes_without_descriptors(repository):
    """An order's body comes to them as a descriptor."""
    with Server("--repository", repository, "--slo-ms", 3600000, "--accelerators", "cpu:2", "--model-control-mode", "explicit",
                "--load-model", "double") as server:
        processes = server.children()
        order = lambda: server.request("POST", "/v2/repository/models/brought/load", brought())[0]
        limits = {}
        for pid in processes:
            own = {int(n) for n in os.listdir("/proc/%d/fd" % pid)}
            free = next(n for n in range(len(own) + 1) if n not in own)
            limits[pid] = resource.prlimit(pid, resource.RLIMIT_NOFILE)
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (free, limits[pid][1]))
        assert order() == 503
        for pid in processes:
            resource.prlimit(pid, resource.RLIMIT_NOFILE, limits[pid])
        assert order() == 200
        assert server.children() == processes
