"""soak.py - clients that come, ask, cancel and die, for as long as you like; then: is the server as it was before?

    ./run soak [--minutes 30] [--seed 1] [--tls]

Starts `symphony serve` with emulated models and seeded clients of both protocols: patient ones, ones with deadlines
that cannot be met, ones that cancel, that close or reset their connections in the middle of anything, that send
rubbish, that pipeline, stream and watch. After a warm-up, and every few minutes from then on, they all pause. The
server must then be quiet, with no request, no connection and no input left over. The verdict compares the last pause
with the first: descriptors and threads must be the same, and the memory that is set aside (VmData), too, except what
an allocator keeps (after a warm-up of at least 5000 actions: before that, it still grows). Rings of the last requests
go on filling for hours: that memory was set aside at the start.

The same seed draws the same actions; how they coincide depends on the machine. Exit status 0: as before; 1: it is not,
or an answer was wrong, or the server died.
"""
import argparse
import collections
import json
import os
import pathlib
import random
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time

import grpc
import hpack
import numpy as np
from tritonclient.grpc import service_pb2, service_pb2_grpc

TOP = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / "tests" / "e2e"))
os.environ.setdefault("SYMPHONY_BINARY", str(TOP / "build/release/symphony"))
from server import Server  # noqa: E402

MODELS = """cluster: {accelerators: 4, type: soak}
models:
  - {name: quick, alpha_ms: 0.02, beta_ms: 0.2, slo_ms: 2000}
  - {name: slow, alpha_ms: 1, beta_ms: 40, slo_ms: 1000}
  - {name: tight, alpha_ms: 1, beta_ms: 3, slo_ms: 5}
workload: {rate_rps: 10}
"""
MEMORY_GROWTH_MAX = 2 << 20  # bytes of memory set aside, from the first pause to the last
WARM_ACTIONS = 5000  # before the first pause: after fewer, memory still grows, and says nothing
QUIET_S = 180                # a pause takes no longer
DATA, HEADERS, RST_STREAM, SETTINGS, PING = 0, 1, 3, 4, 6
FINE = {grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED}


class Wrong(Exception):
    """An answer that should not have come."""


# ---- requests ----

def json_request(rng):
    items = rng.choice((1, 1, 1, 2))
    request = {"id": str(rng.random()), "inputs": [{"name": "INPUT", "datatype": "FP32", "shape": [items, 1],
                                                    "data": [rng.random() for _ in range(items)]}]}
    if rng.random() < 0.2:
        request["parameters"] = {"timeout": rng.choice((1, 1000, 10**6))}
    if rng.random() < 0.05:
        request["padding"] = "x" * rng.randrange(2 << 20)
    return request


def http_bytes(rng, model, request=None):
    body = json.dumps(request or json_request(rng)).encode()
    return b"POST /v2/models/%s/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (model.encode(), len(body), body)


def grpc_request(rng, model):
    items = rng.choice((1, 1, 1, 2))
    given = service_pb2.ModelInferRequest.InferInputTensor(name="INPUT", datatype="FP32", shape=(items, 1))
    raw = np.zeros((items, 1), np.float32).tobytes()
    more = {"id": "x" * rng.randrange(1 << 20)} if rng.random() < 0.05 else {}
    return service_pb2.ModelInferRequest(model_name=model, inputs=[given], raw_input_contents=[raw], **more)


def a_model(rng):
    return rng.choice(("quick", "quick", "quick", "slow", "tight"))


# ---- clients ----

