"""test_prepare_onnx.py - models with a model of their own that prepares their inputs while requests wait: the results are those
of ONNX Runtime running both; what clients see; limits and mistakes; who pays for them."""
# sanitizers: address thread
import json
import socket
import threading

import numpy as np
import onnxruntime
import pytest
import tritonclient.grpc as grpc
import tritonclient.http as http
from onnx import TensorProto, helper, numpy_helper

from images import jpeg, jpeg_pixels, picture, png
from repository import measure, save_onnx as save
from server import Server, wait_until

UINT8, FLOAT, INT64, INT16 = TensorProto.UINT8, TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT16
SIDE = 16
MEAN, SCALE = [123.675, 116.28, 103.53], [1 / 58.395, 1 / 57.12, 1 / 57.375]


def constant(name, value, kind):
    return numpy_helper.from_array(np.array(value, kind), name)


def save_resize(path, batched):
    """Any picture to [3,SIDE,SIDE], as ImageNet's models take it."""
    lead, last = (["N"], [0, 3, 1, 2]) if batched else ([], [2, 0, 1])
    sizes = [1, 3, SIDE, SIDE] if batched else [3, SIDE, SIDE]
    save(path, [helper.make_node("Cast", ["raw"], ["f"], to=FLOAT), helper.make_node("Sub", ["f", "mean"], ["c"]),
                helper.make_node("Mul", ["c", "scale"], ["s"]), helper.make_node("Transpose", ["s"], ["t"], perm=last),
                helper.make_node("Resize", ["t", "", "", "sizes"], ["ready"], mode="linear")],
         [("raw", UINT8, lead + ["H", "W", 3])], [("ready", FLOAT, lead + [3, SIDE, SIDE])],
         [constant("mean", MEAN, np.float32), constant("scale", SCALE, np.float32), constant("sizes", sizes, np.int64)])


def save_eye(path):
    """Means of rows, and what came in."""
    save(path, [helper.make_node("ReduceMean", ["x"], ["means"], axes=[3], keepdims=0),
                helper.make_node("Identity", ["x"], ["seen"])], [("x", FLOAT, ["N", 3, SIDE, SIDE])],
         [("means", FLOAT, ["N", 3, SIDE]), ("seen", FLOAT, ["N", 3, SIDE, SIDE])])


SAMPLES, FRAME, HOP = 400, 64, 32
FRAMES, BINS = 1 + (SAMPLES - FRAME) // HOP, FRAME // 2 + 1


def save_spectrogram(path):
    """16-bit sound to the powers of a short-time Fourier transform."""
    save(path, [helper.make_node("Cast", ["sound"], ["f"], to=FLOAT), helper.make_node("Div", ["f", "full"], ["n"]),
                helper.make_node("STFT", ["n", "hop", "window"], ["z"]), helper.make_node("Mul", ["z", "z"], ["p"]),
                helper.make_node("ReduceSum", ["p", "axis"], ["power"], keepdims=0)],
         [("sound", INT16, [1, SAMPLES])], [("power", FLOAT, [1, FRAMES, BINS])],
         [constant("full", 32768, np.float32), constant("hop", HOP, np.int64), constant("axis", [3], np.int64),
          constant("window", np.hanning(FRAME), np.float32)])


def settings(folder, steps, more="max_batch: 8\n"):
    (folder / "symphony.yaml").write_text(more + "prepare:\n" + "".join(f"  - {{{step}}}\n" for step in steps))


