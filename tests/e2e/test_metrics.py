"""test_metrics.py - the metrics page: well formed to the letter, Triton's names beside Symphony's, and the dashboard that
is made for both.
"""
# sanitizers: address thread

import json
import pathlib
import re
import subprocess

import pytest

from clients import find
from repository import repository, server, stuck  # noqa: F401 (fixtures)
from server import http_request, wait_until

TOP = pathlib.Path(__file__).parent.parent.parent
MONITORING = TOP / "deploy/helm/monitoring"
ALERTS_TEST = pathlib.Path(__file__).parent / "alerts_test.yaml"
TRITON = {"nv_inference_" + name for name in (
    "request_success", "request_failure", "count", "exec_count", "request_duration_us", "queue_duration_us",
    "compute_input_duration_us", "compute_infer_duration_us", "compute_output_duration_us", "pending_request_count")}
NAME, LABEL = r"[a-z][a-z0-9_]*", r'([a-z_]+)="((?:[^"\\\n]|\\["\\n])*)"'
SLOW = json.dumps({"inputs": [{"name": "INPUT", "datatype": "FP32", "shape": [1, 1], "data": [0]}]})


def page(server, path="/metrics"):
    return http_request(server.metrics_port, "GET", path)[2].decode()


def parse(text):
    """Every family once, its HELP and TYPE before its rows, no row twice: {family: (type, {(name, labels): value})}."""
    families, rows, kind = {}, None, None
    assert text.endswith("\n")
    lines = iter(text[:-1].split("\n"))
    for line in lines:
        heading = re.fullmatch(rf"# HELP ({NAME}) (\S.*[.])", line)
        if heading:
            family, rows = heading[1], {}
            kind = re.fullmatch(rf"# TYPE {family} (counter|gauge|histogram|summary)", next(lines))[1]
            assert family not in families
            families[family] = kind, rows
            continue
        row = re.fullmatch(rf"({NAME})(?:{{({LABEL}(?:,{LABEL})*)}})? (\S+)", line)
        assert row, line
        suffixes = {"histogram": "_bucket|_sum|_count", "summary": "|_sum|_count"}.get(kind, "")
        assert re.fullmatch(family + f"({suffixes})", row[1]), line
        labels = re.findall(LABEL, row[2] or "")
        assert len(dict(labels)) == len(labels) and (row[1], frozenset(labels)) not in rows, line
        rows[row[1], frozenset(labels)] = float(row[row.re.groups])
    return families


def value(server, family, **labels):
    return parse(page(server))[family][1][family, frozenset(labels.items())]


def stats(server, model):
    return json.loads(server.request("GET", f"/v2/models/{model}/stats")[2])["model_stats"][0]


def test_the_page_is_well_formed(server):
    assert server.infer("double", [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}])[0] == 200
    families = parse(page(server))
    assert {f for f in families if not f.startswith("symphony_")} == TRITON
    models = {model["name"] for model in json.loads(server.request("POST", "/v2/repository/index")[2])}
    shown = {dict(labels)["model"] for _, labels in families["symphony_model_ready"][1]}
    assert {name.replace('\\"', '"') for name in shown} == models and {"double", 'quo"ted'} <= models and "?ed" in models
    for family in TRITON:
        kind, rows = families[family]
        assert kind == ("gauge" if family.endswith("pending_request_count") else "counter")
        reasons = {"REJECTED", "CANCELED", "BACKEND"} if family.endswith("failure") else {None}
        assert {(dict(labels)["model"], dict(labels).get("reason")) for _, labels in rows} == {
            (model, reason) for model in shown for reason in reasons}
        assert all(dict(labels)["version"] == "1" for _, labels in rows)


def test_the_fine_page_has_every_latency_between_close_edges(server):
    for _ in range(20):
        assert server.infer("double", [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}])[0] == 200
    name = "symphony_request_duration_seconds"

    def buckets(path):
        rows = parse(page(server, path))[name][1]
        edges = sorted((float(dict(labels)["le"]), value) for (row, labels), value in rows.items()
                       if row.endswith("_bucket") and dict(labels)["model"] == "double")
        return edges, rows[name + "_count", frozenset({"model": "double", "version": "1"}.items())]

    server.rests()  # an answer may be here before it is counted
    fine, total = buckets("/metrics/fine")
    assert total >= 20
    coarse, _ = buckets("/metrics")
    assert set(parse(page(server, "/metrics/fine"))) == {name}
    assert fine[-1] == (float("inf"), total)
    for (low, below), (high, until) in zip([(0, 0)] + fine, fine):
        assert below <= until
        assert until == below or high <= low * 1.004 + 1e-9 or high == float("inf")
    for edge, count in coarse:  # the same requests
        assert count == max([c for e, c in fine if e <= edge], default=0)


