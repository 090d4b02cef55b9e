"""chaos.py - what can befall a cluster of weather.py, drawn from a seed: faults of processes, of networks, and of parts. Used by
test_cluster_chaos.py and bench/cluster_chaos.py."""
import collections
import dataclasses
import random
import shutil
import signal
import socket
import subprocess
import threading
import time

from onnx import TensorProto, helper

from repository import save_model
from server import BINARY, wait_until
from weather import CLUSTER, HTTP, SCHEDULER

LASTS_S = 0.05, 4  # a fault
AT_ONCE = 3
CLOCKS = {"s2": "100,-50", "f2": "3600,200", "b2": "-10,-200", "b3": "0,200"}  # seconds ahead, ppm fast
WHOLE = "kill", "kill", "stop", "cable", "deaf", "cut", "loss", "slow", "stop", "strangers", "end"
PARTIAL = "stumble", "rollout", "rollout", "rotate"
COUNTED = 4 << 20  # what `count` is asked for: it takes 16 MiB, more than the sick backend has
SICK = "--run-memory-max-mib", "8"


def save_models(folder):
    """neg: y = -x, of four numbers, in two versions; count: counts as many ones as it is asked for, each of 4 bytes."""
    save_model(folder, "neg", [helper.make_node("Neg", ["x"], ["y"])], [("x", TensorProto.FLOAT, ["N", 4])],
               [("y", TensorProto.FLOAT, ["N", 4])])
    shutil.copytree(folder / "neg" / "1", folder / "neg" / "2")
    (folder / "neg" / "config.pbtxt").write_text('name: "neg"\nversion_policy: { all { } }\n')
    one = helper.make_tensor("one", TensorProto.FLOAT, [1], [1.0])
    save_model(folder, "count", [helper.make_node("ConstantOfShape", ["x"], ["ones"], value=one),
                                 helper.make_node("ReduceSum", ["ones"], ["y"], keepdims=1)],
               [("x", TensorProto.INT64, [1])], [("y", TensorProto.FLOAT, [1])])


def ask_count(value):
    return {"name": "x", "datatype": "INT64", "shape": [1], "data": [COUNTED]}


def right_of_count(value, answer):
    return answer["outputs"][0]["data"] == [COUNTED]


@dataclasses.dataclass
class Fault:
    what: str
    host: str
    other: str
    began: float
    ended: float = None


class Chaos:
    """Faults that begin and end; of each host at most one at a time. Remembers since when, and until when, clients could not
    reach a frontend as they should.

    `kinds`: what is drawn from. `rotate`: replaces the certificates, for the kind of that name."""

    def __init__(self, cluster, seed, kinds=WHOLE, rotate=None, at_once=AT_ONCE, lasts_s=LASTS_S):
        self.cluster, self.net, self.draw = cluster, cluster.net, random.Random(seed)
        self.kinds, self.rotate, self.at_once, self.lasts_s = kinds, rotate, at_once, lasts_s
        self.going = {}  # host: (ends, end, is a frontend's, the fault)
        self.trouble = collections.defaultdict(list)  # frontend: [from, until]
        self.log = []

    def begin(self):
        free = [host for host in self.cluster.processes if host not in self.going]
        what = self.draw.choice(self.kinds)
        host = self.draw.choice([h for h in free if what != "stumble" or h[0] == "b"] or free)
        ends = time.monotonic() + self.draw.uniform(*self.lasts_s)
        process, other = self.cluster.processes[host], self.draw.choice([h for h in self.cluster.processes if h != host])
        began = time.monotonic()
        fault = Fault(what, host, other, began)
        self.log.append(fault)
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
        elif what == "stumble":
            over = self.stumble(process)
        elif what == "rollout":
            self.rollout()
        elif what == "rotate":
            self.rotate()
        concerns = host if what not in ("deaf", "cut", "strangers", *PARTIAL) else None
        if concerns in ("f1", "f2"):
            self.trouble[host].append([began, None])
        self.going[host] = (ends, over, concerns, fault)

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

    @staticmethod
    def stumble(process):
        """It stands still most of the time, so its batches take long."""
        over = threading.Event()

        def stumbles():
            while not over.wait(0.01):
                process.process.send_signal(signal.SIGSTOP)
                time.sleep(0.03)
                process.process.send_signal(signal.SIGCONT)

        thread = threading.Thread(target=stumbles)
        thread.start()

        def end():
            over.set()
            thread.join()
        return end

    def rollout(self):
        """Of neg. No scheduler may lead just now, and no backend have it."""
        wish = self.draw.choice([("1",), ("2",), ("2", "--share", "10%"), ("2", "--share", "50%"), ("--back",), ("--newest",)])
        subprocess.run([BINARY, "rollout", *self.cluster.join, *self.cluster.tls, "--timeout", "5", "neg", *wish], capture_output=True)

    def ended(self, process):
        status = process.process.wait(600)
        early = status == -signal.SIGTERM and 'msg="ready"' not in process.log_of_now()  # before it waits for signals
        assert status == 0 or early or process.host == "e1", "%s ended with %d: %s" % (process.host, status, process.log()[-2000:])
        process.start()

    def end(self, host):
        _, over, concerns, fault = self.going.pop(host)
        over()
        fault.ended = time.monotonic()
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
            for host in [host for host, (ends, *_) in self.going.items() if ends <= now]:
                self.end(host)
            if now >= next_at and len(self.going) < self.at_once:
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
