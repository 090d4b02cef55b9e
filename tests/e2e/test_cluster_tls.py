"""test_cluster_tls.py - mutual TLS of a cluster's links: who gets in, who does not, and what strangers cost."""
# sanitizers: address thread

import contextlib
import json
import os
import resource
import signal
import socket
import ssl
import struct
import subprocess
import threading

import pytest

from certificates import Authority
from server import BINARY, wait_until
from test_cluster_status import Cluster, complete, members, shared  # noqa: F401 (of the cluster `lasting` below)

HELLO, WELCOME, REFUSED = 1, 2, 3  # src/cluster/peer/wire.h
ALPN = "symphony-cluster"
STRANGERS = 1000
PATIENT = "--heartbeat-ms", "20000"  # options with which nobody looks dead who stands still for a minute
PAUSE_S = 0.01 if os.environ.get("SYMPHONY_SANITIZED") else 0.004  # between them: a slow program has fewer


def options(pair, authority):
    return ["--cluster-cert", str(pair[0]), "--cluster-key", str(pair[1]), "--cluster-ca", str(authority.path)]


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def member(authority):
    return authority.sign("member")


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """Another cluster's authority, and a member of that."""
    folder = tmp_path_factory.mktemp("other")
    made = Authority(folder, "other")
    return made, made.sign("intruder")


@contextlib.contextmanager
def tls_cluster(folder, authority, member, more=()):
    made = Cluster(folder, secret=options(member, authority), backend=("--transport", "tcp"), options=more)
    try:
        yield made
    finally:
        made.kill()


@pytest.fixture(scope="module")
def lasting(tmp_path_factory, authority, member):
    with tls_cluster(tmp_path_factory.mktemp("lasting"), authority, member, PATIENT) as made:
        yield made


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """A cluster whose links are plain text."""
    made = Cluster(tmp_path_factory.mktemp("plain"))
    yield made
    made.kill()


def cluster_ports(cluster):
    """Where strangers may knock: at the scheduler's, and at the frontend's."""
    return cluster.scheduler.port("port"), cluster.frontend.port("cluster_port")


# ---- a stranger of our own ----

def frame(kind, text=b""):
    return struct.pack("<QIHH", 0, len(text), kind, 1) + text + b"\0" * (-len(text) % 8)


def hello(role="visitor"):
    return frame(HELLO, json.dumps({
        "role": role, "format": 1, "format_newest": 2, "number": 0, "lanes": 0, "slots": 0, "accelerators": 0,
        "incarnation": "%016x" % 7, "term": "%016x" % 0, "version": "x", "name": "stranger", "address": "",
        "token": "", "transports": 0, "fabric": ""}).encode())


def context_of(authority, pair=None, alpn=ALPN, newest=None):
    context = ssl.create_default_context(cafile=authority.path)
    context.check_hostname = False
    if pair:
        context.load_cert_chain(*pair)
    if newest:
        context.maximum_version = newest
    context.set_alpn_protocols([alpn])
    return context


def answer_to_hello(port, context, role="visitor"):
    """The kind of the frame that answers an introduction over TLS; None: nothing does. And TLS's version."""
    try:
        with context.wrap_socket(socket.create_connection(("127.0.0.1", port), timeout=600)) as connection:
            connection.sendall(hello(role))
            got = connection.recv(65536)
            return struct.unpack_from("<QIHH", got)[2] if got else None, connection.version()
    except (ssl.SSLError, ConnectionError):
        return None, None


# ---- who gets in ----

def test_members_and_visitors(tmp_path, authority, member):
    with tls_cluster(tmp_path, authority, member) as cluster:
        wait_until(lambda: complete(cluster))
        assert cluster.infer() == 200
        wait_until(lambda: cluster.frontend.log().count("transport=tcp") >= 2)  # so inputs and results went over TLS
        assert cluster.ask("drain", "--wait", *cluster.secret, "b-1").returncode == 0
        assert set(members(cluster.status(), "backend")) == {"b-0"}
        cluster.processes.remove(cluster.backends[1])
        assert cluster.backends[1].process.wait(600) == 0
        assert cluster.infer() == 200
        cluster.end()


def test_memory_of_one_host(tmp_path, authority, member):
    """The Unix socket does not leave the host: it stays plain, and inputs are read where they lie."""
    cluster = Cluster(tmp_path, secret=options(member, authority))
    try:
        wait_until(lambda: cluster.frontend.log().count("transport=shm") >= 2)
        assert cluster.infer() == 200
    finally:
        cluster.kill()


