"""test_own_policy.py - docs/policies.md does what it says: the policy of the page, simulated and live; `./run policies`; the Python package."""
import csv
import json
import os
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree

import numpy
import pytest

from server import BINARY, Server

TOP = pathlib.Path(__file__).resolve().parents[2]
PAGE = (TOP / "docs/policies.md").read_text()
RESNET = TOP / "scenarios/table4-resnet50.yaml"
SHORT = {"run.seconds": 2, "run.warmup_seconds": 1}
sys.path.insert(0, str(TOP / "python"))
os.environ["SYMPHONY"] = str(pathlib.Path(BINARY).resolve())
import symphony  # noqa: E402
from symphony import policies  # noqa: E402


def shown(language):
    return re.findall(r"^```%s\n(.*?)^```" % language, PAGE, flags=re.S | re.M)


def compiled(folder, source):
    (folder / "patient.c").write_text(source)
    line = next(line for line in shown("sh")[0].splitlines() if line.startswith("gcc "))
    done = subprocess.run(line.replace("-I src", f"-Wall -Wextra -Werror -I {TOP / 'src'}"), shell=True, cwd=folder, capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stderr
    return str(folder / "patient.so")


@pytest.fixture(scope="module")
def patient(tmp_path_factory):
    return compiled(tmp_path_factory.mktemp("policy"), shown("c")[0])


def test_it_is_simulated(patient):
    result = symphony.simulate(RESNET, {**SHORT, "workload.rate_rps": 3000}, policy=patient)
    assert result["policy"] == "patient" and result["bad_rate"] == 0
    # With enough accelerators a batch waits as long as it is told to.
    waits = [symphony.simulate(RESNET, {**SHORT, "workload.rate_rps": 500}, policy=f"{patient}:part={part}")["queue_ms"]["p50"]
             for part in (0, 0.5, 1)]
    assert waits[0] < waits[1] < waits[2]


def test_it_serves(patient, scenario):
    with Server("--scenario", str(scenario), "--policy", patient) as server:
        body = {"inputs": [{"name": "INPUT", "shape": [1, 1], "datatype": "FP32", "data": [0]}]}
        status, answer = server.request("POST", "/v2/models/m/infer", json.dumps(body).encode())[:2]
        assert status == 200, answer


@pytest.mark.parametrize("policy, says", [
    ("./nothing.so", "cannot load the policy: ./nothing.so"),
    ("{patient}:parts=1", "parts: policy patient has no such option (it has part)"),
    ("{other}", "was compiled for another version of this program"),
    ("{named}", "there is a policy 'eager' already"),
    ("{empty}", "it does not end with POLICY_EXPORT()"),
])
def test_what_cannot_be_loaded(patient, tmp_path, policy, says):
    source = shown("c")[0]
    changed = {"{other}": source.replace("POLICY_EXPORT(patient);", "extern const struct policy_export symphony_policy;\nconst struct "
                                         "policy_export symphony_policy = {.sizes = {1}, .policy = &patient};"),
               "{named}": source.replace('.name = "patient"', '.name = "eager"'),
               "{empty}": "int nothing;\n"}
    if policy in changed:
        policy = compiled(tmp_path, changed[policy])
    for command in ["simulate", str(RESNET)], ["serve", "--repository", str(tmp_path)]:
        done = subprocess.run([BINARY, *command, "--policy", policy.format(patient=patient)], capture_output=True, text=True)
        assert done.returncode == 2 and says in done.stderr, done.stderr


def test_all_policies_on_one_scenario(patient, tmp_path, capsys):
    assert policies.main([str(RESNET), "--seeds=2", "--measure=bad", "--add", patient, "--csv", str(tmp_path / "p.csv"), "--svg",
                          str(tmp_path / "p.svg"), "--set=run.seconds=1", "--set=run.warmup_seconds=0"]) == 0
    said = capsys.readouterr()
    assert "left out" not in said.err  # every setting is one of the program
    assert [line.split()[1] for line in said.out.splitlines()[2:]] == [*policies.SETTINGS, patient]
    values = list(csv.DictReader(open(tmp_path / "p.csv")))
    best = {line["policy"]: line for line in values if line["best"] == "true" and line["seed"] == "1001"}
    again = symphony.simulate(RESNET, {"run.seconds": 1, "run.warmup_seconds": 0}, policy=best["clockwork"]["setting"], seed=1001)
    assert float(best["clockwork"]["value"]) == again["bad_rate"]
    assert xml.etree.ElementTree.parse(tmp_path / "p.svg").getroot().tag.endswith("svg")


def test_policies_live_beside_simulated(tmp_path, capsys):
    patient = tmp_path / "live.yaml"  # in time on any machine
    patient.write_text(re.sub(r"slo_ms: \d+", "slo_ms: 10000", (TOP / "scenarios/live.yaml").read_text()))
    assert policies.main([str(patient), "--live", "--seeds=1", "--policy=deferred", "--policy=nexus", "--policy=nothing",
                          "--set=run.seconds=0.5", "--set=run.warmup_seconds=0", "--set=workload.rate_rps=40"]) == 0
    said = capsys.readouterr()
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in said.out.splitlines()[2:]]
    assert [line[0] for line in lines] == ["`deferred`", "`nexus`"]
    assert "nothing: left out" in said.err and "there is no policy 'nothing'" in said.err
    for line in lines:
        assert all(float(milliseconds) > 60 for milliseconds in line[3:]), line  # the fixed part of the shortest run


