"""test_registry_rude.py - a registry that the test plays: it answers nonsense, too much, half or nothing, or its answer finds no memory.
The scheduler says what is wrong, leads on, and is back as soon as the registry is."""
import base64
import contextlib
import json
import os
import socket
import threading
import time

import pytest

from server import free_port, wait_until
from test_refusals import Refusals, library  # noqa: F401
from test_standby import Role, status_of

SESSION = ("lease/keepalive", "lease/grant", "kv/put", "kv/range", "watch")
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def coded(text):
    return base64.b64encode(text.encode()).decode()


class Registry:
    """As much of etcd's JSON gateway as a scheduler asks for. `rude`: by path, what is done in place of the next answer."""

    def __init__(self):
        self.lock, self.revision, self.keys, self.leases, self.watches, self.rude, self.sessions = threading.Lock(), 1, {}, 0, [], {}, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.accepting = threading.Thread(target=self.accept)
        self.accepting.start()

    def accept(self):
        with contextlib.suppress(OSError):  # at the end
            while True:
                threading.Thread(target=self.serve, args=(self.listener.accept()[0],), daemon=True).start()

    def end(self):
        """Its thread first, which would otherwise take the connections of the next one, where that has its descriptor's number."""
        self.listener.shutdown(socket.SHUT_RDWR)
        self.accepting.join()
        self.listener.close()

    def serve(self, connection):
        try:
            with connection, connection.makefile("rb") as asked:
                while line := asked.readline():
                    path, length = line.split()[1].decode().removeprefix("/v3/"), 0
                    while (line := asked.readline().lower()) != b"\r\n":
                        length = int(line.split(b":")[1]) if line.startswith(b"content-length:") else length
                    body = json.loads(asked.read(length))
                    session = path != "kv/range" or "range_end" in body  # else a leader looks at its own key
                    with self.lock:
                        rude, answer = self.rude.pop(path, None) if session else None, json.dumps(self.answer(path, body)).encode()
                        goes_on = path == "watch" and not rude
                        self.watches += [connection] if goes_on else []
                        self.sessions += goes_on
                    if rude:
                        rude(connection, answer)
                        return
                    length = b"" if goes_on else b"Content-Length: %d\r\n" % len(answer)
                    connection.sendall(HEAD + length + b"\r\n" + answer + b"\n" * goes_on)
        except OSError:
            pass

    def pair(self, key):
        return {"key": key, "value": self.keys[key][0], "mod_revision": str(self.keys[key][1])}

    def put(self, pair):
        self.revision += 1
        self.keys[pair["key"]] = pair["value"], self.revision

    def answer(self, path, body):
        header = {"header": {"revision": str(self.revision)}}
        if path == "lease/grant":
            self.leases += 1
            return {"ID": str(self.leases), "TTL": "5"}
        if path == "lease/keepalive":
            return {"result": {"ID": body["ID"], "TTL": "5"}}
        if path == "kv/put":
            self.put(body)
        if path == "kv/range":
            ends = base64.b64decode(body.get("range_end", ""))
            return {**header, "kvs": [self.pair(key) for key in self.keys if ends or key == body["key"]]}
        if path == "watch":
            return {"result": {**header, "created": True}}
        if path == "kv/txn":
            asked = body["compare"][0]
            there = asked["key"] in self.keys
            if asked["mod_revision"] != str(self.keys[asked["key"]][1] if there else 0):
                return {**header, "responses": [{"response_range": {"kvs": [self.pair(asked["key"])] if there else []}}]}
            self.put(body["success"][0]["request_put"])
            return {"header": {"revision": str(self.revision)}, "succeeded": True}
        return header

    def cut(self):
        """The watch ends, so that a session begins; with a new lease, if its answers are rude."""
        def end():
            if self.rude.keys() & {"lease/grant", "kv/put"}:
                self.rude.setdefault("lease/keepalive", says({"result": {"ID": "1"}}))
            with self.lock:
                for watch in self.watches:
                    with contextlib.suppress(OSError):  # one that the scheduler has ended itself, since it stood still
                        watch.shutdown(socket.SHUT_RDWR)
                self.watches.clear()

        def over():
            """Where the scheduler stood still, a session has begun that had asked before: then once more."""
            begun = self.sessions > sessions
            if begun and self.rude:
                end()
            return begun and not self.rude
        sessions = self.sessions
        end()
        wait_until(over)


