"""test_cluster_weather.py - a cluster on hosts of their own whose processes die and whose network fails: what clients see, and
who notices what. docs/cluster.md ("What a failure looks like") is what is checked here. Under sanitizers test_cluster_chaos.py
does the same all at once; this one takes minutes there (SYMPHONY_BINARY=build/tsan/symphony SYMPHONY_SANITIZED=1)."""
# shards: 3
import contextlib
import json
import random
import re
import signal
import socket
import struct
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from askers import Askers, ask_emulated
from server import http_request, wait_until
from weather import CLUSTER, HTTP, SCHEDULER, SLOW, Cluster, Etcd, weather

DEADLINE_S = 20  # enough for a second run, whatever the machine does meanwhile
RATE = 20 if SLOW else 60
LONG = pytest.mark.long


@pytest.fixture(scope="module")
def net():
    with weather() as made:
        yield made


@pytest.fixture
def pair(election, net, tmp_path):
    """Two schedulers, by either way to elect one, of which one leads; two backends, two frontends."""
    net.clear()
    with contextlib.ExitStack() as stack:
        etcd = Etcd(net, tmp_path) if election == "etcd" else None
        if etcd:
            stack.callback(etcd.end)
        cluster = stack.enter_context(Cluster(net, tmp_path, schedulers=2, frontends=2, registry=etcd and etcd.registry))
        cluster.etcd = etcd
        yield cluster


def has_batches(cluster):
    """How many batches b1 has; none, if it looks dead just then."""
    return cluster.members("backend").get("b1", {"batches": 0})["batches"]


def leader_and_other(cluster):
    """As their logs have it: where the leader stands still for 0.3 s, the other one takes over."""
    leaders = []

    def one_leads():
        leaders[:] = cluster.leaders()
        return len(leaders) == 1
    wait_until(one_leads)
    return leaders[0], next(one for one in cluster.schedulers if one is not leaders[0])


def terms(cluster):
    """All that were ever led, with who led them."""
    return [(int(term), one.host) for one in cluster.schedulers for term in re.findall('msg="leads" term=([0-9]+)', one.log())]


def trouble(cluster, process, how):
    """Something happens to a host; returns what ends it."""
    if how == "killed":
        process.kill()
        return process.start
    if how == "stopped":
        process.kill(signal.SIGSTOP)
        return lambda: process.kill(signal.SIGCONT)
    cluster.net.cable(process.host, False)
    return lambda: cluster.net.cable(process.host, True)


@pytest.mark.parametrize("how", ["killed", "stopped", pytest.param("cable out", marks=LONG)])  # of a leader it is out anyway
def test_backend_goes(net, tmp_path, how):
    """What it had is run elsewhere; what it says when it is back is not believed; and it gets batches again."""
    with Cluster(net, tmp_path, beta_ms=100) as cluster, Askers(cluster.frontends, RATE, DEADLINE_S) as askers:
        scheduler, backend = cluster.schedulers[0], cluster.backends[0]
        wait_until(lambda: has_batches(cluster))
        before = cluster.members("backend")["b1"]["incarnation"]
        wait_until(lambda: askers.all_good(50) and has_batches(cluster) > 0)
        over = trouble(cluster, backend, how)
        wait_until(lambda: "b1" not in cluster.members("backend"))
        assert scheduler.says('msg="member lost" role=backend name=b1')
        wait_until(lambda: askers.all_good(50))
        over()
        wait_until(cluster.whole)
        wait_until(lambda: askers.all_good(50) and has_batches(cluster) > 0)
        assert (cluster.members("backend")["b1"]["incarnation"] != before) == (how == "killed")
        askers.end()
        askers.check()
        assert all(one.good() for one in askers.log)
        wait_until(lambda: cluster.frontends[0].metric("symphony_cluster_requests_lost_total") > 0)


def ask_one(frontend, deadline_s, model="m-1"):
    """A request of its own: HTTP status, what went wrong, and when that was told."""
    body = json.dumps({"inputs": [ask_emulated(1)], "parameters": {"timeout": int(deadline_s * 1e6)}})
    status, _, answer = http_request(HTTP, "POST", "/v2/models/%s/infer" % model, body, host=frontend.at, timeout=deadline_s + 60)
    return status, json.loads(answer).get("error", ""), time.monotonic()


