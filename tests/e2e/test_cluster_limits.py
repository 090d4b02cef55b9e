"""test_cluster_limits.py - what a scheduler does when it may open no more files, or has no room for what members bring."""
# sanitizers: address thread
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import time

from onnx import TensorProto, helper

from repository import measure, save_model
from server import BINARY, free_port, wait_until
from test_cluster_partial import PATIENT
from test_cluster_tls import HELLO, REFUSED, frame
from test_standby import Frontend, Role, status_of

FILES = 60
PING, PONG, REQUESTS, UNDELIVERED, SERVE, RESULTS, HEARTBEAT = 4, 5, 18, 21, 32, 35, 40  # src/cluster/peer/wire.h


def line_with(process, text):
    for line in process.stderr:
        if text in line:
            return line
    raise AssertionError(f"it ended without '{text}'")


def test_who_connects_when_no_file_is_left_waits():
    """Until some of a crowd that does not say who it is has been sent away."""
    scheduler = subprocess.Popen(["prlimit", f"--nofile={FILES}:{FILES}", BINARY, "scheduler", "--listen", "127.0.0.1:0",
                                  "--no-metrics"], stderr=subprocess.PIPE, text=True)
    with contextlib.ExitStack() as stack:
        try:
            port = int(re.search(r'"ready" port=(\d+)', line_with(scheduler, 'msg="ready"')).group(1))
            for _ in range(2 * FILES):
                stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            assert "Too many open files" in line_with(scheduler, "cannot take a connection")
            status_of(("--join", f"127.0.0.1:{port}"))
        finally:
            scheduler.terminate()
            scheduler.communicate(timeout=600)


def test_a_frontend_has_so_many_threads_and_no_more():
    """Requests are numbered by thread. One that would have more does not start."""
    for more in (["9"], ["17", "--no-grpc"]):
        done = subprocess.run([BINARY, "frontend", "--join", "127.0.0.1:1", "--no-metrics", "--frontends", *more],
                              capture_output=True, text=True, timeout=600)
        assert (done.returncode, done.stderr) == (
            2, "symphony frontend: --frontends: at most 8 in a cluster, or 16 with --no-grpc\n")
    join = "--join", "127.0.0.1:%d" % free_port()
    scheduler = Role("scheduler", "--listen", join[1])
    try:
        with Frontend(*join, "--frontends", "8") as eight, Frontend(*join, "--frontends", "16", "--no-grpc") as sixteen:
            wait_until(lambda: all(one.log_text().count('msg="joined"') for one in (eight, sixteen)))
    finally:
        scheduler.end()


def test_who_introduces_itself_badly_is_told_what_is_wrong():
    """As a release that is to come may."""
    scheduler = Role("scheduler", "--listen", "127.0.0.1:%d" % free_port())
    try:
        wait_until(lambda: scheduler.says('msg="leads"'))
        port = int(scheduler.args[scheduler.args.index("--listen") + 1].split(":")[1])

        def told(hello):
            got = b""
            with socket.create_connection(("127.0.0.1", port), timeout=600) as connection, contextlib.suppress(ConnectionError):
                connection.sendall(frame(HELLO, json.dumps(hello).encode()))
                while more := connection.recv(4096):
                    got += more
            return got

        for hello, reason in (
                ({"role": "frontend", "format": 1, "format_newest": 1, "number": 0, "lanes": 18},
                 b"an introduction whose 'lanes' is missing or will not do"),
                ([], b"an introduction that is no JSON object")):
            # in one of ten tries: who is silent for five seconds after he has connected is told nothing
            assert any(told(hello) == frame(REFUSED, reason) for _ in range(10))
    finally:
        scheduler.end()


