"""deploy_check.py SOURCE WORK SYMPHONY - for deploy.sh: helm's lint of the chart and Kubernetes' schemas of what it makes of the examples and
of other values; what these do not say: that services, budgets and policies find pods, ports have names, probes ask routes that are
there, options exist; that a wrong value is refused with a reason; and that the image has the libraries of the program. Prints what it has
checked."""
import json
import pathlib
import re
import shlex
import subprocess
import sys

import kubernetes_validate
import yaml

source, work, symphony = map(pathlib.Path, sys.argv[1:])
sys.path.insert(0, str(source / "tests/e2e"))
import chart  # noqa: E402

ROLES = "scheduler", "frontend", "backend"
VERSIONS = "1.27", "1.37"  # of Kubernetes: the oldest that the chart wants, the newest that is known
ROUTES = "/v2/health/live", "/v2/health/ready"
OTHERS = "ServiceMonitor", "PrometheusRule", "ScaledObject", "Certificate"  # of operators: their schemas are not Kubernetes' own
REST_MIB = 512  # connections, threads, rings, code: a frontend with 10,000 connections takes some 300
ANY = {"app.kubernetes.io/name": "symphony", "app.kubernetes.io/instance": "symphony"}
SENDERS = {7700: [ANY], 7710: [{**ANY, "app.kubernetes.io/component": "backend"}]}  # docs/cluster.md; to other ports anybody
helps = {role: (work / ("%s.help" % role)).read_text() for role in (*ROLES, "serve")}


def check_options(role, options, where):
    assert options, where
    for option in options:
        name = re.match(r"--[a-z-]+", option)
        assert name, "%s: %s is no option" % (where, option)
        assert re.search(r"^ +%s( |$)" % name[0], helps[role], re.M), "%s: %s has no %s" % (where, role, name[0])


def selects(selector, labels):
    return selector and all(labels.get(key) == value for key, value in selector.items())


def option(container, name):
    return next((arg.split("=", 1)[1] for arg in container["args"] if arg.startswith("--%s=" % name)), None)


# ---- the chart ----