def test_who_is_let_in(shared, authority, member, other):
    scheduler, frontend = cluster_ports(shared)
    expired = authority.sign("expired", expired=True)
    for port, wanted in ((scheduler, WELCOME), (frontend, REFUSED)):  # only backends go there
        # in one of ten tries: who is silent for five seconds after he has connected is sent away
        assert any(answer_to_hello(port, context_of(authority, member)) == (wanted, "TLSv1.3") for _ in range(10))
    for port in (scheduler, frontend):
        for context in (context_of(authority), context_of(authority, other[1]), context_of(authority, expired),
                        context_of(authority, member, alpn="http/1.1"),
                        context_of(authority, member, newest=ssl.TLSVersion.TLSv1_2)):
            assert answer_to_hello(port, context)[0] is None
    wait_until(lambda: 'msg="stranger refused"' in shared.scheduler.log() + shared.frontend.log())
    assert shared.infer() == 200


def test_visitors_without(shared, plain, other):
    done = shared.ask("status")
    assert done.returncode == 1 and "the links of this cluster speak TLS" in done.stderr
    done = shared.ask("status", *options(other[1], other[0]))
    assert done.returncode == 1 and "certificate" in done.stderr and done.stderr.count("\n") == 1
    done = plain.ask("status", *shared.secret)
    assert done.returncode == 1 and "it does not speak TLS" in done.stderr


def test_plain_and_tls_processes(shared, plain):
    """Each is told what is wrong, in both directions, and goes on trying."""
    scenario = ["--scenario", str(shared.scenario)]
    secret, shared.secret = shared.secret, []
    wrong = [shared.start("backend", "b-plain", "--join", shared.join, *scenario)]
    shared.secret = secret
    wrong.append(shared.start("backend", "b-tls", "--join", plain.join, *scenario))
    wait_until(lambda: "the links of this cluster speak TLS" in wrong[0].log())
    wait_until(lambda: "it does not speak TLS" in wrong[1].log())
    wait_until(lambda: "it does not speak TLS" in shared.scheduler.log())
    wait_until(lambda: "it speaks TLS, and the links of this process are plain text" in plain.scheduler.log())
    assert plain.infer() == 200 and shared.infer() == 200
    for one in wrong:
        one.process.terminate()
        assert one.process.wait(600) == 0


def test_token_and_tls(tmp_path, authority, member):
    (tmp_path / "token").write_text("right\n")
    cluster = Cluster(tmp_path, str(tmp_path / "token"), secret=options(member, authority))
    try:
        assert cluster.infer() == 200 and cluster.status()["members"]
        done = cluster.ask("status", *options(member, authority))
        assert done.returncode == 1 and "its token does not let it in" in done.stderr
        done = cluster.ask("status", "--cluster-token-file", str(tmp_path / "token"))
        assert done.returncode == 1 and "speak TLS" in done.stderr
    finally:
        cluster.kill()


def test_renewed(tmp_path, other):
    """A new authority, by SIGHUP: links that are there stay, new ones need the new certificates."""
    first = Authority(tmp_path, "first")
    pair = first.sign("renewed")
    cluster = Cluster(tmp_path, secret=options(pair, first), backend=("--transport", "tcp"), options=PATIENT)
    old = (tmp_path / "old.pem", tmp_path / "old.key")
    old_authority = tmp_path / "old-authority.pem"
    for source, copy in zip((*pair, first.path), (*old, old_authority)):
        copy.write_bytes(source.read_bytes())
    try:
        wait_until(lambda: complete(cluster))
        for source, path in zip((*other[1], other[0].path), (*pair, first.path)):
            path.write_bytes(source.read_bytes())
        for one in cluster.processes:
            one.process.send_signal(signal.SIGHUP)
        wait_until(lambda: all(one.log().count('msg="certificate"') >= 2 for one in cluster.processes))
        done = cluster.ask("status", "--cluster-cert", str(old[0]), "--cluster-key", str(old[1]), "--cluster-ca",
                           str(old_authority))
        assert done.returncode == 1 and "certificate" in done.stderr
        third = cluster.backend("b-2")
        wait_until(lambda: "b-2" in members(cluster.status(), "backend"))
        wait_until(lambda: third.log().count('msg="frontend connected"') >= 1)
        assert cluster.infer() == 200
        assert all(one.log().count('msg="joined"') == 1 for one in cluster.processes[1:])  # nobody came anew
        first.path.write_text("no certificate\n")
        cluster.scheduler.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "the cluster's certificates stay as they were" in cluster.scheduler.log())
        assert cluster.infer() == 200
    finally:
        cluster.kill()