def test_other_machines_come_only_where_somebody_said_so(tmp_path):
    """Without a token or TLS whoever reaches a port could join: such a port is refused at the start, with what helps."""
    token = tmp_path / "token"
    token.write_text("secret\n")

    def ends(*args):
        done = subprocess.run([BINARY, *args, "--no-metrics"], capture_output=True, text=True, timeout=600)
        return done.returncode, done.stderr

    helps = (": whoever reaches this port could join the cluster, and drain it: give --cluster-token-file FILE (or --cluster-cert, "
             "--cluster-key and --cluster-ca), or --open-links if only your machines reach it, or 127.0.0.1 as its host\n")
    elsewhere, here = "192.0.2.1:7700", "127.0.0.1:%d" % free_port()
    for args, option in ((("scheduler", "--listen", ":0"), "--listen"),
                         (("scheduler", "--listen", "0.0.0.0:0"), "--listen"),
                         (("scheduler", "--listen", "[::]:0"), "--listen"),
                         (("frontend", "--join", elsewhere), "--cluster-port"),
                         (("frontend", "--join", here, "--advertise", elsewhere), "--cluster-port"),
                         (("frontend", "--registry", "etcd://192.0.2.1:2379/x"), "--cluster-port"),
                         (("frontend", "--join", here, "--cluster-host", "0.0.0.0"), "--cluster-host")):
        assert ends(*args) == (2, "symphony %s: %s%s" % (args[0], option, helps)), args
    for more in ((), ("--open-links",), ("--cluster-token-file", token)):
        scheduler = Role("scheduler", "--listen", ":0" if more else "127.0.0.1:0", *more)
        try:
            wait_until(lambda: scheduler.says('msg="leads"'))
        finally:
            scheduler.end()


def test_a_frontend_lets_in_nobody_of_whom_no_scheduler_has_told_it():
    """Not even where there is no token: who only knows the port and the protocol gets no input, and answers nothing."""
    port, join = free_port(), "127.0.0.1:%d" % free_port()
    hello = {"role": "backend", "format": 1, "format_newest": 1, "number": 77, "lanes": 0, "slots": 0, "accelerators": 0,
             "transports": 4, "fabric": "", "incarnation": "00000000deadbeef", "term": "0" * 16, "version": "0.1.0",
             "name": "rogue", "address": "", "token": ""}
    scheduler = Role("scheduler", "--listen", join)
    try:
        with Frontend("--join", join, "--cluster-host", "127.0.0.1", "--cluster-port", str(port)) as frontend:
            wait_until(lambda: frontend.log_text().count('msg="joined"'))

            def told(secret):
                got = b""
                with socket.create_connection(("127.0.0.1", port), timeout=600) as connection, \
                        contextlib.suppress(ConnectionError):
                    connection.sendall(frame(HELLO, json.dumps({**hello, **secret}).encode()))
                    while more := connection.recv(4096):
                        got += more
                return got

            why = b"it has no pass: no scheduler of this frontend has told it of the frontend"
            for secret in ({}, {"secret": "0123456789abcdef" * 2}):
                assert any(told(secret) == frame(REFUSED, why) for _ in range(10))  # as above
            wait_until(lambda: why.decode() in frontend.log_text())
    finally:
        scheduler.end()


def test_times_that_cannot_be_are_refused_and_named():
    """A frontend's deadlines go into sums. One beyond all bounds ends its link, and the log says why."""
    scheduler = Role("scheduler", "--listen", "127.0.0.1:%d" % free_port())
    hello = {"role": "frontend", "format": 1, "format_newest": 1, "number": 0, "lanes": 1, "slots": 16, "accelerators": 0,
             "transports": 4, "fabric": "", "incarnation": "00000000deadbeef", "term": "0" * 16, "version": "0.1.0",
             "name": "liar", "address": "127.0.0.1:1", "token": ""}
    year_ns = 365 * 24 * 3600 * 10**9
    try:
        wait_until(lambda: scheduler.says('msg="leads"'))
        port = int(scheduler.args[scheduler.args.index("--listen") + 1].split(":")[1])

        def asked(arrival_ns, deadline_ns):
            """Joins, and sends one request with these times."""
            with socket.create_connection(("127.0.0.1", port), timeout=600) as connection, contextlib.suppress(ConnectionError):
                connection.sendall(frame(HELLO, json.dumps(hello).encode()))
                got = b""
                while b'"number":' not in got and (more := connection.recv(4096)):
                    got += more
                number = int(re.search(rb'"number": *(\d+)', got).group(1))
                request = struct.pack("<QqqQfIHHHBBq", 1 << 40 | number * 16 << 24, arrival_ns, deadline_ns, 0, 1, 0, 1, 0, 0, 0, 0, 0)
                connection.sendall(frame(REQUESTS, request))
                while connection.recv(4096):
                    pass

        for times, why in (((0, 21 * year_ns), "a request with 662256000 s from its arrival to its deadline: at most 630720000"),
                           ((-(1 << 62), 0), "a request whose arrival or deadline is no time of a clock"),
                           ((0, 2**63 - 1), "a request whose arrival or deadline is no time of a clock")):
            before = scheduler.says(why)
            assert any([asked(*times) or scheduler.says(why) > before for _ in range(3)])
    finally:
        scheduler.end()


