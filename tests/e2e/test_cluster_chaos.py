"""test_cluster_chaos.py - everything that can befall a cluster, all at once, drawn from a seed, while clients ask and keep a log.

Checked in that log: every request has exactly one answer, and the right one, or an error that its client was told; and soon after the
last fault all are good again. SYMPHONY_CHAOS_SECONDS says for how long (30), SYMPHONY_CHAOS_SEED what (1), for instance:

    SYMPHONY_CHAOS_SECONDS=600 SYMPHONY_CHAOS_SEED=7 build/venv/bin/python -B -m pytest -s tests/e2e/test_cluster_chaos.py
"""
# sanitizers: address thread
# all: yes, test_cluster_weather.py has each fault, and sim/cluster_faults draws them together in virtual time
import collections
import os
import random
import signal
import socket
import time

import onnx
import pytest
from onnx import TensorProto, helper

from askers import Askers
from server import wait_until
from weather import CLUSTER, HTTP, SCHEDULER, SLOW, Cluster, Etcd, weather

SECONDS = float(os.environ.get("SYMPHONY_CHAOS_SECONDS", 30))
SEED = int(os.environ.get("SYMPHONY_CHAOS_SEED", 1))
RATE = 20 if SLOW else 80
DEADLINES_S = (3, 20) if SLOW else (0.3, 5)  # drawn from between
BACK_S = 20 if SLOW else 2  # from the end of the last fault until all is good, on a machine with nothing else to do; on others more,
BACK_CALMS = 5  # by so many times what the slowest request took before the first fault
TRIES = 1 if "SYMPHONY_CHAOS_SECONDS" in os.environ else 5  # a machine that others use, too, may have to be asked again
LASTS_S = 0.05, 4  # a fault
AT_ONCE = 3
CLOCKS = {"s2": "100,-50", "f2": "3600,200", "b2": "-10,-200", "b3": "0,200"}  # seconds ahead, ppm fast
PATIENCE_S = 10 if SLOW else 3


@pytest.fixture(scope="module")
def net():
    with weather() as made:
        yield made


def save_neg(folder):
    """y = -x, of four numbers."""
    info = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 4])
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "neg", [info("x")], [info("y")])
    (folder / "neg" / "1").mkdir(parents=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), folder / "neg/1/model.onnx")


class Chaos:
    """Faults that begin and end; of each host at most one at a time. Remembers since when, and until when, clients could not
    reach a frontend as they should."""

    def __init__(self, cluster, seed):
        self.cluster, self.net, self.draw = cluster, cluster.net, random.Random(seed)
        self.going = {}  # host: (ends, end, is a frontend's)
        self.trouble = collections.defaultdict(list)  # frontend: [from, until]
        self.log = []

    def begin(self):
        free = [host for host in self.cluster.processes if host not in self.going]
        host = self.draw.choice(free)
        what = self.draw.choice(["kill", "kill", "stop", "cable", "deaf", "cut", "loss", "slow", "stop", "strangers", "end"])
        ends = time.monotonic() + self.draw.uniform(*LASTS_S)
        process, other = self.cluster.processes[host], self.draw.choice([h for h in self.cluster.processes if h != host])
        began = time.monotonic()
        self.log.append((round(began, 2), what, host, other))
        assert process.runs(), "%s died by itself: %s" % (host, process.log()[-2000:])
        over = lambda: None
        if what == "kill":
            process.kill()
            over = process.start
        elif what == "end":
            process.process.send_signal(signal.SIGTERM)
            over = lambda: self.ended(process)
        elif what == "stop":
            process.kill(signal.SIGSTOP)
            over = lambda: process.kill(signal.SIGCONT)
        elif what == "cable":
            self.net.cable(host, False)
            over = lambda: self.net.cable(host, True)
        elif what == "deaf":
            self.net.deaf(host, other)
            over = lambda: self.net.hears(host, other)
        elif what == "cut":
            self.net.cut(host, other)
            over = lambda: self.net.mend(host, other)
        elif what == "loss":
            self.net.loses(host, self.draw.choice([1, 5, 20]))
            over = lambda: self.net.loses_no_more(host)
        elif what == "slow":
            self.net.rate(host, self.draw.choice([200, 1000, 5000]))
            over = lambda: self.net.rate_no_more(host)
        elif what == "strangers":
            over = self.strangers()
        concerns = host if what not in ("deaf", "cut", "strangers") else None
        if concerns in ("f1", "f2"):
            self.trouble[host].append([began, None])
        self.going[host] = (ends, over, concerns)

    def strangers(self):
        """They say nonsense to all ports of the cluster, and stay."""
        made = []
        for host, process in self.cluster.processes.items():
            for port in {"s": [SCHEDULER], "f": [CLUSTER], "b": []}.get(host[0], []):
                for _ in range(20):
                    one = socket.socket()
                    one.setblocking(False)
                    try:
                        one.connect((process.at, port))
                    except BlockingIOError:
                        pass
                    except OSError:
                        one.close()
                        continue
                    made.append(one)

        def end():
            for one in made:
                try:
                    one.send(self.draw.randbytes(self.draw.randrange(1, 200)))
                except OSError:
                    pass
                one.close()
        return end

    def ended(self, process):
        status = process.process.wait(600)
        early = status == -signal.SIGTERM and 'msg="ready"' not in process.log_of_now()  # before it waits for signals
        assert status == 0 or early or process.host == "e1", "%s ended with %d: %s" % (process.host, status, process.log()[-2000:])
        process.start()

    def end(self, host):
        _, over, concerns = self.going.pop(host)
        over()
        if concerns in ("f1", "f2"):
            wait_until(lambda: self.listens(host))
            self.trouble[host][-1][1] = time.monotonic()

    def listens(self, host):
        try:
            return self.cluster.processes[host].get("/v2/health/live", HTTP, timeout=5)[0] == 200
        except OSError:
            return False

    def run(self, seconds):
        until = time.monotonic() + seconds
        next_at = time.monotonic()
        while time.monotonic() < until:
            now = time.monotonic()
            for host in [host for host, (ends, _, _) in self.going.items() if ends <= now]:
                self.end(host)
            if now >= next_at and len(self.going) < AT_ONCE:
                self.begin()
                next_at = now + self.draw.uniform(0.05, 1)
            time.sleep(0.01)
        for host in list(self.going):
            self.end(host)

    def excused(self, asked):
        """A request's frontend was killed, stopped or badly connected while it was under way, or just before; or while the connection,
        which is an older one, was idle."""
        return any(began <= (asked.told or 1e18) and asked.since <= (until or 1e18) + 1 for began, until in self.trouble[asked.frontend])


