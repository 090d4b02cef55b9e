"""test_transports.py - inputs travel from frontends to backends by each transport, between real processes: answers are right bit for
bit, whoever dies or stops in mid-pull."""
# sanitizers: address thread
# quick sanitizers: address
# shards: 2
import concurrent.futures
import ctypes.util
import http.client
import itertools
import json
import os
import signal
import subprocess
import threading
import time

import numpy as np
import pytest
from onnx import TensorProto, helper

from network import Network, missing
from repository import measured_once, save_model
from server import BINARY, TSAN_OPTIONS, free_port, wait_until
from test_standby import ALL, SLOW, Frontend, Role, status_of

TRANSPORTS = ["shm", "fabric", "tcp"]
LARGE = 4 << 20  # elements; 16 MiB, more than goes to a socket in one turn (src/cluster/peer/peer.c), or waits in it
MIDDLE = 1 << 20
needs_fabric = pytest.mark.skipif(not ctypes.util.find_library("fabric"), reason="libfabric is not installed (./run test does it)")


def has(transport):
    return pytest.param(transport, marks=needs_fabric if transport == "fabric" else ())


each_transport = pytest.mark.parametrize("transport", [has(transport) for transport in TRANSPORTS])


@measured_once
def save_large(folder, name, elements):
    save_model(folder, name, [helper.make_node("Neg", ["x"], ["y"])], [("x", TensorProto.FLOAT, ["N", elements])],
               [("y", TensorProto.FLOAT, ["N", elements])])
    (folder / name / "config.pbtxt").write_text("max_batch_size: 2\n")


@measured_once
def save_two(folder):
    save_model(folder, "two", [helper.make_node("Neg", ["x"], ["y"]), helper.make_node("Identity", ["i"], ["j"])],
               [("x", TensorProto.FLOAT, ["N", 1500]), ("i", TensorProto.UINT8, ["N", 3])],
               [("y", TensorProto.FLOAT, ["N", 1500]), ("j", TensorProto.UINT8, ["N", 3])])
    (folder / "two" / "config.pbtxt").write_text("max_batch_size: 16\n")


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A model whose answers tell every byte of its two inputs, one of them 1 byte each."""
    folder = tmp_path_factory.mktemp("small")
    save_two(folder)
    return folder


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """The same, and a model of a large input."""
    folder = tmp_path_factory.mktemp("repository")
    save_two(folder)
    save_large(folder, "large", LARGE)
    return folder


@pytest.fixture(scope="module")
def middle(tmp_path_factory):
    """One model, whose inputs are under way for a while, but do not keep this machine busy."""
    folder = tmp_path_factory.mktemp("middle")
    save_large(folder, "middle", MIDDLE)
    return folder


def asked(inputs):
    """A request's body, and the length of its head."""
    head = json.dumps({"inputs": [{"name": name, "datatype": "FP32" if a.dtype == np.float32 else "UINT8", "shape": a.shape,
                                   "parameters": {"binary_data_size": a.nbytes}} for name, a in inputs.items()],
                       "parameters": {"binary_data_output": True}}).encode()
    return head + b"".join(a.tobytes() for a in inputs.values()), str(len(head))


def answered(body, length):
    """The outputs by name."""
    outputs, at = {}, length
    for one in json.loads(body[:length])["outputs"]:
        size = one["parameters"]["binary_data_size"]
        outputs[one["name"]] = np.frombuffer(body[at:at + size],
                                             np.float32 if one["datatype"] == "FP32" else np.uint8).reshape(one["shape"])
        at += size
    return outputs


def infer(frontend, model, **inputs):
    """The outputs by name, or None if there are none: a request that was refused, or whose frontend is dead."""
    body, length = asked(inputs)
    try:
        status, headers, body = frontend.request("POST", "/v2/models/%s/infer" % model, body,
                                                 {"Inference-Header-Content-Length": length}, timeout=600)
    except (OSError, http.client.HTTPException):
        return None
    if status != 200:
        print(status, body)
        return None
    return answered(body, int(headers["Inference-Header-Content-Length"]))