def test_every_rule_can_be_left_out():
    sys.path.insert(0, str(TOP / "bench"))
    import rules
    for changes in rules.RULES.values():
        rules.without(changes)  # ends the test where the sources read otherwise
    with pytest.raises(SystemExit, match="not in one place of .*: nowhere"):
        rules.without([("nowhere", "")])


def test_intervals():
    assert policies.interval([1.0, 2.0, 3.0]) == (2.0, pytest.approx(2.484, abs=1e-3))  # t = 4.303, deviation 1, root of 3
    mean, half = policies.interval([float(i % 2) for i in range(1000)])
    assert mean == 0.5 and half == pytest.approx(0.03104, rel=1e-2)
    assert policies.mean_text(*policies.interval([1.5]), "{:.1f}".format) == "1.5"  # one value has none
    assert policies.mean_text(*policies.interval([0.5, 0.5]), "{:+.1f}".format) == "+0.5 ± 0.0"


def test_the_example_in_python(tmp_path):
    (tmp_path / "experiment.py").write_text(shown("python")[0])
    done = subprocess.run([sys.executable, str(tmp_path / "experiment.py")], cwd=TOP, env={**os.environ, "PYTHONPATH": "python"},
                          capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and len(lines) == 5, done.stderr
    goodputs = [float(line.rsplit(None, 1)[1]) for line in lines[1:]]
    assert min(goodputs[2:]) > max(goodputs[:2]) > 0  # twice the accelerators


def test_rows_of_results():
    results = symphony.sweep(RESNET, {"workload.rate_rps": [100, 200]}, SHORT)
    assert [row["workload.rate_rps"] for row in symphony.rows(results)] == [100, 200]
    assert [row["name"] for row in symphony.rows(results, models=True)] == ["ResNet50"] * 2
    assert symphony.rows(results[0])[0]["latency_ms.p99"] == results[0]["latency_ms"]["p99"]
    with pytest.raises(symphony.Error, match="there is no policy 'deferring'"):
        symphony.simulate(RESNET, policy="deferring")


def test_csv():
    command = [BINARY, "simulate", str(RESNET), "--csv", *(f"--set={key}={value}" for key, value in SHORT.items())]
    run = list(csv.DictReader(subprocess.run([*command, "--sweep", "workload.rate_rps=100,200"], capture_output=True, text=True, check=True)
                              .stdout.splitlines()))
    results = symphony.sweep(RESNET, {"workload.rate_rps": [100, 200]}, SHORT)
    assert [(line["workload.rate_rps"], line["model"]) for line in run] == [(rate, model) for rate in ("100", "200") for model in ("all", "ResNet50")]
    for line, result in zip(run[::2], results):
        for key, value in {"requests": result["requests"], "good_rps": result["good_rps"], "latency_p99_ms": result["latency_ms"]["p99"]}.items():
            assert float(line[key]) == pytest.approx(value), key


def test_python_takes_numbers_of_numpy_one_value_and_a_trace_beside_the_experiment(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.csv").write_text("".join("%g,m\n" % (i / 100) for i in range(200)))
    own = {"cluster": {"accelerators": 2, "type": "fast"}, "models": [{"name": "m", "alpha_ms": 1, "beta_ms": 5, "slo_ms": 40}],
           "workload": {"arrivals": {"trace": "mine.csv"}}, "run": {"seconds": 1, "warmup_seconds": numpy.int64(0)}}
    assert symphony.simulate(own)["requests"] == 100
    own["workload"] = {"rate_rps": numpy.float32(100)}
    assert [one["sweep"] for one in symphony.sweep(own, {"run.seed": numpy.arange(1, 3)})] == [{"run.seed": 1}, {"run.seed": 2}]
    assert [one["sweep"] for one in symphony.sweep(own, {"policy.name": "eager"})] == [{"policy.name": "eager"}]
    with pytest.raises(symphony.Error, match="scenario:1: modles: unknown key"):
        symphony.simulate({**own, "modles": []})
    with pytest.raises(symphony.Error, match="is neither a number"):
        symphony.simulate({**own, "models": [object()]})
