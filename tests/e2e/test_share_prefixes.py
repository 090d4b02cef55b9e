"""test_share_prefixes.py - symphony serve --share-prefixes on: models that begin with the same layers answer as they do
whole, in one queue, with these layers loaded once; they come and go one by one.

Weights and inputs are small whole numbers, so that sums are exact and answers do not depend on a batch's size."""
# sanitizers: address thread
# shards: 2
import concurrent.futures
import contextlib
import json
import os
import shutil
import threading

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from repository import save_model
from server import BINARY, Server, wait_until

FLOAT = TensorProto.FLOAT
WIDTH, LAYERS, NAMES = 64, 3, ["ants", "bees", "cats", "dogs"]
BATCH_MAX = 8  # greater batches would only have to be measured, too


def numbers(seed, *shape):
    return np.random.default_rng(seed).integers(-1, 2, shape).astype(np.float32)


def layer(nodes, initializers, name, seed, given, made, rows, columns, relu=True):
    initializers.append(numpy_helper.from_array(numbers(seed, rows, columns), name))
    nodes.append(helper.make_node("MatMul", [given, name], [made + ".m" if relu else made]))
    if relu:
        nodes.append(helper.make_node("Relu", [made + ".m"], [made]))


def save(folder, name, nodes, initializers, inputs, outputs, config=""):
    def infos(ends):
        return [(end, FLOAT, ["N", *(size if isinstance(size, list) else [size])]) for end, size in ends]
    save_model(folder, name, nodes, infos(inputs), infos(outputs), initializers)
    if "max_batch_size" not in config:
        (folder / name / "symphony.yaml").write_text(f"max_batch: {BATCH_MAX}\n")
    if config:
        (folder / name / "config.pbtxt").write_text(config)


def save_variant(folder, name, seed, width=WIDTH, trunk_seed=1, again=False, config="", outputs=10, again_of="x"):
    """The trunk, and a last layer of its own; with `again` it takes the model's input, or another tensor, once more."""
    nodes, initializers, last = [], [], "x"
    for i in range(LAYERS):
        layer(nodes, initializers, f"w{i}", trunk_seed + i, last, f"t{i}", width, width)
        last = f"t{i}"
    layer(nodes, initializers, "own", seed, last, "y0" if again else "y", width, outputs, relu=False)
    if again:
        layer(nodes, initializers, "more", seed + 1, again_of, "y1", width, outputs, relu=False)
        nodes.append(helper.make_node("Sub", ["y0", "y1"], ["y"]))
    save(folder, name, nodes, initializers, [("x", width)], [("y", outputs)], config)


def expected(x, seed, width=WIDTH, trunk_seed=1, again=False, outputs=10):
    t = x
    for i in range(LAYERS):
        t = np.maximum(t @ numbers(trunk_seed + i, width, width), 0)
    y = t @ numbers(seed, width, outputs)
    return y - x @ numbers(seed + 1, width, outputs) if again else y


SEEDS = {name: 100 + 10 * i for i, name in enumerate(NAMES)}


def save_models(folder):
    """Variants whose weights are whole numbers, and a model that has nothing in common with them."""
    for name in NAMES:
        save_variant(folder, name, SEEDS[name], again=name == "dogs", outputs=7 if name == "bees" else 10)
    save_variant(folder, "else", 300, trunk_seed=50)


