"""prepared.py - clusters whose frontends prepare the inputs of requests, for tests: what `serve` has to do, they have to.

The fixtures are for tests of `serve` that a frontend is to pass as well: import them behind these tests, and have a
`cluster` beside them."""
import contextlib

import pytest

from server import free_port, wait_until
from test_standby import Frontend, Role

START_S = 900  # profiling included, sanitizers too


class Cluster:
    """A scheduler, backends with the same repository, and a frontend."""

    def __init__(self, repository, models, *frontend, backends=1, transport="auto", policy="deferred", backend=()):
        self.models = models
        self.join = ("--join", "127.0.0.1:%d" % free_port())
        fabric = ("--fabric", "tcp") if transport == "fabric" else ()
        self.scheduler = Role("scheduler", "--listen", self.join[1], "--policy", policy)
        self.backends = [Role("backend", *self.join, "--repository", repository, "--slo-ms", "60000", "--transport", transport,
                              *fabric, *backend) for _ in range(backends)]
        self.frontend = Frontend(*self.join, *fabric, *frontend)

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            stack.push(self.__exit__)
            self.frontend.start()
            wait_until(self.ready, START_S)
            stack.pop_all()
        return self

    def __exit__(self, *error):
        for role in [self.scheduler] + self.backends:
            role.end(error[0])
        if self.frontend.process:
            self.frontend.__exit__(*error)

    def is_ready(self, model):
        return self.frontend.request("GET", f"/v2/models/{model}/ready")[0] == 200

    def ready(self):
        """All backends have joined, and the models are served."""
        return self.frontend.log_text().count('msg="backend connected"') >= len(self.backends) and \
            all(self.is_ready(model) for model in self.models)

    def rests(self):
        """Waits until nothing of any request is left."""
        wait_until(lambda: self.frontend.metrics()["symphony_requests_in_flight"] == 0)
        wait_until(lambda: self.frontend.metrics()["symphony_inputs_bytes"] == 0)


@pytest.fixture(scope="module")
def server(cluster):
    return cluster.frontend


def is_for_a_frontend(item):
    """Whether a test is one for a frontend: not if it is one of `serve`'s and starts a server of its own. conftest.py leaves these out."""
    return "cluster" in item.fixturenames or item.function.__module__ == item.module.__name__
