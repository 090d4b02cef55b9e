"""test_bench.py - `symphony bench` against servers of known behaviour, made here: it must see what they do.

Needs nothing but pytest and the program.
"""
# sanitizers: address
# shards: 4

import asyncio
import contextlib
import json
import os
import signal
import ssl
import struct
import subprocess
import threading
import time
import urllib.request

import pytest

from certificates import Authority
from server import Server as Symphony, free_port

BINARY = os.environ.get("SYMPHONY_BINARY", "build/release/symphony")
METADATA = {"name": "a", "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 4]},
                                    {"name": "ids", "datatype": "INT64", "shape": [-1, -1]}]}


class Server:
    """A v2 server on a thread; subclasses or attributes say how it behaves."""

    models = ("a",)
    slo_ms = 100
    framing = "length"  # length | chunked | split | close
    metrics = ""
    tls = None  # an ssl.SSLContext

    def __init__(self):
        self.requests = []  # (model, headers, body) of each inference
        self.counters = {"connections": 0}
        self.used = {}  # how many inferences each connection that had one has brought
        self.started = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    async def infer(self, model):
        """Status and body of an inference; None closes the connection instead."""
        return 200, {"model_name": model, "outputs": []}

    def other(self, method, path):
        if path == "/v2/repository/index" and method == "POST":
            return 200, [{"name": name, "version": "1", "state": "READY"} for name in self.models]
        if path == "/metrics":
            return 200, self.metrics
        name = path.removeprefix("/v2/models/")
        if method == "GET" and name in self.models:
            more = {"parameters": {"slo_ms": self.slo_ms}} if self.slo_ms else {}
            return 200, METADATA | {"name": name} | more
        return 404, {"error": "not found"}

    async def reply(self, writer, status, answer):
        body = (answer if isinstance(answer, str) else json.dumps(answer)).encode()
        head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n"
        if self.framing == "chunked":
            half = len(body) // 2
            parts = [part for part in (body[:half], body[half:]) if part]
            data = (head + "Transfer-Encoding: chunked\r\n\r\n").encode()
            data += b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
        else:
            close = "Connection: close\r\n" if self.framing == "close" else ""
            data = f"{head}Content-Length: {len(body)}\r\n{close}\r\n".encode() + body
        pieces = [data[i:i + 7] for i in range(0, len(data), 7)] if self.framing == "split" else [data]
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            if len(pieces) > 1:
                await asyncio.sleep(0)

    async def serve(self, reader, writer):
        self.counters["connections"] += 1
        number = self.counters["connections"]
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError), contextlib.closing(writer):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                method, path, _ = head.split("\r\n")[0].split(" ")
                headers = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if line)
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                if path.endswith("/infer"):
                    model = path.split("/")[3]
                    self.requests.append((model, headers, body))
                    self.used[number] = self.used.get(number, 0) + 1
                    answer = await self.infer(model)
                else:
                    answer = self.other(method, path)
                if answer is None:
                    break
                await self.reply(writer, *answer)
                if self.framing == "close":
                    break

    def run(self):
        async def main():
            server = await asyncio.start_server(self.serve, "127.0.0.1", 0, backlog=1024, ssl=self.tls)
            self.port = server.sockets[0].getsockname()[1]
            self.loop, self.stop = asyncio.get_running_loop(), asyncio.Event()
            self.started.set()
            await self.stop.wait()
            server.close()

        asyncio.run(main())

    def __enter__(self):
        self.thread.start()
        assert self.started.wait(600)
        return self

    def __exit__(self, *_):
        with contextlib.suppress(RuntimeError):  # it has ended already
            self.loop.call_soon_threadsafe(self.stop.set)
        self.thread.join(10)


def command(server, *options):
    return [BINARY, "bench", f"127.0.0.1:{server.port}", *options]


