"""test_deploy.py - what deploy/ starts, started without Kubernetes and systemd: the same command lines, users, file systems, names and
probes; a rolling update, under load; the units' examples. tests/deploy.sh checks what can be checked without running it."""
import base64
import contextlib
import itertools
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import threading
import time

import pytest
import yaml

import container
from network import Network
from repository import repository  # noqa: F401
from server import ETCD, wait_until

pytestmark = pytest.mark.skipif(container.missing() != "", reason=container.missing())
DEPLOY = pathlib.Path(__file__).resolve().parents[2] / "deploy"
QUESTION = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]})
ASK_EVERY_S = 0.2  # each question is several processes
START_S = 900  # a backend measures its models when the machine has nothing better to do


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    return container.Image(tmp_path_factory.mktemp("image"))


@pytest.fixture
def token(tmp_path):
    path = tmp_path / "token"
    path.mkdir()
    (path / "token").write_bytes(base64.b64encode(os.urandom(32)) + b"\n")
    return path


@pytest.fixture
def models(tmp_path, repository):  # noqa: F811
    """With an SLO that a busy machine meets, too."""
    path = tmp_path / "models"
    shutil.copytree(repository / "double", path / "double")
    (path / "double" / "symphony.yaml").write_text("slo_ms: 30000\n")
    return path


def ask(network, place, path, body=None):
    """Status and answer, from the bridge's host."""
    said = subprocess.run([*network.on(network.HUB), "curl", "--silent", "--connect-timeout", "30", "--max-time", "60", "--write-out", "\n%{http_code}",
                           *(("--data", body) if body else ()), "http://%s%s" % (place, path)], capture_output=True, text=True)
    answer, status = said.stdout.rsplit("\n", 1)
    return int(status), answer


def doubles(network, place):
    """Whether it is answered, and rightly; None: nobody answers at all."""
    status, answer = ask(network, place, "/v2/models/double/infer", QUESTION)
    return None if status == 0 else status == 200 and json.loads(answer)["outputs"][0]["data"] == [2, 4, 6, 8]


# ---- Kubernetes ----

class Pod:
    """A pod of a template: it has an address, which is another one each time that it starts."""

    def __init__(self, cluster, name, template):
        self.cluster, self.name, self.template = cluster, name, template["spec"]
        self.spec, = self.template["containers"]
        self.count, self.process = 0, None
        self.ports = {port["name"]: port["containerPort"] for port in self.spec["ports"]}

    def start(self):
        self.count += 1
        network, self.address = self.cluster.network, self.cluster.addresses.pop()
        network.ip(self.name, "address", "flush", "dev", "eth0")
        network.ip(self.name, "address", "add", self.address + "/24", "dev", "eth0")
        self.cluster.tell_names()
        fields = {"metadata.name": self.name, "status.podIP": self.address}
        env = {one["name"]: fields[one["valueFrom"]["fieldRef"]["fieldPath"]] for one in self.spec["env"]}
        args = [re.sub(r"\$\((\w+)\)", lambda found: env[found[1]], arg) for arg in self.cluster.args(self.spec["args"])]
        paths = {mount["name"]: mount["mountPath"] for mount in self.spec["volumeMounts"]}
        readable = [("/etc/hosts", self.cluster.hosts), (paths.pop("token"), self.cluster.token)]
        if "models" in paths:
            readable.append((paths.pop("models"), self.cluster.models))
        assert self.spec["securityContext"]["readOnlyRootFilesystem"]
        self.process = container.Container(self.cluster.image, network.on(self.name),
                                           self.cluster.folder / ("%s.%d" % (self.name, self.count)),
                                           ["/usr/local/bin/symphony-server", *args], self.template["securityContext"]["runAsUser"],
                                           writable=paths.values(), readable=readable, env=env)

    def place(self, port):
        return "%s:%d" % (self.address, self.ports[port])

    def probe(self, kind):
        probe = self.spec[kind]["httpGet"]
        return ask(self.cluster.network, self.place(probe["port"]), probe["path"])[0] == 200

    def wait_ready(self):
        wait_until(lambda: self.probe("startupProbe") or self.process.process.poll() is not None, START_S, ASK_EVERY_S)
        assert self.process.process.poll() is None, self.process.says()
        wait_until(lambda: self.probe("readinessProbe"), START_S, ASK_EVERY_S)
        assert self.probe("livenessProbe")

    def stop(self):
        """As a kubelet: SIGTERM, and no longer than the grace period."""
        self.process.process.send_signal(signal.SIGTERM)
        assert self.process.process.wait(self.template["terminationGracePeriodSeconds"]) == 0, self.process.says()


