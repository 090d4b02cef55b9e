"""test_first_day.py - what a reader does on the first day, by the very commands that the pages show: models of their own served, a Triton
repository moved, a cluster of two machines, and why a request was late. Others: the first answer on a bare machine
(tests/packages/first_answer.sh), an own policy compared (test_own_policy.py)."""
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import images
from repository import save_model, save_onnx
from server import BINARY, START_S, free_port, wait_until

TOP = pathlib.Path(__file__).resolve().parents[2]
SERVERS = r"symphony (serve|scheduler|frontend|backend)\b"
PORTS = {"serve": {"--http-port": 8000, "--grpc-port": 8001, "--metrics-port": 8002}, "scheduler": {"--metrics-port": 8004},
         "frontend": {"--http-port": 8000, "--grpc-port": 8001, "--metrics-port": 8003}, "backend": {"--metrics-port": 8002}}  # where the page names none
LONG_MS = 600000  # an SLO, however slow this machine is


def section(page, heading):
    """The ``` blocks below a heading: their languages and texts."""
    below = re.split(r"^(?=## )", (TOP / page).read_text(), flags=re.M)
    [text] = [part for part in below if part.startswith(heading + "\n")]
    return re.findall(r"^```(\w*)\n(.*?)^```", text, re.S | re.M)


def commands(text):
    """Of a shell: lines, with those that a quote, a here-document or a pipe spans in one, or that a backslash joins."""
    command = ""
    for line in text.splitlines():
        command += line + "\n"
        if not line.endswith(("\\", "|")) and command.count("'") % 2 == 0 and ("<<END" not in command or line == "END"):
            yield command.strip()
            command = ""


class Reader:
    """At a terminal in an empty folder, with the program installed. Servers that a page starts go on beside; its ports are free ones here,
    and its machines this one."""

    def __init__(self, folder, machines=()):
        self.folder, self.machines, self.ports, self.running = folder, machines, {}, []
        (folder / "bin").mkdir()
        (folder / "bin" / "symphony").symlink_to(pathlib.Path(BINARY).resolve())
        (folder / "bin" / "scp").symlink_to("/bin/true")  # all machines have this folder
        self.env = {**os.environ, "PATH": "%s:%s:%s" % (folder / "bin", pathlib.Path(sys.executable).parent, os.environ["PATH"])}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.running:
            process.kill()
            process.wait()

    def port(self, shown):
        return self.ports.setdefault(int(shown), free_port())

    def here(self, line):
        for machine in self.machines:
            line = line.replace(" %s:" % machine, " 127.0.0.1:")
        line = re.sub(r"slo_ms: \d+", "slo_ms: %d" % LONG_MS, line)
        line = line.replace("/srv/", "%s/srv/" % self.folder).replace("localhost:", "127.0.0.1:")
        return re.sub(r"(?<=127\.0\.0\.1:)\d{4}|(?<=listen :)\d{4}|(?<=-port )\d{4}", lambda port: str(self.port(port[0])), line)

    def starts(self, command, line):
        for option, port in PORTS[command].items():
            if option not in line:
                line += " %s %d" % (option, self.port(port))
        if command in ("serve", "backend"):
            line += " --slo-ms %d" % LONG_MS
        if command != "serve":
            line += " --heartbeat-ms 1000"  # who stands still for seconds is not dead
        path = self.folder / ("%s-%d.log" % (command, len(self.running)))
        with open(path, "w") as log:
            process = subprocess.Popen("exec " + line, shell=True, cwd=self.folder, env=self.env, stdout=log, stderr=subprocess.STDOUT)
        self.running.append(process)
        if command == "serve":
            wait_until(lambda: 'msg="ready"' in path.read_text() or process.poll() is not None, START_S)
        assert process.poll() is None, path.read_text()

    def is_ready(self, model):
        return subprocess.run(self.here("curl -sf localhost:8000/v2/models/%s/ready" % model), shell=True, capture_output=True).returncode == 0

    def types(self, text):
        """Lines of a shell; what the last one printed."""
        printed = ""
        for line in commands(text):
            line = self.here(re.sub(r"^\w+\$ +", "", line))
            server = re.match(SERVERS, line)
            if server:
                self.starts(server[1], line.split(" #")[0])
            elif line and not line.startswith(("pip ", "python3 -m venv ")):
                if line.startswith("symphony status"):
                    line = line.split(" #")[0] + " --timeout %d" % START_S
                done = subprocess.run(line, shell=True, cwd=self.folder, env=self.env, capture_output=True, encoding="latin-1")
                assert done.returncode == 0, (line, done.stdout, done.stderr)
                printed = done.stdout
        return printed

    def follows(self, blocks, scripts=()):
        """Types what is for a shell, and saves what is for Python as the next of the scripts."""
        scripts, printed = iter(scripts), ""
        for kind, text in blocks:
            if kind == "python":
                (self.folder / next(scripts)).write_text(text)
            elif "optimum" not in text:  # loads a model from a hub
                printed = self.types(text)
        return printed


