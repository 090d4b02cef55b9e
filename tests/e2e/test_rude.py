"""test_rude.py - clients that are rude to ensembles, to models with prepared inputs and to models that share a prefix: they leave,
ask for too much or for the impossible. Whoever waits gets one answer, the server counts what its clients count, nothing is left
behind, and others lose nothing."""
# sanitizers: address
import collections
import contextlib
import json
import os
import re
import socket
import struct
import threading

import numpy as np
import pytest
import tritonclient.grpc as grpc
import tritonclient.utils.shared_memory as shm
from onnx import TensorProto, helper

import test_share_prefixes as prefixes
from images import jpeg, picture, png
from server import Server, wait_until
from test_ensembles import save_ensemble, save_ensembles, save_models, step, tensor
from test_prepare_onnx import save, save_loop, settings

FLOAT, UINT8 = TensorProto.FLOAT, TensorProto.UINT8
OUTCOMES = {200: "ok", 400: "client_error", 500: "failed", 503: "refused"}
PATIENCE_S = 600
HOUR_US = 3600 * 10**6


def request(model, head, raw=b"", **parameters):
    head = json.dumps({**head, "parameters": parameters}).encode()
    return (f"POST /v2/models/{model}/infer HTTP/1.1\r\nHost: x\r\nInference-Header-Content-Length: {len(head)}\r\n"
            f"Content-Length: {len(head) + len(raw)}\r\n\r\n").encode() + head + raw


def rows_request(model, array, name="X", datatype="FP32", **parameters):
    return request(model, {"inputs": [{"name": name, "datatype": datatype, "shape": array.shape, "data": array.ravel().tolist()}]},
                   **parameters)