def test_run_that_cannot_be_repeated_in_time_is_refused_at_once(net, tmp_path):
    with Cluster(net, tmp_path, backends=2, beta_ms=60000) as cluster, ThreadPoolExecutor() as pool:
        def busy():
            return [name for name, one in cluster.members("backend").items() if one["batches"]]
        for _ in range(10):  # if the machine stands still for three seconds, a run cannot be in time
            sent = time.monotonic()
            asked = pool.submit(ask_one, cluster.frontends[0], 63)
            wait_until(lambda: asked.done() or busy())
            if not asked.done():
                break
        name, = busy()
        wait_until(lambda: time.monotonic() > sent + 4)  # 59 s are left at most, and a run takes 60 s
        cluster.processes[name].kill()
        killed = time.monotonic()
        status, error, told = asked.result()
        assert status == 503 and "deadline" in error
        assert told - killed < 30  # not at the deadline


def test_last_backend_goes(net, tmp_path):
    """Its requests wait for another for two seconds, and are refused with the reason; others are refused at once."""
    with Cluster(net, tmp_path, backends=1, beta_ms=200000) as cluster, ThreadPoolExecutor() as pool:
        frontend, backend = cluster.frontends[0], cluster.backends[0]
        asked = [pool.submit(ask_one, frontend, 900, model) for model in ("m-1", "m-2")]  # of one model they may share a batch
        wait_until(lambda: has_batches(cluster) == 2)
        asked += [pool.submit(ask_one, frontend, 900) for _ in range(2)]  # these wait for an accelerator
        wait_until(lambda: sum(one["queued"] for one in cluster.status()["models"]) == 2)
        backend.kill()
        killed = time.monotonic()
        for one in asked:
            status, error, told = one.result()
            assert status == 503 and "no accelerator" in error and told - killed < 30
        wait_until(lambda: not cluster.model_ready(frontend))
        assert ask_one(frontend, 900)[0] == 503
        cluster.scenario.write_text(cluster.scenario.read_text().replace("beta_ms: 200000", "beta_ms: 5"))
        backend.start()
        wait_until(cluster.whole)
        assert ask_one(frontend, 900)[0] == 200


def test_frontend_killed(net, tmp_path):
    """Its requests leave the queues, and the batches that wait for an accelerator run without them."""
    with Cluster(net, tmp_path, frontends=2, backends=1, beta_ms=1000) as cluster:
        first, second = cluster.frontends
        waiting = Askers([first], 100, 300, patience_s=0)
        with waiting, Askers([second], 4, 60) as askers:
            wait_until(lambda: sum(one["queued"] for one in cluster.status()["models"]) > 60)
            first.kill()
            wait_until(lambda: cluster.schedulers[0].says('msg="member lost" role=frontend name=f1'))
            wait_until(lambda: sum(one["queued"] for one in cluster.status()["models"]) < 20)
            before = len(askers.told())
            wait_until(lambda: len(askers.told()) > before + 4)
            askers.end()
            askers.check()
            assert all(one.good() for one in askers.log)
            waiting.end()
            waiting.check(excused=lambda one: True)


def test_inputs_that_do_not_come(net, tmp_path):
    """The only backend does not hear one of two frontends any more: the other's requests run, the batches they share, too."""
    with Cluster(net, tmp_path, frontends=2, backends=1, beta_ms=20) as cluster:
        backend, (first, second) = cluster.backends[0], cluster.frontends
        with Askers([first], RATE, DEADLINE_S) as deaf, Askers([second], RATE, DEADLINE_S) as askers:
            wait_until(lambda: deaf.all_good(20) and askers.all_good(20))
            net.deaf("b1", "f1")
            wait_until(lambda: backend.metric("symphony_cluster_pulls_given_up_total") > 0)
            wait_until(lambda: backend.says("frontend lost") and len(askers.told()) > 200)
            net.clear()
            wait_until(lambda: deaf.all_good(20) and askers.all_good(20))
            for one in (deaf, askers):
                one.end()
                one.check()
            assert all(one.good() for one in askers.log)


