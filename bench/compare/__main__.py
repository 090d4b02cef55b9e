"""The driver of `./run compare`: sets the servers up, measures one after the other, writes the document."""

import argparse
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
import quiet
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
                        help="the document (default: docs/comparison.md; in build/compare with --quick or --only)")
    parser.add_argument("--client", type=Path, metavar="FILE", default=TOP / "build" / "release" / "symphony",
                        help="the program whose `bench` is the client (default: build/release/symphony)")
    parser.add_argument("--port", type=int, default=19200, help="the servers' first port, of three (default: 19200)")
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


def run_server(server: servers.Server, client: load.Client, context: servers.Context, arguments, plan) -> dict | None:
    """Starts, checks and measures one server, and ends it whatever happens."""
    try:
        server.prepare()
        server.start()
        check.check(server, context.onnx)
        say("  its answers are the engine's")
        row = None if arguments.setup_only else measure.measure(server, client, plan, context.engine)
    finally:
        server.stop()
    if row is not None:
        row["stop"] = server.stop_note
    return row


def main() -> int:
    arguments = arguments_parse()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupted)
    began = time.monotonic()
    plan = measure.QUICK if arguments.quick or arguments.setup_only else measure.FULL
    server_core, client_core = cores_choose(arguments)
    os.sched_setaffinity(0, {client_core})  # nothing of ours disturbs the server
    onnx = models.make_all(ROOT / "models", TOP / "models")
    say(f"compare: the engine alone, on core {server_core}")
    probe = engine.Probe(Path(sys.executable), server_core, {name: onnx[name] for name in measure.LOADED})
    machine = quiet.Quiet(probe)
    alone = machine.measure("the engine alone", lambda: engine.measure_all(
        Path(sys.executable), server_core, onnx, plan.engine_s, measure.PACE_RPS))
    for name, result in alone.items():
        say(f"  {name}: {1e3 / result['batch_ms'][1]:.0f}/s at batch 1, {32e3 / result['batch_ms'][32]:.0f}/s at 32")
    context = servers.Context(ROOT, TOP, arguments.port, server_core, onnx, alone, machine)
    log = ROOT / "log" / "client.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)
    client = load.Client(arguments.client, client_core, log)

    chosen = [server for server in servers.SERVERS if not arguments.only or server.name in arguments.only]
    result = {
        "date": datetime.date.today().isoformat(), "invocation": shlex.join(["./run", "compare", *sys.argv[1:]]),
        "machine": machine_text(), "server_core": server_core, "client_core": client_core,
        "python": platform.python_version(),
        "plan": dataclasses.asdict(plan), "engine": alone, "engine_version": environments.ENGINE.partition("==")[2],
        "batch": context.batch, "client_version": version_of(arguments.client), "rows": [], "failed": {}}
    for number, kind in enumerate(chosen, 1):
        server = kind(context)
        say(f"compare: {server.title} ({number} of {len(chosen)}, {(time.monotonic() - began) / 60:.0f} min)")
        try:
            row = run_server(server, client, context, arguments, plan)
            if row is not None:
                result["rows"].append(row)
        except Exception as error:  # whatever a server does, the others are still measured
            if not isinstance(error, (environments.Unavailable, load.LoadError, ValueError)):
                traceback.print_exc()
            say(f"  not measured: {error}")
            result["failed"][server.title] = str(error).replace(str(TOP) + "/", "")
        result["quiet"] = machine.summary()
        (ROOT / "results.json").write_text(json.dumps(result, indent=1))
    probe.stop()
    if arguments.setup_only:
        return 1 if result["failed"] else 0
    output = arguments.output or (ROOT / "comparison.md" if arguments.quick or arguments.only
                                  else TOP / "docs" / "comparison.md")
    models.write(output, report.document(result).replace(str(TOP) + "/", ""))
    say(f"compare: {output} written after {(time.monotonic() - began) / 60:.0f} min")
    return 1 if result["failed"] else 0


def version_of(program: Path) -> str:
    return subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("compare: interrupted")
