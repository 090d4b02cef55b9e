"""test_http.py - the HTTP frontend from outside: the protocol's paths, every data type, every mistake a client can make,
clients that are slow, cut off or gone, and the server's end.
"""
# sanitizers: address thread
# quick sanitizers: address thread

import concurrent.futures
import contextlib
import fcntl
import gzip
import http.client
import json
import os
import multiprocessing.shared_memory
import signal
import socket
import subprocess
import time
import zlib

import numpy as np
import pytest

from repository import STUCK_RUN_S, TYPES, repository, scenario_of, server, slow_scenario, stuck  # noqa: F401 (fixtures)
from server import BINARY, Server, free_port, http_request, wait_until


@pytest.fixture(scope="module")
def slow(slow_scenario):
    with Server("--scenario", str(slow_scenario), "--inputs-max-mib", "8", "--head-timeout", "600") as running:
        yield running


@contextlib.contextmanager
def connect(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=600)
    try:
        yield connection
    finally:
        connection.close()


def ask(connection, method, path, body=None, headers={}):
    """Status, headers, body."""
    connection.request(method, path, body, headers)
    response = connection.getresponse()
    return response.status, response.headers, response.read()


def request_json(server, method, path, body=None, headers={}):
    with connect(server) as connection:
        status, _, answer = ask(connection, method, path, body, headers)
        return status, json.loads(answer) if answer else None


def tensor(name, datatype, shape, data):
    return {"name": name, "datatype": datatype, "shape": shape, "data": data}


X = tensor("x", "FP32", [1, 4], [1, 2, 3, 4])
SLOW_INPUT = {"inputs": [tensor("INPUT", "FP32", [1, 1], [0])]}


def metric(server, name, **labels):
    """The sum of a metric's rows that carry the labels."""
    status, _, text = http_request(server.metrics_port, "GET", "/metrics")
    assert status == 200
    rows = [row for row in text.decode().splitlines() if row.startswith((name + "{", name + " "))]
    rows = [row for row in rows if all(f'{k}="{v}"' in row for k, v in labels.items())]
    return sum(float(row.rsplit(" ", 1)[1]) for row in rows)


# ---- paths ----

def test_server_and_health(server):
    assert request_json(server, "GET", "/v2")[1]["name"] == "symphony"
    assert request_json(server, "GET", "/v2/health/live") == (200, {"live": True})
    assert request_json(server, "GET", "/v2/health/ready") == (200, {"ready": True})
    for path in ("/v2/models/double/ready", "/v2/models/double/versions/1/ready"):
        assert request_json(server, "GET", path) == (200, {"name": "double", "ready": True})


