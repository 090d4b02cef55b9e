"""test_registry_tls.py - a cluster whose etcd speaks TLS, asks for certificates, and lets in only who logs in."""
import contextlib
import json
import os
import ssl
import subprocess
import urllib.error
import urllib.request

import pytest

from certificates import Authority
from server import BINARY, free_port, wait_until
from test_cluster_partial import ready
from test_standby import ETCD, Frontend, Role, status_of

ROOT = {"name": "root", "password": "first"}


class Etcd:
    """etcd, with one user, and a lease as short as the cluster's needs."""

    def __init__(self, folder):
        self.folder, self.authority = folder, Authority(folder)
        self.port, self.peer = free_port(), free_port()
        self.certificate, self.key = self.authority.sign("etcd")
        self.client, self.client_key = self.authority.sign("client", subject="/O=symphony")  # etcd takes no common name here
        self.context = ssl.create_default_context(cafile=self.authority.path)
        self.context.load_cert_chain(self.client, self.client_key)
        self.token = None
        self.start()
        for path, body in (("user/add", ROOT), ("role/add", {"name": "root"}), ("user/grant", {"user": "root", "role": "root"}),
                           ("enable", {})):
            self.ask("/v3/auth/" + path, body)

    def start(self):
        url, peer = "https://127.0.0.1:%d" % self.port, "http://127.0.0.1:%d" % self.peer
        self.log = open(self.folder / "etcd.log", "a")
        self.process = subprocess.Popen(
            [ETCD, "--data-dir", self.folder / "etcd", "--listen-client-urls", url, "--advertise-client-urls", url, "--cert-file",
             self.certificate, "--key-file", self.key, "--trusted-ca-file", self.authority.path, "--client-cert-auth",
             "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default=" + peer],
            stdout=self.log, stderr=self.log, env={**os.environ, "ETCD_UNSUPPORTED_ARCH": "arm64"})
        wait_until(self.answers)

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.log.close()

    def ask(self, path, body):
        request = urllib.request.Request("https://127.0.0.1:%d%s" % (self.port, path), json.dumps(body).encode(),
                                         {"Authorization": self.token} if self.token else {})
        with urllib.request.urlopen(request, context=self.context, timeout=600) as answer:
            return json.load(answer)

    def answers(self):
        with contextlib.suppress(OSError):
            with urllib.request.urlopen("https://127.0.0.1:%d/health" % self.port, context=self.context, timeout=10) as answer:
                return json.load(answer)["health"] == "true"

    def login(self):
        self.token = None
        self.token = self.ask("/v3/auth/authenticate", ROOT)["token"]


@pytest.fixture
def etcd(tmp_path):
    if not os.path.exists(ETCD):
        pytest.skip("etcd is not installed (./run test does it)")
    made = Etcd(tmp_path)
    yield made
    made.stop()


def test_etcd_with_tls_and_login(etcd, tmp_path):
    """A cluster finds its leader there. It goes on when etcd has forgotten the tokens, and when the password has changed."""
    login = tmp_path / "login"
    login.write_text("root:first\n")
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text("cluster: {accelerators: 1, type: test}\nmodels: [{name: m, alpha_ms: 1, beta_ms: 1, slo_ms: 60000}]\n"
                        "workload: {rate_rps: 10}\n")
    join = ("--registry", "etcds://127.0.0.1:%d/test" % etcd.port, "--registry-ca", etcd.authority.path, "--registry-cert",
            etcd.client, "--registry-key", etcd.client_key, "--registry-login", login)
    inputs = [{"name": "INPUT", "datatype": "FP32", "shape": [1, 1], "data": [1]}]
    addresses = ["127.0.0.1:%d" % free_port() for _ in range(2)]
    roles = [Role("scheduler", "--listen", addresses[0], *join), Role("backend", *join, "--scenario", scenario)]
    try:
        wait_until(lambda: roles[0].says('msg="leads"'))
        with Frontend(*join) as frontend:
            wait_until(lambda: ready(frontend))
            assert frontend.infer("m", inputs)[0] == 200
            assert status_of(join)["scheduler"]["leads"]
            # without tokens a standby can neither join nor take over
            etcd.stop()
            etcd.start()
            wait_until(lambda: roles[0].says('msg="registry is back"'))
            roles.append(Role("scheduler", "--listen", addresses[1], *join))
            wait_until(lambda: roles[2].says('msg="another scheduler"'))
            # a new password: the one in the file counts from then on
            etcd.login()
            etcd.ask("/v3/auth/user/changepw", {"name": "root", "password": "second"})
            login.write_text("root:second\n")
            roles[0].kill()
            wait_until(lambda: roles[2].says('msg="leads"'))
            wait_until(lambda: frontend.infer("m", inputs)[0] == 200)
    finally:
        for role in roles:
            role.end()


