"""deploy_check.py SOURCE WORK SYMPHONY - for deploy.sh: WORK/kubernetes.yaml and its variants -etcd and -keda by Kubernetes' schemas,
and what these do not say: that services and budgets find pods, ports have names, probes ask routes that are there, options exist,
and the image has the libraries of the program. Prints what it has checked."""
import pathlib
import re
import shlex
import subprocess
import sys

import kubernetes_validate
import yaml

ROLES = "scheduler", "frontend", "backend"
VERSIONS = "1.27", "1.37"  # of Kubernetes: the first has all that is used here
ROUTES = "/v2/health/live", "/v2/health/ready"
REGISTRY = "--registry=etcd://etcd:2379/symphony"
source, work, symphony = map(pathlib.Path, sys.argv[1:])
objects, with_etcd, with_keda, of_server = ([one for one in yaml.safe_load_all((work / (name + ".yaml")).read_text()) if one]
                                 for name in ("kubernetes", "kubernetes-etcd", "kubernetes-keda", "kubernetes-server"))
helps = {role: (work / ("%s.help" % role)).read_text() for role in (*ROLES, "serve")}


def check_options(role, options, where):
    assert options, where
    for option in options:
        name = re.match(r"--[a-z-]+", option)
        assert name, "%s: %s is no option" % (where, option)
        assert re.search(r"^ +%s( |$)" % name[0], helps[role], re.M), "%s: %s has no %s" % (where, role, name[0])


def of_kind(kind):
    return [one for one in objects if one["kind"] == kind]


def selects(selector, labels):
    return selector and all(labels.get(key) == value for key, value in selector.items())


# ServiceMonitor and PrometheusRule are the Prometheus operator's, and ScaledObject KEDA's: their schemas are not Kubernetes' own.
for one in objects + with_etcd + with_keda + of_server:
    if one["kind"] not in ("ServiceMonitor", "PrometheusRule", "ScaledObject"):
        for version in VERSIONS:
            kubernetes_validate.validate(one, version, strict=True)