def save_drawn(folder):
    """Variants with any weights."""
    for i, name in enumerate(NAMES):
        save_variant(folder, name, 100 + i)
        path = folder / name / "1" / "model.onnx"
        model = onnx.load(path)
        for w in model.graph.initializer:
            rng = np.random.default_rng(len(w.name) + (i if w.name == "own" else int(w.name[1:] or 0)))
            w.CopyFrom(numpy_helper.from_array(rng.standard_normal(w.dims).astype(np.float32), w.name))
        onnx.save(model, path)


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Both kinds of models, with their profiles as whole models: each test has a copy, and nothing to measure but what is shared."""
    folder = tmp_path_factory.mktemp("measured")
    for save_all in (save_models, save_drawn):
        save_all(folder / save_all.__name__)
        with Server("--repository", folder / save_all.__name__, "--accelerators", "cpu:1"):
            pass
    return folder


@pytest.fixture
def models(measured, tmp_path):
    return shutil.copytree(measured / "save_models", tmp_path / "models")


@pytest.fixture
def drawn(measured, tmp_path):
    return shutil.copytree(measured / "save_drawn", tmp_path / "drawn")


def answer(name, x):
    return expected(x, SEEDS[name], again=name == "dogs", outputs=7 if name == "bees" else 10)


def ask(server, name, x, connection=None):
    connection = connection or server.connect()
    body = json.dumps({"inputs": [{"name": "x", "shape": list(x.shape), "datatype": "FP32", "data": x.ravel().tolist()}]})
    connection.request("POST", f"/v2/models/{name}/infer", body)
    response = connection.getresponse()
    text = json.loads(response.read())
    if response.status != 200:
        return response.status, text
    [output] = text["outputs"]
    return 200, np.array(output["data"], np.float32).reshape(output["shape"])


def inputs(seed, items, width=WIDTH):
    return np.random.default_rng(seed).integers(0, 4, (items, width)).astype(np.float32)


def client(server, name, seed, requests=20, until=None):
    """Asks one model, one request after the other; returns how many were answered, and the statuses of the others. Who asks until
    something has happened rests between requests: models are measured when nobody else wants the processor."""
    connection, answered, others, n = server.connect(), 0, [], 0
    while n < requests or (until and not until.wait(0.02)):
        x = inputs(1000 * seed + n, 1 + n % 3)
        status, y = ask(server, name, x, connection)
        if status == 200:
            assert np.array_equal(y, answer(name, x)), f"{name}: {y} for {x}"
            answered += 1
        else:
            others.append((status, y))
        n += 1
    return answered, others


def sharing(server):
    return sorted(line.split("model=")[1].split()[0] for line in server.log_text().splitlines()
                  if 'msg="model shares its first layers"' in line)


def start(models, *args, **more):
    return Server("--repository", models, "--share-prefixes", "on", "--accelerators", "cpu:1", "--slo-ms", "60000", *args,
                  **more)


def statistic(server, what, name):
    return server.metrics()[f'nv_inference_{what}{{model="{name}",version="1"}}']


def ask_together(server, requests=20):
    """One client of each model, again and again until a batch has held several models' requests. Returns how many each has sent."""
    server.rests()
    before, rounds = statistic(server, "exec_count", "cats"), 0  # that of each is of all

    def mixed():
        nonlocal rounds
        with concurrent.futures.ThreadPoolExecutor(len(NAMES)) as pool:
            for done in [pool.submit(client, server, name, seed, requests) for seed, name in enumerate(NAMES)]:
                assert done.result() == (requests, [])
        rounds += 1
        server.rests()
        return statistic(server, "exec_count", "cats") - before < rounds * requests * len(NAMES)
    wait_until(mixed)
    return rounds * requests


def test_batches_mix_requests_to_all_models_of_a_group(models):
    with start(models) as server:
        assert sharing(server) == NAMES
        assert 'model is served whole" model=else' in server.log_text()
        asked = ask_together(server)
        for name in NAMES:  # clients see models, each with its own statistics
            assert statistic(server, "request_success", name) == asked
            # a batch is counted a moment after it was sent
            wait_until(lambda: statistic(server, "exec_count", name) == statistic(server, "exec_count", "cats"))
        assert server.request("GET", "/v2/models/ants.prefix")[0] == 404
        status, _, body = server.request("POST", "/v2/repository/index")
        assert sorted(m["name"] for m in json.loads(body)) == sorted(NAMES + ["else"])
        status, _, body = server.request("GET", "/v2/models/bees")
        assert json.loads(body)["outputs"] == [{"name": "y", "datatype": "FP32", "shape": [-1, 7]}]


