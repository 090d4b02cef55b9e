"""test_cluster_clients.py - other people's clients against a frontend of a cluster: the tests of `serve`, shared memory among them,
and perf_analyzer with the metrics that it asks for."""
# all: yes, a frontend's answers are those of test_cluster_http.py and test_cluster_grpc.py, whatever client reads them
from test_clients import *  # noqa: F401,F403
from test_clients import DOUBLE, check_perf_analyzer, needs
from frontend import is_for_a_frontend, server  # noqa: F401 (in the place of theirs)
from server import wait_until


@needs("perf_analyzer")
def test_perf_analyzer_reads_metrics(server, tmp_path):  # noqa: F811
    """From the frontend's metrics port; and that counts what was asked."""
    theirs = 'nv_inference_request_success{model="double",version="1"}'
    before = server.metrics()[theirs]
    check_perf_analyzer(server, DOUBLE, tmp_path, metrics=True)
    after = server.metrics()
    assert after[theirs] >= before + 100
    assert not any(row.startswith("nv_inference_exec_count") for row in after)  # a frontend knows of no batches

    def adds_up():
        page = server.metrics()
        whole, *parts = [page[f'nv_inference_{part}_duration_us{{model="double",version="1"}}'] for part in
                         ("request", "queue", "compute_input", "compute_infer", "compute_output")]
        return parts[2] > 0 and abs(whole - sum(parts)) <= 5  # each is rounded down
    # Not at once: perf_analyzer ends while more requests of its are answered, and a page reads row after row.
    wait_until(adds_up)