class Raw:
    """A member that says what it is told to say."""

    def __init__(self, port, **hello):
        self.connection = socket.create_connection(("127.0.0.1", port), timeout=600)
        self.got = b""
        hello = {"format": 1, "format_newest": 1, "number": 0, "lanes": 1, "slots": 16, "accelerators": 0, "transports": 4, "fabric": "",
                 "incarnation": "00000000deadbeef", "term": "0" * 16, "version": "0.1.0", "address": "127.0.0.1:1", "token": "", **hello}
        self.send(HELLO, json.dumps(hello).encode())

    def send(self, kind, head):
        self.connection.sendall(frame(kind, head))

    def frames(self):
        while True:
            body, head, kind, _ = struct.unpack("<QIHH", self.take(16))
            text = self.take(head + -head % 8)[:head]
            self.take(body)
            yield kind, text

    def take(self, count):
        while len(self.got) < count:
            more = self.connection.recv(65536)
            assert more, "the scheduler has closed the connection"
            self.got += more
        taken, self.got = self.got[:count], self.got[count:]
        return taken

    def until(self, wanted):
        """The next frame of this kind, and the kinds of those before it."""
        before = []
        for kind, head in self.frames():
            if kind == wanted:
                return head, before
            before.append(kind)
            if kind == PING and any(head[:8]):
                self.send(PONG, head[:8] + 2 * struct.pack("<q", time.clock_gettime_ns(time.CLOCK_MONOTONIC)))

    def pinged(self):
        """Waits until all has been read that was sent: the kinds of the frames that came meanwhile."""
        self.send(PING, struct.pack("<qqq", 1, 0, 0))
        return self.until(PONG)[1]


def test_what_a_frontend_and_a_backend_say_of_requests_is_not_all_believed(tmp_path):
    """A backend that knows a request's handle says that the request is lost: its frontend hears nothing of it. A frontend uses a slot
    whose request still waits: that one waits no more, so a frontend has no more requests in the scheduler than it has slots."""
    join = "--join", "127.0.0.1:%d" % free_port()
    (tmp_path / "m.yaml").write_text("cluster: {accelerators: 1, type: test}\nmodels:\n"
                                     "  - {name: m, alpha_ms: 1, beta_ms: 1, slo_ms: 60000}\nworkload: {rate_rps: 10}\n")
    roles = [Role("scheduler", "--listen", join[1], *PATIENT)]
    try:
        wait_until(lambda: roles[0].says('msg="leads"'))
        roles.append(Role("backend", *join, "--scenario", tmp_path / "m.yaml", "--name", "true", *PATIENT))
        wait_until(lambda: status_of(join)["models"])
        subprocess.run([BINARY, "cordon", *join, "true"], check=True, timeout=600)  # the request is to stay in the queue
        wait_until(lambda: status_of(join)["scheduler"]["accelerators"] == 0)
        port = int(join[1].split(":")[1])
        frontend, liar = Raw(port, role="frontend", name="f", secret="01" * 16), Raw(port, role="backend", name="liar", lanes=0, slots=0)
        number = json.loads(frontend.until(2)[0])["number"]
        liar.until(2)
        model, = struct.unpack("<I", frontend.until(SERVE)[0][:4])
        handle = 1 << 40 | number * 16 << 24

        def asks(handle):
            now_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
            frontend.send(REQUESTS, struct.pack("<QqqQfIHHHBBq", handle, now_ns, now_ns + 3600 * 10**9, 0, 1, model, 1, 0, 0, 0, 0, 0))

        asks(handle)
        frontend.pinged()
        wait_until(lambda: status_of(join)["scheduler"]["requests_now"] == 1)
        liar.send(UNDELIVERED, struct.pack("<QII", handle, 1, 0))
        liar.pinged()
        assert RESULTS not in frontend.pinged()
        for submission in range(1, 5):
            asks(handle + (submission << 40))
        wait_until(lambda: status_of(join)["scheduler"]["requests"] == 5)
        wait_until(lambda: status_of(join)["scheduler"]["requests_now"] == 1)
        assert status_of(join)["scheduler"]["lost"] == 0
    finally:
        for role in roles:
            role.end()


