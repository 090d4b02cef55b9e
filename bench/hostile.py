"""hostile.py - measures what one client loses when others are hostile.

    build/venv/bin/python bench/hostile.py [--seconds 30] [--share 0.7 | --rate R] [--only KIND]... [--each] [--seed 1] [--tls]

Serves one model (a Gather over an open dimension, then dense layers) on one CPU accelerator, finds its goodput, and has a good
client (`symphony bench`, Poisson arrivals, the connection used last first) ask for 70 % of that: alone, then beside all of
these at once:

  impossible  2000 requests/s whose `timeout` is 1 us
  hurried     40 requests/s whose `timeout` is 4 ms, hardly more than a lone one takes
  poison      5/s with an index out of range: the run of their batch fails
  silent      1200 connections, each of which announces a body of 1 MiB and sends nothing
  half_close  20 clients/s that shut down their sending side after their request
  handshake   64 TLS handshakes that stop half way (without --tls: heads that do)
  slow_body   100 requests at a time whose bodies trickle in, a little faster than is forbidden
  large_body  1/s of 10 MB of JSON numbers, and 1/s of 48 MiB of JSON in 50 KB of gzip
  stream      5 gRPC streams/s that send on after their own deadline
  shape       4 requests/s, each with a shape that was never seen before
  picture     100/s for another model, of pictures that the server decodes: 9 megapixels in 26 KB, half of them with 1 ms of
              time, the others from clients that leave at once
  fan_out     20/s for an ensemble of the same model, each of 1024 rows that become requests of their own, with 1 ms
  unread      16 gRPC clients without a window and 16 HTTP clients that do not read, each asking for 4 MiB again and again
  first_byte  9 gRPC connections with 1000 calls each, of which one byte has come
  half_head   200 connections that stop within a request's head
  inflate     4 clients with 83 KB of deflate that become 48 MiB of numbers that are slow to read
  references  2 connections whose header blocks name one long entry of the table 15,000 times
  flood       6 connections of resets, pings, settings, window updates, continuations, and chunks of a byte each

--each: also beside each kind alone. Prints Markdown: what the good client lost, by kind of loss, and the server's own
counts of that model, the hostile requests included. Exit status 1 if the good client lost 0.1 % or more of its requests
beside them. The hostile clients run at a low priority, since they would have machines of their own. Give this machine
four cores, or compare with what the good client loses alone.
"""
import argparse
import asyncio
import collections
import contextlib
import gzip
import json
import multiprocessing
import os
import pathlib
import queue
import random
import resource
import ssl
import struct
import subprocess
import sys
import tempfile
import zlib

import hpack
import numpy as np
from onnx import TensorProto, helper, numpy_helper
from tritonclient.grpc import service_pb2

TOP = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / "tests" / "e2e"))
BINARY = os.environ.setdefault("SYMPHONY_BINARY", str(TOP / "build/release/symphony"))
from images import png_of  # noqa: E402
from repository import save_model  # noqa: E402
from server import Server  # noqa: E402

MODEL, SLO_MS, LENGTH = "shared", 50, 8  # LENGTH: numbers in a good request
LOST_MAX = 0.001
SILENT = 1200
BEGIN_S = 120
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE, CONTINUATION = 0, 1, 2, 3, 4, 6, 8, 9
END_STREAM, END_HEADERS, INITIAL_WINDOW_SIZE = 1, 4, 4
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
INFER, STREAM = "/inference.GRPCInferenceService/ModelInfer", "/inference.GRPCInferenceService/ModelStreamInfer"
SIDE = 3000   # pixels of a hostile picture
ROWS = 1024   # of a hostile query


