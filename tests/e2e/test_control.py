"""test_control.py - models loaded, unloaded, replaced and followed while the server runs, by the unmodified Triton clients."""
# sanitizers: address thread
# quick sanitizers: address

import base64
import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import threading

import numpy as np
import onnx
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from onnx import TensorProto, helper, numpy_helper
from tritonclient.utils import InferenceServerException

from server import BINARY, Server, free_port, http_request, wait_until

WAIT_S = 600  # sanitizers are slow, and a model is measured when the machine has nothing better to do
UNLOADED = (404, "Request for unknown model: 'scaled' has no available versions: it is not loaded")


def scaled(factor, weights=0, columns=4):
    """y = factor * x, of [N, columns]; 1024 * `weights` floats more that it carries along. Its runs need little."""
    initializers = [numpy_helper.from_array(np.full((1,), factor, np.float32), "factor")]
    nodes = [helper.make_node("Mul", ["x", "factor"], ["scaled"])]
    if weights:
        initializers += [numpy_helper.from_array(np.ones((columns, 1024), np.float32), "widen"),
                         numpy_helper.from_array(np.ones((1024, weights), np.float32), "large")]
        nodes += [helper.make_node("MatMul", ["x", "widen"], ["wider"]),
                  helper.make_node("MatMul", ["wider", "large"], ["wide"]),
                  helper.make_node("ReduceMean", ["wide"], ["mean"], axes=[1], keepdims=1),
                  helper.make_node("Sub", ["mean", "mean"], ["zero"]),
                  helper.make_node("Add", ["scaled", "zero"], ["y"])]
    else:
        nodes.append(helper.make_node("Identity", ["scaled"], ["y"]))
    graph = helper.make_graph(nodes, "scaled", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", columns])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", columns])], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()


measured = {}  # of each content the files that the program has written beside it: its profile, and its optimised copy


def keep_measured(path):
    """`path`: a version's folder. Where its content comes again, it is not measured again."""
    beside = path / ".symphony"
    if beside.is_dir() and (path / "model.onnx").exists():
        measured[(path / "model.onnx").read_bytes()] = {file.name: file.read_bytes() for file in beside.glob("model-????????.*")
                                                        if file.suffix in (".json", ".onnx", ".ort", ".weights")}


def put(folder, name, content, version="1"):
    """Writes a model as a deployment does: whole or not at all. One batch size is soon profiled."""
    path = folder / name / version
    path.mkdir(parents=True, exist_ok=True)
    keep_measured(path)
    for file, text in measured.get(content, {}).items():
        (path / ".symphony").mkdir(exist_ok=True)
        (path / ".symphony" / file).write_bytes(text)
    (folder / name / "symphony.yaml").write_text("max_batch: 1\nslo_ms: 60000\n")
    (path / "new").write_bytes(content)
    os.replace(path / "new", path / "model.onnx")


def remove(folder, name):
    os.rename(folder / name, folder / ("." + name))  # at once; hidden entries are not looked at


class Client:
    """Either of Triton's clients, so that a test says a thing once."""

    def __init__(self, server, protocol):
        self.module = triton_http if protocol == "http" else triton_grpc
        self.protocol = protocol
        if protocol == "http":
            self.triton = triton_http.InferenceServerClient(f"127.0.0.1:{server.port}", connection_timeout=WAIT_S,
                                                            network_timeout=WAIT_S)
        else:
            self.triton = triton_grpc.InferenceServerClient(f"127.0.0.1:{server.grpc_port}")

    def factor(self, model, columns=4, version=""):
        """By what the model multiplies now."""
        x = self.module.InferInput("x", [1, columns], "FP32")
        x.set_data_from_numpy(np.ones((1, columns), np.float32))
        y = self.triton.infer(model, [x], model_version=version).as_numpy("y")
        assert (y == y[0][0]).all()
        return y[0][0]

    def state(self, model):
        """Its state and reason, or None."""
        index = self.triton.get_model_repository_index()
        entries = index if self.protocol == "http" else [
            {"name": e.name, "state": e.state, "reason": e.reason} for e in index.models]
        for entry in entries:
            if entry["name"] == model:
                return entry["state"], entry.get("reason", "")
        return None

    def statistics_of(self, model, version=""):
        """The versions that the model's statistics are of."""
        statistics = self.triton.get_inference_statistics(model, version)
        if self.protocol == "http":
            return [m["version"] for m in statistics["model_stats"] if m["name"] == model]
        return [m.version for m in statistics.model_stats if m.name == model]

    def fails(self, call, *args, **kwargs):
        """The status that it fails with, as HTTP has it, and the sentence."""
        with pytest.raises(InferenceServerException) as failed:
            call(*args, **kwargs)
        codes = {"StatusCode.NOT_FOUND": "404", "StatusCode.INVALID_ARGUMENT": "400", "StatusCode.UNAVAILABLE": "503",
                 "StatusCode.UNIMPLEMENTED": "501", "StatusCode.INTERNAL": "500"}
        status = failed.value.status()
        return int(codes.get(status, status)), failed.value.message()

    def unload(self, model):
        self.triton.unload_model(model)
        wait_until(lambda: self.state(model) in (None, ("UNAVAILABLE", "unloaded")), WAIT_S)