class Cluster:
    """A scheduler; backends, and frontends, that have all transports or one."""

    def __init__(self, repository, transport="auto", backends=1, frontends=1, fabric=("tcp", "tcp"), backend=(),
                 models=("two", "large")):
        self.models = models
        self.join = join = "--join", "127.0.0.1:%d" % free_port()
        more = [("--fabric", one) if one and transport in ("fabric", "auto") else () for one in fabric]
        self.scheduler = Role("scheduler", "--listen", join[1])
        self.backends = [Role("backend", *join, "--repository", repository, "--accelerators", "cpu:1", "--slo-ms", "300000",
                              "--transport", transport, *more[1], *backend) for _ in range(backends)]
        self.frontends = [Frontend(*join) for _ in range(frontends)]
        for one in self.frontends:
            one.args += map(str, more[0])

    def __enter__(self):
        for one in self.frontends:
            one.start()
        wait_until(self.ready, 900)
        return self

    def status(self):
        return status_of(self.join)

    def __exit__(self, *error):
        for role in [self.scheduler, *self.backends]:
            role.end(error[0])
        for one in self.frontends:
            one.process.send_signal(signal.SIGCONT)
            one.__exit__(*error)

    def ready(self):
        return all(one.request("GET", "/v2/models/%s/ready" % model)[0] == 200 for one in self.frontends
                   for model in self.models)

    def uses(self, transport):
        """Whether each frontend's inputs go by it to each backend."""
        return all(one.log_text().count("transport=%s\n" % transport) >= len(self.backends) for one in self.frontends)


class Clients:
    """Ask a frontend for answers of model `middle`, from two threads, and look at each."""

    def __init__(self, frontend):
        self.frontend, self.stop, self.right, self.wrong, self.none = frontend, threading.Event(), 0, 0, 0
        self.pool = concurrent.futures.ThreadPoolExecutor(2)
        self.runs = [self.pool.submit(self.run, n) for n in range(2)]

    def run(self, seed):
        x = np.random.default_rng(seed).random((1, MIDDLE), np.float32)
        for i in itertools.count():
            if self.stop.is_set():
                return
            x[0, i % MIDDLE] = i
            outputs = infer(self.frontend, "middle", x=x)
            if outputs is None:
                self.none += 1
            elif np.array_equal(outputs["y"], -x):
                self.right += 1
            else:
                self.wrong += 1

    def answered(self, more):
        before = self.right
        wait_until(lambda: self.right >= before + more, 600)

    def end(self):
        self.stop.set()
        for run in self.runs:
            run.result(600)
        self.pool.shutdown()
        assert self.wrong == 0


@each_transport
def test_answers_are_right(repository, transport):
    with Cluster(repository, transport, backends=2, frontends=2) as cluster:
        wait_until(lambda: cluster.uses(transport), 900)

        def ask(seed):
            draw = np.random.default_rng(seed)
            items = int(draw.integers(1, 9))
            x, i = draw.random((items, 1500), np.float32), draw.integers(0, 256, (items, 3), np.uint8)
            outputs = infer(cluster.frontends[seed % 2], "two", x=x, i=i)
            return outputs and np.array_equal(outputs["y"], -x) and np.array_equal(outputs["j"], i)

        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            assert all(pool.map(ask, range(400 if ALL else 40 if SLOW else 100)))

        def ask_large(seed):
            x = np.random.default_rng(seed).random((1, LARGE), np.float32)
            outputs = infer(cluster.frontends[seed % 2], "large", x=x)
            return outputs and np.array_equal(outputs["y"], -x)

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            assert all(pool.map(ask_large, range(20 if ALL else 4)))