def save_repository(folder):
    save_shared(folder)
    save_model(folder, "picture", [helper.make_node("Slice", ["x", "from", "to", "axes"], ["few"]),
                                   helper.make_node("Cast", ["few"], ["f"], to=TensorProto.FLOAT),
                                   helper.make_node("ReduceMean", ["f"], ["y"], axes=[1, 2, 3])],
               [("x", TensorProto.UINT8, ["N", "H", "W", 3])], [("y", TensorProto.FLOAT, ["N", 1, 1, 1])],
               [numpy_helper.from_array(np.array(value, np.int64), name) for name, value in
                (("from", [0, 0]), ("to", [8, 8]), ("axes", [1, 2]))])
    (folder / "picture" / "symphony.yaml").write_text("shapes: {x: [64, 64, 3]}\nprepare: [{step: decode_image}]\n")
    save_model(folder, "echo", [helper.make_node("Identity", ["x"], ["y"])], [("x", TensorProto.UINT8, ["N", "L"])],
               [("y", TensorProto.UINT8, ["N", "L"])])
    (folder / "rows").mkdir()
    (folder / "rows" / "config.pbtxt").write_text(f'''platform: "ensemble"
input {{ name: "ids" data_type: TYPE_INT64 dims: [ -1, {LENGTH} ] }}
output {{ name: "y" data_type: TYPE_FP32 dims: [ -1, 1024 ] }}
ensemble_scheduling {{
  step {{ model_name: "{MODEL}" input_map {{ key: "ids" value: "ids" }} output_map {{ key: "y" value: "y" }} }}
}}
''')
    (folder / "rows" / "symphony.yaml").write_text(f"steps: [{{step: 1, for_each: ids, limit: {ROWS}}}]\n")


def save_shared(folder):
    """y = dense layers of the mean of the rows that ids pick out of a table of 100."""
    rng, width, depth = np.random.default_rng(1), 1024, 12
    values = lambda *shape: (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)
    nodes = [helper.make_node("Gather", ["table", "ids"], ["rows"]),
             helper.make_node("ReduceMean", ["rows"], ["h0"], axes=[1], keepdims=0)]
    weights = [numpy_helper.from_array(values(100, width), "table")]
    for i in range(depth):
        weights.append(numpy_helper.from_array(values(width, width), f"w{i}"))
        nodes.append(helper.make_node("MatMul", [f"h{i}", f"w{i}"], [f"h{i + 1}" if i < depth - 1 else "y"]))
    save_model(folder, MODEL, nodes, [("ids", TensorProto.INT64, ["N", "L"])], [("y", TensorProto.FLOAT, ["N", width])], weights)


# ---- requests ----

def request(ids, **parameters):
    return {"inputs": [{"name": "ids", "datatype": "INT64", "shape": [1, len(ids)], "data": ids}],
            "outputs": [{"name": "y", "parameters": {"classification": 1}}], "parameters": parameters}


def head(length, *more, model=MODEL):
    return "\r\n".join([f"POST /v2/models/{model}/infer HTTP/1.1", "Host: x", f"Content-Length: {length}", *more, "", ""]).encode()


def http_bytes(body, *more, model=MODEL):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    return head(len(body), *more, model=model) + body


def picture_bytes(**parameters):
    row = bytes(1 + 3 * SIDE)
    file = png_of(SIDE, SIDE, zlib.compress(SIDE * row, 9))
    top = json.dumps({"parameters": parameters, "inputs": [{"name": "x", "datatype": "BYTES", "shape": [1, 1], "parameters": {
        "binary_data_size": 4 + len(file)}}]}).encode()
    return http_bytes(top + struct.pack("<I", len(file)) + file, f"Inference-Header-Content-Length: {len(top)}", model="picture")


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def call(path, *more):
    return hpack.Encoder().encode([(":method", "POST"), (":scheme", "http"), (":authority", "x"), (":path", path),
                                   ("content-type", "application/grpc"), *more])


def varint(value):
    digits = []
    while value >= 128:
        digits.append(value & 127 | 128)
        value >>= 7
    return bytes([*digits, value])


# ---- hostile clients: each goes on until it is cancelled ----

