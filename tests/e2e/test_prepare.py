"""test_prepare.py - images that are decoded while their requests wait: what comes out, limits, mistakes, who pays for them."""
# sanitizers: address thread
import json
import socket
import threading
import zlib

import numpy as np
import pytest
import tritonclient.grpc as grpc
import tritonclient.http as http
from onnx import TensorProto, helper

from images import PROGRESSIVE, jpeg, jpeg_pixels, picture, png, png_of
from repository import save_model
from server import Server, wait_until
from test_trails import trails

UINT8, FLOAT, INT64 = TensorProto.UINT8, TensorProto.FLOAT, TensorProto.INT64
H, W = 48, 64


def save_prepared(folder, name, nodes, inputs, outputs, settings, initializers=()):
    save_model(folder, name, nodes, inputs, outputs, initializers)
    (folder / name / "symphony.yaml").write_text(settings)


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prepare")
    copy = [helper.make_node("Identity", ["image"], ["pixels"])]
    prepare = "prepare:\n  - {input: image, step: decode_image, max_pixels: 1000000, max_bytes: 500000}\n"
    save_prepared(folder, "fixed", copy, [("image", UINT8, ["N", H, W, 3])], [("pixels", UINT8, ["N", H, W, 3])],
                  "max_batch: 8\n" + prepare)
    save_prepared(folder, "any", copy, [("image", UINT8, ["N", "H", "W", 3])], [("pixels", UINT8, ["N", "H", "W", 3])],
                  f"max_batch: 8\nshapes: {{image: [{H}, {W}, 3]}}\n" + prepare)
    save_prepared(folder, "alone", copy, [("image", UINT8, [H, W, 3])], [("pixels", UINT8, [H, W, 3])],
                  "prepare: [{step: decode_image}]\n")
    blend = [helper.make_node("Cast", ["image"], ["x"], to=FLOAT), helper.make_node("Mul", ["x", "gain"], ["pixels"])]
    save_prepared(folder, "gain", blend, [("image", UINT8, ["N", H, W, 3]), ("gain", FLOAT, ["N", 1, 1, 1])],
                  [("pixels", FLOAT, ["N", H, W, 3])], prepare)
    return folder


@pytest.fixture(scope="module")
def server(repository):
    with Server("--repository", str(repository), "--slo-ms", "60000", "--prepare-threads", "2") as running:
        yield running


def strings(module, name, files, batched=True):
    array = np.array(files, dtype=object).reshape((len(files), 1) if batched else (1,))
    given = module.InferInput(name, array.shape, "BYTES")
    given.set_data_from_numpy(array)
    return given


def pixels_of(server, model, files, module=http, batched=True, timeout=None, more=()):
    port = server.port if module is http else server.grpc_port
    with module.InferenceServerClient(f"127.0.0.1:{port}") as client:
        return client.infer(model, [strings(module, "image", files, batched), *more], timeout=timeout).as_numpy("pixels")


def refusal(server, model, files, module=http, **how):
    with pytest.raises(Exception) as caught:
        pixels_of(server, model, files, module, **how)
    return str(caught.value)


def ended(server, model, end):
    return server.metrics().get(f'symphony_preparations_total{{model="{model}",version="1",end="{end}"}}', 0)


# ---- what comes out ----

def test_clients_see_strings(server):
    metadata = json.loads(server.request("GET", "/v2/models/fixed")[2])
    assert metadata["inputs"] == [{"name": "image", "datatype": "BYTES", "shape": [-1, 1]}]
    assert metadata["outputs"] == [{"name": "pixels", "datatype": "UINT8", "shape": [-1, H, W, 3]}]
    config = json.loads(server.request("GET", "/v2/models/fixed/config")[2])
    assert config["input"][0]["data_type"] == "TYPE_STRING" and list(map(int, config["input"][0]["dims"])) == [1]
    alone = json.loads(server.request("GET", "/v2/models/alone")[2])
    assert alone["inputs"] == [{"name": "image", "datatype": "BYTES", "shape": [1]}]
    with grpc.InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as client:
        assert client.get_model_metadata("any").inputs[0].datatype == "BYTES"


