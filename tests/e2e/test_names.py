"""test_names.py - members find schedulers by names that have several addresses and change, as a headless Service of Kubernetes.

The names are in a file that each process has in the place of /etc/hosts, in a mount namespace of its own."""
# sanitizers: address thread
import json
import os
import socket
import subprocess

import pytest

from server import BINARY, free_port, wait_until
from test_standby import Clients, Frontend, Role


class Names:
    def __init__(self, folder):
        self.path = folder / "hosts"
        self.set()
        self.prefix = ["unshare", "--mount", *([] if os.getuid() == 0 else ["--map-root-user"]), "sh", "-c",
                       'mount --bind "$0" /etc/hosts && exec "$@"', str(self.path)]

    def set(self, **names):
        """Addresses by name; written in place, since it is this file that is mounted."""
        lines = ["127.0.0.1 localhost"] + ["%s %s.test" % (at, name) for name, all_of in names.items() for at in all_of]
        self.path.write_text("\n".join(lines) + "\n")


@pytest.fixture
def names(tmp_path):
    made = Names(tmp_path)
    made.set(several=["127.0.0.2", "127.0.0.3"])
    try:
        shown = subprocess.run([*made.prefix, "getent", "ahostsv4", "several.test"], capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("unshare is not installed")
    if not {"127.0.0.2", "127.0.0.3"} <= set(shown.stdout.split()):
        pytest.skip("no mount namespace here, or /etc/hosts is not asked for names: " + shown.stderr.strip())
    made.set()
    return made


class Cluster:
    """A frontend and a backend that join by a name; schedulers come and go."""

    def __init__(self, folder, names, port):
        scenario = folder / "scenario.yaml"
        scenario.write_text("cluster: {accelerators: 2, type: test}\n"
                            "models:\n  - {name: m, alpha_ms: 1, beta_ms: 10, slo_ms: 300000, copies: 2}\n"
                            "workload: {rate_rps: 10}\n")
        self.names, self.port = names, port
        self.join = "--join", "schedulers.test:%d" % port
        self.roles = []
        self.backend = self.role("backend", *self.join, "--scenario", scenario)
        self.frontend = Frontend(*self.join, "--cluster-host", "127.0.0.1")
        self.frontend.args[:0] = names.prefix

    def role(self, *args):
        self.roles.append(Role(*args, prefix=self.names.prefix))
        return self.roles[-1]

    def scheduler(self, host, *more):
        return self.role("scheduler", "--listen", "%s:%d" % (host, self.port), *more)

    def __enter__(self):
        self.frontend.start()
        return self

    def __exit__(self, *error):
        for role in self.roles:
            role.end(error[0])
        self.frontend.__exit__(*error)

    def ready(self):
        return self.frontend.request("GET", "/v2/models/m-1/ready")[0] == 200

    def status(self):
        done = subprocess.run([*self.names.prefix, BINARY, "status", "--json", "--timeout", "60", *self.join],
                              capture_output=True, text=True)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def leads(self):
        """Whether who is asked does; who has just taken over may not yet."""
        status = self.status()
        return status and status["scheduler"]["leads"]


def test_schedulers_come_and_go(tmp_path, names):
    with Cluster(tmp_path, names, free_port()) as cluster:
        # Nobody knows the name yet.
        wait_until(lambda: cluster.backend.says("name not found; trying again") and
                   "name not found; trying again" in cluster.frontend.log_text())
        first = cluster.scheduler("127.0.0.3")
        names.set(schedulers=["127.0.0.2", "127.0.0.3"])  # at one of them nobody is
        wait_until(cluster.ready)
        assert cluster.backend.says("name not found; trying again") == 1 == cluster.backend.says("name found")
        clients = Clients(cluster)
        clients.answered(50)
        wait_until(cluster.leads)
        # Another one, somewhere else.
        first.kill()
        names.set(schedulers=["127.0.0.4", "127.0.0.5"])
        cluster.scheduler("127.0.0.5")
        wait_until(lambda: cluster.backend.says('msg="joined" scheduler=schedulers.test:%d/127.0.0.5' % cluster.port))
        clients.answered(50)
        clients.check()
        wait_until(lambda: len((cluster.status() or {"members": ()})["members"]) == 2)


def test_schedulers_find_each_other(tmp_path, names):
    port = free_port()
    with Cluster(tmp_path, names, port) as cluster:
        peers = "--peers", "one.test:%d,two.test:%d" % (port, port)
        names.set(schedulers=["127.0.0.2", "127.0.0.3"], one=["127.0.0.2"], two=["127.0.0.3"])
        one = cluster.scheduler("127.0.0.2", *peers, "--advertise", "one.test:%d" % port)
        two = cluster.scheduler("127.0.0.3", *peers, "--advertise", "two.test:%d" % port)
        wait_until(cluster.ready)
        clients = Clients(cluster)
        clients.answered(50)
        leader, other = (one, two) if one.leads() else (two, one)
        name, address = ("two", "127.0.0.4") if other is two else ("one", "127.0.0.4")
        kept = "127.0.0.2" if leader is one else "127.0.0.3"
        # The one that stands by comes back with another address, and takes over from there.
        other.kill()
        names.set(schedulers=[kept, address], **{name: [address], "one" if name == "two" else "two": [kept]})
        connected = leader.says("another scheduler connected")
        other = cluster.scheduler(address, *peers, "--advertise", "%s.test:%d" % (name, port))
        wait_until(lambda: leader.says("another scheduler connected") > connected and
                   other.says("another scheduler connected"))
        wait_until(cluster.leads)
        leader.kill()
        wait_until(lambda: other.says('msg="leads"'))
        clients.answered(50)
        clients.check()


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as one:
            one.bind(("::1", 0))
        return True
    except OSError:
        return False


@pytest.mark.skipif(not has_ipv6(), reason="no IPv6 here")
@pytest.mark.parametrize("listen, frontend, backend", [("[::1]", "[::1]", "[::1]"), ("", "[::1]", "127.0.0.1"),
                                                       ("[::]", "127.0.0.1", "[::1]")])
def test_addresses_of_ipv6(tmp_path, listen, frontend, backend):
    """Backends find a frontend at the address from which it has come to the scheduler, whichever family that is of."""
    scenario, port = tmp_path / "scenario.yaml", free_port()
    scenario.write_text("cluster: {accelerators: 1, type: test}\nmodels:\n  - {name: m, alpha_ms: 1, beta_ms: 1, slo_ms: 60000}\n"
                        "workload: {rate_rps: 10}\n")
    roles = [Role("scheduler", "--listen", "%s:%d" % (listen, port), "--open-links"),
             Role("backend", "--join", "%s:%d" % (backend, port), "--scenario", scenario, "--transport", "tcp")]
    try:
        with Frontend("--join", "%s:%d" % (frontend, port)) as served:
            inputs = [{"name": "INPUT", "datatype": "FP32", "shape": [1, 1], "data": [1]}]
            wait_until(lambda: served.infer("m", inputs)[0] == 200)
            shown = subprocess.run([BINARY, "status", "--json", "--timeout", "60", "--join", "%s:%d" % (frontend, port)],
                                   capture_output=True, text=True)
            members = {one["role"]: one["address"] for one in json.loads(shown.stdout)["members"]}
            assert members["frontend"].rsplit(":", 1)[0] == frontend
    finally:
        for role in roles:
            role.end()