def test_answers_have_the_bits_of_the_whole_models(drawn):
    """With any weights: a lone request to a model, shared and whole."""
    answers = {}
    for share in ("off", "on"):
        with Server("--repository", drawn, "--share-prefixes", share, "--slo-ms", "60000") as server:
            assert sharing(server) == (NAMES if share == "on" else [])
            answers[share] = [ask(server, name, np.random.default_rng(items).random((items, WIDTH), np.float32))[1].tobytes()
                              for name in NAMES for items in (1, 2, 3, 8)]
    assert answers["on"] == answers["off"]


def test_the_parts_are_made_once(models):
    with start(models):
        pass
    [parts] = models.glob("*/1/.symphony/*.parts")
    stamps = {path: path.stat().st_mtime_ns for path in parts.iterdir() if path.is_file()}
    assert {path.name for path in stamps} == {"split.json", "prefix.onnx"} | {f"suffix-{i}.onnx" for i in range(4)}
    members = json.loads((parts / "split.json").read_text())["members"]
    assert len(members) == 4 and all(m["lone_whole_ns"] > 0 and m["lone_parts_ns"] > 0 for m in members)
    with start(models) as server:
        assert sharing(server) == NAMES
    assert {path: path.stat().st_mtime_ns for path in stamps} == stamps
    (parts / "split.json").write_text("{}")  # they are made again
    with start(models) as server:
        assert sharing(server) == NAMES and ask(server, "bees", inputs(1, 2))[0] == 200
    assert (parts / "split.json").stat().st_size > 2


def test_a_group_that_was_too_slow_is_served_whole(models):
    with start(models):
        pass
    [parts] = models.glob("*/1/.symphony/*.parts")
    note = json.loads((parts / "split.json").read_text())
    note["members"][2] |= {"lone_whole_ns": 1_000_000, "lone_parts_ns": 601_150_000}  # 1.1 times as much, and 1 % of the SLO
    (parts / "split.json").write_text(json.dumps(note))
    with start(models) as server:
        assert not sharing(server)
        assert all(whole(server, name) == ["a lone request would take 601.150 ms in parts, and takes 1.000 ms whole"]
                   for name in NAMES)


def test_off_is_the_default(models):
    with Server("--repository", models) as server:
        assert not sharing(server) and not list(models.glob("*/1/.symphony/*.parts"))


def test_a_refused_split_is_served_whole(tmp_path):
    """The only cut lies between a convolution and the normalisation that ONNX Runtime folds into it."""
    for i, name in enumerate(NAMES[:2]):
        rng = np.random.default_rng(7)
        def tensor(name, *shape, rng=rng):
            return numpy_helper.from_array(rng.random(shape, np.float32) + 0.5, name)
        nodes = [helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
                 helper.make_node("BatchNormalization", ["c", "scale", "bias", "mean", "var"], ["y"])]
        weights = [tensor("w", 16, 3, 3, 3), tensor("scale", 16), tensor("bias", 16), tensor("mean", 16),
                   numpy_helper.from_array(np.random.default_rng(i).random(16, np.float32) + 0.5, "var")]
        save_model(tmp_path, name, nodes, [("x", FLOAT, ["N", 3, 8, 8])], [("y", FLOAT, ["N", 16, 8, 8])], weights)
    for _ in range(2):  # tried, then known
        with start(tmp_path) as server:
            assert not sharing(server)
            log = [line for line in server.log_text().splitlines() if "model is served whole" in line]
            assert len(log) == 2 and all("differs from the whole model's" in line for line in log), log
            assert server.request("GET", "/v2/models/ants/ready")[0] == 200


def test_models_with_queues_of_their_own_are_not_joined(tmp_path):
    rules = "dynamic_batching { priority_levels: 3 default_priority_level: 2 }"
    for name in NAMES:
        save_variant(tmp_path, name, SEEDS[name], config=rules if name in ("ants", "bees") else "")
    with start(tmp_path) as server:
        prefixes = [line.split("prefix=")[1].split()[0] for line in server.log_text().splitlines()
                    if 'msg="model shares its first layers"' in line]
        assert sorted(prefixes) == ["ants.prefix", "ants.prefix", "cats.prefix", "cats.prefix"]