class Cluster:
    """All pods of deploy/kubernetes; with a registry, as deploy/kubernetes-etcd has it."""

    def __init__(self, folder, network, image, token, models, registry=None):
        self.folder, self.network, self.image, self.token, self.models = folder, network, image, token, models
        self.registry, self.hosts = registry, folder / "hosts"
        self.addresses = [network.net + str(i) for i in range(250, 100, -1)]
        self.pods = [Pod(self, name, spec["template"]) for name, spec in pods_of()]

    def args(self, args):
        return [self.registry if self.registry and re.match("--(join|peers)=", arg) else arg for arg in args]

    def tell_names(self):
        """What Kubernetes' DNS says, written in place, since it is this file that is mounted: the headless Service's name has the
        addresses of all its pods, and each of them one of its own."""
        lines = ["127.0.0.1 localhost", self.network.hosts[self.network.HUB] + " etcd"]
        for pod in self.of("scheduler"):
            if pod.process:
                lines.append("%s symphony-scheduler %s.symphony-scheduler" % (pod.address, pod.name))
        self.hosts.write_text("\n".join(lines) + "\n")

    def of(self, role):
        return [pod for pod in self.pods if pod.spec["args"][0] == role]

    def start(self):
        for pod in self.pods:
            pod.start()
        self.tell_names()
        for pod in self.pods:
            pod.wait_ready()

    def end(self):
        for pod in self.pods:
            if pod.process:
                pod.process.end()


def pods_of():
    """Names and specifications, of Deployments and StatefulSets alike with numbers."""
    objects = itertools.chain(*(yaml.safe_load_all((DEPLOY / "kubernetes" / (role + ".yaml")).read_text())
                                for role in ("scheduler", "frontend", "backend")))
    return [("%s-%d" % (one["metadata"]["name"], i), one["spec"]) for one in objects
            if one["kind"] in ("Deployment", "StatefulSet") for i in range(one["spec"]["replicas"])]


@contextlib.contextmanager
def cluster_of(folder, image, token, models, registry=None):
    with Network(*(name for name, _ in pods_of())) as network:
        cluster = Cluster(folder, network, image, token, models, registry)
        try:
            yield cluster
        except BaseException:
            for pod in cluster.pods:
                print("%s: %s" % (pod.name, pod.process.says()[-1500:] if pod.process else "not started"))
            raise
        finally:
            cluster.end()


def test_kubernetes_replaces_each_pod_under_load(tmp_path, image, token, models):
    with cluster_of(tmp_path, image, token, models) as cluster:
        cluster.start()
        answers, over = [], threading.Event()
        grace_s = int(next(arg for arg in cluster.of("frontend")[0].spec["args"] if arg.startswith("--drain-grace=")).split("=")[1])

        def client():
            """As the Service: to one of those that are ready. Who stands still for longer than the grace may find nobody."""
            while not over.wait(ASK_EVERY_S):
                for pod in cluster.of("frontend"):
                    place, looked = pod.place("http"), time.monotonic()
                    if pod.probe("readinessProbe"):
                        right = doubles(cluster.network, place)
                        if right is not None or time.monotonic() < looked + grace_s:
                            answers.append(right)

        thread = threading.Thread(target=client)
        thread.start()
        try:
            wait_until(lambda: len(answers) > 10)
            for pod in cluster.of("backend") + cluster.of("frontend") + cluster.of("scheduler")[::-1]:
                pod.stop()
                pod.start()
                pod.wait_ready()
            enough = len(answers) + 10
            wait_until(lambda: len(answers) > enough)
        finally:
            over.set()
            thread.join()
        assert all(answers), "%d of %d were answered" % (answers.count(True), len(answers))