def bench(server, *options):
    """Runs to the end; the JSON it prints. Answers are waited for, however long the machine stands still."""
    done = subprocess.run(command(server, "--json", "--warmup", "0.2", "--grace", "300", *map(str, options)), capture_output=True,
                          text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def bench_some(server, *options):
    """The same, for longer if the machine stood still, so that there was no request in the time that is measured."""
    for seconds in (1, 5, 25):
        result = bench(server, *options, "--seconds", seconds)
        if result["requests"] > 0:
            break
    return result


def shares_add_up(result):
    parts = ("late_rate", "refused_rate", "error_rate", "unanswered_rate")
    assert sum(result[part] for part in parts) == pytest.approx(result["bad_rate"], abs=1e-6)


def test_a_healthy_server_is_all_good():
    with Server() as server:
        server.slo_ms = 300000
        result = bench(server, "--rate", "200", "--arrivals", "uniform", "--seconds", "2")
        assert result["offered_rps"] == pytest.approx(200, rel=0.02)
        assert result["error_rate"] == result["refused_rate"] == result["unanswered_rate"] == 0
        assert result["bad_rate"] == 0
        assert result["goodput_rps"] is None
        assert result["models"][0]["name"] == "a"
        assert result["models"][0]["slo_ms"] == 300000
        assert len(server.requests) == pytest.approx(440, abs=12)  # with the warm-up
        shares_add_up(result)


@pytest.mark.parametrize("reuse", ["newest", "oldest", "random"])
def test_reuse_says_which_idle_connection_is_next(reuse):
    options = ["--reuse", reuse] if reuse != "newest" else []  # the default
    for seconds in (0.5, 2, 10):
        with Server() as server:
            result = bench(server, "--closed", "1", "--connections", "8", "--seconds", seconds, *options)
        if len(server.requests) > 100:
            break
    assert result["reuse"] == reuse
    used = sorted(server.used.values())
    if reuse == "newest":
        assert len(used) == 1
    else:
        assert len(used) == 8
        assert (used[-1] - used[0] <= 1) == (reuse == "oldest")


class Tells(Server):
    """Answers after 50 ms, later than its SLO, and says of itself what `latency_s` and `in_time` say."""

    slo_ms = 20
    latency_s = (0.010, 0.0101)  # edges of the bucket that all of its answers fall into
    in_time = 1.0
    counted = 1  # times as many requests as there were
    pages = ("/metrics", "/metrics/fine")

    async def infer(self, model):
        await asyncio.sleep(0.05)
        return await super().infer(model)

    def other(self, method, path):
        count, labels = len(self.requests) * self.counted, 'model="a",version="1"'

        def latency(low, high):
            name = "symphony_request_duration_seconds"
            edges = ((low, 0), (high, count), ("+Inf", count))
            return ("".join(f'{name}_bucket{{{labels},le="{le}"}} {n}\n' for le, n in edges)
                    + f"{name}_sum{{{labels}}} {count * low}\n{name}_count{{{labels}}} {count}\n")

        if path in self.pages and path == "/metrics/fine":
            return 200, latency(*self.latency_s)
        if path in self.pages and path == "/metrics":
            wait = "symphony_frontend_wait_seconds"
            return 200, (f"symphony_requests_in_time_total{{{labels}}} {int(count * self.in_time)}\n"
                         + latency(0.0001, 500)
                         + "".join(f'{wait}_bucket{{protocol="http",le="{le}"}} {count}\n' for le in (0.002, "+Inf")))
        if path == "/v2/models/stats" and path in self.pages:
            return 200, {"model_stats": [{"name": "a", "inference_stats": {"success": {"count": count, "ns": count * 10**7}}}]}
        return super().other(method, path)


def tells(server, *options):
    url = f"http://127.0.0.1:{server.port}/metrics"
    return bench(server, "--rate", "50", "--seconds", "1", "--metrics", url, *options)


def test_what_a_server_counts_in_time_and_the_client_sees_late_is_said():
    with Tells() as server:
        told = tells(server)
        assert told["late_rate"] == 1
        assert told["server"] == told["models"][0]["server"]
        figures = told["server"]
        assert figures["answered"] == figures["client"]["answered"] == len(server.requests)  # the warm-up's, too
        assert 10 < figures["p99_ms"] < 10.1 and figures["client"]["p99_ms"] > 50
        assert figures["same_requests"] and figures["p99_differs"]
        assert figures["in_time_rate"] == figures["unseen_late_rate"] == 1 and figures["client"]["in_time_rate"] == 0
        assert told["server_wait_p99_ms"] == pytest.approx(1.98)
        table = subprocess.run(command(server, "--rate", "50", "--seconds", "1", "--grace", "300", "--metrics",
                                       f"http://127.0.0.1:{server.port}/metrics"), capture_output=True, text=True).stdout
        assert "the 99th percentiles of client and server DIFFER by" in table
        assert "a: 100.00 % of the answers were in time to the server and LATE here" in table
        assert "99 times in 100 what the client sent was read within 1.980 ms of its arrival" in table


def test_a_server_that_says_the_same_does_not_differ():
    with Tells() as server:
        server.latency_s, server.in_time = (0.0001, 500), 0
        figures = tells(server)["server"]
        assert figures["same_requests"] and not figures["p99_differs"] and figures["unseen_late_rate"] == 0


def test_a_server_with_other_clients_is_not_judged():
    with Tells() as server:
        server.counted = 3
        figures = tells(server)["server"]
        assert not figures["same_requests"] and not figures["p99_differs"] and figures["unseen_late_rate"] == 0
        for counted, said in (3, "others use it, too"), (0.5, "its counts began anew"):
            server.counted = counted
            done = subprocess.run(command(server, "--rate", "50", "--seconds", "1", "--grace", "300", "--metrics",
                                          f"http://127.0.0.1:{server.port}/metrics"), capture_output=True, text=True)
            assert said in done.stdout


def test_in_time_is_compared_by_one_slo_only():
    with Tells() as server:
        figures = tells(server, "--slo-ms", "30")["server"]
        assert "in_time_rate" not in figures and figures["p99_differs"]
        assert tells(server, "--slo-ms", "30", "--timeout-from-slo")["server"]["unseen_late_rate"] == 1


def test_servers_that_tell_less():
    with Tells() as server:
        server.pages = ("/metrics",)  # a histogram too coarse to differ
        figures = tells(server)["server"]
        assert figures["unseen_late_rate"] == 1 and not figures["p99_differs"]
        server.pages = ("/v2/models/stats",)
        figures = tells(server)["server"]
        assert figures["mean_ms"] == pytest.approx(10) and figures["client"]["mean_ms"] > 50
        assert "p99_ms" not in figures and "in_time_rate" not in figures
        server.pages = ()
        assert "server" not in tells(server)


def test_symphony_tells(tmp_path):
    scenario = tmp_path / "one.yaml"
    scenario.write_text("cluster: {accelerators: 1, type: x}\nworkload: {rate_rps: 1}\n"
                        "models:\n  - {name: m, alpha_ms: 0.1, beta_ms: 1, slo_ms: 300000}\n")
    with Symphony("--scenario", scenario, "--pin", "none") as server:
        told = bench(server, "--rate", "50", "--seconds", "1", "--metrics", f"http://127.0.0.1:{server.metrics_port}/metrics")
        figures = told["server"]
        assert figures["same_requests"] and figures["unseen_late_rate"] == 0
        # the last request may be counted between a look at those in time and one at all
        assert figures["in_time_rate"] >= 1 - 1 / figures["answered"]
        assert 1 < figures["p50_ms"] <= figures["p99_ms"]
        # Not the client's median: a server's time ends after its send, when the client may have the answer already.
        assert figures["p50_ms"] < figures["client"]["p99_ms"] * 1.1


def test_symphony_tells_no_slo_of_best_effort(tmp_path):
    scenario = tmp_path / "two.yaml"
    scenario.write_text("cluster: {accelerators: 1, type: x}\nworkload: {rate_rps: 1}\nmodels:\n"
                        "  - {name: m, alpha_ms: 0.1, beta_ms: 1, slo_ms: 10000}\n"
                        "  - {name: free, alpha_ms: 0.1, beta_ms: 1, slo_ms: 10000, best_effort: 1}\n")
    with Symphony("--scenario", scenario, "--pin", "none") as server:
        done = subprocess.run(command(server, "--rate", "5", "--models", "free"), capture_output=True, text=True, timeout=600)
        assert done.returncode == 2 and "does not tell the SLO of model 'free'; give --slo-ms" in done.stderr
        assert bench_some(server, "--rate", "20", "--models", "free", "--slo-ms", "10000")["error_rate"] == 0
        assert bench_some(server, "--rate", "20", "--models", "m")["models"][0]["slo_ms"] == 10000
        with urllib.request.urlopen(f"http://127.0.0.1:{server.metrics_port}/metrics") as page:
            text = page.read().decode()
    assert 'symphony_model_slo_seconds{model="m",' in text and 'symphony_model_slo_seconds{model="free",' not in text
    assert 'symphony_model_latency_seconds{model="free",' in text


WORKLOAD = """cluster: {accelerators: 8, type: test}
models:
  - {name: a, alpha_ms: 1, beta_ms: 1, slo_ms: 1000}
  - {name: b, alpha_ms: 1, beta_ms: 2, slo_ms: 500}
workload: {rate_rps: {steps: [[0, 40], [1, 200]]}, popularity: {zipf: 1}, arrivals: {gamma: 0.5}}
run: {seconds: 2, warmup_seconds: 0.5, seed: 3}
"""


@pytest.mark.parametrize("live, simulated", [
    ([], []),
    (["--set", "workload.rate_rps=80", "--seed", "9", "--seconds", "1"],
     ["--set", "workload.rate_rps=80", "--seed", "9", "--set", "run.seconds=1"]),
])
def test_a_scenario_s_workload_is_what_its_simulation_has(tmp_path, live, simulated):
    """As many requests of each model, by every seed, and the scenario's SLOs."""
    file = tmp_path / "workload.yaml"
    file.write_text(WORKLOAD)
    done = subprocess.run([BINARY, "simulate", file, "--json", *simulated], capture_output=True, text=True, timeout=600)
    wanted = {model["name"]: model["offered_rps"] for model in json.loads(done.stdout)["models"]}
    with Symphony("--scenario", file, "--pin", "none") as server:
        found = {model["name"]: model for model in
                 bench(server, "--warmup", "0.5", "--scenario", file, *live)["models"]}
    assert {name: model["offered_rps"] for name, model in found.items()} == pytest.approx(wanted, abs=1e-3)
    assert {name: model["slo_ms"] for name, model in found.items()} == {"a": 1000, "b": 500}


@pytest.mark.parametrize("text, options, words", [
    (WORKLOAD, ["--rate", "5"], "--scenario excludes --rate, --find, --closed and --models"),
    (WORKLOAD.replace("rate_rps: {steps: [[0, 40], [1, 200]]}, ", ""), [], "it has no workload.rate_rps"),
    (WORKLOAD.replace("popularity:", "query_size: 5, popularity:"), [], "workload.query_size is for simulations only"),
    (WORKLOAD.replace("beta_ms: 2,", "beta_ms: 2, priorities: [1, 1],"), [], "priorities are for simulations only"),
    (WORKLOAD.replace("beta_ms: 2,", "beta_ms: 2, best_effort: 0.5,"), [], "best_effort is for simulations only"),
    (WORKLOAD.replace("beta_ms: 2,", "beta_ms: 2, variants: 3, suffix: {alpha_ms: 1, beta_ms: 1},"), [],
     "a model's variants are for simulations only"),
    (WORKLOAD.replace("name: b", "name: nobody"), [], "nobody"),
    (WORKLOAD, ["--set", "workload.rate_rps=fast"], "workload.rate_rps: 'fast' is not a number"),
])
def test_workloads_that_cannot_be_sent(tmp_path, text, options, words):
    file = tmp_path / "workload.yaml"
    file.write_text(text)
    with Server() as server:
        done = subprocess.run(command(server, "--scenario", file, *options), capture_output=True, text=True, timeout=600)
    assert done.returncode == 2 and words in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_a_wrong_reuse_is_bad_usage():
    with Server() as server:
        done = subprocess.run(command(server, "--rate", "1", "--reuse", "best"), capture_output=True, text=True)
        assert done.returncode == 2 and "newest" in done.stderr


class Stalls(Server):
    """Answers at once, but stands still for a second, one second after the first inference."""

    first = None

    async def infer(self, model):
        now = time.monotonic()
        self.first = self.first or now
        if 1.0 <= now - self.first < 2.0:
            await asyncio.sleep(self.first + 2.0 - now)
        return 200, {}


@pytest.mark.parametrize("options", [(), ("--connections", "1", "--connections-max", "1")])
def test_a_stall_is_charged_with_every_request_it_held_up(options):
    """With one connection a closed loop would see one slow answer; here some 90 of 300 are more than 100 ms late."""
    with Stalls() as server:
        result = bench(server, "--rate", "100", "--arrivals", "uniform", "--seconds", "3", *options)
        assert result["late_rate"] > 0.25
        assert 900 < result["latency_ms"]["max"]
        assert result["latency_ms"]["p99"] > 800


class Slow(Server):
    """Takes as long for each request as 20 become due in."""

    async def infer(self, model):
        await asyncio.sleep(0.2)
        return 200, {}


def test_out_of_connections_it_sends_what_can_be_in_time():
    """In order, only the first five or so of some 20 that one connection has time for would be."""
    with Slow() as server:
        result = bench(server, "--rate", "100", "--arrivals", "uniform", "--seconds", "4", "--warmup", "0", "--slo-ms", "1000",
                       "--connections", "1", "--connections-max", "1", "--grace", "0.5")
        answered = len(server.requests)
        assert result["good_rps"] * 4 > 0.6 * (answered - 1) or answered < 10  # the machine stood still


@pytest.mark.parametrize("framing", ["length", "chunked", "split", "close"])
def test_answers_are_understood_however_framed(framing):
    with Server() as server:
        server.framing = framing
        result = bench(server, "--rate", "100", "--seconds", "1", "--slo-ms", "300000")
        assert result["bad_rate"] == 0
        if framing == "close":
            assert server.counters["connections"] > 100


class Mixed(Server):
    """One model of each fate."""

    models = ("good", "slow", "refused", "broken", "dropped", "silent")
    slo_ms = 3000

    async def infer(self, model):
        if model == "slow":
            await asyncio.sleep(3.5)
        if model == "silent":
            await asyncio.sleep(3600)
        return {"refused": (503, {"error": "cannot make its deadline"}), "broken": (500, {"error": "oh no"}),
                "dropped": None}.get(model, (200, {}))


def test_every_fate_is_told_apart():
    with Mixed() as server:
        for _ in range(5):  # if the machine stands still, good ones are late, and slow ones as good as silent
            result = bench(server, "--rate", "120", "--arrivals", "uniform", "--seconds", "1", "--grace", "10")
            models = {model["name"]: model for model in result["models"]}
            if models["good"]["bad_rate"] < 0.2 and all(models[name]["unanswered_rate"] == 0 for name in models if name != "silent"):
                break
        fates = {"slow": "late_rate", "refused": "refused_rate", "broken": "error_rate", "dropped": "error_rate",
                 "silent": "unanswered_rate"}
        for name, fate in fates.items():
            assert models[name][fate] == models[name]["bad_rate"] == 1, name
        assert models["good"]["bad_rate"] < 0.2
        assert "oh no" in models["broken"]["first_error"]
        assert "closed the connection" in models["dropped"]["first_error"]
        assert models["silent"]["latency_ms"]["p99"] > 10000  # what it has waited so far
        assert models["refused"]["latency_ms"]["max"] == 0 and 0 < models["refused"]["refusal_ms"]["p50"] < 3000
        shares_add_up(result)


def test_requests_are_what_was_asked_for():
    with Server() as server:
        bench(server, "--rate", "50", "--seconds", "0.5", "--items", "3", "--shape", "ids:7", "--timeout-from-slo")
        _, headers, body = server.requests[-1]
        length = int(headers["inference-header-content-length"])
        head, tensors = json.loads(body[:length]), body[length:]
        assert head["parameters"] == {"binary_data_output": True, "timeout": 100000}
        x, ids = head["inputs"]
        assert x["shape"] == [3, 4] and x["datatype"] == "FP32" and x["parameters"]["binary_data_size"] == 48
        assert ids["shape"] == [3, 7] and ids["parameters"]["binary_data_size"] == 168
        values = struct.unpack("<12f21q", tensors)
        assert all(0 <= value < 1 for value in values[:12]) and all(0 <= value < 100 for value in values[12:])

        bench(server, "--rate", "50", "--seconds", "0.5", "--json-tensors", "--outputs", "json")
        _, headers, body = server.requests[-1]
        head = json.loads(body)
        assert "inference-header-content-length" not in headers and "parameters" not in head
        assert len(head["inputs"][0]["data"]) == 4 and len(head["inputs"][1]["data"]) == 1


def test_popularity_and_closed_loop():
    with Server() as server:
        server.models = ("a", "b", "c")
        result = bench(server, "--rate", "300", "--seconds", "2", "--popularity", "zipf:1", "--models", "c,a,b")
        rates = {model["name"]: model["offered_rps"] for model in result["models"]}
        assert rates["c"] == pytest.approx(300 * 6 / 11, rel=0.2) and rates["b"] == pytest.approx(300 * 2 / 11, rel=0.3)
        result = bench_some(server, "--closed", "4", "--slo-ms", "60000")
        assert result["good_rps"] > 0 and result["bad_rate"] == 0 and result["closed"] == 4


def test_batch_sizes_come_from_the_metrics():
    class Counts(Server):
        def other(self, method, path):
            n = len(self.requests)
            self.metrics = (f'symphony_batch_size_sum{{model="a"}} {100 + n}\n'
                            f'symphony_batch_size_count{{model="a"}} {50 + n / 4}\n')
            return super().other(method, path)

    with Counts() as server:
        result = bench(server, "--rate", "100", "--seconds", "1", "--metrics", f"127.0.0.1:{server.port}/metrics")
        assert result["batch_mean"] == pytest.approx(4)
        assert result["models"][0]["batch_mean"] == pytest.approx(4)


class Dies(Server):
    """Of its own accord, at its tenth inference: however late others notice, that one and all that follow have no answer."""

    async def infer(self, model):
        if len(self.requests) < 10:
            return await super().infer(model)
        self.stop.set()
        return None


def test_a_server_that_dies_is_an_error_not_a_hang():
    with Dies() as server:
        result = bench(server, "--rate", "50", "--seconds", "2")
    assert result["error_rate"] > 0.3


def test_an_interrupt_ends_the_load_and_reports():
    with Server() as server:
        running = subprocess.Popen(command(server, "--json", "--rate", "50", "--seconds", "600", "--warmup", "0"),
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while len(server.requests) < 20:
            time.sleep(0.05)
        running.send_signal(signal.SIGINT)
        output, errors = running.communicate(timeout=600)
        assert running.returncode == 0, errors
        result = json.loads(output)
        assert result["interrupted"] and result["requests"] >= 20 and result["seconds"] < 60


MISTAKES = [
    (["--rate", "0"], "--rate: 0 is not in"),
    ([], "one of --rate, --find, --closed and --scenario is needed"),
    (["--rate", "1", "--closed", "1"], "exclude each other"),
    (["--rate", "1", "--set", "a=b"], "--set goes with --scenario"),
    (["--rate", "1", "--models", "nope"], "model 'nope': the server answers 404"),
    (["--rate", "1", "--arrivals", "weekly"], "--arrivals: 'weekly' is not"),
    (["--rate", "1", "--shape", "ids:1,2"], "model 'a', input 'ids'"),
    (["--rate", "1", "--shape", "nope:1"], "'nope:1' is about no input"),
    (["--rate", "1", "--input", "x:FP99:1"], "data type 'FP99' is not known"),
    (["--rate", "1", "--plot", "/nonexistent/x.svg"], "--plot"),
]


@pytest.mark.parametrize("options, want", MISTAKES)
def test_mistakes_are_one_line_and_status_2(options, want):
    with Server() as server:
        done = subprocess.run(command(server, *options), capture_output=True, text=True, timeout=600)
        assert done.returncode == 2
        assert want in done.stderr and done.stderr.count("\n") == 1 and done.stdout == ""


@pytest.mark.parametrize("option", ["--closed", "--connections"])
def test_more_connections_than_open_files_are_a_mistake(option):
    with Server() as server:
        rate = [] if option == "--closed" else ["--rate", "5"]
        done = subprocess.run(["prlimit", "--nofile=200:200", *command(server, *rate, option, "500")], capture_output=True,
                              text=True, timeout=600)
        assert done.returncode == 2 and done.stderr.count("\n") == 1
        assert f"{option} 500: the limit of open files (ulimit -n) allows 168 connections" in done.stderr


def test_no_slo_is_a_mistake_of_an_open_loop_only():
    with Server() as server:
        server.slo_ms = None
        done = subprocess.run(command(server, "--rate", "5"), capture_output=True, text=True, timeout=600)
        assert done.returncode == 2 and "give --slo-ms" in done.stderr
        assert bench(server, "--closed", "1", "--seconds", "0.3")["bad_rate"] == 0


def test_no_server_is_status_1():
    server = Server()
    server.port = free_port()
    done = subprocess.run(command(server, "--rate", "5"), capture_output=True, text=True, timeout=600)
    assert done.returncode == 1 and "Connection refused" in done.stderr


class FallsSilent(Server):
    """It tells of its model, and then nothing more, so that TLS is not agreed on."""

    def __init__(self):
        super().__init__()
        self.told, self.ended = False, threading.Event()

    def other(self, method, path):
        self.told |= path == "/v2/models/a"
        return super().other(method, path)

    async def reply(self, writer, status, answer):
        await super().reply(writer, status, answer)
        if self.told:
            self.ended.wait(100)


def test_no_connection_that_is_up_is_status_1(tmp_path):
    server = FallsSilent()
    server.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.tls.load_cert_chain(*Authority(tmp_path).sign("silent"))
    with server:
        done = subprocess.run([BINARY, "bench", f"https://localhost:{server.port}", "--insecure", "--rate", "5", "--connections",
                               "7"], capture_output=True, text=True, timeout=600)
        server.ended.set()
    assert done.returncode == 1
    assert f"cannot open a connection to localhost:{server.port}: none of 7 was up after 5 s" in done.stderr


@pytest.mark.parametrize("framing", ["length", "chunked", "close"])
def test_another_server_that_speaks_tls_and_wants_tokens(tmp_path, framing):
    authority = Authority(tmp_path)
    server = Server()
    server.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.tls.load_cert_chain(*authority.sign("other"))
    server.framing = framing
    with server:
        for seconds in ("0.5", "5", "25"):  # for longer if the machine stood still
            done = subprocess.run([BINARY, "bench", f"https://localhost:{server.port}", "--closed", "4", "--warmup", "0", "--seconds",
                                   seconds, "--json", "--cacert", str(authority.path), "--token", "secret", "--header", "X-More: yes",
                                   "--items", "3000"], capture_output=True, text=True, timeout=600)
            assert done.returncode == 0, done.stderr
            result = json.loads(done.stdout)
            if result["requests"] > 0:
                break
    assert result["requests"] > 0 and result["error_rate"] == 0
    assert all(headers["authorization"] == "bearer secret" and headers["x-more"] == "yes" for _, headers, _ in server.requests)
    assert max(len(body) for _, _, body in server.requests) > 3000 * 16  # several records