class Hostile:
    def __init__(self, seed, port, grpc_port, tls):
        self.rng, self.port, self.grpc_port = random.Random(seed), port, grpc_port
        self.counts = collections.Counter()
        self.context = self.context_h2 = None
        if tls:
            for name, alpn in ("context", "http/1.1"), ("context_h2", "h2"):
                context = ssl._create_unverified_context()
                context.set_alpn_protocols([alpn])
                setattr(self, name, context)

    @contextlib.asynccontextmanager
    async def connection(self, port=None, context=None):
        reader, writer = await asyncio.open_connection("127.0.0.1", port or self.port, ssl=context or self.context)
        try:
            yield reader, writer
        finally:
            writer.transport.abort()

    async def answer(self, kind, reader):
        top = b" 100 "
        while top.split(b" ", 2)[1] == b"100":  # the server asks whether the client is still there (half_close)
            top = (await reader.readuntil(b"\r\n\r\n")).lower()
        await reader.readexactly(int(top.split(b"content-length:", 1)[1].split(b"\r\n", 1)[0]))
        self.counts[f"{kind} {top.split(b' ', 2)[1].decode()}"] += 1

    async def often(self, kind, act, gap_s, at_once=1):
        """So many of them at once go on acting, each after a gap; what happens to them does not matter."""
        async def one():
            while True:
                try:
                    await act()
                except (OSError, asyncio.IncompleteReadError) as error:
                    self.counts[f"{kind} {type(error).__name__}"] += 1
                await asyncio.sleep(self.rng.expovariate(1 / gap_s) if gap_s else 0)
        await asyncio.gather(*(one() for _ in range(at_once)))

    async def asks(self, kind, make, gap_s, at_once):
        """Requests one after the other on kept connections."""
        async def session():
            async with self.connection() as (reader, writer):
                while True:
                    bytes_, answers = make()
                    writer.write(bytes_)
                    self.counts[kind + " asked"] += answers
                    await writer.drain()
                    for _ in range(answers):
                        await self.answer(kind, reader)
                    await asyncio.sleep(self.rng.expovariate(1 / gap_s))
        await self.often(kind, session, 0.1, at_once)

    async def impossible(self):
        bytes_ = 20 * http_bytes(request([1] * LENGTH, timeout=1))
        await self.asks("impossible", lambda: (bytes_, 20), 0.04, 4)

    async def hurried(self):
        await self.asks("hurried", lambda: (http_bytes(request([1] * LENGTH, timeout=4000)), 1), 0.2, 8)

    async def poison(self):
        bytes_ = http_bytes(request([10**6] * LENGTH))
        await self.asks("poison", lambda: (bytes_, 1), 1.6, 8)

    async def shape(self):
        lengths = iter(range(LENGTH + 1, 10**6))
        await self.asks("shape", lambda: (http_bytes(request([1] * next(lengths))), 1), 0.25, 1)

    async def large_body(self):
        numbers = b'{"inputs":[{"name":"ids","datatype":"INT64","shape":[1,8],"data":[' + b"1," * (5 << 20) + b"1]}]}"
        text = json.dumps({**request([1] * LENGTH), "padding": "x" * (48 << 20)}).encode()
        bodies = [http_bytes(numbers), http_bytes(gzip.compress(text), "Content-Encoding: gzip")]
        await asyncio.gather(*(self.asks("large_body", lambda body=body: (body, 1), 1, 1) for body in bodies))

    async def picture(self):
        hurried, patient = picture_bytes(timeout=1000), picture_bytes()

        async def leave():
            async with self.connection() as (_, writer):
                writer.write(patient)
                self.counts["picture asked"] += 1
                await writer.drain()
                await asyncio.sleep(0.002)
        await asyncio.gather(self.asks("picture", lambda: (hurried, 1), 0.08, 4), self.often("picture", leave, 0.08, 4))

    async def fan_out(self):
        body = {"parameters": {"timeout": 1000}, "inputs": [{"name": "ids", "datatype": "INT64", "shape": [ROWS, LENGTH],
                                                             "data": [1] * (ROWS * LENGTH)}]}
        bytes_ = http_bytes(body, model="rows")
        await self.asks("fan_out", lambda: (bytes_, 1), 0.2, 4)

    async def silent(self):
        async def hold():
            async with self.connection() as (reader, writer):
                writer.write(head(1 << 20))
                self.counts["silent asked"] += 1
                await reader.read()  # until it is closed
        await self.often("silent", hold, 1, SILENT)

    async def handshake(self):
        async def begin():
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            try:
                if self.context:
                    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
                    with contextlib.suppress(ssl.SSLWantReadError):
                        self.context.wrap_bio(incoming, outgoing).do_handshake()
                    writer.write(outgoing.read()[:100])
                else:
                    writer.write(head(100)[:40])
                self.counts["handshake asked"] += 1
                await asyncio.wait_for(reader.read(), 5)
            except asyncio.TimeoutError:
                pass
            finally:
                writer.transport.abort()
        await self.often("handshake", begin, 0.1, 64)

    async def half_close(self):
        async def ask():
            async with self.connection() as (reader, writer):
                writer.write(http_bytes(request([1] * LENGTH)))
                self.counts["half_close asked"] += 1
                if not self.context:  # TLS cannot close half of a connection
                    writer.write_eof()
                await self.answer("half_close", reader)
        await self.often("half_close", ask, 0.4, 8)

    async def slow_body(self):
        bytes_ = http_bytes({**request([1] * LENGTH), "padding": "x" * 20000})

        async def trickle():
            async with self.connection() as (reader, writer):
                self.counts["slow_body asked"] += 1
                for at in range(0, len(bytes_), 150):
                    writer.write(bytes_[at:at + 150])
                    await asyncio.sleep(0.1)
                await self.answer("slow_body", reader)
        await self.often("slow_body", trickle, 0.1, 100)

    async def stream(self):
        given = service_pb2.ModelInferRequest.InferInputTensor(name="ids", datatype="INT64", shape=(1, LENGTH))
        message = service_pb2.ModelInferRequest(model_name=MODEL, inputs=[given], raw_input_contents=[bytes(8 * LENGTH)])
        message = b"\0" + struct.pack(">I", message.ByteSize()) + message.SerializeToString()

        async def overstay():
            async with self.connection(self.grpc_port, self.context_h2) as (reader, writer):
                writer.write(PREFACE + frame(SETTINGS, 0, 0)
                             + frame(HEADERS, END_HEADERS, 1, call(STREAM, ("grpc-timeout", "50m"))))
                for _ in range(10):
                    writer.write(frame(DATA, 0, 1, message))
                    await asyncio.sleep(0.02)
                self.counts["stream asked"] += 1
        await self.often("stream", overstay, 0.2, 2)

    async def unread(self):
        numbers = bytes(4 << 20)
        given = service_pb2.ModelInferRequest.InferInputTensor(name="x", datatype="UINT8", shape=(1, len(numbers)))
        message = service_pb2.ModelInferRequest(model_name="echo", inputs=[given], raw_input_contents=[numbers])
        packed = gzip.compress(message.SerializeToString())
        packed = b"\1" + struct.pack(">I", len(packed)) + packed
        top = json.dumps({"inputs": [{"name": "x", "datatype": "UINT8", "shape": [1, len(numbers)], "parameters": {
            "binary_data_size": len(numbers)}}], "parameters": {"binary_data_output": True}}).encode()
        http = http_bytes(gzip.compress(top + numbers), "Content-Encoding: gzip", f"Inference-Header-Content-Length: {len(top)}",
                          model="echo")

        async def without_window():
            async with self.connection(self.grpc_port, self.context_h2) as (_, writer):
                writer.write(PREFACE + frame(SETTINGS, 0, 0, struct.pack(">HI", INITIAL_WINDOW_SIZE, 0)))
                for stream in range(1, 200, 2):
                    writer.write(frame(HEADERS, END_HEADERS, stream, call(INFER, ("grpc-encoding", "gzip")))
                                 + frame(DATA, END_STREAM, stream, packed))
                    self.counts["unread asked"] += 1
                    await writer.drain()
                    await asyncio.sleep(0.3)

        async def without_reading():
            async with self.connection() as (reader, writer):
                reader._transport.pause_reading()
                for _ in range(100):
                    writer.write(http)
                    self.counts["unread asked"] += 1
                    await writer.drain()
                    await asyncio.sleep(0.3)
        await asyncio.gather(self.often("unread", without_window, 0.1, 16), self.often("unread", without_reading, 0.1, 16))

    async def first_byte(self):
        async def hold():
            async with self.connection(self.grpc_port, self.context_h2) as (reader, writer):
                writer.write(PREFACE + frame(SETTINGS, 0, 0))
                block = call(INFER)
                for stream in range(1, 2001, 2):
                    writer.write(frame(HEADERS, END_HEADERS, stream, block) + frame(DATA, 0, stream, b"\0"))
                self.counts["first_byte asked"] += 1000
                await reader.read()
        await self.often("first_byte", hold, 1, 9)

    async def half_head(self):
        async def hold():
            async with self.connection() as (reader, writer):
                writer.write(head(100)[:40])
                self.counts["half_head asked"] += 1
                await reader.read()
        await self.often("half_head", hold, 0.1, 200)

    async def inflate(self):
        number = b"4e-324"
        count = (48 << 20) // (len(number) + 1)
        body = (b'{"inputs":[{"name":"ids","datatype":"FP64","shape":[1,%d],"data":[' % count
                + b",".join([number] * count) + b"]}]}")
        bytes_ = http_bytes(zlib.compress(body), "Content-Encoding: deflate")
        await self.asks("inflate", lambda: (bytes_, 1), 0.01, 4)

    async def floods(self, kind, makes):
        """Each on a connection of its own: sends what it makes from a stream's number, as fast as it is taken."""
        async def flood(make):
            async with self.connection(self.grpc_port, self.context_h2) as (_, writer):
                writer.write(PREFACE + frame(SETTINGS, 0, 0))
                for stream in range(1, 1 << 31, 200):
                    writer.write(make(stream))
                    self.counts[kind + " asked"] += 1
                    await writer.drain()
                    await asyncio.sleep(0)
        await asyncio.gather(*(self.often(kind, lambda make=make: flood(make), 0.1) for make in makes))

    async def references(self):
        long = b"\x40" + varint(5) + b"x-big" + b"\x7f" + varint(3900 - 127) + b"y" * 3900  # becomes entry 62 of the table
        block = (call(INFER) + long + b"\xbe" * 16384)[:16384]
        await self.floods("references", 2 * [lambda stream: frame(HEADERS, END_STREAM | END_HEADERS, stream, block)])

    async def flood(self):
        block, begin = call(INFER), call(STREAM)
        field = hpack.Encoder().encode([("a", "b")])
        await self.floods("flood", [
            lambda stream: b"".join(frame(HEADERS, END_HEADERS, at, block) + frame(RST_STREAM, 0, at, struct.pack(">I", 8))
                                    for at in range(stream, stream + 200, 2)),
            lambda stream: 200 * frame(PING, 0, 0, bytes(8)),
            lambda stream: 200 * frame(SETTINGS, 0, 0, struct.pack(">HI", INITIAL_WINDOW_SIZE, 65535)),
            lambda stream: 200 * frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1)),
            lambda stream: frame(HEADERS, 0, stream, block) + 500 * frame(CONTINUATION, 0, stream, field),
            lambda stream: frame(HEADERS, END_HEADERS, stream, begin) + 500 * frame(DATA, 0, stream, b"\0")])