def test_frontend_and_backend_cut_from_each_other(net, tmp_path):
    """Both reach the scheduler, and everybody else: the other backend runs what one cannot get, at no great delay."""
    with Cluster(net, tmp_path, frontends=2, backends=2, beta_ms=100) as cluster:
        with Askers(cluster.frontends, RATE, DEADLINE_S) as askers:
            wait_until(lambda: askers.all_good(50) and has_batches(cluster) > 0)
            net.cut("f1", "b1")
            wait_until(lambda: cluster.backends[0].says("frontend lost"))
            lost = time.monotonic()
            wait_until(lambda: len(askers.since(lost)) > 100)
            net.clear()
            wait_until(lambda: askers.all_good(50) and cluster.whole())
            askers.end()
            askers.check()
            assert all(one.good() for one in askers.log)
            print("cut: the slowest request took %.3f s" % max(one.took() for one in askers.log))


# ---- schedulers ----

@pytest.mark.parametrize("election, how", [
    ("peers", "killed"), ("peers", "cable out"), ("etcd", "stopped"),
    *(pytest.param(*case, marks=LONG) for case in (("peers", "stopped"), ("etcd", "killed"), ("etcd", "cable out")))])
def test_leader_goes(pair, how):
    """Another takes over, and every request is in time; who comes back stands down."""
    leader, other = leader_and_other(pair)
    with Askers(pair.frontends, RATE, DEADLINE_S) as askers:
        wait_until(lambda: askers.all_good(50))
        began = time.monotonic()
        over = trouble(pair, leader, how)
        wait_until(lambda: other in pair.leaders())
        led = time.monotonic()
        wait_until(lambda: len(askers.since(led)) > 100)
        over()
        wait_until(lambda: len(pair.leaders()) == 1 and pair.whole())
        askers.end()
        askers.check()
        assert all(one.good() for one in askers.log)
        slowest = max(one.took() for one in askers.since(began - DEADLINE_S))
        print("leader %s, %s: the slowest request took %.3f s" % (how, "etcd" if pair.etcd else "peers", slowest))
        assert not pair.etcd or len({term for term, _ in terms(pair)}) == len(terms(pair))


@pytest.mark.parametrize("election", ["peers", "etcd"])
def test_schedulers_cut_from_each_other(pair):
    """Members reach both. The one that stands by takes over, and with etcd a term is led by one only."""
    leader, other = leader_and_other(pair)
    with Askers(pair.frontends, RATE, DEADLINE_S) as askers:
        wait_until(lambda: askers.all_good(50))
        pair.net.cut("s1", "s2")
        cut = time.monotonic()
        wait_until(lambda: other in pair.leaders())
        wait_until(lambda: len(askers.since(cut)) > 200)
        pair.net.clear()
        wait_until(lambda: len(pair.leaders()) == 1 and pair.whole() and askers.all_good(50))
        askers.end()
        askers.check()
        assert all(one.good() for one in askers.log)
        assert not pair.etcd or len({term for term, _ in terms(pair)}) == len(terms(pair))


def test_etcd_down(net, tmp_path):
    """Everything runs on as it is, members come and go; but nobody takes over before it is back."""
    net.clear()
    etcd = Etcd(net, tmp_path)
    try:
        with Cluster(net, tmp_path, schedulers=2, registry=etcd.registry) as cluster:
            with Askers(cluster.frontends, RATE, 60) as askers:
                wait_until(lambda: askers.all_good(50))
                etcd.kill()
                wait_until(lambda: all(one.says("registry is down") for one in cluster.processes.values()))
                leader, other = leader_and_other(cluster)
                down = time.monotonic()
                trouble(cluster, cluster.backends[0], "killed")()
                wait_until(lambda: len(askers.since(down)) > 100)
                wait_until(lambda: cluster.frontends[0].says('msg="backend connected" backend=b1') >= 1)
                assert leader in cluster.leaders()
                leader.kill()
                killed = time.monotonic()
                wait_until(lambda: other.says("link to a scheduler lost"))
                wait_until(lambda: time.monotonic() > killed + 1)  # long after it would have taken over
                assert cluster.leaders() == [] and not [one for one in askers.since(killed + 0.5)]
                etcd.start()
                wait_until(lambda: cluster.leaders() == [other])
                leader.start()
                wait_until(lambda: cluster.whole() and askers.all_good(50))
                askers.end()
                askers.check()
                assert all(one.good() for one in askers.log)
                assert len({term for term, _ in terms(cluster)}) == len(terms(cluster))
    finally:
        etcd.end()


