"""test_deploy.py - what deploy/ starts, started without Kubernetes and systemd: the same command lines, users, file systems, names and
probes, of pods as helm makes them of the chart; a rolling update, under load; the units' examples. tests/deploy.sh checks what can be
checked without running it."""
import base64
import contextlib
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

import chart
import container
from certificates import Authority
from network import Network
from repository import repository  # noqa: F401
from server import ETCD, wait_until

pytestmark = pytest.mark.skipif(container.missing() != "", reason=container.missing())
kubernetes = pytest.mark.skipif(chart.MISSING != "", reason=chart.MISSING)
DEPLOY = pathlib.Path(__file__).resolve().parents[2] / "deploy"
QUESTION = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]})
ASK_EVERY_S = 0.2  # each question is several processes
START_S = 900  # a backend measures its models when the machine has nothing better to do


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    return container.Image(tmp_path_factory.mktemp("image"))


@pytest.fixture
def token():
    return base64.b64encode(os.urandom(32)) + b"\n"


@pytest.fixture
def models(tmp_path, repository):  # noqa: F811
    """With an SLO that a busy machine meets, too."""
    path = tmp_path / "models"
    shutil.copytree(repository / "double", path / "double")
    (path / "double" / "symphony.yaml").write_text("slo_ms: 30000\n")
    return path


def ask(network, url, body=None, curl=()):
    """Status and answer, from the bridge's host."""
    said = subprocess.run([*network.on(network.HUB), "curl", "--silent", "--connect-timeout", "30", "--max-time", "60", "--write-out", "\n%{http_code}",
                           *curl, *(("--data", body) if body else ()), url], capture_output=True, text=True)
    answer, status = said.stdout.rsplit("\n", 1)
    return int(status), answer


def doubles(network, url, curl=()):
    """Whether it is answered, and rightly; None: nobody answers at all."""
    status, answer = ask(network, url + "/v2/models/double/infer", QUESTION, curl)
    return None if status == 0 else status == 200 and json.loads(answer)["outputs"][0]["data"] == [2, 4, 6, 8]


# ---- Kubernetes ----

def secret_put(folder, files):
    """A volume with a Secret, as a kubelet keeps it: what is new takes the place of the old by one link."""
    folder.mkdir(exist_ok=True)
    content = folder / ("..%d" % len(list(folder.iterdir())))
    content.mkdir()
    for name, data in files.items():
        (content / name).write_bytes(data)
        if not os.path.lexists(folder / name):
            (folder / name).symlink_to("..data/" + name)
    (folder / "..new").symlink_to(content.name)
    os.replace(folder / "..new", folder / "..data")
    return folder


def certificate(authority, name):
    """As cert-manager puts it into a Secret."""
    return dict(zip(("tls.crt", "tls.key"), (path.read_bytes() for path in authority.sign(name)))) | {"ca.crt": authority.path.read_bytes()}


class Pod:
    """A pod of a template: it has an address, which is another one each time that it starts."""

    def __init__(self, release, name, template):
        self.release, self.name, self.template = release, name, template["spec"]
        self.spec, = self.template["containers"]
        self.count, self.process = 0, None
        self.ports = {port["name"]: port["containerPort"] for port in self.spec["ports"]}

    def run(self, spec, command, volumes, image_has=()):
        """A container of the pod; volumes: their folders here, by name. The others are empty ones, which it may write."""
        assert spec["securityContext"]["readOnlyRootFilesystem"]
        fields = {"metadata.name": self.name, "status.podIP": self.address}
        env = {one["name"]: fields[one["valueFrom"]["fieldRef"]["fieldPath"]] for one in spec.get("env", ())}
        mounts = {mount["name"]: mount["mountPath"] for mount in spec["volumeMounts"]}
        return container.Container(self.release.image, self.release.network.on(self.name),
                                   self.release.folder / ("%s.%s.%d" % (self.name, spec["name"], self.count)),
                                   [re.sub(r"\$\((\w+)\)", lambda found: env[found[1]], word) for word in command],
                                   self.template["securityContext"]["runAsUser"], env=env,
                                   writable=[path for name, path in mounts.items() if name not in volumes],
                                   readable=[("/etc/hosts", self.release.hosts), *image_has,
                                             *((path, volumes[name]) for name, path in mounts.items() if name in volumes)])

    def start(self):
        self.count += 1
        network, self.address = self.release.network, self.release.addresses.pop()
        network.ip(self.name, "address", "flush", "dev", "eth0")
        network.ip(self.name, "address", "add", self.address + "/24", "dev", "eth0")
        self.release.tell_names()
        volumes = dict(self.release.volumes)
        for spec in self.template.get("initContainers", ()):  # one that copies the models of its image
            copier = self.run(spec, spec["command"], {}, [("/models", volumes["models"])])
            assert copier.process.wait(START_S) == 0, copier.says()
            volumes["models"] = copier.folder("/srv/models")
        self.process = self.run(self.spec, ["/usr/local/bin/symphony-server", *self.spec["args"]], volumes)

    def url(self, port, scheme="http"):
        return "%s://%s:%d" % (scheme, self.address, self.ports[port])

    def probe(self, kind):
        probe = self.spec[kind]["httpGet"]
        return ask(self.release.network, self.url(probe["port"]) + probe["path"])[0] == 200

    def wait_ready(self):
        begun = "startupProbe" if "startupProbe" in self.spec else "livenessProbe"
        wait_until(lambda: self.probe(begun) or self.process.process.poll() is not None, START_S, ASK_EVERY_S)
        assert self.process.process.poll() is None, self.process.says()
        wait_until(lambda: self.probe("readinessProbe"), START_S, ASK_EVERY_S)
        assert self.probe("livenessProbe")

    def stop(self):
        """As a kubelet: SIGTERM, and no longer than the grace period."""
        self.process.process.send_signal(signal.SIGTERM)
        assert self.process.process.wait(self.template["terminationGracePeriodSeconds"]) == 0, self.process.says()


