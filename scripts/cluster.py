"""cluster.py - a whole cluster on this machine, for ./run cluster: etcd, two schedulers, two frontends, three backends with the
models of a repository. As root each process has a network of its own (network namespaces with one bridge between them); else all are
on 127.0.0.1. What dies is started again after a second; what ends by itself, or is drained, stays away. Ctrl-C ends all.
"""
import http.client
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import time

from namespaces import Networks

SYMPHONY, REPOSITORY, ETCD, FOLDER = *sys.argv[1:4], pathlib.Path("build/cluster").resolve()
SCHEDULERS = "scheduler-1", "scheduler-2"
FRONTENDS, BACKENDS = ("frontend-1", "frontend-2"), ("backend-1", "backend-2", "backend-3")
START_S, END_S, AGAIN_S, LOOK_S = 900, 45, 1, 0.05
ASK = ('{"inputs": [{"name": "dense", "datatype": "FP32", "shape": [1,13], "data": [%s]}, '
       '{"name": "sparse", "datatype": "INT64", "shape": [1,26], "data": [%s]}]}' %
       (",".join(["0"] * 13), ",".join(["0"] * 26)))


class Loopback:
    """All on 127.0.0.1, with ports of their own."""

    def __init__(self, names):
        self.hosts = {name: "127.0.0.1" for name in names}

    def prefix(self, name):
        return []

    def remove(self):
        pass


def networks(names):
    if os.getuid() == 0:
        try:
            return Networks(names)
        except (subprocess.CalledProcessError, FileNotFoundError):
            print("==> no network namespaces here: all on 127.0.0.1", flush=True)
    return Loopback(names)


class Member:
    def __init__(self, name, command):
        self.name, self.command = name, command
        self.log = FOLDER / (name + ".log")
        self.log.unlink(missing_ok=True)
        self.process, self.again_at = None, 0
        self.start()

    def start(self):
        with open(self.log, "a") as log:  # Ctrl-C is for this script: it ends them in order
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log, start_new_session=True)
        (FOLDER / (self.name + ".pid")).write_text("%d\n" % self.process.pid)
        self.again_at = 0

    def look(self):
        if self.process is None or self.process.poll() is None:
            return
        if self.process.returncode == 0:
            print("==> %s has left" % self.name, flush=True)
            self.process = None
        elif not self.again_at:
            print("==> %s died (%d); another one starts in %d s" % (self.name, self.process.returncode, AGAIN_S), flush=True)
            self.again_at = time.monotonic() + AGAIN_S
        elif time.monotonic() > self.again_at:
            self.start()

    def runs(self):
        return self.process is not None and self.process.poll() is None


def get(host, port, path):
    connection = http.client.HTTPConnection(host, port, timeout=2)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def is_taken(port):
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False