IMAGE, ONNX = "input: x, step: decode_image, max_pixels: 1000000", "input: x, step: onnx, model: prepare.onnx"


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prepare_onnx")
    for name, batched, steps in (("photo", True, [IMAGE, ONNX]), ("single", False, [IMAGE, ONNX]), ("pixels", True, [ONNX])):
        save_eye(folder / name / "1" / "model.onnx")
        save_resize(folder / name / "1" / "prepare.onnx", batched)
        settings(folder / name, steps)
    bins = [("power", FLOAT, ["N", FRAMES, BINS])]
    save(folder / "sound" / "1" / "model.onnx", [helper.make_node("Sqrt", ["power"], ["y"])], bins, [("y", *bins[0][1:])])
    save_spectrogram(folder / "sound" / "1" / "prepare.onnx")
    settings(folder / "sound", ["step: onnx, model: prepare.onnx"])
    # divides by what is sent, which whole numbers cannot by 0; fails where a place that is sent does not exist
    save(folder / "picky" / "1" / "model.onnx", [helper.make_node("Neg", ["x"], ["y"])], [("x", FLOAT, ["N", 1])],
         [("y", FLOAT, ["N", 1])])
    save(folder / "picky" / "1" / "prepare.onnx", [helper.make_node("Gather", ["table", "place"], ["x"])],
         [("place", INT64, ["N", 1])], [("x", FLOAT, ["N", 1])], [constant("table", [1, 2, 3], np.float32)])
    settings(folder / "picky", ["step: onnx, model: prepare.onnx"])
    # an item may have any length, but only one fits: the model's
    save(folder / "open" / "1" / "model.onnx", [helper.make_node("Neg", ["x"], ["y"])], [("x", FLOAT, ["N", 4])],
         [("y", FLOAT, ["N", 4])])
    save(folder / "open" / "1" / "prepare.onnx", [helper.make_node("Add", ["a", "a"], ["x"])], [("a", FLOAT, ["N", "L"])],
         [("x", FLOAT, ["N", "L"])])
    settings(folder / "open", ["step: onnx, model: prepare.onnx"])
    save_loop(folder)
    save(folder / "negate" / "1" / "model.onnx", [helper.make_node("Neg", ["x"], ["y"])], [("x", FLOAT, ["N", 3, SIDE])],
         [("y", FLOAT, ["N", 3, SIDE])])
    means = ("means", "FP32", f"3, {SIDE}")
    save_ensemble(folder / "look", [("files", "STRING", "1")], [("down", "FP32", f"3, {SIDE}")],
                  [("photo", {"x": "files"}, {"means": "means"}), ("negate", {"x": "means"}, {"y": "down"})])
    save_ensemble(folder / "two", [("sound", "INT16", f"{SAMPLES}"), ("files", "STRING", "1")],
                  [means, ("y", "FP32", f"{FRAMES}, {BINS}")],
                  [("photo", {"x": "files"}, {"means": "means"}), ("sound", {"power": "sound"}, {"y": "y"})])
    save_ensemble(folder / "places", [("place", "INT64", "1")], [("y", "FP32", "1")], [("picky", {"x": "place"}, {"y": "y"})])
    save_ensemble(folder / "loops", [("n", "INT64", "1")], [("y", "FP32", "1")], [("loop", {"x": "n"}, {"y": "y"})])
    return folder


def save_ensemble(path, inputs, outputs, steps, batch=8):
    def maps(kind, names):
        return " ".join(f'{kind} {{ key: "{key}" value: "{value}" }}' for key, value in names.items())

    path.mkdir()
    (path / "config.pbtxt").write_text(
        f'platform: "ensemble"\nmax_batch_size: {batch}\n' +
        "".join(f'{what} {{ name: "{name}" data_type: TYPE_{kind} dims: [ {dims} ] }}\n'
                for what, tensors in (("input", inputs), ("output", outputs)) for name, kind, dims in tensors) +
        "ensemble_scheduling {\n" +
        "".join(f'  step {{ model_name: "{model}" {maps("input_map", takes)} {maps("output_map", gives)} }}\n'
                for model, takes, gives in steps) + "}\n")


def save_loop(folder):
    """Counts to what is sent, a long way for large numbers."""
    body = helper.make_graph([helper.make_node("Identity", ["c"], ["c_out"]), helper.make_node("Add", ["v", "v1"], ["v_out"])],
                             "body", [helper.make_tensor_value_info("i", INT64, []),
                                      helper.make_tensor_value_info("c", TensorProto.BOOL, []),
                                      helper.make_tensor_value_info("v", FLOAT, [1, 1])],
                             [helper.make_tensor_value_info("c_out", TensorProto.BOOL, []),
                              helper.make_tensor_value_info("v_out", FLOAT, [1, 1])], [constant("v1", [[1]], np.float32)])
    save(folder / "loop" / "1" / "prepare.onnx",
         [helper.make_node("Reshape", ["n", "none"], ["m"]),
          helper.make_node("Loop", ["m", "yes", "zero"], ["x"], body=body)],
         [("n", INT64, [1, 1])], [("x", FLOAT, [1, 1])],
         [constant("none", [], np.int64), constant("yes", True, np.bool_), constant("zero", [[0]], np.float32)])
    save(folder / "loop" / "1" / "model.onnx", [helper.make_node("Neg", ["x"], ["y"])], [("x", FLOAT, ["N", 1])],
         [("y", FLOAT, ["N", 1])])
    settings(folder / "loop", ["step: onnx, model: prepare.onnx"])


