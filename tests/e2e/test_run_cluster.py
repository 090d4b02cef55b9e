"""test_run_cluster.py - what `./run cluster` starts, and the lines that it prints for its user: a shell runs them as they are."""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading

import pytest

from server import BINARY, ETCD, MODELS, wait_until

ROOT = pathlib.Path(__file__).parents[2]


class Shown:
    """The script, and what it has printed so far."""

    def __init__(self, folder):
        self.text = ""
        repository = folder / "models"
        repository.mkdir()
        (repository / "recommender").symlink_to(pathlib.Path(MODELS).resolve() / "recommender")
        self.process = subprocess.Popen([sys.executable, "-B", ROOT / "scripts/cluster.py", pathlib.Path(BINARY).resolve(), repository,
                                         ETCD], cwd=folder, stdout=subprocess.PIPE, text=True)
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.text += line

    def end(self):
        self.process.send_signal(signal.SIGINT)
        status = self.process.wait(600)
        self.reader.join()
        return status

    def lines(self):
        """The commands: what is indented, with the lines that go on."""
        return [found.strip() for found in re.findall(r"^  \S.*?(?<!\\)$", self.text, re.MULTILINE | re.DOTALL)]

    def folder(self):
        """Where the logs are, and the numbers of the processes."""
        return pathlib.Path(re.search(r"^Logs are in (.*)\. Ctrl-C", self.text, re.MULTILINE)[1])


def sh(line):
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    if not os.access(ETCD, os.X_OK):
        pytest.skip("etcd is not installed (./run test does it)")
    made = Shown(tmp_path_factory.mktemp("shown"))
    try:
        wait_until(lambda: "Ctrl-C ends all" in made.text or made.process.poll() is not None, 1000)
        assert made.process.poll() is None, made.text
        yield made
    finally:
        if made.process.poll() is None:
            made.end()


def test_its_lines(shown):
    """A request; who belongs to it; a backend dies, and then the scheduler that leads, and no request is lost. With as much time as
    a busy machine takes."""
    request, status, backend_dies, scheduler_dies = shown.lines()
    assert json.loads(sh(request))["outputs"]
    names = "scheduler-[12]", "frontend-1", "frontend-2", "backend-1", "backend-2", "backend-3"
    wait_until(lambda: all(re.search(r"\b%s\b" % name, sh(status)) for name in names))
    folder = shown.folder()

    def begun():
        """How often each scheduler has begun to lead."""
        return {name: (folder / (name + ".log")).read_text().count('msg="leads"') for name in ("scheduler-1", "scheduler-2")}
    before = begun()
    for line, who in (backend_dies, "backend-2"), (scheduler_dies.replace("--slo-ms 5000", "--slo-ms 60000"), "scheduler-[12]"):
        load = json.loads(sh(line + " --json --grace 60"))
        assert load["requests"] > 300 and load["error_rate"] == 0 and load["unanswered_rate"] == 0, load
        wait_until(lambda: re.search(r"%s died \(-9\)" % who, shown.text))
    assert load["bad_rate"] == 0 and load["models"][0]["slo_ms"] == 60000, load
    died = re.findall(r"(scheduler-[12]) died", shown.text)[-1]  # who led when the line looked
    assert all(count > before[name] for name, count in begun().items() if name != died)
    wait_until(lambda: "backend-2" in sh(status))  # it has come back


def test_it_leaves_nothing(shown):
    spaces = [path for path in pathlib.Path("/run/netns").glob("sy%d-*" % shown.process.pid)]
    pids = [int(path.read_text()) for path in shown.folder().glob("*.pid")]
    assert len(pids) == 8
    assert shown.end() == 0
    assert not any(pathlib.Path("/proc/%d" % pid).exists() for pid in pids)
    assert not any(path.exists() for path in spaces)


def test_it_takes_no_argument():
    done = subprocess.run([ROOT / "run", "cluster", "--help"], capture_output=True, text=True, timeout=600)
    assert done.returncode == 2 and done.stderr == "run: cluster takes no argument, but was given '--help'; ./run alone lists the commands\n"
