"""test_accelerators.py - accelerators drained and taken back by clients, one and all of them, while others are served."""
# sanitizers: address thread

import json
import threading

import pytest

from repository import measure
from server import Server, wait_until
from test_control import Client, put, scaled

WAIT_S = 600  # sanitizers are slow, and a model is measured when the machine has nothing better to do


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("repository")
    put(folder, "scaled", scaled(2))
    measure(folder)
    return folder


@pytest.fixture(scope="module", params=["on", "off"])
def server(folder, request):
    with Server("--repository", folder, "--model-control-mode", "explicit", "--load-model", "scaled", "--slo-ms", "60000",
                "--accelerators", "cpu:2", "--isolate", request.param) as server:
        wait_until(lambda: server.request("GET", "/v2/health/ready")[0] == 200, WAIT_S)
        yield server
        assert server.stop() == 0


def ask(server, path="", action=None, body=None):
    body = json.dumps({"action": action}) if action else body
    status, _, text = server.request("POST" if body is not None else "GET", "/v2/symphony/accelerators" + path, body)
    return status, json.loads(text)


def states(server):
    return [accelerator["state"] for accelerator in ask(server)[1]]


def batches(server, accelerator):
    return server.metrics()['symphony_accelerator_batches_total{accelerator="%d",type="cpu"}' % accelerator]


def test_one_drains_and_comes_back_while_others_serve(server):
    assert ask(server) == (200, [{"accelerator": n, "type": "cpu", "state": "serving"} for n in (0, 1)])
    client, stop, answers = Client(server, "http"), threading.Event(), []

    def ask_on():
        while not stop.is_set():
            answers.append(client.factor("scaled"))

    asker = threading.Thread(target=ask_on)
    asker.start()
    try:
        status, answer = ask(server, "/0", "drain")
        assert status == 200 and answer["accelerator"] == 0 and answer["type"] == "cpu"
        wait_until(lambda: states(server) == ["gone", "serving"], WAIT_S)
        metrics = server.metrics()
        assert metrics["symphony_accelerators_serving"] == 1
        assert metrics['symphony_accelerator_state{accelerator="0",type="cpu"}'] == 2
        assert metrics['symphony_accelerator_state{accelerator="1",type="cpu"}'] == 0
        first, second, seen = batches(server, 0), batches(server, 1), len(answers)
        wait_until(lambda: len(answers) > seen + 20, WAIT_S)
        assert batches(server, 0) == first  # nothing runs on what has drained
        assert batches(server, 1) > second
        assert ask(server, "/0", "drain")[0] == 200  # again: nothing more happens
        assert ask(server, "/0", "join")[0] == 200
        wait_until(lambda: states(server) == ["serving", "serving"], WAIT_S)
        wait_until(lambda: batches(server, 0) > first, WAIT_S)
    finally:
        stop.set()
        asker.join()
    assert set(answers) == {2.0}


def test_without_any_the_server_is_not_ready_until_one_is_back(server):
    refused = 'symphony_requests_total{model="scaled",version="1",outcome="refused"}'
    before = server.metrics()[refused]
    for n in ("0", "1"):
        assert ask(server, "/" + n, "drain")[0] == 200
    wait_until(lambda: states(server) == ["gone", "gone"], WAIT_S)
    wait_until(lambda: server.request("GET", "/v2/health/ready")[0] != 200, WAIT_S)
    status, answer = server.infer("scaled", [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1] * 4}])
    assert status == 503 and "no accelerator that runs" in answer["error"]
    client = Client(server, "grpc")
    assert client.fails(client.factor, "scaled")[0] == 503
    wait_until(lambda: server.metrics()[refused] == before + 2, WAIT_S)  # over either protocol
    assert ask(server, "/1", "join")[0] == 200
    wait_until(lambda: server.request("GET", "/v2/health/ready")[0] == 200, WAIT_S)
    assert client.factor("scaled") == 2
    assert ask(server, "/0", "join")[0] == 200
    wait_until(lambda: states(server) == ["serving", "serving"], WAIT_S)


@pytest.mark.parametrize("path, body, status, says", [
    ("/2", '{"action": "drain"}', 404, "there is no accelerator 2: the server has 2, from 0 on"),
    ("/99999999999999999999999", '{"action": "drain"}', 404, "there is no accelerator 99999999999999999999"),
    ("/0", '{"action": "explode"}', 400, "unknown action 'explode': expected drain or join"),
    ("/0", '{"action": 1}', 400, 'expected "action": "drain" or "join"'),
    ("/0", "", 400, 'expected "action": "drain" or "join"'),
    ("/0", "[]", 400, "expected an object"),
    ("/0", "{", 400, "the request's JSON is wrong"),
    ("/x", '{"action": "drain"}', 404, "there is no such path"),
    ("", '{"action": "drain"}', 405, "this path takes GET, HEAD only"),
])
def test_mistakes_are_named(server, path, body, status, says):
    got, answer = ask(server, path, body=body)
    assert got == status
    assert says in answer["error"]
    assert states(server) == ["serving", "serving"]


def test_one_is_asked_for_by_its_number(server):
    assert ask(server, "/1") == (200, {"accelerator": 1, "type": "cpu", "state": "serving"})
    assert ask(server, "/7")[0] == 404


def test_where_models_are_fixed_accelerators_are_too(folder):
    with Server("--repository", folder, "--slo-ms", "60000", "--accelerators", "cpu:1") as fixed:
        status, answer = ask(fixed, "/0", "drain")
        assert status == 501
        assert "--accelerator-control or --model-control-mode explicit" in answer["error"]
        assert states(fixed) == ["serving"]
        assert fixed.stop() == 0


def test_emulated_accelerators_are_drained_too(tmp_path):
    scenario = tmp_path / "three.yaml"
    scenario.write_text("cluster: {accelerators: 3, type: x}\nmodels: [{name: m, alpha_ms: 1, beta_ms: 1, slo_ms: 60000}]\n")
    with Server("--scenario", scenario, "--accelerator-control") as server:
        assert ask(server, "/1", "drain")[0] == 200
        wait_until(lambda: states(server) == ["serving", "gone", "serving"])
        assert ask(server, "/1", "join")[0] == 200
        wait_until(lambda: states(server) == ["serving"] * 3)
        assert server.stop() == 0


def test_who_has_no_token_drains_nothing(folder, tmp_path):
    (tmp_path / "tokens").write_text("a-token\n")
    with Server("--repository", folder, "--slo-ms", "60000", "--accelerators", "cpu:1", "--model-control-mode", "explicit",
                "--auth-token-file", tmp_path / "tokens") as guarded:
        order = json.dumps({"action": "drain"})
        path = "/v2/symphony/accelerators/0"
        assert guarded.request("POST", path, order)[0] == 401
        assert guarded.request("POST", path, order, {"Authorization": "Bearer a-token"})[0] == 200
        assert guarded.stop() == 0