def outputs(answer):
    """By name; what comes as bytes behind the JSON are floats."""
    head, end = json.JSONDecoder().raw_decode(answer)
    behind = np.frombuffer(answer[end:].encode("latin-1"), "<f4").tolist()
    return {output["name"]: output.get("data", behind) for output in head["outputs"]}


def double(folder, name):
    save_model(folder, name, [helper.make_node("Add", ["x", "x"], ["y"])], [("x", TensorProto.FLOAT, ["N", 4])],
               [("y", TensorProto.FLOAT, ["N", 4])])


X = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]})


def test_the_first_answer(tmp_path):
    double(tmp_path / "made", "double")
    (tmp_path / "made/double/1/model.onnx").rename(tmp_path / "model.onnx")
    with Reader(tmp_path) as reader:
        metadata = json.loads(reader.follows(section("README.md", "## First answer")))
        assert [metadata["name"], metadata["inputs"][0]["name"]] == ["model", "x"]
        assert outputs(reader.types("curl -s localhost:8000/v2/models/model/infer -d '%s'" % X))["y"] == [2, 4, 6, 8]


def forest(folder):
    """As skl2onnx writes it: two leaves, zero if the middle of the picture is empty."""
    save_model(folder, "digits", [helper.make_node(
        "TreeEnsembleClassifier", ["X"], ["label", "probabilities"], domain="ai.onnx.ml", classlabels_int64s=list(range(10)),
        nodes_treeids=[0, 0, 0], nodes_nodeids=[0, 1, 2], nodes_featureids=[36, 0, 0], nodes_values=[2.0, 0.0, 0.0], nodes_hitrates=[1.0] * 3,
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"], nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0],
        nodes_missing_value_tracks_true=[0, 0, 0], class_treeids=[0, 0], class_nodeids=[1, 2], class_ids=[0, 8], class_weights=[1.0, 1.0],
        post_transform="NONE")], [("X", TensorProto.FLOAT, ["N", 64])],
        [("label", TensorProto.INT64, ["N"]), ("probabilities", TensorProto.FLOAT, ["N", 10])])


def test_a_model_of_scikit_learn(tmp_path):
    """Where scikit-learn is not installed, a model of the same operators takes its place."""
    with Reader(tmp_path) as reader:
        blocks = section("docs/first-model.md", "## scikit-learn")
        if not importlib.util.find_spec("skl2onnx"):
            forest(tmp_path / "models")
            blocks = [(kind, re.sub("^python3 digits.py\n", "", text, flags=re.M)) for kind, text in blocks]
        answer = outputs(reader.follows(blocks, ["digits.py"]))
        assert answer["label"] == [0] and len(answer["probabilities"]) == 10


def test_a_model_of_images(tmp_path):
    save_model(tmp_path / "models", "photos", [
        helper.make_node("GlobalAveragePool", ["x"], ["means"]), helper.make_node("Flatten", ["means"], ["y"])],
        [("x", TensorProto.FLOAT, ["N", 3, 224, 224])], [("y", TensorProto.FLOAT, ["N", 3])])
    (tmp_path / "cat.jpg").write_bytes(images.jpeg(np.full((300, 400, 3), [200, 100, 50], np.uint8)))
    with Reader(tmp_path) as reader:
        answer = outputs(reader.follows(section("docs/first-model.md", "## Images"), ["prepare.py"]))
        wanted = (np.float32([200, 100, 50]) - [123.675, 116.28, 103.53]) / [58.395, 57.12, 57.375]
        assert answer["y"] == pytest.approx(wanted.tolist(), abs=0.06)


def transformer(path, words=4000, width=16):
    """One layer of attention over embeddings, and the mean of what it gives: inputs and output as of an exported classifier."""
    rng = np.random.default_rng(1)
    constants = {"words": rng.normal(0, 1, (words, width)), "query": rng.normal(0, 1, (width, width)), "key": rng.normal(0, 1, (width, width)),
                 "head": rng.normal(0, 1, (width, 2)), "one": np.float32(1), "far": np.float32(-1e9)}
    make = helper.make_node
    nodes = [make("Gather", ["words", "input_ids"], ["e"]), make("MatMul", ["e", "query"], ["q"]), make("MatMul", ["e", "key"], ["k"]),
             make("Transpose", ["k"], ["kt"], perm=[0, 2, 1]), make("MatMul", ["q", "kt"], ["s"]),
             make("Cast", ["attention_mask"], ["m"], to=TensorProto.FLOAT), make("Sub", ["one", "m"], ["out"]), make("Mul", ["out", "far"], ["bias"]),
             make("Unsqueeze", ["bias", "axis"], ["wide"]), make("Add", ["s", "wide"], ["masked"]), make("Softmax", ["masked"], ["p"], axis=-1),
             make("MatMul", ["p", "e"], ["c"]), make("ReduceMean", ["c"], ["mean"], axes=[1], keepdims=0), make("MatMul", ["mean", "head"], ["logits"])]
    tensors = [numpy_helper.from_array(np.float32(value), name) for name, value in constants.items()]
    tensors.append(numpy_helper.from_array(np.int64([1]), "axis"))
    save_onnx(path, nodes, [(name, TensorProto.INT64, ["batch", "length"]) for name in ("input_ids", "attention_mask")],
              [("logits", TensorProto.FLOAT, ["batch", 2])], tensors)