def test_files_that_will_not_do(authority, member, other, tmp_path):
    (tmp_path / "none").write_text("nothing\n")
    good = dict(zip(("cert", "key", "ca"), (*member, authority.path)))
    cases = [
        ({"key": None}, "--cluster-key is missing"),
        ({"cert": None}, "--cluster-cert is missing"),
        ({"ca": None}, "--cluster-ca is missing"),
        ({"cert": tmp_path / "none"}, "none"),
        ({"key": tmp_path / "none"}, "none"),
        ({"ca": tmp_path / "missing"}, "missing"),
        ({"key": other[1][1]}, "is not that of the certificate"),
        ({"ca": other[0].path}, "NOT trusted"),
        (dict(zip(("cert", "key"), authority.sign("late", expired=True))), "expired"),
    ]
    for change, says in cases:
        given = {**good, **change}
        args = [a for name, path in given.items() if path for a in ("--cluster-" + name, str(path))]
        for command in (("scheduler", "--listen", "127.0.0.1:0"), ("status", "--join", "127.0.0.1:1")):
            done = subprocess.run([BINARY, *command, *args], capture_output=True, text=True, timeout=600)
            assert done.returncode == 2 and says in done.stderr.splitlines()[-1], (change, done.stderr)


# ---- strangers ----

def rss_mib(process):
    with open("/proc/%d/status" % process.process.pid) as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS"))


def strangers_refused(process):
    """The seconds in which lines of its log say so."""
    return [line[5:24] for line in process.log().splitlines() if 'msg="stranger refused"' in line]


def silent(port, over, context):
    """Thousands that say nothing."""
    held = []
    while not over.wait(PAUSE_S):
        with contextlib.suppress(OSError):
            held.append(socket.create_connection(("127.0.0.1", port), timeout=600))
        if len(held) == STRANGERS:
            held.pop(0).close()
    for one in held:
        one.close()


def garbage(port, over, context):
    while not over.wait(PAUSE_S):
        with contextlib.suppress(OSError):
            with socket.create_connection(("127.0.0.1", port), timeout=600) as connection:
                connection.sendall(os.urandom(3000))
                connection.recv(1)


def half_a_handshake(port, over, context):
    """The server does its part, and then nothing comes."""
    held = []
    while not over.wait(PAUSE_S):
        with contextlib.suppress(OSError, ssl.SSLError):
            connection = socket.create_connection(("127.0.0.1", port), timeout=600)
            coming, going = ssl.MemoryBIO(), ssl.MemoryBIO()
            half = context.wrap_bio(coming, going)
            with contextlib.suppress(ssl.SSLWantReadError):
                half.do_handshake()
            connection.sendall(going.read())
            held.append(connection)
        if len(held) == STRANGERS:
            held.pop(0).close()
    for one in held:
        one.close()


def no_certificate(port, over, context):
    while not over.wait(PAUSE_S):
        answer_to_hello(port, context)


@pytest.mark.parametrize("kind", [silent, garbage, half_a_handshake, no_certificate])
def test_strangers(shared, authority, kind):
    """All the while requests are answered, and memory stays; afterwards, and even then, members come."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    wait_until(lambda: complete(shared))
    both = (shared.scheduler, shared.frontend)
    before = [rss_mib(one) for one in both]
    refusals = [strangers_refused(one) for one in both]
    over = threading.Event()
    threads = [threading.Thread(target=kind, args=(port, over, context_of(authority))) for port in cluster_ports(shared)]
    for thread in threads:
        thread.start()
    try:
        wait_until(lambda: all(len(strangers_refused(one)) > len(was) for one, was in zip(both, refusals)))
        assert [shared.infer() for _ in range(50)] == [200] * 50
        late = "b-late-%s" % kind.__name__
        shared.backend(late)
        wait_until(lambda: "backend=%s transport=tcp" % late in shared.frontend.log())
        grown = [rss_mib(one) - was for one, was in zip(both, before)]
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert max(grown) < (64 if not os.environ.get("SYMPHONY_SANITIZED") else 1024), grown
    assert shared.infer() == 200
    assert all(one.log().count('msg="joined"') == 1 for one in shared.processes[1:])
    refused = strangers_refused(shared.scheduler)
    assert max(refused.count(second) for second in refused) <= 2  # a line a second