class Client:
    """A connection that answers are read from one by one."""

    def __init__(self, server):
        self.socket, self.got = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S), b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def more(self):
        part = self.socket.recv(1 << 16)
        assert part, "the connection ended without an answer"
        self.got += part

    def answer(self):
        while True:
            while b"\r\n\r\n" not in self.got:
                self.more()
            head, self.got = self.got.split(b"\r\n\r\n", 1)
            if not head.startswith(b"HTTP/1.1 100"):  # the server asks whether a client that closed half is still there
                break
        length = int(re.search(rb"(?i)content-length: (\d+)", head)[1])
        while len(self.got) < length:
            self.more()
        body, self.got = self.got[:length], self.got[length:]
        return int(head.split()[1]), body

    def leave(self):
        """Without a word: with a reset."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


def descriptors(server):
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


def counts(server, model):
    """Requests by outcome."""
    pattern = re.compile(r'symphony_requests_total\{model="%s",version="1",outcome="(\w+)"\}' % model)
    return collections.Counter({found[1]: int(count) for name, count in server.metrics().items() if (found := pattern.match(name))})


def quiet(server):
    def at_rest():
        now = server.metrics()
        return now["symphony_requests_in_flight"] == now["symphony_inputs_bytes"] == 0
    wait_until(at_rest)


# ---- ensembles ----

KINDS = {"chain": [(3, 1)], "diamond": [(2, 1)], "each": [(1, 1), (5, 1), (6, 1), (3, -1)], "cut": [(7, 1)],
         "branch": [(5, 1), (5, -1)], "picky": []}


def draw(rng):
    model = rng.choice(list(KINDS))
    if model == "picky":
        return model, rows_request(model, np.array([[rng.choice([1, 7])]]), "I", "INT64", timeout=int(rng.choice([1, 10**7])))
    rows, value = KINDS[model][rng.integers(len(KINDS[model]))]
    return model, rows_request(model, np.full((rows, 4), value, np.float32), timeout=int(rng.choice([1, 1000, 10**7])),
                               best_effort=bool(rng.random() < 0.1), priority=int(rng.integers(3)))


@pytest.fixture(scope="module")
def ensembles(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ensembles")
    save_models(folder)
    save_ensembles(folder)
    with Server("--repository", folder, "--slo-ms", "60000", "--shared-memory") as running:
        yield running


def pipelines(server, seed, answered):
    rng = np.random.default_rng(seed)
    for half_closed in (False, True):
        drawn = [draw(rng) for _ in range(30)]
        with Client(server) as client:
            sender = threading.Thread(target=client.send, args=(b"".join(data for _, data in drawn),))
            sender.start()
            for n, (model, _) in enumerate(drawn):
                answered.append((model, client.answer()[0]))
                if half_closed and n == 5:
                    sender.join()
                    client.socket.shutdown(socket.SHUT_WR)
            sender.join()


def test_every_query_is_answered_once_and_counted(ensembles):
    """Many pipelined requests, with deadlines that cannot be met, wrong and failing ones among them: what the server counts is what
    its clients were told."""
    before, answered = {model: counts(ensembles, model) for model in KINDS}, []
    threads = [threading.Thread(target=pipelines, args=(ensembles, seed, answered)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answered) == 6 * 2 * 30
    quiet(ensembles)
    for model in KINDS:
        told = collections.Counter(OUTCOMES[status] for name, status in answered if name == model)
        assert counts(ensembles, model) - before[model] == told, model
    assert {status for _, status in answered} == set(OUTCOMES)


def test_nothing_is_left_of_clients_that_leave(ensembles):
    before, rng = descriptors(ensembles), np.random.default_rng(1)
    for _ in range(2):
        clients = [Client(ensembles) for _ in range(100)]
        for n, client in enumerate(clients):
            data = draw(rng)[1]
            client.send(data if n % 3 else data[:-1 - n])
        for client in reversed(clients):  # the newest first
            client.leave()
        for _ in range(5):
            with grpc.InferenceServerClient(f"127.0.0.1:{ensembles.grpc_port}") as client:
                given = grpc.InferInput("X", [5, 4], "FP32")
                given.set_data_from_numpy(np.ones((5, 4), np.float32))
                client.start_stream(lambda result, error: None)
                for _ in range(10):
                    client.async_stream_infer("each", [given], request_id="the same")
                client.stop_stream(cancel_requests=True)
    quiet(ensembles)
    wait_until(lambda: descriptors(ensembles) <= before)
    assert ensembles.infer("chain", [{"name": "X", "datatype": "FP32", "shape": [1, 4], "data": [1] * 4}])[0] == 200


def test_shared_memory_is_let_go(ensembles):
    """Once it is unregistered, its memory is the client's to free, though nobody names a region any more."""
    before, size, key = descriptors(ensembles), 4096, f"/symphony-rude-{os.getpid()}"
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    region = shm.create_shared_memory_region("r", key, size)
    try:
        with grpc.InferenceServerClient(f"127.0.0.1:{ensembles.grpc_port}") as client:
            client.register_system_shared_memory("r", key, size)
            shm.set_shared_memory_region(region, [x])
            given, wanted = grpc.InferInput("X", [3, 4], "FP32"), grpc.InferRequestedOutput("S")
            given.set_shared_memory("r", x.nbytes)
            wanted.set_shared_memory("r", x.nbytes, offset=x.nbytes)
            answer = client.infer("diamond", [given], outputs=[wanted, grpc.InferRequestedOutput("D")])
            assert np.array_equal(shm.get_contents_as_numpy(region, np.float32, [6, 4])[3:], 3 * x + 1)
            assert np.array_equal(answer.as_numpy("D"), 2 * x)
            client.unregister_system_shared_memory()
        wait_until(lambda: descriptors(ensembles) <= before)
    finally:
        shm.destroy_shared_memory_region(region)