pods, instances = {}, {}  # by role; of StatefulSets by name
for one in of_kind("Deployment") + of_kind("StatefulSet"):
    template, selector = one["spec"]["template"], one["spec"]["selector"]["matchLabels"]
    container, = template["spec"]["containers"]
    role = container["args"][0]
    assert role in ROLES and selects(selector, template["metadata"]["labels"])
    check_options(role, container["args"][1:], one["metadata"]["name"])
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["path"] in ROUTES and container[probe]["httpGet"]["port"] in ports
    volumes = {volume["name"] for volume in template["spec"]["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes
    drain_s = sum(float(value) for arg in container["args"] for value in re.findall(r"^--drain-\w+=(\d+)", arg))
    assert template["spec"]["terminationGracePeriodSeconds"] > drain_s + 5
    pods[role] = template["metadata"]["labels"], ports, container["args"]
    if one["kind"] == "StatefulSet":
        instances.update({"%s-%d" % (one["metadata"]["name"], i): ports for i in range(one["spec"]["replicas"])})
assert set(pods) == set(ROLES)

for one in of_kind("Service"):
    pod = one["spec"]["selector"].get("statefulset.kubernetes.io/pod-name")
    ports, = [instances[pod]] if pod else [ports for labels, ports, _ in pods.values()
                                           if selects(one["spec"]["selector"], labels)]
    assert all(port["targetPort"] in ports for port in one["spec"]["ports"])
for one in of_kind("PodDisruptionBudget"):
    assert len([1 for labels, _, _ in pods.values() if selects(one["spec"]["selector"]["matchLabels"], labels)]) == 1
monitor, = of_kind("ServiceMonitor")
monitored = [one for one in of_kind("Service") if selects(monitor["spec"]["selector"]["matchLabels"],
                                                          one["metadata"]["labels"])]
assert len(monitored) == 3 and all("metrics" in {port["name"] for port in one["spec"]["ports"]} for one in monitored)
services = {one["metadata"]["name"]: one for one in of_kind("Service")}
for role in ROLES:
    joined, = [arg for arg in pods[role][2] if arg.startswith("--peers=" if role == "scheduler" else "--join=")]
    for place in joined.split("=")[1].split(","):
        host, port = place.split(":")
        pod, _, service = host.rpartition(".")  # POD.SERVICE is the pod's own name, SERVICE the name of all
        assert not pod or pod in instances, host
        assert services[service]["spec"]["clusterIP"] == "None" and services[service]["spec"]["publishNotReadyAddresses"]
        assert int(port) in {one["port"] for one in services[service]["spec"]["ports"]}

# KEDA asks the frontends' gRPC port, divides by what a backend has, and is the only one to say how many there are.
scaled, = [one for one in with_keda if one["kind"] == "ScaledObject"]
backend, = [one for one in of_kind("Deployment") if one["metadata"]["name"] == scaled["spec"]["scaleTargetRef"]["name"]]
trigger, = scaled["spec"]["triggers"]
host, port = trigger["metadata"]["scalerAddress"].split(":")
asked = services[host.split(".")[0]]
assert selects(asked["spec"]["selector"], pods["frontend"][0])
assert {"name": "grpc", "port": int(port), "targetPort": "grpc"} in asked["spec"]["ports"]
count, = [re.match(r"--accelerators=cpu:(\d+)$", arg)[1] for arg in pods["backend"][2] if arg.startswith("--accelerators=")]
assert trigger["type"] == "external" and trigger["metadata"]["acceleratorsPerReplica"] == count
assert 1 <= scaled["spec"]["minReplicaCount"] <= scaled["spec"]["maxReplicaCount"]
without, rest = {**backend, "spec": {**backend["spec"]}}, [one for one in with_keda if one != scaled]
del without["spec"]["replicas"]
assert [without if one == backend else one for one in objects] == rest

# The registry takes the place of names, and nothing else is another.
for one in objects + with_etcd:
    for container in one.get("spec", {}).get("template", {}).get("spec", {}).get("containers", ()):
        container["args"] = [REGISTRY if re.match("--(peers|join)=", arg) else arg for arg in container["args"]]
        assert REGISTRY in container["args"]
assert objects == with_etcd

# One server: what its service and its probes name is there, and so for KServe, whose own schemas are not at hand: the container is
# checked as a pod's, and what KServe fills in is filled in.
deployment, service, claim = (next(one for one in of_server if one["kind"] == kind) for kind in ("Deployment", "Service", "PersistentVolumeClaim"))
container, = deployment["spec"]["template"]["spec"]["containers"]
ports = {port["name"]: port["containerPort"] for port in container["ports"]}
assert ports == {"http": 8000, "grpc": 8001, "metrics": 8002} and container["args"][0] == "serve"
check_options("serve", container["args"][1:], "kubernetes-server")
assert selects(service["spec"]["selector"], deployment["spec"]["template"]["metadata"]["labels"])
assert {port["targetPort"] for port in service["spec"]["ports"]} == set(ports)
assert all(container[probe]["httpGet"]["path"] in ROUTES and container[probe]["httpGet"]["port"] in ports for probe in ("livenessProbe", "readinessProbe"))
volumes = {volume["name"]: volume for volume in deployment["spec"]["template"]["spec"]["volumes"]}
assert {mount["name"] for mount in container["volumeMounts"]} == set(volumes)
assert volumes["models"]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
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

rules, = of_kind("PrometheusRule")
assert rules["spec"] == yaml.safe_load((source / "docs/alerts.yaml").read_text())

dashboard, = of_kind("ConfigMap")
assert sorted(dashboard["data"]) == ["symphony-cluster.json", "symphony.json"]

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
print("deploy: %d objects, %d units, %d libraries" % (len(objects) + len(of_server), len(ROLES) + 1, len(installed)))