def test_counters_and_histograms(server):
    for family, (kind, rows) in parse(page(server)).items():
        if kind == "counter" and family not in TRITON:
            assert family.endswith("_total")
        buckets = {}
        for (name, labels), count in rows.items():
            if name.endswith("_bucket"):
                series = frozenset((k, v) for k, v in labels if k != "le")
                buckets.setdefault(series, {})[float(dict(labels)["le"])] = count
        assert bool(buckets) == (kind == "histogram")
        for series, counts in buckets.items():
            assert list(counts) == sorted(counts) and list(counts.values()) == sorted(counts.values())
            assert counts[float("inf")] == rows[family + "_count", series]


@pytest.mark.skipif(not find("promtool"), reason="promtool (Debian: prometheus) is not installed")
def test_promtool_finds_fault_with_tritons_names_only(server):
    found = subprocess.run([find("promtool"), "check", "metrics"], input=page(server), capture_output=True, text=True, timeout=600)
    assert found.returncode in (0, 3), found.stderr
    assert [line for line in found.stderr.splitlines() if not line.startswith("nv_inference_")] == []


def test_tritons_names_say_what_the_statistics_say(server):
    def looked_at(model):
        """The statistics, and the page as it was meanwhile: a batch is counted a moment after it was sent."""
        told, families = stats(server, model), parse(page(server))
        return (told, families) if stats(server, model) == told else looked_at(model)

    x = {"name": "x", "datatype": "FP32", "shape": [3, 4], "data": list(range(12))}
    server.rests()
    answered = stats(server, "double")["inference_stats"]["success"]["count"]
    assert server.infer("double", [x])[0] == 200
    assert server.infer("double", [{**x, "shape": [1, 5]}])[0] == 400  # the client's mistake: no failure
    assert server.infer("pick", [{"name": "i", "datatype": "INT64", "shape": [1, 1], "data": [9]}])[0] == 500
    wait_until(lambda: stats(server, "double")["inference_stats"]["success"]["count"] == answered + 1)
    wait_until(lambda: stats(server, "pick")["inference_stats"]["fail"]["count"] == 1)
    server.rests()

    for model in ("double", "pick"):
        told, families = looked_at(model)
        parts = told["inference_stats"]
        shown = {dict(labels).get("reason", name): count for family in TRITON for (name, labels), count in
                 families[family][1].items() if dict(labels)["model"] == model}
        assert shown.pop("nv_inference_request_success") == parts["success"]["count"]
        assert shown.pop("nv_inference_count") == told["inference_count"]
        assert shown.pop("nv_inference_exec_count") == told["execution_count"]
        assert shown.pop("nv_inference_request_duration_us") == parts["success"]["ns"] // 1000
        for part in ("queue", "compute_input", "compute_infer", "compute_output"):
            assert shown.pop(f"nv_inference_{part}_duration_us") == parts[part]["ns"] // 1000
        assert shown == {"nv_inference_pending_request_count": 0, "REJECTED": 0, "CANCELED": 0,
                         "BACKEND": parts["fail"]["count"]}


def test_pending_rejected_and_canceled(stuck):
    def triton(name, **labels):
        return value(stuck, "nv_inference_" + name, model="slow", version="1", **labels)
    late = {**json.loads(SLOW), "parameters": {"timeout": 20000}}
    assert stuck.request("POST", "/v2/models/slow/infer", json.dumps(late))[0] == 503
    wait_until(lambda: triton("request_failure", reason="REJECTED") == 1)
    clients = [stuck.connect() for _ in range(4)]
    clients[0].request("POST", "/v2/models/slow/infer", SLOW)
    wait_until(lambda: value(stuck, "symphony_grants_total") == 1)  # the accelerator is busy with it
    for client in clients[1:]:
        client.request("POST", "/v2/models/slow/infer", SLOW)
    wait_until(lambda: triton("pending_request_count") == 3)
    for client in clients[1:]:
        client.close()
    wait_until(lambda: triton("request_failure", reason="CANCELED") == 3)
    wait_until(lambda: triton("pending_request_count") == 0)
    assert value(stuck, "symphony_grants_total") == 1
    assert triton("request_success") == 0
    clients[0].close()


