"""test_standby.py - a cluster whose processes die under load: every request gets one answer, and the right one.

The deadlines are so long that nothing has to be refused: whatever dies, somebody else takes over, or the same process
comes back, and all that was asked is answered."""
# sanitizers: address thread
# quick sanitizers: thread
# shards: 3
import concurrent.futures
import contextlib
import json
import os
import random
import re
import select
import signal
import socket
import subprocess
import tempfile
import threading
import time

import pytest

from server import BINARY, ETCD, TSAN_OPTIONS, Server, free_port, wait_until

SLOW = bool(os.environ.get("SYMPHONY_SANITIZED"))
ALL = bool(os.environ.get("SYMPHONY_TEST_ALL"))  # what is drawn by chance is drawn more often
BEAT_MS = 2000 if SLOW else 1000  # a machine that is busy must not look dead
MODELS = ("m-1", "m-2")


def status_of(join):
    """What a cluster's scheduler says of it. It is asked again where none leads just now."""
    said = []

    def told():
        done = subprocess.run([BINARY, "status", *join, "--json", "--timeout", "60"], capture_output=True, text=True)
        said[:] = [done.stdout]
        return done.returncode == 0
    wait_until(told)
    return json.loads(said[0])


class Role:
    """A process of the cluster, but for the frontend, which is a Server."""

    def __init__(self, role, *args, prefix=(), env=None):
        self.args = [*prefix, BINARY, role, "--no-metrics", "--heartbeat-ms", str(BEAT_MS), *map(str, args)]
        self.env = {"TSAN_OPTIONS": TSAN_OPTIONS, **os.environ, **(env or {})}
        self.log = tempfile.NamedTemporaryFile(mode="w+", prefix="symphony-", suffix=".log")
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.args, stdout=subprocess.DEVNULL, stderr=self.log, env=self.env)

    def kill(self, number=signal.SIGKILL):
        self.process.send_signal(number)
        if number in (signal.SIGKILL, signal.SIGTERM):
            return self.process.wait(600)

    def says(self, what):
        with open(self.log.name) as file:
            return file.read().count(what)

    def leads(self):
        """A scheduler, as its log has it. Another one takes over from one that stands still for 0.3 s."""
        with open(self.log.name) as file:
            return re.findall(r'msg="(leads|leads no more)"', file.read())[-1:] == ["leads"]

    def end(self, failed=False):
        """`failed`: the end of its log is printed."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait()
        if failed:
            with open(self.log.name) as file:
                print(*self.args, file.read()[-3000:])
        self.log.close()


class Frontend(Server):
    def __init__(self, *args, env=None):
        super().__init__(*args, env=env)
        self.args[1] = "frontend"
        self.args += ["--heartbeat-ms", str(BEAT_MS), "--link-wait", "3600"]


class Cluster:
    """Schedulers, backends of two emulated accelerators each, and one frontend."""

    def __init__(self, folder, schedulers, backends, registry=None, transport="auto", beta_ms=10, env=None, policy=None):
        scenario = folder / "scenario.yaml"
        scenario.write_text("cluster: {accelerators: 2, type: test}\n"
                            "models:\n  - {name: m, alpha_ms: 1, beta_ms: %g, slo_ms: 300000, copies: 2}\n"
                            "workload: {rate_rps: 10}\n" % beta_ms)
        addresses = ["127.0.0.1:%d" % free_port() for _ in range(schedulers)]
        self.join = join = ("--registry", registry) if registry else ("--join", ",".join(addresses))
        more = ("--registry", registry) if registry else ("--peers", ",".join(addresses)) if schedulers > 1 else ()
        more += ("--policy", policy) if policy else ()
        self.schedulers = [Role("scheduler", "--listen", address, *more, env=env) for address in addresses]
        self.backends = [Role("backend", *join, "--scenario", scenario, "--transport", transport, env=env)
                         for _ in range(backends)]
        self.frontend = Frontend(*join, env=env)

    def __enter__(self):
        self.frontend.start()
        wait_until(self.ready)
        return self

    def __exit__(self, *error):
        for role in self.schedulers + self.backends:
            role.end(error[0])
        self.frontend.__exit__(*error)

    def ready(self):
        """Everybody has joined, and both models are served. The frontend itself says that it is ready when no more backends are waited
        for, which takes seven heartbeats."""
        return self.frontend.log_text().count('msg="backend connected"') >= len(self.backends) and all(
            self.frontend.request("GET", "/v2/models/%s/ready" % model)[0] == 200 for model in MODELS)

    def status(self):
        return status_of(self.join)

    def whole(self):
        """All backends belong to it, whoever leads."""
        return self.status()["scheduler"]["accelerators"] == 2 * len(self.backends)

    def leader(self):
        """Of the schedulers, the one that leads, once it is the only one."""
        found = []

        def one():
            found[:] = [s for s in self.schedulers if s.leads()]
            return len(found) == 1
        wait_until(one)
        return found[0]


ASK = [{"name": "INPUT", "datatype": "FP32", "shape": [1, 1], "data": [1]}]


class LongRun:
    """A request that a cluster's only backend is running, and whose answer is right."""

    def __init__(self, cluster, pool):
        self.cluster, self.pool, self.answer = cluster, pool, None
        wait_until(self.runs)

    def runs(self):
        """Where the one before has ended, since this machine is slow to look, there is another."""
        if self.answer is None or self.answer.done():
            assert self.answer is None or self.answer.result()[0] == 200, self.answer.result()
            self.answer = self.pool.submit(self.cluster.frontend.infer, MODELS[0], ASK)
        return [one["batches"] for one in self.cluster.status()["members"] if one["role"] == "backend"] == [1]