def test_large_fan_outs_leave_room_for_others(tmp_path):
    """Seven queries of 1024 rows fit. An accelerator that does not come back holds them."""
    save_models(tmp_path)
    (tmp_path / "stuck.json").write_text(json.dumps({"symphony_profile": 1, "points": [
        {"batch": 1, "latency_ms": 600000}, {"batch": 8, "latency_ms": 601000}]}))
    for model in ("scale", "next"):
        (tmp_path / model / "symphony.yaml").write_text("slo_ms: 3600000\nmax_batch: 8\nprofile: ../stuck.json\n")
    shapes = [tensor("input", "X", "FP32", [-1, 4]), tensor("output", "Y", "FP32", [-1, 4])]
    save_ensemble(tmp_path, "parts", 0, shapes, [step("scale", {"x": "X"}, {"y": "Y"})])
    save_ensemble(tmp_path, "rows", 0, shapes, [step("scale", {"x": "X"}, {"y": "Y"})],
                  "slo_ms: 3600000\nsteps: [{step: scale, for_each: X, limit: 1024}]\n")
    large, small = rows_request("rows", np.ones((1024, 4))), rows_request("next", np.ones((1, 4)), "x")

    with Server("--repository", tmp_path, "--accelerators", "emulated:1") as server, contextlib.ExitStack() as stack:
        def in_flight(count):
            wait_until(lambda: server.metrics()["symphony_requests_in_flight"] == count)

        with Client(server) as client:  # in parts of 8 rows
            client.send(rows_request("parts", np.ones((8 * 7168 + 1, 4))))
            status, body = client.answer()
            assert status == 400 and b"it would be 7169 requests, and no more than 7168 may be outstanding" in body, body
        in_flight(0)
        clients = [stack.enter_context(Client(server)) for _ in range(7)]
        for n, client in enumerate(clients):
            client.send(large)
            in_flight(n + 1)
        late = stack.enter_context(Client(server))
        late.send(large)
        status, body = late.answer()
        assert status == 503 and b"it would be 1024 requests, and this frontend has room for 0 more" in body, body
        late.send(small)
        in_flight(8)
        for client in clients + [late]:
            client.leave()
        in_flight(1)  # whose first rows run


# ---- inputs that are prepared ----

@pytest.fixture
def preparing(tmp_path):
    """One thread prepares inputs: of pictures, and of `loop`, as long as its client wants."""
    save_loop(tmp_path)
    save(tmp_path / "picture" / "1" / "model.onnx", [helper.make_node("Cast", ["x"], ["f"], to=FLOAT),
                                                     helper.make_node("ReduceMean", ["f"], ["y"], axes=[1, 2, 3])],
         [("x", UINT8, ["N", "H", "W", 3])], [("y", FLOAT, ["N", 1, 1, 1])])
    settings(tmp_path / "picture", ["input: x, step: decode_image"], "max_batch: 8\nshapes: {x: [64, 64, 3]}\n")
    with Server("--repository", tmp_path, "--slo-ms", "60000", "--prepare-threads", "1") as running:
        yield running


def picture_request(file, **parameters):
    raw = struct.pack("<I", len(file)) + file
    return request("picture", {"inputs": [{"name": "x", "datatype": "BYTES", "shape": [1, 1],
                                           "parameters": {"binary_data_size": len(raw)}}]}, raw, **parameters)


def test_what_is_prepared_for_nobody_leaves_the_queue(preparing):
    """While the only thread is busy: pictures of clients that leave, or that cannot be in time, keep neither place nor memory."""
    def ended(end):
        return preparing.metrics().get(f'symphony_preparations_total{{model="picture",version="1",end="{end}"}}', 0)

    files = [png(np.zeros((1000, 1000, 3), np.uint8)), jpeg(picture(1000, 1000))]
    with Client(preparing) as busy:
        busy.send(rows_request("loop", np.array([[1 << 40]]), "x", "INT64", timeout=HOUR_US))
        wait_until(lambda: preparing.metrics()["symphony_requests_in_flight"] == 1)
        n = hurried = 0
        while n < 20 or hurried == 0 and n < 10000:
            with Client(preparing) as client:
                client.send(picture_request(files[n % 2], timeout=5000))
                status, body = client.answer()
                assert status == 503, body
                hurried += b"cannot finish" in body or b"not prepared" in body  # else the frontend was too busy to take it
            n += 1
        assert hurried > 0
        wait_until(lambda: ended("late") >= hurried and preparing.metrics()["symphony_requests_in_flight"] == 1)
        late = ended("late")
        while ended("late") < late + 20:  # else some left before their pictures had come, and were in no queue
            late = ended("late")
            clients = [Client(preparing) for _ in range(20)]
            for n, client in enumerate(clients):
                client.send(picture_request(files[n % 2], timeout=HOUR_US))
            wait_until(lambda: preparing.metrics()["symphony_requests_in_flight"] == 21)
            for client in clients:
                client.leave()
            wait_until(lambda: preparing.metrics()["symphony_requests_in_flight"] == 1)
        busy.leave()
    with Client(preparing) as client:
        client.send(picture_request(files[0]))
        assert client.answer()[0] == 200
    quiet(preparing)


