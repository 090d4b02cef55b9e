"""clockwork_live.py - figures 5 to 11 of Clockwork (OSDI 2020), live on emulated accelerators with memory, beside a simulation of the
same arrivals.

    PYTHONPATH=python SYMPHONY=build/release/symphony python3 -B bench/clockwork_live.py [--quick] [--stretch 10] [--seconds 15]

Everything takes --stretch times as long as in the paper: batches, loads, SLOs, gaps between requests. So two cores carry server and
client, and a thread that wakes a millisecond late costs a tenth as much. Prints JSON: `cases`, the live predictions' `errors`, and the
processor time that `controller` takes, for `./run reproduce --measured clockwork-live`.
"""
import argparse
import csv
import json
import os
import pathlib
import re
import resource
import statistics
import subprocess
import tempfile
import urllib.request

import symphony
import symphony.live

TOP = pathlib.Path(__file__).resolve().parent.parent
BATCHES = (1, 2, 4, 8, 16)


def zoo(stretch):
    """Clockwork's table 1: models with stretched times."""
    with open(TOP / "data/clockwork_table1_v100.csv") as rows:
        return {row["model"]: {"latency_ms": {str(b): stretch * float(row[f"b{b}_ms"]) for b in BATCHES},
                               "weights_mb": float(row["weights_MB"]), "load_ms": stretch * float(row["transfer_ms"])}
                for row in csv.DictReader(line for line in rows if not line.startswith("#"))}


def scenario(args, workers, models, rate, memory_gib=None, arrivals=None, shares=None, stretch=None):
    stretch = stretch or args.stretch
    cluster = {"accelerators": workers, "type": "v100"} | ({"memory_gib": memory_gib} if memory_gib else {})
    workload = {"rate_rps": rate / stretch} | ({"arrivals": arrivals} if arrivals else {}) | (
        {"popularity": {"shares": shares}} if shares else {})
    return {"cluster": cluster, "models": models, "workload": workload,
            "policy": {"name": "clockwork", "sizes": "powers", "batch_most": 16, "ahead_ms": 5 * stretch},
            "run": {"seconds": args.seconds, "warmup_seconds": 0, "seed": 1}}


def trace(args, workers, rate, memory_gib, copies=67, stretch=None):
    stretch = stretch or args.stretch
    models = [{"name": name, **model, "copies": copies, "slo_ms": 100 * stretch} for name, model in zoo(stretch).items()]
    return scenario(args, workers, models, rate, memory_gib, {"trace": str(TOP / "scenarios/clockwork-azure.csv")}, stretch=stretch)


def cases(args):
    """Yields figure, what the case is, what is published of it, its scenario."""
    resnet = zoo(args.stretch)["resnet50"]

    def named(name, slo_ms, copies=1):
        return {"name": name, **resnet, "copies": copies, "slo_ms": slo_ms * args.stretch}

    if args.quick:
        yield "7", "48 models", "-", scenario(args, 6, [named("m", 10, 48)], 600)
        yield "9", "recorded calls", "-", trace(args, 12, 3000, 2.2)
        return
    for slo_ms, published in (10, "-"), (100, "-"), (500, "about 47"):
        yield "5", f"15 models, 1500/s, SLO {slo_ms} ms", published, scenario(args, 1, [named("m", slo_ms, 15)], 1500)
    for copies in 60, 400, 1200:
        yield "6", f"{copies} models share 1000/s, one has 200/s", "-", scenario(
            args, 1, [named("major", 100, copies), named("minor", 100)], 1200, 22, shares={"major": 1000, "minor": 200})
    for rate, slo_ms, published in (600, 10, "0"), (1200, 22, "0"), (2400, 9.8, "-"), (2400, 74, "0"):
        yield "7", f"48 models, {rate}/s, SLO {slo_ms} ms", published, scenario(args, 6, [named("m", slo_ms, 48)], rate)
    for slo_ms, published in (9.8, "many"), (22, "as alone"):
        yield "8", f"six with SLO {slo_ms} ms beside 12 without", published, scenario(
            args, 6, [named("six", slo_ms, 6), named("batch", 60000, 12)], 8200, shares={"six": 1200, "batch": 7000})
    for rate in 3000, 4500:
        yield "9", f"402 models, recorded calls, {rate}/s", "0.00003", trace(args, 12, rate, 2.2)
    for workers in 10, 20, 40:
        yield "11", f"{workers} workers, {600 * workers}/s", "-", trace(args, workers, 600 * workers, 22)


