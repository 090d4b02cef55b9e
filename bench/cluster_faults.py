#!/usr/bin/env python3
"""cluster_faults.py - what faults cost a cluster of two schedulers, two frontends and three backends on this machine: requests lost,
and the slowest answer, by fault, as a table of Markdown. Needs the built program and the Python of ./run test.

    build/venv/bin/python bench/cluster_faults.py [--rate 100] [--slo-ms 1000] [--seconds 4] [--only FAULT]..."""
import argparse
import http.client
import json
import pathlib
import signal
import socket
import subprocess
import tempfile
import threading
import time

BINARY = pathlib.Path(__file__).resolve().parents[1] / "build" / "release" / "symphony"
BODY = json.dumps({"inputs": [{"name": "INPUT", "datatype": "FP32", "shape": [1, 1], "data": [1]}]})


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Cluster:
    def __init__(self, folder, slo_ms, peers=2):
        scenario = folder / "scenario.yaml"
        scenario.write_text("cluster: {accelerators: 2, type: test}\nmodels:\n  - {name: m, alpha_ms: 1, beta_ms: 5, slo_ms: %g}\n"
                            "workload: {rate_rps: 10}\n" % slo_ms)
        addresses = ["127.0.0.1:%d" % free_port() for _ in range(peers)]
        join = ("--join", ",".join(addresses))
        self.http = [free_port() for _ in range(2)]
        more = ("--peers", join[1]) if peers > 1 else ()
        self.schedulers = [self.start("scheduler", "--listen", one, *more) for one in addresses[:1]]
        time.sleep(0.7)  # the first one leads
        self.schedulers += [self.start("scheduler", "--listen", one, *more) for one in addresses[1:]]
        self.frontends = [self.start("frontend", *join, "--http-port", str(port), "--no-grpc") for port in self.http]
        self.backends = [self.start("backend", *join, "--scenario", scenario) for _ in range(3)]
        for port in self.http:
            while not self.ready(port):
                time.sleep(0.05)

    def start(self, role, *args):
        return subprocess.Popen([BINARY, role, "--no-metrics", "--pin", "none", *args] if role == "backend" else
                                [BINARY, role, "--no-metrics", *args], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    @staticmethod
    def ready(port):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            connection.request("GET", "/v2/health/ready")
            return connection.getresponse().status == 200
        except OSError:
            return False

    def end(self):
        for process in self.schedulers + self.frontends + self.backends:
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()


def ask(port, told, at):
    began = time.monotonic()
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("POST", "/v2/models/m/infer", BODY)
        answer = connection.getresponse()
        answer.read()
        status = answer.status
    except OSError:
        status = 0
    told.append((at, status, time.monotonic() - began))


FAULTS = {
    "none": lambda c: None,
    "a backend of three is killed": lambda c: c.backends[0].kill(),
    "a backend of three is stopped (silent)": lambda c: c.backends[0].send_signal(signal.SIGSTOP),
    "a backend of three is drained (SIGTERM)": lambda c: c.backends[0].send_signal(signal.SIGTERM),
    "the leading scheduler is killed": lambda c: c.schedulers[0].kill(),
    "the leading scheduler is stopped (silent)": lambda c: c.schedulers[0].send_signal(signal.SIGSTOP),
    "the leading scheduler is ended (SIGTERM)": lambda c: c.schedulers[0].send_signal(signal.SIGTERM),
}


def measure(fault, args):
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(pathlib.Path(folder), args.slo_ms)
        try:
            told, threads = [], []
            for _ in range(30):
                ask(cluster.http[0], [], 0)
            began, count = time.monotonic(), int(args.rate * args.seconds)
            for i in range(count):
                due = began + i / args.rate
                time.sleep(max(0, due - time.monotonic()))
                if i == count // 4:
                    FAULTS[fault](cluster)
                threads.append(threading.Thread(target=ask, args=(cluster.http[i % 2], told, i)))
                threads[-1].start()
            for thread in threads:
                thread.join()
        finally:
            cluster.end()
    lost = sum(status != 200 for _, status, _ in told)
    late = sum(status == 200 and took > args.slo_ms / 1000 for _, status, took in told)
    return len(told), lost, late, max(took for _, _, took in told)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rate", type=float, default=100)
    parser.add_argument("--slo-ms", type=float, default=1000)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--only", action="append", choices=FAULTS)
    args = parser.parse_args()
    print("| fault | requests | lost | late | slowest answer |\n|---|---|---|---|---|", flush=True)
    for fault in args.only or FAULTS:
        print("| %s | %d | %d | %d | %.2f s |" % (fault, *measure(fault, args)), flush=True)


if __name__ == "__main__":
    main()
