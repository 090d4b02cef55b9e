"""frontend.py - a frontend in the place of `serve`, for tests that both are to pass: import its names behind these tests."""
import pytest

from repository import repository  # noqa: F401 (fixtures)
from server import free_port, wait_until
from test_standby import Frontend, Role

MODELS = "echo", "double", "wide", "single", "root", "pick"
OTHERWISE = (  # parts of the names of tests that are not for a frontend
    "broken", "test_mistakes",  # it hears only of models that a backend could load
    "test_repository_index",  # so it lists only these
    "test_statistics",  # batches are counted, and memory is taken, where they run
    "requests_on_a_connection", "mlperf",  # takes long, and is about the protocol alone
)


def is_for_a_frontend(item):
    """Whether a test of `serve` is one for a frontend, too: not if it starts a server of its own. conftest.py leaves the others out."""
    return "server" in item.fixturenames and not any(part in item.name for part in OTHERWISE)


@pytest.fixture(scope="module")
def server(repository, request):  # noqa: F811 (in the place of that fixture)
    """A frontend, with a scheduler and a backend behind it."""
    failed = request.session.testsfailed
    at = "127.0.0.1:%d" % free_port()
    roles = [Role("scheduler", "--listen", at), Role("backend", "--join", at, "--repository", repository, "--slo-ms", "60000")]
    try:
        with Frontend("--join", at, "--shared-memory") as running:
            paths = ["/v2/health/ready", *("/v2/models/%s/ready" % model for model in MODELS)]
            wait_until(lambda: all(running.request("GET", path)[0] == 200 for path in paths), 600)
            yield running
    finally:
        for one in roles:
            one.end(request.session.testsfailed > failed)