@pytest.mark.parametrize("module", [http, grpc])
def test_pixels_are_those_of_the_library(server, module):
    image = picture(H, W)
    for file in (jpeg(image), jpeg(image, flags=PROGRESSIVE)):
        assert (pixels_of(server, "fixed", [file], module)[0] == jpeg_pixels(file, H, W)).all()
    assert (pixels_of(server, "fixed", [png(image)], module)[0] == image).all()
    assert (pixels_of(server, "alone", [png(image)], module, batched=False) == image).all()


def test_a_request_may_bring_several_images(server):
    images = [picture(H, W, seed) for seed in range(5)]
    files = [png(i) if n % 2 else jpeg(i) for n, i in enumerate(images)]
    wanted = [i if n % 2 else jpeg_pixels(files[n], H, W) for n, i in enumerate(images)]
    assert (pixels_of(server, "fixed", files) == np.stack(wanted)).all()


def test_other_inputs_are_as_they_were_sent(server):
    image, gain = picture(H, W), np.array([[[[0.5]]]], np.float32)
    given = http.InferInput("gain", gain.shape, "FP32")
    given.set_data_from_numpy(gain)
    assert np.allclose(pixels_of(server, "gain", [png(image)], more=[given])[0], image * 0.5)


def test_a_file_is_a_whole_body(server):
    image = picture(H, W)
    status, headers, body = server.request("POST", "/v2/models/fixed/infer", png(image),
                                           {"Inference-Header-Content-Length": "0", "X-Symphony-Trail": "1"})
    assert status == 200
    assert body[int(headers["Inference-Header-Content-Length"]):] == image.tobytes()
    parts = [float(headers["x-symphony-%s-ms" % part]) for part in ("request", "prepare", "company", "accelerator", "run", "took")]
    assert parts[1] > 0 and sum(parts[:-1]) <= parts[-1] + 0.01  # each is rounded


