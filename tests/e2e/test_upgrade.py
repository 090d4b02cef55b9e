"""test_upgrade.py - two releases in one cluster: they speak the newest format of messages that both know, and a cluster is upgraded
process by process under load.

So far there is one format. The new release is this program with SYMPHONY_TEST_FORMATS=1,2, which says that it knows another one; the
old one is this program as it is, or another program, if SYMPHONY_OLD_BINARY names one."""
# sanitizers: address
# shards: 2
import http.client
import itertools
import os
import random
import signal
import time

import pytest

import server
import test_standby
from server import BINARY, free_port, wait_until
from test_standby import Clients, Cluster, Frontend, Role

OLD_BINARY = os.environ.get("SYMPHONY_OLD_BINARY")
NEW = {"SYMPHONY_TEST_FORMATS": "1,2"}


class Upgrade(Cluster):
    """Two schedulers, two backends and two frontends of the old release."""

    def __init__(self, folder, schedulers=2, backends=2, frontends=2, beta_ms=10):
        super().__init__(folder, schedulers=schedulers, backends=backends, beta_ms=beta_ms)
        self.frontends = [self.frontend] + [Frontend(*self.join) for _ in range(frontends - 1)]
        for one in self.frontends:
            one.args[one.args.index("--http-port") + 1] = str(free_port())
            one.ready = True

    def __enter__(self):
        super().__enter__()
        for one in self.frontends[1:]:
            one.start()
        wait_until(lambda: all(one.request("GET", "/v2/models/m-2/ready")[0] == 200 for one in self.frontends))
        return self

    def __exit__(self, *error):
        for one in self.frontends[1:]:
            one.__exit__(*error)
        super().__exit__(*error)

    def formats(self):
        return sorted((one["role"], one["format"]) for one in self.status()["members"] if one["role"] != "scheduler")


@pytest.fixture(autouse=True)
def old_binary(monkeypatch):
    """What is started first is of the old release."""
    if OLD_BINARY:
        monkeypatch.setattr(server, "BINARY", OLD_BINARY)
        monkeypatch.setattr(test_standby, "BINARY", OLD_BINARY)


def renew(process):
    """Ends it in order, and starts the new release in its place."""
    if isinstance(process, Role):
        assert process.kill(signal.SIGTERM) == 0
    else:
        process.ready = False  # as a load balancer knows
        assert process.stop() == 0
    process.args[0] = BINARY
    process.env.update(NEW)
    before = process.says('msg="ready"') if isinstance(process, Role) else 0
    process.start()
    if isinstance(process, Role):
        wait_until(lambda: process.says('msg="ready"') > before)
    if isinstance(process, Frontend):
        wait_until(lambda: process.request("GET", "/v2/health/ready")[0] == 200)
        process.ready = True


class AnyFrontend(Clients):
    """Clients that ask another frontend when one takes no requests, as a load balancer does."""

    class Front:
        def __init__(self, frontends):
            self.frontends = frontends

        def infer(self, *args, **more):
            until = time.monotonic() + 600
            for i in itertools.count(int(more["id"].split("-")[1])):
                one = self.frontends[i % len(self.frontends)]
                try:
                    if one.ready:
                        return one.infer(*args, **more)
                except (ConnectionError, http.client.HTTPException):
                    pass  # it takes no more connections
                assert time.monotonic() < until, "no frontend takes requests"
            return None

    def __init__(self, cluster, count=4):
        self.frontend = self.Front(cluster.frontends)
        super().__init__(self, count)


@pytest.mark.parametrize("order", [*(pytest.param(order, marks=pytest.mark.long) for order in ("members first", "schedulers first")),
                                   "any"])
def test_upgrade_under_load(tmp_path, order):
    with Upgrade(tmp_path) as cluster:
        members = cluster.backends + cluster.frontends
        processes = {"members first": members + cluster.schedulers, "schedulers first": cluster.schedulers + members,
                     "any": random.Random(1).sample(members + cluster.schedulers, 6)}[order]
        clients = AnyFrontend(cluster)
        clients.answered(50)
        for process in processes:
            renew(process)
            clients.answered(30)
            wait_until(lambda: len(cluster.status()["members"]) >= 5)  # the other scheduler among them
        wait_until(lambda: cluster.formats() == [("backend", 2)] * 2 + [("frontend", 2)] * 2)
        clients.answered(50)
        clients.check()


@pytest.mark.parametrize("renewed", ["", "scheduler", "scheduler frontend", "scheduler backend", "scheduler frontend backend"])
def test_links_speak_what_both_know(tmp_path, renewed):
    with Upgrade(tmp_path, schedulers=1, backends=1, frontends=1) as cluster:
        for role, processes in (("scheduler", cluster.schedulers), ("frontend", cluster.frontends), ("backend", cluster.backends)):
            if role in renewed:
                renew(processes[0])
        wait_until(cluster.ready)
        wait_until(lambda: cluster.formats() == [(role, 2 if role in renewed else 1) for role in ("backend", "frontend")])
        clients = Clients(cluster, 1)
        clients.answered(5)
        clients.check()


def test_formats_too_far_apart(tmp_path):
    with Upgrade(tmp_path, schedulers=1, backends=1, frontends=1) as cluster:
        stranger = Role("frontend", *cluster.join, "--http-port", "0", "--grpc-port", "0", env={"SYMPHONY_TEST_FORMATS": "2,3"})
        stranger.args[0] = BINARY
        wait_until(lambda: stranger.says("speaks formats 2 to 3 of messages, and symphony") and stranger.says("formats 1 to 1"))
        wait_until(lambda: cluster.schedulers[0].says("stranger refused"))
        stranger.end()