@each_transport
def test_a_backend_dies_in_mid_pull(middle, transport):
    """Requests of 4 MiB are under way all the time. All are answered: the frontend sends them to the other backend."""
    with Cluster(middle, transport, backends=2, models=["middle"]) as cluster:
        wait_until(lambda: cluster.uses(transport), 900)
        clients = Clients(cluster.frontends[0])
        clients.answered(4)
        for how in (signal.SIGKILL, signal.SIGSTOP):
            cluster.backends[0].kill(how)
            clients.answered(4)
            cluster.backends[0].start() if how == signal.SIGKILL else cluster.backends[0].kill(signal.SIGCONT)
            clients.answered(4)
        clients.end()
        lost = cluster.scheduler.says('msg="member lost" role=backend')
        assert SLOW or clients.none == 0 or lost > 2  # on a machine that stands still the backend that lives may look dead, too


def save_slow(folder):
    """Models of one request a batch: `slow` counts to a number, one node at a time, and gives it LARGE times; `one` is quick."""
    number = lambda name, value: helper.make_tensor(name, TensorProto.INT64, [1], [value])
    body = helper.make_graph(
        [helper.make_node("Add", ["v", "one"], ["w"]), helper.make_node("Identity", ["go"], ["on"])], "body",
        [helper.make_tensor_value_info("k", TensorProto.INT64, []), helper.make_tensor_value_info("go", TensorProto.BOOL, []),
         helper.make_tensor_value_info("v", TensorProto.INT64, [1])],
        [helper.make_tensor_value_info("on", TensorProto.BOOL, []), helper.make_tensor_value_info("w", TensorProto.INT64, [1])])
    save_model(folder, "slow", [helper.make_node("Cast", ["x"], ["n"], to=TensorProto.INT64),
                                helper.make_node("Squeeze", ["n", "axis"], ["count"]),
                                helper.make_node("Loop", ["count", "yes", "zero"], ["sum"], body=body),
                                helper.make_node("Cast", ["sum"], ["f"], to=TensorProto.FLOAT),
                                helper.make_node("Expand", ["f", "many"], ["y"])],
               [("x", TensorProto.FLOAT, [1])], [("y", TensorProto.FLOAT, [LARGE])],
               [number("one", 1), number("zero", 0), number("axis", 0), number("many", LARGE),
                helper.make_tensor("yes", TensorProto.BOOL, [], [True])])
    save_model(folder, "one", [helper.make_node("Neg", ["x"], ["y"])], [("x", TensorProto.FLOAT, ["N", 1])],
               [("y", TensorProto.FLOAT, ["N", 1])])
    (folder / "one" / "config.pbtxt").write_text("max_batch_size: 1\n")


@pytest.mark.parametrize("transport", ["shm", pytest.param("fabric", marks=[needs_fabric, pytest.mark.long]),
                                       pytest.param("tcp", marks=pytest.mark.long)])
def test_a_backend_dies_with_results_that_nobody_has_read(tmp_path, transport):
    """It computes a lot, and what is done for results is the same for all transports. Their frontend stands still, so that a large result does not leave its backend. That runs what the scheduler sends, says so to
    the scheduler, and has not told the frontend yet whose inputs it has read. Another backend has the same models."""
    save_slow(tmp_path)
    with Cluster(tmp_path, transport, backends=2, models=("slow", "one")) as cluster, \
            concurrent.futures.ThreadPoolExecutor(18) as pool:
        wait_until(lambda: cluster.uses(transport), 900)
        frontend, backend = cluster.frontends[0], cluster.backends[0]

        def slow(count):
            outputs = infer(frontend, "slow", x=np.array([count], np.float32))
            return outputs and (outputs["y"] == count).all()

        def one(value):
            outputs = infer(frontend, "one", x=np.array([[value]], np.float32))
            return outputs and outputs["y"][0][0] == -value

        def batches():
            return [one["batches"] for one in cluster.status()["members"] if one["role"] == "backend"]

        began = time.monotonic()
        assert slow(20000)
        count = int(20000 * (2 if SLOW else 1) / (time.monotonic() - began))  # that takes a second or two
        for _ in range(3 if ALL else 2):
            wait_until(lambda: cluster.status()["scheduler"]["accelerators"] == 2)
            asked = [pool.submit(slow, count) for _ in range(2)]
            wait_until(lambda: batches() == [1, 1] or asked[0].done())
            asked += [pool.submit(one, value) for value in range(16)]
            wait_until(lambda: sum(one["queued"] for one in cluster.status()["models"]) == 16 or asked[0].done())
            frontend.process.send_signal(signal.SIGSTOP)
            try:
                wait_until(lambda: cluster.status()["scheduler"]["requests_now"] == 0 or transport != "shm")
                wait_until(lambda: batches() == [0, 0] or transport != "shm")
                time.sleep(0.2)  # the scheduler forgets batches some time after they have ended
                backend.kill()
                backend.start()
            finally:
                frontend.process.send_signal(signal.SIGCONT)
            assert all(one.result(600) for one in asked)
        wait_until(lambda: frontend.metrics()["symphony_requests_in_flight"] == 0)


