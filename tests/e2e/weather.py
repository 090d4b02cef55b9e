"""weather.py - a cluster whose processes are on hosts of their own (network namespaces with one bridge between them), and what
befalls the hosts: cables that are out, directions in which nothing comes through, packets that are lost, links that are slow.

Needs root, iproute2 and nftables; skips with a reason where these are not to be had."""
import collections
import contextlib
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

import pytest

from server import BINARY, ETCD, TSAN_OPTIONS, http_request, samples_of, wait_until

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
from namespaces import Networks  # noqa: E402

SLOW = bool(os.environ.get("SYMPHONY_SANITIZED"))
BEAT_MS = 1000 if SLOW else 200  # a machine that is busy must not look dead
SCHEDULER, CLUSTER, HTTP, METRICS = 7700, 7710, 8000, 8002
HOSTS = "s1", "s2", "f1", "f2", "b1", "b2", "b3", "b4", "e1"
# What comes to a host is dropped if it is from an address of the set, or as often as the chain says.
RULES = """table inet weather {
    set cut { type ipv4_addr; }
    chain loss { }
    chain input { type filter hook input priority 0; ip saddr @cut drop; jump loss; }
}
"""


class Weather(Networks):
    """The hosts of HOSTS. The clients' is this machine."""

    def __init__(self):
        super().__init__(HOSTS)
        self.slow, self.cuts = set(), collections.Counter()
        for host in HOSTS:
            self.nft(host, RULES)

    def nft(self, host, text):
        subprocess.run([*self.prefix(host), "nft", "-f", "-"], input=text, text=True, check=True)

    def interface(self, host):
        return "%s.%d" % (self.id, HOSTS.index(host) + 1)

    def cable(self, host, plugged):
        self.ip("-n", self.name("br"), "link", "set", "port%d" % (HOSTS.index(host) + 1), "up" if plugged else "down")

    def deaf(self, host, to):
        """Nothing that another host sends arrives any more."""
        self.nft(host, "add element inet weather cut { %s }" % self.hosts[to])
        self.cuts[host, to] += 1

    def hears(self, host, to):
        """Again, if it was made deaf no more often than this."""
        self.cuts[host, to] -= 1
        if self.cuts[host, to] == 0:
            self.nft(host, "delete element inet weather cut { %s }" % self.hosts[to])

    def cut(self, one, other):
        """Both ways."""
        self.deaf(one, other)
        self.deaf(other, one)

    def mend(self, one, other):
        self.hears(one, other)
        self.hears(other, one)

    def loses(self, host, percent):
        """That part of the packets that come to it."""
        self.nft(host, "add rule inet weather loss numgen random mod 1000 < %d drop" % (10 * percent))

    def rate(self, host, kbit):
        """What it sends goes out this slowly."""
        subprocess.run(["tc", "-n", self.name(host), "qdisc", "replace", "dev", self.interface(host), "root", "tbf", "rate",
                        "%dkbit" % kbit, "burst", "4kb", "latency", "200ms"], check=True)
        self.slow.add(host)

    def loses_no_more(self, host):
        self.nft(host, "flush chain inet weather loss")

    def rate_no_more(self, host):
        subprocess.run(["tc", "-n", self.name(host), "qdisc", "delete", "dev", self.interface(host), "root"], check=True)
        self.slow.remove(host)

    def heal(self, host):
        self.nft(host, "flush set inet weather cut; flush chain inet weather loss")
        self.cable(host, True)
        if host in self.slow:
            self.rate_no_more(host)

    def clear(self):
        self.cuts.clear()
        for host in HOSTS:
            self.heal(host)


@contextlib.contextmanager
def weather():
    """Of a module's tests, one after the other."""
    if os.getuid() != 0:
        pytest.skip("hosts of their own need root")
    if not all(map(shutil.which, ("ip", "tc", "nft"))):
        pytest.skip("iproute2 or nftables is not installed (./run test does it)")
    try:
        made = Weather()
    except subprocess.CalledProcessError as error:
        pytest.skip("no network namespaces here: %s" % error)
    try:
        yield made
    finally:
        made.remove()


class Process:
    """One process of the cluster, on a host."""

    def __init__(self, net, folder, host, *args, env=None, log=None):
        self.host, self.at = host, net.hosts[host]
        self.args = [*net.prefix(host), *map(str, args)]
        self.env = {"TSAN_OPTIONS": TSAN_OPTIONS, **os.environ, **(env or {})}
        self.path = log or folder / ("%s.log" % host)
        self.process = None
        self.start()

    def start(self):
        with open(self.path, "a") as log:
            self.begun = log.tell()  # what it logs from here on is this process's
            self.process = subprocess.Popen(self.args, stdout=log, stderr=log, env=self.env)

    def kill(self, number=signal.SIGKILL):
        self.process.send_signal(number)
        if number in (signal.SIGKILL, signal.SIGTERM):
            return self.process.wait(600)

    def runs(self):
        return self.process.poll() is None

    def end(self):
        if self.runs():
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait()

    def log(self):
        """Of all processes that were started here."""
        return self.path.read_text(errors="replace")

    def log_of_now(self):
        return self.path.read_bytes()[self.begun:].decode(errors="replace")

    def says(self, what):
        return self.log().count(what)

    def get(self, path, port=METRICS, timeout=600):
        status, _, body = http_request(port, "GET", path, host=self.at, timeout=timeout)
        return status, body.decode()

    def metrics(self):
        return samples_of(http_request(METRICS, "GET", "/metrics", host=self.at)[2])

    def metric(self, name):
        """The sum over all labels."""
        return sum(value for key, value in self.metrics().items() if key.split("{")[0] == name)