def asked_by(*files):
    """The series that dashboards and alerts ask for."""
    return {name for file in files for name in re.findall(r"\b(?:symphony|nv_inference)_[a-z0-9_]+", (MONITORING / file).read_text())}


def test_dashboard_and_alerts_ask_for_what_there_is(server):
    names = asked_by("grafana-dashboard.json", "alerts.yaml")
    wait_until(lambda: "symphony_accelerators_wanted" in page(server))  # there is no advice before the first look
    families = parse(page(server))
    missing = names - {name for _, rows in families.values() for name, _ in rows}
    assert all(name.startswith("symphony_cluster_") or name == "symphony_spans_total" for name in missing)
    assert TRITON <= names


def panels_show(folder, before, after, *dashboards):
    """That every question of the dashboards' panels has a number for an answer, by Prometheus' own engine: of the pages of each process,
    as they were before and after some requests."""
    def rows_of(text):
        return {row: count for _, rows in parse(text).values() for row, count in rows.items()}
    series = []
    for process, (old, new) in enumerate(zip(map(rows_of, before), map(rows_of, after))):
        for (name, labels), count in new.items():
            text = ",".join(f'{key}="{label}"' for key, label in [*sorted(labels), ("instance", process)])
            series.append({"series": "%s{%s}" % (name, text), "values": f"{old.get((name, labels), 0):.9f}" + f" {count:.9f}" * 4})
    asked = [target["expr"] for file in dashboards for panel in json.loads((MONITORING / file).read_text())["panels"]
             for target in panel.get("targets", [])]
    for word, meant in {"$__rate_interval": "1m", "$instance": ".*", "$model": ".*"}.items():
        asked = [expr.replace(word, meant) for expr in asked]
    test = {"interval": "15s", "input_series": series, "promql_expr_test": [
        {"expr": f"count(({expr}) == ({expr})) > bool 0", "eval_time": "1m", "exp_samples": [{"labels": "{}", "value": 1}]}  # NaN is no number
        for expr in asked]}
    (folder / "panels.yaml").write_text(json.dumps({"rule_files": [], "evaluation_interval": "15s", "tests": [test]}))
    tested = subprocess.run([find("promtool"), "test", "rules", folder / "panels.yaml"], capture_output=True, text=True, timeout=600)
    assert tested.returncode == 0, tested.stdout + tested.stderr


@pytest.mark.skipif(not find("promtool"), reason="promtool (Debian: prometheus) is not installed")
def test_no_panel_of_the_dashboard_is_empty(server, tmp_path):
    before = page(server)
    x = {"name": "x", "datatype": "FP32", "shape": [3, 4], "data": list(range(12))}
    assert [server.infer("double", [x])[0] for _ in range(3)] == [200] * 3
    assert server.infer("pick", [{"name": "i", "datatype": "INT64", "shape": [1, 1], "data": [9]}])[0] == 500
    assert server.infer("double", [x], parameters={"timeout": 1})[0] == 503
    server.rests()
    wait_until(lambda: "symphony_accelerators_wanted" in page(server))
    panels_show(tmp_path, [before], [page(server)], "grafana-dashboard.json")


@pytest.mark.skipif(not find("promtool"), reason="promtool (Debian: prometheus) is not installed")
def test_alerts_fire_where_they_should():
    tested = subprocess.run([find("promtool"), "test", "rules", ALERTS_TEST], capture_output=True, text=True, timeout=600)
    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert set(re.findall(r"- alert: (\w+)", (MONITORING / "alerts.yaml").read_text())) == \
        set(re.findall(r"alertname: (\w+)", ALERTS_TEST.read_text()))
    for alert in re.findall(r"- alert: (\w+)", (MONITORING / "alerts.yaml").read_text()):
        assert f"`{alert}`" in (TOP / "docs/observe.md").read_text()
