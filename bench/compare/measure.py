"""measure.py - all measurements of one server."""

import os
import time
from dataclasses import dataclass

import load
import models
from environments import say
from servers import CLOCK_TICKS, Server

PACE_RPS = 50
OVERLOAD = 1.5  # times the goodput
RECOVERY = 0.8
ARRIVALS = ("uniform", "poisson")
LOADED = ("mlp", "filetype")
OUTSTANDING = (32, 128)  # of the saturated tiny model; the better of the two counts


@dataclass(frozen=True)
class Plan:
    """How long each measurement takes, in seconds."""

    engine_s: float
    idle_s: float
    latency_s: float
    saturate_s: float
    probe_s: float
    overload_s: float
    recovery_s: float
    precision: float  # of a goodput, relative


FULL = Plan(engine_s=2, idle_s=5, latency_s=6, saturate_s=4, probe_s=4, overload_s=10, recovery_s=5, precision=0.03)
QUICK = Plan(engine_s=1, idle_s=2, latency_s=2, saturate_s=2, probe_s=1, overload_s=3, recovery_s=2, precision=0.15)


class Watch:
    """How much other processes take of the two cores while a server is measured."""

    def __init__(self, server: Server, client: load.Client):
        self.server, self.cores = server, {server.context.core, client.core}
        self.probe = server.context.quiet.probe
        self.began_s, self.began_busy_s, self.began_ours_s = time.monotonic(), self.busy_s(), self.ours_s()

    def busy_s(self) -> float:
        """Time in which the cores were not idle or, on a virtual machine, not there."""
        ticks = 0
        with open("/proc/stat") as file:
            for line in file:
                name, *fields = line.split()
                if name in {f"cpu{core}" for core in self.cores}:
                    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, fields[:8])
                    ticks += user + nice + system + irq + softirq + steal
        return ticks / CLOCK_TICKS

    def ours_s(self) -> float:
        """The server's, the driver's, the probes' and the finished clients' CPU time."""
        return self.server.cpu_s() + sum(os.times()[:4]) + self.probe.busy_s

    def others_share(self) -> float:
        elapsed_s = (time.monotonic() - self.began_s) * len(self.cores)
        others_s = self.busy_s() - self.began_busy_s - (self.ours_s() - self.began_ours_s)
        return max(0.0, others_s / elapsed_s)


def measure(server: Server, client: load.Client, plan: Plan, engine: dict) -> dict:
    """Measures one row. The server runs and has been checked."""
    watch = Watch(server, client)
    row = {"name": server.name, "title": server.title, "version": server.version(), "settings": server.settings,
           "tensors": server.tensors, "command": " ".join(server.command())}
    for model in models.MODELS.values():
        client.answered_rps(server, model, 1, 1)
    row["idle_cpu"] = idle_cpu(server, plan.idle_s)
    if "cost" in server.asked:
        cost(server, client, plan, engine, row)
    if "goodput" in server.asked:
        for name in LOADED:
            loaded(server, client, plan, models.MODELS[name], row)
    row["others_share"] = watch.others_share()
    return row


def undisturbed(server: Server, client: load.Client, row: dict, what: str, act):
    """The result of act(), which is repeated while something else disturbs it."""
    return server.context.quiet.measure(f"{server.name} {what}", act, lambda: load.settle(server, row["idle_cpu"]),
                                        lambda: Watch(server, client).others_share)


def cost(server: Server, client: load.Client, plan: Plan, engine: dict, row: dict) -> None:
    """What the server adds to the engine's cost: latency at a low rate, CPU time at saturation."""
    row["p50_ms"] = {}
    for name, model in models.MODELS.items():
        result = undisturbed(server, client, row, f"{name} at {PACE_RPS}/s",
                             lambda model=model: client.rate(server, model, PACE_RPS, plan.latency_s, "--spin"))
        row["p50_ms"][name] = result["latency_ms"]["p50"]
    row["added_ms"] = {name: row["p50_ms"][name] - engine[name]["paced_ms"] for name in LOADED}
    say(f"  {PACE_RPS}/s: p50 " + ", ".join(f"{name} {ms:.2f} ms" for name, ms in row["p50_ms"].items()))
    row.update(undisturbed(server, client, row, "saturated", lambda: saturated(server, client, plan.saturate_s)))
    say(f"  tiny saturated: {row['tiny_rps']:.0f}/s, {row['tiny_cpu_us']:.0f} us of CPU a request")


def idle_cpu(server: Server, seconds: float) -> float:
    """Share of a core that the idle server uses."""
    time.sleep(0.5)
    began = server.cpu_s()
    time.sleep(seconds)
    return (server.cpu_s() - began) / seconds


def saturated(server: Server, client: load.Client, seconds: float) -> dict:
    best = {"tiny_rps": 0.0, "tiny_cpu_us": 0.0}
    for outstanding in OUTSTANDING:
        began_cpu_s = server.cpu_s()
        rps = client.answered_rps(server, models.MODELS["tiny"], outstanding, seconds)
        if rps > best["tiny_rps"]:
            best = {"tiny_rps": rps, "tiny_cpu_us": (server.cpu_s() - began_cpu_s) * 1e6 / (rps * seconds)}
    return best


def loaded(server: Server, client: load.Client, plan: Plan, model: models.Model, row: dict) -> None:
    """Goodput at both kinds of arrivals, then overload, then whether the server recovers at once."""
    goodput = row.setdefault("goodput_rps", {}).setdefault(model.name, {})
    for arrivals in ARRIVALS:
        load.settle(server, row["idle_cpu"])
        goodput[arrivals] = undisturbed(
            server, client, row, f"{model.name}, {arrivals} arrivals",
            lambda arrivals=arrivals: client.goodput(server, model, plan.probe_s, plan.precision, arrivals))
        say(f"  {model.name}, {arrivals} arrivals: goodput {goodput[arrivals]:.0f}/s")
    held = goodput["uniform"]
    if held <= 0:
        return
    load.settle(server, row["idle_cpu"])
    during, after = undisturbed(server, client, row, f"{model.name}, overload",
                                lambda: overloaded(server, client, plan, model, held))
    row.setdefault("overload", {})[model.name] = {
        "good": 1 - during["bad_rate"], "goodput_kept": during["good_rps"] / held, "refused": during["refused_rate"],
        "refusal_p99_ms": during.get("refusal_ms", {}).get("p99"), "good_after": 1 - after["bad_rate"]}
    say(f"  {model.name} at {OVERLOAD} times that: {1 - during['bad_rate']:.1%} in time; "
        f"at {RECOVERY} times right after: {1 - after['bad_rate']:.1%}")


def overloaded(server: Server, client: load.Client, plan: Plan, model: models.Model, held: float) -> tuple[dict, dict]:
    """The answers during the overload, and after it."""
    overload = client.begin(server, model, *load.open_loop(model, OVERLOAD * held, plan.overload_s))
    try:
        time.sleep(load.WARMUP_S + plan.overload_s)  # the client still waits for its last answers, while we go on
        after = client.rate(server, model, RECOVERY * held, plan.recovery_s)
    except BaseException:
        overload.kill()
        overload.communicate()
        raise
    return client.end(overload), after
