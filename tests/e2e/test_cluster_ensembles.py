"""test_cluster_ensembles.py - ensembles in a cluster: their steps run on several backends, and each answer is that of one process."""
# sanitizers: address
import concurrent.futures
import signal
import threading

import numpy as np
import pytest
import tritonclient.grpc as grpc
import tritonclient.http as http
from onnx import TensorProto, helper

from repository import save_model
from server import wait_until
from test_cluster_control import WAIT_S, Backend, Cluster
from test_ensembles import X, infer, reason, save_ensemble, save_ensembles, save_models, step, tensor
from test_ensembles import test_steps_hand_on_what_they_make, test_strings_travel  # noqa: F401: with the cluster's `ask`
from test_transports import TRANSPORTS, asked, has

FIRST = ("scale", "find", "copy")
SECOND = ("next", "sum", "pick", "flip", "weigh")
ENSEMBLES = ("alone", "chain", "diamond", "words", "each", "cut", "branch", "picky", "word", "many-words", "over", "twice", "again", "many-next",
             "each-within", "branch-within", "weighed", "weighed-within", "batched-within")


def put(folder, models, ensembles=False):
    """Some of the models, and the ensembles of all of them."""
    everything = folder.parent / ("all-" + folder.name)
    save_models(everything)
    if ensembles:
        save_ensembles(everything)
    folder.mkdir(parents=True)
    for path in everything.iterdir():
        if path.name in models or path.name in ENSEMBLES:
            path.rename(folder / path.name)
    return folder


def start(cluster, folder, mode="none", *args):
    cluster.backends.append(Backend(folder, cluster.join, mode, "--slo-ms", "60000", *args))
    return cluster.backends[-1]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """What a backend has that can do all: measured once, for all tests that leave it as it is."""
    return put(tmp_path_factory.mktemp("whole") / "models", FIRST + SECOND, ensembles=True)


class Asker:
    """Asks a frontend over one of the protocols."""

    def __init__(self, frontend, module):
        self.module = module
        port = frontend.port if module is http else frontend.grpc_port
        self.client = module.InferenceServerClient(f"127.0.0.1:{port}")

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.client.close()

    def __call__(self, model, arrays, **more):
        return infer(self.module, self.client, model, arrays, **more)

    def ready(self, *models):
        return all(self.client.is_model_ready(model) for model in models)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cluster")
    with Cluster(folder) as running:
        start(running, put(folder / "first", FIRST, ensembles=True))
        start(running, put(folder / "second", SECOND))
        with Asker(running.frontend, http) as ask:
            wait_until(lambda: ask.ready(*ENSEMBLES), WAIT_S)
        yield running


@pytest.fixture(params=["http", "grpc"])
def ask(request, cluster):
    with Asker(cluster.frontend, {"http": http, "grpc": grpc}[request.param]) as asker:
        yield asker


def test_mistakes_of_a_request_name_the_step(ask):
    with pytest.raises(Exception, match="ensemble 'each', step 2: 'ROWS' has 6 rows, and no more than 5 may be"):
        ask("each", {"X": np.ones((6, 4), np.float32)})
    with pytest.raises(Exception, match="ensemble 'picky', step 1: model 'pick' failed"):
        ask("picky", {"I": np.array([[7]])})
    with pytest.raises(Exception, match="batch-size must be <= 8 for 'chain'"):
        ask("chain", {"X": np.ones((9, 4), np.float32)})
    with pytest.raises(Exception, match="ensemble 'chain', step 2: model 'scale' cannot finish this request within its deadline"):
        ask("chain", {"X": X}, timeout=1)


def test_it_is_described_and_counted_as_a_model(cluster):
    with http.InferenceServerClient(f"127.0.0.1:{cluster.frontend.port}") as client:
        metadata = client.get_model_metadata("diamond")
        assert metadata["platform"] == "ensemble"
        assert metadata["inputs"] == [{"name": "X", "datatype": "FP32", "shape": [-1, 4]}]
        steps = client.get_model_config("diamond")["ensemble_scheduling"]["step"]
        assert [s["model_name"] for s in steps] == ["scale", "next", "sum"]
        assert steps[2]["input_map"] == {"a": "D", "b": "E"}

        def counts():
            return {m["name"]: m["inference_count"] for m in client.get_inference_statistics()["model_stats"]}
        cluster.frontend.rests()
        before = counts()
        infer(http, client, "diamond", {"X": X})
        wait_until(lambda: counts()["diamond"] == before["diamond"] + 3)
        cluster.frontend.rests()
        assert [counts()[m] - before[m] for m in ("scale", "next", "sum")] == [3, 3, 3]
        metrics = cluster.frontend.metrics()
        parts = [v for k, v in metrics.items() if k.startswith("symphony_ensemble_step_part_seconds") and '"diamond"' in k]
        assert len(parts) == 3 and all(part > 0 for part in parts)