class Etcd(Process):
    """On host e1."""

    def __init__(self, net, folder):
        if not os.path.exists(ETCD):
            pytest.skip("etcd is not installed (./run test does it)")
        client, peer = ("http://%s:%d" % (net.hosts["e1"], port) for port in (2379, 2380))
        self.registry = "etcd://%s/weather" % client.removeprefix("http://")
        super().__init__(net, folder, "e1", ETCD, "--data-dir", folder / "etcd", "--listen-client-urls", client,
                         "--advertise-client-urls", client, "--listen-peer-urls", peer, "--initial-advertise-peer-urls",
                         peer, "--initial-cluster", "default=" + peer)
        wait_until(self.answers)

    def answers(self):
        try:
            return self.get("/health", 2379)[0] == 200
        except OSError:
            return False


class Cluster:
    """Schedulers s1.., frontends f1.. and backends b1.. of two emulated accelerators each, all with the models m-1 and m-2.

    More may be added; each process gets the arguments of `more`. `clocks`: of hosts, by how many seconds their clock is ahead, and
    how many ppm it is fast."""

    def __init__(self, net, folder, schedulers=1, frontends=1, backends=2, registry=None, beta_ms=5, more=(), clocks=None, tls=()):
        self.net, self.folder, self.processes, self.more, self.clocks = net, folder, {}, (*more, *tls), clocks or {}
        self.tls = tuple(map(str, tls))  # options of members and visitors
        net.clear()
        self.scenario = folder / "scenario.yaml"
        self.scenario.write_text("cluster: {accelerators: 2, type: test}\n"
                                 "models:\n  - {name: m, alpha_ms: 0.5, beta_ms: %g, slo_ms: 300000, copies: 2}\n"
                                 "workload: {rate_rps: 10}\n" % beta_ms)
        addresses = ["%s:%d" % (net.hosts["s%d" % (i + 1)], SCHEDULER) for i in range(schedulers)]
        self.join = ("--registry", registry) if registry else ("--join", ",".join(addresses))
        peers = ("--registry", registry) if registry else ("--peers", ",".join(addresses)) if schedulers > 1 else ()
        self.schedulers = [self.add("s%d" % (i + 1), "scheduler", "--listen", at, *peers) for i, at in enumerate(addresses)]
        self.frontends = [self.frontend("f%d" % (i + 1)) for i in range(frontends)]
        self.backends = [self.backend("b%d" % (i + 1)) for i in range(backends)]

    def add(self, host, role, *args):
        env = {"SYMPHONY_TEST_CLOCK": self.clocks[host]} if host in self.clocks else None
        made = Process(self.net, self.folder, host, BINARY, role, "--name", host, "--host", self.net.hosts[host],
                       "--metrics-port", METRICS, "--heartbeat-ms", BEAT_MS, "--open-links", *self.more, *args, env=env)
        self.processes[host] = made
        return made

    def frontend(self, host):
        return self.add(host, "frontend", *self.join, "--cluster-host", self.net.hosts[host], "--cluster-port", CLUSTER,
                        "--http-port", HTTP, "--no-grpc", "--link-wait", 3600)

    def backend(self, host):
        return self.add(host, "backend", *self.join, "--scenario", self.scenario)

    def __enter__(self):
        wait_until(self.whole)
        return self

    def __exit__(self, *error):
        if error[0]:
            for one in self.processes.values():
                print("---- %s\n%s" % (one.host, one.log()[-3000:]))
        for one in self.processes.values():
            one.end()
        self.net.clear()
        complaints = [one.host for one in self.processes.values() if "Sanitizer:" in one.log()]
        assert error[0] or not complaints, self.processes[complaints[0]].log()[-8000:]

    def status(self, timeout=600):
        """None while no scheduler that leads is reached."""
        done = subprocess.run([BINARY, "status", *self.join, *self.tls, "--json", "--timeout", str(timeout)], capture_output=True,
                              text=True)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def members(self, role):
        """What the scheduler says of them, by name."""
        status = self.status()
        return {one["name"]: one for one in status["members"] if one["role"] == role} if status else {}

    def whole(self):
        """Everybody has joined, and everything is served."""
        def connected(frontend):
            return frontend.metrics().get('symphony_cluster_peers{role="backend"}') == len(self.backends)
        try:
            status = self.status(5)
            members = {one["name"] for one in status["members"]} if status else ()
            return all(one.host in members for one in self.frontends + self.backends) and all(
                one["serving"] == one["count"] for member in status["members"] for one in member.get("accelerators", ())
            ) and all(connected(one) and self.model_ready(one) for one in self.frontends)
        except (OSError, http.client.HTTPException):
            return False

    def model_ready(self, frontend, models=("m-1", "m-2")):
        return all(frontend.get("/v2/models/%s/ready" % model, HTTP)[0] == 200 for model in models)

    def leaders(self):
        """The schedulers that say so themselves."""
        return [one for one in self.schedulers if one.runs() and
                re.findall(r'msg="(leads|leads no more)"', one.log_of_now())[-1:] == ["leads"]]
