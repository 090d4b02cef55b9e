"""test_whatif.py - a server's last minutes, replayed: as they were, with other settings, and by simulate. In one process
and in a cluster, with policies of candidates and a central one."""
# sanitizers: address thread

import json
import re
import subprocess

import pytest

from server import BINARY, Server, http_request, wait_until
from test_cluster_status import Cluster

# No batch of two pays: four accelerators do 100 requests a second, one 25.
SCENARIO = """cluster: {accelerators: 4, type: slow}
models:
  - {name: long, alpha_ms: 40, beta_ms: 0.001, slo_ms: 600}
  - {name: short, alpha_ms: 0.1, beta_ms: 0.1, slo_ms: 60000, priorities: [1, 1]}
workload: {rate_rps: 10}
"""
RATE, SECONDS = 100, 5


def run(command, *args):
    return subprocess.run([BINARY, command, *map(str, args)], capture_output=True, text=True, timeout=600)


def get(port, path, headers=None):
    status, _, body = http_request(port, "GET", path, headers=headers)
    return status, body.decode()


def load(server, models="long,short", seconds=SECONDS):
    """Requests that name their SLO: others are refused unread, and so not recorded, by a frontend that stood still for as long."""
    done = run("bench", "http://127.0.0.1:%d" % server.port, "--rate", RATE, "--seconds", seconds, "--warmup", "0", "--models",
               models, "--timeout-from-slo")
    assert done.returncode == 0, done.stderr
    server.rests()


def counted(server):
    """Requests that have ended, as the metrics have them."""
    return sum(value for name, value in server.metrics().items() if name.startswith("symphony_requests_total"))


def whatif(source, *args):
    done = run("whatif", source, "--json", *args)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def refused(*args):
    done = run("whatif", *args)
    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
    return done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whatif")
    (folder / "scenario.yaml").write_text(SCENARIO)
    (folder / "tokens").write_text("alpha-token\n")
    return folder


@pytest.fixture(scope="module")
def server(folder):
    """That has had the load. A machine that stands still sends much at once: no test may count on fewer accelerators than that takes."""
    with Server("--scenario", folder / "scenario.yaml", "--no-learn", "--autoscale", "every_s=1") as running:
        load(running)
        yield running


@pytest.fixture(scope="module")
def recording(server, folder):
    status, text = get(server.metrics_port, "/v2/symphony/recording")
    assert status == 200
    (folder / "recording").write_text(text)
    return folder / "recording"


def trace_of(text):
    return [line.split(",") for line in text.split("\n--- trace\n")[1].splitlines()[1:]]


def test_every_request_is_recorded_once(server, recording):
    lines = trace_of(recording.read_text())
    assert len(lines) == counted(server) > RATE * SECONDS / 2
    assert {line[1] for line in lines} == {"long", "short"}
    for seconds, model, items, slo_ms, priority in lines:
        assert float(seconds) > 0 and items == "1"
        assert priority == ("1" if model == "short" else "")  # the lowest is the default
        assert 0.3 < float(slo_ms) / (600 if model == "long" else 60000) < 2  # not as it was, for the reply margin changes


def test_replayed_it_is_what_the_server_saw(server):
    found = whatif("http://127.0.0.1:%d" % server.metrics_port)
    assert found["changed"] is None and found["least"] is None
    assert found["requests"] == counted(server)
    assert found["recorded"]["accelerators"] == {"slow": 4}
    assert found["recorded"]["policy"] == "deferred"
    assert {model["name"] for model in found["recorded"]["models"]} == {"long", "short"}


def test_with_fewer_it_goes_badly(recording):
    """Half of 100 requests a second take 40 ms each, and no batch is faster: two accelerators."""
    fewer = whatif(recording, "--accelerators", "1")
    assert fewer["changed"]["accelerators"] == {"slow": 1}
    assert fewer["changed"]["bad_rate"] > 0.1
    assert fewer["changed"]["offered_rps"] == fewer["recorded"]["offered_rps"]
    assert whatif(recording, "--accelerators", "-3")["changed"] == fewer["changed"]
    more = whatif(recording, "--accelerators", "+60")
    assert more["changed"]["accelerators"] == {"slow": 64}
    assert more["changed"]["bad_rate"] == 0


def test_the_least_are_found(recording):
    found = whatif(recording, "--least")
    least = found["least"]
    assert least["accelerators"] >= 2
    assert least["bad_rate"] <= 0.01 < least["bad_rate_with_one_less"]
    again = whatif(recording, "--accelerators", least["accelerators"] - 1, "--set", "run.seed=1")
    assert again["changed"]["bad_rate"] == pytest.approx(least["bad_rate_with_one_less"])
    shown = run("whatif", recording, "--least")
    assert shown.returncode == 0
    assert re.search(r"least accelerators with at most 1 %% bad: %d" % least["accelerators"], shown.stdout)


def test_where_no_number_is_enough_the_figures_are_there(recording):
    shown = run("whatif", recording, "--least", "--set", "network.reply_margin_us=1000000")
    assert shown.returncode == 1 and "--least: even with 1000000 accelerators " in shown.stderr
    assert "simulated as changed" in shown.stdout and "least accelerators" not in shown.stdout


