"""test_http_client.py - the HTTP frontend seen by the unmodified Triton client, in all that it can ask: blocking, beside
each other, and from asyncio. Strings and classes are in test_tensors.py.
"""
# sanitizers: address thread

import asyncio
import contextlib
import os

import numpy as np
import pytest
import tritonclient.http as triton
import tritonclient.http.aio as triton_aio
from tritonclient.utils import InferenceServerException, shared_memory

from repository import TYPES, repository, server  # noqa: F401 (fixtures)
from server import wait_until


@pytest.fixture(scope="module")
def client(server):
    with triton.InferenceServerClient(f"127.0.0.1:{server.port}", concurrency=8) as connected:
        yield connected


def tensor(name, array, datatype="FP32", **how):
    given = triton.InferInput(name, list(array.shape), datatype)
    given.set_data_from_numpy(array, **how)
    return given


X = np.array([[1, 2, 3, 4]], np.float32)


def fails(status, words, call, *args, **kwargs):
    with pytest.raises(InferenceServerException) as failed:
        call(*args, **kwargs)
    assert failed.value.status() == status and words in failed.value.message()


# ---- beside inference ----

def test_health(client):
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("double")
    assert client.is_model_ready("double", "1") and not client.is_model_ready("double", "9")
    assert not client.is_model_ready("none") and not client.is_model_ready("broken")