class Release:
    """What helm makes of some values."""

    def __init__(self, *options):
        linted = chart.helm("lint", "--strict", chart.CHART, *options)
        assert linted.returncode == 0, linted.stdout + linted.stderr
        self.objects = chart.rendered(*options)
        self.pods, self.containers, self.instances = {}, {}, {}  # by role; of StatefulSets ports by name
        for one in self.of("Deployment") + self.of("StatefulSet"):
            self.take_pods(one)
        self.check()

    def of(self, kind):
        return [one for one in self.objects if one["kind"] == kind]

    def find(self, kind, name):
        found, = [one["spec"] for one in self.of(kind) if one["metadata"]["name"] == name]
        return found

    def take_pods(self, one):
        template, selector = one["spec"]["template"], one["spec"]["selector"]["matchLabels"]
        spec, labels = template["spec"], template["metadata"]["labels"]
        container, = spec["containers"]
        role = labels["app.kubernetes.io/component"]
        assert container["name"] == role and selector == labels
        command = "serve" if role == "server" else role
        assert container["args"][0] == command
        check_options(command, container["args"][1:], one["metadata"]["name"])
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        probes = [container[probe]["httpGet"] for probe in ("startupProbe", "livenessProbe", "readinessProbe") if probe in container]
        assert len(probes) == (2 if role == "server" else 3)
        assert all(probe["path"] in ROUTES and probe["port"] in ports for probe in probes)
        assert not option(container, "tls-cert") or all(probe["port"] == "metrics" for probe in probes)
        volumes = {volume["name"] for volume in spec["volumes"]}
        assert {mount["name"] for mount in container["volumeMounts"]} == volumes
        places = {mount["mountPath"] for mount in container["volumeMounts"]}
        for path in re.findall(r"=(/\S+)", "\n".join(container["args"])):
            assert path in places or str(pathlib.Path(path).parent) in places, path
        for each in spec.get("initContainers", []) + [container]:
            assert each["securityContext"]["readOnlyRootFilesystem"] and {mount["name"] for mount in each["volumeMounts"]} <= volumes
        assert spec["terminationGracePeriodSeconds"] > sum(float(option(container, "drain-" + name) or 0) for name in ("grace", "timeout")) + 5
        spread = spec["topologySpreadConstraints"]
        assert [each["topologyKey"] for each in spread] == ["topology.kubernetes.io/zone", "kubernetes.io/hostname"]
        assert all(each["labelSelector"]["matchLabels"] == selector and each["maxSkew"] == 1 for each in spread)
        self.pods[role], self.containers[role] = (labels, ports), container
        if one["kind"] == "StatefulSet":
            self.instances.update({"%s-%d" % (one["metadata"]["name"], i): ports for i in range(one["spec"]["replicas"])})

    def selected(self, selector):
        """The ports of the only pods that a selector finds."""
        found, = [ports for labels, ports in self.pods.values() if selects(selector, labels)]
        return found

    def check(self):
        assert set(self.pods) in (set(ROLES), {"server"})
        for one in self.objects:
            for version in VERSIONS if one["kind"] not in OTHERS else ():
                if version == VERSIONS[-1] or '"image": {"reference"' not in json.dumps(one):  # a volume of newer ones
                    kubernetes_validate.validate(one, version, strict=True)
        for one in self.of("Service"):
            assert {port["targetPort"] for port in one["spec"]["ports"]} <= set(self.selected(one["spec"]["selector"]))
        assert set(self.selected(self.find("Service", "symphony")["selector"])) >= {"http", "grpc", "metrics"}
        assert len([self.selected(one["spec"]["selector"]["matchLabels"]) for one in self.of("PodDisruptionBudget")]) == len(self.pods)
        for one in self.of("NetworkPolicy"):
            ports = self.selected(one["spec"]["podSelector"]["matchLabels"])
            assert sorted(port["port"] for rule in one["spec"]["ingress"] for port in rule["ports"]) == sorted(ports.values())
            for rule in one["spec"]["ingress"]:
                for port in rule["ports"]:
                    if port["port"] in SENDERS:
                        assert [each["podSelector"]["matchLabels"] for each in rule["from"]] == SENDERS[port["port"]]
        for one in self.of("ServiceMonitor"):
            monitored = [each for each in self.of("Service") if selects(one["spec"]["selector"]["matchLabels"], each["metadata"]["labels"])]
            assert len(monitored) == len(self.pods)
            assert all("metrics" in {port["name"] for port in each["spec"]["ports"]} for each in monitored)
        for role in set(ROLES) & set(self.pods):
            self.check_links(role, self.containers[role])

    def check_links(self, role, container):
        """They find the schedulers, and each of them by its own name."""
        if option(container, "registry"):
            return
        for place in option(container, "peers" if role == "scheduler" else "join").split(","):
            host, port = place.split(":")
            pod, _, service = host.rpartition(".")  # POD.SERVICE is the pod's own name, SERVICE the name of all
            assert not pod or pod in self.instances, host
            spec = self.find("Service", service)
            assert spec["clusterIP"] == "None" and spec["publishNotReadyAddresses"] and int(port) in {each["port"] for each in spec["ports"]}
        assert role != "scheduler" or option(container, "peers").count(",") + 1 == len(self.instances)


EXAMPLES = {path.stem: Release("--values", path) for path in (chart.CHART / "examples").iterdir()}
plain = EXAMPLES["server"]
assert {port["port"] for port in plain.find("Service", "symphony")["ports"]} == {8000, 8001, 8002}
assert plain.find("Deployment", "symphony")["strategy"]["rollingUpdate"]["maxSurge"] == 0
volumes = {volume["name"]: volume for volume in plain.find("Deployment", "symphony")["template"]["spec"]["volumes"]}
# What the pod's group may write is not used (docs/profiles.md): Kubernetes gives it all of a volume that is not mounted read-only.
assert volumes["models"]["persistentVolumeClaim"] == {"claimName": "models", "readOnly": True}
assert volumes["cache"]["persistentVolumeClaim"] == {"claimName": "symphony-cache"}

gpu = EXAMPLES["gpu"]
limits = gpu.containers["server"]["resources"]["limits"]
assert limits["nvidia.com/gpu"] == 1 and option(gpu.containers["server"], "accelerators") == "cuda:1"
certificate, = [one["spec"] for one in gpu.of("Certificate")]
assert {"symphony", "symphony.default.svc", "symphony.example"} <= set(certificate["dnsNames"])
clients, = [volume["projected"]["sources"] for volume in gpu.find("Deployment", "symphony")["template"]["spec"]["volumes"] if volume["name"] == "clients"]
assert [one["secret"]["name"] for one in clients] == [certificate["secretName"], "symphony-clients"]