class Clients:
    """Ask one request after the other, with a short rest between, from several threads, and keep what each was told."""

    def __init__(self, cluster, count=8):
        self.cluster, self.stop, self.told, self.nobody = cluster, threading.Event(), [], False
        self.pool = concurrent.futures.ThreadPoolExecutor(count)
        self.runs = [self.pool.submit(self.run, n) for n in range(count)]

    def run(self, n):
        i = 0
        while not self.stop.wait(0.005):
            value = n * 1000 + i % 1000
            inputs = [{"name": "INPUT", "datatype": "FP32", "shape": [1, 1], "data": [value]}]
            nobody = self.nobody
            status, answer = self.cluster.frontend.infer(MODELS[i % 2], inputs, id="%d-%d" % (n, i))
            self.told.append((status, answer, "%d-%d" % (n, i), nobody or self.nobody))
            i += 1

    def answered(self, more):
        """Waits until so many more are answered."""
        before = len(self.told)
        wait_until(lambda: len(self.told) >= before + more)

    @contextlib.contextmanager
    def nobody_there(self):
        """Meanwhile nobody may be there who runs the models."""
        self.nobody = True
        yield
        self.nobody = False

    def check(self):
        self.stop.set()
        for run in self.runs:
            run.result(600)
        self.pool.shutdown()
        for status, answer, name, nobody in self.told:
            if nobody and status == 503 and any(why in answer["error"] for why in (
                    "no accelerator that runs model", "no backend of the cluster serves it")):  # the latter from two seconds on
                continue
            assert status == 200, answer
            assert answer["id"] == name and answer["outputs"][0]["shape"] == [1, 1]
        assert len({name for _, _, name, _ in self.told}) == len(self.told)


