"""conftest.py - what several files of tests are given."""
import os
import sys

import pytest

verdict = pytest.ExitCode.OK


def pytest_configure(config):
    config.addinivalue_line("markers", "long: a test that only './run test --all' runs")


def pytest_collection_modifyitems(config, items):
    """Leaves out tests that a file takes from another one and cannot run, and, unless all are wanted, or somebody chooses by mark (-m)
    himself, the long ones, and, against a program with sanitizers, those of which its file's repeats() says that others of it run the same
    code of the program."""
    every = os.environ.get("SYMPHONY_TEST_ALL") or config.option.markexpr
    sanitized = os.environ.get("SYMPHONY_SANITIZED")
    left = [item for item in items if not getattr(item.module, "is_for_a_frontend", lambda item: True)(item)
            or not every and item.get_closest_marker("long")
            or not every and sanitized and getattr(item.module, "repeats", lambda item: False)(item)]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in left]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """What a test lacks fails it where set-up was to install it, as before `./run test`."""
    outcome = yield
    report = outcome.get_result()
    if report.skipped and os.environ.get("SYMPHONY_TEST_INSTALLED") and "is not installed" in str(report.longrepr):
        report.outcome = "failed"


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