def good_since(askers, moment):
    """When all requests began to be good again: since which moment, of those sent after the given one, none was bad."""
    bad = [one.sent for one in askers.since(moment) if not one.good()]
    return max(bad, default=moment)


@pytest.mark.parametrize("election", ["peers", "etcd"])
def test_chaos(net, tmp_path, election):
    net.clear()
    etcd = Etcd(net, tmp_path) if election == "etcd" else None
    save_neg(tmp_path / "repository")
    try:
        with Cluster(net, tmp_path, schedulers=2, frontends=2, backends=2, registry=etcd and etcd.registry,
                     clocks=CLOCKS) as cluster:
            cluster.backends += [cluster.add(host, "backend", *cluster.join, "--repository", tmp_path / "repository", "--pin", "none",
                                             "--accelerators", "cpu:1", "--slo-ms", "1000") for host in ("b3", "b4")]
            if etcd:
                cluster.processes["e1"] = etcd
            wait_until(lambda: cluster.whole() and all(cluster.model_ready(one, ["neg"]) for one in cluster.frontends))
            chaos, draw = Chaos(cluster, SEED), random.Random(SEED + 1)
            with Askers(cluster.frontends, RATE, lambda: draw.uniform(*DEADLINES_S), ("m-1", "neg", "m-2"), PATIENCE_S) as askers:
                wait_until(lambda: askers.all_good(30))
                back_most_s = BACK_S + BACK_CALMS * max(one.took() for one in askers.told())
                for last in range(TRIES):
                    chaos.run(SECONDS / 2 if last == 0 else 1)
                    over = time.monotonic()
                    wait_until(lambda: len(askers.since(over + back_most_s)) >= 2 * RATE)
                    back_s = good_since(askers, over) - over
                    print("%s, seed %d: all good %.2f s after the last fault" % (election, SEED, back_s))
                    if back_s <= back_most_s:
                        break
                wait_until(cluster.whole)
                askers.end()
                print("%s: %d requests, %d good, %d refused, %d broken; %d faults, such as %s" % (
                    election, len(askers.log), askers.good(), sum(one.status not in (None, 200) for one in askers.log),
                    sum(one.status is None for one in askers.log), len(chaos.log), [one[1:] for one in chaos.log[:3]]))
                try:
                    askers.check(chaos.excused)
                except AssertionError:
                    print(chaos.log, dict(chaos.trouble))
                    raise
                assert all(one.runs() for one in cluster.processes.values())
                assert back_s <= back_most_s
    finally:
        if etcd:
            etcd.end()