@contextlib.contextmanager
def serving(folder, *args, mode="explicit"):
    with Server("--repository", str(folder), "--model-control-mode", mode, "--slo-ms", "60000", "--head-timeout", "600",
                *args) as server:
        yield server
        assert server.stop() == 0  # sanitizers' reports make it another
    for path in folder.glob("*/*"):
        keep_measured(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("repository")
    put(folder, "scaled", scaled(2))
    put(folder, "other", scaled(5))
    put(folder, "broken", b"this is no model")
    return folder


@pytest.fixture(scope="module", params=["on", "off"])
def server(folder, request):
    with serving(folder, "--isolate", request.param) as server:
        yield server


@pytest.fixture(params=["http", "grpc"])
def client(server, request):
    client = Client(server, request.param)
    yield client
    for model in ("scaled", "other", "broken", "brought"):
        client.unload(model)


def repeats(item):
    """Of the clients' four ways, two have both protocols, and models in processes of their own and not. Threads have nothing new to do
    where one client asks for one thing after the other of models that stay."""
    ways = item.callspec.params if hasattr(item, "callspec") else {}
    return (ways.get("server"), ways.get("client")) in (("on", "http"), ("off", "grpc")) or \
        item.name in ("test_poll[off]", "test_orders_in_json[off]", "test_the_one_model_is_named[folder]") or \
        os.environ.get("SYMPHONY_SANITIZED") == "thread" and item.originalname in (
            "test_loaded_at_the_start", "test_versions_of_the_start", "test_the_one_model_is_named", "test_a_server_whose_models_stay",
            "test_options_that_exclude_each_other")


@contextlib.contextmanager
def under_load(server, model, allowed):
    """Asks both protocols all the time; every answer must be one of those allowed, and there are some before the block, and after what it
    does. Yields a function that waits for more. Clients rest between requests: models are measured when nobody else wants the processor."""
    answers, stop, failures = [], threading.Event(), []

    def ask(protocol):
        client = Client(server, protocol)
        try:
            while not stop.wait(0.01):
                answers.append(client.factor(model))
        except Exception as failure:  # shown below
            failures.append(repr(failure))
    threads = [threading.Thread(target=ask, args=(p,)) for p in ("http", "grpc", "grpc")]
    for thread in threads:
        thread.start()

    def more(count=len(threads)):
        wanted = len(answers) + count
        wait_until(lambda: len(answers) >= wanted or failures, WAIT_S)
    try:
        more()
        yield more
        more()
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not failures
    assert set(answers) <= set(allowed)


def answered(server, model, version="1"):
    return server.metrics()[f'nv_inference_request_success{{model="{model}",version="{version}"}}']


# ---- loading and unloading ----

def test_nothing_is_served_until_somebody_says_so(client):
    about = client.triton.get_server_metadata()
    assert "model_repository" in (about["extensions"] if client.protocol == "http" else about.extensions)
    assert client.triton.is_server_ready() and not client.triton.is_model_ready("scaled")
    assert client.state("scaled") == ("UNAVAILABLE", "unloaded")
    assert client.fails(client.factor, "scaled") == UNLOADED
    assert client.fails(client.factor, "none") == (404, "Request for unknown model: 'none' is not found")


def test_load_and_unload(client):
    client.triton.load_model("scaled")
    assert client.triton.is_model_ready("scaled") and client.state("scaled") == ("READY", "")
    assert client.factor("scaled") == 2
    assert client.fails(client.factor, "other")[0] == 404
    client.unload("scaled")
    assert not client.triton.is_model_ready("scaled")
    assert client.fails(client.factor, "scaled") == UNLOADED


def test_mistakes(client):
    load, unload = client.triton.load_model, client.triton.unload_model
    assert client.fails(load, "none") == (
        500, "failed to load 'none', failed to poll from model repository: there is no model 'none' in the repository")
    assert client.fails(load, "../scaled")[0] == (404 if client.protocol == "http" else 500)  # no such path
    unload("none")  # as Triton has it
    status, sentence = client.fails(load, "broken")
    assert status == 400 and "model.onnx" in sentence
    assert sentence.startswith("load failed for model 'broken': version 1 is at UNAVAILABLE state: ")
    state, reason = client.state("broken")
    assert state == "UNAVAILABLE" and "model.onnx" in reason
    assert client.fails(client.factor, "broken")[0] == 503
    unload("broken")
    assert client.state("broken") == ("UNAVAILABLE", "unloaded")


def test_names_are_not_taken_at_their_word(server, client):
    """What a client calls a model neither writes the log nor fills the index."""
    log = len(server.log_text())
    for name in ("..", ".hidden", "a\nlevel=info", "\u20ac", 'q"'):
        assert client.fails(client.triton.load_model, name, config="{}", files={"file:1/model.onnx": b"none"})[0] == 500
        assert client.state(name) is None
    assert all(line.startswith("time=") for line in server.log_text()[log:].splitlines())
    for i in range(100):
        assert client.fails(client.triton.load_model, f"made-up-{i}", config="{", files={"file:1/x": b"none"})[0] == 400
    index = client.triton.get_model_repository_index()
    names = [e["name"] for e in index] if client.protocol == "http" else [e.name for e in index.models]
    listed = [name for name in names if name.startswith("made-up-")]
    assert 0 < len(listed) <= 64 and "made-up-99" in listed


def test_metrics_show_what_is_served(server, client):
    client.triton.load_model("scaled")
    client.factor("scaled")
    assert server.metrics()['symphony_model_ready{model="scaled",version="1"}'] == 1
    wait_until(lambda: answered(server, "scaled") == 1)  # counted once the answer has gone
    client.unload("scaled")
    wait_until(lambda: not [name for name in server.metrics() if "scaled" in name])
    client.triton.load_model("scaled")
    assert answered(server, "scaled") == 0


def test_many_at_once(server, client):
    """Orders are carried out one after the other; whoever comes first, all are answered."""
    def change(i):
        each = Client(server, "grpc" if i % 2 else "http")
        (each.triton.load_model if i % 3 else each.triton.unload_model)("scaled" if i % 4 else "other")
    threads = [threading.Thread(target=change, args=(i,)) for i in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for model, factor in (("scaled", 2), ("other", 5)):
        client.triton.load_model(model)
        assert client.factor(model) == factor


def test_others_are_served_meanwhile(server, client):
    client.triton.load_model("other")
    with under_load(server, "other", [5]):
        for _ in range(10):
            client.triton.load_model("scaled")
            assert client.factor("scaled") == 2
            client.unload("scaled")


# ---- replacing ----

@pytest.mark.parametrize("policy", ["clockwork", "nexus", "kairos"])
def test_central_policies_plan_for_what_there_is(tmp_path, policy):
    for name, factor in (("scaled", 2), ("other", 5)):
        put(tmp_path, name, scaled(factor))
    with serving(tmp_path, "--policy", policy, "--load-model", "other") as server:
        client = Client(server, "http")
        with under_load(server, "other", [5]):
            for factor in (2, 3):
                put(tmp_path, "scaled", scaled(factor))
                client.triton.load_model("scaled")
                assert client.factor("scaled") == factor
            with under_load(server, "scaled", [3, 4]):
                put(tmp_path, "scaled", scaled(4))
                client.triton.load_model("scaled")
                assert client.factor("scaled") == 4
            client.unload("scaled")
            assert client.fails(client.factor, "scaled") == UNLOADED


def test_reload_loses_nothing(server, folder, client):
    client.triton.load_model("scaled")
    try:
        with under_load(server, "scaled", [2, 3]) as more:
            for factor in (3, 2) * 4:
                put(folder, "scaled", scaled(factor))
                client.triton.load_model("scaled")
                assert client.factor("scaled") == factor
                more(10)
    finally:
        put(folder, "scaled", scaled(2))


def test_what_is_as_it_was_is_not_loaded_again(server, client):
    client.triton.load_model("scaled")
    client.factor("scaled")
    client.triton.load_model("scaled")
    wait_until(lambda: answered(server, "scaled") == 1)


def test_a_broken_new_version_leaves_the_old_one(server, folder, client):
    client.triton.load_model("scaled")
    try:
        put(folder, "scaled", b"nothing of a model")
        with under_load(server, "scaled", [2]):
            status, sentence = client.fails(client.triton.load_model, "scaled")
            assert status == 400 and "load failed" in sentence
            assert client.state("scaled") == ("READY", "")
    finally:
        put(folder, "scaled", scaled(2))


def test_a_new_version_that_fails_its_warm_up_leaves_the_old_one(server, folder, client):
    client.triton.load_model("scaled")
    config = folder / "scaled" / "config.pbtxt"
    try:
        for what, mistake in (('input_data_file: "gone"', "warmup/gone: No such file"),
                              ("zero_data: true dims: [ 5 ]", "dims are [4,5]")):
            config.write_text("max_batch_size: 1\nmodel_warmup { batch_size: 1\n  inputs { key: 'x' value { "
                              f"data_type: TYPE_FP32 dims: [ 4 ] {what} }} }} }}\n")
            with under_load(server, "scaled", [2]):
                status, sentence = client.fails(client.triton.load_model, "scaled")
                assert status == 400 and f"{config}:3:" in sentence and mistake in sentence
                assert client.state("scaled") == ("READY", "")
    finally:
        config.unlink()


def test_requests_under_way_end_on_what_they_began_with(server, client):
    client.triton.load_model("scaled")
    server.rests()
    body = json.dumps({"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 1, 1, 1]}]}).encode()
    slow = server.connect()
    slow.putrequest("POST", "/v2/models/scaled/infer")
    slow.putheader("Content-Length", str(len(body)))
    slow.endheaders()
    slow.send(body[:10])
    in_flight = 'symphony_requests_in_flight'
    wait_until(lambda: server.metrics()[in_flight] >= 1)
    client.triton.unload_model("scaled")
    assert client.state("scaled") == ("UNLOADING", "")
    assert client.fails(client.factor, "scaled")[0] == 404
    client.triton.load_model("scaled")  # beside what is still held
    assert client.factor("scaled") == 2
    client.triton.unload_model("scaled")
    slow.send(body[10:])
    answer = slow.getresponse()
    assert answer.status == 200 and json.loads(answer.read())["outputs"][0]["data"] == [2, 2, 2, 2]
    slow.close()
    wait_until(lambda: client.state("scaled") == ("UNAVAILABLE", "unloaded"))


def test_a_client_that_leaves_does_not_stop_its_order(server, client):
    leaving = server.connect()
    leaving.request("POST", "/v2/repository/models/scaled/load", b"{}")
    leaving.close()
    wait_until(lambda: client.state("scaled") == ("READY", ""), WAIT_S)
    assert client.factor("scaled") == 2


# ---- versions ----

def test_versions(folder, client):
    for version in ("1", "2", "3"):
        put(folder, "versions", scaled(10 + int(version)), version)
    config = folder / "versions" / "config.pbtxt"
    try:
        config.write_text("version_policy { latest { num_versions: 2 } }")
        client.triton.load_model("versions")
        assert client.factor("versions") == 13 and client.factor("versions", version="3") == 13
        assert client.factor("versions", version="2") == 12
        assert client.fails(client.factor, "versions", version="1") == (404, "Request for unknown model: 'versions' version 1 is not found")
        about = client.triton.get_model_metadata("versions")
        assert list(about["versions"] if client.protocol == "http" else about.versions) == ["2", "3"]
        assert client.statistics_of("versions") == ["2", "3"] and client.statistics_of("versions", "2") == ["2"]
        assert client.fails(client.statistics_of, "versions", "1")[0] == 404
        config.write_text("version_policy { specific { versions: [ 1 ] } }")
        client.triton.load_model("versions")
        assert client.factor("versions") == 11 and client.fails(client.factor, "versions", version="3")[0] == 404
        config.write_text("version_policy { specific { versions: [ 1, 9 ] } }")
        client.triton.load_model("versions")  # those that are there
        assert client.factor("versions") == 11 and client.fails(client.factor, "versions", version="9")[0] == 404
        config.write_text("version_policy { specific { versions: [ 9 ] } }")
        status, sentence = client.fails(client.triton.load_model, "versions")
        assert status == 400 and "none of the versions that version_policy names is there: 9" in sentence
        config.write_text("version_policy { all { } }")
        put(folder, "versions", b"nothing", "4")
        assert client.fails(client.triton.load_model, "versions")[0] == 400  # all or none
        assert client.factor("versions") == 11
        config.write_text("")
        put(folder, "versions", scaled(15), "20240101123000")
        status, sentence = client.fails(client.triton.load_model, "versions")
        assert status == 400 and "versions/20240101123000: the number of a version is at most 4294967295" in sentence
        assert client.factor("versions") == 11
        client.unload("versions")
        assert client.fails(client.factor, "versions", version="1")[0] == 404
    finally:
        client.unload("versions")
        remove(folder, "versions")
        shutil.rmtree(folder / ".versions")


def test_versions_of_the_start(tmp_path):
    put(tmp_path, "versions", scaled(3), "1")
    put(tmp_path, "versions", scaled(4), "2")
    put(tmp_path, "versions", b"nothing", "3")
    (tmp_path / "versions" / "config.pbtxt").write_text("version_policy { all { } }")
    with serving(tmp_path, mode="none") as server:
        client = Client(server, "grpc")
        assert client.factor("versions", version="1") == 3 and client.factor("versions", version="2") == 4
        assert client.factor("versions") == 4  # the highest that is ready
        assert client.fails(client.factor, "versions", version="3")[0] == 503
        wait_until(lambda: answered(server, "versions", "1") == 1)
        assert server.metrics()['symphony_model_ready{model="versions",version="3"}'] == 0


# ---- what a client brings along ----

CONFIG = {"backend": "onnxruntime", "max_batch_size": 1,
          "input": [{"name": "x", "data_type": "TYPE_FP32", "dims": ["4"]}],
          "output": [{"name": "y", "dataType": "TYPE_FP32", "dims": [4]}],
          "parameters": {"made_by": {"string_value": "a \"test\""}}}


def served_config(client, model):
    config = client.triton.get_model_config(model)
    return config if client.protocol == "http" else {"max_batch_size": config.config.max_batch_size}


def test_a_configuration_of_its_own(folder, client):
    (folder / "scaled" / "config.pbtxt").write_text("max_batch_size: 0\n")
    try:
        client.triton.load_model("scaled")
        assert served_config(client, "scaled").get("max_batch_size", 0) == 0
        client.triton.load_model("scaled", config=json.dumps(CONFIG))
        assert served_config(client, "scaled")["max_batch_size"] == 1 and client.factor("scaled") == 2
        warm = {"batch_size": 1, "inputs": {"x": {"data_type": "TYPE_FP32", "dims": [4], "zero_data": True}}}
        client.triton.load_model("scaled", config=json.dumps({**CONFIG, "model_warmup": [warm]}))
        assert client.factor("scaled") == 2
        warm["inputs"]["x"]["dims"] = ["5"]
        status, sentence = client.fails(client.triton.load_model, "scaled",
                                        config=json.dumps({**CONFIG, "model_warmup": [warm]}))
        assert status == 400 and "dims are [5], but the model's are [4]" in sentence
        client.triton.load_model("scaled")  # the repository's again
        assert served_config(client, "scaled").get("max_batch_size", 0) == 0
        for config, mistake in (({**CONFIG, "max_batch_size": "many"}, "max_batch_size"), ({"no": 1}, "no field 'no'"),
                                ({**CONFIG, "input": [{"name": "z", "data_type": "TYPE_FP32", "dims": [4]}]}, "z")):
            status, sentence = client.fails(client.triton.load_model, "scaled", config=json.dumps(config))
            assert status == 400 and mistake in sentence
        assert client.fails(client.triton.load_model, "scaled", config="{")[0] == 400
        assert client.factor("scaled") == 2
    finally:
        (folder / "scaled" / "config.pbtxt").unlink()


def test_files_of_its_own(client):
    files = {"file:1/model.onnx": scaled(7)}
    client.triton.load_model("brought", config=json.dumps(CONFIG), files=files)
    assert client.factor("brought") == 7 and client.state("brought") == ("READY", "")
    client.triton.load_model("brought", config=json.dumps(CONFIG), files={"file:1/model.onnx": scaled(8)})
    assert client.factor("brought") == 8
    status, sentence = client.fails(client.triton.load_model, "brought", config=json.dumps(CONFIG),
                                    files={"file:../model.onnx": scaled(9)})
    assert status == 500 and "file:<version>/<name>" in sentence
    assert client.factor("brought") == 8
    assert client.fails(client.triton.load_model, "other", files=files)[0] == 400  # needs a configuration
    client.unload("brought")
    assert client.fails(client.triton.load_model, "brought")[0] == 500


def test_orders_in_json(server):
    def post(what, body):
        status, _, answer = server.request("POST", "/v2/repository/models/scaled/" + what, body, timeout=WAIT_S)
        return status, answer
    assert post("load", b"") == (200, b"")
    assert post("load", b"[]")[0] == 400
    assert post("load", b"{")[0] == 400
    assert post("load", json.dumps({"parameters": {"speed": 1}}))[0] == 400
    assert post("load", json.dumps({"parameters": {"config": CONFIG}}))[0] == 200  # as it is, not in a string
    assert post("load", json.dumps({"parameters": {"config": "{}", "file:1/model.onnx": "*"}}))[0] == 400
    content = base64.b64encode(scaled(4)).decode()
    assert post("load", json.dumps({"parameters": {"config": "{}", "file:1/model.onnx": content}}))[0] == 200
    assert Client(server, "grpc").factor("scaled") == 4
    assert post("unload", json.dumps({"parameters": {"unload_dependents": True}})) == (200, b"")


# ---- from the start, limits, memory ----

def test_loaded_at_the_start(folder):
    with serving(folder, "--load-model", "scaled", "--load-model", "none") as server:
        client = Client(server, "grpc")
        assert client.factor("scaled") == 2 and client.state("other") == ("UNAVAILABLE", "unloaded")
        assert "there is no model 'none'" in server.log_text()
    with serving(folder, "--load-model", "*") as server:
        client = Client(server, "grpc")
        assert client.factor("scaled") == 2 and client.factor("other") == 5
        assert client.state("broken")[0] == "UNAVAILABLE"


def test_more_models_than_may_be(folder):
    with serving(folder, "--max-models", "1") as server:
        client = Client(server, "grpc")
        client.triton.load_model("scaled")
        status, sentence = client.fails(client.triton.load_model, "other")
        assert status == 503 and "--max-models" in sentence
        put(folder, "scaled", scaled(3))
        client.triton.load_model("scaled")  # takes its own place
        put(folder, "scaled", scaled(2))
        assert client.factor("scaled") == 3
        client.unload("scaled")
        client.triton.load_model("other")
        assert client.factor("other") == 5


def resident_mib(server):
    """Of the server, and of the processes of its accelerators."""
    return sum(int(re.search(r"VmRSS:\s+(\d+) kB", pathlib.Path(f"/proc/{pid}/status").read_text()).group(1)) / 1024
               for pid in [server.process.pid, *server.children()])


@pytest.mark.skipif(os.environ.get("SYMPHONY_SANITIZED", "OFF") not in ("", "OFF"),
                    reason="sanitizers keep freed memory")
def test_memory_comes_back(tmp_path):
    put(tmp_path, "small", scaled(2))
    put(tmp_path, "large", scaled(3, weights=12 << 10))  # 48 MiB
    with serving(tmp_path, "--load-model", "small") as server:
        client = Client(server, "grpc")
        before = resident_mib(server)
        for _ in range(3):
            client.triton.load_model("large")
            assert client.factor("large") == 3
            assert resident_mib(server) > before + 40
            client.unload("large")
            wait_until(lambda: resident_mib(server) < before + 12)
        assert client.factor("small") == 2


def test_a_log_that_nobody_reads_stops_nothing(tmp_path):
    """Neither loading and unloading nor the end."""
    put(tmp_path, "scaled", scaled(2))
    unread, log = os.pipe()
    os.set_blocking(log, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(log, b"x" * 4096)
    os.set_blocking(log, True)
    port = free_port()
    process = subprocess.Popen([BINARY, "serve", "--host", "127.0.0.1", "--http-port", str(port), "--grpc-port", "0", "--metrics-port",
                                "0", "--repository", tmp_path, "--model-control-mode", "explicit"], stderr=log)
    try:
        def ask(method, path):
            try:
                return http_request(port, method, path, timeout=WAIT_S)[0]
            except ConnectionRefusedError:
                return 0
        wait_until(lambda: ask("GET", "/v2/health/ready") == 200, WAIT_S)
        for _ in range(5):
            assert ask("POST", "/v2/repository/models/scaled/load") == 200
            assert ask("POST", "/v2/repository/models/scaled/unload") == 200
        process.terminate()
        assert process.wait(WAIT_S) == 0
    finally:
        process.kill()
        process.wait()
        os.close(unread)
        os.close(log)


def test_several_threads_of_each_kind(tmp_path):
    """Models of one shape and of many go from sub-cluster to sub-cluster, and come and go."""
    put(tmp_path, "stays", scaled(2))
    with serving(tmp_path, "--load-model", "stays", "--accelerators", "cpu:2", "--rank-threads", "2", "--model-threads",
                 "2", "--frontends", "2") as server:
        client = Client(server, "http")
        with under_load(server, "stays", [2]):
            for i in range(6):
                put(tmp_path, "one", scaled(3 + i % 2))
                put(tmp_path, "many", scaled(4 + i % 2, columns="M"))
                for model, columns, factor in (("one", 4, 3 + i % 2), ("many", 4, 4 + i % 2), ("many", 7, 4 + i % 2)):
                    client.triton.load_model(model)
                    assert client.factor(model, columns) == factor
                if i % 2:
                    client.unload("many")
                    client.unload("one")


# ---- following the repository ----

@pytest.mark.parametrize("isolate", ["on", "off"])
def test_poll(tmp_path, isolate):
    put(tmp_path, "first", scaled(2))
    put(tmp_path, "broken", b"this is no model")
    (tmp_path / "lost+found").mkdir()
    with serving(tmp_path, "--repository-poll-secs", "0.1", "--isolate", isolate, mode="poll") as server:
        client = Client(server, "grpc")
        assert client.factor("first") == 2 and client.state("broken")[0] == "UNAVAILABLE"
        assert client.state("lost+found") is None and "model=lost+found" not in server.log_text()
        assert client.fails(client.triton.load_model, "first")[0] == 503
        put(tmp_path, "second", scaled(3))
        wait_until(lambda: client.state("second") == ("READY", ""), WAIT_S)
        assert client.factor("second") == 3
        with under_load(server, "first", [2, 4]):
            put(tmp_path, "first", scaled(4))
            wait_until(lambda: client.factor("first") == 4, WAIT_S)
        put(tmp_path, "broken", scaled(6))
        wait_until(lambda: client.state("broken") == ("READY", ""), WAIT_S)
        remove(tmp_path, "second")
        wait_until(lambda: client.state("second") is None, WAIT_S)
        assert client.fails(client.factor, "second")[0] == 404


# ---- several repositories ----

@pytest.fixture
def two(tmp_path):
    """Two repositories, which both have a model 'both'."""
    folders = tmp_path / "one", tmp_path / "other"
    for folder, own, factor in zip(folders, ("a", "b"), (2, 3)):
        put(folder, own, scaled(factor))
        put(folder, "both", scaled(factor))
    return folders


def is_refused_for_both(client, two):
    state, reason = client.state("both")
    return state == "UNAVAILABLE" and all(str(folder / "both") in reason for folder in two)


def test_several_repositories(two):
    with serving(two[0], "--model-repository", two[1], mode="none") as server:
        for protocol in ("http", "grpc"):
            client = Client(server, protocol)
            assert client.factor("a") == 2 and client.factor("b") == 3 and is_refused_for_both(client, two)
            assert client.fails(client.factor, "both")[0] == 503


def test_several_repositories_in_the_mode_explicit(two):
    with serving(two[0], "--repository", two[1], "--load-model", "*") as server:
        client = Client(server, "http")
        assert client.factor("a") == 2 and client.factor("b") == 3 and is_refused_for_both(client, two)
        client.unload("b")
        put(two[1], "b", scaled(5))
        client.triton.load_model("b")
        assert client.factor("b") == 5
        client.triton.load_model("b", config=json.dumps({"max_batch_size": 1}))  # of the second repository
        assert client.factor("b") == 5
        for config in (None, json.dumps({"max_batch_size": 1})):
            status, sentence = client.fails(client.triton.load_model, "both", config=config)
            assert status == 400 and all(str(folder / "both") in sentence for folder in two)
        remove(two[0], "both")
        client.triton.load_model("both")
        assert client.factor("both") == 3


def test_several_repositories_in_the_mode_poll(two):
    with serving(two[0], "--repository", two[1], "--repository-poll-secs", "0.1", mode="poll") as server:
        client = Client(server, "grpc")
        assert client.factor("a") == 2 and client.factor("b") == 3 and is_refused_for_both(client, two)
        remove(two[1], "both")
        wait_until(lambda: client.state("both") == ("READY", ""), WAIT_S)
        assert client.factor("both") == 2
        said = server.log_text().count("a second model of the name 'both'")
        put(two[1], "both", scaled(5))  # what serves goes on
        wait_until(lambda: server.log_text().count("a second model of the name 'both'") > said, WAIT_S)
        assert client.factor("both") == 2
        remove(two[1], "b")
        wait_until(lambda: client.state("b") is None, WAIT_S)
        os.rename(two[0] / "a", two[1] / "a")
        put(two[1], "c", scaled(7))
        wait_until(lambda: client.state("c") == ("READY", ""), WAIT_S)
        assert client.factor("a") == 2
        os.rename(two[1], two[1].parent / "away")  # what was there serves on
        wait_until(lambda: "repository not looked at" in server.log_text(), WAIT_S)
        put(two[0], "d", scaled(9))
        wait_until(lambda: client.state("d") == ("READY", ""), WAIT_S)
        assert [client.factor(name) for name in "acd"] == [2, 7, 9]
        os.rename(two[1].parent / "away", two[1])


@pytest.mark.parametrize("what", ["model.onnx", "folder", "repository"])
def test_the_one_model_is_named(tmp_path, what):
    """As KServe mounts a model at /mnt/models."""
    path = tmp_path / "models"
    put(path, "given", scaled(2))
    if what != "repository":
        (path / "given" / "1" / "model.onnx").rename(path / "model.onnx")
        shutil.rmtree(path / "given")
    with Server("--repository", path / what if what == "model.onnx" else path, "--model-name", "mine", "--slo-ms", "60000") as server:
        client = Client(server, "http")
        assert client.state("mine") == ("READY", "") and client.factor("mine") == 2
        assert len(client.triton.get_model_repository_index()) == 1
        assert server.stop() == 0


def test_a_server_whose_models_stay(folder):
    with serving(folder, mode="none") as server:
        for protocol in ("http", "grpc"):
            client = Client(server, protocol)
            status, sentence = client.fails(client.triton.load_model, "scaled")
            assert status == 503 and "--model-control-mode explicit" in sentence
            assert sentence.startswith("explicit model load / unload is not allowed if polling is enabled")
            assert client.fails(client.triton.unload_model, "scaled")[0] == 503
            assert client.factor("scaled") == 2


def test_options_that_exclude_each_other(folder, tmp_path):
    scenario = tmp_path / "s.yaml"
    scenario.write_text("cluster: {accelerators: 1, type: a}\nmodels:\n  - {name: m, alpha_ms: 1, beta_ms: 1, slo_ms: 50}\n"
                        "workload: {rate_rps: 1, arrivals: poisson}\nrun: {seconds: 1, seed: 1}\n")
    for args in (["--scenario", scenario, "--model-control-mode", "poll"],
                 ["--repository", folder, "--load-model", "scaled"],
                 ["--repository", folder, "--max-models", "5"],
                 ["--repository", folder / "scaled", "--model-control-mode", "poll"],
                 ["--repository", folder, "--repository", folder / "scaled", "--model-control-mode", "poll"],
                 ["--repository", tmp_path / "none", "--model-control-mode", "explicit"],
                 ["--repository", folder, "--repository", tmp_path / "none"],
                 ["--repository", folder, "--model-repository="],
                 ["--repository", folder] * 65,
                 ["--repository", folder, "--model-name", "mine"],
                 ["--repository", folder / "scaled", "--repository", folder / "other", "--model-name", "mine"],
                 ["--repository", folder / "scaled", "--model-name", "not mine"],
                 ["--repository", folder, "--model-name", "scaled", "--model-control-mode", "poll"],
                 ["--scenario", scenario, "--model-name", "m"]):
        ended = subprocess.run([BINARY, "serve", *map(str, args)], capture_output=True, text=True, timeout=600)
        assert ended.returncode == 2 and ended.stderr.startswith("symphony serve: ") and ended.stderr.count("\n") == 1, ended.stderr
