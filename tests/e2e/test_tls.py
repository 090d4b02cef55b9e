"""test_tls.py - TLS on both ports: who is let in, which versions, new certificates without a restart, rude clients."""
# sanitizers: address thread
import contextlib
import itertools
import json
import os
import pathlib
import re
import signal
import socket
import ssl
import subprocess
import threading

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.grpc import service_pb2, service_pb2_grpc

from certificates import Authority
from clients import find
from server import BINARY, Server, wait_until

ONE = b'{"inputs":[{"name":"INPUT","shape":[1,1],"datatype":"FP32","data":[0]}]}'


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture(scope="module")
def authority(folder):
    return Authority(folder)


@pytest.fixture(scope="module")
def pair(authority):
    return authority.sign("server")


@pytest.fixture(scope="module")
def server(scenario, pair):
    with Server("--scenario", scenario, "--tls-cert", pair[0], "--tls-key", pair[1]) as running:
        yield running


@pytest.fixture(scope="module")
def mutual(scenario, pair, authority):
    with Server("--scenario", scenario, "--tls-cert", pair[0], "--tls-key", pair[1], "--tls-client-ca",
                authority.path) as running:
        yield running


def context_of(authority, pair=None, alpn=None):
    context = ssl.create_default_context(cafile=authority.path)
    if pair:
        context.load_cert_chain(*pair)
    if alpn:
        context.set_alpn_protocols(alpn)
    return context


def connect(port, context):
    return context.wrap_socket(socket.create_connection(("127.0.0.1", port), timeout=600), server_hostname="localhost")


