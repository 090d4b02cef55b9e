"""test_cluster_clients.py - other people's clients against a frontend of a cluster: the tests of `serve`, shared memory among them,
and perf_analyzer with the metrics that it asks for."""
import clients
from test_clients import *  # noqa: F401,F403
from test_clients import DOUBLE, needs
from frontend import for_a_frontend, server  # noqa: F401 (in the place of theirs)


@needs("perf_analyzer")
def test_perf_analyzer_reads_metrics(server, tmp_path):  # noqa: F811
    """From the frontend's metrics port; and that counts what was asked."""
    name = 'symphony_requests_total{model="double",version="1",outcome="ok"}'
    before = server.metrics()[name]
    check(clients.perf_analyzer(server, DOUBLE, tmp_path, requests=100, metrics=True), 100)  # noqa: F405
    assert server.metrics()[name] >= before + 100