# ---- one way ----

@pytest.mark.parametrize("who, whom", [("leader", "other"), ("f1", "leader"), ("leader", "b1"), ("b1", "f1"), *(
    pytest.param(*case, marks=LONG) for case in (("other", "leader"), ("leader", "f1"), ("b1", "leader"), ("f1", "b1")))])
def test_one_does_not_hear_another(net, tmp_path, who, whom):
    """But is heard. All requests are in time, but for those of a frontend without its scheduler: the other does not lead."""
    alone = {who, whom} == {"f1", "leader"}
    with Cluster(net, tmp_path, schedulers=2, frontends=2, beta_ms=100) as cluster:
        leader, other = leader_and_other(cluster)
        who, whom = ({"leader": leader.host, "other": other.host}.get(host, host) for host in (who, whom))
        with Askers([cluster.frontends[0]], RATE, 2 if alone else DEADLINE_S) as first, \
                Askers([cluster.frontends[1]], RATE, DEADLINE_S) as second:
            wait_until(lambda: first.all_good(20) and second.all_good(20))
            net.deaf(who, whom)
            cut = time.monotonic()
            wait_until(lambda: len(first.since(cut)) > 100 and len(second.since(cut)) > 100)
            net.clear()
            wait_until(lambda: first.all_good(50) and second.all_good(50) and len(cluster.leaders()) == 1 and cluster.whole())
            for askers in (first, second):
                askers.end()
                askers.check()
            assert all(one.good() for one in second.log)
            if not alone:
                assert all(one.good() for one in first.log)
                print("cut: the slowest request took %.3f s" % max(one.took() for one in first.log))


# ---- bad links ----

def test_packets_are_lost(net, tmp_path):
    """One of twenty that come to any host, this machine's clients' among them."""
    with Cluster(net, tmp_path, schedulers=2, frontends=2) as cluster:
        for one in cluster.processes:
            net.loses(one, 5)
        with Askers(cluster.frontends, RATE, DEADLINE_S) as askers:
            wait_until(lambda: len(askers.told()) > 300)
            net.clear()
            wait_until(lambda: askers.all_good(50))
            askers.end()
            askers.check()
            assert all(one.good() for one in askers.log)
            print("loss: the slowest request took %.3f s" % max(one.took() for one in askers.log))


def test_slow_link_of_a_frontend(net, tmp_path):
    """Its requests are late or refused; nobody else's are, and the scheduler knows that its clock is not known well."""
    with Cluster(net, tmp_path, frontends=2) as cluster:
        slow, good = cluster.frontends
        with Askers([slow], RATE, 1) as late, Askers([good], RATE, DEADLINE_S) as askers:
            wait_until(lambda: late.all_good(20) and askers.all_good(20))
            net.rate("f1", 64)
            cut = time.monotonic()
            wait_until(lambda: len(askers.since(cut)) > 200 and not all(one.good() for one in late.since(cut)))
            net.clear()
            wait_until(lambda: late.all_good(20) and askers.all_good(20))
            for one in (late, askers):
                one.end()
            askers.check()
            late.check(excused=lambda one: True)
            assert all(one.good() for one in askers.log)


# ---- crowds ----

