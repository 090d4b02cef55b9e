"""test_newcomers.py - what somebody who knows Triton or KServe types, asks and brings: options, paths, and a repository of Triton's,
with models that this server cannot run among those that it can."""
import json
import os
import pathlib
import re
import subprocess

import pytest
import yaml
from onnx import TensorProto, helper

from repository import measure, save_model
from server import BINARY, Server

NOT_SERVED = {  # what is in config.pbtxt, and the sentence that clients get
    "streams": ("model_transaction_policy { decoupled: true }", "decoupled: this server gives each request one answer"),
    "ragged": ("max_batch_size: 4 input { name: 'x' data_type: TYPE_FP32 dims: [ 4 ] allow_ragged_batch: true }", "allow_ragged_batch"),
    "remembers": ("sequence_batching { control_input { name: 's' control { kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] } } }",
                  "sequence_batching: control_input: this server keeps no state of sequences"),
    "script": ("backend: 'python'", "backend"),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("moved")
    for name in ("served", *NOT_SERVED):
        save_model(folder, name, [helper.make_node("Add", ["x", "x"], ["y"])],
                   [("x", TensorProto.FLOAT, ["N", 4])], [("y", TensorProto.FLOAT, ["N", 4])])
        if name == "served":
            measure(folder)
        (folder / name / "config.pbtxt").write_text(NOT_SERVED.get(name, ("max_batch_size: 4\ndynamic_batching { }",))[0])
    with Server("--model-repository", folder) as running:
        yield running


def said(*words):
    done = subprocess.run([BINARY, *words], capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    return done.stderr


def test_options_of_triton_and_slips_are_told_what_is_meant():
    for typed, meant in (("--http-address=0.0.0.0", "--host ADDR"), ("--grpc-server-cert=x", "--tls-cert"), ("--log-verbose=1", "--log-level debug"),
                         ("--port=80", "--http-port"), ("--http-max-input-size=1", "--body-max-mib"), ("--allow-vertex-ai=0", "leave it out"),
                         ("--backend-config=onnxruntime,x=1", "ONNX Runtime"), ("--http_port=8000", "did you mean --http-port?"),
                         ("--reposiory=x", "did you mean --repository?"), ("--model-store=x", "--model-repository")):
        assert "unknown option '%s'" % typed.split("=")[0] in said("serve", typed) and meant in said("serve", typed)
    assert "did you mean 'serve'?" in said("sever", "x")
    assert "symphony serve --model-repository=x" in said("--model-repository=x")
    assert "did you mean 'symphony serve /tmp'?" in said("/tmp")


def test_the_version_has_the_commit():
    shown, again, usage = (subprocess.run([BINARY, word], capture_output=True, text=True, check=True).stdout for word in ("--version", "version", "help"))
    assert shown == again and "symphony COMMAND --help" in usage
    assert re.fullmatch(r"symphony \d+\.\d+\.\d+( \(commit [0-9a-f]{12}\))?\n", shown)


def get(server, path, method="GET", body=None):
    status, _, answer = server.request(method, path, body)
    return status, json.loads(answer)


def test_paths_that_newcomers_ask_say_something(server):
    status, root = get(server, "/")
    assert status == 200 and root["name"] == "symphony"
    for path in root["paths"]:  # they are there
        method, path = path.split()
        assert server.request(method, path.replace("/M", "/served"))[0] != 404, path
    status, models = get(server, "/v2/models")
    assert status == 200 and sorted(models["models"]) == sorted(["served", *NOT_SERVED])
    assert sorted(one["name"] for one in models["not_ready"]) == sorted(NOT_SERVED)
    status, answer = get(server, "/v2/models/served/generate", "POST", "{}")
    assert status == 501 and "/v2/models/served/infer" in answer["error"]
    status, answer = get(server, "/v1/models/served:predict", "POST", "{}")
    assert status == 404 and "version 2" in answer["error"]


def test_models_that_cannot_be_served_say_why_before_anybody_asks_them(server):
    assert server.infer("served", [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}])[0] == 200
    _, models = get(server, "/v2/models")
    reasons = {one["name"]: one["reason"] for one in models["not_ready"]}
    for name, (_, sentence) in NOT_SERVED.items():
        assert sentence in reasons[name] and "%s/config.pbtxt:1:" % name in reasons[name]
    assert all(sentence in server.log_text() for _, sentence in NOT_SERVED.values())


def test_kserve_finds_its_model_under_the_services_name(tmp_path):
    """As deploy/kserve/runtime.yaml starts it: what KServe downloads is one model, as a file or a folder, and cannot be written."""
    runtime = yaml.safe_load((pathlib.Path(__file__).resolve().parents[2] / "deploy/kserve/runtime.yaml").read_text())
    given = [word.replace("{{.Name}}", "digits") for word in runtime["spec"]["containers"][0]["args"][1:]]
    given = [word for word in given if not re.match("--(http-port|grpc-port|repository|cache-dir)=", word)]
    for layout in ("file", "folder"):
        models = tmp_path / layout / "models"
        save_model(tmp_path / layout, "models", [helper.make_node("Add", ["x", "x"], ["y"])],
                   [("x", TensorProto.FLOAT, ["N", 4])], [("y", TensorProto.FLOAT, ["N", 4])])
        if layout == "file":
            os.rename(models / "1/model.onnx", models / "anything.onnx")
            os.rmdir(models / "1")
        os.chmod(models, 0o555)
        with Server(*given, *([models] if layout == "file" else ["--repository=%s" % models]), "--cache-dir=%s" % tmp_path) as running:
            assert get(running, "/v2/models")[1]["models"] == ["digits"]
            assert running.infer("digits", [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}])[0] == 200


def test_a_limited_address_space_is_said(tmp_path):
    """As batch systems set it (ulimit -v); in 4 GB the server cannot start."""
    save_model(tmp_path, "m", [helper.make_node("Neg", ["x"], ["y"])], [("x", TensorProto.FLOAT, ["N", 1])], [("y", TensorProto.FLOAT, ["N", 1])])
    done = subprocess.run(["sh", "-c", 'ulimit -v 4194304; exec "$@"', "sh", BINARY, "serve", tmp_path, "--http-port", "0", "--grpc-port", "0",
                           "--metrics-port", "0"], capture_output=True, text=True, timeout=600)
    assert done.returncode == 1 and "no memory" in done.stderr
    assert 'the address space is limited, and counts whole, however little of it is used" mib=4096 instead="ulimit -v unlimited"' in done.stderr