@pytest.fixture(scope="module")
def server(repository):
    with Server("--repository", str(repository), "--slo-ms", "60000", "--prepare-threads", "2") as running:
        yield running


def both(repository, model, items):
    """What ONNX Runtime makes of the items: each through the model that prepares, then all of them through the other."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    sessions = [onnxruntime.InferenceSession(str(repository / model / "1" / f"{name}.onnx"), options)
                for name in ("prepare", "model")]
    lead = len(sessions[0].get_outputs()[0].shape) == len(sessions[1].get_inputs()[0].shape)
    ready = [sessions[0].run(None, {sessions[0].get_inputs()[0].name: item[None] if lead else item})[0] for item in items]
    whole = np.concatenate(ready) if lead else np.stack(ready)
    return sessions[1].run(None, {sessions[1].get_inputs()[0].name: whole})


NAMES = {np.dtype(np.uint8): "UINT8", np.dtype(np.int16): "INT16", np.dtype(np.int64): "INT64", np.dtype(np.float32): "FP32"}


def ask(server, model, array, name="x", module=http, **how):
    port = server.port if module is http else server.grpc_port
    given = module.InferInput(name, array.shape, "BYTES" if array.dtype == object else NAMES[array.dtype])
    given.set_data_from_numpy(array)
    with module.InferenceServerClient(f"127.0.0.1:{port}") as client:
        return client.infer(model, [given], **how)


def files_array(files):
    return np.array(files, dtype=object).reshape(len(files), 1)


def refusal(server, *args, **how):
    with pytest.raises(Exception) as caught:
        ask(server, *args, **how)
    return str(caught.value)


def ended(server, model, end):
    return server.metrics().get(f'symphony_preparations_total{{model="{model}",version="1",end="{end}"}}', 0)


def offered(server, model):
    return json.loads(server.request("GET", f"/v2/models/{model}")[2])["inputs"]


# ---- what comes out ----

def test_clients_see_what_they_have_to_send(server):
    for model in ("photo", "single"):
        assert offered(server, model) == [{"name": "x", "datatype": "BYTES", "shape": [-1, 1]}]
    assert offered(server, "pixels") == [{"name": "x", "datatype": "UINT8", "shape": [-1, -1, -1, 3]}]
    assert offered(server, "sound") == [{"name": "power", "datatype": "INT16", "shape": [-1, SAMPLES]}]
    config = json.loads(server.request("GET", "/v2/models/sound/config")[2])
    assert config["input"][0]["data_type"] == "TYPE_INT16" and list(map(int, config["input"][0]["dims"])) == [SAMPLES]
    with grpc.InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as client:
        assert list(client.get_model_metadata("pixels").inputs[0].shape) == [-1, -1, -1, 3]


@pytest.mark.parametrize("module", [http, grpc])
@pytest.mark.parametrize("model", ["photo", "single"])
def test_images_as_both_models_make_them(server, repository, model, module):
    """Of several sizes in one request, too, since what is made of them is of one."""
    sizes = [(48, 64), (31, 17), (200, 300)]
    images = [picture(*size, seed) for seed, size in enumerate(sizes)]
    files = [jpeg(images[0]), png(images[1]), jpeg(images[2])]
    items = [jpeg_pixels(files[0], *sizes[0]), images[1], jpeg_pixels(files[2], *sizes[2])]
    answer = ask(server, model, files_array(files), module=module)
    for name, wanted in zip(("means", "seen"), both(repository, model, items)):
        assert (answer.as_numpy(name) == wanted).all()


@pytest.mark.parametrize("module", [http, grpc])
def test_tensors_as_both_models_make_them(server, repository, module):
    images = np.stack([picture(40, 30, seed) for seed in range(3)])
    answer = ask(server, "pixels", images, module=module)
    for name, wanted in zip(("means", "seen"), both(repository, "pixels", images)):
        assert (answer.as_numpy(name) == wanted).all()
    sound = np.random.default_rng(1).integers(-30000, 30000, (5, SAMPLES), np.int16)
    wanted = both(repository, "sound", sound)[0]
    assert (ask(server, "sound", sound, "power", module).as_numpy("y") == wanted).all()
    assert wanted.shape == (5, FRAMES, BINS) and wanted.max() > 0.1


def test_many_at_once(server, repository):
    wrong = []
    sounds = np.random.default_rng(2).integers(-30000, 30000, (8, SAMPLES), np.int16)
    wanted = both(repository, "sound", sounds)[0]
    files = [png(picture(20 + n, 30, n), 1) for n in range(8)]
    seen = both(repository, "photo", [picture(20 + n, 30, n) for n in range(8)])[1]

    def worker(w):
        for n in range(w, w + 12):
            n %= 8
            if not (ask(server, "sound", sounds[n:n + 1], "power").as_numpy("y") == wanted[n]).all():
                wrong.append(("sound", n))
            if not (ask(server, "photo", files_array(files[n:n + 1])).as_numpy("seen") == seen[n]).all():
                wrong.append(("photo", n))

    threads = [threading.Thread(target=worker, args=(w,)) for w in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_metrics(server):
    before = ended(server, "sound", "done")
    ask(server, "sound", np.ones((2, SAMPLES), np.int16), "power")
    assert ended(server, "sound", "done") == before + 1
    assert server.metrics()['symphony_prepare_duration_seconds_count{model="sound",version="1"}'] == before + 1


# ---- mistakes and limits ----

@pytest.mark.parametrize("module", [http, grpc])
def test_mistakes_are_named(server, module):
    def is_400(text):
        return "[400]" in text or "INVALID_ARGUMENT" in text

    text = refusal(server, "sound", np.ones((1, SAMPLES), np.float32), "power", module)
    assert "data-type is 'FP32', but model 'sound' expects 'INT16'" in text and is_400(text)
    text = refusal(server, "sound", np.ones((1, SAMPLES + 1), np.int16), "power", module)
    assert f"Expected [-1,{SAMPLES}], got [1,{SAMPLES + 1}]" in text and is_400(text)
    text = refusal(server, "pixels", np.ones((1, 0, 4, 3), np.uint8), module=module)
    assert "input 'x' is empty, so there is nothing to prepare" in text and is_400(text)
    text = refusal(server, "photo", files_array([jpeg(picture(9, 9))[:-40]]), module=module)
    assert "image 0 cannot be decoded" in text and is_400(text)
    text = refusal(server, "photo", files_array([png(np.zeros((1001, 1000, 3), np.uint8))]), module=module)
    assert "takes at most 1000000 pixels" in text and is_400(text)
    text = refusal(server, "photo", files_array([png(picture(9, 9))] * 9), module=module)
    assert "batch-size must be <= 8" in text and is_400(text)


def test_a_failing_preparation_costs_its_own_request(server):
    """A batch's other requests are answered; each of the bad ones gets its own sentence."""
    outcomes, before = [], ended(server, "picky", "failed")

    def worker(n):
        place = 7 if n % 3 == 0 else n % 3
        try:
            outcomes.append(ask(server, "picky", np.array([[place]], np.int64)).as_numpy("y")[0, 0] == -(place + 1))
        except http.InferenceServerException as mistake:
            outcomes.append(place == 7 and "item 0: prepare.onnx failed" in str(mistake) and "[500]" in str(mistake))

    threads = [threading.Thread(target=worker, args=(n,)) for n in range(48)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 48 and all(outcomes)
    assert ended(server, "picky", "failed") - before == 16
    text = refusal(server, "picky", np.array([[0], [2], [9]], np.int64))
    assert "input 'x': item 2: prepare.onnx failed" in text


def test_what_is_made_has_to_be_of_the_models_shape(server):
    row = np.array([[1, 2, 3, 4]], np.float32)
    assert (ask(server, "open", row).as_numpy("y") == -2 * row).all()
    for length in (1, 3, 5, 100000):
        text = refusal(server, "open", np.ones((1, length), np.float32))
        assert "item 0: prepare.onnx failed" in text and "[500]" in text
    assert (ask(server, "open", np.concatenate([row, row])).as_numpy("y") == -2 * row).all()


def test_a_preparation_for_which_nobody_waits_is_stopped(server):
    """One that would take minutes ends soon after its request: its thread is there for others."""
    assert ask(server, "loop", np.array([[5]], np.int64)).as_numpy("y")[0, 0] == -5
    before = ended(server, "loop", "late")
    for _ in range(4):  # more than threads that prepare
        text = refusal(server, "loop", np.array([[1 << 40]], np.int64), timeout=100000)
        assert "[503]" in text, text
    wait_until(lambda: ended(server, "loop", "late") == before + 4)
    assert ask(server, "loop", np.array([[6]], np.int64)).as_numpy("y")[0, 0] == -6
    wait_until(lambda: server.metrics()["symphony_inputs_bytes"] == 0)


def test_a_server_that_ends_stops_preparations(repository):
    outcomes = []

    def worker():
        try:
            ask(server, "loop", np.array([[1 << 40]], np.int64))
        except Exception as mistake:
            outcomes.append(str(mistake))

    with Server("--repository", str(repository / "loop"), "--slo-ms", "600000", "--drain-timeout", "0") as server:
        thread = threading.Thread(target=worker)
        thread.start()
        wait_until(lambda: server.metrics()["symphony_requests_in_flight"] == 1)
        assert server.stop() in (0, 1)
        thread.join()
    assert len(outcomes) == 1


# ---- steps of ensembles ----

@pytest.mark.parametrize("module", [http, grpc])
def test_steps_prepare_what_the_client_sends(server, repository, module):
    images = [picture(20 + n, 30, n) for n in range(3)]
    files = files_array([png(image) for image in images])
    wanted = both(repository, "photo", images)[0]
    assert offered(server, "look") == [{"name": "files", "datatype": "BYTES", "shape": [-1, 1]}]
    assert (ask(server, "look", files, "files", module).as_numpy("down") == -wanted).all()
    sounds = np.random.default_rng(4).integers(-30000, 30000, (3, SAMPLES), np.int16)
    given = [module.InferInput("sound", sounds.shape, "INT16"), module.InferInput("files", files.shape, "BYTES")]
    given[0].set_data_from_numpy(sounds)
    given[1].set_data_from_numpy(files)
    port = server.port if module is http else server.grpc_port
    with module.InferenceServerClient(f"127.0.0.1:{port}") as client:
        answer = client.infer("two", given)
    assert (answer.as_numpy("means") == wanted).all()
    assert (answer.as_numpy("y") == both(repository, "sound", sounds)[0]).all()


def test_a_steps_preparation_that_fails_says_why(server):
    text = refusal(server, "look", files_array([png(picture(9, 9)), jpeg(picture(9, 9))[:-40]]), "files")
    assert "ensemble 'look', step 1: input 'x': image 1 cannot be decoded" in text and "[400]" in text
    text = refusal(server, "look", files_array([b"no image"]), "files")
    assert "ensemble 'look', step 1: input 'x': image 0 is neither a JPEG nor a PNG" in text and "[400]" in text
    outcomes = []

    def worker(n):
        place = 7 if n % 3 == 0 else n % 3
        try:
            outcomes.append(ask(server, "places", np.array([[place]], np.int64), "place").as_numpy("y")[0, 0] == -(place + 1))
        except http.InferenceServerException as mistake:
            outcomes.append(place == 7 and "[500]" in str(mistake) and
                            "ensemble 'places', step 1: input 'x': item 0: prepare.onnx failed" in str(mistake))

    threads = [threading.Thread(target=worker, args=(n,)) for n in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 24 and all(outcomes)


def test_a_steps_preparation_for_which_nobody_waits_is_stopped(server):
    assert ask(server, "loops", np.array([[5]], np.int64), "n").as_numpy("y")[0, 0] == -5
    before = ended(server, "loop", "late")
    for _ in range(4):
        text = refusal(server, "loops", np.array([[1 << 40]], np.int64), "n", timeout=100000)
        assert "[503]" in text, text
    wait_until(lambda: ended(server, "loop", "late") == before + 4)
    assert ask(server, "loops", np.array([[6]], np.int64), "n").as_numpy("y")[0, 0] == -6
    wait_until(lambda: server.metrics()["symphony_inputs_bytes"] == 0)


def test_clients_that_leave(server):
    body = np.array([[1 << 40]], np.int64).tobytes()
    for model in ("loop", "loops") * 20:
        head = (f"POST /v2/models/{model}/infer HTTP/1.1\r\nHost: x\r\nInference-Header-Content-Length: 0\r\n"
                f"Content-Length: {len(body)}\r\n\r\n").encode()
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            client.sendall(head + body)
    wait_until(lambda: server.metrics()["symphony_requests_in_flight"] == 0)
    wait_until(lambda: server.metrics()["symphony_inputs_bytes"] == 0)
    assert ask(server, "loop", np.array([[6]], np.int64)).as_numpy("y")[0, 0] == -6


# ---- models that come and go ----

def test_another_file_is_another_preparation(repository, tmp_path):
    """A model whose preparing model has changed is loaded again, and tried again."""
    model = tmp_path / "m" / "1" / "model.onnx"
    save(model, [helper.make_node("Neg", ["x"], ["y"])], [("x", FLOAT, ["N", 2])], [("y", FLOAT, ["N", 2])])

    def prepare_by(operator):
        save(model.parent / "prepare.onnx", [helper.make_node(operator, ["a", "a"], ["b"])], [("a", FLOAT, ["N", 2])],
             [("b", FLOAT, ["N", 2])])

    def load():
        return server.order("m", "load")

    prepare_by("Add")
    settings(tmp_path / "m", ["step: onnx, model: prepare.onnx"])
    measure(tmp_path)
    row = np.array([[3, 4]], np.float32)
    with Server("--repository", str(tmp_path), "--model-control-mode", "explicit", "--slo-ms", "60000") as server:
        assert load()[0] == 200
        assert (ask(server, "m", row).as_numpy("y") == -2 * row).all()
        prepare_by("Mul")
        assert load()[0] == 200
        assert (ask(server, "m", row).as_numpy("y") == -row * row).all()
        (model.parent / "prepare.onnx").write_bytes(b"this is no model")
        status, body = load()
        assert status == 400 and b"prepare.0: " in body and b"prepare.onnx" in body, body
        assert (ask(server, "m", row).as_numpy("y") == -row * row).all()  # the old one serves on
        (model.parent / "prepare.onnx").unlink()
        assert b"No such file or directory" in load()[1]
        assert server.order("m", "unload")[0] == 200
        assert server.stop() == 0


@pytest.mark.parametrize("policy", ["eager", "fifo", "clockwork"])
def test_other_policies(repository, policy):
    sound = np.random.default_rng(3).integers(-30000, 30000, (2, SAMPLES), np.int16)
    with Server("--repository", str(repository / "sound"), "--policy", policy, "--slo-ms", "60000") as server:
        for _ in range(3):
            assert (ask(server, "sound", sound, "power").as_numpy("y") == both(repository, "sound", sound)[0]).all()


def reason(server, model):
    index = json.loads(server.request("POST", "/v2/repository/index")[2])
    return next(m["reason"] for m in index if m["name"] == model)


def test_settings_that_cannot_be(tmp_path):
    def prepared(name, nodes, inputs, outputs, initializers=(), x=("x", FLOAT, ["N", 2]), steps=(ONNX,)):
        save(tmp_path / name / "1" / "model.onnx", [helper.make_node("Neg", ["x"], ["y"])], [x], [("y", *x[1:])])
        if nodes:
            save(tmp_path / name / "1" / "prepare.onnx", nodes, inputs, outputs, initializers)
        settings(tmp_path / name, steps)

    add = [helper.make_node("Add", ["a", "b"], ["c"])]
    cast = [helper.make_node("Cast", ["a"], ["c"], to=TensorProto.DOUBLE)]
    same = [helper.make_node("Identity", ["a"], ["c"])]
    two = [("a", FLOAT, ["N", 2]), ("b", FLOAT, ["N", 2])]
    prepared("good", same, two[:1], [("c", FLOAT, ["N", 2])])
    prepared("two", add, two, [("c", FLOAT, ["N", 2])])
    prepared("type", cast, two[:1], [("c", TensorProto.DOUBLE, ["N", 2])])
    prepared("shape", same, [("a", FLOAT, ["N", 3])], [("c", FLOAT, ["N", 3])])
    prepared("open", same, [("a", FLOAT, ["N", "L"])], [("c", FLOAT, ["N", "L"])], x=("x", FLOAT, ["N", "L"]))
    prepared("none", None, None, None)
    prepared("run", [helper.make_node("Reshape", ["a", "to"], ["c"])], [("a", FLOAT, ["N", 3])], [("c", FLOAT, ["N", 2])],
             [constant("to", [1, 2], np.int64)])
    prepared("image", same, two[:1], [("c", FLOAT, ["N", 2])], steps=(IMAGE, ONNX))
    (tmp_path / "broken" / "1").mkdir(parents=True)
    (tmp_path / "broken" / "1" / "prepare.onnx").write_bytes(b"this is no model")
    save(tmp_path / "broken" / "1" / "model.onnx", [helper.make_node("Neg", ["x"], ["y"])], [("x", FLOAT, ["N", 2])],
         [("y", FLOAT, ["N", 2])])
    settings(tmp_path / "broken", [ONNX])
    save(tmp_path / "before" / "1" / "model.onnx", [helper.make_node("Neg", ["x"], ["y"])], [("x", FLOAT, ["N", 2])],
         [("y", FLOAT, ["N", 2])])
    x, y = [("a", "FP32", "2")], [("c", "FP32", "2")]
    save_ensemble(tmp_path / "behind", x, y, [("before", {"x": "a"}, {"y": "b"}), ("good", {"x": "b"}, {"y": "c"})])
    save_ensemble(tmp_path / "rows", x, y, [("good", {"x": "a"}, {"y": "c"})])
    (tmp_path / "rows" / "symphony.yaml").write_text("steps: [{step: good, for_each: a}]\n")
    save_ensemble(tmp_path / "unbatched", [("a", "FP32", "-1, 2")], [("c", "FP32", "-1, 2")],
                  [("good", {"x": "a"}, {"y": "c"})], batch=0)
    at = "symphony.yaml:3: prepare.0: "
    sentences = {"two": "prepare.onnx: it has 2 inputs and 1 outputs; a model that prepares has one of each",
                 "type": at + "prepare.onnx: its output 'c' is FP64 [-1,2], but the model's input 'x' is FP32 [2]",
                 "shape": at + "prepare.onnx: its output 'c' is FP32 [-1,3], but the model's input 'x' is FP32 [2]",
                 "open": at + "prepare.onnx: the size of its output 'c' is not known before it runs",
                 "none": "prepare.onnx: No such file or directory",
                 "run": at + "prepare.onnx: it does not run: ",
                 "image": "symphony.yaml:4: prepare.1: prepare.onnx: decode_image makes UINT8 [height,width,3], but its input 'a' "
                          "is FP32 [2]",
                 "broken": at,
                 "behind": "step 2 (good): the model prepares its input 'x' (prepare in its symphony.yaml), which can only be an "
                           "input of the ensemble, and 'b' is another step's",
                 "rows": "step 1 (good): the model prepares its inputs (prepare in its symphony.yaml), but the step is run for each "
                         "row",
                 "unbatched": "but the ensemble has no batch dimension, and the model has one"}
    with Server("--repository", str(tmp_path), "--slo-ms", "60000") as server:
        for name, sentence in sentences.items():
            assert sentence in reason(server, name), reason(server, name)
        row = np.array([[1, 2]], np.float32)
        assert (ask(server, "good", row).as_numpy("y") == -row).all()
