"""test_slurm.py - deploy/slurm as a user of a real Slurm meets it: jobs of one to three nodes, each node a network namespace."""
import concurrent.futures
import json
import os
import pathlib
import re
import signal

import pytest

import slurm_nodes
from repository import repository  # noqa: F401
from server import BINARY, samples_of, wait_until
from slurm_nodes import NODES

pytestmark = pytest.mark.skipif(slurm_nodes.missing() != "", reason=slurm_nodes.missing())
SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "slurm" / "symphony.sbatch"
SCENARIO = """cluster: {accelerators: 2, type: gpu}
models:
  - {name: quick, alpha_ms: 1, beta_ms: 5, slo_ms: 60000}
  - {name: slow, alpha_ms: 1, beta_ms: 3000, slo_ms: 60000}
workload: {rate_rps: 10}
"""
MEMBERS = {"scheduler-n1", "scheduler-n2", "frontend-n1", "backend-n1", "backend-n2", "backend-n3"}
METRICS = 5  # the frontend's port for them is so many above that for HTTP
ASK_EVERY_S = 0.1  # each question to Slurm is a process
ZEROS = [{"name": "INPUT", "datatype": "FP32", "shape": [1, 1], "data": [0]}]


@pytest.fixture(scope="module")
def nodes():
    if slurm_nodes.version() < 23 and not os.listdir("/sys/fs/cgroup"):
        pytest.skip("no cgroups here, without which this slurmd does not start")
    with slurm_nodes.Nodes() as nodes:
        yield nodes


class Job:
    """A job of the script, in a folder of its own."""

    def __init__(self, nodes, folder, *options, backend=()):
        self.nodes, self.folder = nodes, folder
        said = nodes.run("sbatch", "--parsable", "--chdir=%s" % folder, *options, SCRIPT, *backend,
                         SYMPHONY=os.path.abspath(BINARY))
        self.number = int(said)
        self.files = folder / ("symphony-%d" % self.number)

    def says(self):
        path = self.folder / ("symphony-%d.out" % self.number)
        return path.read_text() if path.exists() else ""

    def wait(self, line):
        wait_until(lambda: line in self.says() or self.state()[0] not in ("PENDING", "RUNNING"), 900, ASK_EVERY_S)
        assert line in self.says(), self.says()

    def state(self):
        """Slurm's word for it, and its exit status."""
        said = self.nodes.run("scontrol", "--oneliner", "show", "job", self.number)
        return re.search(r" JobState=(\S+)", said)[1], int(re.search(r" ExitCode=(\d+):", said)[1])

    def wait_end(self):
        wait_until(lambda: self.state()[0] not in ("PENDING", "RUNNING", "COMPLETING"), every_s=ASK_EVERY_S)
        return self.state()

    def log(self, name):
        return (self.files / (name + ".log")).read_text()

    def infer(self, model, inputs=ZEROS):
        said = self.nodes.run("curl", "--silent", "--write-out", "\n%{http_code}", "--data", json.dumps({"inputs": inputs}),
                              "http://%s/v2/models/%s/infer" % ((self.files / "http").read_text().strip(), model))
        answer, status = said.rsplit("\n", 1)
        return int(status), json.loads(answer)

    def received(self):
        """The bytes of requests that the frontend has received."""
        host, port = (self.files / "http").read_text().strip().rsplit(":", 1)
        page = self.nodes.run("curl", "--silent", "http://%s:%d/metrics" % (host, int(port) + METRICS))
        return samples_of(page.encode())["symphony_request_bytes_total"]

    def status(self):
        """What 'symphony status' says, by the line that the job prints."""
        (line,), said = re.findall(r"^symphony: (.* status .*)$", self.says(), re.M), []

        def told():
            """Not by a scheduler that ends meanwhile."""
            said[:] = [self.nodes.run(*line.split(), "--json", "--timeout", "60", check=False)]
            return said[0]
        wait_until(told, every_s=ASK_EVERY_S)
        return json.loads(said[0])

    def members(self):
        """Incarnations by name; the scheduler that leads is the first."""
        status = self.status()
        return {one["name"]: one["incarnation"] for one in [status["scheduler"], *status["members"]]}


