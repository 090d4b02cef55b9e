"""test_cluster_rollout.py - one decision for the whole cluster on which version gets requests that name none: `symphony rollout`."""
import shutil
import signal
import subprocess

import pytest

from repository import measure
from server import BINARY, free_port, wait_until
from test_cluster_partial import ask, counting
from test_standby import Frontend, Role, etcd, status_of  # etcd: a fixture


def rollout(join, *args):
    done = subprocess.run([BINARY, "rollout", *join, "--timeout", "60", *args], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def backends_of(join):
    return {m["version"]: m["backends"] for m in status_of(join)["models"]}


@pytest.fixture
def versions(tmp_path):
    """A repository whose model has two versions."""
    folder = counting(tmp_path)
    shutil.copytree(folder / "m" / "1", folder / "m" / "2")
    (folder / "m" / "config.pbtxt").write_text('name: "m"\nversion_policy: { all { } }\n')
    measure(folder)
    return folder


class Asked:
    def __init__(self, frontend):
        self.frontend = frontend

    def versions(self, count):
        """How many of so many requests went to the second version."""
        answers = [ask(self.frontend, 3) for _ in range(count)]
        assert all(status == 200 for status, _ in answers), answers
        return sum(answer["model_version"] == "2" for _, answer in answers)

    def become(self, of_twenty):
        wait_until(lambda: self.versions(20) == of_twenty)
        assert self.versions(20) == of_twenty


@pytest.mark.parametrize("registered", [False, True])
def test_a_version_is_rolled_out(versions, registered, request):
    """By share, for good, and back; it outlasts all schedulers, and what goes wrong is said."""
    addresses = ["127.0.0.1:%d" % free_port() for _ in range(2)]
    if registered:
        join = more = ("--registry", request.getfixturevalue("etcd") + "-rollout")
    else:
        join, more = ("--join", ",".join(addresses)), ("--peers", ",".join(addresses))
    schedulers = [Role("scheduler", "--listen", one, *more) for one in addresses]
    backends = [Role("backend", *join, "--repository", versions, "--accelerators", "cpu:1") for _ in range(2)]
    frontend = Frontend(*join)
    asked = Asked(frontend)
    failed = True
    try:
        with frontend:
            def stated():
                return [(r["version"], r["share"], r["before"], r["rolls"]) for r in status_of(join)["rollouts"]]

            wait_until(lambda: backends_of(join) == {1: 2, 2: 2})
            wait_until(lambda: ask(frontend, 3)[0] == 200)
            asked.become(20)
            for args, why in ((("no", "1"), "no backend has a model 'no'"),
                              (("m", "7"), "no backend has version 7 of model 'm'; they have 1, 2"),
                              (("m", "--back"), "no rollout of model 'm' is stated"),
                              (("m", "--newest"), "no rollout of model 'm' is stated")):
                status, _, said = rollout(join, *args)
                assert status == 1 and why in said, said
            assert rollout(join, "m", "1") == (0, "model 'm': 100 % of the requests without a version go to version 1\n", "")
            asked.become(0)
            status, said, _ = rollout(join, "m", "2", "--share", "25%")
            assert (status, said) == (0, "model 'm': 25 % of the requests without a version go to version 2, the others to version 1\n")
            asked.become(5)
            assert {m["version"]: m["share"] for m in status_of(join)["models"]} == {1: 0.75, 2: 0.25}
            shown = subprocess.run([BINARY, "status", *join], capture_output=True, text=True).stdout
            assert ["m", "2", "25%", "2", "1", "2", "on"] in [line.split() for line in shown.splitlines()], shown
            for scheduler in schedulers:
                scheduler.kill()
            if registered:  # nobody is left that remembers, but etcd
                for backend in backends:
                    backend.kill()
                frontend.stop(signal.SIGKILL)
                frontend.start()
            for role in (*schedulers, *(backends if registered else ())):
                role.start()
            wait_until(lambda: stated() == [(2, 0.25, 1, True)])
            wait_until(lambda: ask(frontend, 3)[0] == 200)
            asked.become(5)
            assert rollout(join, "m", "2")[0] == 0
            asked.become(20)
            assert rollout(join, "m", "--back")[0] == 0
            asked.become(0)
            assert stated() == [(1, 1, None, True)]
            status, _, said = rollout(join, "m", "--back")
            assert status == 1 and "no version before it to go back to" in said
            status, said, _ = rollout(join, "m", "--newest")
            assert (status, said) == (0, "model 'm': requests without a version go to the newest one that enough backends have\n")
            asked.become(20)
        failed = False
    finally:
        for role in (*schedulers, *backends):
            role.end(failed)


def test_a_rollout_waits_for_backends(versions, tmp_path):
    """A version that too few backends have gets no more than they can carry, and loses its requests when they go."""
    old = tmp_path / "old" / "m"
    shutil.copytree(versions / "m" / "1", old / "1")
    shutil.copy(versions / "m" / "symphony.yaml", old)
    join = ("--join", "127.0.0.1:%d" % free_port())
    scheduler = Role("scheduler", "--listen", join[1])
    backends = [Role("backend", *join, "--repository", folder, "--accelerators", "cpu:1") for folder in (old.parent, versions, versions)]
    frontend = Frontend(*join)
    asked = Asked(frontend)
    failed = True
    try:
        with frontend:
            wait_until(lambda: backends_of(join) == {1: 3, 2: 2})
            wait_until(lambda: ask(frontend, 3)[0] == 200)
            status, said, _ = rollout(join, "m", "2")
            assert status == 0 and "once enough backends have it: now 2, and 3 have version 1" in said, said
            assert asked.versions(20) == 0
            assert rollout(join, "m", "2", "--share", "50%")[0] == 0
            asked.become(10)
            backends[2].kill(signal.SIGTERM)
            wait_until(lambda: backends_of(join) == {1: 2, 2: 1})
            asked.become(10)
            backends[1].kill(signal.SIGTERM)
            asked.become(0)
        failed = False
    finally:
        for role in (scheduler, *backends):
            role.end(failed)


@pytest.mark.parametrize("args, why", [((), "MODEL is missing"), (("m",), "give either a version, --back or --newest"),
                                       (("m", "1", "--back"), "give either a version"), (("m", "x"), "'x' is no version"),
                                       (("m", "--back", "--share", "5"), "--share goes with a version"),
                                       (("m", "1", "--share", "0"), "expected 0.01% to 100%"),
                                       (("m", "1", "--share", "101%"), "expected 0.01% to 100%")])
def test_usage(args, why):
    status, _, said = rollout(("--join", "127.0.0.1:1"), *args)
    assert status == 2 and why in said


def test_no_scheduler():
    join = ("--join", "127.0.0.1:%d" % free_port())
    status, _, said = rollout(join, "m", "1")
    assert status == 1 and "Connection refused" in said
