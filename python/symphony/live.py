"""Every policy on a live server with emulated accelerators, beside a simulation of the same arrivals: `./run policies --live`."""
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time

import symphony

START_S = 60  # until the server is ready


def serve(scenario, policy, log):
    """A server on free ports, once it is ready: the process and its HTTP port."""
    process = subprocess.Popen([symphony.program(), "serve", "--scenario", scenario, "--policy", policy, "--host", "127.0.0.1",
                                "--http-port", "0", "--grpc-port", "0", "--metrics-port", "0"], stdout=subprocess.DEVNULL, stderr=log)
    until = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < until:
        log.seek(0)
        ready = re.search(r'msg="ready" http_port=(\d+)', log.read())
        if ready:
            return process, ready[1]
        time.sleep(0.02)
    process.kill()
    process.wait()
    log.seek(0)
    raise symphony.Error(log.read().strip() or "the server was not ready in time")


def run(scenario, settings, policy, seed):
    """What `symphony bench` finds with the scenario's arrivals, from the client's side."""
    with tempfile.TemporaryFile("w+") as log:
        process, port = serve(scenario, policy, log)
        try:
            done = subprocess.run([symphony.program(), "bench", f"http://127.0.0.1:{port}", "--scenario", scenario, "--seed", str(seed),
                                   *(f"--set={key}={value}" for key, value in settings.items()), "--json"], capture_output=True, text=True)
        finally:
            process.terminate()
            process.wait()
    if done.returncode:
        raise symphony.Error(done.stderr.strip())
    return json.loads(done.stdout)


def table(args):
    """Yields the lines of a Markdown table. The policies take turns, so that a slow minute of the machine is nobody's alone."""
    seeds = range(args.seed + 1, args.seed + 1 + args.seeds)
    simulated, live = {policy: [] for policy in args.policies}, {policy: [] for policy in args.policies}
    for seed in seeds:
        for policy in list(simulated):
            print(f"{policy}, seed {seed}", file=sys.stderr, flush=True)
            try:
                live[policy].append(run(args.scenario, dict(args.set), policy, seed))
                simulated[policy].append(symphony.simulate(args.scenario, dict(args.set), policy=policy, seed=seed))
            except symphony.Error as error:
                print(f"{policy}: left out: {error}", file=sys.stderr)
                del simulated[policy]
    yield "| policy | bad, simulated | live | p50, ms, simulated | live | p99, ms, simulated | live |"
    yield "|---|---|---|---|---|---|---|"

    def cells(value, digits):
        """The value's mean over the seeds, simulated and live."""
        return " | ".join(f"{statistics.fmean(map(value, results[policy])):.{digits}f}" for results in (simulated, live))

    for policy in simulated:
        yield (f"| `{policy}` | {cells(lambda r: r['bad_rate'], 4)} | {cells(lambda r: r['latency_ms']['p50'], 1)} | "
               f"{cells(lambda r: r['latency_ms']['p99'], 1)} |")