def order(server, name, verb):
    """Loading measures and tries it in a child process of low priority, which other tests may keep waiting."""
    return server.request("POST", f"/v2/repository/models/{name}/{verb}", "{}", timeout=600)[0]


@contextlib.contextmanager
def clients_at_once(count):
    """Threads for clients, and what is set when they are to end: at the latest with the block, however it ends."""
    over = threading.Event()
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        try:
            yield pool, over
        finally:
            over.set()


def test_one_model_of_a_group_comes_and_goes_under_load(models):
    with start(models, "--model-control-mode", "explicit", "--load-model", "*") as server:
        assert len(sharing(server)) == len(NAMES)
        with clients_at_once(len(NAMES)) as (pool, over):
            clients = {name: pool.submit(client, server, name, seed, 20, over) for seed, name in enumerate(NAMES)}
            for _ in range(5):
                assert order(server, "bees", "unload") == 200
                assert order(server, "bees", "load") == 200
            over.set()
            for name in NAMES:
                answered, others = clients[name].result()
                assert answered > 0 or name == "bees"
                assert not others or (name == "bees" and {status for status, _ in others} <= {404, 503}), others[:3]
        x = inputs(5, 2)
        status, y = ask(server, "bees", x)
        assert status == 200 and np.array_equal(y, answer("bees", x))
        for name in NAMES:  # with the last one the prefix goes, and with the first one it comes again
            assert order(server, name, "unload") == 200
        for name in reversed(NAMES):
            assert order(server, name, "load") == 200
            status, y = ask(server, name, x)
            assert status == 200 and np.array_equal(y, answer(name, x))


def accelerator(server, action):
    return server.request("POST", "/v2/symphony/accelerators/0", json.dumps({"action": action}))[0]


def await_ready(server, wanted):
    wait_until(lambda: (server.request("GET", "/v2/health/ready")[0] == 200) == wanted)


def test_without_an_accelerator_all_of_a_group_are_set_aside(models):
    with start(models, "--accelerator-control") as server:
        assert accelerator(server, "drain") == 200
        await_ready(server, False)
        x = inputs(9, 2)
        for name in NAMES:
            status, said = ask(server, name, x)
            assert status == 503 and "no accelerator that runs it is in service" in said["error"]
        assert accelerator(server, "join") == 200
        await_ready(server, True)
        for name in NAMES:
            assert np.array_equal(ask(server, name, x)[1], answer(name, x))


def whole(server, name):
    """The reasons why a model is served whole, as the log has them."""
    return [line.split('reason="')[1].rstrip('"') for line in server.log_text().splitlines()
            if f'msg="model is served whole" model={name} ' in line]


def parts(folder):
    return sorted(folder.glob("*/1/.symphony/*.parts"))


def explicit(models, *names):
    args = [arg for name in names for arg in ("--load-model", name)]
    return start(models, "--model-control-mode", "explicit", *args)


LATER = "groups are formed at the start, and it was not there, or had another file"


def test_the_reason_is_logged_with_each_load(models):
    with explicit(models, "*") as server:
        [reason] = whole(server, "else")
        assert "no other model begins with the same nodes" in reason
        assert order(server, "else", "unload") == 200 and order(server, "else", "load") == 200
        assert whole(server, "else") == [reason, reason]


def test_models_that_come_later_are_served_whole(models):
    with explicit(models, "ants", "bees") as server:
        assert sharing(server) == ["ants", "bees"]
        with clients_at_once(2) as (pool, over):  # the others are served on
            clients = [pool.submit(client, server, name, seed, 20, over) for seed, name in enumerate(["ants", "bees"])]
            assert order(server, "cats", "load") == 200 and order(server, "dogs", "load") == 200
            over.set()
            assert all(done.result()[1] == [] for done in clients)
        assert sharing(server) == ["ants", "bees"]
        for name in ("cats", "dogs"):
            assert whole(server, name) == [LATER]
            assert np.array_equal(ask(server, name, inputs(5, 2))[1], answer(name, inputs(5, 2)))


