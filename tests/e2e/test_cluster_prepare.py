"""test_cluster_prepare.py - images that the frontends of a cluster decode while their requests wait: the cases of `serve`, and
processes that die meanwhile."""
# sanitizers: address thread
import json
import signal
import threading
from http.client import HTTPException

import pytest
from onnx import helper

from images import jpeg, jpeg_pixels, picture, png
from repository import save_model
from server import wait_until
from test_prepare import *  # noqa: F401,F403
from prepared import Cluster, is_for_a_frontend, server  # noqa: F401,F811 (fixtures, in the place of those)
from test_prepare import FLOAT, H, W, pixels_of, refusal
from test_standby import Frontend
from test_transports import TRANSPORTS, has

MODELS = "fixed", "any", "alone", "gain"


@pytest.fixture(scope="module", params=[has(transport) for transport in TRANSPORTS])
def cluster(repository, request):  # noqa: F405
    with Cluster(repository, MODELS, "--prepare-threads", "2", backends=2, transport=request.param) as running:
        yield running


# ---- where it is served, and where not ----

@pytest.mark.parametrize("policy", ["timeout", "nexus", "kairos", *(  # test_cluster_prepare_onnx.py has the others
    pytest.param(policy, marks=pytest.mark.long) for policy in ("eager", "fifo", "clockwork"))])
def test_every_policy_of_a_scheduler(repository, policy):
    """Those that reckon with promises, and those for which the frontend holds requests until they are prepared."""
    image = picture(H, W)
    with Cluster(repository / "fixed", ["fixed"], policy=policy) as cluster:
        for n in range(5):
            assert (pixels_of(cluster.frontend, "fixed", [png(image)] * (1 + n % 2))[0] == image).all()
        assert "Premature end" in refusal(cluster.frontend, "fixed", [jpeg(image)[:-40]])
        cluster.rests()


def test_emulated_accelerators_of_a_backend(repository):
    with Cluster(repository / "fixed", ["fixed"], backend=("--accelerators", "emulated:2")) as cluster:
        assert pixels_of(cluster.frontend, "fixed", [png(picture(H, W))]).shape == (1, H, W, 3)
        assert "Premature end" in refusal(cluster.frontend, "fixed", [jpeg(picture(H, W))[:-40]])


# ---- processes that die meanwhile ----

class Asking:
    """Clients that send images until they are told to stop; each answer is right, or says why there is none. If the server dies,
    one may end in its middle."""

    def __init__(self, server, count=4, sizes=((300, 400), (H, W), (600, 600)), dies=False):
        self.server, self.stop, self.told, self.wrong, self.dies = server, threading.Event(), [], [], dies
        self.files = [jpeg(picture(*size, seed), 30) for seed, size in enumerate(sizes)]
        self.images = [jpeg_pixels(file, *size) for file, size in zip(self.files, sizes)]
        self.threads = [threading.Thread(target=self.run, args=(n,)) for n in range(count)]
        for thread in self.threads:
            thread.start()

    def run(self, n):
        while not self.stop.is_set():
            n = (n + 1) % len(self.files)
            try:
                right = (pixels_of(self.server, "any", [self.files[n]])[0] == self.images[n]).all()
                (self.told if right else self.wrong).append(True)
            except Exception as mistake:
                text = str(mistake)
                lost = isinstance(mistake, (ConnectionError, OSError)) or "closed" in text or "refused" in text
                lost |= self.dies and isinstance(mistake, HTTPException)  # "Incomplete response", "Invalid EOF state"
                (self.told if lost or "[503]" in text or "[504]" in text else self.wrong).append(text)
                self.stop.wait(0.05)

    def answered(self, more):
        before = self.told.count(True)
        wait_until(lambda: self.told.count(True) >= before + more or self.wrong, 600)
        assert not self.wrong, self.wrong[:3]

    def end(self):
        self.stop.set()
        for thread in self.threads:
            thread.join()
        assert not self.wrong, self.wrong[:3]


@pytest.mark.parametrize("transport", [has(transport) for transport in TRANSPORTS])
def test_backends_die_amid_preparations(repository, transport):
    with Cluster(repository / "any", ["any"], "--prepare-threads", "1", backends=2, transport=transport) as cluster:
        asking = Asking(cluster.frontend)
        try:
            for backend in cluster.backends:
                asking.answered(12)
                backend.kill()
                asking.answered(12)
                backend.start()
                wait_until(lambda: backend.says('msg="ready"'), 600)
            asking.answered(12)
        finally:
            asking.end()
        cluster.rests()
        assert "symphony_requests_left_out_total" in str(cluster.frontend.metrics())


def test_the_scheduler_dies_amid_preparations(repository):
    with Cluster(repository / "any", ["any"], "--prepare-threads", "1") as cluster:
        asking = Asking(cluster.frontend)
        try:
            asking.answered(12)
            cluster.scheduler.kill()
            cluster.scheduler.start()
            asking.answered(24)
        finally:
            asking.end()
        cluster.rests()


def test_a_frontend_dies_amid_preparations(repository):
    """Another one goes on, and what the dead one had is nobody's any more."""
    with Cluster(repository / "any", ["any"], "--prepare-threads", "1") as cluster, \
            Frontend(*cluster.join, "--prepare-threads", "1") as other:
        wait_until(lambda: other.request("GET", "/v2/models/any/ready")[0] == 200)
        dying, staying = Asking(cluster.frontend, dies=True), Asking(other, 3)
        try:
            dying.answered(12)
            cluster.frontend.process.kill()
            cluster.frontend.process.wait()
            dying.stop.set()
            staying.answered(24)
        finally:
            dying.end()
            staying.end()
        cluster.frontend.start()
        wait_until(cluster.ready)
        assert pixels_of(cluster.frontend, "any", [png(picture(H, W))]).shape == (1, H, W, 3)


def test_a_frontend_drains_amid_preparations(repository):
    with Cluster(repository / "any", ["any"], "--prepare-threads", "1", "--drain-timeout", "60") as cluster:
        asking = Asking(cluster.frontend, 6)
        asking.answered(12)
        assert cluster.frontend.stop() == 0, cluster.frontend.log_text()[-3000:]
        asking.end()
        assert True in asking.told


def test_the_end_of_a_frontend_amid_preparations(repository):
    with Cluster(repository / "any", ["any"], "--prepare-threads", "1", "--drain-timeout", "0") as cluster:
        asking = Asking(cluster.frontend, 6, dies=True)
        asking.answered(12)
        assert cluster.frontend.stop() in (0, 1)
        asking.end()


def test_a_backend_drains_amid_preparations(repository):
    with Cluster(repository / "any", ["any"], "--prepare-threads", "1", backends=2) as cluster:
        asking = Asking(cluster.frontend)
        try:
            asking.answered(12)
            assert cluster.backends[0].kill(signal.SIGTERM) == 0
            asking.answered(12)
        finally:
            asking.end()
        assert all(told is True for told in asking.told), [t for t in asking.told if t is not True][:3]
        cluster.rests()