def test_the_server_s_advice_is_told(recording):
    text = recording.read_text()
    advice = whatif(recording)["advice"]  # it keeps headroom, and released none while the load lasted
    assert advice["needed_mean"] < advice["most"] and advice["least"] <= advice["last"] <= advice["most"]
    # A request of `long` needs 40 ms; from its rate, which is estimated anew all the time, the server tells how much that is.
    (looks,) = (json.loads(line)["looks"] for line in text.splitlines() if line.startswith('{"version"'))
    needed_s, work_s = advice["needed_mean"] * (looks[-1][0] - looks[0][0]), 0.04 * sum(line[1] == "long" for line in trace_of(text))
    assert work_s / 4 < needed_s < 4 * work_s


def test_other_slos_and_policies(recording):
    one = whatif(recording, "--accelerators", "1")["changed"]
    found = whatif(recording, "--slo", "long=3000000", "--accelerators", "1")["changed"]
    models = {model["name"]: model for model in found["models"]}
    assert models["long"]["slo_ms"] == 3000000 and models["short"]["slo_ms"] == 60000
    assert found["bad_rate"] == 0 < one["bad_rate"]  # whoever has time waits
    assert models["long"]["latency_ms"]["max"] > 600
    assert whatif(recording, "--slo", "3000000", "--policy", "clockwork")["changed"]["policy"] == "clockwork"
    assert whatif(recording, "--policy", "deferred:consolidate=true")["changed"]["policy"] == "deferred"