def test_metadata_and_configuration(server):
    status, model = request_json(server, "GET", "/v2/models/double")
    assert status == 200 and model["name"] == "double" and model["versions"] == ["1"]
    assert model["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]
    assert model["outputs"] == [{"name": "y", "datatype": "FP32", "shape": [-1, 4]}]
    assert model["parameters"]["slo_ms"] == 60000 and model["parameters"]["max_batch_size"] > 1
    status, config = request_json(server, "GET", "/v2/models/double/config")
    assert status == 200 and config["name"] == "double" and config["backend"] == "onnxruntime"
    assert [(i["name"], i["data_type"], i["dims"]) for i in config["input"]] == [("x", "TYPE_FP32", [4])]
    assert config["max_batch_size"] == model["parameters"]["max_batch_size"]
    status, single = request_json(server, "GET", "/v2/models/single/config")
    assert single["max_batch_size"] == 0 and single["input"][0]["dims"] == [2, 2]


def test_repository_index(server):
    status, index = request_json(server, "POST", "/v2/repository/index")
    states = {entry["name"]: entry for entry in index}
    assert status == 200 and states["double"]["state"] == "READY" and states["double"]["version"] == "1"
    assert states["broken"]["state"] == "UNAVAILABLE" and states["broken"]["reason"]
    status, ready = request_json(server, "POST", "/v2/repository/index", '{"ready":true}')
    assert status == 200 and "broken" not in [entry["name"] for entry in ready]
    assert request_json(server, "POST", "/v2/repository/index", '{"ready":1}')[0] == 400
    assert request_json(server, "POST", "/v2/repository/index", "{")[0] == 400


def test_shared_memory(server):
    memory = multiprocessing.shared_memory.SharedMemory(create=True, size=64)
    try:
        numbers = np.ndarray(16, np.float32, memory.buf)
        numbers[:4] = [1, 2, 3, 4]
        path, body = "/v2/systemsharedmemory/region/r/", {"key": "/" + memory.name, "offset": 0, "byte_size": 64}
        assert request_json(server, "POST", path + "register", json.dumps(body)) == (200, None)
        assert request_json(server, "POST", path + "register", json.dumps(body))[0] == 409
        assert request_json(server, "GET", path + "status") == (200, [{"name": "r", **body}])
        place = {"shared_memory_region": "r", "shared_memory_byte_size": 16}
        given = {"name": "x", "datatype": "FP32", "shape": [1, 4], "parameters": place}
        wanted = {"name": "y", "parameters": {**place, "shared_memory_offset": 32}}
        infer = {"inputs": [given], "outputs": [wanted]}
        status, answer = request_json(server, "POST", "/v2/models/double/infer", json.dumps(infer))
        assert status == 200 and answer["outputs"] == [{"name": "y", "datatype": "FP32", "shape": [1, 4]}]
        assert numbers[8:12].tolist() == [2, 4, 6, 8]
        for spoilt in ({**place, "shared_memory_offset": 60}, {**place, "shared_memory_byte_size": 12},
                       {**place, "shared_memory_offset": -1}, {**place, "binary_data_size": 16}):
            infer["inputs"] = [{**given, "parameters": spoilt}]
            assert request_json(server, "POST", "/v2/models/double/infer", json.dumps(infer))[0] == 400
        assert request_json(server, "POST", "/v2/systemsharedmemory/unregister") == (200, None)
        assert request_json(server, "GET", "/v2/systemsharedmemory/status") == (200, [])
        infer["inputs"] = [given]
        assert request_json(server, "POST", "/v2/models/double/infer", json.dumps(infer))[0] == 404
        for wrong in ({}, {"key": 1, "byte_size": 1}, {"key": "/x", "byte_size": -1}, {"key": "/symphony-none", "byte_size": 1}):
            assert request_json(server, "POST", path + "register", json.dumps(wrong))[0] == 400
    finally:
        numbers = None
        memory.close()
        memory.unlink()


def test_statistics_say_what_a_model_takes(server, repository):
    """As its profile does; `wide` has inputs of 600 KB an item."""
    profile = json.loads(next((repository / "wide" / "1" / ".symphony").glob("*.profile.json")).read_text())
    status, answer = request_json(server, "GET", "/v2/models/wide/stats")
    usage, = answer["model_stats"][0]["memory_usage"]
    assert usage["type"] == "CPU" and usage["id"] == 0 and profile["batch_bytes"] > 0
    assert usage["byte_size"] >= profile["weights_bytes"] + profile["batch_bytes"]


def test_statistics(server):
    def stats():
        status, answer = request_json(server, "GET", "/v2/models/double/stats")
        assert status == 200 and len(answer["model_stats"]) == 1
        return answer["model_stats"][0]
    server.rests()
    before = stats()
    assert request_json(server, "POST", "/v2/models/double/infer", json.dumps({"inputs": [X]}))[0] == 200
    wait_until(lambda: stats()["inference_stats"]["success"]["count"] == before["inference_stats"]["success"]["count"] + 1)
    server.rests()
    assert stats()["inference_stats"]["queue"]["count"] == before["inference_stats"]["queue"]["count"] + 1
    status, answer = request_json(server, "GET", "/v2/models/stats")
    assert status == 200 and {"double", "broken"} <= {m["name"] for m in answer["model_stats"]}


def test_settings(server):
    assert request_json(server, "GET", "/v2/trace/setting") == (200, {
        "trace_level": ["OFF"], "trace_rate": "1000", "trace_count": "-1", "log_frequency": "0", "trace_file": "",
        "trace_mode": "triton"})
    status, logging = request_json(server, "POST", "/v2/logging", '{"log_info":true}')
    assert status == 200 and logging["log_info"] and logging["log_format"] == "default"
    assert request_json(server, "POST", "/v2/repository/models/double/unload")[0] == 503


@pytest.mark.parametrize("method, path, status, allow", [
    ("POST", "/", 404, None), ("GET", "/v2/nothing", 404, None), ("POST", "/v2/models", 405, "GET, HEAD"),
    ("GET", "/v2/models/none", 404, None), ("GET", "/v2/models/none/ready", 404, None),
    ("GET", "/v2/models/double/versions/9", 404, None), ("GET", "/v2/models/double/versions/abc", 404, None),
    ("GET", "/v2/models/double/versions/99999999999999999999", 404, None),
    ("GET", "/v2/models/double/infer/more", 404, None), ("POST", "/v2", 405, "GET, HEAD"),
    ("GET", "/v2/models/double/infer", 405, "POST"), ("DELETE", "/v2/models/double/infer", 405, "POST"),
    ("GET", "/v2/repository/index", 405, "POST"), ("POST", "/v2/models/none/infer", 404, None),
    ("POST", "/v2/models/double/versions/9/infer", 404, None), ("POST", "/v2/models/broken/infer", 503, None),
    ("GET", "/v2/models/broken/ready", 400, None), ("GET", "/v2/models/broken", 503, None)])
def test_paths_and_verbs(server, method, path, status, allow):
    with connect(server) as connection:
        got, headers, body = ask(connection, method, path, b"{}" if method == "POST" else None)
        assert got == status and json.loads(body)["error"] and headers["Allow"] == allow
        assert ask(connection, "GET", "/v2/health/live")[0] == 200  # the connection lives on


def test_head_has_no_body(server):
    with connect(server) as connection:
        status, headers, body = ask(connection, "HEAD", "/v2/models/double")
        assert status == 200 and int(headers["Content-Length"]) > 0 and body == b""
        assert ask(connection, "GET", "/v2")[0] == 200


# ---- tensors ----

def echo_inputs(shape=(1, 2)):
    arrays = {}
    for name, (_, dtype, values) in TYPES.items():
        arrays[name] = np.resize(np.array(values, dtype=dtype), shape)
    return arrays


def test_json_carries_every_datatype(server):
    arrays = echo_inputs((2, 2))
    body = {"id": "é\"\\\n", "inputs": [tensor(f"in_{t}", t, [2, 2], a.tolist()) for t, a in arrays.items()]}
    status, answer = request_json(server, "POST", "/v2/models/echo/infer", json.dumps(body))
    assert status == 200, answer
    assert answer["id"] == body["id"] and answer["model_name"] == "echo" and answer["model_version"] == "1"
    for output, (name, array) in zip(answer["outputs"], arrays.items(), strict=True):
        assert output["name"] == f"out_{name}" and output["datatype"] == name and output["shape"] == [2, 2]
        np.testing.assert_array_equal(np.array(output["data"], array.dtype).reshape(2, 2), array)


def binary_body(inputs, **more):
    """Body and headers of a request with binary inputs [(name, datatype, array)]."""
    described = [{"name": n, "datatype": t, "shape": list(a.shape), "parameters": {"binary_data_size": a.nbytes}}
                 for n, t, a in inputs]
    head = json.dumps({"inputs": described} | more).encode()
    return (head + b"".join(a.tobytes() for _, _, a in inputs), {"Inference-Header-Content-Length": str(len(head))})


def binary_answer(headers, body):
    """The answer's JSON, and its binary outputs as {name: bytes}."""
    length = int(headers["Inference-Header-Content-Length"])
    answer, rest, arrays = json.loads(body[:length]), body[length:], {}
    for output in answer["outputs"]:
        if "parameters" in output:
            size = output["parameters"]["binary_data_size"]
            arrays[output["name"]], rest = rest[:size], rest[size:]
    assert rest == b""
    return answer, arrays


def test_binary_carries_every_datatype(server):
    arrays = echo_inputs((3, 2))
    body, headers = binary_body([(f"in_{t}", t, a) for t, a in arrays.items()], parameters={"binary_data_output": True})
    with connect(server) as connection:
        status, headers, answer = ask(connection, "POST", "/v2/models/echo/infer", body, headers)
    assert status == 200, answer
    assert headers["Content-Type"] == "application/octet-stream"
    _, got = binary_answer(headers, answer)
    for name, array in arrays.items():
        assert got[f"out_{name}"] == array.tobytes(), name


def test_outputs_are_chosen(server):
    arrays = echo_inputs()
    body, headers = binary_body(
        [(f"in_{t}", t, a) for t, a in arrays.items()],
        outputs=[{"name": "out_INT8"}, {"name": "out_FP64", "parameters": {"binary_data": True}}])
    with connect(server) as connection:
        _, headers, answer = ask(connection, "POST", "/v2/models/echo/infer", body, headers)
    answer, got = binary_answer(headers, answer)
    assert [o["name"] for o in answer["outputs"]] == ["out_INT8", "out_FP64"]
    assert answer["outputs"][0]["data"] == [-128, 127] and got["out_FP64"] == arrays["FP64"].tobytes()


def test_large_tensors(server):
    array = np.random.default_rng(1).normal(size=(1, 150528)).astype(np.float32)
    body, headers = binary_body([("x", "FP32", array)], parameters={"binary_data_output": True})
    with connect(server) as connection:
        for _ in range(20):
            status, got_headers, answer = ask(connection, "POST", "/v2/models/wide/infer", body, headers)
            assert status == 200 and binary_answer(got_headers, answer)[1]["y"] == (-array).tobytes()
        status, _, answer = ask(connection, "POST", "/v2/models/wide/infer",
                                json.dumps({"inputs": [tensor("x", "FP32", [1, 150528], array[0].tolist())]}))
    assert status == 200
    np.testing.assert_array_equal(np.array(json.loads(answer)["outputs"][0]["data"], np.float32), -array[0])


def test_raw_body(server):
    array = np.arange(4, dtype=np.float32)
    with connect(server) as connection:
        for path, shape in (("double", [1, 4]), ("single", [2, 2])):
            status, headers, answer = ask(connection, "POST", f"/v2/models/{path}/infer", array.tobytes(),
                                          {"Inference-Header-Content-Length": "0"})
            assert status == 200, answer
            answer, got = binary_answer(headers, answer)
            assert answer["outputs"][0]["shape"] == shape
            assert got["y"] == (array * 2 if path == "double" else -array).tobytes()


def test_nan_and_infinities(server):
    """As words in JSON, as Triton takes and writes them."""
    with connect(server) as connection:
        status, _, answer = ask(connection, "POST", "/v2/models/root/infer",
                                json.dumps({"inputs": [tensor("x", "FP32", [1, 1], [-1])]}))
        assert status == 200 and b'"data":[NaN]' in answer
        status, _, answer = ask(connection, "POST", "/v2/models/double/infer", json.dumps(
            {"ignored": [float("nan")], "inputs": [X | {"data": [float("nan"), float("inf"), -float("inf"), 1]}]}))
        assert status == 200 and b'"data":[NaN,Infinity,-Infinity,2.0]' in answer
        status, headers, answer = ask(connection, "POST", "/v2/models/root/infer", json.dumps(
            {"inputs": [tensor("x", "FP32", [1, 1], [-1])], "parameters": {"binary_data_output": True}}))
        assert status == 200 and np.isnan(np.frombuffer(binary_answer(headers, answer)[1]["y"], np.float32))


def test_engine_failure_is_500(server):
    pick = lambda i: request_json(server, "POST", "/v2/models/pick/infer",
                                  json.dumps({"inputs": [tensor("i", "INT64", [1, 1], [i])]}))
    status, answer = pick(99)
    assert status == 500 and "pick" in answer["error"]
    status, answer = pick(2)
    assert status == 200 and answer["outputs"][0]["data"] == [3]


# ---- mistakes ----

MISTAKES = [  # body, a piece of the sentence
    ("", "no body"), ("{", "byte 1"), ("[]", "object"), ("{}", "inputs"), ('{"inputs":"x"}', "array"),
    ('{"inputs":[]}', "missing"), ("[" * 200000, "byte"), ('{"a":' + "[" * 200000, "nesting"),
    ('{"a":' * 50000, "nesting"), ("\0\0\0", "object"), (b"\xff\xfe", "object"),
    ({"inputs": [X, X]}, "twice"), ({"inputs": [X | {"name": "q"}]}, "unexpected inference input 'q'"),
    ({"inputs": [{k: v for k, v in X.items() if k != "name"}]}, "name"),
    ({"inputs": [{k: v for k, v in X.items() if k != "shape"}]}, "shape"),
    ({"inputs": [{k: v for k, v in X.items() if k != "datatype"}]}, "datatype"),
    ({"inputs": [{k: v for k, v in X.items() if k != "data"}]}, "data"),
    ({"inputs": [X | {"name": 1}]}, "string"), ({"inputs": [X | {"shape": 4}]}, "array"),
    ({"inputs": [X | {"datatype": "INT32"}]}, "INT32"), ({"inputs": [X | {"datatype": "FP99"}]}, "FP99"),
    ({"inputs": [X | {"shape": [1, 5], "data": [1] * 5}]}, "[-1,4]"), ({"inputs": [X | {"shape": [4]}]}, "[4]"),
    ({"inputs": [X | {"shape": [-1, 4]}]}, "negative"), ({"inputs": [X | {"shape": [0, 4], "data": []}]}, "[0,4]"),
    ({"inputs": [X | {"shape": [1.5, 4]}]}, "whole number"),
    ({"inputs": [X | {"shape": [2**40, 4]}]}, "batch"), ({"inputs": [X | {"shape": [2**62, 4]}]}, "shape"),
    ({"inputs": [X | {"data": [1, 2, 3]}]}, "expected 4 values, found 3"),
    ({"inputs": [X | {"data": [1, 2, 3, 4, 5]}]}, "more values"),
    ({"inputs": [X | {"data": [[1, 2], [3, 4]]}]}, "values"), ({"inputs": [X | {"data": ["a"] * 4}]}, "number"),
    ({"inputs": [X | {"data": [None] * 4}]}, "number"), ({"inputs": [X | {"data": [1, 2, 3, 1e39]}]}, "FP32"),
    ({"inputs": [X | {"parameters": {"binary_data_size": 16}}]}, "more than one of"),
    ({"inputs": [X], "outputs": [{"name": "q"}]}, "unexpected inference output 'q'"),
    ({"inputs": [X], "outputs": [{"name": "y", "parameters": {"classification": -1}}]}, "negative"),
    ({"inputs": [X], "outputs": [{"name": "y", "parameters": {"classification": "1"}}]}, "number"),
    ({"inputs": [X], "outputs": [{"name": "y"}, {"name": "y"}]}, "twice"),
    ({"inputs": [X], "parameters": {"timeout": "x"}}, "timeout"), ({"inputs": [X], "parameters": {"timeout": -1}}, "timeout"),
    ({"inputs": [X], "parameters": {"timeout": 0.5}}, "timeout"), ({"inputs": [X], "id": 5}, "string"),
]


def test_mistakes_are_answered_400(server):
    before = metric(server, "symphony_requests_total", model="double", outcome="client_error")
    with connect(server) as connection:  # one connection: a mistake does not end it
        for body, piece in MISTAKES:
            body = json.dumps(body) if isinstance(body, dict) else body
            status, headers, answer = ask(connection, "POST", "/v2/models/double/infer", body)
            assert (status, headers["Content-Type"]) == (400, "application/json"), (body[:200], answer)
            assert piece in json.loads(answer)["error"], (body[:200], answer)
        status, _, answer = ask(connection, "POST", "/v2/models/double/infer", json.dumps({"inputs": [X]}))
        assert status == 200 and json.loads(answer)["outputs"][0]["data"] == [2, 4, 6, 8]
    wait_until(lambda: metric(server, "symphony_requests_total", model="double", outcome="client_error") ==
               before + len(MISTAKES))


def test_mistakes_in_binary_bodies(server):
    good, headers = binary_body([("x", "FP32", np.zeros((1, 4), np.float32))])
    length = int(headers["Inference-Header-Content-Length"])
    with connect(server) as connection:
        for body, json_bytes, piece in [
                (good[:-1], length, "unexpected size for input 'x', expecting 1 additional bytes for model 'double'"),
                (good + b"x", length, "1 bytes more"), (good[:length], length, "expecting 16 additional bytes"),
                (good, length - 1, "JSON"), (good, length + 1, "JSON"), (good, len(good) + 1, "Content-Length is"),
                (good, 2**62, "Content-Length is"), (b"", 0, "expected 16 bytes, got 0"),
                (b"12345678", 0, "expected 16 bytes, got 8")]:
            status, _, answer = ask(connection, "POST", "/v2/models/double/infer", body,
                                    {"Inference-Header-Content-Length": str(json_bytes)})
            assert status == 400 and piece in json.loads(answer)["error"], (body, json_bytes, answer)
    for value in ("-1", "x", "", "1 2"):
        status, answer = request_json(server, "POST", "/v2/models/double/infer", good,
                                      {"Inference-Header-Content-Length": value})
        assert status == 400 and "Inference-Header-Content-Length" in answer["error"]


def test_encodings(server):
    body = json.dumps({"inputs": [X]}).encode()
    with connect(server) as connection:
        def status(sent, encoding, **headers):
            return ask(connection, "POST", "/v2/models/double/infer", sent, {"Content-Encoding": encoding, **headers})[0]
        assert status(body, "identity") == 200 and status(gzip.compress(body), "GZIP") == 200
        assert status(zlib.compress(body), "deflate") == 200
        for wrong in (body, b"", gzip.compress(body)[:-1], gzip.compress(body) + b"x"):
            assert status(wrong, "gzip") == 400
        assert status(zlib.compress(bytes(65 << 20), 1), "deflate") == 413  # 65 MiB
        assert status(body, "br") == 415 and status(body, "gzip, gzip") == 415
        head = json.dumps({"inputs": [{**X, "data": None, "parameters": {"binary_data_size": 16}}]}).replace(
            '"data": null, ', "").encode()
        raw = np.array([1, 2, 3, 4], np.float32).tobytes()
        assert status(gzip.compress(head + raw), "gzip", **{"Inference-Header-Content-Length": str(len(head))}) == 200


def test_compressed_answers(server):
    array = np.zeros((1, 150528), np.float32)
    body, headers = binary_body([("x", "FP32", array)], parameters={"binary_data_output": True})
    with connect(server) as connection:
        for accepted, encoding, unpack in (("gzip", "gzip", gzip.decompress), ("deflate", "deflate", zlib.decompress),
                                           ("br, deflate;q=0.5, gzip;q=0.1", "deflate", zlib.decompress),
                                           ("identity, gzip;q=0.5", None, bytes), ("gzip;q=0", None, bytes),
                                           ("br", None, bytes), ("*", None, bytes)):
            status, got, answer = ask(connection, "POST", "/v2/models/wide/infer", body,
                                      {**headers, "Accept-Encoding": accepted})
            assert (status, got["Content-Encoding"]) == (200, encoding)
            assert encoding is None or len(answer) < 10000
            assert binary_answer(got, unpack(answer))[1]["y"] == (-array).tobytes()
        packed = {"Accept-Encoding": "gzip"}
        as_json = json.dumps({"inputs": [tensor("x", "FP32", [1, 150528], [0] * 150528)]})
        status, got, answer = ask(connection, "POST", "/v2/models/wide/infer", as_json, packed)
        assert json.loads(gzip.decompress(answer))["outputs"][0]["data"] == [0] * 150528
        # what is short, and what is a mistake, is not compressed
        for model, wanted in (("double", 200), ("wide", 400)):
            status, got, answer = ask(connection, "POST", f"/v2/models/{model}/infer", json.dumps({"inputs": [X]}), packed)
            assert status == wanted and got["Content-Encoding"] is None and json.loads(answer)


def test_items_over_the_batch_are_refused(server):
    most = request_json(server, "GET", "/v2/models/double")[1]["parameters"]["max_batch_size"]
    for items, status in ((most, 200), (most + 1, 400)):
        body, headers = binary_body([("x", "FP32", np.zeros((items, 4), np.float32))])
        assert request_json(server, "POST", "/v2/models/double/infer", body, headers)[0] == status


def test_bodies_over_the_limit_are_413(server):
    with connect(server) as connection:
        status, _, answer = ask(connection, "POST", "/v2/models/double/infer", bytes((64 << 20) + 1))
        assert status == 413 and "67108864 bytes: --body-max-mib" in json.loads(answer)["error"]
        assert ask(connection, "GET", "/v2")[0] == 200
        status, _, _ = ask(connection, "POST", "/v2/models/double/infer", (bytes(1 << 20) for _ in range(65)))  # chunked
        assert status == 413


def test_services_take_little(server):
    """What is no inference becomes a tree, while everybody else waits."""
    body = b'{"a":[' + b"[]," * 30000 + b"[]]}"
    for path in ("/v2/repository/index", "/v2/logging", "/v2/trace/setting", "/v2/systemsharedmemory/region/r/register"):
        for sent, headers in ((body, {}), (iter([body]), {}), (gzip.compress(body), {"Content-Encoding": "gzip"})):
            with connect(server) as connection:
                status, _, answer = ask(connection, "POST", path, sent, headers)
                assert status == 413 and "65536" in json.loads(answer)["error"]


# ---- the wire ----

def talk(server, sent, end=False):
    """Sends it, and closes our side if this is the end; then reads until the server closes."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=600) as wire:
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        wire.sendall(sent)
        if end:
            wire.shutdown(socket.SHUT_WR)
        return read_all(wire)


def read_all(wire):
    got = b""
    while True:
        piece = wire.recv(65536)
        got += piece
        if not piece:
            return got


def read_answer(wire):
    """One answer with a Content-Length: status and body."""
    got = b""
    while b"\r\n\r\n" not in got:
        piece = wire.recv(1)
        assert piece, got
        got += piece
    head = got.decode().lower()
    length = int(head.split("content-length:")[1].split("\r\n")[0])
    body = b""
    while len(body) < length:
        piece = wire.recv(length - len(body))
        assert piece
        body += piece
    return int(head.split()[1]), body


INFER = json.dumps({"inputs": [X]}).encode()


def raw_request(body=INFER, path="/v2/models/double/infer", more=b"", length=None):
    return (b"POST %s HTTP/1.1\r\nHost: x\r\n%sContent-Length: %d\r\n\r\n" %
            (path.encode(), more, len(body) if length is None else length)) + body


def test_split_into_bytes(server):
    with socket.create_connection(("127.0.0.1", server.port), timeout=600) as wire:
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in raw_request():
            wire.sendall(bytes([byte]))
        assert read_answer(wire)[0] == 200


def test_slow_body(server):
    with socket.create_connection(("127.0.0.1", server.port), timeout=600) as wire:
        request = raw_request()
        for at in range(0, len(request), 40):
            wire.sendall(request[at:at + 40])
            time.sleep(0.02)
        assert read_answer(wire)[0] == 200


def test_pipelining_keeps_the_order(server):
    with socket.create_connection(("127.0.0.1", server.port), timeout=600) as wire:
        wire.sendall(b"".join(raw_request(json.dumps({"id": str(i), "inputs": [X]}).encode()) for i in range(50)))
        for i in range(50):
            status, body = read_answer(wire)
            assert status == 200 and json.loads(body)["id"] == str(i)


def test_chunked_bodies(server):
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(c), c) for c in (INFER[:10], INFER[10:11], INFER[11:]))
    head = b"POST /v2/models/double/infer HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=600) as wire:
        wire.sendall(head + chunks + b"0\r\n\r\n")
        assert read_answer(wire)[0] == 200


def test_expect_continue(server):
    with socket.create_connection(("127.0.0.1", server.port), timeout=600) as wire:
        wire.sendall(raw_request(b"", more=b"Expect: 100-continue\r\n", length=len(INFER)))
        assert wire.recv(25, socket.MSG_WAITALL) == b"HTTP/1.1 100 Continue\r\n\r\n"
        wire.sendall(INFER)
        assert read_answer(wire)[0] == 200
    refused = talk(server, raw_request(b"", "/v2/models/none/infer", b"Expect: 100-continue\r\n", 10))
    assert refused.startswith(b"HTTP/1.1 404")


@pytest.mark.parametrize("headers", [
    b"Content-Length: 5\r\nContent-Length: 6\r\n", b"Content-Length: 5\r\nContent-Length: 5\r\n",
    b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", b"Transfer-Encoding: gzip, chunked\r\n",
    b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", b"Content-Length : 5\r\n",
    b"Content-Length: 5, 5\r\n", b"Content-Length: -5\r\n", b"Content-Length: +5\r\n", b"Content-Length: 0x5\r\n",
    b"Content-Length: \r\n", b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"])
def test_conflicting_lengths_are_400_and_closed(server, headers):
    for verb in (b"POST /v2/models/double/infer", b"GET /v2"):
        got = talk(server, verb + b" HTTP/1.1\r\nHost: x\r\n" + headers + b"\r\n0\r\n\r\nGET /v2 HTTP/1.1\r\nHost: x\r\n\r\n")
        assert got.startswith(b"HTTP/1.1 400"), got
        assert b"HTTP/1.1 200" not in got  # what follows is not taken for a request


def test_chunks_of_http_1_0_are_400_and_closed(server):
    """That version has no chunks: who passed the request on may have taken them for the request after it."""
    for verb in (b"POST /v2/models/double/infer", b"GET /v2"):
        got = talk(server, verb + b" HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
                   b"GET /v2 HTTP/1.1\r\nHost: x\r\n\r\n")
        assert got.startswith(b"HTTP/1.1 400"), got
        assert b"HTTP/1.1 200" not in got


CHANGING = ("/v2/repository/index", "/v2/repository/models/double/load", "/v2/repository/models/double/unload", "/v2/logging",
            "/v2/trace/setting", "/v2/models/double/trace/setting", "/v2/systemsharedmemory/region/r/register",
            "/v2/systemsharedmemory/unregister", "/v2/symphony/accelerators/0")


@pytest.mark.parametrize("path", CHANGING)
def test_pages_of_other_sites_change_nothing(server, path):
    own = f"127.0.0.1:{server.port}"
    forms = {"Content-Type": "text/plain"}, {"Content-Type": "application/x-www-form-urlencoded"}, {}
    for marks in ({"Origin": "http://elsewhere.example"}, {"Origin": "null"}, {"Origin": f"http://{own}0"},
                  {"Sec-Fetch-Site": "cross-site"}):
        for form in forms:
            status, _, body = server.request("POST", path, "{}", {**marks, **form})
            assert status == 403 and b"another site" in body
    for marks in ({}, {"Origin": f"http://{own}"}, {"Origin": f"http://{own}", "Sec-Fetch-Site": "same-origin"}):
        for form in forms:  # curl -d sends such a type, too
            assert server.request("POST", path, "{}", {**marks, **form})[0] != 403


def test_pages_of_other_sites_may_ask(server):
    """What they ask for they cannot read: no answer allows it, and a question beforehand is refused."""
    foreign = {"Origin": "http://elsewhere.example"}
    status, headers, _ = server.request("POST", "/v2/models/double/infer", INFER, foreign)
    assert status == 200 and not any(name.lower().startswith("access-control") for name in headers)
    status, headers, _ = server.request("OPTIONS", "/v2/repository/models/double/unload", None,
                                        {**foreign, "Access-Control-Request-Method": "POST"})
    assert status == 405 and not any(name.lower().startswith("access-control") for name in headers)
    given = {"name": "x", "datatype": "FP32", "shape": [1, 4],
             "parameters": {"shared_memory_region": "r", "shared_memory_byte_size": 16}}
    assert server.request("POST", "/v2/models/double/infer", json.dumps({"inputs": [given]}), foreign)[0] == 403


@pytest.mark.parametrize("request_text, status", [
    (b"GET /v2 HTTP/1.1\r\n\r\n", b"400"), (b"GET /v2 HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", b"400"),
    (b"GET /v2 HTTP/1.1\r\nHost: x\r\nx: " + b"y" * 40000 + b"\r\n\r\n", b"431"),
    (b"GET /" + b"y" * 40000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", b"414"),
    (b"GET http://x:8000/v2 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", b"200"),
    (b"GET /v2/health/live%00x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", b"404"),
    (b"GET /v2/health/l%69ve?x=%00 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", b"200"),
    (b"POST /v2/repository/index HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Encoding: identity \t\r\n\r\n", b"200"),
    (b"POST /v2/repository/index HTTP/1.1\r\nHost: x\r\nInference-Header-Content-Length: 2 \r\nContent-Length: 2\r\n"
     b"Connection: close\r\n\r\n{}", b"200"),
    (b"GET /v2 HTTP/1.0\r\n\r\n", b"200"),
    (b"GET /v2 HTTP/2.0\r\nHost: x\r\n\r\n", b"505"), (b"GET /v2 HTTP/3.0\r\nHost: x\r\n\r\n", b"505"),
    (b"GET /v2 HTTP/0.9\r\nHost: x\r\n\r\n", b"505")])
def test_unusual_heads(server, request_text, status):
    assert talk(server, request_text).split(b" ")[1] == status


def test_garbage_does_no_harm(server):
    rng = np.random.default_rng(5)
    for _ in range(50):
        with contextlib.suppress(ConnectionError):
            talk(server, rng.bytes(int(rng.integers(1, 3000))), end=True)
    assert request_json(server, "GET", "/v2/health/live")[0] == 200


def test_half_a_request_is_forgotten(server):
    request = raw_request(json.dumps({"inputs": [X], "pad": "x" * 100000}).encode())
    for at in (10, 100, 1000, 60000, len(request) - 1):
        with socket.create_connection(("127.0.0.1", server.port), timeout=600) as wire:
            wire.sendall(request[:at])
    wait_until(lambda: metric(server, "symphony_requests_in_flight") == 0)
    wait_until(lambda: metric(server, "symphony_inputs_bytes") == 0)


@pytest.mark.parametrize("count", [1000, pytest.param(10000, marks=pytest.mark.long)])
def test_many_requests_on_a_connection(server, count):
    before = metric(server, "symphony_requests_total", model="double", outcome="ok")
    with connect(server) as connection:
        for _ in range(count):
            status, _, body = ask(connection, "POST", "/v2/models/double/infer", INFER)
            assert status == 200 and b"[2.0,4.0,6.0,8.0]" in body
    wait_until(lambda: metric(server, "symphony_requests_total", model="double", outcome="ok") == before + count)
    wait_until(lambda: metric(server, "symphony_requests_in_flight") == 0)


def test_many_connections(server):
    def client(n):
        with connect(server) as connection:
            for i in range(50):
                x = float(n * 100 + i)
                body, headers = binary_body([("x", "FP32", np.full((1 + i % 3, 4), x, np.float32))])
                status, _, answer = ask(connection, "POST", "/v2/models/double/infer", body, headers)
                assert status == 200
                assert json.loads(answer)["outputs"][0]["data"] == [2 * x] * (4 * (1 + i % 3))
    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        list(pool.map(client, range(32)))


# ---- deadlines, clients that leave, memory ----

def test_a_deadline_that_cannot_be_met_is_refused(slow):
    status, answer = request_json(slow, "POST", "/v2/models/slow/infer",
                                  json.dumps(SLOW_INPUT | {"parameters": {"timeout": 20000}}))
    assert status == 503 and "deadline of 20 ms" in answer["error"]
    status, _ = request_json(slow, "POST", "/v2/models/slow/infer", json.dumps(SLOW_INPUT))
    assert status == 200


def test_it_is_refused_at_once(stuck):
    """Not when the deadline has come, in ten minutes: the client waits for one."""
    status, answer = request_json(stuck, "POST", "/v2/models/slow/infer",
                                  json.dumps(SLOW_INPUT | {"parameters": {"timeout": STUCK_RUN_S * 10**6}}))
    assert status == 503 and "deadline of 600000 ms" in answer["error"]


def test_a_client_that_leaves_takes_its_request_along(stuck):
    request = raw_request(json.dumps(SLOW_INPUT).encode(), "/v2/models/slow/infer")
    with socket.create_connection(("127.0.0.1", stuck.port)) as first:
        first.sendall(request)
        wait_until(lambda: metric(stuck, "symphony_grants_total") == 1)  # the accelerator is busy with it
        wires = [socket.create_connection(("127.0.0.1", stuck.port)) for _ in range(5)]
        for wire in wires:
            wire.sendall(request)
        wait_until(lambda: metric(stuck, "symphony_queued_requests") == 5)
        for wire in wires:
            wire.close()
        wait_until(lambda: metric(stuck, "symphony_requests_in_flight") == 1)
        wait_until(lambda: metric(stuck, "symphony_requests_total", outcome="cancelled") == 5)
        wait_until(lambda: metric(stuck, "symphony_queued_requests") == 0)
        assert metric(stuck, "symphony_grants_total") == 1  # the five were never run


def test_memory_for_inputs_is_bounded(slow):
    with connect(slow) as connection:
        status, headers, answer = ask(connection, "POST", "/v2/models/slow/infer", bytes(9 << 20))
        assert status == 503 and "memory" in json.loads(answer)["error"] and headers["Retry-After"]
        assert ask(connection, "POST", "/v2/models/slow/infer", json.dumps(SLOW_INPUT))[0] == 200


def test_an_announced_body_takes_no_memory(slow):
    wires = [socket.create_connection(("127.0.0.1", slow.port)) for _ in range(5)]
    for wire in wires:  # 5 x 60 MiB announced of 8 MiB allowed, and next to nothing sent
        wire.sendall(raw_request(b"{", "/v2/models/slow/infer", length=60 << 20))
    wait_until(lambda: metric(slow, "symphony_requests_in_flight") == 5)
    assert request_json(slow, "POST", "/v2/models/slow/infer", json.dumps(SLOW_INPUT))[0] == 200
    for wire in wires:
        wire.close()
    wait_until(lambda: metric(slow, "symphony_requests_in_flight") == 0)


def test_announcements_leave_room_for_others(slow):
    """40 times a megabyte announced of 8 MiB allowed, and a byte of each sent."""
    wires = [socket.create_connection(("127.0.0.1", slow.port)) for _ in range(40)]
    for wire in wires:
        wire.sendall(raw_request(b"{", "/v2/models/slow/infer", length=1 << 20))
    wait_until(lambda: metric(slow, "symphony_requests_in_flight") == 40)
    body = json.dumps(SLOW_INPUT | {"id": "x" * (2 << 20)})
    assert request_json(slow, "POST", "/v2/models/slow/infer", body)[0] == 200
    for wire in wires:
        wire.close()
    wait_until(lambda: metric(slow, "symphony_requests_in_flight") == 0)


def overtakes(server, request):
    """Whether what comes behind a long request, on another connection, is answered before it."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=600) as wire, connect(server) as other:
        assert ask(other, "GET", "/v2/health/live")[0] == 200
        before = metric(server, "symphony_frontend_wait_seconds_count", protocol="http")
        wire.sendall(request)
        wait_until(lambda: not unread(wire))
        for _ in range(3):
            assert ask(other, "POST", "/v2/models/double/infer", INFER)[0] == 200
        wire.setblocking(False)
        first = True
        with contextlib.suppress(BlockingIOError):
            first = not wire.recv(1, socket.MSG_PEEK)
        wire.settimeout(600)
        status, text = read_answer(wire)
        assert status in (200, 400), text
        assert metric(server, "symphony_frontend_wait_seconds_count", protocol="http") > before
        return first


def test_a_large_body_holds_up_nobody(server):
    """In one of ten tries, since this process may stand still for longer than the server takes for the long one."""
    numbers = b"1.25," * ((1 if os.environ.get("SYMPHONY_SANITIZED") else 5) << 20)
    body = b'{"parameters":{"timeout":600000000},"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32","data":[1,2,3,4]}],"none":[' \
        + numbers + b"1]}"
    packed = gzip.compress(bytes(len(numbers) * 12 // 5), 1)
    for request in (raw_request(body), raw_request(packed, more=b"Content-Encoding: gzip\r\n")):
        assert any(overtakes(server, request) for _ in range(10))


def unread(wire):
    """Bytes that were sent and the server's socket has not taken (SIOCOUTQ)."""
    return int.from_bytes(fcntl.ioctl(wire, 0x5411, bytes(4)), "little")


@pytest.mark.parametrize("requests", [1, 3])
def test_a_client_that_ends_its_sending_side_is_answered(server, requests):
    """As `nc -N` does: nothing tells it from one that has gone, until it takes what is sent."""
    got = talk(server, raw_request() * requests, end=True)
    assert got.count(b"HTTP/1.1 200 ") == requests and got.count(b"[2.0,4.0,6.0,8.0]") == requests


def test_a_client_that_does_not_read_harms_nobody(server):
    array = np.zeros((1, 150528), np.float32)
    body, headers = binary_body([("x", "FP32", array)], parameters={"binary_data_output": True})
    request = raw_request(body, "/v2/models/wide/infer",
                          b"Inference-Header-Content-Length: %s\r\n" % headers["Inference-Header-Content-Length"].encode())
    with socket.socket() as wire:
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        wire.connect(("127.0.0.1", server.port))
        wire.settimeout(4)
        with contextlib.suppress(TimeoutError):  # until its own answers stop it
            for _ in range(100):
                wire.sendall(request)
        assert request_json(server, "POST", "/v2/models/double/infer", INFER)[0] == 200
    wait_until(lambda: metric(server, "symphony_requests_in_flight") == 0)
    assert metric(server, "symphony_margin_seconds", kind="reply") < 3  # it was silent for 4 s


def test_large_bodies_grow(server):
    body = json.dumps({"inputs": [X], "parameters": {"timeout": 600 * 10**6}, "pad": "x" * (20 << 20)}).encode()
    for chunked in (False, True):
        sent = (body[at:at + 1000000] for at in range(0, len(body), 1000000)) if chunked else body
        status, answer = request_json(server, "POST", "/v2/models/double/infer", sent)
        assert status == 200, answer


# ---- the end ----

def test_sigterm_drains(slow_scenario):
    with Server("--scenario", str(slow_scenario)) as server, connect(server) as idle:
        assert ask(idle, "GET", "/v2")[0] == 200  # a connection that stays open and must not hold up the end
        with concurrent.futures.ThreadPoolExecutor() as pool:
            running = [pool.submit(request_json, server, "POST", "/v2/models/slow/infer", json.dumps(SLOW_INPUT))
                       for _ in range(4)]
            wait_until(lambda: metric(server, "symphony_request_bytes_total") == 4 * len(json.dumps(SLOW_INPUT)))
            server.process.send_signal(signal.SIGTERM)
            assert [r.result()[0] for r in running] == [200] * 4
        assert server.process.wait(600) == 0


def test_killed_and_restarted_on_the_same_port(tmp_path, slow_scenario):
    request = raw_request(json.dumps(SLOW_INPUT).encode(), "/v2/models/slow/infer")
    ports = {"http_port": free_port(), "metrics_port": free_port()}
    with Server("--scenario", str(scenario_of(tmp_path, STUCK_RUN_S, 3600)), **ports) as killed:
        wires = [socket.create_connection(("127.0.0.1", killed.port)) for _ in range(20)]
        for wire in wires:
            wire.sendall(request)
        wait_until(lambda: metric(killed, "symphony_requests_in_flight") == 20)
        killed.process.kill()
        killed.process.wait()
        with Server("--scenario", str(slow_scenario), **ports) as again:
            assert request_json(again, "POST", "/v2/models/slow/infer", json.dumps(SLOW_INPUT))[0] == 200
        for wire in wires:
            wire.close()


def test_a_port_in_use_is_said(server, slow_scenario):
    ended = subprocess.run([BINARY, "serve", "--scenario", str(slow_scenario), "--host", "127.0.0.1", "--http-port",
                            str(server.port), "--metrics-port", "0"], capture_output=True, text=True, timeout=600)
    assert ended.returncode == 1 and f"HTTP port {server.port} is in use" in ended.stderr
