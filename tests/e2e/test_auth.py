"""test_auth.py - tokens: what needs one, over both protocols and on the metrics port."""
# sanitizers: address thread
import json
import signal
import subprocess

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.grpc import service_pb2, service_pb2_grpc

from server import BINARY, Server, http_request, wait_until

ONE = b'{"inputs":[{"name":"INPUT","shape":[1,1],"datatype":"FP32","data":[0]}]}'
INFER = "/v2/models/m/infer"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("auth")
    (folder / "quick.yaml").write_text("cluster: {accelerators: 1, type: test}\n"
                                       "models:\n  - {name: m, alpha_ms: 0.01, beta_ms: 0.1, slo_ms: 60000}\n"
                                       "workload: {rate_rps: 10}\n")
    (folder / "tokens").write_text("# two of them\nalpha-token\nbeta-token\n")
    return folder


@pytest.fixture(scope="module")
def server(folder):
    with Server("--scenario", folder / "quick.yaml", "--auth-token-file", folder / "tokens") as running:
        yield running


@pytest.fixture(scope="module")
def strict(folder):
    with Server("--scenario", folder / "quick.yaml", "--auth-token-file", folder / "tokens", "--auth-health",
                "--auth-metrics") as running:
        yield running


def status_of(server, headers, method="POST", path=INFER, body=ONE):
    return server.request(method, path, body, headers)[0]


def grpc_code(server, method, request, metadata=()):
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        try:
            getattr(service_pb2_grpc.GRPCInferenceServiceStub(channel), method)(request, metadata=metadata, timeout=600)
            return grpc.StatusCode.OK
        except grpc.RpcError as error:
            return error.code()


def infer_request():
    given = service_pb2.ModelInferRequest.InferInputTensor(name="INPUT", datatype="FP32", shape=(1, 1))
    return service_pb2.ModelInferRequest(model_name="m", inputs=[given], raw_input_contents=[bytes(4)])


GOOD = [{"Authorization": "Bearer alpha-token"}, {"authorization": "bearer  beta-token"}, {"X-Api-Key": "beta-token"},
        {"Authorization": "Basic abc", "X-Api-Key": "alpha-token"}]
BAD = [{}, {"Authorization": "Bearer gamma"}, {"Authorization": "alpha-token"}, {"Authorization": "Basic alpha-token"},
       {"Authorization": "Bearer alpha-token2"}, {"X-Api-Key": ""}, {"X-Api-Key": "# two of them"}]


def test_http(server):
    for headers in GOOD:
        assert status_of(server, headers) == 200
    for headers in BAD:
        status, given, body = server.request("POST", INFER, ONE, headers)
        assert status == 401 and given["WWW-Authenticate"] == "Bearer" and b"a token is needed" in body


def test_http_paths(server):
    """Nothing but health without a token, not even whether a path exists."""
    for path in ("/v2", "/v2/models/m", "/v2/models/m/ready", "/v2/models/none", "/nothing", "/v2/models/stats"):
        assert status_of(server, {}, "GET", path, None) == 401
    for path in ("/v2/repository/index", "/v2/systemsharedmemory/region/r/register", "/v2/logging"):
        assert status_of(server, {}, "POST", path, b"{}") == 401
    for path in ("/v2/health/live", "/v2/health/ready"):
        assert status_of(server, {}, "GET", path, None) == 200
    assert status_of(server, GOOD[0], "GET", "/v2/models/m", None) == 200
    assert server.metrics()["symphony_http_connections"] >= 0  # a port of its own


def test_http_connection_stays(server):
    """A short body is read, so that the client may go on; a long one is not."""
    connection = server.connect()
    for headers, status in (({}, 401), (GOOD[0], 200), ({}, 401)):
        connection.request("POST", INFER, ONE, headers)
        answer = connection.getresponse()
        answer.read()
        assert answer.status == status
    connection.close()
    connection = server.connect()
    connection.putrequest("POST", INFER)
    connection.putheader("Content-Length", str(32 << 20))
    connection.endheaders()
    answer = connection.getresponse()
    assert answer.status == 401 and answer.getheader("Connection") == "close"
    connection.close()


