"""server.py - starts `symphony serve` on free ports, waits until it is ready, and ends it."""
import contextlib
import http.client
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time

BINARY = os.environ.get("SYMPHONY_BINARY", "build/release/symphony")
MODELS = os.environ.get("SYMPHONY_MODELS", "models")
ETCD = shutil.which("etcd") or str(pathlib.Path(__file__).resolve().parents[2] / "build/clients/bin/etcd")  # ./run test fetches it
TSAN_OPTIONS = "suppressions=" + os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tsan_suppressions.txt")
START_S = 900  # profiling included, sanitizers too
LOAD_S = 600  # of a model, which is measured when the machine has nothing better to do


def cpu_seconds(pid):
    """Of the processor, whatever time has passed."""
    with open("/proc/%d/stat" % pid) as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def wait_until(what, seconds=600, every_s=0.01):
    """Rests twice as long as looking takes, which is where others have their turn: looking may start a program, or read a page. A tenth
    of a second at most: looking may be a load, which is none if it rests."""
    deadline = time.monotonic() + seconds
    while True:
        began = time.monotonic()
        if what():
            return
        now = time.monotonic()
        assert now < deadline, "it did not come true in time"
        time.sleep(max(every_s, min(2 * (now - began), 0.1)))


@contextlib.contextmanager
def arrivals_noted():
    """Meanwhile the kernel notes when packets come: it begins that some time after the first socket has asked for it."""
    stamps = 35  # SO_TIMESTAMPNS
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind(("127.0.0.1", 0))
        one.setsockopt(socket.SOL_SOCKET, stamps, 1)

        def noted():
            one.sendto(b"", one.getsockname())
            time.sleep(0.5)
            seconds, nanoseconds = struct.unpack("ll", one.recvmsg(1, 64)[1][0][2])
            return time.time() - seconds - nanoseconds / 1e9 > 0.4
        wait_until(noted)
        yield


def http_request(port, method, path, body=None, headers=None, host="127.0.0.1", timeout=600):
    """One request on a connection of its own: status, headers, body."""
    with contextlib.closing(http.client.HTTPConnection(host, port, timeout=timeout)) as connection:
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()


def samples_of(page):
    """Of a page of metrics: {'name{labels}': value}."""
    rows = (line.rsplit(" ", 1) for line in page.decode().splitlines() if line and not line.startswith("#"))
    return {name: float(value) for name, value in rows}


ports_taken = []


def free_port():
    """One that is nobody else's while this process lives, whether somebody listens there or not. Not of the range that the kernel takes
    from where none is asked for; and other tests that run meanwhile see that it is taken by a Unix socket's name."""
    with open("/proc/sys/net/ipv4/ip_local_port_range") as file:
        low, high = map(int, file.read().split())
    choices = [*range(10000, low), *range(high + 1, 65536)] or range(10000, 65536)
    while True:
        port, mark = random.SystemRandom().choice(choices), socket.socket(socket.AF_UNIX)
        try:
            mark.bind("\0symphony-tests-port-%d" % port)
            with socket.socket() as there:
                there.bind(("", port))
        except OSError:
            mark.close()
            continue
        ports_taken.append(mark)
        return port


class Server:
    """with Server("--repository", DIR) as server: server.infer(...)"""

    def __init__(self, *args, http_port=0, grpc_port=0, metrics_port=0, env=None):
        self.args = [BINARY, "serve", "--host", "127.0.0.1", "--http-port", str(http_port), "--grpc-port",
                     str(grpc_port), "--metrics-port", str(metrics_port), *map(str, args)]
        self.env = {"TSAN_OPTIONS": TSAN_OPTIONS, **os.environ, **(env or {})}
        self.port = self.grpc_port = self.metrics_port = self.process = None
        self.log = tempfile.NamedTemporaryFile(mode="w+", prefix="symphony-", suffix=".log", delete=False)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, kind, value, trace):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if kind:
            print(self.log_text()[-4000:])
        self.log.close()
        os.unlink(self.log.name)

    def start(self):
        self.log.truncate(0)
        self.process = subprocess.Popen(self.args, stdout=subprocess.DEVNULL, stderr=self.log, env=self.env)
        until = time.monotonic() + START_S
        while time.monotonic() < until:
            ready = re.search(r'msg="ready" http_port=(\d+) grpc_port=(-?\d+) metrics_port=(-?\d+)', self.log_text())
            if ready:
                self.port, self.grpc_port, self.metrics_port = map(int, ready.groups())
                return
            if self.process.poll() is not None:
                raise RuntimeError("serve ended with %d: %s" % (self.process.returncode, self.log_text()[-2000:]))
            time.sleep(0.02)
        raise TimeoutError("serve was not ready in %d s: %s" % (START_S, self.log_text()[-2000:]))

    def stop(self, signal_number=signal.SIGTERM, timeout=600):
        """Sends the signal; returns the exit status."""
        self.process.send_signal(signal_number)
        return self.process.wait(timeout)

    def hold(self):
        """Stops all its threads, until SIGCONT."""
        self.process.send_signal(signal.SIGSTOP)
        assert os.WIFSTOPPED(os.waitpid(self.process.pid, os.WUNTRACED)[1])

    def log_text(self):
        with open(self.log.name) as file:
            return file.read()

    def connect(self, timeout=600):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def request(self, method, path, body=None, headers=None, timeout=600):
        return http_request(self.port, method, path, body, headers, timeout=timeout)

    def order(self, model, verb):
        """Tells it to load or unload a model: status and body."""
        status, _, body = self.request("POST", "/v2/repository/models/%s/%s" % (model, verb), timeout=LOAD_S)
        return status, body

    def infer(self, model, inputs, **more):
        """Sends {"inputs": ..., **more} as JSON: status and the answer."""
        status, _, body = self.request("POST", "/v2/models/%s/infer" % model, json.dumps({"inputs": inputs, **more}))
        return status, json.loads(body)

    def metrics(self):
        return samples_of(http_request(self.metrics_port, "GET", "/metrics")[2])

    def rests(self):
        """Waits until no request is in flight: a frontend counts a request a moment after its client has the answer."""
        wait_until(lambda: self.metrics()["symphony_requests_in_flight"] == 0)

    def children(self):
        """The processes of its accelerators, with --isolate on."""
        tasks = pathlib.Path("/proc/%d/task" % self.process.pid).glob("*/children")
        found = [pid for task in tasks for pid in task.read_text().split()]
        return [int(pid) for pid in found if b"--isolated=" in pathlib.Path("/proc/%s/cmdline" % pid).read_bytes()]

    def cpu_seconds(self):
        return cpu_seconds(self.process.pid)