def test_many_at_once_get_their_own(cluster):
    def asks(seed):
        random = np.random.default_rng(seed)
        with Asker(cluster.frontend, grpc) as ask:
            for _ in range(15):
                given = random.integers(-9, 9, (random.integers(1, 8), 4)).astype(np.float32)
                assert np.array_equal(ask("diamond", {"X": given}).as_numpy("S"), 3 * given + 1)
                assert np.array_equal(ask("cut", {"X": given}).as_numpy("Y"), 2 * given[given[:, 0] > 0][:5])

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        for done in [pool.submit(asks, seed) for seed in range(6)]:
            done.result(WAIT_S)


def test_nothing_is_left_behind(cluster):
    wait_until(lambda: all(v == 0 for k, v in cluster.frontend.metrics().items() if k.startswith("symphony_requests_in_flight")))
    wait_until(lambda: cluster.frontend.metrics().get("symphony_inputs_bytes", 0) == 0)


LARGE = 1 << 20


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """What two backends have: an ensemble of a model of each, whose tensors take 4 MiB a row."""
    folders = []
    for name, node in (("turn", "Neg"), ("round", "Abs")):
        folders.append(path := tmp_path_factory.mktemp(name))
        save_model(path, name, [helper.make_node(node, ["x"], ["y"])], [("x", TensorProto.FLOAT, ["N", LARGE])],
                   [("y", TensorProto.FLOAT, ["N", LARGE])])
        (path / name / "config.pbtxt").write_text("max_batch_size: 2\n")
        save_ensemble(path, "both", 2, [tensor("input", "X", "FP32", [LARGE]), tensor("output", "Y", "FP32", [LARGE]),
                                        tensor("output", "Z", "FP32", [LARGE])],
                      [step("turn", {"x": "X"}, {"y": "Y"}), step("round", {"x": "Y"}, {"y": "Z"})])
    return folders


def start_large(cluster, folders, transport="auto"):
    for folder in folders:
        start(cluster, folder, "none", "--transport", transport, *(("--fabric", "tcp") if transport == "fabric" else ()))


@pytest.mark.parametrize("transport", [has(transport) for transport in TRANSPORTS])
def test_outputs_travel_on_by_each_transport(tmp_path, large, transport):
    """4 MiB from one backend to the frontend, and from there to the next one, bit for bit."""
    running = Cluster(tmp_path)
    running.frontend.args += ["--fabric", "tcp"] if transport == "fabric" else []
    with running as cluster:
        start_large(cluster, large, transport)
        with Asker(cluster.frontend, http) as ask:
            wait_until(lambda: ask.ready("both"), WAIT_S)
            given = np.random.default_rng(1).standard_normal((1, LARGE)).astype(np.float32)
            answer = ask("both", {"X": given})
            assert np.array_equal(answer.as_numpy("Y"), -given) and np.array_equal(answer.as_numpy("Z"), abs(given))
            wait_until(lambda: cluster.frontend.metrics().get("symphony_inputs_bytes", 0) == 0)


def test_an_answer_that_nobody_reads_is_cut_off_at_the_end(tmp_path, large):
    running = Cluster(tmp_path)
    running.frontend.args += ["--drain-timeout", "1"]
    with running as cluster:
        start_large(cluster, large)
        with Asker(cluster.frontend, http) as ask:
            wait_until(lambda: ask.ready("both"), WAIT_S)
        given = np.ones((2, LARGE), np.float32)
        body, length = asked({"X": given})
        connection = cluster.frontend.connect()
        connection.request("POST", "/v2/models/both/infer", body, {"Inference-Header-Content-Length": length})
        connection.sock.recv(1)
        status = cluster.frontend.stop()
        assert status == 1 and "requests_cut_off=true" in cluster.frontend.log_text(), (status, cluster.frontend.log_text()[-3000:])
        connection.close()