def test_grpc(server):
    for headers in GOOD:
        metadata = [(name.lower(), value) for name, value in headers.items()]
        assert grpc_code(server, "ModelInfer", infer_request(), metadata) == grpc.StatusCode.OK
    for headers in BAD:
        metadata = [(name.lower(), value) for name, value in headers.items()]
        assert grpc_code(server, "ModelInfer", infer_request(), metadata) == grpc.StatusCode.UNAUTHENTICATED
    assert grpc_code(server, "ServerMetadata", service_pb2.ServerMetadataRequest()) == grpc.StatusCode.UNAUTHENTICATED
    assert grpc_code(server, "ServerLive", service_pb2.ServerLiveRequest()) == grpc.StatusCode.OK
    assert grpc_code(server, "ServerReady", service_pb2.ServerReadyRequest()) == grpc.StatusCode.OK
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        assert channel.unary_unary("/grpc.health.v1.Health/Check")(b"") == b"\x08\x01"
        with pytest.raises(grpc.RpcError) as failed:
            channel.unary_unary("/no.such.Service/Method")(b"")
        assert failed.value.code() == grpc.StatusCode.UNAUTHENTICATED


def test_grpc_stream(server):
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        with pytest.raises(grpc.RpcError) as failed:
            list(stub.ModelStreamInfer(iter([infer_request()] * 3), timeout=600))
        assert failed.value.code() == grpc.StatusCode.UNAUTHENTICATED
        answers = list(stub.ModelStreamInfer(iter([infer_request()] * 3), metadata=[("x-api-key", "beta-token")]))
        assert len(answers) == 3 and not any(answer.error_message for answer in answers)


def test_triton_client(server):
    with triton.InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as client:
        assert client.is_server_ready()
        given = triton.InferInput("INPUT", [1, 1], "FP32")
        given.set_data_from_numpy(np.zeros((1, 1), np.float32))
        client.infer("m", [given], headers={"authorization": "Bearer alpha-token"})
        with pytest.raises(triton.InferenceServerException):
            client.infer("m", [given])


def test_strict(strict):
    assert status_of(strict, {}, "GET", "/v2/health/live", None) == 401
    assert status_of(strict, GOOD[0], "GET", "/v2/health/ready", None) == 200
    assert grpc_code(strict, "ServerLive", service_pb2.ServerLiveRequest()) == grpc.StatusCode.UNAUTHENTICATED
    for path, headers, status in (("/metrics", {}, 401), ("/metrics", {"X-Api-Key": "alpha-token"}, 200), ("/v2/health/live", {}, 404)):
        answer, _, text = http_request(strict.metrics_port, "GET", path, headers=headers)
        assert answer == status and (status == 200) == (b"symphony_" in text)


def test_bench(strict, folder):
    def bench(*options):
        return subprocess.run([BINARY, "bench", f"http://127.0.0.1:{strict.port}", "--rate", "100", "--seconds", "0.5", "--warmup", "0",
                               "--grace", "300", "--json", "--metrics", f"http://127.0.0.1:{strict.metrics_port}/metrics", *options],
                              capture_output=True, text=True, timeout=600)
    for options in (["--token", "beta-token"], ["--token", f"@{folder}/tokens"], ["--header", "x-api-key: alpha-token"]):
        run = bench(*options)
        assert run.returncode == 0, run.stderr
        result = json.loads(run.stdout)
        assert result["requests"] > 0 and result["error_rate"] == 0 and result["batch_mean"] >= 1
    for options in ([], ["--token", "gamma"]):
        run = bench(*options)
        assert run.returncode == 2 and "401" in run.stderr and "--token" in run.stderr
    for options, named in ((["--token", f"@{folder}/none"], "none"), (["--token", "@/dev/null"], "holds no token"),
                           (["--token", "two\nlines"], "printable"), (["--header", "no colon"], "NAME: VALUE")):
        run = bench(*options)
        assert run.returncode == 2 and named in run.stderr, run.stderr


def test_reload(folder):
    tokens = folder / "changing"
    tokens.write_text("old\n")
    with Server("--scenario", folder / "quick.yaml", "--auth-token-file", tokens) as running:
        assert status_of(running, {"X-Api-Key": "old"}) == 200
        tokens.write_text("new\n")
        running.process.send_signal(signal.SIGHUP)
        wait_until(lambda: status_of(running, {"X-Api-Key": "new"}) == 200)
        assert status_of(running, {"X-Api-Key": "old"}) == 401
        tokens.write_text("newer\n")
        wait_until(lambda: status_of(running, {"X-Api-Key": "newer"}) == 200)  # without a signal, too
        tokens.write_text("")
        running.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "tokens stay as they were" in running.log_text())
        assert status_of(running, {"X-Api-Key": "newer"}) == 200
        assert running.stop() == 0


def test_mistakes(folder):
    for arguments, named in ((["--auth-token-file", folder / "none"], "none"), (["--auth-health"], "--auth-token-file")):
        run = subprocess.run([BINARY, "serve", "--scenario", folder / "quick.yaml", *arguments], capture_output=True,
                             text=True, timeout=600)
        assert run.returncode == 2 and named in run.stderr