@pytest.mark.skipif(not os.path.exists(ETCD), reason="etcd is not installed (./run test does it)")
def test_kubernetes_with_etcd(tmp_path, image, token, models):
    registry, = set(re.findall(r"--registry=\S+", "".join(path.read_text() for path in (DEPLOY / "kubernetes-etcd").iterdir())))
    with cluster_of(tmp_path, image, token, models, registry) as cluster:
        hub = cluster.network.hosts[Network.HUB]
        with open(tmp_path / "etcd.log", "w") as log:
            etcd = subprocess.Popen([*cluster.network.on(Network.HUB), ETCD, "--data-dir", tmp_path / "etcd",
                                     "--listen-client-urls", "http://%s:2379" % hub, "--advertise-client-urls",
                                     "http://%s:2379" % hub], stdout=log, stderr=log)
        try:
            cluster.start()
            for pod in cluster.of("frontend"):
                assert doubles(cluster.network, pod.place("http"))
        finally:
            etcd.kill()
            etcd.wait()


def test_kubernetes_one_server(tmp_path, image, models):
    """Its probes are answered where the manifest asks."""
    deployment = next(one for one in yaml.safe_load_all((DEPLOY / "kubernetes-server/server.yaml").read_text()) if one["kind"] == "Deployment")
    template = deployment["spec"]["template"]["spec"]
    spec, = template["containers"]
    ports = {port["name"]: port["containerPort"] for port in spec["ports"]}
    paths = {mount["name"]: mount["mountPath"] for mount in spec["volumeMounts"]}
    with Network("server") as network:
        server = container.Container(image, network.on("server"), tmp_path / "server", ["/usr/local/bin/symphony-server", *spec["args"]],
                                     template["securityContext"]["runAsUser"], readable=[(paths.pop("models"), models)], writable=paths.values())
        place = "%s:%%d" % network.hosts["server"]

        def probe(kind):
            asked = spec[kind]["httpGet"]
            return ask(network, place % ports[asked["port"]], asked["path"])[0]

        try:
            wait_until(lambda: probe("livenessProbe") != 0 or server.process.poll() is not None, START_S, ASK_EVERY_S)
            assert probe("livenessProbe") == 200, server.says()
            wait_until(lambda: probe("readinessProbe") == 200, START_S, ASK_EVERY_S)
            assert doubles(network, place % ports["http"])
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(template["terminationGracePeriodSeconds"]) == 0, server.says()
        finally:
            server.end()


# ---- systemd ----

def settings(unit):
    """A unit's settings of the section Service."""
    text = (DEPLOY / "systemd" / unit).read_text().split("[Service]")[1].split("[Install]")[0]
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))


def test_systemd_units_with_their_examples(tmp_path, image, token, models):
    with Network("scheduler", "frontend", "backend") as network:
        (tmp_path / "hosts").write_text("127.0.0.1 localhost\n%s scheduler.example\n" % network.hosts["scheduler"])
        running = {}
        try:
            for role in ("backend", "frontend", "scheduler"):  # in any order
                unit = settings("symphony-%s.service" % role)
                credential, source = unit["LoadCredential"].split(":")
                assert source == "/etc/symphony/cluster-token"
                text = (DEPLOY / "systemd" / pathlib.Path(unit["EnvironmentFile"]).name).read_text()
                options = shlex.split(re.search(r'^SYMPHONY_OPTIONS="(.*)"$', text, re.M)[1])
                command = unit["ExecStart"].split()
                assert command.pop() == "$SYMPHONY_OPTIONS"
                running[role] = container.Container(
                    image, network.on(role), tmp_path / role, [*command, *options], 61234,
                    writable=["/tmp"] + ["/var/cache/" + name for name in unit.get("CacheDirectory", "").split()],
                    readable=[("/etc/hosts", tmp_path / "hosts"), ("/srv/models", models),
                              ("/run/credentials/symphony-%s.service/%s" % (role, credential), token / "token")])
            place = network.hosts["frontend"] + ":8000"
            wait_until(lambda: ask(network, place, "/v2/health/ready")[0] == 200 or
                       any(one.process.poll() is not None for one in running.values()), START_S, ASK_EVERY_S)
            assert doubles(network, place)
            for role in ("frontend", "backend", "scheduler"):
                limit_s = int(re.fullmatch(r"(\d+)s", settings("symphony-%s.service" % role)["TimeoutStopSec"])[1])
                running[role].process.send_signal(signal.SIGTERM)
                assert running[role].process.wait(limit_s) == 0  # Restart=on-failure lets it stay away
        except BaseException:
            for role, one in running.items():
                print("%s: %s" % (role, one.says()[-1500:]))
            raise
        finally:
            for one in running.values():
                one.end()
