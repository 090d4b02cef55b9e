"""test_cluster_breaks.py - a connection between processes that live breaks: no request is the worse for it."""
# sanitizers: address thread
import concurrent.futures
import os
import selectors
import socket
import struct
import threading

from server import free_port
from test_standby import Frontend, Role, status_of, wait_until

SLOW = bool(os.environ.get("SYMPHONY_SANITIZED"))
REQUESTS, ROUNDS = 60, 3 if SLOW else 6
BREAKS = 2  # of a round. With the connection to the scheduler that to its backends breaks, too: a third time is too often for a request
DIES_HARD = struct.pack("ii", 1, 0)  # SO_LINGER: closing resets


class Relay:
    """Passes on what comes by connections to its port, until they are broken."""

    def __init__(self, to):
        self.to, self.ends, self.lock = to, {}, threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ)
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            for key, _ in self.selector.select():
                with self.lock:
                    if key.fileobj is self.listener:
                        self.accept()
                    elif key.fileobj in self.ends:
                        self.pass_on(key.fileobj)

    def accept(self):
        near = self.listener.accept()[0]
        try:
            far = socket.create_connection(("127.0.0.1", self.to))
        except OSError:
            near.close()
            return
        self.ends[near], self.ends[far] = far, near
        for end in (near, far):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.selector.register(end, selectors.EVENT_READ)

    def pass_on(self, end):
        try:
            data = end.recv(1 << 16)
            if data:
                self.ends[end].sendall(data)
        except OSError:
            data = b""
        if not data:
            self.drop(end)

    def drop(self, end):
        for each in (self.ends.pop(end), end):
            self.ends.pop(each, None)
            self.selector.unregister(each)
            each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, DIES_HARD)
            each.close()

    def break_all(self):
        """How many there were."""
        with self.lock:
            count = len(self.ends) // 2
            while self.ends:
                self.drop(next(iter(self.ends)))
        return count


def test_a_frontend_that_comes_back_has_its_requests_answered(tmp_path):
    """What it had queued is cancelled in the scheduler, while it sends the same again: that is not taken for its own doing."""
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text("cluster: {accelerators: 1, type: test}\n"
                        "models:\n  - {name: m, alpha_ms: 1, beta_ms: 20, slo_ms: 300000, batch_max: 4}\n"
                        "workload: {rate_rps: 10}\n")
    port, breaks = free_port(), 0
    relay, patient = Relay(port), ("--heartbeat-ms", "20000")  # who stands still for a minute is no break
    roles = [Role("scheduler", "--listen", "127.0.0.1:%d" % port, *patient),
             Role("backend", "--join", "127.0.0.1:%d" % port, "--scenario", scenario, *patient)]
    frontend = Frontend("--join", "127.0.0.1:%d" % relay.port)
    frontend.args += patient
    try:
        with frontend, concurrent.futures.ThreadPoolExecutor(REQUESTS) as pool:
            wait_until(lambda: frontend.request("GET", "/v2/models/m/ready")[0] == 200)
            ask = lambda: frontend.infer("m", [{"name": "INPUT", "datatype": "FP32", "shape": [1, 1], "data": [1]}])

            def queued():
                return sum(one["queued"] for one in status_of(("--join", "127.0.0.1:%d" % port))["models"])

            for _ in range(ROUNDS):
                asked = [pool.submit(ask) for _ in range(REQUESTS)]
                joined = frontend.log_text().count('msg="joined"')
                wait_until(lambda: queued() > REQUESTS / 3 or any(each.done() for each in asked))
                for _ in range(BREAKS):
                    breaks += relay.break_all()
                    wait_until(lambda: frontend.log_text().count('msg="joined"') > joined)
                    joined = frontend.log_text().count('msg="joined"')
                told = [each.result() for each in asked]
                assert [answer for status, answer in told if status != 200] == []
        assert breaks >= ROUNDS * BREAKS
    finally:
        for role in roles:
            role.end()
