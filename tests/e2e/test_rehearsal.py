"""A server that loses requests rehearses its policy's ways, and ends that when it loses none."""

# shards: 2
import concurrent.futures
import contextlib
import re
import signal
import subprocess

import pytest

from server import BINARY, Server, wait_until
from test_cluster_status import Cluster

# Too much for two accelerators, on any machine: 150 ms for one request, 320 for 30.
SCENARIO = """
cluster: {accelerators: 2}
models:
  - {name: a, alpha_ms: 5.7, beta_ms: 143, slo_ms: 600}
  - {name: b, alpha_ms: 5.7, beta_ms: 143, slo_ms: 600}
"""
WAY = 'symphony_policy_way{way="%s"}'


def run(*command):
    return subprocess.run([BINARY, *map(str, command)], text=True, capture_output=True, timeout=600)


@contextlib.contextmanager
def too_much(port, *options):
    """Requests, for as long as the block takes."""
    bench = subprocess.Popen([BINARY, "bench", "http://127.0.0.1:%d" % port, "--rate", "400", "--seconds", "3600", "--slo-ms", "600",
                              *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
        bench.send_signal(signal.SIGINT)
        assert bench.wait(600) == 0
    finally:
        bench.kill()
        bench.wait()


def ways(metrics):
    return {way: metrics[WAY % way] for way in ("priced", "none", "longest")}


def rehearses(cluster):
    return int(re.search(r"^symphony_rehearsal_running (\d)$", cluster.scheduler.get("/metrics")[1], re.M).group(1))


@pytest.fixture
def scenario(tmp_path):
    (tmp_path / "scenario.yaml").write_text(SCENARIO)
    return tmp_path / "scenario.yaml"


def test_while_requests_are_lost(scenario, tmp_path):
    with Server("--scenario", scenario, "--record-decisions", tmp_path / "log") as server:
        metrics = server.metrics()
        assert metrics["symphony_rehearsal_running"] == 0
        assert ways(metrics) == {"priced": 1, "none": 0, "longest": 0}
        with too_much(server.port):
            wait_until(lambda: server.metrics()["symphony_rehearsal_running"] == 1)
            wait_until(lambda: sum(ways(server.metrics()).values()) == 1)  # the page is read row by row while the way changes
        wait_until(lambda: server.metrics()["symphony_rehearsal_running"] == 0)
        wait_until(lambda: ways(server.metrics()) == {"priced": 1, "none": 0, "longest": 0})
        assert server.stop() == 0
    done = run("whatif", "--check", tmp_path / "log")  # changes of the way are logged like all that a core is told
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("options", [("--policy", "deferred:waiting=none"), ("--policy", "symphony"), ("--record-mib", "0")])
def test_with_one_way_or_without_a_recording_there_is_nothing_to_rehearse(scenario, options):
    with Server("--scenario", scenario, *options) as server:
        assert not any(name.startswith(("symphony_policy_way", "symphony_rehearsal")) for name in server.metrics())


def test_simulations_tell_how_long_they_went_by_each_way(scenario):
    shares = dict(re.findall(r"(priced|none|longest) ([0-9.]+) % of the time",
                             run("simulate", scenario, "--set", "workload.rate_rps=400", "--set", "run.seconds=30").stdout))
    assert len(shares) == 3 and abs(sum(map(float, shares.values())) - 100) < 0.2
    fixed = run("simulate", scenario, "--set", "workload.rate_rps=400", "--policy", "deferred:waiting=priced")
    assert fixed.returncode == 0 and "of the time" not in fixed.stdout


def test_a_clusters_scheduler_rehearses(tmp_path):
    cluster = Cluster(tmp_path)
    try:
        (tmp_path / "slow.yaml").write_text(SCENARIO.replace("name: a", "name: slow").replace("name: b", "name: other"))
        cluster.start("backend", "slow", "--join", cluster.join, "--scenario", str(tmp_path / "slow.yaml"))
        wait_until(lambda: cluster.frontend.get("/v2/models/slow/ready", "http_port")[0] == 200)
        with too_much(cluster.frontend.port("http_port"), "--models", "slow"):
            wait_until(lambda: rehearses(cluster) == 1)
        assert "symphony_rehearsal_running" not in cluster.frontend.get("/metrics")[1]
        cluster.end()
    finally:
        cluster.kill()


def test_a_model_without_accelerators_in_service_does_not_end_the_scheduler(tmp_path):
    """Its only backend drains, which takes as long as its batch: longer than this test. Meanwhile requests of another model are lost."""
    cluster = Cluster(tmp_path)
    try:
        (tmp_path / "slow.yaml").write_text(SCENARIO.replace("name: a", "name: slow").replace("name: b", "name: other"))
        (tmp_path / "held.yaml").write_text("cluster: {accelerators: 1}\n"
                                            "models: [{name: held, alpha_ms: 1, beta_ms: 600000, slo_ms: 3000000}]\n")
        for name in ("slow", "held"):  # the type of "held" has the higher number
            cluster.start("backend", name, "--join", cluster.join, "--scenario", str(tmp_path / name) + ".yaml")
            wait_until(lambda: cluster.frontend.get("/v2/models/%s/ready" % name, "http_port")[0] == 200)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            pool.submit(cluster.infer, "held")
            try:
                wait_until(lambda: next(m for m in cluster.status()["models"] if m["name"] == "held")["batches"] == 1)
                assert cluster.ask("drain", "held").returncode == 0
                with too_much(cluster.frontend.port("http_port"), "--models", "slow"):
                    wait_until(lambda: rehearses(cluster) == 1)
                wait_until(lambda: rehearses(cluster) == 0)  # it has looked several times
                assert cluster.scheduler.process.poll() is None
            finally:
                cluster.kill()  # which ends the request, too
    finally:
        cluster.kill()