@each_transport
def test_a_frontend_dies_in_mid_pull(middle, transport):
    """What it had is lost with it; what others have is answered."""
    with Cluster(middle, transport, frontends=2, models=["middle"]) as cluster:
        clients = [Clients(one) for one in cluster.frontends]
        for one in clients:
            one.answered(2)
        cluster.frontends[1].process.send_signal(signal.SIGSTOP)
        clients[0].answered(4)
        cluster.frontends[1].process.send_signal(signal.SIGCONT)
        clients[1].answered(2)
        cluster.frontends[1].process.kill()
        clients[0].answered(4)
        for one in clients:
            one.end()
        assert SLOW or clients[0].none == 0 or cluster.scheduler.says('msg="member lost" role=backend')


@each_transport
def test_what_is_too_large_for_backends_is_soon_told(middle, transport):
    """It does not wander between the scheduler and backends until its deadline, which is five minutes away."""
    with Cluster(middle, transport, backend=("--inputs-max-mib", "6"), models=["middle"]) as cluster:
        frontend, sizes = cluster.frontends[0], {1: 200, 2: 500}
        for items, wanted in sizes.items():
            body, length = asked({"x": np.ones((items, MIDDLE), np.float32)})
            status, _, told = frontend.request("POST", "/v2/models/middle/infer", body,
                                               {"Inference-Header-Content-Length": length}, timeout=600)
            assert status == wanted, told
        assert b"backends do not take its inputs: they are larger than" in told
        wait_until(lambda: frontend.metrics()['symphony_cluster_requests_lost_total{reason="misfit"}'] == 3)
        assert cluster.backends[0].says('msg="inputs refused"') <= 3


@needs_fabric
def test_the_best_that_both_have(middle):
    with Cluster(middle, models=["middle"]) as cluster:
        wait_until(lambda: cluster.uses("shm"), 900)


@needs_fabric
def test_what_one_has_not_is_refused_with_a_sentence(middle):
    with Cluster(middle, models=["middle"]) as cluster:
        plain = Frontend(*cluster.frontends[0].args[cluster.frontends[0].args.index("--join"):][:2])
        plain.start()
        try:
            backend = Role("backend", *plain.args[plain.args.index("--join"):][:2], "--repository", middle, "--accelerators",
                           "cpu:1", "--slo-ms", "300000", "--transport", "fabric", "--fabric", "tcp")
            cluster.backends.append(backend)
            sentence = "the frontend has shm, tcp; the backend takes fabric (tcp)"
            wait_until(lambda: backend.says(sentence) and sentence in plain.log_text(), 600)
            wait_until(lambda: "transport=fabric" in cluster.frontends[0].log_text(), 600)  # which has it
        finally:
            plain.__exit__(None, None, None)


