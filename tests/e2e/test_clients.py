"""test_clients.py - load generators and clients of others against a server: whatever they ask is answered, whoever asks."""
import pytest

import clients
from clients import Model
from repository import repository, server  # noqa: F401 (fixtures)

DOUBLE, WIDE = Model("double", 4), Model("wide", 150528)
PROTOCOLS = pytest.mark.parametrize("protocol", ["HTTP", "gRPC"])


def needs(program):
    return pytest.mark.skipif(clients.find(program) is None, reason=f"{program} is not installed (./run test does it)")


def check(outcome, least):
    print(outcome)
    assert outcome.failed == 0 and outcome.requests >= least and 0 < outcome.p50_ms <= outcome.p99_ms


def check_perf_analyzer(server, model, folder, **how):
    """It sends four at once, and may leave the last of each out of its report; the server counts all."""
    name = 'symphony_requests_total{model="%s",version="1",outcome="ok"}' % model.name
    before = server.metrics()[name]
    check(clients.perf_analyzer(server, model, folder, requests=100, **how), 96)
    server.rests()  # requests are counted a moment after their answers
    assert server.metrics()[name] >= before + 100


@needs("curl")
def test_curl(server, tmp_path):
    check(clients.curl(server, DOUBLE, tmp_path, requests=50), 50)


@needs("wrk")
def test_wrk(server, tmp_path):
    for seconds in (1, 5, 25):  # for longer if the machine stood still
        outcome = clients.wrk(server, DOUBLE, tmp_path, seconds)
        if outcome.requests > 0:
            break
    check(outcome, 1)


@needs("h2load")
@PROTOCOLS
@pytest.mark.parametrize("model,requests", [(DOUBLE, 2000), (WIDE, 50)], ids=["small", "large"])
def test_h2load(server, tmp_path, protocol, model, requests):
    check(clients.h2load(server, model, tmp_path, protocol, requests), requests)


@needs("perf_analyzer")
@PROTOCOLS
@pytest.mark.parametrize("shared_memory", ["none", "system"])
@pytest.mark.parametrize("model", [DOUBLE, WIDE], ids=["small", "large"])
def test_perf_analyzer(server, tmp_path, protocol, shared_memory, model):
    check_perf_analyzer(server, model, tmp_path, protocol=protocol, shared_memory=shared_memory)


@needs("perf_analyzer")
def test_perf_analyzer_streaming(server, tmp_path):
    check_perf_analyzer(server, DOUBLE, tmp_path, streaming=True)


@PROTOCOLS
def test_mlperf_load_generator(server, tmp_path, protocol):
    pytest.importorskip("mlperf_loadgen")
    outcome = clients.loadgen(server, DOUBLE, tmp_path, protocol, rate=300, requests=700, latency_ms=60000)
    check(outcome, 700)
    assert outcome.verdict == "VALID"