def says(answer, status=b"200 OK"):
    body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
    return lambda connection, _: connection.sendall(b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n" % (status, len(body)) + body)


def half(connection, answer):
    connection.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(answer) + answer[:len(answer) // 2])


def endless(connection, _):
    connection.sendall(HEAD + b"\r\n")
    while True:
        connection.sendall(b"{" * 65536)


RUDE = {"half": (half, "a partial file"), "endless": (endless, "an answer of more than 4194304 bytes"),
        "nothing": (lambda connection, _: None, "Server returned nothing"),
        "silence": (lambda connection, _: connection.recv(1), "Timeout was reached"),
        "page": (says(b"<html>bad", b"502 Bad Gateway"), "HTTP status 502: <html>bad"),
        "no JSON": (says(os.urandom(2000)), "not JSON as etcd's"), "deep": (says(b"[" * 100000), "maximum parsing depth"),
        "full": (says({"error": "etcdserver: mvcc: database space exceeded"}, b"429 Too Many Requests"), "database space exceeded"),
        "compacted": (says(b'{"result":{"canceled":true,"compact_revision":"7"}}\n'), "the registry has ended the watch"),
        "types": (says({"header": 5, "kvs": 7, "result": {"header": [], "events": {}, "ID": [], "TTL": {}}}), "no revision"),
        "keys": (says({"header": {"revision": "9"}, "kvs": [1, None, {"key": 5}]}), "a key that is none")}


@pytest.fixture
def registry():
    played = Registry()
    yield played
    played.end()


def scheduler_at(registry, env=None):
    return Role("scheduler", "--listen", "127.0.0.1:%d" % free_port(), "--registry", "etcd://127.0.0.1:%d/t" % registry.port, env=env)


def scheduler_of(registry, env=None):
    """One that leads, in a session that has begun."""
    scheduler = scheduler_at(registry, env)
    wait_until(lambda: registry.sessions and scheduler.says('msg="leads"') or scheduler.process.poll() is not None)
    return scheduler


def test_answers_of_all_kinds(registry):
    scheduler = scheduler_of(registry)
    try:
        for path in SESSION:
            for name, (rude, why) in RUDE.items():
                if name == "silence" and path == "watch":
                    continue  # that is a watch during which nothing changes
                registry.rude[path] = rude
                registry.cut()
                assert scheduler.process.poll() is None, (path, name)
        for name, (_, why) in RUDE.items():
            assert scheduler.says(why), name
        assert status_of(("--registry", "etcd://127.0.0.1:%d/t" % registry.port))["scheduler"]["leads"]
        assert not scheduler.says('msg="leads no more"')
    finally:
        scheduler.end()


def test_who_cannot_lead_says_why(registry):
    """Of a registry that is full, and otherwise well."""
    registry.rude["kv/txn"], why = RUDE["full"]
    scheduler = scheduler_at(registry)
    try:
        wait_until(lambda: scheduler.says(why))
        assert scheduler.says('msg="a question to the registry failed"')
        wait_until(lambda: scheduler.says('msg="leads"'))
    finally:
        scheduler.end()


def test_an_answer_that_found_no_memory_is_asked_for_again(registry, library, tmp_path):  # noqa: F811
    """Also if it is the first that is so long."""
    refusals, least = Refusals(library, tmp_path), 2**17  # nothing else of a scheduler takes so much
    scheduler = scheduler_of(registry, refusals.env)
    try:
        for n in range(3):
            registry.keys[coded("t/%d" % n)] = coded(least * 2**n * "x"), 1
            refusals.refuse("memory", most=1, least=least)
            registry.cut()
            refusals.stop()
            assert scheduler.process.poll() is None
            assert scheduler.says("out of memory") == n + 1
    finally:
        scheduler.end()