class Cluster:
    def __init__(self):
        self.members, self.given = [], set()
        self.networks = networks(("etcd", *SCHEDULERS, *FRONTENDS, *BACKENDS))
        self.apart = isinstance(self.networks, Networks)

    def port(self, usual, first):
        """One for a member, who may also take the next: the usual one in a network of its own, else one from the first on that is free."""
        if self.apart:
            return usual
        while any(port in self.given or is_taken(port) for port in (first, first + 1)):
            first += 10
        self.given |= {first, first + 1}
        return first

    def add(self, role, name, *args):
        host = self.networks.hosts[name]
        metrics = "8002" if self.apart else "0"
        self.members.append(Member(name, [*self.networks.prefix(name), SYMPHONY, role, "--name", name, "--host", host,
                                          "--metrics-port", metrics, "--open-links", *args]))
        return host

    def wait(self, what, is_so):
        until = time.monotonic() + START_S
        while not is_so():
            for one in self.members:
                if not one.runs():
                    sys.exit("run: %s ended: %s" % (one.name, one.log.read_text().strip().split("\n")[-1]))
            if time.monotonic() > until:
                sys.exit("run: %s took too long; see %s" % (what, FOLDER))
            time.sleep(LOOK_S)

    def add_etcd(self):
        host, port = self.networks.hosts["etcd"], self.port(2379, 12379)
        clients, peers = "http://%s:%d" % (host, port), "http://%s:%d" % (host, port + 1)
        self.members.append(Member("etcd", [*self.networks.prefix("etcd"), ETCD, "--data-dir", str(FOLDER / "etcd"),
                                            "--listen-client-urls", clients, "--advertise-client-urls", clients,
                                            "--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers,
                                            "--initial-cluster", "default=" + peers]))
        self.wait("etcd", lambda: get(host, port, "/health"))
        return "etcd://%s:%d/demo" % (host, port)

    def start(self):
        self.registry = self.add_etcd()
        for name in SCHEDULERS:
            place = "%s:%d" % (self.networks.hosts[name], self.port(7700, 7700))
            self.add("scheduler", name, "--listen", place, "--registry", self.registry)
        self.frontends = []
        for name in FRONTENDS:
            port = self.port(8000, 8000)
            host = self.add("frontend", name, "--registry", self.registry, "--cluster-host", self.networks.hosts[name], "--http-port",
                            str(port), "--grpc-port", str(port + 1))
            self.frontends.append((host, port))
        for name in BACKENDS:  # the first measures the models, if nobody has; alone, for the sake of its figures
            self.add("backend", name, "--registry", self.registry, "--repository", REPOSITORY, "--accelerators", "cpu:1", "--pin", "none")
            log = self.members[-1].log
            self.wait(name, lambda: 'msg="ready"' in log.read_text())
        self.wait("the frontends", lambda: all(get(*one, "/v2/models/recommender/ready") for one in self.frontends))

    def say(self):
        first, second = ("%s:%d" % one for one in self.frontends)
        print("""
A request, to any of the frontends (%s, %s):
  curl -s %s/v2/models/recommender/infer -d '%s'

Who belongs to the cluster:
  %s status --registry %s

A load, during which a backend is killed, and comes back a second later. Its requests go elsewhere, and none is lost:
  (sleep 3; kill -9 $(cat %s/backend-2.pid)) & %s bench %s --models recommender --rate 50 --seconds 8

The same with the scheduler that leads; the other one takes over. These requests may take 5 s, so none is refused:
  (sleep 3; kill -9 $(cat %s/$(%s status --registry %s | awk 'NR == 2 { print $1 }').pid)) & \\
      %s bench %s --models recommender --rate 50 --seconds 8 --slo-ms 5000 --timeout-from-slo

Logs are in %s. Ctrl-C ends all.
""" % (first, second, first, ASK, SYMPHONY, self.registry, FOLDER, SYMPHONY, first, FOLDER, SYMPHONY, self.registry, SYMPHONY, second, FOLDER),
            flush=True)

    def run(self):
        while True:
            for one in self.members:
                one.look()
            time.sleep(LOOK_S)

    def end(self):
        """Backends and frontends drain before the schedulers go, and those before etcd."""
        for group in (self.members[1 + len(SCHEDULERS):], self.members[1:1 + len(SCHEDULERS)], self.members[:1]):
            running = [one for one in group if one.runs()]
            for one in running:
                one.process.terminate()
            until = time.monotonic() + END_S
            for one in running:
                try:
                    one.process.wait(max(0.1, until - time.monotonic()))
                except subprocess.TimeoutExpired:
                    one.process.kill()
                    one.process.wait()
        self.networks.remove()


def on_signals(do):
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, do)


def stop(number, frame):
    raise KeyboardInterrupt


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    on_signals(stop)
    cluster = None
    try:
        cluster = Cluster()
        cluster.start()
        cluster.say()
        cluster.run()
    except KeyboardInterrupt:
        print("\n==> ending", flush=True)
    finally:
        on_signals(signal.SIG_IGN)  # it ends already
        if cluster:
            cluster.end()


main()
