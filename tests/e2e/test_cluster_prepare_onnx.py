"""test_cluster_prepare_onnx.py - models that prepare inputs in the frontends of a cluster: the cases of `serve`."""
# sanitizers: address thread
import subprocess
import threading

import numpy as np
import pytest
import tritonclient.http as http
from onnx import helper

import test_cluster_control as control
from images import picture, png
from repository import measure
from server import BINARY, wait_until
from test_cluster_control import WAIT_S
from test_prepare_onnx import *  # noqa: F401,F403
from prepared import Cluster, is_for_a_frontend, server  # noqa: F401,F811 (fixtures, in the place of those)
from test_prepare_onnx import FLOAT, SAMPLES, ask, both, constant, files_array, refusal, save, settings
from test_standby import Role

MODELS = "photo", "single", "pixels", "sound", "picky", "open", "loop", "look", "two", "places", "loops"


@pytest.fixture(scope="module")
def cluster(repository):  # noqa: F405
    with Cluster(repository, MODELS, "--prepare-threads", "2", backends=2) as running:
        yield running


# ---- steps of ensembles whose models are those of several backends ----

def test_a_step_prepares_what_another_backend_goes_on_with(repository, tmp_path):
    for name, models in (("first", ["photo", "look"]), ("second", ["negate"])):
        (tmp_path / name).mkdir()
        for model in models:
            (tmp_path / name / model).symlink_to(repository / model)
    images = [picture(20 + n, 30, n) for n in range(3)]
    files = files_array([png(image) for image in images])
    with Cluster(tmp_path / "first", ["photo"]) as cluster:
        second = Role("backend", *cluster.join, "--repository", tmp_path / "second", "--slo-ms", "60000")
        try:
            wait_until(lambda: cluster.is_ready("look"), WAIT_S)
            wanted = both(repository, "photo", images)[0]
            assert (ask(cluster.frontend, "look", files, "files").as_numpy("down") == -wanted).all()
            cluster.backends[0].kill()
            wait_until(lambda: not cluster.is_ready("look"), WAIT_S)
            cluster.backends[0].start()
            wait_until(lambda: cluster.is_ready("look"), WAIT_S)
            assert (ask(cluster.frontend, "look", files, "files").as_numpy("down") == -wanted).all()
        finally:
            second.end()


# ---- models that come and go ----

def save_negative(folder):
    save(folder / "m" / "1" / "model.onnx", [helper.make_node("Neg", ["x"], ["y"])], [("x", FLOAT, ["N", 2])], [("y", FLOAT, ["N", 2])])
    settings(folder / "m", ["step: onnx, model: prepare.onnx"])


def prepare_by(folder, operator, weights=()):
    save(folder / "m" / "1" / "prepare.onnx", [helper.make_node(operator, ["a", "a"], ["b"])], [("a", FLOAT, ["N", 2])],
         [("b", FLOAT, ["N", 2])], weights)


def test_another_file_is_another_model(tmp_path):
    """Which takes over at frontends once it is opened there; meanwhile the old one answers."""
    save_negative(tmp_path)
    prepare_by(tmp_path, "Add")
    measure(tmp_path)
    row = np.array([[3, 4]], np.float32)

    def answers(wanted):
        try:
            return (ask(cluster.frontend, "m", row).as_numpy("y") == wanted).all()
        except http.InferenceServerException as mistake:  # so late that a batch ran without it, and then its model went
            assert "[503]" in str(mistake), mistake
            refused.append(mistake)
            return False
    refused = []

    with control.Cluster(tmp_path / "unused") as cluster:
        cluster.backends.append(control.Backend(tmp_path, cluster.join, "explicit", "--load-model", "m", "--slo-ms", "60000"))
        backend = cluster.backends[0]
        wait_until(lambda: cluster.frontend.request("GET", "/v2/models/m/ready")[0] == 200, WAIT_S)
        assert (ask(cluster.frontend, "m", row).as_numpy("y") == -2 * row).all()
        for operator, wanted in (("Mul", -row * row), ("Sub", 0 * row), ("Mul", -row * row)):
            prepare_by(tmp_path, operator)
            backend.load("m")
            wait_until(lambda: answers(wanted), WAIT_S)
        assert len(refused) <= 3, refused  # one for each file, where the machine stood still just then
        (tmp_path / "m" / "1" / "prepare.onnx").write_bytes(b"this is no model")
        backend.load("m")
        wait_until(lambda: backend.says("prepare.0: "), WAIT_S)
        assert (ask(cluster.frontend, "m", row).as_numpy("y") == -row * row).all()  # the old one serves on
        backend.unload("m")
        wait_until(lambda: cluster.frontend.request("GET", "/v2/models/m/ready")[0] != 200, WAIT_S)