def processes(nodes, name, role):
    """The program's processes of a role on a node."""
    found = []
    for pid in nodes.processes(name):
        try:
            with open("/proc/%d/cmdline" % pid) as file:
                words = file.read().split("\0")
        except OSError:  # it has ended
            continue
        if words[0].endswith("symphony") and words[1:2] == [role]:
            found.append(pid)
    return found


def none_left(nodes):
    return not any(processes(nodes, name, role) for name in NODES for role in ("scheduler", "frontend", "backend"))


def test_a_cluster_on_three_nodes(nodes, tmp_path):
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(SCENARIO)
    job = Job(nodes, tmp_path, "--nodes=3", backend=("--scenario", scenario))
    job.wait("symphony: ready")
    assert job.infer("quick")[0] == 200
    wait_until(lambda: set(job.members()) == MEMBERS)
    first = job.members()
    assert [len(processes(nodes, name, "scheduler")) for name in NODES] == [1, 1, 0]
    assert (job.files / "token").stat().st_mode & 0o777 == 0o600
    join = re.search(r"--join (\S+)", job.says())[1]
    assert nodes.run(BINARY, "status", "--join", join, check=False) == "", "a stranger without the token got an answer"

    # A backend that is killed is missed by nobody, and comes back.
    backend, = processes(nodes, "n2", "backend")
    os.kill(backend, signal.SIGKILL)
    assert job.infer("quick")[0] == 200
    wait_until(lambda: job.members().get("backend-n2", first["backend-n2"]) != first["backend-n2"])

    # So is the scheduler that leads.
    leads = next(iter(job.members()))
    other = "scheduler-n1" if leads == "scheduler-n2" else "scheduler-n2"
    begun = job.log(other).count('msg="leads"')
    scheduler, = processes(nodes, leads[-2:], "scheduler")
    os.kill(scheduler, signal.SIGKILL)
    assert job.infer("quick")[0] == 200
    wait_until(lambda: set(job.members()) == MEMBERS)
    assert job.log(other).count('msg="leads"') > begun

    # The job's end lets requests finish: each of these takes 3 s.
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        taken = job.received()
        waiting = [pool.submit(job.infer, "slow") for _ in range(6)]
        wait_until(lambda: job.received() == taken + 6 * len(json.dumps({"inputs": ZEROS})))
        nodes.run("scancel", "--batch", "--signal=TERM", job.number)
        assert [one.result()[0] for one in waiting] == [200] * 6
    assert job.wait_end() == ("COMPLETED", 0)
    assert "symphony: ended" in job.says()
    wait_until(lambda: none_left(nodes))


def test_a_plain_scancel_ends_all(nodes, tmp_path, repository):  # noqa: F811
    job = Job(nodes, tmp_path, "--nodes=1", "--cpus-per-task=2", backend=("--repository", repository / "double"))
    job.wait("symphony: ready")
    answer = job.infer("double", [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}])[1]
    assert answer["outputs"][0]["data"] == [2, 4, 6, 8]

    def accelerators():
        """Of the backend; nothing while it is silent, on a busy machine."""
        backend, = [one for one in job.status()["members"] if one["role"] == "backend"]
        return [(one["type"], one["count"]) for one in backend.get("accelerators", [])]

    wait_until(lambda: accelerators() == [("cpu", 1)])
    nodes.run("scancel", job.number)
    assert job.wait_end()[0] == "CANCELLED"
    wait_until(lambda: none_left(nodes))


def test_gpus_of_the_job_are_the_backends(nodes, tmp_path, repository):  # noqa: F811
    """The program here has no CUDA, and says so: the job fails, and its output says why."""
    job = Job(nodes, tmp_path, "--nodes=2", "--gres=gpu:2", backend=("--repository", repository / "double"))
    assert job.wait_end() == ("FAILED", 1)
    assert "execution provider cuda" in job.says()
    wait_until(lambda: none_left(nodes))


def test_a_job_without_models_is_refused(nodes, tmp_path):
    job = Job(nodes, tmp_path)
    assert job.wait_end() == ("FAILED", 1)
    assert "symphony: which models?" in job.says()
