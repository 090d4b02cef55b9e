"""test_hold.py - clients that hold what others need, and do nothing with it: memory of answers, places of requests, connections. What
they hold is theirs for a short time, or until somebody needs it."""
# sanitizers: address
import concurrent.futures
import contextlib
import resource
import socket
import struct
import threading
import time

import pytest

from server import Server, wait_until
from test_grpc import (ACK, DATA, END_HEADERS, END_STREAM, HEADERS, PREFACE, RST_STREAM, SETTINGS, WINDOW_UPDATE, Wire,
                       frame)
from test_limits import CANCEL, HEAD, ONE, connect, infer_message

PATIENCE_S = 600
MIB = 1 << 20


def long_request(mib):
    """Its answer is as long, since the id comes back."""
    body = ONE[:-1] + b',"id":"' + b"x" * (mib * MIB) + b'"}'
    return HEAD % len(body) + body


def ask(server, stack, request):
    """Does not read the answer."""
    connection = stack.enter_context(socket.socket())
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
    connection.settimeout(PATIENCE_S)
    connection.connect(("127.0.0.1", server.port))
    connection.sendall(request)
    return connection


def take(connection, length, rest_s=0):
    """Reads so many bytes; False: the connection ended before."""
    with contextlib.suppress(ConnectionResetError):
        while length > 0 and (got := connection.recv(min(length, 100 * 1024))):
            length -= len(got)
            time.sleep(rest_s)
    return length == 0


# ---- answers that nobody takes ----

def test_who_read_fast_and_stalls_is_slow(scenario):
    """Half of an answer at once buys no time for the other half. In one of ten tries, since who stands still as he sends is slow, too."""
    def dismissed():
        with Server("--scenario", scenario, "--head-timeout", 2, "--min-rate-kib", 1) as server, contextlib.ExitStack() as stack:
            with contextlib.suppress(ConnectionError):
                if take(ask(server, stack, long_request(16)), 8 * MIB):
                    wait_until(lambda: server.metrics()["symphony_http_dismissed_total"] == 1, PATIENCE_S)
                    return True
        return False
    assert any(dismissed() for _ in range(10))


