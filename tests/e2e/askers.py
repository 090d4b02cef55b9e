"""askers.py - clients that ask at a steady rate, whatever comes of it, and keep a log of what each request was told; and who checks it.

One answer a request, and the right one, or an error that its client was told of: see check()."""
import asyncio
import collections
import dataclasses
import itertools
import json
import threading
import time

IDLE_MOST = 64  # connections to a frontend that are kept


@dataclasses.dataclass
class Asked:
    name: str
    model: str
    frontend: str
    deadline_s: float
    sent: float  # time.monotonic()
    since: float  # from when on its connection had nothing to say: `sent`, if it was a new one
    told: float = None
    status: int = None  # of HTTP; None: the connection broke, or no answer came
    error: str = ""
    right: bool = False

    def good(self):
        return self.right and self.told - self.sent <= self.deadline_s

    def took(self):
        return self.told - self.sent


def right_of_neg(value, answer):
    """The model is y = -x, of 4 numbers."""
    out = answer["outputs"][0]
    return out["shape"] == [1, 4] and out["data"] == [-(value + i) for i in range(4)]


def right_of_emulated(value, answer):
    out = answer["outputs"][0]
    return out["shape"] == [1, 1] and len(out["data"]) == 1


def ask_neg(value):
    return {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [value + i for i in range(4)]}


def ask_emulated(value):
    return {"name": "INPUT", "datatype": "FP32", "shape": [1, 1], "data": [value]}


MODELS = {"neg": (ask_neg, right_of_neg)}  # others are emulated


class Askers:
    """with Askers(frontends, rate, deadline_s) as askers: ...  Each request goes to the next frontend that takes connections.

    `deadline_s` is a number, or a function without arguments that draws one. `patience_s` is how long beyond its deadline a
    request is waited for."""

    def __init__(self, frontends, rate, deadline_s, models=("m-1", "m-2"), patience_s=3):
        self.frontends, self.rate, self.models, self.patience_s = list(frontends), rate, models, patience_s
        self.deadline_s = deadline_s if callable(deadline_s) else lambda: deadline_s
        self.log, self.idle = [], collections.defaultdict(list)
        self.numbers = itertools.count()
        self.stop, self.loop = None, None
        self.away = collections.defaultdict(float)  # until when a frontend that refused connections is left alone
        self.thread = threading.Thread(target=lambda: asyncio.run(self.run()))

    def __enter__(self):
        ready = threading.Event()
        self.ready = ready
        self.thread.start()
        ready.wait()
        return self

    def __exit__(self, *error):
        self.end()

    def end(self):
        """Waits until each request has been told, or its client has lost patience."""
        if self.thread.is_alive():
            self.loop.call_soon_threadsafe(self.stop.set)
        self.thread.join()

    async def run(self):
        self.loop, self.stop = asyncio.get_running_loop(), asyncio.Event()
        self.ready.set()
        tasks, due = set(), time.monotonic()
        while not self.stop.is_set():
            task = asyncio.ensure_future(self.ask())
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            due = max(due + 1 / self.rate, time.monotonic() - 1)
            try:
                await asyncio.wait_for(self.stop.wait(), max(0, due - time.monotonic()))
            except asyncio.TimeoutError:
                pass
        await asyncio.gather(*tasks)
        for connections in self.idle.values():
            for _, writer, _ in connections:
                writer.close()

    def choose(self, number):
        now = time.monotonic()
        near = [one for one in self.frontends if self.away[one.host] < now] or self.frontends
        return near[number % len(near)]

    async def ask(self):
        number = next(self.numbers)
        model, frontend = self.models[number % len(self.models)], self.choose(number // len(self.models))
        asked = Asked("r%d" % number, model, frontend.host, self.deadline_s(), *2 * (time.monotonic(),))
        self.log.append(asked)
        try:
            await asyncio.wait_for(self.exchange(asked, frontend, number), asked.deadline_s + self.patience_s)
        except asyncio.TimeoutError:
            asked.error = "no answer"
            self.away[frontend.host] = time.monotonic() + 0.5
        except (OSError, asyncio.IncompleteReadError) as error:
            asked.error = repr(error)
            self.away[frontend.host] = time.monotonic() + 0.2
        asked.told = time.monotonic()

    async def exchange(self, asked, frontend, number):
        body, right = MODELS.get(asked.model, (ask_emulated, right_of_emulated))
        value = number % 100003
        text = json.dumps({"id": asked.name, "inputs": [body(value)],
                           "parameters": {"timeout": int(asked.deadline_s * 1e6)}}).encode()
        idle = self.idle[frontend.host]
        while idle and (idle[-1][0].at_eof() or idle[-1][1].is_closing()):
            idle.pop()[1].close()
        if idle:
            reader, writer, asked.since = idle.pop()
        else:
            reader, writer = await asyncio.open_connection(frontend.at, 8000)
        keep = False
        try:
            writer.write(b"POST /v2/models/%s/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" %
                         (asked.model.encode(), len(text)) + text)
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            length = int(head.split("content-length:")[1].split("\r\n")[0])
            answer = json.loads(await reader.readexactly(length) or b"{}")
            keep = "connection: close" not in head and len(idle) < IDLE_MOST
            asked.status = int(head.split(" ", 2)[1])
            if asked.status == 200:
                asked.right = answer.get("id") == asked.name and right(value, answer)
            else:
                asked.error = answer.get("error", "")
        finally:
            if keep:
                idle.append((reader, writer, time.monotonic()))
            else:
                writer.close()

    # ---- what they were told ----

    def told(self):
        return [one for one in list(self.log) if one.told]

    def good(self):
        return sum(one.good() for one in self.told())

    def since(self, moment):
        """Those that were sent from then on, and told."""
        return [one for one in self.told() if one.sent >= moment]

    def all_good(self, count):
        """Whether the last so many to be told all were good."""
        last = sorted(self.told(), key=lambda one: one.told)[-count:]
        return len(last) == count and all(one.good() for one in last)

    def check(self, excused=lambda asked: False, statuses={}):
        """Each request got one answer, and the right one, or an error with a reason. `statuses`: further ones that a model's may have.
        `excused` says of which the connection may
        have broken, since their frontend was in trouble. (A second answer would be taken for the next request's on the same
        connection, whose name it has not: then that one is wrong.)"""
        for one in self.told():
            if one.status == 200:
                assert one.right, one
            elif one.status is not None:
                assert one.status in (503, 504, 429, 400, 404, *statuses.get(one.model, ())) and one.error, one
            else:
                assert excused(one), one
        assert len(self.told()) == len(self.log)