def test_many_at_once_of_many_sizes(server):
    sizes = [(H, W), (31, 17), (200, 300), (1, 1)]
    wrong = []

    def ask(worker):
        with http.InferenceServerClient(f"127.0.0.1:{server.port}") as client:
            for n in range(12):
                image = picture(*sizes[(worker + n) % len(sizes)], worker * 100 + n)
                answer = client.infer("any", [strings(http, "image", [png(image, 1)])]).as_numpy("pixels")
                if not (answer[0] == image).all():
                    wrong.append((worker, n))

    threads = [threading.Thread(target=ask, args=(w,)) for w in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# ---- mistakes and limits ----

@pytest.mark.parametrize("module", [http, grpc])
def test_mistakes_are_named(server, module):
    image = picture(H, W)
    whole, photo = png(image), jpeg(image)
    for file, sentence in [(b"no image", "input 'image': image 0 is neither a JPEG nor a PNG"),
                           (b"", "input 'image': image 0 is empty"),
                           (photo[:len(photo) // 2], "input 'image': image 0 cannot be decoded: Premature end of JPEG"),
                           (whole[:len(whole) // 2], "input 'image': image 0 cannot be decoded"),
                           (whole[:60] + bytes([whole[60] ^ 255]) + whole[61:], "cannot be decoded"),
                           (png(picture(H, W + 1)), "is 48 pixels high and 65 wide, but model 'fixed' takes [height,width] "
                                                    "[48,64]"),
                           (photo + bytes(500000), "bytes; model 'fixed' takes at most 500000 (max_bytes")]:
        text = refusal(server, "fixed", [file], module)
        assert sentence in text and ("[400]" in text or "INVALID_ARGUMENT" in text), text
    assert "image 1 has 65 x 48 pixels, but image 0 of the same request has 64 x 48" in \
        refusal(server, "any", [whole, png(picture(H, W + 1))], module)
    assert (pixels_of(server, "fixed", [whole], module)[0] == image).all()


def test_a_bad_image_costs_nobody_else(server):
    """A batch's other requests are answered; each of the bad ones gets its own sentence."""
    image, outcomes = picture(H, W), []
    whole, cut = png(image), jpeg(image)[:-40]

    def ask(bad):
        try:
            outcomes.append((bad, (pixels_of(server, "fixed", [cut if bad else whole])[0] == image).all()))
        except http.InferenceServerException as mistake:
            outcomes.append((bad, "Premature end" in str(mistake)))

    before = ended(server, "fixed", "bad")
    threads = [threading.Thread(target=ask, args=(n % 3 == 0,)) for n in range(48)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 48 and all(right for _, right in outcomes)
    assert ended(server, "fixed", "bad") - before == 16


def test_a_bomb_takes_no_memory(server):
    """A file of some KB that would unpack to 10.8 GB, one that lies about it, and one that unpacks to the limit."""
    mapped = server.metrics()["symphony_inputs_mapped_bytes"]
    bomb = png_of(60000, 60000, zlib.compress(bytes(1 << 22), 9))
    assert len(bomb) < 10000
    text = refusal(server, "any", [bomb])
    assert "image 0 has 60000 x 60000 pixels, 10800000000 bytes once decoded" in text and "[400]" in text
    lies = png_of(64, 48, zlib.compress(bytes(1 << 24), 9))
    assert (pixels_of(server, "any", [lies]) == 0).all()  # no more rows are unpacked than its header says
    assert server.metrics()["symphony_inputs_mapped_bytes"] - mapped < 16 << 20
    assert pixels_of(server, "any", [png(np.zeros((1000, 1000, 3), np.uint8))]).shape == (1, 1000, 1000, 3)


def test_what_cannot_be_ready_in_time_is_refused(server):
    large = jpeg(picture(1000, 1000), 30)
    before = ended(server, "any", "done")
    text = refusal(server, "any", [large], timeout=300)
    assert "[503]" in text, text
    for trail in trails(server, model="any", state="refused"):
        assert trail["reason"] != "unprepared" or (trail["prepare_ms"] > 0 and "company_ms" not in trail)
    assert pixels_of(server, "any", [large]).shape == (1, 1000, 1000, 3)
    assert ended(server, "any", "done") > before


def test_clients_that_leave(server):
    body = jpeg(picture(1000, 1000), 30)
    head = (f"POST /v2/models/any/infer HTTP/1.1\r\nHost: x\r\nInference-Header-Content-Length: 0\r\n"
            f"Content-Length: {len(body)}\r\n\r\n").encode()
    for _ in range(40):
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            client.sendall(head + body)
    wait_until(lambda: server.metrics()["symphony_requests_in_flight"] == 0)
    wait_until(lambda: server.metrics()["symphony_inputs_bytes"] == 0)
    image = picture(H, W)
    assert (pixels_of(server, "fixed", [png(image)])[0] == image).all()


def test_metrics(server):
    before = ended(server, "gain", "done")
    gain = http.InferInput("gain", [1, 1, 1, 1], "FP32")
    gain.set_data_from_numpy(np.ones((1, 1, 1, 1), np.float32))
    pixels_of(server, "gain", [png(picture(H, W))], more=[gain])
    assert ended(server, "gain", "done") == before + 1
    assert server.metrics()['symphony_prepare_duration_seconds_count{model="gain",version="1"}'] == before + 1


# ---- where it is served, and where not ----

@pytest.mark.parametrize("policy", ["eager", "timeout", "fifo", "clockwork", "nexus", "kairos"])
def test_every_policy(repository, policy):
    image = picture(H, W)
    with Server("--repository", str(repository / "fixed"), "--policy", policy, "--slo-ms", "60000") as server:
        for n in range(5):
            assert (pixels_of(server, "fixed", [png(image)] * (1 + n % 2))[0] == image).all()
        assert "Premature end" in refusal(server, "fixed", [jpeg(image)[:-40]])


def test_an_emulated_accelerator(repository):
    """Which never looks at its inputs: bad ones are refused all the same."""
    with Server("--repository", str(repository / "fixed"), "--accelerators", "emulated:2", "--slo-ms", "60000") as server:
        assert pixels_of(server, "fixed", [png(picture(H, W))]).shape == (1, H, W, 3)
        assert "Premature end" in refusal(server, "fixed", [jpeg(picture(H, W))[:-40]])


def test_a_best_effort_request(server):
    image = picture(H, W)
    with http.InferenceServerClient(f"127.0.0.1:{server.port}") as client:
        answer = client.infer("fixed", [strings(http, "image", [png(image)])], parameters={"best_effort": True})
        assert (answer.as_numpy("pixels")[0] == image).all()


def test_models_that_come_and_go(repository):
    image = picture(H, W)
    with Server("--repository", str(repository), "--model-control-mode", "explicit", "--slo-ms", "60000") as server:
        for _ in range(3):
            assert server.order("fixed", "load")[0] == 200
            assert (pixels_of(server, "fixed", [png(image)])[0] == image).all()
            assert server.order("fixed", "unload")[0] == 200
        assert server.stop() == 0


def test_the_end_amid_preparations(repository):
    """Whoever is still waiting gets an answer, right or a refusal, and the server ends as it should."""
    large, outcomes, ending = jpeg(picture(1000, 1000), 30), [], threading.Event()

    def ask():
        while not ending.is_set():
            try:
                outcomes.append(pixels_of(server, "any", [large]).shape == (1, 1000, 1000, 3))
            except Exception as mistake:  # refused, or the connection was not taken any more
                outcomes.append("[400]" not in str(mistake) and "[500]" not in str(mistake))

    with Server("--repository", str(repository / "any"), "--slo-ms", "60000", "--prepare-threads", "1",
                "--drain-timeout", "0") as server:
        threads = [threading.Thread(target=ask) for _ in range(12)]
        for thread in threads:
            thread.start()
        wait_until(lambda: server.metrics()["symphony_requests_in_flight"] > 4)
        assert server.stop() in (0, 1)
        ending.set()
        for thread in threads:
            thread.join()
    assert len(outcomes) >= 12 and all(outcomes)


def reason(server, model):
    index = json.loads(server.request("POST", "/v2/repository/index")[2])
    return next(m["reason"] for m in index if m["name"] == model)


def test_settings_that_cannot_be(tmp_path):
    copy = [helper.make_node("Identity", ["x"], ["y"])]
    cases = [("float", FLOAT, ["N", 4, 4, 3], "- {step: decode_image}",
              "prepare.0: decode_image makes UINT8 [height,width,3], but the model's input 'x' is FP32 [4,4,3]"),
             ("grey", UINT8, ["N", 4, 4, 1], "- {step: decode_image}", "but the model's input 'x' is UINT8 [4,4,1]"),
             ("other", UINT8, ["N", 4, 4, 3], "- {input: z, step: decode_image}", "prepare.0: the model has no input 'z'"),
             ("twice", UINT8, ["N", 4, 4, 3], "- {step: decode_image}\n  - {input: x, step: decode_image}",
              "prepare.1: input 'x' is given twice"),
             ("step", UINT8, ["N", 4, 4, 3], "- {step: rotate}", "step: 'rotate' is not known; there are decode_image and onnx"),
             ("none", UINT8, ["N", 4, 4, 3], "- {input: x}", "step is missing; there are decode_image and onnx"),
             ("pixels", UINT8, ["N", 4, 4, 3], "- {step: decode_image, max_pixels: 0}", "max_pixels")]
    for name, kind, dims, settings, _ in cases:
        save_prepared(tmp_path, name, copy, [("x", kind, dims)], [("y", kind, dims)], f"prepare:\n  {settings}\n")
    save_prepared(tmp_path, "good", copy, [("x", UINT8, ["N", 4, 4, 3])], [("y", UINT8, ["N", 4, 4, 3])],
                  "prepare: [{step: decode_image}]\n")
    (tmp_path / "whole").mkdir()
    (tmp_path / "whole" / "config.pbtxt").write_text(
        'platform: "ensemble"\nmax_batch_size: 4\ninput { name: "a" data_type: TYPE_UINT8 dims: [4, 4, 3] }\n'
        'output { name: "b" data_type: TYPE_UINT8 dims: [4, 4, 3] }\nensemble_scheduling {\n'
        '  step { model_name: "good" model_version: -1 input_map { key: "x" value: "a" } output_map { key: "y" value: "b" } }\n}\n')
    with Server("--repository", str(tmp_path), "--slo-ms", "60000") as server:
        for name, _, _, _, sentence in cases:
            assert sentence in reason(server, name)
        assert "step 1 (good): the model's input 'x' is BYTES, but 'a' is UINT8" in reason(server, "whole")
