"""test_keda.py - advice about the number of accelerators: its metrics, and KEDA's external scaler, in `serve` and in a cluster."""
# sanitizers: address thread
# shards: 2
import contextlib
import json
import queue
import signal
import subprocess
import threading

import grpc
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from server import BINARY, Server, free_port, http_request, wait_until
from test_standby import Frontend, Role

METRIC = "symphony_accelerators_wanted"
SERVICE = "/externalscaler.ExternalScaler/"
WAIT_S = 600  # sanitizers are slow, and a model is measured when the machine has nothing better to do
# A request takes 40 ms in whatever batch: 100 a second are four accelerators' worth.
SCENARIO = ("cluster: {accelerators: 2, type: test}\n"
            "models:\n  - {name: m, alpha_ms: 40, beta_ms: 0.1, slo_ms: 200}\n"
            "workload: {rate_rps: 10}\n"
            "autoscale: {min: 1, max: 16, start_delay_s: 0, every_s: 0.01}\n")
QUICKLY = "min=0,every_s=1,start_delay_s=0"


# ---- the client: KEDA's messages, by their numbers ----

def messages():
    """The classes of proto/externalscaler.proto's messages, made without it."""
    Field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="keda.proto", package="externalscaler", syntax="proto3")
    table = {
        "ScaledObjectRef": [("name", 1, Field.TYPE_STRING), ("namespace", 2, Field.TYPE_STRING),
                            ("scalerMetadata", 3, "ScaledObjectRef.ScalerMetadataEntry")],
        "IsActiveResponse": [("result", 1, Field.TYPE_BOOL)],
        "MetricSpec": [("metricName", 1, Field.TYPE_STRING), ("targetSize", 2, Field.TYPE_INT64),
                       ("targetSizeFloat", 3, Field.TYPE_DOUBLE)],
        "GetMetricSpecResponse": [("metricSpecs", 1, "*MetricSpec")],
        "GetMetricsRequest": [("scaledObjectRef", 1, "ScaledObjectRef"), ("metricName", 2, Field.TYPE_STRING)],
        "MetricValue": [("metricName", 1, Field.TYPE_STRING), ("metricValue", 2, Field.TYPE_INT64),
                        ("metricValueFloat", 3, Field.TYPE_DOUBLE)],
        "GetMetricsResponse": [("metricValues", 1, "*MetricValue")],
    }

    def field_put(message, name, number, kind):
        repeated = isinstance(kind, str) and (kind[0] == "*" or kind.endswith("Entry"))
        field = message.field.add(name=name, number=number, label=Field.LABEL_REPEATED if repeated else Field.LABEL_OPTIONAL)
        if isinstance(kind, str):
            field.type, field.type_name = Field.TYPE_MESSAGE, ".externalscaler." + kind.lstrip("*")
        else:
            field.type = kind

    for name, fields in table.items():
        message = file.message_type.add(name=name)
        for field in fields:
            field_put(message, *field)
    entry = file.message_type[0].nested_type.add(name="ScalerMetadataEntry")
    entry.options.map_entry = True
    field_put(entry, "key", 1, Field.TYPE_STRING)
    field_put(entry, "value", 2, Field.TYPE_STRING)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName("externalscaler." + name)) for name in table}


M = messages()


class Keda:
    def __init__(self, server):
        self.channel = grpc.insecure_channel("127.0.0.1:%d" % server.grpc_port, options=[("grpc.use_local_subchannel_pool", 1)])

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.channel.close()

    def ask(self, method, answer, request):
        return self.channel.unary_unary(SERVICE + method, lambda m: m.SerializeToString(), M[answer].FromString)(request, timeout=600)

    def watch(self, method, answer, **metadata):
        return self.channel.unary_stream(SERVICE + method, lambda m: m.SerializeToString(), M[answer].FromString)(
            self.object(**metadata))

    @staticmethod
    def object(**metadata):
        return M["ScaledObjectRef"](name="backends", namespace="here", scalerMetadata={"scalerAddress": "x:8001", **metadata})

    def active(self, **metadata):
        return self.ask("IsActive", "IsActiveResponse", self.object(**metadata)).result

    def spec(self, **metadata):
        spec, = self.ask("GetMetricSpec", "GetMetricSpecResponse", self.object(**metadata)).metricSpecs
        return spec.metricName, spec.targetSize, spec.targetSizeFloat

    def wanted(self, metric=METRIC, **metadata):
        value, = self.ask("GetMetrics", "GetMetricsResponse", M["GetMetricsRequest"](
            scaledObjectRef=self.object(**metadata), metricName=metric)).metricValues
        assert value.metricName == METRIC and value.metricValueFloat == value.metricValue
        return value.metricValue

    def code(self, what):
        """Why it fails; None if it does not."""
        try:
            what()
        except grpc.RpcError as error:
            return error.code()