def test_a_stranger_deposes_no_scheduler():
    """Without a token or TLS a stranger who reaches the ports says that he is a member of a higher term, and the other scheduler that
    leads one: the leader goes on. Only the other one takes over, where it stood still for too long itself: in a near term."""
    ports = [free_port() for _ in range(2)]
    peers = ",".join("127.0.0.1:%d" % port for port in ports)
    roles = [Role("scheduler", "--listen", "127.0.0.1:%d" % port, "--peers", peers) for port in ports]

    def begun():
        return sum(role.says('msg="leads"') for role in roles)
    try:
        wait_until(lambda: any(role.leads() for role in roles))
        wait_until(lambda: all(role.says('msg="another scheduler connected"') for role in roles))
        for n, (port, role) in enumerate(zip(ports, roles)):
            before = begun()
            Raw(port, role="backend", name="stranger", term="%016x" % (1000 + port), lanes=0, slots=0)
            wait_until(lambda: begun() > before or not role.leads())
            liar = Raw(port, role="scheduler", name="liar", number=1 - n, lanes=0, slots=0)
            liar.until(2)
            liar.send(HEARTBEAT, struct.pack("<QQII", 1 << 19, 0xdeadbeef, 1 - n, 1))
            liar.pinged()
        time.sleep(1)  # three times as long as a leader may be silent
        for role, other in (roles, roles[::-1]):
            assert role.says('msg="leads no more"') <= other.says('msg="leads"')
        assert status_of(("--join", peers))["scheduler"]["term"] < 1 << 18
    finally:
        for role in roles:
            role.end()


def test_a_type_of_accelerators_that_is_gone_makes_room_for_another(tmp_path):
    """There may be eight. One too many is told so, now and then. It is let in when another one goes, though a model that all have is
    served all the while."""
    join = "--join", "127.0.0.1:%d" % free_port()

    def backend(n):
        path = tmp_path / ("%d.yaml" % n)
        path.write_text("cluster: {accelerators: 1, type: test-%d}\nmodels:\n" % n + "".join(
            "  - {name: %s, alpha_ms: 1, beta_ms: 1, slo_ms: 60000}\n" % name for name in ("all", "own-%d" % n)) +
            "workload: {rate_rps: 10}\n")
        return Role("backend", *join, "--scenario", path, "--name", "b-%d" % n)

    def served():
        return {one["name"] for one in status_of(join)["models"]}

    inputs = [{"name": "INPUT", "datatype": "FP32", "shape": [1, 1], "data": [1]}]
    roles = [Role("scheduler", "--listen", join[1])]
    try:
        wait_until(lambda: roles[0].says('msg="leads"'))
        roles += [backend(n) for n in range(8)]
        wait_until(lambda: served() == {"all"} | {"own-%d" % n for n in range(8)})
        with Frontend(*join) as frontend:
            wait_until(lambda: frontend.infer("all", inputs)[0] == 200)
            roles.append(backend(8))
            refused = 'msg="scheduler lost" scheduler=%s reason="the cluster has 8 types of accelerators already' % join[1]
            wait_until(lambda: roles[9].says(refused))
            since, before = time.monotonic(), roles[9].says(refused)
            wait_until(lambda: roles[9].says(refused) > before)
            assert roles[9].says(refused) - before <= (time.monotonic() - since) / 1.9 + 1
            assert roles[1].kill(signal.SIGTERM) == 0
            wait_until(lambda: "own-8" in served() and frontend.infer("own-8", inputs)[0] == 200)
            assert frontend.infer("all", inputs)[0] == 200
    finally:
        for role in roles:
            role.end()


