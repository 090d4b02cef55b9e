"""chart.py - what helm makes of the chart in deploy/helm."""
import pathlib
import subprocess

import yaml

from clients import find

CHART = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "helm"
MISSING = "" if find("helm") else "helm is not installed (./run test does it on x86-64)"


def helm(*arguments):
    return subprocess.run([find("helm"), *map(str, arguments)], capture_output=True, text=True)


def rendered(*options):
    """The objects of a release with the name symphony, by these options of helm."""
    made = helm("template", "symphony", CHART, *options)
    assert made.returncode == 0, made.stderr
    return [one for one in yaml.safe_load_all(made.stdout) if one]


def pods(objects):
    """Names and templates of the pods, of Deployments and StatefulSets alike with numbers."""
    return [("%s-%d" % (one["metadata"]["name"], i), one["spec"]["template"]) for one in objects
            if one["kind"] in ("Deployment", "StatefulSet") for i in range(one["spec"]["replicas"])]
