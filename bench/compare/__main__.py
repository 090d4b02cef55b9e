"""The driver of `./run compare`: sets the servers up, measures them in turns, writes the document."""

import argparse
import contextlib
import dataclasses
import datetime
import json
import os
import platform
import shlex
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path

import check
import engine
import environments
import load
import measure
import models
import report
import servers
from environments import say

TOP = Path(__file__).resolve().parents[2]
ROOT = TOP / "build" / "compare"


def arguments_parse() -> argparse.Namespace:
    names = [server.name for server in servers.SERVERS]
    parser = argparse.ArgumentParser(prog="./run compare", description="Measures Symphony beside other model servers.")
    parser.add_argument("--quick", action="store_true", help="short measurements: to see that it works")
    parser.add_argument("--only", metavar="NAME", action="append", choices=names,
                        help=f"this server only; may be repeated ({', '.join(names)})")
    parser.add_argument("--setup-only", action="store_true", help="set up, start and check, measure nothing")
    parser.add_argument("--output", type=Path, metavar="FILE",
                        help="the document (default: docs/comparison.md; in build/compare with --quick or --only); the charts go "
                        "to images/ beside it")
    parser.add_argument("--client", type=Path, metavar="FILE", default=TOP / "build" / "release" / "symphony",
                        help="the program whose `bench` is the client (default: build/release/symphony)")
    parser.add_argument("--port", type=int, default=19200, help="the first of the servers' ports, three for each (default: 19200)")
    parser.add_argument("--server-core", type=int, metavar="N", help="default: the first core this process may use")
    parser.add_argument("--client-core", type=int, metavar="N", help="default: another core, not its hyperthread")
    return parser.parse_args()


def siblings(core: int) -> set[int]:
    """The hyperthreads of a core."""
    path = Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list")
    if not path.exists():
        return {core}
    found = set()
    for part in path.read_text().strip().split(","):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def cores_choose(arguments: argparse.Namespace) -> tuple[int, int]:
    usable = sorted(os.sched_getaffinity(0))
    server = arguments.server_core if arguments.server_core is not None else usable[0]
    others = [core for core in usable if core != server]
    apart = [core for core in others if core not in siblings(server)]
    if arguments.client_core is None and not others:
        sys.exit("compare: needs two cores, one for the server and one for the client")
    return server, arguments.client_core if arguments.client_core is not None else (apart or others)[0]


def machine_text() -> str:
    info = Path("/proc/cpuinfo").read_text()
    model = next((line.partition(":")[2].strip() for line in info.splitlines() if line.startswith("model name")), "?")
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    release = platform.freedesktop_os_release()
    return (f"{os.cpu_count()} cores ({model}, {platform.machine()}), {memory_gib:.0f} GiB, "
            f"{release.get('PRETTY_NAME', 'Linux')}, Linux {platform.release()}")


def interrupted(_signal, _frame):
    raise KeyboardInterrupt


class Turns:
    """The servers that are measured. All have been started and checked; only the one whose turn it is runs. One that
    fails is left out from then on, and `failed` says why."""

    def __init__(self, client: load.Client, plan: measure.Plan):
        self.client, self.plan = client, plan
        self.rows: dict[servers.Server, dict] = {}
        self.failed: dict[str, str] = {}

    def begin(self, server: servers.Server) -> None:
        with self.or_left_out(server):
            server.prepare()
            server.start()
            check.check(server, server.context.onnx)
            say("  its answers are the engine's")
            self.rows[server] = measure.row_of(server)
            server.send(signal.SIGSTOP)

    def round(self, best_rps: dict[str, float]) -> None:
        """`best_rps`: what the engine alone does of each model."""
        self.each("cost", measure.cost)
        for name in measure.LOADED:
            for share in measure.SHARES:
                self.each("loads", measure.loaded, models.MODELS[name], share, best_rps[name])

    def each(self, what: str, act, *arguments) -> None:
        for server in [server for server in self.rows if what in server.asked]:
            with self.or_left_out(server):
                act(server, self.client, self.plan, self.rows[server], *arguments)

    @contextlib.contextmanager
    def or_left_out(self, server: servers.Server):
        try:
            yield
        except Exception as error:  # whatever a server does, the others are still measured
            if not isinstance(error, (environments.Unavailable, load.LoadError, ValueError)):
                traceback.print_exc()
            say(f"  {server.title} is left out: {error}")
            self.failed[server.title] = str(error).replace(str(TOP) + "/", "")
            self.rows.pop(server, None)
            server.stop()

    def end(self) -> None:
        for server, row in self.rows.items():
            server.stop()
            row["stop"] = server.stop_note


def main() -> int:
    arguments = arguments_parse()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupted)
    began = time.monotonic()
    plan = measure.QUICK if arguments.quick or arguments.setup_only else measure.FULL
    server_core, client_core = cores_choose(arguments)
    os.sched_setaffinity(0, {client_core})  # nothing of ours disturbs the server
    onnx = models.make_all(ROOT / "models", TOP / "models")

    def engine_alone() -> dict:
        return engine.measure_all(Path(sys.executable), server_core, onnx, plan.engine_s, measure.PACE_RPS)

    say(f"compare: the engine alone, on core {server_core}")
    alone = [engine_alone()]
    best_rps = {name: report.best_rps(found) for name, found in alone[0].items()}
    say("  " + ", ".join(f"{name} {rps:.0f}/s" for name, rps in best_rps.items()))
    context = servers.Context(ROOT, TOP, server_core, onnx, alone[0])
    log = ROOT / "log" / "client.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)

    turns = Turns(load.Client(arguments.client, client_core, log), plan)
    chosen = [server for server in servers.SERVERS if not arguments.only or server.name in arguments.only]
    try:
        for number, kind in enumerate(chosen):
            say(f"compare: {kind.title} ({number + 1} of {len(chosen)})")
            turns.begin(kind(context, arguments.port + 3 * number))
        for number in range(0 if arguments.setup_only else plan.rounds):
            say(f"compare: round {number + 1} of {plan.rounds} ({(time.monotonic() - began) / 60:.0f} min)")
            if number > 0:
                alone.append(engine_alone())
            turns.round(best_rps)
    finally:
        turns.end()
    if arguments.setup_only:
        return 1 if turns.failed else 0
    result = {
        "date": datetime.date.today().isoformat(), "invocation": shlex.join(["./run", "compare", *sys.argv[1:]]),
        "machine": machine_text(), "server_core": server_core, "client_core": client_core,
        "python": platform.python_version(), "plan": dataclasses.asdict(plan), "engine": alone, "best_rps": best_rps,
        "engine_version": environments.ENGINE.partition("==")[2], "batch": context.batch,
        "client_version": version_of(arguments.client), "rows": list(turns.rows.values()), "failed": turns.failed}
    (ROOT / "results.json").write_text(json.dumps(result, indent=1))
    output = arguments.output or (ROOT / "comparison.md" if arguments.quick or arguments.only
                                  else TOP / "docs" / "comparison.md")
    for name in measure.LOADED:
        models.write(output.parent / "images" / f"compare-{name}.svg", report.chart(result, name))
    models.write(output, report.document(result).replace(str(TOP) + "/", ""))
    say(f"compare: {output} written after {(time.monotonic() - began) / 60:.0f} min")
    return 1 if turns.failed else 0


def version_of(program: Path) -> str:
    return subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("compare: interrupted")