def answer_of(connection, request):
    """The status and body of one HTTP request on an open connection."""
    connection.sendall(request)
    answer = b""
    while b"\r\n\r\n" not in answer:
        part = connection.recv(65536)
        if not part:
            raise ConnectionError("closed")
        answer += part
    head, body = answer.split(b"\r\n\r\n", 1)
    length = int(next(line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")).split()[1])
    while len(body) < length:
        body += connection.recv(65536)
    return int(head.split()[1]), body


def infer_request(body=ONE, extra=b""):
    return b"POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\n%sContent-Length: %d\r\n\r\n%s" % (extra, len(body), body)


def channel_to(server, authority, pair=None):
    read = lambda path: path.read_bytes()
    credentials = grpc.ssl_channel_credentials(read(authority.path), *([read(pair[1]), read(pair[0])] if pair else []))
    return grpc.secure_channel(f"localhost:{server.grpc_port}", credentials,
                               options=[("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)])


def grpc_request(items=1):
    given = service_pb2.ModelInferRequest.InferInputTensor(name="INPUT", datatype="FP32", shape=(items, 1))
    return service_pb2.ModelInferRequest(model_name="m", inputs=[given],
                                         raw_input_contents=[np.zeros((items, 1), np.float32).tobytes()])


# ---- who gets in ----

def test_http(server, authority):
    with connect(server.port, context_of(authority)) as connection:
        for _ in range(20):
            status, body = answer_of(connection, infer_request())
            assert status == 200 and b"OUTPUT" in body


def test_http_large_bodies(server, authority):
    """Larger than a record, than what is received at once, and than the socket's; several at once."""
    def ask():
        with connect(server.port, context_of(authority)) as connection:
            for kib in (15, 33, 100, 3000):
                status, body = answer_of(connection, infer_request(b" " * (kib << 10) + ONE))
                statuses.append(status)
    statuses = []
    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [200] * 16


def test_grpc(server, authority):
    with channel_to(server, authority) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        for _ in range(20):
            assert stub.ModelInfer(grpc_request()).outputs[0].name == "OUTPUT"
        padding = service_pb2.ModelInferRequest(id="x" * (3 << 20))  # the head is larger than the windows' first part
        padding.MergeFrom(grpc_request())
        assert len(stub.ModelInfer(padding).id) == 3 << 20


def test_triton_client(server, authority):
    with triton.InferenceServerClient(f"localhost:{server.grpc_port}", ssl=True,
                                      root_certificates=str(authority.path)) as client:
        assert client.is_server_ready() and client.is_model_ready("m")


def test_plain_text_is_turned_away(server):
    for port in (server.port, server.grpc_port):
        with socket.create_connection(("127.0.0.1", port), timeout=600) as connection:
            connection.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n")
            try:
                assert not connection.recv(4096).startswith(b"HTTP")
            except ConnectionResetError:
                pass


def test_versions(server, authority):
    for port, alpn in ((server.port, ["http/1.1"]), (server.grpc_port, ["h2"])):
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context = context_of(authority, alpn=alpn)
            context.minimum_version = context.maximum_version = version
            with connect(port, context) as connection:
                assert connection.selected_alpn_protocol() == alpn[0]
        context = context_of(authority, alpn=alpn)
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
        context.set_ciphers("ALL:@SECLEVEL=0")
        with pytest.raises((ssl.SSLError, ConnectionResetError)):
            connect(port, context)


def test_alpn_must_match(server, authority):
    for port, alpn in ((server.grpc_port, ["http/1.1"]), (server.grpc_port, ["http/1.0"]), (server.port, ["h2"])):
        with pytest.raises((ssl.SSLError, ConnectionResetError)):
            connect(port, context_of(authority, alpn=alpn))
    for alpn in ("http/1.0", "http/1.1"):
        with connect(server.port, context_of(authority, alpn=["h2", alpn])) as connection:
            assert connection.selected_alpn_protocol() == alpn
            connection.sendall(b"GET /v2/health/live %s\r\nHost: x\r\n\r\n" % alpn.upper().encode())
            assert connection.recv(4096).startswith(b"HTTP/1.1 200")


def test_client_certificates(mutual, authority, folder):
    known = authority.sign("client")
    stranger = Authority(folder, "stranger").sign("intruder")
    with connect(mutual.port, context_of(authority, known)) as connection:
        assert answer_of(connection, infer_request())[0] == 200
    with channel_to(mutual, authority, known) as channel:
        service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(grpc_request())
    for pair in (None, stranger):
        with pytest.raises((ssl.SSLError, ConnectionError)):
            with connect(mutual.port, context_of(authority, pair)) as connection:
                answer_of(connection, infer_request())
        with channel_to(mutual, authority, pair) as channel, pytest.raises(grpc.RpcError) as failed:
            service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(grpc_request(), timeout=600)
        assert failed.value.code() == grpc.StatusCode.UNAVAILABLE


# ---- metrics ----

def scrape(*options):
    """What curl says of the metrics page: the page, or None."""
    run = subprocess.run(["curl", "-sS", "--max-time", "120", *map(str, options)], capture_output=True, text=True)
    return run.stdout if run.returncode == 0 else None


@pytest.fixture(scope="module")
def metrics(scenario, pair, authority, folder):
    (folder / "token").write_text("alpha\n")
    with Server("--scenario", scenario, "--tls-cert", pair[0], "--tls-key", pair[1], "--tls-client-ca", authority.path,
                "--tls-metrics", "--auth-token-file", folder / "token", "--auth-metrics") as running:
        yield running


def test_metrics_are_plain_unless_asked_for(mutual):
    assert "symphony_info" in scrape(f"http://localhost:{mutual.metrics_port}/metrics")


def test_probes_without_a_certificate_ask_the_metrics_port(mutual):
    for what in ("live", "ready"):
        assert json.loads(scrape(f"http://localhost:{mutual.metrics_port}/v2/health/{what}")) == {what: True}


def test_metrics_over_tls(metrics, authority):
    certificate, key = authority.sign("prometheus")
    url = f"https://localhost:{metrics.metrics_port}/metrics"
    trust, identity, token = ["--cacert", authority.path], ["--cert", certificate, "--key", key], ["-H", "X-Api-Key: alpha"]
    page = scrape(url, *trust, *identity, *token)
    assert "symphony_info" in page
    if find("promtool"):
        checked = subprocess.run([find("promtool"), "check", "metrics"], input=page, capture_output=True, text=True, timeout=600)
        assert "error" not in checked.stderr.lower(), checked.stderr
    assert "needs a token" in scrape(url, *trust, *identity)
    assert scrape(url, *trust, *token) is None  # no certificate
    assert scrape(url, *identity, *token) is None  # not trusted
    assert scrape(url.replace("https", "http"), *token) is None
    shown = subprocess.run([BINARY, "status", url.removesuffix("/metrics"), *trust, *identity, "--token", "alpha"], capture_output=True, text=True)
    assert shown.returncode == 0 and "MODEL" in shown.stdout, shown
    for options, why in ((identity, "certificate"), (trust, "")):  # not trusted; no certificate
        shown = subprocess.run([BINARY, "status", url.removesuffix("/metrics"), *options, "--token", "alpha"], capture_output=True, text=True)
        assert shown.returncode == 1 and why in shown.stderr, shown
    run = bench(metrics, *trust, *identity, "--token", "alpha", "--metrics", url)
    assert run.returncode == 0 and json.loads(run.stdout)["batch_mean"] >= 1, run.stderr


@pytest.mark.skipif(not find("promtool"), reason="promtool (Debian: prometheus) is not installed")
def test_the_documents_prometheus_configuration(authority, folder, metrics):
    """The files that it names are there, as in the test before."""
    text = (pathlib.Path(__file__).parent.parent.parent / "docs" / "security.md").read_text()
    authority.sign("prometheus")
    (folder / "prometheus.yaml").write_text(re.search(r"```yaml\n(scrape_configs:.*?)```", text, re.S)[1])
    run = subprocess.run([find("promtool"), "check", "config", folder / "prometheus.yaml"], capture_output=True, text=True)
    assert run.returncode == 0 and "SUCCESS" in run.stdout, run.stdout + run.stderr


# ---- symphony bench ----

def bench(server, *options, host="localhost"):
    return subprocess.run([BINARY, "bench", f"https://{host}:{server.port}", "--rate", "100", "--seconds", "0.5", "--warmup",
                           "0", "--grace", "300", "--json", *map(str, options)], capture_output=True, text=True, timeout=600)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_bench(server, authority, host):
    run = bench(server, "--cacert", authority.path, "--metrics", f"http://127.0.0.1:{server.metrics_port}/metrics", host=host)
    assert run.returncode == 0, run.stderr
    result = json.loads(run.stdout)
    assert result["requests"] > 0 and result["error_rate"] == 0 and result["batch_mean"] >= 1


def test_bench_with_bodies_larger_than_a_record(server, authority):
    run = bench(server, "--cacert", authority.path, "--items", 16, "--json-tensors", "--outputs", "json")
    assert run.returncode == 0 and json.loads(run.stdout)["error_rate"] == 0, run.stderr


def test_bench_says_which_certificate_it_refuses_and_why(server, folder, authority, pair):
    stranger = Authority(folder, "bench-stranger")
    unknown = bench(server, "--cacert", stranger.path)
    assert unknown.returncode == 1
    assert "certificate (subject 'CN=server', issuer 'CN=authority') is refused" in unknown.stderr
    assert "issuer is unknown" in unknown.stderr
    other_host = bench(server, "--cacert", authority.path, host="127.1")  # no name of its
    assert other_host.returncode == 1 and "does not match" in other_host.stderr
    assert bench(server, "--insecure").returncode == 0
    missing = bench(server, "--cacert", folder / "none.pem")
    assert missing.returncode == 2 and "none.pem': No such file" in missing.stderr
    mismatch = bench(server, "--cert", pair[0], "--key", stranger.key)
    assert mismatch.returncode == 2 and "cannot be used" in mismatch.stderr


def test_bench_that_speaks_the_wrong_protocol(server, authority):
    plain = subprocess.run([BINARY, "bench", f"http://localhost:{server.port}", "--closed", "1"], capture_output=True, text=True)
    assert plain.returncode == 1 and "https://" in plain.stderr
    run = subprocess.run([BINARY, "bench", f"https://localhost:{server.metrics_port}", "--closed", "1", "--cacert",
                          authority.path], capture_output=True, text=True)
    assert run.returncode == 1 and "TLS" in run.stderr


def test_bench_with_a_certificate_of_its_own(mutual, authority):
    certificate, key = authority.sign("bench")
    assert bench(mutual, "--cacert", authority.path, "--cert", certificate, "--key", key).returncode == 0
    without = bench(mutual, "--cacert", authority.path)
    assert without.returncode == 1 and without.stderr


# ---- new certificates ----

def serial_of(port, authority, alpn):
    with connect(port, context_of(authority, alpn=alpn)) as connection:
        return connection.getpeercert()["serialNumber"]


def test_reload(scenario, authority, folder):
    def replace(pair):
        for path, given in zip((certificate, key), pair):
            path.write_bytes(given.read_bytes())
        running.process.send_signal(signal.SIGHUP)

    certificate, key = folder / "current.pem", folder / "current.key"
    for path, given in zip((certificate, key), authority.sign("first")):
        path.write_bytes(given.read_bytes())
    with Server("--scenario", scenario, "--tls-cert", certificate, "--tls-key", key) as running:
        ports = ((running.port, ["http/1.1"]), (running.grpc_port, ["h2"]))
        before = {serial_of(port, authority, alpn) for port, alpn in ports}
        with connect(running.port, context_of(authority)) as kept, channel_to(running, authority) as channel:
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            stub.ModelInfer(grpc_request())
            assert answer_of(kept, infer_request())[0] == 200
            replace(authority.sign("second"))
            wait_until(lambda: {serial_of(port, authority, alpn) for port, alpn in ports}.isdisjoint(before))
            assert answer_of(kept, infer_request())[0] == 200
            stub.ModelInfer(grpc_request())
        now = {serial_of(port, authority, alpn) for port, alpn in ports}
        replace((authority.path, key))  # not its key
        wait_until(lambda: "certificates stay as they were" in running.log_text())
        assert {serial_of(port, authority, alpn) for port, alpn in ports} == now
        assert running.stop() == 0


# ---- mistakes at the start ----

@pytest.mark.parametrize("mistake", ["missing", "no certificate", "no key", "other key", "encrypted", "half", "metrics",
                                     "no ca"])
def test_mistakes_name_the_file(mistake, scenario, authority, pair, folder):
    rubbish, encrypted = folder / "rubbish.pem", folder / "encrypted.key"
    rubbish.write_text("this is no certificate\n")
    certificate, key = pair
    if mistake == "encrypted":
        subprocess.run(["openssl", "pkcs8", "-topk8", "-in", key, "-out", encrypted, "-passout", "pass:secret"],
                       check=True, capture_output=True)
    arguments, named = {
        "missing": (["--tls-cert", folder / "none.pem", "--tls-key", key], "none.pem': No such file"),
        "no certificate": (["--tls-cert", rubbish, "--tls-key", key], "rubbish.pem' holds no certificate"),
        "no key": (["--tls-cert", certificate, "--tls-key", rubbish], "rubbish.pem' holds no private key"),
        "other key": (["--tls-cert", certificate, "--tls-key", authority.key], "authority.key' is not that of"),
        "encrypted": (["--tls-cert", certificate, "--tls-key", encrypted], "encrypted.key' is encrypted"),
        "half": (["--tls-cert", certificate], "--tls-cert and --tls-key go together"),
        "metrics": (["--tls-metrics"], "--tls-metrics needs --tls-cert"),
        "no ca": (["--tls-cert", certificate, "--tls-key", key, "--tls-client-ca", rubbish], "rubbish.pem' holds no"),
    }[mistake]
    run = subprocess.run([BINARY, "serve", "--scenario", scenario, *arguments], capture_output=True, text=True,
                         timeout=600)
    assert run.returncode == 2 and named in run.stderr


# ---- rude clients ----

def test_broken_handshakes(server, authority):
    """Cut off anywhere, or continued with rubbish: the server goes on."""
    for port in (server.port, server.grpc_port):
        recorded = hello_of(authority)
        for cut in (1, 5, 6, 50, len(recorded) - 1):
            with socket.create_connection(("127.0.0.1", port), timeout=600) as connection:
                connection.sendall(recorded[:cut])
        for rubbish in (b"\x16\x03\x01\xff\xff" + b"x" * 70000, recorded + b"\x17\x03\x03\x00\x10" + bytes(16), bytes(300)):
            with socket.create_connection(("127.0.0.1", port), timeout=600) as connection:
                try:
                    connection.sendall(rubbish)
                    while connection.recv(65536):
                        pass
                except ConnectionError:
                    pass
    with connect(server.port, context_of(authority)) as connection:
        assert answer_of(connection, infer_request())[0] == 200
    with channel_to(server, authority) as channel:
        service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(grpc_request())
    wait_until(lambda: server.metrics()["symphony_grpc_connections"] <= 1)


def hello_of(authority):
    """What a client sends first."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context_of(authority, alpn=["h2", "http/1.1"]).wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def test_unfinished_handshakes(scenario, pair, authority):
    """Half a hello, all of it and then nothing, or nothing at all: closed when a head is due, but for who never began."""
    hello = hello_of(authority)
    with Server("--scenario", scenario, "--tls-cert", pair[0], "--tls-key", pair[1], "--head-timeout", 5) as running:
        unfinished = []
        for port, sent in itertools.product((running.port, running.grpc_port), (hello[:100], hello)):
            unfinished.append(socket.create_connection(("127.0.0.1", port), timeout=600))
            unfinished[-1].sendall(sent)
        unfinished.append(socket.create_connection(("127.0.0.1", running.grpc_port), timeout=600))
        for connection in unfinished:
            with connection:
                while connection.recv(65536):
                    pass
        with connect(running.port, context_of(authority)) as connection:
            assert answer_of(connection, infer_request())[0] == 200


def test_bytes_one_by_one(server, authority):
    """A handshake and a request of single bytes."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context_of(authority, alpn=["http/1.1"]).wrap_bio(incoming, outgoing, server_hostname="localhost")
    with socket.create_connection(("127.0.0.1", server.port), timeout=600) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def send():
            for byte in outgoing.read():
                connection.sendall(bytes([byte]))

        def until_done(step):
            while True:
                try:
                    return step()
                except ssl.SSLWantReadError:
                    send()
                    incoming.write(connection.recv(65536))
        until_done(client.do_handshake)
        client.write(b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n")
        send()
        assert until_done(lambda: client.read(4096)).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("fin", [False, True])
def test_a_client_that_ends_its_sending_side_is_answered(server, authority, version, fin):
    """As `ncat --ssl` does: all that it asked for before, and the connection ends then."""
    context = context_of(authority, alpn=["http/1.1"])
    context.maximum_version = version
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with socket.create_connection(("127.0.0.1", server.port), timeout=600) as connection:
        def until_done(step):
            while True:
                with contextlib.suppress(ssl.SSLWantReadError):
                    return step()
                if said := outgoing.read():
                    connection.sendall(said)
                incoming.write(connection.recv(65536))
        until_done(client.do_handshake)
        for _ in range(5):
            client.write(infer_request())
        with contextlib.suppress(ssl.SSLWantReadError):
            client.unwrap()
        connection.sendall(outgoing.read())
        if fin:
            connection.shutdown(socket.SHUT_WR)
        got = b""
        with contextlib.suppress(ssl.SSLZeroReturnError):
            while part := until_done(lambda: client.read(65536)):
                got += part
    assert got.count(b"HTTP/1.1 200 ") == 5


def test_many_connections(server, authority):
    """Each with a handshake of its own; nothing stays behind."""
    descriptors = lambda: len(os.listdir(f"/proc/{server.process.pid}/fd"))
    before = descriptors()
    for _ in range(20):
        with connect(server.port, context_of(authority)) as connection:
            assert answer_of(connection, infer_request())[0] == 200
        with connect(server.grpc_port, context_of(authority, alpn=["h2"])) as connection:
            connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
            assert connection.recv(9)[3] == 4  # SETTINGS
    wait_until(lambda: descriptors() <= before)
