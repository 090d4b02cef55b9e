"""wire.py - measures the cost of a request on its way through the server: over HTTP, over gRPC, and within the process.

    build/venv/bin/python bench/wire.py [--seconds S] [--rounds N] [--against SYMPHONY] [--isolate] [CASE]...

Serves models that compute next to nothing on one accelerator, with inputs of 1 KB or 600 KB and outputs of the same
size, or with inputs of 600 KB and outputs of 1 KB ("in"), and drives them with build/release/bench_wire. "in process"
is bench_inside: the same way through the server for requests without a protocol; "in place" is that without copying
the inputs. CASEs (all by default) are the entries in the first columns of the two tables.

Saturated: many requests are outstanding. The figure is the CPU time of the frontend's thread, from /proc: it tells how
many requests a second the thread could take with a core of its own, whatever else the machine does.
Lone: one request at a time; the client polls. `health` stays in the frontend's thread: the further time of an inference
is the scheduler, the run and the threads' wake-ups. After a pause all threads sleep at first.

All cases take turns, with --against also those of another build, with --isolate those of a server whose accelerator has
a process of its own (`serve --isolate on`), in rows of their own. Figures are medians of the rounds.
"""
import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

TOP = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / "tests" / "e2e"))
BINARY = os.environ.setdefault("SYMPHONY_BINARY", str(TOP / "build/release/symphony"))
import server as server_module  # noqa: E402
from clients import Model, save_model  # noqa: E402

SMALL, LARGE, LARGE_IN = Model("small", 256), Model("large", 150528), Model("large_in", 150528, 256)
GRPC_INFER, GRPC_LIVE = ["/inference.GRPCInferenceService/" + name for name in ("ModelInfer", "ServerLive")]
INSIDE = {"inside": [], "in place": ["--in-place"]}  # no protocol
SATURATED = {  # case: protocol, body, connections, calls outstanding on each
    "in process 1 KB": ("inside", SMALL, 1, 256), "gRPC 1 KB": ("grpc", SMALL, 4, 64), "HTTP binary 1 KB": ("http", SMALL, 64, 1), "JSON 1 KB": ("json", SMALL, 64, 1),
    "in process 600 KB in": ("inside", LARGE_IN, 1, 16), "in place 600 KB in": ("in place", LARGE_IN, 1, 16),
    "gRPC 600 KB in": ("grpc", LARGE_IN, 4, 4), "HTTP binary 600 KB in": ("http", LARGE_IN, 16, 1),
    "JSON 600 KB in": ("json", LARGE_IN, 16, 1), "gRPC 600 KB": ("grpc", LARGE, 4, 4),
    "HTTP binary 600 KB": ("http", LARGE, 16, 1), "JSON 600 KB": ("json", LARGE, 16, 1)}
LONE = {  # case: protocol, body (None: health), pause in microseconds
    "in process 1 KB": ("inside", SMALL, 0), "in process 1 KB after 2 ms": ("inside", SMALL, 2000),
    "in process 600 KB in": ("inside", LARGE_IN, 0), "in place 600 KB in": ("in place", LARGE_IN, 0),
    "gRPC health": ("grpc", None, 0), "gRPC 1 KB": ("grpc", SMALL, 0), "gRPC 1 KB after 2 ms": ("grpc", SMALL, 2000),
    "gRPC 600 KB in": ("grpc", LARGE_IN, 0), "HTTP health": ("http", None, 0), "HTTP binary 1 KB": ("http", SMALL, 0),
    "HTTP binary 1 KB after 2 ms": ("http", SMALL, 2000), "JSON 1 KB": ("json", SMALL, 0),
    "HTTP binary 600 KB in": ("http", LARGE_IN, 0), "JSON 600 KB in": ("json", LARGE_IN, 0)}


def threads_of(server):
    """{name: (CPU seconds, times it slept)} of a server's threads, those of a name together."""
    found = {}
    for task in (task for pid in [server.process.pid, *server.children()] for task in pathlib.Path("/proc/%d/task" % pid).iterdir()):
        name = (task / "comm").read_text().strip().rstrip("-0123456789")
        cpu = int((task / "schedstat").read_text().split()[0]) / 1e9
        status = (task / "status").read_text()
        slept = int(status.split("\nvoluntary_ctxt_switches:")[1].split()[0])
        before = found.get(name, (0, 0))
        found[name] = (before[0] + cpu, before[1] + slept)
    return found


def json_body(model):
    """Numbers as long as those of images and activations, since the cost depends on their length."""
    random_ = random.Random(1)
    given = {"name": model.input, "datatype": "FP32", "shape": [1, model.width],
             "data": [round(random_.random(), 7) for _ in range(model.width)]}
    return json.dumps({"inputs": [given]}).encode()


def drive_inside(server, folder, model, *options):
    """The same as drive(), for requests within the server's process."""
    command = [pathlib.Path(server.binary).parent / "bench_inside", folder / "repository", model.name, *options]
    result = json.loads(subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, check=True).stdout)
    assert result["failed"] == 0, result
    return result, {"inside": result["frontend_us"], "others": result["others_us"]}, result["sleeps"]


