"""test_deploy_sums.py - what a pod of deploy/kubernetes may take is within its limit, its ports are those that its policy lets in, and a zone is
not all of a role."""
import pathlib
import re

import yaml

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "kubernetes"
REST_MIB = 512  # connections, threads, rings, code: a frontend with 10,000 connections takes some 300


def objects(kind):
    found = {}
    for path in sorted(FOLDER.glob("*.yaml")):
        for one in yaml.safe_load_all(path.read_text()):
            if one and one["kind"] in kind:
                found[one["metadata"]["labels"]["app.kubernetes.io/component"]] = one["spec"]
    return found


def test_a_frontend_stays_within_its_limit():
    container, = objects(("Deployment",))["frontend"]["template"]["spec"]["containers"]
    options = dict(re.fullmatch("--([a-z-]+)-max-mib=([0-9]+)", arg).groups() for arg in container["args"] if "-max-mib=" in arg)
    limit_mib = int(container["resources"]["limits"]["memory"].removesuffix("Gi")) << 10
    assert 3 * int(options["inputs"]) + 2 * int(options["answers"]) + int(options["outputs"]) + REST_MIB <= limit_mib


def test_policies_let_in_what_pods_listen_at():
    """And from whom docs/cluster.md says: None is anybody."""
    senders = {7700: {"app.kubernetes.io/name": "symphony"}, 8000: None, 8001: None, 8002: None,
               7710: {"app.kubernetes.io/name": "symphony", "app.kubernetes.io/component": "backend"}}
    policies = objects(("NetworkPolicy",))
    for role, spec in objects(("Deployment", "StatefulSet")).items():
        container, = spec["template"]["spec"]["containers"]
        policy = policies[role]
        assert policy["podSelector"]["matchLabels"] == spec["selector"]["matchLabels"]
        assert {port["port"] for rule in policy["ingress"] for port in rule["ports"]} == {
            port["containerPort"] for port in container["ports"]}
        for rule in policy["ingress"]:
            allowed = [one["podSelector"]["matchLabels"] for one in rule.get("from", ())] or [None]
            assert all([senders[port["port"]]] == allowed for port in rule["ports"]), rule


def test_pods_of_a_role_are_spread_over_zones_and_nodes():
    for role, spec in objects(("Deployment", "StatefulSet")).items():
        spread = spec["template"]["spec"]["topologySpreadConstraints"]
        assert [one["topologyKey"] for one in spread] == ["topology.kubernetes.io/zone", "kubernetes.io/hostname"], role
        assert all(one["labelSelector"]["matchLabels"] == spec["selector"]["matchLabels"] and one["maxSkew"] == 1 for one in spread), role