class Release:
    """All pods that the chart makes of some values. volumes: folders here, by the names that volumes have there."""

    def __init__(self, folder, network, image, pods, volumes):
        self.folder, self.network, self.image, self.volumes = folder, network, image, volumes
        self.hosts = folder / "hosts"
        self.addresses = [network.net + str(i) for i in range(250, 100, -1)]
        self.pods = [Pod(self, name, template) for name, template in pods]

    def tell_names(self):
        """What Kubernetes' DNS says, written in place, since it is this file that is mounted: the headless Service's name has the
        addresses of all its pods, and each of them one of its own."""
        lines = ["127.0.0.1 localhost", self.network.hosts[self.network.HUB] + " etcd"]
        for pod in self.of("scheduler"):
            if pod.process:
                lines.append("%s symphony-scheduler %s.symphony-scheduler" % (pod.address, pod.name))
        self.hosts.write_text("\n".join(lines) + "\n")

    def of(self, role):
        return [pod for pod in self.pods if pod.spec["name"] == role]

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


@contextlib.contextmanager
def release_of(folder, image, values, **volumes):
    pods = chart.pods(chart.rendered("--set", values))
    with Network(*(name for name, _ in pods)) as network:
        release = Release(folder, network, image, pods, volumes)
        try:
            yield release
        except BaseException:
            for pod in release.pods:
                print("%s: %s" % (pod.name, pod.process.says()[-1500:] if pod.process else "not started"))
            raise
        finally:
            release.end()


@kubernetes
def test_kubernetes_replaces_each_pod_under_load(tmp_path, image, token, models):
    links = secret_put(tmp_path / "links", {"token": token})
    with release_of(tmp_path, image, "mode=cluster,models.claim=models,replicas=2", models=models, links=links) as cluster:
        cluster.start()
        answers, over = [], threading.Event()
        grace_s = int(next(arg for arg in cluster.of("frontend")[0].spec["args"] if arg.startswith("--drain-grace=")).split("=")[1])

        def client():
            """As the Service: to one of those that are ready. Who stands still for longer than the grace may find nobody."""
            while not over.wait(ASK_EVERY_S):
                for pod in cluster.of("frontend"):
                    url, looked = pod.url("http"), time.monotonic()
                    if pod.probe("readinessProbe"):
                        right = doubles(cluster.network, url)
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


@kubernetes
@pytest.mark.skipif(not os.path.exists(ETCD), reason="etcd is not installed (./run test does it)")
def test_kubernetes_with_etcd_and_tls_of_the_links(tmp_path, image, token, models):
    links = secret_put(tmp_path / "links", {"token": token, **certificate(Authority(tmp_path), "members")})
    with release_of(tmp_path, image, "mode=cluster,models.claim=models,etcd=etcd://etcd:2379/symphony,links.tlsSecret=members",
                    models=models, links=links) as cluster:
        hub = cluster.network.hosts[Network.HUB]
        with open(tmp_path / "etcd.log", "w") as log:
            etcd = subprocess.Popen([*cluster.network.on(Network.HUB), ETCD, "--data-dir", tmp_path / "etcd",
                                     "--listen-client-urls", "http://%s:2379" % hub, "--advertise-client-urls",
                                     "http://%s:2379" % hub], stdout=log, stderr=log)
        try:
            cluster.start()
            for pod in cluster.of("frontend"):
                assert doubles(cluster.network, pod.url("http"))
        finally:
            etcd.kill()
            etcd.wait()


@kubernetes
def test_kubernetes_one_server(tmp_path, image, token, models):
    """An init container copies its models; its certificate is renewed while it runs."""
    old, new = Authority(tmp_path, "old"), Authority(tmp_path, "new")
    clients = secret_put(tmp_path / "clients", {"token": token, **certificate(old, "first")})
    with release_of(tmp_path, image, "models.copy.image=models:1,models.copy.command={cp,-r,/models/.,/srv/models},"
                    "clients.tlsSecret=front,clients.tokenSecret=clients", models=models, clients=clients) as release:
        release.start()
        pod, = release.pods

        def answered(authority):
            return doubles(release.network, "https://localhost:8000",
                           ["--connect-to", "localhost:8000:%s:%d" % (pod.address, pod.ports["http"]), "--cacert", authority.path,
                            "--header", "X-Api-Key: " + token.decode().strip()])

        assert answered(old) and not answered(new)
        secret_put(clients, certificate(new, "second") | {"token": token})
        wait_until(lambda: answered(new), START_S, ASK_EVERY_S)
        pod.stop()


# ---- systemd ----

def settings(unit):
    """A unit's settings of the section Service."""
    text = (DEPLOY / "systemd" / unit).read_text().split("[Service]")[1].split("[Install]")[0]
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))


def test_systemd_units_with_their_examples(tmp_path, image, token, models):
    with Network("scheduler", "frontend", "backend") as network:
        (tmp_path / "token").write_bytes(token)
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
                              ("/run/credentials/symphony-%s.service/%s" % (role, credential), tmp_path / "token")])
            url = "http://%s:8000" % network.hosts["frontend"]
            wait_until(lambda: ask(network, url + "/v2/health/ready")[0] == 200 or
                       any(one.process.poll() is not None for one in running.values()), START_S, ASK_EVERY_S)
            assert doubles(network, url)
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
