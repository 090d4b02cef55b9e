"""test_instances.py - instance_group of config.pbtxt: which accelerators run a model.

The server has a CPU, which computes, and an emulated accelerator, which stands for a GPU and answers zeros: what a model
answers tells where it ran.
"""
# sanitizers: address thread
import json

import pytest
import tritonclient.grpc as grpc
import tritonclient.http as http
from onnx import TensorProto, helper

from repository import measure, save_model
from server import LOAD_S, Server

X = [1, 2, 3, 4] * 4  # a full batch, which no policy keeps waiting
GROUPS = {
    "cpu": "instance_group { kind: KIND_CPU count: 2 }",
    "gpu": "instance_group [ { kind: KIND_GPU gpus: [ 0 ] }, { count: 1 gpus: [ 0 ] } ]",
    "either": "instance_group [ { kind: KIND_CPU }, { kind: KIND_GPU } ]",
    "auto": "instance_group { count: 4 }",
    "none": "",
}
CPU = {"name": "cpu", "kind": "KIND_CPU", "count": 1, "gpus": []}
EMULATED = {"name": "emulated", "kind": "KIND_GPU", "count": 1, "gpus": []}
POLICIES = ["deferred", "symphony", "eager", "timeout", "fifo", "clockwork", "nexus", "kairos"]


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    folder = tmp_path_factory.mktemp("groups")
    for name, groups in GROUPS.items():
        save_model(folder, name, [helper.make_node("Add", ["x", "x"], ["y"])], [("x", TensorProto.FLOAT, ["N", 4])],
                   [("y", TensorProto.FLOAT, ["N", 4])])
        (folder / name / "config.pbtxt").write_text("max_batch_size: 4\n" + groups)
    measure(folder)
    return folder


def serve(repository, *args, accelerators="cpu:1,emulated:1"):
    return Server("--repository", repository, "--accelerators", accelerators, "--slo-ms", "60000", *args)


def ran_on(server, model):
    """Where a request ran, as its answer tells."""
    status, answer = server.infer(model, [{"name": "x", "datatype": "FP32", "shape": [4, 4], "data": X}])
    assert status == 200, answer
    y = answer["outputs"][0]["data"]
    assert y in ([2 * x for x in X], [0] * len(X))
    return "cpu" if any(y) else "emulated"


def instance_groups(server, model):
    """As both protocols show them, without what has its default."""
    with http.InferenceServerClient("127.0.0.1:%d" % server.port) as client:
        over_http = client.get_model_config(model)["instance_group"]
    with grpc.InferenceServerClient("127.0.0.1:%d" % server.grpc_port) as client:
        over_grpc = client.get_model_config(model, as_json=True)["config"]["instance_group"]
    for group, other in zip(over_http, over_grpc, strict=True):
        for key, value in other.items():
            assert group[key] == value
    return [{key: group[key] for key in CPU} for group in over_http]


@pytest.mark.parametrize("policy", POLICIES)
def test_models_run_where_they_are_wanted(repository, policy):
    with serve(repository, "--policy", policy) as server:
        for _ in range(10):
            assert ran_on(server, "cpu") == "cpu"
            assert ran_on(server, "gpu") == "emulated"
        for model in ("either", "auto", "none"):
            ran_on(server, model)
        batches = server.metrics()
        assert batches['symphony_accelerator_batches_total{accelerator="0",type="cpu"}'] >= 10
        assert batches['symphony_accelerator_batches_total{accelerator="1",type="emulated"}'] >= 10


def test_parts_of_a_cluster_have_some_of_each_kind(repository):
    with serve(repository, "--rank-threads", "2", "--model-threads", "2", accelerators="cpu:2,emulated:2") as server:
        for _ in range(10):
            assert ran_on(server, "cpu") == "cpu"
            assert ran_on(server, "gpu") == "emulated"


def test_what_is_in_force_is_shown(repository):
    with serve(repository) as server:
        assert instance_groups(server, "cpu") == [CPU]
        assert instance_groups(server, "gpu") == [EMULATED]
        for model in ("either", "auto", "none"):
            assert instance_groups(server, model) == [CPU, EMULATED]
        memory = {}
        for model in GROUPS:
            statistics = json.loads(server.request("GET", f"/v2/models/{model}/stats")[2])["model_stats"][0]
            memory[model] = [usage["type"] for usage in statistics["memory_usage"]]
        assert memory == {model: [] if model == "gpu" else ["CPU"] for model in GROUPS}
        assert "not there" not in server.log_text()


@pytest.mark.parametrize("accelerators, model, wanted, groups",
                         [("cpu:2", "gpu", "gpu", [{**CPU, "count": 2}]), ("emulated:2", "cpu", "cpu", [
                             {**EMULATED, "count": 2}])])
def test_where_the_kind_is_missing_a_model_runs_on_what_there_is(repository, accelerators, model, wanted, groups):
    with serve(repository, accelerators=accelerators) as server:
        assert instance_groups(server, model) == groups
        assert ran_on(server, model) == groups[0]["name"]
        assert f"runs on all accelerators\" model={model} wanted={wanted}" in server.log_text()
        assert server.log_text().count("not there") == 1


def test_gpus_are_not_chosen_one_by_one(repository):
    with serve(repository, accelerators="emulated:2") as server:
        assert "names some of the GPUs; the model runs on all of them\" model=gpu gpus=2" in server.log_text()


def test_a_configuration_brought_along_moves_a_model(repository):
    with serve(repository, "--model-control-mode", "explicit", "--load-model", "gpu") as server, \
            http.InferenceServerClient("127.0.0.1:%d" % server.port, connection_timeout=LOAD_S, network_timeout=LOAD_S) as client:
        assert ran_on(server, "gpu") == "emulated"

        def load(kind):
            config = {"max_batch_size": 4, "instance_group": [{"kind": kind}]}
            client.load_model("gpu", config=json.dumps(config))

        for _ in range(2):
            load("KIND_CPU")
            assert ran_on(server, "gpu") == "cpu"
            assert instance_groups(server, "gpu") == [CPU]
            load("KIND_GPU")
            assert ran_on(server, "gpu") == "emulated"
            assert instance_groups(server, "gpu") == [EMULATED]
        load("KIND_CPU")
        client.unload_model("gpu")
        client.load_model("gpu")
        assert ran_on(server, "gpu") == "emulated"