def test_best_effort_gives_way(preparing):
    """It has the only thread for as long as nobody else needs it."""
    with Client(preparing) as busy:
        busy.send(rows_request("loop", np.array([[1 << 40]]), "x", "INT64", timeout=HOUR_US, best_effort=True))
        wait_until(lambda: preparing.metrics()["symphony_requests_in_flight"] == 1)
        for n in range(5):
            with Client(preparing) as client:
                client.send(picture_request(png(picture(50 + n, 60))))
                assert client.answer()[0] == 200
        wait_until(lambda: preparing.metrics()["symphony_requests_in_flight"] == 1)  # a moment after the last answer
        busy.leave()
    quiet(preparing)


def test_bad_pictures_and_impatient_clients_side_by_side(preparing):
    """Each of many clients gets what belongs to its own picture."""
    good, wrong = png(picture(40, 40)), []
    cases = [(good, {200}), (good[:200], {400}), (b"GIF89a", {400}), (jpeg(picture(900, 900))[:9000], {400, 503}),
             (jpeg(picture(900, 900)), {200, 503}), (png(np.zeros((100000, 1, 3), np.uint8)), {200, 503})]

    def ask(seed):
        rng = np.random.default_rng(seed)
        for _ in range(15):
            file, statuses = cases[rng.integers(len(cases))]
            hurry = len(statuses) > 1 and rng.random() < 0.5
            with Client(preparing) as client:
                client.send(picture_request(file, **({"timeout": int(rng.choice([1, 3000]))} if hurry else {})))
                if rng.random() < 0.2:
                    client.leave()
                    continue
                status, body = client.answer()
                if status not in (statuses if hurry else statuses - {503}):
                    wrong.append((status, body))

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong[:3]
    quiet(preparing)


# ---- models that share a prefix ----

def test_rude_clients_of_one_variant(tmp_path):
    """Two models come and go under clients that leave, hurry and pipeline; all requests to the others are answered, right."""
    for name in prefixes.NAMES:
        prefixes.save_variant(tmp_path / "models", name, prefixes.SEEDS[name], again=name == "dogs",
                              outputs=7 if name == "bees" else 10)
    with prefixes.start(tmp_path / "models", "--model-control-mode", "explicit", "--load-model", "*") as server:
        wait_until(lambda: server.request("GET", "/v2/health/ready")[0] == 200)
        assert prefixes.sharing(server) == prefixes.NAMES
        over, found, told = threading.Event(), [], set()

        def good(name, seed):
            found.append(prefixes.client(server, name, seed, 10, over))

        def rude(seed):
            rng = np.random.default_rng(seed)
            for n in range(12):
                x = prefixes.inputs(1000 * seed + n, int(rng.choice([1, 5, prefixes.BATCH_MAX])))
                data = rows_request(str(rng.choice(prefixes.NAMES)), x, "x", timeout=int(rng.choice([1, 1000, 10**7])))
                client = Client(server)
                client.send(data * 5 if n % 3 == 0 else data)
                if n % 3 == 0:
                    told.update(client.answer()[0] for _ in range(5))
                client.leave()

        goods = [threading.Thread(target=good, args=(name, n)) for n, name in enumerate(("cats", "dogs"))]
        rudes = [threading.Thread(target=rude, args=(seed,)) for seed in range(4)]
        for thread in goods + rudes:
            thread.start()
        for _ in range(3):
            for act in ("unload", "load"):
                for name in ("ants", "bees"):
                    assert server.order(name, act)[0] == 200
        for thread in rudes:
            thread.join()
        over.set()
        for thread in goods:
            thread.join()
        assert len(found) == 2 and all(answered >= 10 and not others for answered, others in found), found
        assert 200 in told and told <= {200, 404, 503}, told
        quiet(server)
