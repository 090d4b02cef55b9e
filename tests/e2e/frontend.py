"""frontend.py - fixtures for tests of `serve` that a frontend of a cluster is to pass as well: import them behind these tests."""
import pytest

from repository import repository  # noqa: F401 (fixtures)
from server import free_port, wait_until
from test_standby import Frontend, Role

MODELS = "echo", "double", "wide", "single", "root", "pick"
OTHERWISE = {  # a part of a test's name: why it is not for a frontend
    "broken": "a frontend hears only of models that a backend could load",
    "test_mistakes": "likewise",
    "test_repository_index": "so it lists only these",
    "test_statistics": "batches are counted, and memory is taken, where they run",
    "ten_thousand": "it takes long, and is about the protocol alone",
    "mlperf": "it takes long, and is about the protocol alone",
}


@pytest.fixture(scope="module")
def server(repository):  # noqa: F811 (in the place of that fixture)
    """A frontend, with a scheduler and a backend behind it."""
    at = "127.0.0.1:%d" % free_port()
    roles = [Role("scheduler", "--listen", at), Role("backend", "--join", at, "--repository", repository, "--slo-ms", "60000")]
    try:
        with Frontend("--join", at) as running:
            paths = ["/v2/health/ready", *("/v2/models/%s/ready" % model for model in MODELS)]
            wait_until(lambda: all(running.request("GET", path)[0] == 200 for path in paths), 600)
            yield running
    finally:
        for one in roles:
            one.end()


@pytest.fixture(autouse=True)
def for_a_frontend(request):
    if "server" not in request.fixturenames:
        pytest.skip("it starts a server of its own")
    for name, why in OTHERWISE.items():
        if name in request.node.name:
            pytest.skip(why)