def test_two_files_of_one_model_are_a_mistake(tmp_path):
    """Backends have to prepare alike: the second one's model is not taken, and the log says where it differs."""
    for name, operator in (("first", "Add"), ("second", "Mul")):
        save_negative(tmp_path / name)
        prepare_by(tmp_path / name, operator)
    row = np.array([[3, 4]], np.float32)
    with Cluster(tmp_path / "first", ["m"]) as cluster:
        cluster.backends.append(Role("backend", *cluster.join, "--repository", tmp_path / "second", "--slo-ms", "60000"))
        wait_until(lambda: cluster.scheduler.says("is another one on other backends: inputs[0].prepare.contents is "), WAIT_S)
        for _ in range(5):
            assert (ask(cluster.frontend, "m", row).as_numpy("y") == -2 * row).all()


def test_a_file_may_be_almost_as_large_as_a_description(tmp_path):
    save_negative(tmp_path)
    prepare_by(tmp_path, "Add", [constant("unused", np.random.default_rng(5).standard_normal((1 << 19) - 100), np.float32)])
    assert 2090000 < (tmp_path / "m" / "1" / "prepare.onnx").stat().st_size <= 1 << 21
    row = np.array([[3, 4]], np.float32)
    with Cluster(tmp_path, ["m"], backends=2) as cluster:
        assert (ask(cluster.frontend, "m", row).as_numpy("y") == -2 * row).all()


def test_a_file_that_is_too_large_is_refused_where_it_is(tmp_path):
    save_negative(tmp_path)
    prepare_by(tmp_path, "Add", [constant("unused", np.zeros(1 << 19), np.float32)])  # 2 MiB and a little
    run = subprocess.run([BINARY, "backend", "--repository", str(tmp_path), "--join", "127.0.0.1:1", "--no-metrics"],
                         capture_output=True, text=True, timeout=WAIT_S)
    assert run.returncode != 0
    assert "m/symphony.yaml:3: prepare.0: prepare.onnx: the files that prepare a model's inputs go to the frontends of a cluster if " \
        "they have at most 2097152 bytes together, and these have more" in run.stderr, run.stderr


@pytest.mark.parametrize("policy", ["eager", "fifo", "clockwork"])
def test_other_policies_of_a_scheduler(repository, policy):
    sound = np.random.default_rng(3).integers(-30000, 30000, (2, SAMPLES), np.int16)
    with Cluster(repository / "sound", ["sound"], policy=policy) as cluster:
        for _ in range(3):
            assert (ask(cluster.frontend, "sound", sound, "power").as_numpy("y") == both(repository, "sound", sound)[0]).all()


def test_a_preparation_that_never_ends_costs_nobody_else(repository):
    """Its request is refused at its time, and so is what it took; others are answered meanwhile."""
    with Cluster(repository / "loop", ["loop"], "--prepare-threads", "2") as cluster:
        def reason():
            """That of its refusal; another than this one only if the machine stood still until its deadline."""
            outcomes = []

            def worker():
                outcomes.append(refusal(cluster.frontend, "loop", np.array([[1 << 40]], np.int64), timeout=500000))

            thread = threading.Thread(target=worker)
            thread.start()
            for n in range(1, 30):
                assert ask(cluster.frontend, "loop", np.array([[n]], np.int64)).as_numpy("y")[0, 0] == -n
            thread.join()
            assert "[503]" in outcomes[0], outcomes
            return outcomes[0]
        assert any("were not prepared in time for its deadline" in reason() for _ in range(20))
        cluster.rests()