def test_a_window_that_was_open_and_closes_is_slow(scenario):
    """The same over gRPC, for a call, while others of the connection go on."""
    message = infer_message(MIB)
    with Server("--scenario", scenario, "--head-timeout", 2, "--min-rate-kib", 1) as server, Wire(server) as wire:
        wire.socket.settimeout(PATIENCE_S)
        assert next(wire.frames())[0] == SETTINGS
        wire.send(SETTINGS, ACK, 0)  # from now on its windows hold
        wire.send(SETTINGS, 0, 0, struct.pack(">HI", 4, MIB // 2))
        wire.send(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1 << 30))
        stalled = wire.open("ModelInfer")
        for at in range(0, len(message), 16384):
            wire.send(DATA, END_STREAM if at + 16384 >= len(message) else 0, stalled, message[at:at + 16384])
        for kind, _, stream, payload in wire.frames():
            if kind == HEADERS:
                wire.decoder.decode(payload)
            if kind == RST_STREAM:
                assert (stream, payload) == (stalled, struct.pack(">I", CANCEL))
                break
        wire.call("ModelInfer", infer_message())
        assert wire.trailers()["grpc-status"] == "0"


def slow_one_gets_all(scenario):
    """Whether it did, beside five that take nothing."""
    request = long_request(16)
    with Server("--scenario", scenario, "--head-timeout", 3600, "--answers-max-mib", 40) as server, contextlib.ExitStack() as stack:
        slow, over, done = ask(server, stack, request), threading.Event(), []

        def read():
            """The last 4 MiB a little at a time, until the others have gone."""
            done.append(take(slow, 12 * MIB, 0.02))
            left = 4 * MIB
            while done[0] and left > 1024 and not over.wait(0.02):
                done[0] = take(slow, 1024)
                left -= 1024
            done[0] = done[0] and take(slow, left)
        reader = threading.Thread(target=read)
        reader.start()
        for _ in range(5):
            ask(server, stack, request)
        try:
            wait_until(lambda: server.metrics()["symphony_http_dismissed_total"] >= 4, PATIENCE_S)
        finally:
            over.set()
        reader.join()
        assert not done[0] or server.metrics()["symphony_http_dismissed_total"] == 4
        return done[0]


def test_of_all_answers_so_much_is_kept(scenario):
    """When it is more, connections whose clients take nothing end; who reads slowly gets all. In one of ten tries, since this process
    takes nothing either while it stands still."""
    assert any(slow_one_gets_all(scenario) for _ in range(10))


# ---- slots of requests ----

SLOTS = 8192


def answers(server):
    """Health and an inference, over both protocols."""
    health = server.request("GET", "/v2/health/ready")[0] == 200
    with Wire(server) as wire:
        wire.call("Check", frame(b""), path="/grpc.health.v1.Health/Check")
        health = health and wire.trailers()["grpc-status"] == "0"
        wire.call("ModelInfer", infer_message())
        return health and wire.trailers()["grpc-status"] == "0" and server.request(
            "POST", "/v2/models/m/infer", ONE)[0] == 200


def test_first_bytes_of_many_calls(scenario):
    """A byte each of 17 connections' calls, as many as there may be: they take neither the slots nor the calls of others."""
    with Server("--scenario", scenario, "--head-timeout", 3600) as server, contextlib.ExitStack() as stack:
        for path in ("/inference.GRPCInferenceService/ModelInfer", "/grpc.health.v1.Health/Check"):
            for _ in range(17):
                wire = stack.enter_context(Wire(server))
                sent = []
                for _ in range(1000):
                    wire.stream += 2
                    headers = wire.encoder.encode([(":method", "POST"), (":scheme", "http"), (":authority", "x"), (":path", path),
                                                   ("content-type", "application/grpc"), ("te", "trailers")])
                    sent += [struct.pack(">I", len(headers))[1:], struct.pack(">BBI", HEADERS, END_HEADERS, wire.stream), headers,
                             b"\0\0\1", struct.pack(">BBI", DATA, 0, wire.stream), b"\0"]
                wire.socket.sendall(b"".join(sent))
            wait_until(lambda: server.metrics()["symphony_requests_in_flight"] >= SLOTS * 7 // 8, PATIENCE_S)
            for _ in range(10):
                assert answers(server)


def test_announced_bodies(scenario):
    """Connections that announce bodies and send none, more than there are slots."""
    few, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY and most < 2 * SLOTS:
        pytest.skip("the limit of open files is too low")
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with Server("--scenario", scenario, "--head-timeout", 3600) as server, contextlib.ExitStack() as stack:
        def announce(_):
            connection = connect(server.port)
            connection.sendall(HEAD % 100000)
            return connection
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for connection in pool.map(announce, range(SLOTS + 100)):
                stack.callback(connection.close)
        wait_until(lambda: server.metrics()["symphony_requests_in_flight"] >= SLOTS * 7 // 8, PATIENCE_S)
        for _ in range(10):
            assert answers(server)
    resource.setrlimit(resource.RLIMIT_NOFILE, (few, most))


def test_a_large_message_makes_way_for_a_smaller_one(scenario):
    """Where there is memory for one of them as they grow: the first has come but for its end."""
    large, small = infer_message(15 * MIB), infer_message(14 * MIB)
    with Server("--scenario", scenario, "--head-timeout", 3600, "--inputs-max-mib", 40) as server, Wire(server) as first, \
            Wire(server) as second:
        for wire, message in ((first, large[:-1]), (second, small)):
            wire.socket.settimeout(PATIENCE_S)
            assert next(wire.frames())[0] == SETTINGS
            wire.send(SETTINGS, ACK, 0)  # from now on its windows hold
            wire.open("ModelInfer")
            for at in range(0, len(message), 16384):
                wire.send(DATA, 0, wire.stream, message[at:at + 16384])
            if wire == first:
                wait_until(lambda: server.metrics()["symphony_inputs_bytes"] >= len(message), PATIENCE_S)
        second.send(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1 << 30))
        second.send(WINDOW_UPDATE, 0, second.stream, struct.pack(">I", 1 << 30))
        second.send(DATA, END_STREAM, second.stream)
        assert second.trailers()["grpc-status"] == "0"
        assert first.trailers()["grpc-status"] == "14"


# ---- connections ----

def told(server):
    """Whether probes over both protocols are answered, and metrics are."""
    server.metrics()
    with Wire(server) as wire:
        wire.socket.settimeout(PATIENCE_S)
        wire.call("Check", frame(b""), path="/grpc.health.v1.Health/Check")
        health = wire.trailers()["grpc-status"] == "0"
    return health and all(server.request("GET", "/v2/health/" + what, timeout=PATIENCE_S)[0] == 200 for what in ("live", "ready"))


@pytest.mark.parametrize("frontends", [1, 2])
def test_half_heads(scenario, frontends):
    """On each port more of them than connections may be: whoever comes is let in, and the oldest of them ends."""
    with Server("--scenario", scenario, "--head-timeout", 3600, "--connections-max", 64, "--frontends",
                frontends) as server, contextlib.ExitStack() as stack:
        assert told(server)
        for port, half in ((server.port, b"GET /v2/health/live HTTP/1.1\r\nHo"), (server.grpc_port, PREFACE[:9]),
                           (server.metrics_port, b"GET /metrics HTTP/1.1\r\nHo")):
            for _ in range(96):
                stack.enter_context(connect(port)).sendall(half)
        for _ in range(3):
            assert told(server)


def test_connections_with_requests(tmp_path):
    """Where all of them wait for answers nobody makes way: who comes is told of health, and nothing else."""
    scenario = tmp_path / "stuck.yaml"
    scenario.write_text("cluster: {accelerators: 1, type: test}\n"
                        "models:\n  - {name: m, alpha_ms: 600000, beta_ms: 600000, slo_ms: 3600000}\n"
                        "workload: {rate_rps: 10}\n")
    with Server("--scenario", scenario, "--connections-max", 8) as server, contextlib.ExitStack() as stack:
        for _ in range(8):
            stack.enter_context(connect(server.port)).sendall(HEAD % len(ONE) + ONE)
            stack.enter_context(Wire(server)).call("ModelInfer", infer_message())
        wait_until(lambda: server.metrics()["symphony_requests_in_flight"] == 16)
        for _ in range(3):
            assert told(server)
            status, _, body = server.request("POST", "/v2/models/m/infer", ONE)
            assert status == 503 and b"as many connections as it may: 8" in body
            with Wire(server) as wire:
                wire.call("ModelInfer", infer_message())
                assert wire.trailers()["grpc-status"] == "14"
        assert server.metrics()["symphony_requests_in_flight"] == 16