def metrics(log):
    port = re.search(r"metrics_port=(\d+)", log)[1]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as page:
        return page.read().decode()


def live(path, policy):
    """What the client saw, and the server's metrics."""
    with tempfile.TemporaryFile("w+") as log:
        process, port = symphony.live.serve(path, policy, log)
        try:
            done = subprocess.run([symphony.program(), "bench", f"http://127.0.0.1:{port}", "--scenario", path, "--json",
                                   "--connections-max", "16384"],  # figure 8's requests without an SLO wait long
                                  capture_output=True, text=True)
            log.seek(0)
            page = metrics(log.read())
        finally:
            process.terminate()
            process.wait()
    if done.returncode:
        raise symphony.Error(done.stderr.strip())
    return json.loads(done.stdout), page


def summary(result, figure, loads):
    """Of figure 8 the six with an SLO alone, their mean median and worst 99 %."""
    latency = result["latency_ms"]
    if figure != "8":
        return {"bad": result["bad_rate"], "p50_ms": latency["p50"], "p99_ms": latency["p99"], "loads": loads}
    six = [m for m in result["models"] if m["name"].startswith("six") and m["requests"]]
    return {"bad": sum(m["requests"] * m["bad_rate"] for m in six) / sum(m["requests"] for m in six),
            "p50_ms": statistics.fmean(m["latency_ms"]["p50"] for m in six), "p99_ms": max(m["latency_ms"]["p99"] for m in six),
            "loads": loads}


def errors(page):
    """Of runs and loads: their count, and the least edges of the histogram that 50 and 99 % are within."""
    found = {}
    for kind in ("run", "load"):
        edges = [(float(edge), int(count)) for edge, count in
                 re.findall(r'prediction_error_seconds_bucket\{kind="%s",le="([^"]+)"\} (\d+)' % kind, page)]
        count = edges[-1][1] if edges else 0
        if count:
            found[kind] = {"count": count} | {f"p{q}_ms": 1000 * next(edge for edge, below in edges if 100 * below >= q * count)
                                              for q in (50, 99)}
    return found


def controller(args, workers):
    """Processor time that a simulation takes for a request, the controller's included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    small = argparse.Namespace(**(vars(args) | {"seconds": 1 if args.quick else 5}))
    done = symphony.simulate(trace(small, workers, 500 * workers, 22, 671, stretch=1))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {"workers": workers, "us_per_request": 1e6 * (after.ru_utime - before.ru_utime) / done["requests"]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--stretch", type=float, default=10)
    parser.add_argument("--seconds", type=float, default=15)
    args = parser.parse_args()
    if args.quick:
        args.seconds = 1
    report = {"stretch": args.stretch, "seconds": args.seconds, "load_average": os.getloadavg()[1], "cases": [], "errors": {}}
    for figure, name, published, what in cases(args):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            json.dump(what, file)
            file.flush()
            policy = "clockwork:sizes=powers,batch_most=16,ahead_ms=%g" % what["policy"]["ahead_ms"]
            seen, page = live(file.name, policy)
            simulated = symphony.simulate(file.name)
        loads = sum(map(int, re.findall(r"symphony_model_loads_total\{[^}]*\} (\d+)", page)))
        report["cases"].append({"figure": figure, "name": name, "published": published, "simulated": summary(simulated, figure, simulated.get("loads", 0)),
                                "live": summary(seen, figure, loads)})
        if figure == "9":
            report["errors"] = errors(page)
    report["controller"] = [controller(args, workers) for workers in ((10,) if args.quick else (10, 40, 110))]
    print(json.dumps(report))


if __name__ == "__main__":
    main()