class Client(threading.Thread):
    def __init__(self, soak, number):
        super().__init__(daemon=True)
        self.soak, self.server = soak, soak.server
        self.rng = random.Random(f"{soak.args.seed} {number}")
        self.counts = collections.Counter()
        self.wrong = []

    def run(self):
        while self.soak.may_go_on():
            act = self.rng.choices(list(ACTIONS), list(ACTIONS.values()))[0]
            try:
                act(self, self.rng)
            except Wrong as wrong:
                self.wrong.append(f"{act.__name__}: {wrong}")
            except (OSError, ValueError) as error:  # we died, or the peer gave up on us
                self.counts[f"{act.__name__} {type(error).__name__}"] += 1
            self.counts["actions"] += 1
            time.sleep(self.rng.expovariate(self.soak.args.rate / self.soak.args.clients))

    def connect(self, port, alpn):
        connection = socket.create_connection(("127.0.0.1", port), timeout=30)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if not self.soak.context:
            return connection
        context = ssl.create_default_context(cafile=self.soak.certificate)
        context.set_alpn_protocols([alpn])
        return context.wrap_socket(connection, server_hostname="localhost")

    def http(self):
        return self.connect(self.server.port, "http/1.1")

    def channel(self):
        options = [("grpc.use_local_subchannel_pool", 1)]
        if self.soak.context:
            credentials = grpc.ssl_channel_credentials(pathlib.Path(self.soak.certificate).read_bytes())
            return grpc.secure_channel(f"localhost:{self.server.grpc_port}", credentials, options)
        return grpc.insecure_channel(f"127.0.0.1:{self.server.grpc_port}", options)

    def die(self, connection, rng):
        """Closes, or resets, without a word."""
        if rng.random() < 0.5:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
        self.counts["died"] += 1

    def read_answers(self, connection, count):
        """Statuses and bodies of so many answers."""
        got = b""
        for _ in range(count):
            while b"\r\n\r\n" not in got:
                part = connection.recv(65536)
                if not part:
                    raise Wrong("the connection ended before its answers")
                got += part
            head, got = got.split(b"\r\n\r\n", 1)
            lines = head.split(b"\r\n")
            length = next(int(line.split()[1]) for line in lines if line.lower().startswith(b"content-length"))
            while len(got) < length:
                got += connection.recv(65536)
            status = int(lines[0].split()[1])
            self.counts[f"http {status}"] += 1
            yield status, got[:length]
            got = got[length:]

    # -- HTTP --

    def http_asks(self, rng):
        with self.http() as connection:
            for _ in range(rng.randrange(1, 10)):
                request, model = json_request(rng), a_model(rng)
                connection.sendall(http_bytes(rng, model, request))
                (status, body), = self.read_answers(connection, 1)
                if status not in (200, 503):
                    raise Wrong(f"{status} {body[:200]}")
                if status == 200 and json.loads(body)["id"] != request["id"]:
                    raise Wrong("an answer to somebody else")

    def http_pipelines(self, rng):
        with self.http() as connection:
            count = rng.randrange(2, 30)
            connection.sendall(b"".join(http_bytes(rng, a_model(rng)) for _ in range(count)))
            if any(status not in (200, 503) for status, _ in self.read_answers(connection, count)):
                raise Wrong("a pipelined request failed")

    def http_dies(self, rng):
        connection, request = self.http(), http_bytes(rng, a_model(rng))
        connection.sendall(request[:rng.randrange(len(request) + 1)])
        if rng.random() < 0.5:
            time.sleep(rng.random() * 0.05)
        self.die(connection, rng)

    def http_mistakes(self, rng):
        with self.http() as connection:
            connection.sendall(rng.choice((
                b"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n", b"PUT /v2 HTTP/1.1\r\nHost: x\r\n\r\n",
                b"POST /v2/models/quick/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
                b"POST /v2/models/none/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
                b"POST /v2/models/quick/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999\r\n\r\n",
                b"GET /v2 HTTP/1.1\nHost: x\n\n", b"GET /v2 HTTP/1.1\r\nHost: x\r\nx: %s\r\n\r\n" % (b"y" * 20000))))
            (status, _), = self.read_answers(connection, 1)
            if not 400 <= status < 500:
                raise Wrong(f"{status} to a mistake")

    def http_rubbish(self, rng):
        with self.http() as connection:
            connection.sendall(rng.randbytes(rng.randrange(1, 5000)))
            connection.settimeout(rng.random())
            connection.recv(4096)

    def http_reads_about(self, rng):
        with self.http() as connection:
            for path in rng.sample(("/v2", "/v2/health/ready", "/v2/models/quick", "/v2/models/stats",
                                    "/v2/models/slow/config"), 3):
                connection.sendall(b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n" % path.encode())
                (status, _), = self.read_answers(connection, 1)
                if status != 200:
                    raise Wrong(f"{path}: {status}")

    # -- gRPC, by its own library --

    def count_call(self, call):
        code = call.code()
        self.counts[f"grpc {code.name}"] += 1
        if code not in FINE:
            raise Wrong(f"{code} {call.details()}")

    def grpc_asks(self, rng):
        with self.channel() as channel:
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            calls = [stub.ModelInfer.future(grpc_request(rng, a_model(rng)), timeout=rng.choice((0.002, 0.05, 5, 5)))
                     for _ in range(rng.randrange(1, 20))]
            for call in calls:
                if rng.random() < 0.2:
                    call.cancel()
            for call in calls:
                self.count_call(call)

    def grpc_streams(self, rng):
        with self.channel() as channel:
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            count = rng.randrange(1, 30)
            answers = stub.ModelStreamInfer(iter([grpc_request(rng, a_model(rng)) for _ in range(count)]), timeout=20)
            leaves_after = rng.randrange(2 * count)
            try:
                for number, _ in enumerate(answers):
                    if number == leaves_after:
                        answers.cancel()
            except grpc.RpcError:
                pass
            self.count_call(answers)

    def grpc_watches(self, rng):
        with self.channel() as channel:
            watch = channel.unary_stream("/grpc.health.v1.Health/Watch")(b"")
            if next(watch) != b"\x08\x01":
                raise Wrong("not serving")
            if rng.random() < 0.5:
                watch.cancel()

    # -- gRPC, by hand --

    def grpc_dies(self, rng):
        """Frames of calls, cut off, reset or left, in any order."""
        connection, encoder = self.connect(self.server.grpc_port, "h2"), hpack.Encoder()

        def send(kind, flags, stream, payload=b""):
            connection.sendall(struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload)
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        send(SETTINGS, 0, 0)
        for stream in range(1, 2 * rng.randrange(1, 50), 2):
            message = grpc_request(rng, a_model(rng)).SerializeToString()[:16000]
            message = struct.pack(">BI", 0, len(message)) + message
            headers = encoder.encode([(":method", "POST"), (":scheme", "http"), (":authority", "x"),
                                      (":path", "/inference.GRPCInferenceService/" +
                                       rng.choice(("ModelInfer", "ModelInfer", "ModelStreamInfer", "ServerLive"))),
                                      ("content-type", "application/grpc")])
            send(HEADERS, 4, stream, headers)
            end = rng.randrange(2)
            send(DATA, end, stream, message[:rng.choice((len(message), rng.randrange(len(message))))])
            if rng.random() < 0.4:
                send(RST_STREAM, 0, stream, struct.pack(">I", 8))
            if rng.random() < 0.1:
                send(PING, 0, 0, bytes(8))
        if rng.random() < 0.1:
            connection.sendall(rng.randbytes(rng.randrange(1, 1000)))
        if rng.random() < 0.5:
            time.sleep(rng.random() * 0.05)
        self.die(connection, rng)


ACTIONS = {Client.http_asks: 20, Client.http_pipelines: 5, Client.http_dies: 15, Client.http_mistakes: 5,
           Client.http_rubbish: 2, Client.http_reads_about: 3, Client.grpc_asks: 15, Client.grpc_streams: 8,
           Client.grpc_watches: 3, Client.grpc_dies: 15}


# ---- the server, seen from outside ----

def usage_at_rest(pid, threads, descriptors=None):
    """Once there are so many threads and descriptors, or, of the latter, the same twice: our own look at the metrics was
    a connection, too. Threads that came for large bodies end after some seconds."""
    until, before = time.monotonic() + QUIET_S, None
    while True:
        time.sleep(1)
        now = usage(pid)
        if now["threads"] == threads and now["descriptors"] == (descriptors or before) or time.monotonic() > until:
            return now
        before = now["descriptors"]


def usage(pid):
    def field(name):
        with open(f"/proc/{pid}/status") as file:
            return next(int(line.split()[1]) for line in file if line.startswith(name))
    return {"descriptors": len(os.listdir(f"/proc/{pid}/fd")), "threads": field("Threads:"),
            "data_bytes": field("VmData:") << 10, "rss_bytes": field("VmRSS:") << 10}


class Soak:
    def __init__(self, args, server, certificate):
        self.args, self.server, self.certificate, self.context = args, server, certificate, bool(certificate)
        self.threads = usage(server.process.pid)["threads"]
        self.pausing = False

    def may_go_on(self):
        return not self.pausing and self.server.process.poll() is None

    def loose(self, seconds, clients):
        """Lets the clients act for so long."""
        self.pausing = False
        for client in clients:
            client.start()
        until = time.monotonic() + seconds
        while time.monotonic() < until and self.may_go_on():
            time.sleep(0.1)
        self.pausing = True
        for client in clients:
            client.join()

    def quiet(self):
        """Waits until nothing of the clients is left over; returns what the server then uses."""
        until = time.monotonic() + QUIET_S
        left = ("symphony_http_connections", "symphony_grpc_connections", "symphony_requests_in_flight",
                "symphony_inputs_bytes", "symphony_inputs_mapped_bytes")
        while True:
            metrics = self.server.metrics()
            rest = {name: metrics[name] for name in left if metrics[name] > 0}
            if not rest:
                return usage_at_rest(self.server.process.pid, self.threads)
            if time.monotonic() > until:
                raise Wrong(f"left over after {QUIET_S} s of quiet: {rest}")
            time.sleep(0.1)


def run(args, server, certificate, say):
    soak, counts, wrong, pauses, number = Soak(args, server, certificate), collections.Counter(), [], [], 0
    warm_actions = 0
    seconds = args.minutes * 60
    spans = [min(0.3 * seconds, 300)]  # the warm-up: pools fill, allocators settle
    parts = max(1, round((seconds - spans[0]) / 300))
    spans += [(seconds - spans[0]) / parts] * parts
    for span in spans:
        clients = [Client(soak, number + i) for i in range(args.clients)]
        number += args.clients
        soak.loose(span, clients)
        for client in clients:
            counts += client.counts
            wrong += client.wrong
        if server.process.poll() is not None:
            wrong.append(f"the server ended with {server.process.returncode}: {server.log_text()[-2000:]}")
            break
        try:
            pauses.append(soak.quiet())
        except Wrong as left:
            wrong.append(str(left))
            pauses.append(usage(server.process.pid))
        warm_actions = warm_actions or counts["actions"]
        say("%6.1f min  %7d actions  %3d descriptors  %2d threads  %6.2f MiB set aside  %6.2f MiB resident" %
            (sum(spans[:len(pauses)]) / 60, counts["actions"], pauses[-1]["descriptors"], pauses[-1]["threads"],
             pauses[-1]["data_bytes"] / 2**20, pauses[-1]["rss_bytes"] / 2**20))
    if len(pauses) > 1:
        first = pauses[0]
        last = pauses[-1] = usage_at_rest(server.process.pid, soak.threads, first["descriptors"])
        wrong += [f"{name}: {before} before, {last[name]} after" for name, before in
                  (("descriptors", first["descriptors"]), ("threads", soak.threads)) if last[name] != before]
        grown = last["data_bytes"] - first["data_bytes"]
        if warm_actions < WARM_ACTIONS:
            say(f"memory is not judged: {warm_actions} actions in the warm-up, of {WARM_ACTIONS} that it takes")
        elif grown > MEMORY_GROWTH_MAX and not os.environ.get("SYMPHONY_SANITIZED"):
            wrong.append(f"memory set aside has grown by {grown} bytes")
    return {"minutes": args.minutes, "seed": args.seed, "tls": bool(certificate), "pauses": pauses, "wrong": wrong,
            "counts": dict(sorted(counts.items()))}


def self_signed(folder):
    certificate, key = f"{folder}/soak.pem", f"{folder}/soak.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
                    "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key, "-out",
                    certificate], check=True, capture_output=True)
    return certificate, key


