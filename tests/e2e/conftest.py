"""conftest.py - what several files of tests are given."""
import os
import sys

import pytest

verdict = pytest.ExitCode.OK


def pytest_configure(config):
    config.addinivalue_line("markers", "long: a test that only './run test --all' runs")


def pytest_collection_modifyitems(config, items):
    """Long tests are left out, unless all are wanted, or somebody chooses by mark (-m) himself."""
    if os.environ.get("SYMPHONY_TEST_ALL") or config.option.markexpr:
        return
    long = [item for item in items if item.get_closest_marker("long")]
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if not item.get_closest_marker("long")]


def pytest_sessionfinish(exitstatus):
    global verdict
    verdict = exitstatus


def pytest_unconfigure():
    """Clients of a failed test may go on in threads of their own, for which the process would wait for ever."""
    if verdict != pytest.ExitCode.OK:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(int(verdict))


@pytest.fixture(scope="module")
def scenario(tmp_path_factory):
    """One emulated model, `m`, that is quick and never late."""
    path = tmp_path_factory.mktemp("scenario") / "quick.yaml"
    path.write_text("cluster: {accelerators: 1, type: test}\n"
                    "models:\n  - {name: m, alpha_ms: 0.01, beta_ms: 0.1, slo_ms: 60000}\n"
                    "workload: {rate_rps: 10}\n")
    return path
