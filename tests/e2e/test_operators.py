"""test_operators.py - models with operators of their own, from libraries that config.pbtxt names (model_operations)."""
# sanitizers: address
import json
import pathlib
import shutil
import subprocess

import numpy as np
import pytest
from onnx import TensorProto, helper

from repository import save_model
from server import BINARY, Server, wait_until
from test_cluster_control import WAIT_S, Backend, Cluster
from test_control import Client

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    """By name, the paths of libraries."""
    folder = tmp_path_factory.mktemp("libraries")

    def build(name, *flags):
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-I", ROOT / "build/onnxruntime/include", *flags,
                        ROOT / "tests/e2e/operators.c", "-o", folder / name], check=True)
    build("two.so", "-DFACTOR=2")
    build("three.so", "-DFACTOR=3")
    build("empty.so", "-DFACTOR=2", "-DBROKEN")
    build("crashes.so", "-DFACTOR=2", "-DCRASHES")
    return folder


def put(folder, name, library, file=None, to="operators.so", config=""):
    """A model whose one node is of a library: `library` as config.pbtxt has it, from the file."""
    save_model(folder, name, [helper.make_node("Times", ["x"], ["y"], domain="test")], [("x", TensorProto.FLOAT, ["N", 4])],
               [("y", TensorProto.FLOAT, ["N", 4])])
    (folder / name / "config.pbtxt").write_text(f'max_batch_size: 4\nmodel_operations {{ op_library_filename: "{library}" }}\n{config}')
    if file:
        (folder / name / to).parent.mkdir(exist_ok=True)
        shutil.copy(file, folder / name / to)


def serving(folder, *args):
    return Server("--repository", str(folder), "--slo-ms", "60000", *args)


def test_libraries_of_the_model_s_folder(tmp_path, libraries):
    """Two models may have different operators of one name."""
    put(tmp_path, "two", "operators.so", libraries / "two.so")
    put(tmp_path, "three", "./lib/operators.so", libraries / "three.so", "lib/operators.so")
    for _ in range(2):  # the second time with the profile that was kept
        with serving(tmp_path) as server:
            for protocol in ("http", "grpc"):
                client = Client(server, protocol)
                assert client.factor("two") == 2 and client.factor("three") == 3
            assert server.stop() == 0
    shutil.copy(libraries / "three.so", tmp_path / "two" / "operators.so")  # which is measured again
    with serving(tmp_path) as server:
        assert Client(server, "http").factor("two") == 3
        assert server.stop() == 0


def test_a_library_costs_its_model_only(tmp_path, libraries):
    put(tmp_path, "works", "operators.so", libraries / "two.so")
    put(tmp_path, "missing", "operators.so")
    put(tmp_path, "empty", "operators.so", libraries / "empty.so")
    put(tmp_path, "crashes", "operators.so", libraries / "crashes.so")
    put(tmp_path, "text", "operators.so", __file__)
    put(tmp_path, "above", "../works/operators.so")
    put(tmp_path, "elsewhere", libraries / "two.so")
    put(tmp_path, "folder", "1")
    put(tmp_path, "many", 'a" op_library_filename: "b" op_library_filename: "c" op_library_filename: "d" op_library_filename: "e')
    put(tmp_path, "none", "operators.so", libraries / "two.so")
    (tmp_path / "none" / "config.pbtxt").unlink()
    with serving(tmp_path) as server:
        client = Client(server, "http")
        assert client.factor("works") == 2
        for model, sentence in [
                ("missing", f"{tmp_path}/missing/config.pbtxt:2:20: op_library_filename: {tmp_path}/missing/operators.so: No such file"),
                ("empty", "op_library_filename: "), ("empty", "RegisterCustomOps"), ("text", "op_library_filename: "),
                ("crashes", "while loading the model"),
                ("above", "op_library_filename: '../works/operators.so' is not within the model's folder, nor within that of "
                          "--op-library-dir"),
                ("elsewhere", f"op_library_filename: '{libraries}/two.so' is not within the model's folder"),
                ("folder", f"op_library_filename: {tmp_path}/folder/1: not a file"),
                ("many", "op_library_filename: more than 4"),
                ("none", "Times")]:
            state, reason = client.state(model)
            assert state == "UNAVAILABLE" and sentence in reason, (model, reason)
        assert server.stop() == 0


def test_libraries_of_a_folder_for_all(tmp_path, libraries):
    models = tmp_path / "models"
    put(models, "two", "two.so")
    put(models, "three", libraries / "three.so")
    put(models, "own", "two.so", libraries / "three.so", "two.so")  # the model's own folder comes first
    put(models, "above", libraries / "../libraries/two.so")
    subprocess.run([BINARY, "profile", models / "two", "--op-library-dir", libraries], check=True, capture_output=True)
    with serving(models, "--op-library-dir", str(libraries)) as server:
        client = Client(server, "http")
        assert [client.factor(model) for model in ("two", "three", "own")] == [2, 3, 3]
        assert "is not within the model's folder" in client.state("above")[1]
        assert server.stop() == 0


def test_clients_bring_no_libraries(tmp_path, libraries):
    models, shared = tmp_path / "models", tmp_path / "shared"
    shared.mkdir()
    shutil.copy(libraries / "two.so", shared)
    put(models, "there", "operators.so", libraries / "three.so")
    operations = {"max_batch_size": 4, "model_operations": {"op_library_filename": ["1/brought.so"]}}
    files = {"file:1/model.onnx": (models / "there" / "1" / "model.onnx").read_bytes(),
             "file:1/brought.so": (libraries / "two.so").read_bytes()}
    for more, sentence in [((), "a client's files bring no operators"), (("--op-library-dir", str(shared)), "No such file")]:
        with serving(models, "--model-control-mode", "explicit", *more) as server:
            for protocol in ("http", "grpc"):
                client = Client(server, protocol)
                status, why = client.fails(client.triton.load_model, "brought", config=json.dumps(operations), files=files)
                assert status == 400 and sentence in why
            operations["model_operations"]["op_library_filename"] = ["operators.so"]
            client.triton.load_model("there", config=json.dumps(operations))  # the repository's own
            assert client.factor("there") == 3
            operations["model_operations"]["op_library_filename"] = ["two.so"]
            if more:
                client.triton.load_model("brought", config=json.dumps(operations), files=files)
                assert client.factor("brought") == 2
            operations["model_operations"]["op_library_filename"] = ["1/brought.so"]
            assert server.stop() == 0


def test_a_backend_of_a_cluster_has_them(tmp_path, libraries):
    with Cluster(tmp_path) as cluster:
        put(tmp_path / "more", "two", "operators.so", libraries / "two.so")
        put(tmp_path / "more", "three", "three.so")
        cluster.backends.append(Backend(tmp_path / "more", cluster.join, "none", "--slo-ms", "60000", "--op-library-dir",
                                        str(libraries)))
        cluster.answers("two", 2)
        cluster.answers("three", 3)
        wait_until(lambda: cluster.served() == {"two": 1, "three": 1}, WAIT_S)