def test_models_come_and_go_at_once_without_a_request_lost(models):
    with explicit(models, "*") as server:
        with clients_at_once(4) as (pool, over):
            clients = {name: pool.submit(client, server, name, seed, 20, over) for seed, name in enumerate(NAMES[:2])}

            def coming(name):
                for _ in range(4):
                    assert order(server, name, "unload") == 200
                    assert order(server, name, "load") == 200
                    x = inputs(8, 3)
                    assert np.array_equal(ask(server, name, x)[1], answer(name, x))

            for done in [pool.submit(coming, "cats"), pool.submit(coming, "bees")]:
                done.result()
            over.set()
            assert clients["ants"].result()[1] == []
            assert {status for status, _ in clients["bees"].result()[1]} <= {404, 503}
        assert not whole(server, "cats") and not whole(server, "bees")


def change(models, name, seed, **more):
    os.unlink(models / name / "1" / "model.onnx")
    save_variant(models, name, seed, **more)


def test_a_member_that_comes_back_changed_is_served_whole(models):
    with explicit(models, "*") as server:
        x = inputs(3, 2)
        with clients_at_once(2) as (pool, over):
            clients = [pool.submit(client, server, name, seed, 20, over) for seed, name in ((0, "ants"), (3, "dogs"))]
            for seed in (500, 510):  # a new last layer, the second time while it serves
                change(models, "cats", seed)
                assert seed != 500 or order(server, "cats", "unload") == 200
                assert order(server, "cats", "load") == 200
                assert np.array_equal(ask(server, "cats", x)[1], expected(x, seed))
            over.set()
            assert all(done.result()[1] == [] for done in clients)
        assert whole(server, "cats") == [LATER, LATER]
    with explicit(models, "*") as server:  # a start looks at all models again
        assert sharing(server) == NAMES
        assert np.array_equal(ask(server, "cats", x)[1], expected(x, 510))


def test_parts_of_files_that_are_gone_are_removed(models):
    with start(models):
        pass
    [old] = parts(models)
    strange = [old.parent / "model-0123abcd.parts", old.parent / "model-mine.parts"]  # not ours
    for folder in strange:
        folder.mkdir()
        (folder / "split.json").write_text('{"format": 7}')
    with start(models):
        assert parts(models) == sorted([old, *strange])
    with start(models):  # it uses the old ones
        change(models, "cats", 500)
        with start(models) as other:
            assert sharing(other) == NAMES
            assert len(parts(models)) == 4 and old.exists()
    with start(models) as server:
        assert sharing(server) == NAMES
        assert len(parts(models)) == 3 and not old.exists()
        assert all((folder / "split.json").exists() for folder in strange)


def resident_mb(server):
    """The server's memory: all of it, and that of weights that are mapped from copies, as each mapping has it."""
    total = weights = 0
    with open(f"/proc/{server.process.pid}/smaps") as maps:
        for line in maps:
            if line.startswith("Rss:"):
                total += int(line.split()[1])
                weights += int(line.split()[1]) if of_weights else 0
            elif "-" in line.split()[0]:
                of_weights = line.rstrip().endswith(".weights")
    return total / 1024, weights / 1024


@pytest.mark.skipif("asan" in str(BINARY) or "tsan" in str(BINARY),
                    reason="a sanitizer's memory is not the server's")
def test_the_prefix_lies_in_memory_once(tmp_path):
    width, trunk, total, weights = 1536, 27, {}, {}  # MB
    for name in NAMES:
        save_variant(tmp_path, name, SEEDS[name], width=width, config="max_batch_size: 1")
    for share in ("off", "on"):
        with Server("--repository", tmp_path, "--share-prefixes", share, "--accelerators", "cpu:1", "--slo-ms", "60000") as server:
            for name in NAMES:
                assert ask(server, name, inputs(1, 1, width))[0] == 200
            assert sharing(server) == ([] if share == "off" else NAMES)
            total[share], weights[share] = resident_mb(server)
    assert weights["off"] == pytest.approx(len(NAMES) * trunk, 0.05), weights
    assert weights["on"] == pytest.approx(trunk, 0.05), weights
    assert total["on"] < total["off"] - 2 * trunk, total  # three trunks less, with room for what differs besides