def drive(server, folder, protocol, model, *options):
    """One run of the client: its result, and the time of the server's threads for a request: {name: us}, sleeps."""
    port = server.grpc_port if protocol == "grpc" else server.port
    command = [TOP / "build/release/bench_wire", "grpc" if protocol == "grpc" else "http", port]
    body = folder / "body"
    if not model:
        command.append(GRPC_LIVE if protocol == "grpc" else "/v2/health/live")
        body.write_bytes(bytes(5))
    else:
        command.append(GRPC_INFER if protocol == "grpc" else "/v2/models/%s/infer" % model.name)
        if protocol == "http":
            head, data = model.binary_body()
            body.write_bytes(head + data)
            command += ["--head-bytes", len(head)]
        else:
            body.write_bytes(model.grpc_message() if protocol == "grpc" else json_body(model))
    if model or protocol == "grpc":
        command += ["--body", body]
    before = threads_of(server)
    result = json.loads(subprocess.run([str(part) for part in [*command, *options]], stdout=subprocess.PIPE, check=True).stdout)
    after = threads_of(server)
    assert result["failed"] == 0, result
    if result["requests"] == 0:  # the machine was busy with other work for that long
        return drive(server, folder, protocol, model, *options)
    asked = result["requests"] / 0.9  # the warm-up is not in it
    spent = {name: (after[name][0] - before.get(name, (0, 0))[0]) / asked * 1e6 for name in after}
    return result, spent, sum(after[name][1] - before.get(name, (0, 0))[1] for name in after) / asked


def saturated_row(server, folder, case, seconds):
    protocol, model, connections, streams = SATURATED[case]
    if protocol in INSIDE:
        result, spent, slept = drive_inside(server, folder, model, "--outstanding", streams, *INSIDE[protocol], "--seconds", seconds)
    else:
        result, spent, slept = drive(server, folder, protocol, model, "--connections", connections, "--streams", streams,
                                     "--seconds", seconds)
    frontend = spent["inside" if protocol in INSIDE else "grpc" if protocol == "grpc" else "http"]
    others = sum(spent.values()) - frontend
    return [result["requests_per_s"], frontend, 1e6 / frontend, others, slept]


def lone_row(server, folder, case, seconds):
    protocol, model, pause_us = LONE[case]
    if protocol in INSIDE:
        result, spent, slept = drive_inside(server, folder, model, "--pause-us", pause_us, *INSIDE[protocol], "--seconds", seconds)
    else:
        result, spent, slept = drive(server, folder, protocol, model, "--spin", "--pause-us", pause_us, "--seconds", seconds)
    return [result["p50_us"], result["p99_us"], sum(spent.values()), slept]


TABLES = (("Saturated", SATURATED, saturated_row, ("requests/s", "frontend's CPU us/request", "requests/s a frontend core",
                                                   "other threads' us/request", "sleeps/request"), "%.0f %.2f %.0f %.2f %.2f"),
          ("Lone", LONE, lone_row, ("p50 us", "p99 us", "CPU us/request", "sleeps/request"), "%.1f %.1f %.1f %.2f"))


def start(binary, repository, *more):
    server_module.BINARY = binary
    running = server_module.Server("--repository", repository, "--slo-ms", 10000, "--accelerators", "cpu:1", *more)
    running.start()
    running.binary = binary
    return running


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--against", metavar="SYMPHONY", help="another build of the program")
    parser.add_argument("--isolate", action="store_true", help="also with a process for the accelerator")
    parser.add_argument("cases", nargs="*", metavar="CASE")
    options = parser.parse_args()
    builds = {"": (BINARY,)}
    if options.against:
        builds[" (against)"] = (options.against,)
    if options.isolate:
        builds[" (isolated)"] = (BINARY, "--isolate", "on")
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for model in (SMALL, LARGE, LARGE_IN):
            save_model(folder / "repository", model)
        servers = {name: start(build[0], folder / "repository", *build[1:]) for name, build in builds.items()}
        try:
            for title, cases, row, columns, format in TABLES:
                wanted = [case for case in cases if not options.cases or case in options.cases]
                if not wanted:
                    continue
                rounds = {(case, name): [] for case in wanted for name in servers
                          if "isolated" not in name or cases[case][0] not in INSIDE}
                for _ in range(options.rounds):
                    for case, name in rounds:
                        rounds[case, name].append(row(servers[name], folder, case, options.seconds))
                print("\n| %s | %s |\n|---|%s" % (title, " | ".join(columns), "---:|" * len(columns)))
                for (case, name), rows in rounds.items():
                    medians = tuple(statistics.median(column) for column in zip(*rows))
                    print("| %s%s | %s |" % (case, name, " | ".join((format % medians).split())), flush=True)
            time.sleep(1)
            for name, server in servers.items():
                before = server.cpu_seconds()
                time.sleep(5)
                print("\nIdle%s: %.2f %% of a core" % (name, (server.cpu_seconds() - before) / 5 * 100))
        finally:
            for server in servers.values():
                server.__exit__(None, None, None)


main()