def test_metadata_and_configuration(client):
    about = client.get_server_metadata()
    assert about["name"] == "symphony" and {"binary_tensor_data", "classification", "statistics"} <= set(about["extensions"])
    model = client.get_model_metadata("double")
    assert model["versions"] == ["1"] and model["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]
    config = client.get_model_config("double")
    assert config["max_batch_size"] > 1 and config["input"][0]["dims"] == [4]
    fails("404", "Request for unknown model: 'none' is not found", client.get_model_metadata, "none")
    fails("404", "Request for unknown model: 'double' version 7 is not found", client.get_model_config, "double", "7")


def test_repository_index(client):
    states = {entry["name"]: entry for entry in client.get_model_repository_index()}
    assert states["double"]["state"] == "READY" and states["broken"]["state"] == "UNAVAILABLE"


def test_statistics(server, client):
    def of(model):
        return client.get_inference_statistics(model)["model_stats"][0]
    server.rests()
    before = of("double")
    client.infer("double", [tensor("x", np.zeros((3, 4), np.float32))])
    wait_until(lambda: of("double")["inference_count"] == before["inference_count"] + 3)
    server.rests()
    after = of("double")
    stats = after["inference_stats"]
    assert stats["success"]["count"] == before["inference_stats"]["success"]["count"] + 1
    assert stats["success"]["ns"] == sum(stats[part]["ns"] for part in ("queue", "compute_infer", "compute_output"))
    # a batch is counted a moment after it was sent
    wait_until(lambda: sum(b["batch_size"] * b["compute_infer"]["count"] for b in of("double")["batch_stats"]) >= 3)
    everything = client.get_inference_statistics()["model_stats"]
    assert {"double", "echo"} <= {model["name"] for model in everything}
    fails("404", "Request for unknown model: 'none'", client.get_inference_statistics, "none")


def test_settings(client):
    assert client.get_trace_settings()["trace_level"] == ["OFF"]
    assert client.get_trace_settings(model_name="double")["trace_level"] == ["OFF"]
    assert client.get_log_settings()["log_info"] is True
    assert client.update_log_settings({"log_verbose_level": 1})["log_verbose_level"] == 1
    assert client.update_log_settings({"log_verbose_level": 0})["log_verbose_level"] == 0
    fails("501", "log_file", client.update_log_settings, {"log_file": "/x"})
    fails("501", "", client.update_trace_settings, settings={"trace_level": ["TIMESTAMPS"]})


def test_cuda_shared_memory_is_not_supported(client):
    assert client.get_cuda_shared_memory_status() == []
    client.unregister_cuda_shared_memory()
    fails("501", "CUDA", client.register_cuda_shared_memory, "r", b"0" * 64, 0, 64)


# ---- inference ----

def test_infer(client):
    result = client.infer("double", [tensor("x", X)], model_version="1", request_id="seven", timeout=60_000_000,
                          priority=1, parameters={"own": "key"}, headers={"x-own": "header"}, query_params={"own": 1})
    assert np.array_equal(result.as_numpy("y"), 2 * X)
    answer = result.get_response()
    assert (answer["id"], answer["model_name"], answer["model_version"]) == ("seven", "double", "1")


@pytest.mark.parametrize("binary_in", [False, True])
@pytest.mark.parametrize("binary_out", [False, True])
def test_every_type_in_every_form(client, binary_in, binary_out):
    arrays = {name: np.array([values], dtype) for name, (_, dtype, values) in TYPES.items()}
    given = [tensor(f"in_{name}", array, name, binary_data=binary_in or name == "FP16")  # the client has it binary only
             for name, array in arrays.items()]
    wanted = [triton.InferRequestedOutput(f"out_{name}", binary_data=binary_out) for name in arrays]
    result = client.infer("echo", given, outputs=wanted)
    for name, array in arrays.items():
        assert np.array_equal(result.as_numpy(f"out_{name}"), array), name


def test_many_at_once(client):
    pending = [(i, client.async_infer("double", [tensor("x", np.full((1 + i % 3, 4), i, np.float32))])) for i in range(200)]
    for i, answer in pending:
        assert np.all(answer.get_result().as_numpy("y") == 2 * i)


@pytest.mark.parametrize("algorithm", ["gzip", "deflate"])
def test_compressed_both_ways(client, algorithm):
    for array in (X, np.zeros((2, 4), np.float32)):
        result = client.infer("double", [tensor("x", array)], request_compression_algorithm=algorithm,
                              response_compression_algorithm=algorithm)
        assert np.array_equal(result.as_numpy("y"), 2 * array)
    wide = np.tile(np.arange(16, dtype=np.float32), (3, 9408))
    for binary in (True, False):
        wanted = [triton.InferRequestedOutput("y", binary_data=binary)]
        result = client.infer("wide", [tensor("x", wide)], outputs=wanted, request_compression_algorithm=algorithm,
                              response_compression_algorithm=algorithm)
        assert np.array_equal(result.as_numpy("y"), -wide)


def test_mistakes(client):
    fails("404", "Request for unknown model: 'none' is not found", client.infer, "none", [tensor("x", X)])
    fails("503", "Request for unknown model: 'broken' has no available versions: ", client.infer, "broken", [tensor("x", X)])
    fails("400", "unexpected inference input 'zz' for model 'double'", client.infer, "double", [tensor("zz", X)])
    fails("400", "data-type is 'INT32', but model 'double' expects 'FP32'", client.infer, "double", [tensor("x", X.astype(np.int32), "INT32")])
    fails("400", "unexpected inference output 'q' for model 'double'", client.infer, "double", [tensor("x", X)],
          outputs=[triton.InferRequestedOutput("q")])
    fails("503", "within its deadline", client.infer, "double", [tensor("x", X)], timeout=1)
    assert np.array_equal(client.infer("double", [tensor("x", X)]).as_numpy("y"), 2 * X)


# ---- shared memory ----

@contextlib.contextmanager
def region(client, name, size, offset=0):
    """A registered region of so many bytes behind an offset; it is gone at the end."""
    key = f"/symphony-test-{os.getpid()}-{name}"
    handle = shared_memory.create_shared_memory_region(name, key, offset + size)
    client.register_system_shared_memory(name, key, size, offset=offset)
    try:
        yield handle, key
    finally:
        client.unregister_system_shared_memory(name)
        shared_memory.destroy_shared_memory_region(handle)


def test_shared_memory(client):
    array = np.arange(8, dtype=np.float32).reshape(2, 4)
    with region(client, "in", 64) as (sent, _), region(client, "out", 64, offset=32) as (got, key):
        status = {entry["name"]: entry for entry in client.get_system_shared_memory_status()}
        assert set(status) == {"in", "out"} and status["out"]["offset"] == 32 and status["out"]["byte_size"] == 64
        shared_memory.set_shared_memory_region(sent, [np.zeros(8, np.float32), array])
        given, wanted = triton.InferInput("x", [2, 4], "FP32"), triton.InferRequestedOutput("y")
        given.set_shared_memory("in", 32, offset=32)
        wanted.set_shared_memory("out", 32, offset=16)
        result = client.infer("double", [given], outputs=[wanted])
        assert result.get_output("y")["shape"] == [2, 4]
        assert np.array_equal(shared_memory.get_contents_as_numpy(got, np.float32, [2, 4], offset=48), 2 * array)
        fails("409", "in", client.register_system_shared_memory, "in", key, 64)
        given.set_shared_memory("in", 32, offset=33)
        fails("400", "reach beyond", client.infer, "double", [given])
        given.set_shared_memory("nowhere", 32)
        fails("404", "Unable to find shared memory region: 'nowhere'", client.infer, "double", [given])
    assert client.get_system_shared_memory_status() == []


# ---- asyncio ----

def test_asyncio(server):
    async def main():
        async with triton_aio.InferenceServerClient(f"127.0.0.1:{server.port}") as client:
            assert await client.is_server_live() and await client.is_server_ready()
            assert await client.is_model_ready("double")
            assert (await client.get_model_metadata("double"))["name"] == "double"
            assert (await client.get_inference_statistics("double"))["model_stats"][0]["name"] == "double"
            arrays = [np.full((1 + i % 3, 4), i, np.float32) for i in range(100)]
            answers = await asyncio.gather(*(client.infer("double", [tensor("x", array)]) for array in arrays))
            for array, answer in zip(arrays, answers, strict=True):
                assert np.array_equal(answer.as_numpy("y"), 2 * array)
            for algorithm in ("gzip", "deflate"):
                wide = np.zeros((1, 150528), np.float32)
                answer = await client.infer("wide", [tensor("x", wide)], request_compression_algorithm=algorithm,
                                            response_compression_algorithm=algorithm)
                assert np.array_equal(answer.as_numpy("y"), -wide)
            with pytest.raises(InferenceServerException) as failed:
                await client.infer("none", [tensor("x", X)])
            assert "Request for unknown model: 'none' is not found" in failed.value.message()
    asyncio.run(main())