@pytest.fixture(scope="module")
def etcd():
    if not os.path.exists(ETCD):
        pytest.skip("etcd is not installed (./run test does it)")
    with tempfile.TemporaryDirectory() as folder:
        client, peer = ("http://127.0.0.1:%d" % free_port() for _ in range(2))
        process = subprocess.Popen([ETCD, "--data-dir", folder, "--listen-client-urls", client,
                                    "--advertise-client-urls", client, "--listen-peer-urls", peer,
                                    "--initial-advertise-peer-urls", peer, "--initial-cluster", "default=" + peer],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        yield "etcd://" + client.removeprefix("http://") + "/test"
        process.kill()
        process.wait()


@pytest.fixture(params=["peers", "registry"])
def pair(request, tmp_path):
    """Two schedulers, by either way to elect one."""
    registry = request.getfixturevalue("etcd") + "-%d" % time.monotonic_ns() if request.param == "registry" else None
    with Cluster(tmp_path, schedulers=2, backends=2, registry=registry) as cluster:
        yield cluster


def test_leader_is_killed(pair):
    clients = Clients(pair)
    clients.answered(50)
    leader = pair.leader()
    leader.kill()
    pair.schedulers.remove(leader)
    pair.leader()
    clients.answered(50)
    clients.check()
    assert pair.status()["scheduler"]["leads"]
    backend = next(one for one in pair.status()["members"] if one["role"] == "backend")
    done = subprocess.run([BINARY, "drain", *pair.join, "--wait", "--timeout", "60", str(backend["number"])], capture_output=True,
                          text=True)
    assert (done.returncode, done.stderr) == (0, "")
    pair.schedulers.append(leader)


def test_leader_is_silent_and_wakes_up(pair):
    clients = Clients(pair)
    clients.answered(50)
    leader = pair.leader()
    other = next(s for s in pair.schedulers if s is not leader)
    before = other.says('msg="leads no more"')
    leader.kill(signal.SIGSTOP)
    wait_until(other.leads)
    clients.answered(50)
    leader.kill(signal.SIGCONT)
    stands_down = lambda: other.says('msg="leads no more"') > before  # since it was silent in its turn, on a busy machine
    wait_until(lambda: not leader.leads() or stands_down())
    clients.answered(50)
    clients.check()
    assert pair.leader() is other or stands_down()


@pytest.mark.parametrize("twice", ["a.test:7700,b.test:7700,a.test:7700", "a.test:7700,b.test:7700,B.test:7700"])
def test_a_scheduler_that_is_listed_twice(twice):
    """It would stand by for itself."""
    done = subprocess.run([BINARY, "scheduler", "--listen", "127.0.0.1:0", "--no-metrics", "--advertise", "a.test:7700",
                           "--peers", twice], capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stderr) == (2, "symphony scheduler: --peers: '%s' is listed twice\n" % twice.split(",")[2])


def test_drain_waits_while_another_scheduler_takes_over(tmp_path):
    """That one has no members yet; and the one that it stands by for does not answer."""
    asked = 'msg="member asked to leave"'
    with Cluster(tmp_path, schedulers=2, backends=1, beta_ms=3000) as cluster, concurrent.futures.ThreadPoolExecutor() as pool:
        run, backend = LongRun(cluster, pool), cluster.backends[0]
        number = next(str(one["number"]) for one in cluster.status()["members"] if one["role"] == "backend")
        command = [BINARY, "drain", *cluster.join, "--wait", "--timeout", "60", number]
        drain = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        wait_until(lambda: any(one.says(asked) for one in cluster.schedulers))
        next(one for one in cluster.schedulers if one.says(asked)).kill()
        status, said = drain.wait(600), drain.stderr.read()
        lost = "reset by peer", "closed the connection"
        while any(one in said for one in lost):  # the other one died before it had answered
            again = subprocess.run(command, capture_output=True, text=True, timeout=600)
            status, said = again.returncode, again.stderr
            if said.endswith("no member has the name or number '%s'\n" % number):
                status, said = 0, ""  # its run was over before this scheduler led, and it has left, as it was told
        assert (status, said) == (0, "")
        assert run.answer.result(600)[0] == 200
        assert backend.process.wait(600) == 0


def test_an_order_waits_for_a_scheduler_that_leads(tmp_path):
    """Nobody leads now, and who begins to has yet to hear of the members."""
    with Cluster(tmp_path, schedulers=2, backends=1, beta_ms=1) as cluster:
        number = next(str(one["number"]) for one in cluster.status()["members"] if one["role"] == "backend")
        next(one for one in cluster.schedulers if one.says('msg="leads"')).kill()
        done = subprocess.run([BINARY, "drain", *cluster.join, "--timeout", "60", number], capture_output=True, text=True, timeout=600)
        assert (done.returncode, done.stderr) == (0, "")
        assert cluster.backends[0].process.wait(600) == 0


def test_schedulers_whose_lists_differ():
    """One that the others do not know, or whose place in the list is taken, is refused and told why. They stand by for each other."""
    first, second, third = ("127.0.0.1:%d" % free_port() for _ in range(3))

    def scheduler(own, *peers):
        return Role("scheduler", "--listen", own, "--peers", ",".join(peers))

    roles = [scheduler(own, first, second) for own in (first, second)]
    try:
        wait_until(lambda: any(role.says('msg="leads"') for role in roles))
        roles.append(scheduler(third, first, second, third))
        for own in (first, second):
            wait_until(lambda: roles[2].says("scheduler=%s reason=\"it is number 3 of its --peers, and those of this scheduler are 2"
                                             % own))
        roles.append(scheduler(first.replace("127.0.0.1", "127.0.0.2"), first.replace("127.0.0.1", "127.0.0.2"), first))
        wait_until(lambda: roles[3].says('reason="it is number 1 of its --peers, and so is this scheduler of its own'))
        assert all(role.process.poll() is None for role in roles)
        roles[0].kill()
        wait_until(roles[1].leads)
        assert roles[1].process.poll() is None
    finally:
        for role in roles:
            role.end()


def test_several_schedulers_become_one(tmp_path):
    """Without --peers it knows no term, but its members remember one, and obey no lower one."""
    def joined():
        return {one["role"] for one in cluster.status()["members"]} == {"frontend", "backend"}

    with Cluster(tmp_path, schedulers=2, backends=1) as cluster:
        leader = cluster.leader()
        leader.end()
        cluster.schedulers.remove(leader)
        cluster.leader()
        wait_until(joined)
        last = cluster.schedulers.pop()
        last.end()
        cluster.schedulers.append(Role("scheduler", "--listen", last.args[last.args.index("--listen") + 1]))
        cluster.leader()
        wait_until(joined)
        clients = Clients(cluster)
        clients.answered(50)
        clients.check()


def test_lone_scheduler_comes_back(tmp_path):
    with Cluster(tmp_path, schedulers=1, backends=1) as cluster:
        clients = Clients(cluster)
        clients.answered(50)
        cluster.schedulers[0].kill()
        cluster.schedulers[0].start()
        clients.answered(50)
        clients.check()
        cluster.schedulers[0].kill()

        def says_why():
            """Once it knows: what was under way to the scheduler when that died is refused for its deadline."""
            status, answer = cluster.frontend.infer(MODELS[0], ASK, parameters={"timeout": 50000})
            assert status == 503, answer
            return "this frontend has no connection to a scheduler" in answer["error"]
        wait_until(says_why)


@pytest.mark.parametrize("transport", ["auto", "tcp"])
def test_backends_die(tmp_path, transport):
    with Cluster(tmp_path, schedulers=1, backends=3, transport=transport) as cluster:
        used = "tcp" if transport == "tcp" else "shm"
        wait_until(lambda: cluster.frontend.log_text().count("transport=" + used) >= 3)
        clients = Clients(cluster)
        clients.answered(50)
        cluster.backends[0].kill()
        clients.answered(20)
        cluster.backends[1].kill(signal.SIGSTOP)
        clients.answered(20)
        cluster.backends[0].start()
        cluster.backends[1].kill(signal.SIGCONT)
        clients.answered(20)
        wait_until(cluster.whole)  # or nobody may be there who runs the models
        assert cluster.backends[2].kill(signal.SIGTERM) == 0
        clients.answered(50)
        clients.check()


def test_backend_that_was_stopped_does_not_blame_the_scheduler(tmp_path):
    """Or it would leave that scheduler out for three heartbeats, while no other one leads."""
    with Cluster(tmp_path, schedulers=2, backends=1) as cluster:
        backend = cluster.backends[0]
        backend.kill(signal.SIGSTOP)
        wait_until(lambda: any(one.says('msg="member lost" role=backend') for one in cluster.schedulers))
        backend.kill(signal.SIGCONT)
        wait_until(lambda: backend.says('msg="joined"') >= 2)
        assert backend.says("it has been silent") == 0


@pytest.mark.parametrize("seed, transport", [(1, "auto"), (2, "tcp")])
def test_anything_dies_again_and_again(tmp_path, seed, transport):
    """But the frontend, whose clients would see that; one at a time, so that somebody is left."""
    draw = random.Random(seed)
    with Cluster(tmp_path, schedulers=2, backends=2, transport=transport) as cluster:
        clients = Clients(cluster)
        clients.answered(20)
        for _ in range(4 if SLOW else 8):
            role = draw.choice(cluster.schedulers + cluster.backends)
            how = draw.choice([signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM])
            role.kill(how)
            clients.answered(draw.randrange(1, 60))
            if how == signal.SIGSTOP:
                role.kill(signal.SIGCONT)
            else:
                role.start()
            clients.answered(draw.randrange(1, 60))
            wait_until(cluster.whole)
        clients.check()


def test_number_of_a_frontend_is_given_out_again(tmp_path):
    """While a backend still runs a request of the frontend that had it, which the scheduler of now does not know."""
    with Cluster(tmp_path, schedulers=1, backends=1, beta_ms=1500) as cluster, \
            concurrent.futures.ThreadPoolExecutor() as pool:
        scheduler, backend, old = cluster.schedulers[0], cluster.backends[0], cluster.frontend
        run = LongRun(cluster, pool)
        old.process.send_signal(signal.SIGSTOP)
        scheduler.kill()
        scheduler.start()
        wait_until(lambda: backend.says('msg="joined"') >= 2)  # it has its number again, and the frontend's is free
        with Frontend(*cluster.join) as new:
            wait_until(lambda: all(new.request("GET", "/v2/models/%s/ready" % model)[0] == 200 for model in MODELS))
            with open(scheduler.log.name) as log:
                numbers = re.findall("member joined.* role=frontend .* number=([0-9]+) ", log.read())
            assert len(numbers) == 2 and numbers[0] == numbers[1]
            assert new.infer(MODELS[1], ASK)[0] == 200
            old.process.send_signal(signal.SIGCONT)
            assert run.answer.result()[0] == 200
            assert old.infer(MODELS[0], ASK)[0] == 200
            assert new.infer(MODELS[0], ASK)[0] == 200
        # once with each scheduler, unless this machine is so busy that one looked dead
        assert backend.says('msg="joined"') == 2 or backend.says('msg="scheduler lost"') > backend.says("Connection reset")


def test_frontends_that_are_ended_while_they_join(tmp_path):
    """Models come to them just then."""
    with Cluster(tmp_path, schedulers=1, backends=1) as cluster:
        tries = 30 if ALL else 12
        for i in range(tries):
            log = tmp_path / "log"
            with open(log, "w") as file:
                process = subprocess.Popen(cluster.frontend.args, stderr=file, env=cluster.frontend.env)
            until = time.monotonic() + 600
            while 'msg="ready"' not in log.read_text():
                assert process.poll() is None and time.monotonic() < until, log.read_text()
                time.sleep(0.0003)
            time.sleep(3e-3 * i / tries)
            process.terminate()
            try:
                assert process.wait(600) == 0, log.read_text()
            finally:
                process.kill()


def test_a_frontend_that_has_not_heard_of_models_does_not_deny_them(tmp_path):
    """It was just started: whoever asks may try again, or ask another. Once it has heard of all, it knows which there are not. Nor has
    a scheduler heard of all that has just begun to lead: for three seconds backends may come to it."""
    scenario, join = tmp_path / "scenario.yaml", "127.0.0.1:%d" % free_port()
    scenario.write_text("cluster: {accelerators: 1, type: test}\nmodels:\n  - {name: m, alpha_ms: 1, beta_ms: 1, slo_ms: 60000}\n"
                        "workload: {rate_rps: 10}\n")
    roles = []
    try:
        with Frontend("--join", join) as frontend:
            def ask(model, **more):
                return frontend.infer(model, ASK, **more)

            status, answer = ask("m")
            assert status == 503 and "'m' is not found: this frontend has not heard of all models yet" in answer["error"]
            assert frontend.request("GET", "/v2/models/m/versions/1")[0] == 503
            since, told = time.monotonic(), []
            roles += [Role("scheduler", "--listen", join), Role("backend", "--join", join, "--scenario", scenario)]
            wait_until(lambda: told.append(ask("m")[0]) or told[-1] == 200)
            assert set(told) <= {200, 503}
            wait_until(lambda: ask("n")[0] == 404)
            assert time.monotonic() - since >= 3
    finally:
        for role in roles:
            role.end()


def test_each_scheduler_is_tried_twice_a_second(tmp_path):
    """However many there are, and however long none has been there: the one that comes back is found soon."""
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text("cluster: {accelerators: 1, type: test}\nmodels:\n  - {name: m, alpha_ms: 1, beta_ms: 1, slo_ms: 60000}\n"
                        "workload: {rate_rps: 10}\n")
    places = [socket.create_server(("127.0.0.1", 0)) for _ in range(6)]
    backend = Role("backend", "--join", ",".join("127.0.0.1:%d" % place.getsockname()[1] for place in places), "--scenario", scenario)
    try:
        def tries_taken(count):
            """How long until so many tries have come."""
            since = time.monotonic()
            while count > 0:
                for place in select.select(places, [], [], 600)[0]:
                    place.accept()[0].close()
                    count -= 1
            return time.monotonic() - since

        tries_taken(110 * len(places))  # 100 of each come quickly
        # Two of each take a second, or longer while this machine is busy; if they were tried one every half second, 6 s.
        wait_until(lambda: tries_taken(2 * len(places)) < 3)
    finally:
        backend.end()
        for place in places:
            place.close()