KINDS = [name for name in vars(Hostile) if name in
         ("impossible", "hurried", "poison", "silent", "half_close", "handshake", "slow_body", "large_body", "stream", "shape",
          "picture", "fan_out", "unread", "first_byte", "half_head", "inflate", "references", "flood")]


def clients_affinity():
    """Clients leave the executor's core alone: the last one, to which the server pins it."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, set(cores[:-1]) or set(cores))


def hostile_process(kinds, seed, port, grpc_port, tls, begun, stop, counts):
    os.nice(10)
    clients_affinity()

    async def run():
        hostile = Hostile(seed, port, grpc_port, tls)
        tasks = [asyncio.create_task(getattr(hostile, kind)()) for kind in kinds]
        while not stop.is_set() and not any(task.done() for task in tasks):
            if all(hostile.counts[kind + " asked"] >= (SILENT if kind == "silent" else 1) for kind in kinds):
                begun.set()
            await asyncio.sleep(0.1)
        begun.set()
        failed = [repr(task.exception()) for task in tasks if task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        counts.put((hostile.counts, failed))
    asyncio.run(run())


@contextlib.contextmanager
def beside(kinds, arguments, server):
    """Starts the hostile clients, and goes on once all have begun; gives their counts afterwards."""
    context, found = multiprocessing.get_context("fork"), collections.Counter()
    begun, stop, counts = context.Event(), context.Event(), context.Queue()
    process = context.Process(target=hostile_process, args=(kinds, arguments.seed, server.port, server.grpc_port,
                                                            arguments.tls, begun, stop, counts), daemon=True)
    if kinds:
        process.start()
    try:
        if kinds and not begun.wait(BEGIN_S):
            raise RuntimeError(f"the hostile clients have not all begun after {BEGIN_S} s")
        yield found
    finally:
        stop.set()
        if kinds:
            try:
                more, failed = counts.get(timeout=60)
            except queue.Empty:
                more, failed = {}, ["nothing was heard of the hostile clients"]
            process.kill()
            process.join()
            found.update(more)
            if failed:
                raise RuntimeError(f"the hostile clients failed: {failed}")


# ---- the good client ----

def bench(arguments, server, *more):
    scheme = "https" if arguments.tls else "http"
    run = subprocess.run([BINARY, "bench", f"{scheme}://localhost:{server.port}", "--json", "--models", MODEL, "--shape",
                          f"ids:{LENGTH}", "--reuse", "newest", "--seed", str(arguments.seed), "--metrics",
                          f"http://127.0.0.1:{server.metrics_port}/metrics", *(["--insecure"] if arguments.tls else []),
                          *map(str, more)], capture_output=True, text=True, preexec_fn=clients_affinity)
    if run.returncode != 0:
        raise RuntimeError(f"symphony bench: {run.stderr or server.log_text()[-2000:]}")
    return json.loads(run.stdout)


def row(name, found):
    server = found.get("server") or {"answered": 0, "in_time_rate": 0}
    print("| %s | %.0f/s | **%.3f %%** | %.3f %% | %.3f %% | %.3f %% | %.3f %% | %.1f, %.1f ms | %d, %.2f %% |" % (
        name, found["offered_rps"], *(100 * found[kind + "_rate"] for kind in ("bad", "late", "refused", "error", "unanswered")),
        found["latency_ms"]["p50"], found["latency_ms"]["p99"], server["answered"], 100 * server.get("in_time_rate", 0)),
        flush=True)


def self_signed(folder):
    certificate, key = f"{folder}/hostile.pem", f"{folder}/hostile.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
                    "/CN=localhost", "-keyout", key, "-out", certificate], check=True, capture_output=True)
    return ["--tls-cert", certificate, "--tls-key", key]


def goodput(arguments, serve):
    with serve() as server:
        return bench(arguments, server, "--find", "goodput", "--seconds", 3, "--precision", 0.05)["goodput_rps"]


def measure(arguments, serve):
    """Each turn has a server of its own: what one turn leaves behind does not count against the next."""
    rate = arguments.rate or arguments.share * goodput(arguments, serve)
    if not rate:
        raise RuntimeError("the good client has no goodput even alone: the machine is too busy")
    print(f"{rate:.0f} requests/s, SLO {SLO_MS} ms, {arguments.seconds:g} s each, seed {arguments.seed}\n")
    print("| beside | offered | lost | late | refused | failed | unanswered | p50, p99 | the server: answered, in time |\n"
          "|---|---|---|---|---|---|---|---|---|")
    kinds = [kind for kind in KINDS if not arguments.only or kind in arguments.only]
    turns = [("nobody", [])] + ([(kind, [kind]) for kind in kinds] if arguments.each and len(kinds) > 1 else [])
    counts, lost = collections.Counter(), 0
    for name, chosen in turns + [(", ".join(kinds) if arguments.only else "all of them", kinds)]:
        with serve() as server:
            with beside(chosen, arguments, server) as counts:
                found = bench(arguments, server, "--rate", rate, "--seconds", arguments.seconds, "--warmup", 2)
            if server.process.poll() is not None:
                raise RuntimeError(f"the server has died: {server.log_text()[-2000:]}")
        row(name, found)
        lost = found["bad_rate"]
        if not chosen and lost >= LOST_MAX:
            print(f"alone it loses {lost:.2%}: the machine is too busy, or too small, to judge", file=sys.stderr)
        if found.get("first_error"):
            print(f"first error beside {name}: {found['first_error']}", file=sys.stderr)
    print("\n" + ", ".join(f"{what}: {count}" for what, count in sorted(counts.items())))
    return lost


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--share", type=float, default=0.7, help="of the good client's goodput (default: 0.7)")
    parser.add_argument("--rate", type=float, help="requests/s of the good client, instead")
    parser.add_argument("--only", action="append", choices=KINDS, metavar="KIND", help="may be repeated")
    parser.add_argument("--each", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tls", action="store_true")
    arguments = parser.parse_args()
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    with tempfile.TemporaryDirectory() as folder:
        save_repository(pathlib.Path(folder) / "repository")
        options = self_signed(folder) if arguments.tls else []
        serve = lambda: Server("--repository", f"{folder}/repository", "--slo-ms", SLO_MS, *options)
        return 0 if measure(arguments, serve) < LOST_MAX else 1


if __name__ == "__main__":
    sys.exit(main())