def test_models_wait_until_a_frontend_has_room(tmp_path):
    """It has room for 20 models: --max-models, and 16 for those that others replace."""
    join = "--join", "127.0.0.1:%d" % free_port()

    def backend(name, count):
        path = tmp_path / (name + ".yaml")
        path.write_text("cluster: {accelerators: 1, type: test}\nmodels:\n"
                        "  - {name: %s, alpha_ms: 1, beta_ms: 1, slo_ms: 60000, copies: %d}\n"
                        "workload: {rate_rps: 10}\n" % (name, count))
        return Role("backend", *join, "--scenario", path)

    roles = [Role("scheduler", "--listen", join[1])]
    try:
        with Frontend(*join, "--max-models", "4") as frontend:
            def ready(name, count):
                return sum(frontend.request("GET", "/v2/models/%s-%d/ready" % (name, n + 1))[0] == 200 for n in range(count))

            roles.append(backend("first", 18))
            wait_until(lambda: ready("first", 18) == 18)
            roles.append(backend("second", 5))
            wait_until(lambda: ready("second", 5) == 2)
            wait_until(lambda: frontend.log_text().count("there is no room for more than 20 (--max-models)") == 3)
            roles[1].kill()
            wait_until(lambda: ready("second", 5) == 5)
    finally:
        for role in roles:
            role.end()


def test_a_backend_waits_until_there_is_room_for_its_accelerators(tmp_path):
    """For all of them: none is taken before."""
    join = "--join", "127.0.0.1:%d" % free_port()
    path = tmp_path / "scenario.yaml"
    path.write_text("cluster: {accelerators: 3, type: test}\nmodels:\n  - {name: m, alpha_ms: 1, beta_ms: 1, slo_ms: 60000}\n")
    roles = [Role("scheduler", "--listen", join[1], "--accelerators-max", "5", *PATIENT),
             Role("backend", *join, "--scenario", path, "--name", "first", *PATIENT)]
    try:
        wait_until(lambda: roles[0].says('msg="backend brings" backend=first'))
        roles.append(Role("backend", *join, "--scenario", path, "--name", "second", *PATIENT))
        wait_until(lambda: roles[2].says("no room for more than 5 accelerators (--accelerators-max)"))
        assert [one["name"] for one in status_of(join)["members"]] == ["first"]
        roles[1].kill(signal.SIGTERM)
        wait_until(lambda: roles[0].says('msg="backend brings" backend=second'))
    finally:
        for role in roles:
            role.end()


def test_all_models_may_be_of_variable_shapes(tmp_path):
    models = 130  # over 100 that come one after the other are told of together
    join = "--join", "127.0.0.1:%d" % free_port()
    save_model(tmp_path, "text-0", [helper.make_node("Relu", ["x"], ["y"])], *([(name, TensorProto.FLOAT, ["N", "T"])] for name in "xy"))
    measure(tmp_path)
    for i in range(1, models):
        shutil.copytree(tmp_path / "text-0", tmp_path / ("text-%d" % i))
    roles = [Role("scheduler", "--listen", join[1], *PATIENT),
             Role("backend", *join, "--repository", tmp_path, "--slo-ms", 60000, "--accelerators", "cpu:1", *PATIENT)]
    try:
        with Frontend(*join, *PATIENT) as frontend:
            for i in range(models):
                wait_until(lambda: frontend.infer("text-%d" % i, [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1, 2]}])[0] == 200)
    finally:
        for role in roles:
            role.end()


