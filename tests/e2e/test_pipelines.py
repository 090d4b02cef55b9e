"""test_pipelines.py - the demonstration pipelines (scripts/demo_pipelines.py): sound to wake words, pictures to text."""
import contextlib
import functools
import io
import pathlib
import re
import threading

import numpy as np
import onnxruntime
import pytest
import tritonclient.grpc as grpc
import tritonclient.http as http

from server import Server, wait_until
from test_cluster_control import WAIT_S, Backend, Cluster

PIPELINES = pathlib.Path(__file__).resolve().parents[2] / "pipelines"
WORDS = {"alexa": 16, "jarvis": 16, "marvin": 16, "mycroft": 16, "timer": 34, "weather": 22}
SAMPLES = 54752

# Letters of 5 x 7 dots.
LETTERS = {"A": "01110 10001 10001 11111 10001 10001 10001", "E": "11111 10000 10000 11110 10000 10000 11111",
           "H": "10001 10001 10001 11111 10001 10001 10001", "M": "10001 11011 10101 10101 10001 10001 10001",
           "N": "10001 11001 10101 10011 10001 10001 10001", "Y": "10001 10001 01010 00100 00100 00100 00100"}


@contextlib.contextmanager
def cluster(folder):
    """A cluster's frontend; the models are dealt out to two backends, and one of these has the ensembles, too."""
    with Cluster(folder) as running:
        for n in range(2):
            part = folder / f"part-{n}"
            part.mkdir()
            for i, model in enumerate(sorted(PIPELINES.iterdir())):
                if i % 2 == n if (model / "1" / "model.onnx").exists() else n == 0:
                    (part / model.name).symlink_to(model)
            running.backends.append(Backend(part, running.join, "none", "--slo-ms", "60000", "--run-limit", "600"))
        with http.InferenceServerClient(f"127.0.0.1:{running.frontend.port}") as client:
            wait_until(lambda: client.is_model_ready("wake-words") and client.is_model_ready("read-text"), WAIT_S)
        yield running.frontend


@pytest.fixture(scope="module", params=["serve", "cluster"])
def server(request, tmp_path_factory):
    if not (PIPELINES / "wake-words").exists():
        pytest.fail(f"{PIPELINES}: there are no demonstration pipelines; ./run pipelines makes them")
    with Server("--repository", str(PIPELINES), "--slo-ms", "60000", "--run-limit", "600") if request.param == "serve" else \
            cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def session(model):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # more would spin while they wait
    return onnxruntime.InferenceSession(str(PIPELINES / model / "1" / "model.onnx"), options, providers=["CPUExecutionProvider"])


def infer(module, client, model, name, array, kind):
    given = module.InferInput(name, list(array.shape), kind)
    given.set_data_from_numpy(array)
    return client.infer(model, [given])


def sound(seed):
    return (np.random.default_rng(seed).standard_normal((1, SAMPLES)) * 1000).astype(np.float32)


@functools.cache
def wake_words(seed):
    """The ensemble's outputs for a sound, stage by stage."""
    [spectrogram] = session("wake-spectrogram").run(None, {"sound": sound(seed)})
    [windows] = session("wake-windows").run(None, {"spectrogram": spectrogram})
    [embeddings] = session("wake-embedding").run(None, {"window": windows})
    features = session("wake-features")
    last = dict(zip([o.name for o in features.get_outputs()], features.run(None, {"embeddings": embeddings})))
    return {word.upper(): session("wake-" + word).run(None, {f"last{n}": last[f"last{n}"]})[0] for word, n in WORDS.items()}


@pytest.mark.parametrize("module, port", [(http, "port"), (grpc, "grpc_port")])
def test_wake_words_are_those_of_the_stages_one_by_one(server, module, port):
    wanted, wrong = [wake_words(seed) for seed in range(3)], []

    def ask(seed):
        with module.InferenceServerClient(f"127.0.0.1:{getattr(server, port)}") as client:
            result = infer(module, client, "wake-words", "SOUND", sound(seed), "FP32")
            for name, value in wanted[seed].items():
                if not np.allclose(result.as_numpy(name), value, rtol=1e-4, atol=1e-6):
                    wrong.append((seed, name, result.as_numpy(name), value))
    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(3) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def smooth(picture):
    for axis in (0, 1):
        for _ in range(2):
            picture = (np.roll(picture, 1, axis) + 2 * picture + np.roll(picture, -1, axis)) / 4
    return picture


def picture(words, turned=()):
    """Black on white, a word a line; those in `turned` upside down."""
    dots = np.zeros((40 + 70 * len(words), 360))
    for i, word in enumerate(words):
        letters = [np.array([[float(dot) for dot in row] for row in LETTERS[letter].split()]) for letter in word]
        line = np.kron(np.hstack([np.pad(letter, ((0, 0), (0, 2))) for letter in letters]), np.ones((3, 3)))
        line = line[::-1, ::-1] if i in turned else line
        dots[40 + 70 * i:40 + 70 * i + line.shape[0], 30:30 + line.shape[1]] = line
    return np.repeat((255 * (1 - smooth(smooth(dots)))).astype(np.uint8)[:, :, None], 3, axis=2)


@pytest.mark.parametrize("words, turned", [(["MAYHEM", "HEY", "NAME"], (0,)), (["HEY"], ()), ([], ())])
def test_text_is_read(server, words, turned):
    with http.InferenceServerClient(f"127.0.0.1:{server.port}", network_timeout=600) as client:
        result = infer(http, client, "read-text", "PICTURE", picture(words, turned), "UINT8")
    lines = ["".join(piece.decode() for piece in row).strip() for row in result.as_numpy("CHARACTERS")]
    assert lines == words
    assert result.as_numpy("BOXES").shape == (len(words), 4)


def test_more_lines_than_the_limit_are_refused(server):
    """limit: 64 in symphony.yaml; the sentence says how many there were."""
    stripes = np.tile(picture(["HEY"])[30:75, 20:116], (65, 1, 1))
    with http.InferenceServerClient(f"127.0.0.1:{server.port}", network_timeout=600) as client:
        with pytest.raises(http.InferenceServerException, match="has 65 rows, and no more than 64 may be"):
            infer(http, client, "read-text", "PICTURE", stripes, "UINT8")


def test_the_example_of_the_documentation(server):
    """docs/pipelines.md, "Two to try"."""
    text = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "pipelines.md").read_text()
    example = re.search(r"## Two to try.*?```python\n(.*?)```", text, re.S).group(1)
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(example.replace("localhost:8000", f"127.0.0.1:{server.port}"), "docs/pipelines.md", "exec"), {})
    assert said.getvalue().split() == [word for name in ("ALEXA", "JARVIS", "MARVIN", "MYCROFT", "WEATHER")
                                       for word in (name, "False")]