def test_full_disk(net, tmp_path):
    """All log to one small disk, which is full: nobody dies, waits, or stops doing his part."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], check=True)
    try:
        with Cluster(net, disk, schedulers=2, more=("--log-level", "debug")) as cluster, \
                Askers(cluster.frontends, RATE, DEADLINE_S) as askers:
            wait_until(lambda: askers.all_good(50))
            logs = [one.path for one in cluster.processes.values()]
            for path in (disk / "full", *logs):
                with open(path, "ab", buffering=0) as file, contextlib.suppress(OSError):
                    while True:
                        file.write(b"full\n")
            before = [path.stat().st_size for path in logs]
            backend = cluster.backends[0]
            backend.kill()
            wait_until(lambda: "b1" not in cluster.members("backend"))
            backend.start()
            wait_until(cluster.whole)
            leader, _ = leader_and_other(cluster)
            leader.kill(signal.SIGSTOP)
            wait_until(lambda: len(askers.since(time.monotonic() - DEADLINE_S)) > 0 and cluster.status(1) is not None)
            leader.kill(signal.SIGCONT)
            wait_until(lambda: cluster.whole() and askers.all_good(50))
            askers.end()
            askers.check()
            assert all(one.good() for one in askers.log)
            assert all(one.runs() for one in cluster.processes.values())
            assert before == [path.stat().st_size for path in logs]
    finally:
        subprocess.run(["umount", disk], check=True)


def test_joins_and_leaves(net, tmp_path):
    """A hundred a minute and more, in all the ways one can: nobody else notices, and nothing of them is left."""
    with Cluster(net, tmp_path, schedulers=2, frontends=1, backends=2) as cluster:
        with Askers(cluster.frontends, RATE, DEADLINE_S) as askers:
            wait_until(lambda: askers.all_good(20))
            began, number = time.monotonic(), cluster.status()["scheduler"]["accelerators"]
            for i in range(8):  # twice each way
                guest = cluster.backend("b3") if i % 2 else cluster.frontend("f2")
                wait_until(lambda: guest.host in cluster.members("backend" if i % 2 else "frontend"))
                guest.kill(signal.SIGKILL if i % 4 < 2 else signal.SIGTERM)
            rate = (i + 1) / (time.monotonic() - began) * 60
            print("%.0f joins and leaves a minute" % rate)
            del cluster.processes["b3"], cluster.processes["f2"]
            wait_until(lambda: {*cluster.members("backend"), *cluster.members("frontend")} == {"b1", "b2", "f1"})
            wait_until(lambda: cluster.status()["scheduler"]["accelerators"] == number and cluster.whole())
            wait_until(lambda: askers.all_good(50))
            askers.end()
            askers.check()
            assert all(one.good() for one in askers.log)


def memory_kib(process):
    with open("/proc/%d/status" % process.process.pid) as file:
        return int(re.search(r"VmRSS:\s+(\d+)", file.read())[1])


def test_strangers(net, tmp_path):
    """They connect to all ports of the cluster and send garbage, or nothing: they get nothing, and are shown the door."""
    draw = random.Random(1)
    hello = json.dumps({"role": "backend"}).encode()
    frame = lambda kind, head, body=0: struct.pack("<QIHH", body, len(head), kind, 1) + head + bytes(-len(head) % 8)
    says = [b"", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", frame(1, hello), frame(1, b"{}"), frame(1, b"[" * 65536), frame(1, hello)[:20],
            frame(34, bytes(48)), frame(1, b"", 1 << 40), frame(9999, b"x" * 100), struct.pack("<QIHH", 0, 0xffffffff, 1, 1), b"\0" * 4096]
    with Cluster(net, tmp_path, schedulers=2, frontends=1, backends=2) as cluster, contextlib.ExitStack() as stack:
        ports = [(one.at, SCHEDULER) for one in cluster.schedulers] + [(one.at, CLUSTER) for one in cluster.frontends]
        askers = stack.enter_context(Askers(cluster.frontends, RATE, DEADLINE_S))
        wait_until(lambda: askers.all_good(50))
        before = [memory_kib(one) for one in cluster.schedulers + cluster.frontends]
        strangers = []
        for i in range(600):
            stranger = stack.enter_context(socket.create_connection(ports[i % len(ports)], timeout=600))
            with contextlib.suppress(OSError):
                stranger.sendall(says[i // len(ports) % len(says)] if i < 500 else draw.randbytes(draw.randrange(1, 3000)))
            strangers.append(stranger)
        answers = []
        for stranger in strangers:  # those that wait for an end get it after five seconds
            answer = b""
            with contextlib.suppress(ConnectionError):
                while part := stranger.recv(65536):
                    answer += part
            answers.append(answer)
        kinds = {struct.unpack("<QIHH", answer[:16])[2] for answer in answers if answer}
        assert kinds <= {3}, "somebody was answered with more than a refusal"
        for one, kib in zip(cluster.schedulers + cluster.frontends, before):
            assert memory_kib(one) < kib + 40 * 1024
        trouble(cluster, cluster.backends[0], "killed")()  # there is room to join again
        wait_until(lambda: cluster.whole() and askers.all_good(50))
        askers.end()
        askers.check()
        assert all(one.good() for one in askers.log)