class Hosts:
    """A scheduler and a frontend on one host, a backend on another."""

    def __init__(self, folder, repository, *backend, fabric):
        self.folder, self.net = folder, Network("front", "back")
        self.repository, self.backend_args, self.fabric, self.roles = repository, backend, fabric, []

    def __enter__(self):
        self.net.__enter__()
        front = self.net.hosts["front"]
        fabric = ("--fabric", "tcp") if self.fabric else ()
        join = "--join", front + ":7700"
        self.role("front", "scheduler", "--listen", front + ":7700", "--open-links")
        self.frontend = self.role("front", "frontend", *join, "--cluster-port", 7710, "--open-links", "--http-port", 8000, "--no-grpc", *fabric)
        self.backend = self.role("back", "backend", *join, "--repository", self.repository, "--accelerators", "cpu:1", "--slo-ms",
                                 "300000", *fabric, *self.backend_args)
        return self

    def role(self, host, *args):
        self.roles.append(Role(*args, prefix=self.net.on(host)))
        return self.roles[-1]

    def __exit__(self, *error):
        for role in self.roles:
            role.end(error[0])
        self.net.__exit__(*error)

    def infer(self, **inputs):
        body, length = asked(inputs)
        (self.folder / "body").write_bytes(body)
        done = subprocess.run([*self.net.on("front"), "curl", "-s", "-D", self.folder / "head", "-H",
                               "Inference-Header-Content-Length: " + length, "--data-binary", "@%s" % (self.folder / "body"),
                               "http://127.0.0.1:8000/v2/models/two/infer"], capture_output=True)
        head = dict(line.lower().split(": ") for line in (self.folder / "head").read_text().splitlines() if ": " in line)
        length = head.get("inference-header-content-length")
        return answered(done.stdout, int(length)) if length else None

    def answers(self):
        """Whether a request of 48 KB is answered, then rightly."""
        x, i = np.random.default_rng(1).random((8, 1500), np.float32), np.ones((8, 3), np.uint8)
        outputs = self.infer(x=x, i=i)
        assert not outputs or (np.array_equal(outputs["y"], -x) and np.array_equal(outputs["j"], i))
        return bool(outputs)


needs_hosts = pytest.mark.skipif(bool(missing("curl", "nft")), reason=missing("curl", "nft"))


@needs_hosts
@needs_fabric
def test_libfabric_between_hosts(tmp_path, small):
    with Hosts(tmp_path, small, fabric=True) as hosts:
        wait_until(lambda: hosts.frontend.says("transport=fabric"), 900)
        wait_until(hosts.answers, 600)
        assert not hosts.backend.says("inputs come by tcp")


@needs_hosts
@needs_fabric
def test_where_libfabric_does_not_connect_tcp_does(tmp_path, small):
    with Hosts(tmp_path, small, fabric=True) as hosts:
        subprocess.run([*hosts.net.on("front"), "nft", "-f", "-"], check=True, text=True, input="""table inet t {
            chain c {
                type filter hook input priority 0;
                iif != lo tcp flags syn tcp dport != { 7700, 7710 } reject with tcp reset;
            }
        }
        """)
        hosts.backend.kill()
        hosts.backend.start()  # whatever came about before
        wait_until(lambda: hosts.backend.says("inputs come by tcp"), 900)
        wait_until(hosts.answers, 600)


@needs_hosts
def test_memory_of_another_host_is_not_to_be_had(tmp_path, small):
    with Hosts(tmp_path, small, "--transport", "shm", fabric=False) as hosts:
        wait_until(lambda: hosts.backend.says("it is not on this host, or gone; --transport shm"), 900)


@pytest.mark.parametrize("args, sentence", [
    (["--transport", "fabric"], "--transport fabric needs --fabric PROVIDER"),
    (["--transport", "rdma"], "--transport"),
    (["--fabric", "nonesuch"], "nonesuch"),
])
def test_mistakes_are_told(small, args, sentence):
    done = subprocess.run([BINARY, "backend", "--join", "127.0.0.1:1", "--repository", small, "--accelerators", "cpu:1",
                           "--no-metrics", *args], capture_output=True, text=True, timeout=900,
                          env={"TSAN_OPTIONS": TSAN_OPTIONS, **os.environ})
    assert done.returncode in (1, 2) and sentence in done.stderr