def test_models_beyond_the_scheduler_s_limit_wait_and_that_is_told(tmp_path):
    """Of two backends with 20 models each, all different, --max-models 24 are served. A backend of another type that has the same
    models serves those, too: there is room to move them. When one backend leaves, what waited is served."""
    join = "--join", "127.0.0.1:%d" % free_port()

    def backend(name, kind="test"):
        path = tmp_path / ("%s-%s.yaml" % (name, kind))
        path.write_text("cluster: {accelerators: 1, type: %s}\nmodels:\n"
                        "  - {name: %s, alpha_ms: 1, beta_ms: 1, slo_ms: 60000, copies: 20}\n"
                        "workload: {rate_rps: 10}\n" % (kind, name))
        return Role("backend", *join, "--scenario", path, "--name", name + "-" + kind)

    def served():
        return {one["name"]: one["backends"] for one in status_of(join)["models"]}

    def aside():
        return {(m["name"], one["name"], one["reason"]) for m in status_of(join)["members"] for one in m.get("aside", [])}

    def names(name, first, last):
        return ["%s-%d" % (name, n) for n in range(first, last + 1)]

    inputs = [{"name": "INPUT", "datatype": "FP32", "shape": [1, 1], "data": [1]}]
    reason = "the scheduler serves as many models as it may (--max-models)"
    roles = [Role("scheduler", "--listen", join[1], "--max-models", "24")]
    try:
        wait_until(lambda: roles[0].says('msg="leads"'))
        roles.append(backend("a"))
        wait_until(lambda: len(served()) == 20)
        roles.append(backend("b"))
        waiting = names("b", 5, 20)
        wait_until(lambda: aside() == {("b-test", name, reason) for name in waiting})
        assert list(served()) == names("a", 1, 20) + names("b", 1, 4)
        for name in waiting:
            assert roles[0].says('level=warn msg="model waits" model=%s version=1 reason="%s"\n' % (name, reason)) == 1
        assert [len(m["models"]) for m in status_of(join)["members"]] == [20, 4]
        table = subprocess.run([BINARY, "status", *join, "--timeout", "60"], capture_output=True, text=True).stdout
        assert re.search(r"^NOT_SERVED +VERSION +BACKEND +REASON\nb-5 +1 +b-test +the scheduler serves ", table, re.M)
        with Frontend(*join) as frontend:
            wait_until(lambda: frontend.infer("b-4", inputs)[0] == 200)
            wait_until(lambda: frontend.infer("b-5", inputs)[0] == 404)
            roles.append(backend("a", "other"))
            wait_until(lambda: all(served()[name] == 2 for name in names("a", 1, 20)))
            wait_until(lambda: roles[0].says(" backends=2\n") == 20)  # each in a place that knows both types
            assert roles[3].kill(signal.SIGTERM) == 0 and roles[1].kill(signal.SIGTERM) == 0
            wait_until(lambda: sorted(served()) == sorted(names("b", 1, 20)) and aside() == set())
            wait_until(lambda: frontend.infer("b-20", inputs)[0] == 200)
        assert roles[0].says('msg="model waits"') == 16
    finally:
        for role in roles:
            role.end()


def test_outputs_take_so_much_memory_and_no_more(tmp_path):
    """Of the backend while it runs, and of the frontend until the answer is sent."""
    save_model(tmp_path, "ones", [helper.make_node("ConstantOfShape", ["shape"], ["y"])],
               [("shape", TensorProto.INT64, ["D"])], [("y", TensorProto.FLOAT, ["N"])])
    (tmp_path / "ones" / "config.pbtxt").write_text("max_batch_size: 0")
    join = "--join", "127.0.0.1:%d" % free_port()
    roles = [Role("scheduler", "--listen", join[1]),
             Role("backend", *join, "--repository", tmp_path, "--accelerators", "cpu:1", "--slo-ms", "300000",
                  "--run-memory-max-mib", "100")]
    try:
        with Frontend(*join, "--outputs-max-mib", "8") as frontend:
            def ones(mib):
                body = {"inputs": [{"name": "shape", "datatype": "INT64", "shape": [1], "data": [mib << 18]}],
                        "outputs": [{"name": "y", "parameters": {"binary_data": True}}]}
                status, _, answer = frontend.request("POST", "/v2/models/ones/infer", json.dumps(body), timeout=600)
                return status, answer
            wait_until(lambda: frontend.request("GET", "/v2/models/ones/ready")[0] == 200)
            for mib in (5, 16, 7, 200, 6, 5):
                frontend.rests()  # the answer before may be here before its memory is given back
                status, answer = ones(mib)
                assert status == (200 if mib < 8 else 500)
                if mib == 16:
                    assert (b"no memory now for its outputs of 16777216 bytes: answers may take 8 MiB (--outputs-max-mib)"
                            in answer)
                elif mib == 200:
                    assert b"more memory than runs may take, 100 MiB for all (--run-memory-max-mib)" in answer
                else:
                    assert answer[-(mib << 20):] == b"\0" * (mib << 20)
    finally:
        for role in roles:
            role.end()
