"""measure.py - measures all servers in turns, several times: what disturbs the machine disturbs them alike, and ranges show it."""

import time
from dataclasses import dataclass

import load
import models
from environments import say
from servers import Server

PACE_RPS = 50
LOADED = ("mlp", "filetype")
SHARES = (0.25, 0.5, 0.75, 1.0, 1.5)  # of what the engine alone does in its best batch: the rates that are offered
RECOVERY = 0.5  # right after the last of them
OUTSTANDING = (32, 128)  # of the saturated tiny model; the better of the two counts


@dataclass(frozen=True)
class Plan:
    """How often everything is measured, and for how many seconds."""

    rounds: int
    engine_s: float
    idle_s: float
    latency_s: float
    saturate_s: float
    load_s: float


FULL = Plan(rounds=3, engine_s=1, idle_s=2, latency_s=2, saturate_s=2, load_s=3)
QUICK = Plan(rounds=1, engine_s=0.3, idle_s=1, latency_s=1, saturate_s=1, load_s=1)


def row_of(server: Server) -> dict:
    return {"name": server.name, "title": server.title, "version": server.version(), "settings": server.settings,
            "tensors": server.tensors, "command": " ".join(server.command()), "idle_cpu": [], "tiny_rps": [],
            "tiny_cpu_us": [], "p50_ms": {name: [] for name in models.MODELS}, "loads": {}}


def cost(server: Server, client: load.Client, plan: Plan, row: dict) -> None:
    """What the server takes while it is idle, at a low rate, and saturated."""
    with server.awake():
        row["idle_cpu"].append(idle_cpu(server, plan.idle_s))
        for name, model in models.MODELS.items():
            result = client.rate(server, model, PACE_RPS, plan.latency_s, "uniform", "--spin")
            row["p50_ms"][name].append(result["latency_ms"]["p50"])
        rps, cpu_us = saturated(server, client, plan.saturate_s)
        row["tiny_rps"].append(rps)
        row["tiny_cpu_us"].append(cpu_us)
        say(f"  {server.title}: {rps:.0f}/s of tiny, {cpu_us:.0f} us of CPU a request; p50 at {PACE_RPS}/s "
            + ", ".join(f"{name} {p50[-1]:.2f} ms" for name, p50 in row["p50_ms"].items()))


def idle_cpu(server: Server, seconds: float) -> float:
    """Share of a core that the idle server uses."""
    time.sleep(0.5)
    began = server.cpu_s()
    time.sleep(seconds)
    return (server.cpu_s() - began) / seconds


def saturated(server: Server, client: load.Client, seconds: float) -> tuple[float, float]:
    """Answers of the tiny model a second, and the server's CPU time for each in us."""
    best = (0.0, 0.0)
    for outstanding in OUTSTANDING:
        began_cpu_s = server.cpu_s()
        rps = client.answered_rps(server, models.MODELS["tiny"], outstanding, seconds)
        best = max(best, (rps, (server.cpu_s() - began_cpu_s) * 1e6 / (rps * seconds)))
    return best


def loaded(server: Server, client: load.Client, plan: Plan, row: dict, model: models.Model, share: float,
           best_rps: float) -> None:
    """A share of the engine's best rate is offered; the largest share is followed at once by RECOVERY."""
    results = row["loads"].setdefault(model.name, {"after": []})
    with server.awake():
        running = client.begin(server, model, *load.open_loop(model, share * best_rps, plan.load_s, "poisson"))
        try:
            time.sleep(load.WARMUP_S + plan.load_s)  # then the client still waits for its last answers
            if share == SHARES[-1]:
                results["after"].append(good(server, lambda: client.rate(server, model, RECOVERY * best_rps, plan.load_s,
                                                                         "poisson")))
        except BaseException:
            running.kill()
            running.communicate()
            raise
        results.setdefault(share, []).append(good(server, lambda: client.end(running)))
        say(f"  {model.name} at {share * best_rps:.0f}/s, {server.title}: {results[share][-1]['share']:.1%} in time"
            + (f", {results['after'][-1]['share']:.1%} right after" if share == SHARES[-1] else ""))


def good(server: Server, load_of) -> dict:
    """What a load's result says; nothing is good if the client has waited for an answer in vain."""
    try:
        result = load_of()
    except load.LoadError:
        if server.process.poll() is not None:
            raise
        result = {"bad_rate": 1.0, "good_rps": 0.0, "refused_rate": 0.0}
    return {"share": 1 - result["bad_rate"], "rps": result["good_rps"], "refused": result["refused_rate"]}
