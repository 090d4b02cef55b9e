"""deploy_check.py SOURCE WORK - for deploy.sh: WORK/all.yaml by Kubernetes' schemas, and what these do not say: that services and
budgets find pods, ports have names, probes ask routes that are there, and options exist. Prints what it has checked."""
import pathlib
import re
import shlex
import sys

import kubernetes_validate
import yaml

ROLES = "scheduler", "frontend", "backend"
VERSIONS = "1.27", "1.37"  # of Kubernetes: the first has all that is used here
ROUTES = "/v2/health/live", "/v2/health/ready"
source, work = map(pathlib.Path, sys.argv[1:])
objects = [one for one in yaml.safe_load_all((work / "all.yaml").read_text()) if one]
helps = {role: (work / ("%s.help" % role)).read_text() for role in ROLES}


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


# ServiceMonitor is the Prometheus operator's, whose schemas are not Kubernetes' own.
for one in objects:
    if one["kind"] != "ServiceMonitor":
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
names = {one["metadata"]["name"]: one for one in of_kind("Service")}
for role in ROLES:
    joined, = [arg for arg in pods[role][2] if arg.startswith("--peers=" if role == "scheduler" else "--join=")]
    for place in joined.split("=")[1].split(","):
        host, port = place.split(":")
        assert int(port) in {one["port"] for one in names[host]["spec"]["ports"]}
dashboard, = of_kind("ConfigMap")
assert list(dashboard["data"]) == ["symphony.json"]

for role in ROLES:
    text = (source / "deploy/systemd" / ("%s.env" % role)).read_text()
    setting, = re.findall(r'^SYMPHONY_OPTIONS="(.*)"$', text, re.M)
    check_options(role, [word for word in shlex.split(setting) if word.startswith("--")], "%s.env" % role)

for origin in re.findall(r"^COPY ([^-\s]\S*) ", (source / "deploy/Containerfile").read_text(), re.M):
    assert (source / origin).exists(), origin
print("deploy: %d objects, %d units" % (len(objects), len(ROLES)))