# KEDA asks the frontends' gRPC port, divides by what a backend has, and is the only one to say how many there are.
cluster = EXAMPLES["cluster"]
scaled, = [one["spec"] for one in cluster.of("ScaledObject")]
assert "replicas" not in cluster.find("Deployment", scaled["scaleTargetRef"]["name"])
trigger, = scaled["triggers"]
assert trigger["type"] == "external" and trigger["metadata"] == {
    "scalerAddress": "symphony.default:8001", "acceleratorsPerReplica": option(cluster.containers["backend"], "accelerators").split(":")[1]}
assert {"name": "grpc", "port": 8001, "targetPort": "grpc"} in cluster.find("Service", "symphony")["ports"]
assert 1 <= scaled["minReplicaCount"] <= scaled["maxReplicaCount"]
assert any("keda" in str(peer) for rule in cluster.find("NetworkPolicy", "symphony-frontend")["ingress"] for peer in rule.get("from", ()))
rules, = cluster.of("PrometheusRule")
assert rules["spec"] == yaml.safe_load((chart.CHART / "monitoring/alerts.yaml").read_text())
dashboards, = cluster.of("ConfigMap")
assert set(map(chart.CHART.joinpath("monitoring").joinpath, dashboards["data"])) == set((chart.CHART / "monitoring").glob("*.json"))
frontend = cluster.containers["frontend"]
inputs, answers, outputs = (int(option(frontend, name + "-max-mib")) for name in ("inputs", "answers", "outputs"))
assert frontend["resources"]["limits"]["memory"] == "%dMi" % (3 * inputs + 2 * answers + outputs + REST_MIB)

# All that the examples leave out.
other = Release("--set", "mode=cluster,models.claim=models,replicas=2,scheduler.replicas=3,etcd=etcd://etcd:2379/prod,links.issuer.name=members,"
                "clients.tlsSecret=front,clients.verify=true,clients.tokenSecret=clients,networkPolicy.enabled=false")
assert all(option(other.containers[role], "registry") == "etcd://etcd:2379/prod" and option(other.containers[role], "cluster-ca") for role in ROLES)
assert option(other.containers["frontend"], "tls-client-ca") and not other.of("NetworkPolicy")
assert [one["spec"]["secretName"] for one in other.of("Certificate")] == ["symphony-links"]
Release("--set", "models.image=models:1,replicas=2,monitoring.enabled=true,drainSeconds=100,imagePullSecrets[0].name=pull,nodeSelector.pool=a")
Release("--set", "mode=cluster,models.image=models:1,scheduler.replicas=3,keda.enabled=true,clients.issuer.name=front")

# A wrong value is refused, and named.
for options, reason in (
        ("mode=single", "'/mode': value must be one of 'server', 'cluster'"), ("model.claim=m", "additional properties 'model' not allowed"),
        ("accelerators.kind=gpu", "'/accelerators/kind'"), ("args={slo-ms=5}", "'/args/0'"), ("models.copy.args={a}", "missing property 'image'"),
        ("etcd=etcd:2379", "'/etcd'"), ("replicas=0", "'/replicas'"), ("clients.issuer.kind=Issuer,models.claim=m", "'/clients/issuer'"),
        ("replicas=1", "name one of claim, image and copy"), ("models.claim=m,models.image=i", "name one of claim, image and copy"),
        ("models.claim=m,keda.enabled=true", "its mode is cluster"), ("models.claim=m,cacheClaim=c,replicas=2", "cacheClaim: is for one server"),
        ("models.claim=m,clients.verify=true", "needs clients.tlsSecret"),
        ("mode=cluster,models.claim=m,keda.enabled=true,clients.tokenSecret=t", "neither a token nor a certificate")):
    refused = chart.helm("template", "symphony", chart.CHART, "--set", options)
    assert refused.returncode != 0 and reason in refused.stderr, (options, refused.stderr)

# ---- KServe, whose own schemas are not at hand: the container is checked as a pod's, and what KServe fills in is filled in ----

runtime, asked = (yaml.safe_load((source / "deploy/kserve" / name).read_text()) for name in ("runtime.yaml", "service.yaml"))
assert (runtime["apiVersion"], runtime["kind"]) == ("serving.kserve.io/v1alpha1", "ServingRuntime")
assert (asked["apiVersion"], asked["kind"]) == ("serving.kserve.io/v1beta1", "InferenceService")
container, = runtime["spec"]["containers"]
for version in VERSIONS:
    kubernetes_validate.validate({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, "spec": {"containers": [container]}}, version, strict=True)