def main():
    parser = argparse.ArgumentParser(prog="./run soak", description="Clients that come, ask, cancel and die; then a verdict.")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--clients", type=int, default=12, help="at once")
    parser.add_argument("--rate", type=float, default=100, help="actions a second, of all clients, at most")
    parser.add_argument("--tls", action="store_true")
    parser.add_argument("--json", action="store_true", help="the result on standard output, everything else beside it")
    args = parser.parse_args()
    say = lambda text: print(text, file=sys.stderr if args.json else sys.stdout, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        scenario = pathlib.Path(folder) / "soak.yaml"
        scenario.write_text(MODELS)
        pair = self_signed(folder) if args.tls else None
        options = ["--tls-cert", pair[0], "--tls-key", pair[1]] if pair else []
        with Server("--scenario", scenario, "--pin", "none", *options) as server:
            result = run(args, server, pair and pair[0], say)
            if server.process.poll() is None and server.stop() != 0:
                result["wrong"].append("the server did not end with status 0")
    if args.json:
        print(json.dumps(result, indent=1))
    else:
        say("\n" + "\n".join(f"{count:9d}  {what}" for what, count in result["counts"].items()))
    for line in result["wrong"][:20]:
        say(f"wrong: {line}")
    say("\n%s" % ("as before: no answer was wrong, nothing is left over" if not result["wrong"] else
                  f"NOT as before: {len(result['wrong'])} findings"))
    return 1 if result["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
