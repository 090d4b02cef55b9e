"""test_clock.py - a server whose clock differs from the kernel's, as it would on another host, serves as any other; and so does a
cluster whose processes have clocks of their own."""
# sanitizers: address thread
import concurrent.futures
import json
import subprocess
import time

import numpy as np
import pytest
import tritonclient.grpc as grpc

import test_standby
from server import BINARY, Server, wait_until
from test_standby import Clients, Frontend, Role

INPUT = [{"name": "INPUT", "datatype": "FP32", "shape": [1, 1], "data": [0]}]
RUN_S, DELAY_S, SLO_S = 0.02, 0.1, 60


@pytest.fixture(scope="module", params=[None, "3600,200", "-10,-200"])
def server(request, tmp_path_factory):
    """Its threads sleep until times: a batch waits for company, and then an accelerator is emulated."""
    path = tmp_path_factory.mktemp("scenario") / "waits.yaml"
    path.write_text("cluster: {accelerators: 2, type: test}\n"
                    f"models:\n  - {{name: m, alpha_ms: 1, beta_ms: {RUN_S * 1000}, slo_ms: {SLO_S * 1000}}}\n"
                    "workload: {rate_rps: 10}\n")
    env = {"SYMPHONY_TEST_CLOCK": request.param} if request.param else {}
    with Server("--scenario", path, "--policy", f"timeout:max_queue_delay_us={DELAY_S * 1e6:.0f}", env=env) as running:
        yield running


def test_requests_are_answered_in_time(server):
    """Were a sleep's end or an arrival's time taken for the kernel's, answers would come an hour late or be refused."""
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for status, answer in pool.map(lambda _: server.infer("m", INPUT), range(40)):
            assert status == 200, answer
    server.rests()
    samples = server.metrics()
    total = lambda name: sum(value for key, value in samples.items() if key.split("{")[0] == name)
    answered = total("symphony_request_duration_seconds_count")
    assert answered >= 40 and total("symphony_requests_in_time_total") == answered
    assert answered * RUN_S * 0.99 < total("symphony_request_duration_seconds_sum") < answered * SLO_S


def test_a_batch_waits_as_long_as_it_is_told(server):
    began = time.monotonic()
    assert server.infer("m", INPUT)[0] == 200
    assert time.monotonic() - began > (RUN_S + DELAY_S) * 0.99


def test_a_client_may_give_a_deadline(server):
    assert server.infer("m", INPUT, parameters={"timeout": SLO_S * 1_000_000})[0] == 200
    with grpc.InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as client:
        x = grpc.InferInput("INPUT", [1, 1], "FP32")
        x.set_data_from_numpy(np.zeros((1, 1), np.float32))
        client.infer("m", [x], client_timeout=SLO_S)


def test_times_of_day_are_right(server):
    assert server.infer("m", INPUT)[0] == 200
    server.rests()
    _, _, body = server.request("GET", "/v2/models/m/stats")
    assert abs(json.loads(body)["model_stats"][0]["last_inference"] / 1000 - time.time()) < 600


@pytest.mark.parametrize("text", ["", "3600", "3600,", ",200", "3600,200,1", "x,y", "nan,0", "0,nan", "1e12,0", "-1e8,0"])
def test_a_clock_that_cannot_be_is_said(text):
    ended = subprocess.run([BINARY, "--version"], env={"SYMPHONY_TEST_CLOCK": text}, capture_output=True, text=True)
    assert ended.returncode == 2 and "SYMPHONY_TEST_CLOCK" in ended.stderr


class Cluster(test_standby.Cluster):
    """Two backends whose clocks are neither the scheduler's nor the frontend's, nor each other's."""

    def __init__(self, folder):
        super().__init__(folder, schedulers=1, backends=0, beta_ms=RUN_S * 1000)
        clocks = "3600,200", "-10,-200"
        self.backends = [Role("backend", *self.join, "--scenario", folder / "scenario.yaml", "--name", clock,
                              env={"SYMPHONY_TEST_CLOCK": clock}) for clock in clocks]
        self.frontend = Frontend(*self.join, env={"SYMPHONY_TEST_CLOCK": "100,50"})

    def ready(self):
        """Its models; the frontend itself says so some heartbeats later, when it knows of all there is."""
        return all(self.frontend.request("GET", f"/v2/models/{model}/ready")[0] == 200 for model in test_standby.MODELS)

    def backend(self, name):
        return next((one for one in self.status()["members"] if one["name"] == name and "clock_ahead_s" in one), None)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("cluster")) as made:
        wait_until(lambda: made.frontend.log_text().count("backend connected") >= 2)
        yield made


def test_status_tells_how_far_clocks_are_ahead(cluster):
    """And how far that may be wrong. The drift is seen in what comes of it."""
    for name, ahead_s, ppm in (("3600,200", 3600, 200), ("-10,-200", -10, -200)):
        def look():
            """What is said of the backend at some moment, and between which two times that was."""
            asked = time.monotonic()
            return cluster.backend(name), asked, time.monotonic()

        def seen():
            """Half of the drift and more is beyond what may be wrong, and when it was measured is known well: it has been seen."""
            nonlocal now
            now = look()
            least, most = now[1] - first[2], now[2] - first[1]
            return now[0] and most < 1.2 * least and \
                now[0]["clock_error_us"] + first[0]["clock_error_us"] < least * abs(ppm) / 4
        first = now = (None, 0, 0)

        def begun():
            nonlocal first
            first = look()
            return first[0]
        wait_until(begun)
        wait_until(seen)
        for backend, *_ in (first, now):
            assert abs(backend["clock_ahead_s"] - ahead_s) < 0.1
        seen_ppm = (now[0]["clock_ahead_s"] - first[0]["clock_ahead_s"]) / (now[2] - first[1]) * 1e6
        assert 0.5 < seen_ppm / ppm < 1.5


def test_deadlines_hold_between_clocks(cluster):
    """Were a time taken for one of another clock, all would be refused, or wait for an hour."""
    clients = Clients(cluster)
    clients.answered(200)
    clients.check()
    for deadline_s, status in ((SLO_S, 200), (RUN_S / 4, 503)):
        began = time.monotonic()
        got, answer = cluster.frontend.infer("m-1", INPUT, parameters={"timeout": int(deadline_s * 1e6)})
        assert got == status, answer
        assert time.monotonic() - began < SLO_S / 2
