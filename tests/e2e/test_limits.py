"""test_limits.py - clients that are slow, rude or many, over raw sockets: each limit is reached, and answered as
docs/security.md says."""
# sanitizers: address thread
# shards: 2
import concurrent.futures
import contextlib
import http.client
import json
import queue
import signal
import socket
import struct
import threading
import time
import zlib

import grpc
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc

from server import Server, arrivals_noted, wait_until
from test_grpc import (ACK, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, PREFACE, RST_STREAM, SETTINGS,
                       WINDOW_UPDATE, Wire, frame)

PRIORITY, CONTINUATION = 2, 9
CALM, CANCEL = 11, 8
ONE = b'{"inputs":[{"name":"INPUT","shape":[1,1],"datatype":"FP32","data":[0]}]}'
HEAD = b"POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
HEAD_TIMEOUT_S = 2  # and this process seldom stands still for so long
PATIENCE_S = 600  # a limit is reached by then, on any machine


@pytest.fixture(scope="module")
def server(scenario):
    """For clients that are rude, but not slow, however slow the machine."""
    with Server("--scenario", scenario, "--head-timeout", 120, "--idle-timeout", 600) as running:
        yield running


@pytest.fixture(scope="module")
def hasty(scenario):
    """For those that are slow."""
    with Server("--scenario", scenario, "--head-timeout", HEAD_TIMEOUT_S, "--min-rate-kib", 1, "--idle-timeout",
                600) as running:
        yield running


def connect(port):
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)


def rest_of(connection):
    """Everything up to the end of the connection."""
    got = b""
    with contextlib.suppress(ConnectionError):
        while part := connection.recv(65536):
            got += part
    return got


def talk(server, sent):
    """What is answered to one piece sent, until the server closes."""
    with connect(server.port) as connection:
        with contextlib.suppress(OSError):  # it may have had enough before all is sent
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
        return rest_of(connection)


def trickle(connection, data, seconds=PATIENCE_S, every_s=0.05):
    """Sends byte by byte; True if the server ended it meanwhile."""
    connection.settimeout(every_s)
    until = time.monotonic() + seconds
    for byte in data:
        try:
            connection.sendall(bytes([byte]))
            got = connection.recv(65536)
        except TimeoutError:
            if time.monotonic() > until:
                return None
            continue
        except ConnectionError:
            return b""
        return got
    return None


# ---- HTTP: requests that two parties could understand differently ----

@pytest.mark.parametrize("head", [
    b"POST /v2/models/m/infer HTTP/1.1\nHost: x\r\nContent-Length: 5\r\n\r\n",
    b"POST /v2/models/m/infer HTTP/1.1\r\nHost: x\nContent-Length: 5\r\n\r\n",
    b"POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 5\n\r\n",
    b"POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\n",
    b"POST /v2/models/m/infer HTTP/1.1\nHost: x\nContent-Length: 5\n\n",
    b"POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n 0\r\n\r\n",
    b"POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nx: y\r\n\tz\r\nContent-Length: 5\r\n\r\n",
    b"POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nx: y\r\n z\r\n\r\n",
    b"POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\n Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n",
    b"POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 5\rx: y\r\n\r\n",
    b"POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nx: a\x00b\r\nContent-Length: 5\r\n\r\n",
    b"POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n",
    b"POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n",
    b"POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, identity\r\n\r\n",
    b"POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
    b"POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 5, 5\r\n\r\n",
    b"POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nContent-Length : 5\r\n\r\n"])
def test_ambiguous_heads(server, head):
    got = talk(server, head + b"0\r\n\r\nGET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n")
    assert got.startswith(b"HTTP/1.1 400") and b" 200 OK" not in got


def test_plain_heads_are_taken(server):
    """What is unusual, but no mistake."""
    for head in (b"\r\nGET /v2/health/live HTTP/1.1\r\nHost: x\r\n", b"GET /v2/health/live HTTP/1.1\r\nHost:x\r\nA:\r\nB: \r\n",
                 b"GET /v2/health/live?a=b&c HTTP/1.1\r\nHost: x  \r\nCookie: a=b; c=d\r\n",
                 b"GET /v2/health/live HTTP/1.0\r\n"):
        assert talk(server, head + b"\r\n").startswith(b"HTTP/1.1 200"), head