def test_saved_it_is_simulated_alike(recording, folder):
    found = whatif(recording, "--save", folder / "saved")
    done = run("simulate", folder / "saved" / "scenario.yaml", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == found["recorded"]


def test_mistakes_are_said(server, recording, folder):
    here = "http://127.0.0.1:%d" % server.metrics_port
    assert "there are none of the type 'fast'" in refused(recording, "--accelerators", "fast=3")
    assert "expected at least 1; there are 4" in refused(recording, "--accelerators", "-4")
    assert "no request of a model 'none'" in refused(recording, "--slo", "none=5")
    assert "there is no policy 'best'" in refused(recording, "--policy", "best")
    assert "cannot meet its SLO" in refused(recording, "--slo", "long=1")
    (folder / "wrong").write_text("symphony recording 1\n--- server\n")
    assert "wrong: this is no recording" in refused(folder / "wrong")
    assert "/none: No such file or directory" in refused(folder / "none")
    assert "./none: No such file or directory" in refused("./none")
    assert "no regular file" in refused(folder)
    done = run("whatif", "none.invalid")
    assert done.returncode == 1 and "cannot find host 'none.invalid'" in done.stderr
    assert "nor is there a file 'none.invalid'" in done.stderr
    assert "nor is" not in run("whatif", "http://none.invalid").stderr
    done = run("whatif", "http://127.0.0.1:%d" % server.port)
    assert done.returncode == 1 and "metrics port" in done.stderr
    for path, status in (("", 200), ("/1e9", 200), ("/0", 404), ("/-1", 404), ("/x", 404), ("s", 404), ("/0.000001", 409)):
        assert get(server.metrics_port, "/v2/symphony/recording" + path)[0] == status, path
    done = run("whatif", here, "--seconds", "86400")
    assert done.returncode == 0


def test_nothing_is_recorded_unless_it_is_wanted(folder):
    with Server("--scenario", folder / "scenario.yaml", "--record-mib", "0", "--auth-token-file", folder / "tokens",
                "--auth-metrics") as server:
        assert get(server.metrics_port, "/v2/symphony/recording")[0] == 401
        status, text = get(server.metrics_port, "/v2/symphony/recording", {"Authorization": "Bearer alpha-token"})
        assert status == 409 and "--record-mib 0" in text
        done = run("whatif", "127.0.0.1:%d" % server.metrics_port, "--token", "@%s" % (folder / "tokens"))
        assert done.returncode == 1 and "--record-mib 0" in done.stderr


def test_a_central_policy_is_recorded_too(folder):
    with Server("--scenario", folder / "scenario.yaml", "--policy", "clockwork") as server:
        load(server, "short", seconds=1)
        found = whatif("127.0.0.1:%d" % server.metrics_port)
        assert found["requests"] == counted(server)
        assert found["recorded"]["policy"] == "clockwork"


def test_a_clusters_scheduler_records(tmp_path):
    cluster = Cluster(tmp_path)
    try:
        for _ in range(10):
            for model in ("m-1", "m-2"):
                assert cluster.infer(model) == 200
        port = cluster.scheduler.port("metrics_port")
        wait_until(lambda: len(trace_of(get(port, "/v2/symphony/recording")[1])) >= 20)
        lines = trace_of(get(port, "/v2/symphony/recording")[1])
        assert len(lines) == 20 and {line[1] for line in lines} == {"m-1", "m-2"}
        found = whatif("127.0.0.1:%d" % port, "--accelerators", "1", "--least")
        assert found["cluster"] and found["requests"] == 20
        assert found["recorded"]["accelerators"] == {"gpu": 4}
        assert found["changed"]["bad_rate"] == 0 and found["least"]["accelerators"] == 1
        assert get(cluster.frontend.port("metrics_port"), "/v2/symphony/recording")[0] == 404
        cluster.end()
    finally:
        cluster.kill()


def test_a_log_without_a_look_at_the_load_says_so(tmp_path):
    (tmp_path / "scenario.yaml").write_text(
        "cluster: {accelerators: 1, type: slow}\n"
        "models: [{name: a, alpha_ms: 2, beta_ms: 5, slo_ms: 40}]\n"
        "workload: {rate_rps: 10}\n")
    with Server("--scenario", tmp_path / "scenario.yaml", "--record-decisions", tmp_path / "log", "--autoscale",
                "every_s=3600") as server:
        assert server.stop() == 0
    done = run("whatif", "--check", tmp_path / "log")
    assert done.returncode == 0, done.stderr
    assert re.search(r"/advice\.decisions: 0 steps decided again as they were, 0 looks at the load\n", done.stdout)


@pytest.mark.parametrize("ranks", [1, 2])
def test_what_was_decided_live_is_decided_again(tmp_path, ranks):
    """Three models, one with priorities, clients that leave, too many requests: every message of every core, and how many
    accelerators there should be."""
    (tmp_path / "scenario.yaml").write_text(
        "cluster: {accelerators: 3, type: slow}\n"
        "models:\n"
        "  - {name: a, alpha_ms: 2, beta_ms: 5, slo_ms: 40}\n"
        "  - {name: b, alpha_ms: 20, beta_ms: 5, slo_ms: 200, priorities: [1, 1, 1]}\n"
        "  - {name: c, alpha_ms: 10, beta_ms: 1, slo_ms: 60000, best_effort: 1}\n"
        "workload: {rate_rps: 10}\n")
    body = json.dumps({"inputs": [{"name": "INPUT", "shape": [1, 1], "datatype": "FP32", "data": [0]}]})
    with Server("--scenario", tmp_path / "scenario.yaml", "--record-decisions", tmp_path / "log", "--model-threads", "2",
                "--frontends", "2", "--rank-threads", ranks, "--autoscale", "every_s=1,start_delay_s=1") as server:
        leaving = []
        for n in range(20):  # their clients leave while they wait
            connection = server.connect()
            connection.request("POST", "/v2/models/%s/infer" % "abc"[n % 3], body)
            leaving.append(connection)
        for connection in leaving:
            connection.close()
        done = run("bench", "http://127.0.0.1:%d" % server.port, "--rate", "300", "--seconds", "3", "--slo-ms", "60000")
        assert done.returncode == 0, done.stderr
        batches = server.metrics()["symphony_grants_total"]

        def enough_is_wanted():
            """The page is read row by row while the figures change."""
            metrics = server.metrics()
            wanted_of = [metrics['symphony_rank_thread_accelerators_wanted{rank_thread="%d"}' % k] for k in range(ranks) if ranks > 1]
            return metrics["symphony_accelerators_wanted"] >= max(1, sum(wanted_of))
        wait_until(enough_is_wanted)
        assert server.stop() == 0
    done = run("whatif", "--check", tmp_path / "log")
    assert done.returncode == 0, done.stderr
    lines = dict(re.findall(r"/(\w+-\d)\.decisions: (\d+ steps decided again as they were, \d+ grants, \d+ refusals)",
                            done.stdout))
    assert set(lines) == {"model-0", "model-1"} | {"rank-%d" % k for k in range(ranks)}
    figures = {name: list(map(int, re.findall(r"\d+", line))) for name, line in lines.items()}
    grants = sum(figures[name][1] for name in figures if name.startswith("rank"))
    assert grants == figures["model-0"][1] + figures["model-1"][1] >= batches > 0
    assert min(steps for steps, *_ in figures.values()) > 100
    looks = re.search(r"/advice\.decisions: (\d+) steps decided again as they were, (\d+) looks at the load\n", done.stdout)
    assert int(looks[1]) == int(looks[2]) >= 2
    for name in ("model-0", "advice"):
        log = tmp_path / "log" / (name + ".decisions")
        kept = log.read_bytes()
        changed = bytearray(kept)
        changed[-8] ^= 1
        log.write_bytes(changed)
        done = run("whatif", "--check", tmp_path / "log")
        assert done.returncode == 1 and name in done.stderr and "says something else than it did" in done.stderr
        log.write_bytes(kept)
    other = tmp_path / "log" / "rank-0.decisions"
    other.write_bytes(other.read_bytes()[:other.stat().st_size // 2 // 8 * 8])  # its head says that it is longer
    done = run("whatif", "--check", tmp_path / "log")
    assert done.returncode == 2 and "rank-0.decisions: this is no log of decisions" in done.stderr
    other.unlink()
    done = run("whatif", "--check", tmp_path / "log")
    assert done.returncode == 1 and "that the core did not say" in done.stderr
    assert run("whatif", "--check", tmp_path).returncode == 2
    assert run("serve", "--scenario", tmp_path / "scenario.yaml", "--policy", "clockwork", "--record-decisions",
               tmp_path / "log").returncode == 2