def test_a_transformer(tmp_path):
    """The exporter loads its model from a hub; one with the same inputs and output takes its place."""
    transformer(tmp_path / "models" / "sentiment" / "model.onnx")
    with Reader(tmp_path) as reader:
        answer = outputs(reader.follows(section("docs/first-model.md", "## Text")))
        assert len(answer["logits"]) == 2


def test_a_repository_of_triton(tmp_path):
    for name, config in ("served", "max_batch_size: 4\ndynamic_batching { }\n"), ("script", "backend: 'python'\n"):
        double(tmp_path / "srv" / "triton-models", name)
        (tmp_path / "srv" / "triton-models" / name / "config.pbtxt").write_text(config)
    with Reader(tmp_path) as reader:
        models = json.loads(reader.follows(section("docs/coming-from.md", "## Triton")[:1]))
        assert sorted(models["models"]) == ["script", "served"]
        [refused] = models["not_ready"]
        assert refused["name"] == "script" and "backend" in refused["reason"]
        assert outputs(reader.types("curl -s localhost:8000/v2/models/served/infer -d '%s'" % X))["y"] == [2, 4, 6, 8]


def test_a_cluster_of_two_machines(tmp_path):
    double(tmp_path / "srv" / "models", "served")
    [(_, shown)] = section("docs/cluster.md", "## Two machines in five minutes")
    lines = shown.splitlines()
    asks = [line for line in lines if "curl" in line or "status" in line]
    with Reader(tmp_path, machines=["front", "big"]) as reader:
        reader.types("\n".join(line for line in lines if line not in asks))
        wait_until(lambda: reader.is_ready("served"), START_S)
        assert "served" in reader.types(asks[0])
        assert json.loads(reader.types(asks[1]))["models"] == ["served"]
        assert outputs(reader.types("curl -s front:8000/v2/models/served/infer -d '%s'" % X))["y"] == [2, 4, 6, 8]


def test_tls_of_a_clusters_links(tmp_path):
    servers, authority = (text for _, text in section("docs/cluster-security.md", "## TLS of the links"))
    lines = servers.splitlines()
    status = lines.pop()
    double(tmp_path / "models", "served")
    with Reader(tmp_path, machines=["scheduler.example"]) as reader:
        reader.types(authority)
        reader.types("\n".join([*lines, re.sub("symphony frontend", "symphony backend --repository models", lines[-1])]))
        wait_until(lambda: reader.is_ready("served"), START_S)
        assert "served" in reader.types(status)
        assert outputs(reader.types("curl -s localhost:8000/v2/models/served/infer -d '%s'" % X))["y"] == [2, 4, 6, 8]


def test_a_new_version_and_back(tmp_path):
    [(_, shown)] = section("docs/models-in-production.md", "## A new version, and back")
    comes, goes = shown.splitlines()
    double(tmp_path / "srv" / "models", "churn")
    (tmp_path / "srv/models/churn/1").rename(tmp_path / "srv/models/churn/3")
    double(tmp_path, "made")
    (tmp_path / "made/1").rename(tmp_path / "4")
    with Reader(tmp_path) as reader:
        reader.types("symphony serve /srv/models --model-control-mode poll --repository-poll-secs 1")
        for change, version in ("", "3"), (comes, "4"), (goes, "3"):
            reader.types(change)
            wait_until(lambda: reader.is_ready("churn/versions/" + version), START_S)
            answer = json.loads(reader.types("curl -s localhost:8000/v2/models/churn/infer -d '%s'" % X))
            assert answer["model_version"] == version


def test_why_a_request_was_late(tmp_path):
    """Of a model whose run takes longer than its deadline allows."""
    save_model(tmp_path / "models", "m", [helper.make_node("Neg", ["INPUT"], ["OUTPUT"])], [("INPUT", TensorProto.FLOAT, ["N", 1])],
               [("OUTPUT", TensorProto.FLOAT, ["N", 1])])
    (tmp_path / "models" / "m" / "symphony.yaml").write_text("slo_ms: 0.001\n")
    page = (TOP / "docs/observe.md").read_text().split("## Why was this one late?", 1)[1]
    asks = re.findall(r"^    \$ (curl .*)$", page, re.M)[:2]
    with Reader(tmp_path) as reader:
        reader.types("symphony serve models")
        answer = reader.types(asks[0])
        found = re.search(r"^X-Request-Id: (\w+)", answer, re.M)
        assert answer.startswith("HTTP/1.1 503") and found and "within its deadline of 0.001 ms" in answer
        told = []
        wait_until(lambda: told.extend(json.loads(reader.types(asks[1]))["requests"]) or told)  # kept a moment after the answer
        [trail] = told
        assert trail["id"] == found[1] and trail["reason"] and trail["why"]
