"""test_cluster_policies.py - every policy serves a cluster whose backends come and go under load: nothing is lost.

The deadlines are so long that nothing has to be refused; so `symphony` is not to wait for company until they are near."""
# sanitizers: address thread
import signal

import pytest

from server import wait_until
from test_standby import Clients, Cluster, Role

CENTRAL = ["clockwork", "nexus", "kairos"]
POLICIES = ["deferred", "symphony:schedulable=immediately", "eager", "timeout", "fifo"] + CENTRAL


def accelerators(cluster):
    return cluster.status()["scheduler"]["accelerators"]


@pytest.mark.parametrize("policy", POLICIES)
def test_backends_come_and_go(tmp_path, policy):
    with Cluster(tmp_path, schedulers=1, backends=2, policy=policy) as cluster:
        wait_until(lambda: accelerators(cluster) == 4)
        clients, (first, second) = Clients(cluster), cluster.backends
        clients.answered(30)
        assert first.kill(signal.SIGTERM) == 0
        clients.answered(10)
        first.start()
        wait_until(lambda: accelerators(cluster) == 4)
        clients.answered(10)
        assert second.kill(signal.SIGTERM) == 0
        clients.answered(10)
        with clients.nobody_there():  # requests wait for two heartbeats
            assert first.kill(signal.SIGTERM) == 0
            second.start()
            wait_until(lambda: accelerators(cluster) == 2)
            clients.answered(20)
        with clients.nobody_there():
            second.kill()
            second.start()
            clients.answered(20)
        clients.check()