def test_it_comes_and_goes_with_its_models(tmp_path):
    with Cluster(tmp_path) as cluster, Asker(cluster.frontend, http) as ask:
        first = start(cluster, put(tmp_path / "first", FIRST, ensembles=True), "explicit", "--load-model", "*")
        wait_until(lambda: ask.ready("alone"), WAIT_S)
        index = lambda: reason(ask.client, "diamond")
        wait_until(lambda: "diamond/config.pbtxt:" in index()[1], WAIT_S)
        assert index()[0] == "UNAVAILABLE" and "step 2 (next): there is no such model" in index()[1]
        with pytest.raises(Exception, match="step 2 .next.: there is no such model"):
            ask("diamond", {"X": X})
        second = start(cluster, put(tmp_path / "second", SECOND), "explicit", "--load-model", "*")
        wait_until(lambda: ask.ready("diamond", "chain"), WAIT_S)
        assert np.array_equal(ask("diamond", {"X": X}).as_numpy("S"), 3 * X + 1)
        second.unload("sum")
        wait_until(lambda: not ask.ready("diamond"), WAIT_S)
        assert ask.ready("chain") and "step 3 (sum): there is no such model" in index()[1]
        second.load("sum")
        wait_until(lambda: ask.ready("diamond"), WAIT_S)
        cluster.serves(**{model: 1 for model in FIRST + SECOND + ENSEMBLES})
        assert np.array_equal(ask("over", {"X": X}).as_numpy("Y"), 2 * X)
        assert np.array_equal(ask("twice", {"X": X}).as_numpy("Y"), 4 * X + 3)
        first.unload("chain")
        wait_until(lambda: not ask.ready("twice"), WAIT_S)
        assert "twice/config.pbtxt:6:3: step 1 (chain): there is no such model" in reason(ask.client, "twice")[1]
        first.load("chain")
        wait_until(lambda: ask.ready("twice"), WAIT_S)
        first.unload("diamond")
        wait_until(lambda: not ask.ready("diamond"), WAIT_S)
        assert ask.ready("chain", "sum")
        first.load("diamond")
        wait_until(lambda: ask.ready("diamond"), WAIT_S)
        assert np.array_equal(ask("diamond", {"X": X}).as_numpy("S"), 3 * X + 1)
        (first.folder / "alone" / "config.pbtxt").write_text(
            (first.folder / "chain" / "config.pbtxt").read_text())
        first.load("alone")  # another ensemble of that name, which takes over
        wait_until(lambda: np.array_equal(ask("alone", {"X": X}).as_numpy("Y"), 2 * X + 1), WAIT_S)
        assert np.array_equal(ask("over", {"X": X}).as_numpy("Y"), 2 * X + 1)  # whose step it is
        cluster.scheduler.kill()
        cluster.scheduler.start()
        wait_until(lambda: ask.ready("alone", "diamond"), WAIT_S)
        assert np.array_equal(ask("diamond", {"X": X}).as_numpy("S"), 3 * X + 1)
        assert first.kill(signal.SIGTERM) == 0
        wait_until(lambda: not ask.ready("alone") and not ask.ready("diamond"), WAIT_S)


def test_a_backend_dies_under_load(tmp_path, whole):
    """Each query has one answer, the right one, or one reason; afterwards nothing of any is left."""
    with Cluster(tmp_path) as cluster:
        start(cluster, whole)
        with Asker(cluster.frontend, http) as ask:
            wait_until(lambda: ask.ready("diamond", "cut"), WAIT_S)
        stop, told = threading.Event(), []

        def asks(seed):
            random = np.random.default_rng(seed)
            with Asker(cluster.frontend, grpc) as ask:
                while not stop.wait(0.1):
                    given = random.integers(-9, 9, (random.integers(1, 8), 4)).astype(np.float32)
                    try:
                        right = np.array_equal(ask("diamond", {"X": given}).as_numpy("S"), 3 * given + 1) and \
                            np.array_equal(ask("cut", {"X": given}).as_numpy("Y"), 2 * given[given[:, 0] > 0][:5])
                        told.append(right)
                    except grpc.InferenceServerException as error:
                        assert error.status() in ("StatusCode.UNAVAILABLE", "StatusCode.DEADLINE_EXCEEDED", "StatusCode.NOT_FOUND"), error
                        told.append(str(error))

        def answered(more):
            before = told.count(True)
            wait_until(lambda: told.count(True) >= before + more, WAIT_S)

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            runs = [pool.submit(asks, seed) for seed in range(4)]
            try:
                answered(20)
                second = start(cluster, whole)
                cluster.serves(**{model: 2 for model in FIRST + SECOND + ENSEMBLES})
                answered(40)
                second.kill()
                answered(40)
                second.start()
                cluster.serves(**{model: 2 for model in FIRST + SECOND + ENSEMBLES})
                answered(20)
                cluster.backends[0].kill()
                answered(40)
                second.kill()
                wait_until(lambda: any(isinstance(one, str) for one in told), WAIT_S)
                second.start()
                answered(20)
            finally:
                stop.set()
            for run in runs:
                run.result(WAIT_S)
        assert False not in told
        wait_until(lambda: all(v == 0 for k, v in cluster.frontend.metrics().items() if k.startswith("symphony_requests_in_flight")))
        wait_until(lambda: cluster.frontend.metrics().get("symphony_inputs_bytes", 0) == 0)