def test_heads_in_pieces_and_pipelined(server):
    """The check of line ends holds wherever the pieces end."""
    request = HEAD % len(ONE) + ONE
    with connect(server.port) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for size in (1, 3, 7, 100):
            for at in range(0, len(request), size):
                connection.sendall(request[at:at + size])
        connection.sendall(request * 50)
        got = b""
        while got.count(b"HTTP/1.1 ") < 54:
            got += connection.recv(65536)
    assert got.count(b"HTTP/1.1 200") == 54


@pytest.mark.parametrize("body", [b"5\n{}   \r\n0\r\n\r\n", b"5\r\n{}   \n0\r\n\r\n", b"5;x\n{}   \r\n0\r\n\r\n"])
def test_nothing_follows_a_chunked_body(server, body):
    head = b"POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    got = talk(server, head + body + b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n")
    assert got.count(b"HTTP/1.1 ") == 1 and b" 200 OK" not in got


# ---- HTTP: sizes ----

def test_head_size(server):
    for size, status in ((15000, b"200"), (17000, b"431"), (30000, b"431")):
        got = talk(server, b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\nx: %s\r\n\r\n" % (b"y" * size))
        assert got.split(b" ")[1] == status
        if status == b"431":
            assert json.loads(got.split(b"\r\n\r\n")[1])["error"] == "the head is larger than 16384 bytes"
    for head in (b"x: " + b"y" * 40000, b"\r\n".join([b"a:"] * 5000)):
        got = talk(server, b"GET /v2 HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n" % head)
        assert got.split(b" ")[1] == b"431"
    got = talk(server, b"POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
               b"%x\r\n%s\r\n0\r\n%s\r\n" % (len(ONE), ONE, b"x: y\r\n" * 10000))
    assert got.split(b" ")[1] == b"431" and b"the head and the trailer are larger than 16384 bytes" in got


# ---- HTTP: slow clients ----

def test_slow_first_head(hasty):
    with connect(hasty.port) as connection:
        got = trickle(connection, b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\nx: " + b"y" * 1000)
        assert got.startswith(b"HTTP/1.1 408") and json.loads(got.split(b"\r\n\r\n")[1])["error"]


def test_slow_later_head(hasty):
    with connect(hasty.port) as connection:
        connection.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n")
        assert connection.recv(4096).startswith(b"HTTP/1.1 200")
        assert trickle(connection, b"GET /v2/health/live HTTP/1.1\r\nx: " + b"y" * 1000).startswith(b"HTTP/1.1 408")


def test_half_a_first_head(hasty):
    with connect(hasty.port) as connection:
        connection.sendall(b"GET /v2")
        assert rest_of(connection).startswith(b"HTTP/1.1 408")


def test_slow_body(hasty):
    with connect(hasty.port) as slow, connect(hasty.port) as known:
        slow.sendall(HEAD % 100000 + b"{")
        # its answer is known already
        known.sendall(b"POST /v2/models/none/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n")
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for got in pool.map(lambda connection: trickle(connection, b" " * 1000), (slow, known)):
                assert got.startswith(b"HTTP/1.1 408")
    wait_until(lambda: hasty.metrics()["symphony_requests_in_flight"] == 0)
    wait_until(lambda: hasty.metrics()["symphony_inputs_bytes"] == 0)
    wait_until(lambda: hasty.metrics()["symphony_http_dismissed_total"] >= 2)


def test_idle_connections_stay(hasty):
    """Those that send nothing, fresh or not, for longer than a head may take."""
    with connect(hasty.port) as fresh, connect(hasty.port) as used:
        used.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n")
        used.recv(4096)
        time.sleep(2 * HEAD_TIMEOUT_S)
        for connection in (fresh, used):
            connection.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n")
            assert connection.recv(4096).startswith(b"HTTP/1.1 200")


def test_a_steady_body_is_taken(hasty):
    """For longer than a head may take, at far more than the least rate. In one of ten tries, since who stands still is not steady."""
    body = b" " * 800000 + ONE

    def taken():
        with connect(hasty.port) as connection, contextlib.suppress(ConnectionError):
            connection.sendall((HEAD % len(body)) + body[:40000])
            for at in range(40000, len(body), 40000):
                time.sleep(0.15)
                connection.sendall(body[at:at + 40000])
            return connection.recv(4096).startswith(b"HTTP/1.1 200")
        return False
    assert any(taken() for _ in range(10))


def test_slow_reader(scenario):
    """Takes nothing of an answer that no buffer holds, and is given up when it could have had it at the least rate."""
    body = ONE[:-1] + b',"id":"' + b"x" * (16 << 20) + b'"}'
    with Server("--scenario", scenario, "--head-timeout", 10, "--min-rate-kib", 1 << 20) as running:
        with connect(running.port) as connection:
            connection.sendall(HEAD % len(body) + body)
            wait_until(lambda: running.metrics()["symphony_http_dismissed_total"] == 1)
            wait_until(lambda: running.metrics()["symphony_http_connections"] == 0)


# ---- connections ----

def alive(connection):
    try:
        connection.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n")
        return connection.recv(4096).startswith(b"HTTP/1.1 200")
    except ConnectionError:
        return False


def test_connections_per_address(scenario):
    with Server("--scenario", scenario, "--connections-per-address", 3) as running, contextlib.ExitStack() as stack:
        kept = [stack.enter_context(connect(running.port)) for _ in range(3)]
        assert all(alive(connection) for connection in kept)
        assert not alive(stack.enter_context(connect(running.port)))
        kept.pop().close()
        wait_until(lambda: alive(stack.enter_context(connect(running.port))))


def test_connections_max(scenario):
    """Those that do nothing make way for further ones."""
    with Server("--scenario", scenario, "--connections-max", 8) as running, contextlib.ExitStack() as stack:
        for _ in range(8):
            assert alive(stack.enter_context(connect(running.port)))
        last = stack.enter_context(connect(running.port))
        last.settimeout(600)
        assert alive(last)


def test_connections_are_shared_evenly(scenario):
    """Each thread of four has ten of forty clients, whichever the kernel wakes, and an address its connections of all together."""
    with Server("--scenario", scenario, "--frontends", 4, "--connections-per-address", 41) as running, contextlib.ExitStack() as stack:
        for _ in range(40):
            assert alive(stack.enter_context(connect(running.port)))
        metrics = running.metrics()
        reads = [metrics['symphony_frontend_wait_seconds_count{protocol="http",frontend="%d"}' % thread] for thread in range(4)]
        assert min(reads) >= 10, reads
        assert alive(stack.enter_context(connect(running.port)))
        assert not alive(stack.enter_context(connect(running.port)))


def test_connections_that_have_become_hot_are_shared(scenario):
    """Of two connections that keep a thread busy one goes to the other thread, between two requests."""
    burst = 1000 * b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n"
    with Server("--scenario", scenario, "--frontends", 2) as running, contextlib.ExitStack() as stack:
        def thread_of(connection):
            reads = [[running.metrics()['symphony_frontend_wait_seconds_count{protocol="http",frontend="%d"}' % thread] for thread in range(2)]
                     for _ in range(2) if alive(connection)]
            return int(reads[1][1] > reads[0][1])

        threads = [[], []]
        for connection in [stack.enter_context(connect(running.port)) for _ in range(4)]:
            threads[thread_of(connection)].append(connection)
        hot, end = max(threads, key=len)[:2], threading.Event()

        def flood(connection):
            """Never rests: what counts is how busy the server's thread is."""
            while not end.is_set():
                connection.sendall(burst)
                left = 1000
                while left > 0:
                    got = connection.recv(1 << 20)
                    assert got
                    left -= got.count(b"HTTP/1.1 200")

        def apart():
            """Only these two are asked: if both of the server's threads read, they are apart."""
            pages = []
            for _ in range(2):
                page = running.metrics()
                pages.append([page['symphony_frontend_wait_seconds_count{protocol="http",frontend="%d"}' % thread] for thread in range(2)])
                time.sleep(0.2)
            return all(later > before for before, later in zip(*pages))

        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            floods = [pool.submit(flood, connection) for connection in hot]
            try:
                wait_until(apart)
            finally:
                end.set()
            assert [one.result() for one in floods] == [None, None]


# ---- bodies that become large ----

def test_large_bodies_hold_up_nobody(scenario):
    """Ten small bodies that become 14 MB, and twenty that are large enough for the same threads: each of the ten takes ten
    times as long as all of the twenty. In one of ten tries, since this process may stand still for longer than the ten take."""
    document = b'{"x":[' + b",".join([b"4e-324"] * (16 << 20 >> 3)) + b'],"inputs":' + ONE[len(b'{"inputs":'):]
    packed = zlib.compress(document, 1)
    bomb = (b"POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nContent-Encoding: deflate\r\nContent-Length: %d\r\n\r\n" % len(packed)) + packed
    body = ONE[:-1] + b',"id":"' + b"x" * 50000 + b'"}'

    def overtaken(running):
        """How many of the ten are not answered yet when the twenty are."""
        with contextlib.ExitStack() as stack:
            bombs = [stack.enter_context(connect(running.port)) for _ in range(10)]
            for connection in bombs:
                connection.sendall(bomb)
            with contextlib.closing(http.client.HTTPConnection("127.0.0.1", running.port, timeout=PATIENCE_S)) as good:
                for _ in range(20):
                    good.request("POST", "/v2/models/m/infer", body)
                    answer = good.getresponse()
                    assert answer.status == 200 and answer.read()
            for connection in bombs:
                connection.setblocking(False)
            waiting = 0
            for connection in bombs:
                try:
                    connection.recv(1, socket.MSG_PEEK)
                except BlockingIOError:
                    waiting += 1
            for connection in bombs:
                connection.settimeout(PATIENCE_S)
                assert connection.recv(65536)
            return waiting

    with Server("--scenario", scenario) as running:
        assert any(overtaken(running) for _ in range(10))


# ---- gRPC ----

def infer_message(padding=0):
    given = service_pb2.ModelInferRequest.InferInputTensor(name="INPUT", datatype="FP32", shape=(1, 1))
    return frame(service_pb2.ModelInferRequest(model_name="m", inputs=[given], raw_input_contents=[bytes(4)],
                                               id="x" * padding).SerializeToString())


def works(server):
    with Wire(server) as wire:
        wire.call("ModelInfer", infer_message())
        return wire.trailers()["grpc-status"] == "0"


def test_grpc_what_is_read_too_late_is_not_parsed(tmp_path):
    """A server that does not read for longer than the SLO refuses what came meanwhile, wrong or not."""
    path = tmp_path / "m.yaml"
    path.write_text("cluster: {accelerators: 1}\nmodels: [{name: m, alpha_ms: 1, beta_ms: 1, slo_ms: 500}]\nworkload: {rate_rps: 1}\n")
    wrong = frame(service_pb2.ModelInferRequest(model_name="m", raw_input_contents=[bytes(9)]).SerializeToString())
    with arrivals_noted(), Server("--scenario", path) as running, Wire(running) as wire:
        wire.call("ModelInfer", wrong)
        assert wire.trailers()["grpc-status"] == "3"
        running.hold()
        wire.call("ModelInfer", wrong)
        sent = time.monotonic()
        wait_until(lambda: time.monotonic() > sent + 1)
        running.process.send_signal(signal.SIGCONT)
        trailers = wire.trailers()
        assert trailers["grpc-status"] == "14" and "within its deadline of 500 ms" in trailers["grpc-message"], trailers


def ending_of(wire):
    """Error code and words of the GOAWAY that the connection ends with; None: it ends without."""
    ending = None
    for kind, _, _, payload in wire.frames():
        if kind == GOAWAY:
            ending = int.from_bytes(payload[4:8], "big"), payload[8:]
    return ending


@pytest.mark.parametrize("flood", ["ping", "settings", "empty data", "priority"])
def test_floods(server, flood):
    one = {"ping": (PING, 0, 0, bytes(8)), "settings": (SETTINGS, 0, 0, b""), "empty data": (DATA, 0, 1, b""),
           "priority": (PRIORITY, 0, 1, b"\0\0\0\0\1")}[flood]
    with Wire(server) as wire:
        wire.open("ModelInfer")
        reader = threading.Thread(target=lambda: endings.append(ending_of(wire)))
        endings = []
        reader.start()
        with contextlib.suppress(OSError):
            for _ in range(100):
                wire.socket.sendall((struct.pack(">I", len(one[3]))[1:] + struct.pack(">BBI", *one[:3]) + one[3]) * 1000)
        reader.join()
    assert endings in ([(CALM, b"too_many_pings")], [None])  # a reset may overtake the GOAWAY
    assert works(server)


def test_pings_between_calls_are_no_flood(server):
    with Wire(server) as wire:
        for _ in range(300):
            for _ in range(4):
                wire.send(PING, 0, 0, bytes(8))
            for _ in range(2):
                wire.call("ModelInfer", infer_message())
                assert wire.trailers()["grpc-status"] == "0"


@pytest.mark.parametrize("kind, payload", [(RST_STREAM, CANCEL), (WINDOW_UPDATE, 2**31 - 1)], ids=["reset", "made to reset"])
def test_rapid_reset(server, kind, payload):
    """By the client, or by the server, since the client's window is too large. 20000 at once and 10000 a second are let pass: a machine
    too slow for more serves them, and the call behind them."""
    resets, ending = 100000, "none"
    with Wire(server) as wire:
        first, again = (wire.encoder.encode([(":method", "POST"), (":scheme", "http"), (":authority", "x"), (":path", "/x"),
                                             ("content-type", "application/grpc")]) for _ in range(2))
        attack = []
        for stream in range(1, 2 * resets, 2):
            headers = again if stream > 1 else first
            attack += [struct.pack(">I", len(headers))[1:], struct.pack(">BBI", HEADERS, END_HEADERS, stream), headers,
                       b"\0\0\4", struct.pack(">BBII", kind, 0, stream, payload)]
        wire.stream = stream

        def read():
            nonlocal ending
            for got, flags, stream, content in wire.frames():
                if got == GOAWAY:
                    ending = int.from_bytes(content[4:8], "big"), content[8:]
                elif got == HEADERS and flags & END_STREAM and stream == wire.stream:
                    ending = "answered"
                    return
            ending = "closed" if ending == "none" else ending  # a reset may overtake the GOAWAY
        reader = threading.Thread(target=read)
        reader.start()
        began = time.monotonic()
        with contextlib.suppress(OSError):
            wire.socket.sendall(b"".join(attack))
            wire.call("ModelInfer", infer_message())
        reader.join()
        let_pass = 20000 + 10000 * (time.monotonic() - began + 1)
    assert ending in ((CALM, b"too_many_resets"), "closed", "answered") and (ending != "answered" or resets <= let_pass)
    assert works(server)


def test_continuation_flood(server):
    with Wire(server) as wire:
        with contextlib.suppress(OSError):
            wire.send(HEADERS, 0, 1, wire.encoder.encode([(":method", "POST")]))
            for _ in range(10000):
                wire.send(CONTINUATION, 0, 1, b"\x00\x01a\x01b" * 100)
        assert ending_of(wire) != (0, b"")
    assert works(server)


def test_header_bomb(server):
    """Little on the wire, much when unpacked."""
    with Wire(server) as wire:
        wire.open("ServerLive", [("x", "v" * 1000)] * 60)
        assert wire.trailers()["grpc-status"] == "8"
        wire.call("ModelInfer", infer_message())
        assert wire.trailers()["grpc-status"] == "0"


def test_header_bombs(server):
    """Blocks that name one long field over and over are not read to their end, and who goes on with them is sent away."""
    with Wire(server) as wire:
        with contextlib.suppress(OSError):
            for stream in range(1, 200, 2):
                first = b"\x40\1x\x7f\xbd\x1e" + b"y" * 4028 if stream == 1 else b""  # with indexing: 4028 bytes
                wire.send(HEADERS, END_HEADERS | END_STREAM, stream, first + b"\xbe" * 12000)
            wire.stream = stream
            wire.call("ServerLive", bytes(5))
            wire.socket.shutdown(socket.SHUT_WR)
        for kind, _, stream, payload in wire.frames():  # a reset may overtake the GOAWAY
            assert kind != GOAWAY or (int.from_bytes(payload[4:8], "big"), payload[8:]) == (CALM, b"too_large_headers")
            assert stream < 199
    assert works(server)


def test_slow_message(hasty):
    """It began, and does not go on; it never begins; it is whole, but for the stream's end."""
    half, whole = infer_message(100000)[:1000], infer_message()
    with contextlib.ExitStack() as stack:
        wires = []
        for method, sent in (("ModelInfer", half), ("ModelInfer", b""), ("ModelInfer", whole), ("ModelStreamInfer", half)):
            wires.append(stack.enter_context(Wire(hasty)))
            wires[-1].open(method)
            if sent:
                wires[-1].send(DATA, 0, wires[-1].stream, sent)
        assert [wire.trailers()["grpc-status"] for wire in wires] == ["4"] * 4
        wires[0].open("ModelInfer")  # and the connection goes on
        wires[0].send(DATA, END_STREAM, wires[0].stream, whole)
        assert wires[0].trailers()["grpc-status"] == "0"
    wait_until(lambda: hasty.metrics()["symphony_inputs_bytes"] == 0)


def test_silent_streams_stay(hasty):
    """A stream between its messages may wait."""
    with Wire(hasty) as wire:
        wire.open("ModelStreamInfer")
        wire.send(DATA, 0, wire.stream, infer_message())
        time.sleep(2 * HEAD_TIMEOUT_S)
        wire.send(DATA, END_STREAM, wire.stream, infer_message())
        assert wire.trailers()["grpc-status"] == "0"


def test_slow_preface_and_headers(hasty):
    with connect(hasty.grpc_port) as slow, connect(hasty.grpc_port) as silent, Wire(hasty) as wire:
        wire.send(HEADERS, 0, 1, b"")
        assert trickle(slow, PREFACE + b"x" * 100, every_s=0.2) is not None
        assert rest_of(silent)[3] == SETTINGS  # and then the end
        assert not any(kind == HEADERS for kind, *_ in wire.frames())


def test_a_closed_window(hasty):
    """An answer that the client's window has no room for is given up."""
    with Wire(hasty) as wire:
        wire.send(SETTINGS, 0, 0, struct.pack(">HI", 4, 10))
        wire.call("ModelInfer", infer_message())
        reset = next(payload for kind, _, _, payload in wire.frames() if kind == RST_STREAM)
        assert reset == struct.pack(">I", CANCEL)
    wait_until(lambda: hasty.metrics()["symphony_requests_in_flight"] == 0)


def test_grpc_slow_reader(scenario):
    """Answers that no buffer holds are given up."""
    message = infer_message(3 << 20)
    with Server("--scenario", scenario, "--head-timeout", 10, "--min-rate-kib", 1 << 20) as running, Wire(running) as wire:
        assert next(wire.frames())[0] == SETTINGS
        wire.send(SETTINGS, ACK, 0)  # from now on its windows hold
        wire.send(WINDOW_UPDATE, 0, 0, struct.pack(">I", 2**31 - 65536))
        wire.send(SETTINGS, 0, 0, struct.pack(">HI", 4, 2**31 - 1))
        for _ in range(8):
            wire.open("ModelInfer")
            for at in range(0, len(message), 16384):
                wire.send(DATA, END_STREAM if at + 16384 >= len(message) else 0, wire.stream, message[at:at + 16384])
        wait_until(lambda: running.metrics()["symphony_request_bytes_total"] >= 8 * len(message) - 100)
        wait_until(lambda: running.metrics()["symphony_requests_in_flight"] == 0)


def test_grpc_connections_per_address(scenario):
    with Server("--scenario", scenario, "--connections-per-address", 3) as running, contextlib.ExitStack() as stack:
        kept = [stack.enter_context(Wire(running)) for _ in range(3)]
        assert all(next(one.frames())[0] == SETTINGS for one in kept)  # threads take them in any order
        with connect(running.grpc_port) as refused:
            assert rest_of(refused) == b""
        kept.pop().socket.close()
        wait_until(lambda: running.metrics()["symphony_grpc_connections"] == 2)
        assert works(running)


def test_grpc_connections_max(scenario):
    with Server("--scenario", scenario, "--connections-max", 8) as running, contextlib.ExitStack() as stack:
        for _ in range(8):
            next(stack.enter_context(Wire(running)).frames())
        assert works(running)


def test_grpc_idle(scenario):
    """A connection without calls goes with a GOAWAY; one with a stream stays."""
    with Server("--scenario", scenario, "--idle-timeout", 5) as running, Wire(running) as idle, Wire(running) as busy:
        busy.open("ModelStreamInfer")
        assert ending_of(idle) == (0, b"")
        busy.send(DATA, END_STREAM, busy.stream, infer_message())
        assert busy.trailers()["grpc-status"] == "0"


def test_grpc_age(scenario):
    """A connection that is old is told so by two GOAWAYs: until the second it takes calls. Then those that it has go on, and it
    ends with the last."""
    with Server("--scenario", scenario, "--grpc-max-age", 3) as running, Wire(running) as old, Wire(running) as empty:
        old.open("ModelStreamInfer")
        lasts = []
        while len(lasts) < 2:
            for kind, _, _, payload in old.frames_for(0.2):
                if kind == GOAWAY:
                    last, error = struct.unpack(">II", payload[:8])
                    assert error == 0
                    lasts.append(last)
        assert lasts == [2**31 - 1, old.stream]
        old.socket.settimeout(600)
        old.send(DATA, END_STREAM, old.stream, infer_message())
        assert old.trailers()["grpc-status"] == "0"
        wait_until(lambda: running.metrics()["symphony_grpc_connections"] == 0)
        assert works(running)


def own_ends(port):
    """Ports of this machine's connections to a port, as far as they are open."""
    rows = []
    for family in ("tcp", "tcp6"):
        with contextlib.suppress(FileNotFoundError), open("/proc/self/net/" + family) as file:
            rows += [line.split() for line in file][1:]
    return {row[1] for row in rows if int(row[2].split(":")[1], 16) == port and row[3] == "01"}


def test_grpc_age_costs_a_client_nothing(scenario):
    """gRPC's own client goes on over one new connection after the other; a stream that was opened over the first goes on there."""
    request = service_pb2.ModelInferRequest.FromString(infer_message()[5:])
    asked = queue.Queue()
    with Server("--scenario", scenario, "--grpc-max-age", 1) as running,             grpc.insecure_channel(f"127.0.0.1:{running.grpc_port}") as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        stream = stub.ModelStreamInfer(iter(asked.get, None))
        asked.put(request)
        assert next(stream).infer_response.model_name == "m"
        ends = set()
        deadline = time.monotonic() + 600
        while len(ends) < 4 and time.monotonic() < deadline:
            assert stub.ModelInfer(request, timeout=600).model_name == "m"
            ends |= own_ends(running.grpc_port)
            time.sleep(0.01)
        assert len(ends) >= 4
        asked.put(request)
        assert next(stream).infer_response.model_name == "m"
        asked.put(None)
        assert list(stream) == []


def so_many_end(wires, count):
    """Waits until so many calls of these connections have ended, UNAVAILABLE, and no more."""
    ended = 0

    def look():
        nonlocal ended
        for wire in wires:
            for kind, flags, _, payload in wire.frames_for(0.2):
                headers = dict(wire.decoder.decode(payload)) if kind == HEADERS else {}
                if kind == HEADERS and flags & END_STREAM:
                    assert headers["grpc-status"] == "14"
                    ended += 1
        return ended >= count
    wait_until(look)
    look()
    assert ended == count


def test_idle_streams_make_way(scenario):
    with Server("--scenario", scenario) as running, contextlib.ExitStack() as stack:
        wires = [stack.enter_context(Wire(running)) for _ in range(15)]
        for wire in wires:
            for _ in range(1000):
                wire.open("ModelStreamInfer")
        so_many_end(wires[:1], 15000 - 16384 * 7 // 8)
        assert works(running)


def test_watchers(server):
    with Wire(server) as first, Wire(server) as second:
        for wire in (first, second):
            for _ in range(1000):
                wire.call("Watch", frame(b""), path="/grpc.health.v1.Health/Watch")
        so_many_end((first, second), 2000 - 1024)
    wait_until(lambda: server.metrics()["symphony_grpc_connections"] == 0)
    with Wire(server) as wire:  # those that are gone make room
        wire.call("Watch", frame(b""), path="/grpc.health.v1.Health/Watch")
        assert any(kind == DATA and payload == frame(b"\x08\x01") for kind, _, _, payload in wire.frames())