check_options("serve", container["args"][1:], "kserve")
assert sum(float(value) for arg in container["args"] for value in re.findall(r"^--drain-\w+=(\d+)", arg)) + 5 <= 30  # Kubernetes' grace, which KServe keeps
assert runtime["spec"]["annotations"] == {"prometheus.kserve.io/path": "/metrics", "prometheus.kserve.io/port": "8002"}  # what KServe reads
assert container["name"] == "kserve-container" and "--repository=/mnt/models" in container["args"] and "--model-name={{.Name}}" in container["args"]
model = asked["spec"]["predictor"]["model"]
assert model["runtime"] == runtime["metadata"]["name"] and model["protocolVersion"] in runtime["spec"]["protocolVersions"]
assert model["modelFormat"]["name"] in {one["name"] for one in runtime["spec"]["supportedModelFormats"]}
assert "--http-port=%d" % model["ports"][0]["containerPort"] in container["args"]
assert "--http-port=%d" % container["readinessProbe"]["httpGet"]["port"] in container["args"]

service, = yaml.safe_load((source / "deploy/compose.yaml").read_text())["services"].values()
check_options("serve", service["command"][1:], "compose.yaml")
assert (source / "deploy" / service["build"]["context"] / service["build"]["dockerfile"]).exists()
assert all(re.fullmatch(r"[^:]+(:mode=[0-7]+)?", one) for one in service["tmpfs"])  # podman's tmpfs has no uid
assert service["read_only"] and service["volumes"][0].endswith(":/models:ro") and "--repository=/models" in service["command"]

version = subprocess.check_output([symphony, "--version"], text=True).split()[1]
about = yaml.safe_load((chart.CHART / "Chart.yaml").read_text())
assert {about["version"], about["appVersion"]} == {version}
assert {yaml.safe_load((chart.CHART / "values.yaml").read_text())["image"], runtime["spec"]["containers"][0]["image"], service["image"]} == {"symphony:" + version}

for role in (*ROLES, "serve"):
    text = (source / "deploy/systemd" / ("%s.env" % role)).read_text()
    setting, = re.findall(r'^SYMPHONY_OPTIONS="(.*)"$', text, re.M)
    check_options(role, [word for word in shlex.split(setting) if word.startswith("--")], "%s.env" % role)
    unit = (work / ("symphony-%s.service" % role)).read_text().splitlines()
    assert {"Restart=on-failure", "StartLimitIntervalSec=0"} <= set(unit), "the unit of %s gives up" % role

# The image: what is copied is there, and what the program needs is installed. Debian 13's names of packages have a t64.
containerfile = (source / "deploy/Containerfile").read_text()
for origin in re.findall(r"^COPY ([^-\s]\S*) ", containerfile, re.M):
    assert (source / origin).exists(), origin
where = dict(re.findall(r"^\s*(\S+) => (/\S+)", subprocess.check_output(["ldd", symphony], text=True), re.M))
needed = set()
for program in symphony, where["libonnxruntime.so.1"]:
    dynamic = subprocess.check_output(["readelf", "--dynamic", program], text=True)
    for path in map(where.get, set(re.findall(r"\(NEEDED\).*\[(\S+)\]", dynamic)) & set(where) - {"libonnxruntime.so.1"}):
        path = pathlib.Path(path).resolve()  # dpkg may know it below /lib or below /usr/lib
        owner = subprocess.check_output(["dpkg-query", "--search", "*/%s/%s" % (path.parent.name, path.name)], text=True)
        needed.add(owner.split(":")[0].replace("t64", ""))
if b"libfabric.so.1\0" in pathlib.Path(symphony).read_bytes():  # it is loaded at run time, so ldd does not tell
    needed.add("libfabric1")
images = re.findall(r"^FROM (\S+) AS (\w+)$", containerfile, re.M)
assert images[-1][1] == "cpu" and all(stage in [name for _, name in images] for stage in re.findall(r"--from=(\w+)", containerfile))
installed = set(re.search(r"--no-install-recommends \\\n(.*?) && \\", containerfile, re.S)[1].replace("\\\n", " ").split())
needed.add("locales")  # of models of text
assert needed - {"libc6", "libgcc-s1"} == installed, "the image has %s, the program needs %s" % (installed, needed)
print("deploy: %d releases, %d units, %d libraries" % (len(EXAMPLES) + 3, len(ROLES) + 1, len(installed)))