def told(stream):
    """What a stream of IsActiveResponse says, as it comes, and at last its status."""
    said = queue.Queue()

    def read():
        try:
            for answer in stream:
                said.put(answer.result)
        except grpc.RpcError as error:
            said.put(error.code())
    threading.Thread(target=read, daemon=True).start()
    return said


@contextlib.contextmanager
def load(server, rate=100):
    """Requests, for as long as the block takes."""
    bench = subprocess.Popen([BINARY, "bench", "http://127.0.0.1:%d" % server.port, "--rate", str(rate), "--seconds", "3600",
                              "--warmup", "0", "--models", "m"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
        bench.send_signal(signal.SIGINT)
        assert bench.wait(WAIT_S) == 0
    finally:
        bench.kill()
        bench.wait()


@pytest.fixture(scope="module")
def scenario(tmp_path_factory):
    path = tmp_path_factory.mktemp("scenario") / "scenario.yaml"
    path.write_text(SCENARIO)
    return path


@pytest.fixture(scope="module")
def server(scenario):
    with Server("--scenario", scenario, "--autoscale", QUICKLY) as running, Keda(running) as keda:
        wait_until(lambda: keda.code(keda.wanted) is None)
        yield running
        assert running.stop() == 0


@pytest.fixture
def keda(server):
    with Keda(server) as keda:
        yield keda


# ---- tests ----

def test_a_replica_has_what_the_scaled_object_says(keda):
    assert keda.spec() == (METRIC, 1, 1)
    assert keda.spec(acceleratorsPerReplica="4") == (METRIC, 4, 4)
    assert keda.spec(acceleratorsPerReplica="0.5") == (METRIC, 1, 0.5)
    stream = keda.watch("StreamMetricSpec", "GetMetricSpecResponse", acceleratorsPerReplica="2")
    assert next(stream).metricSpecs[0].targetSizeFloat == 2
    stream.cancel()


@pytest.mark.parametrize("value", ["", "0", "-1", "many", "nan", "1e9"])
def test_mistakes_are_named(keda, value):
    for what in (keda.active, keda.spec, keda.wanted):
        with pytest.raises(grpc.RpcError) as failed:
            what(acceleratorsPerReplica=value)
        assert failed.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert failed.value.details() == ("the metadata's acceleratorsPerReplica is '%s': "
                                          "expected a number from 0.001 to 65536" % value)
    said = told(keda.watch("StreamIsActive", "IsActiveResponse", acceleratorsPerReplica=value))
    assert said.get(timeout=600) == grpc.StatusCode.INVALID_ARGUMENT


def test_there_is_one_metric(keda):
    with pytest.raises(grpc.RpcError) as failed:
        keda.wanted(metric="cpu")
    assert failed.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert failed.value.details() == "there is no metric 'cpu': the only one is " + METRIC


def test_advice_follows_the_load(server, keda):
    """Nothing is wanted without load; more than there are, and why, under too much; and nothing again when it is over."""
    wait_until(lambda: keda.wanted() == 0, WAIT_S)
    said = told(keda.watch("StreamIsActive", "IsActiveResponse"))
    assert said.get(timeout=600) is False and keda.active() is False

    def two_are_too_few():
        metrics = server.metrics()
        assert metrics["symphony_accelerators_serving"] == 2
        return keda.wanted() > 2 and metrics[METRIC] > 2 and metrics["symphony_bad_rate"] > 0.05

    with load(server):
        assert said.get(timeout=WAIT_S) is True
        wait_until(two_are_too_few, WAIT_S)
        wait_until(keda.active, WAIT_S)
    wait_until(lambda: keda.wanted() == 0 and not keda.active(), WAIT_S)
    word = True
    while word or not said.empty():  # a second without load, in which this machine stood still, has been told of, too
        word = said.get(timeout=WAIT_S)
    assert word is False
    wait_until(lambda: server.metrics()["symphony_bad_rate"] == 0)


def test_a_stream_ends_with_the_server(scenario):
    with Server("--scenario", scenario) as running, Keda(running) as keda:  # the scenario's `autoscale`: at least one
        wait_until(lambda: keda.code(keda.active) is None)
        assert keda.wanted() == 1
        said = told(keda.watch("StreamIsActive", "IsActiveResponse"))
        assert said.get(timeout=600) is True
        assert running.stop() == 0
        assert said.get(timeout=600) == grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize("policy", ["kairos", "clockwork"])
def test_central_policies_measure_what_is_needed(scenario, policy):
    with Server("--scenario", scenario, "--autoscale", QUICKLY, "--policy", policy) as running, Keda(running) as keda:
        with load(running, rate=40):  # some 1.6 accelerators' worth
            wait_until(lambda: keda.code(keda.wanted) is None and keda.wanted() >= 2, WAIT_S)
            if policy == "clockwork":
                wait_until(lambda: 0.8 < running.metrics()["symphony_accelerators_needed"] < 2.4, WAIT_S)
        if policy == "clockwork":
            wait_until(lambda: running.metrics()["symphony_accelerators_needed"] < 0.1, WAIT_S)  # though nothing comes any more
        else:
            assert "symphony_accelerators_needed" not in running.metrics()


def test_kairos_says_how_many_of_each_type(tmp_path):
    file = tmp_path / "pool.yaml"
    file.write_text("cluster: {accelerators: [{type: strong, count: 1, price: 10}, {type: weak, count: 2, price: 2}]}\n"
                    "models: [{name: m, alpha_ms: 1, beta_ms: 0, types: {weak: {alpha_ms: 3, beta_ms: 0}}, slo_ms: 500}]\n"
                    "policy: {name: kairos, budget: 19}\n")
    with Server("--scenario", file) as running:
        metric = 'symphony_type_accelerators_wanted{type="%s"}'
        assert metric % "weak" not in running.metrics()
        with load(running, rate=300):  # 1000 queries
            wait_until(lambda: metric % "weak" in running.metrics(), WAIT_S)
        strong, weak = (int(running.metrics()[metric % kind]) for kind in ("strong", "weak"))
        assert weak > 0 and 10 * strong + 2 * weak <= 19
        state = json.loads(http_request(running.metrics_port, "GET", "/v2/symphony/state")[2])
        assert state["advice"]["wanted_of_type"] == {"strong": strong, "weak": weak}


def test_any_frontend_of_a_cluster_says_it(scenario):
    at = "127.0.0.1:%d" % free_port()
    scheduler = Role("scheduler", "--listen", at, "--autoscale", QUICKLY)
    backend = Role("backend", "--join", at, "--scenario", scenario)
    try:
        with Frontend("--join", at) as first, Frontend("--join", at) as second, Keda(first) as one, \
                Keda(second) as other:
            wait_until(lambda: first.request("GET", "/v2/models/m/ready")[0] == 200, WAIT_S)
            wait_until(lambda: {keda.code(keda.wanted) for keda in (one, other)} == {None}, WAIT_S)
            said = told(other.watch("StreamIsActive", "IsActiveResponse"))
            with load(first):
                wait_until(lambda: one.wanted() > 2 and other.wanted() > 2, WAIT_S)
            assert one.spec(acceleratorsPerReplica="2") == (METRIC, 2, 2)
            while said.get(timeout=WAIT_S) is not True:
                pass
            scheduler.kill()  # nobody says anything any more
            wait_until(lambda: other.code(other.wanted) == grpc.StatusCode.UNAVAILABLE, WAIT_S)
            assert other.spec() == (METRIC, 1, 1)
            scheduler.start()
            wait_until(lambda: {keda.code(keda.wanted) for keda in (one, other)} == {None}, WAIT_S)
    finally:
        backend.end()
        scheduler.end()


@pytest.mark.parametrize("settings, says", [
    ("min=9,max=8", "--autoscale: min 9 is more than max 8"),
    ("most=1", "--autoscale: unknown key 'most': expected min, max, headroom, every_s or start_delay_s"),
    ("every_s=0.1", "--autoscale: every_s: 0.1 is not in 1 to 86400"),
])
def test_settings_that_make_no_sense(scenario, settings, says):
    for command in (["serve", "--scenario", scenario], ["scheduler", "--listen", "127.0.0.1:0"]):
        done = subprocess.run([BINARY, *map(str, command), "--autoscale", settings], capture_output=True, text=True, timeout=600)
        assert done.returncode == 2 and says in done.stderr