def leads_on(etcd, tmp_path, name):
    """Whether a scheduler whose user etcd has deleted does. If it stands still for 0.3 s, the other one takes over."""
    etcd.login()
    etcd.ask("/v3/auth/user/add", {"name": "other", "password": "same"})
    etcd.ask("/v3/auth/user/grant", {"user": "other", "role": "root"})
    join, roles = [], []
    for user in ("other:same", "root:first"):
        login = tmp_path / user.partition(":")[0]
        login.write_text(user)
        join.append(("--registry", "etcds://127.0.0.1:%d/%s" % (etcd.port, name), "--registry-ca", etcd.authority.path, "--registry-cert",
                     etcd.client, "--registry-key", etcd.client_key, "--registry-login", login))
    try:
        for more in join:
            roles.append(Role("scheduler", "--listen", "127.0.0.1:%d" % free_port(), *more))
            wait_until(lambda: roles[-1].says('msg="leads"') or roles[-1].says('msg="another scheduler"'))
        wait_until(lambda: roles[0].says("another scheduler connected") and roles[1].says("another scheduler connected"))
        etcd.ask("/v3/auth/user/delete", {"name": "other"})
        wait_until(lambda: roles[1].says('msg="a scheduler has left the registry') or roles[1].says('msg="leads"'))
        wait_until(lambda: roles[0].says("invalid user ID or password"))
        assert roles[0].says("invalid user ID or password") == 1  # and no line each time that it is tried again
        assert status_of(join[1])["scheduler"]["leads"]
        leads = not roles[1].says('msg="leads"')
        roles[0].kill()
        wait_until(lambda: roles[1].says('msg="leads"'))
        return leads
    finally:
        for role in roles:
            role.end()


def test_leader_that_etcd_refuses(etcd, tmp_path):
    """It leads on: the one that stands by hears it, whatever etcd has forgotten. In one of ten tries."""
    assert any(leads_on(etcd, tmp_path, "test-%d" % n) for n in range(10))


def test_etcd_says_what_is_wrong(etcd, tmp_path):
    login, stranger = tmp_path / "login", Authority(tmp_path, "stranger")
    login.write_text("root:wrong\n")
    url = "etcds://127.0.0.1:%d/test" % etcd.port
    tls = ("--registry-ca", etcd.authority.path, "--registry-cert", etcd.client, "--registry-key", etcd.client_key)
    short, short_key = etcd.authority.sign("short", expired=True, subject="/O=symphony")
    early = ("--registry-ca", etcd.authority.path, "--registry-cert", short, "--registry-key", short_key)
    for more, why in (((*tls, "--registry-login", login), "invalid user ID or password"),
                      (("--registry-ca", stranger.path), "etcd's certificate has expired, is for another host, or is of another authority"),
                      (early, "our certificate has expired: --registry-cert %s" % short),
                      (tls, "user name is empty")):
        scheduler = Role("scheduler", "--listen", "127.0.0.1:%d" % free_port(), "--registry", url, *more)
        try:
            wait_until(lambda: scheduler.says(why))
            assert not scheduler.says("wrong\n") and not scheduler.says('msg="leads"')
            if login in more:  # status says it, too; and so the log what else is wrong
                wait_until(lambda: why in subprocess.run([BINARY, "status", "--registry", url, *more, "--timeout", "1"],
                                                         capture_output=True, text=True, timeout=600).stderr)
                login.write_text("")
                wait_until(lambda: scheduler.says("its first line is not USER:PASSWORD"))
        finally:
            scheduler.end()
    for more, why in ((("--registry-cert", etcd.client), "--registry-cert and --registry-key go together"),
                      (("--registry-ca", tmp_path / "none"), "--registry-ca: '%s': No such file or directory" % (tmp_path / "none")),
                      (("--registry-login", etcd.client), "--registry-login: '%s': its first line is not USER:PASSWORD" % etcd.client)):
        done = subprocess.run([BINARY, "scheduler", "--listen", "127.0.0.1:0", "--no-metrics", "--registry", url, *more],
                              capture_output=True, text=True, timeout=600)
        assert (done.returncode, done.stderr) == (2, "symphony scheduler: %s\n" % why)
