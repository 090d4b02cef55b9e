#!/usr/bin/env python3
"""What each rule of the policy `deferred` brings: the policy is compiled without it, and what both lose at one rate is compared.

    python3 bench/rules.py --random 717171 --clusters 60      # a table of Markdown; minutes
    python3 bench/rules.py --random 717171 --clusters 60 --change '#define TURN 0.01=>#define TURN 0.02'
    python3 bench/rules.py --flood shares boost               # of twenty models one rises to many times its rate: what the others lose
    python3 bench/rules.py --stress                           # model threads that have too much to do and refuse nothing for it; 3 minutes

The program is built before (./run build). `bench_grid` draws the clusters (--random or --sizes). The rate of each is the goodput of
`deferred:waiting=priced`, searched with other seeds for arrivals than those of the comparison. Ratios are geometric means over the clusters,
with 95 % intervals. A change of 1 % in goodput shows as some 30 % in bad requests.

--stress takes `symphony stress`, which is in real time: keep the machine idle. Medians of three rounds.
"""
import argparse
import json
import math
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[1]
RELEASE = TOP / "build/release"
GRID = RELEASE / "bench_grid"
SOURCES = ["sched/policy/deferred.c", "sched/policy/shares.c", "sched/policy/window.c", "core/util/fmath.c"]
BASE = "deferred:waiting=priced"  # the other ways have no part in most rules
BAD_LEAST, BAD_MOST = 3e-4, 0.3   # less and more count as these
SEARCH = ["--requests", "40000", "--seconds", "5", "--within", "0.02", "--seed", "3"]
LOSSES = ["--requests", "40000", "--seconds", "3", "--runs", "2", "--seed", "51"]

# For each rule what is written in the sources, and what instead. Numbers in brackets are those of docs/scheduling.md.
RULES = {
    "price that rises with loss (3)": [("#define PRICE_LOST 2", "#define PRICE_LOST 1")],
    "slack disregarded while losing (4)": [("doubt + (1 - doubt) * (1 - 1 / crowd)", "(1 - 1 / crowd)")],
    "count of recent arrivals (5)": [("if (burst_end_ns > end_ns)", "if (false)")],
    "weight of losing models (4)": [("weight = own * (1 - doubt + r->dropped_rate / (most_lost > LOSS ? most_lost : LOSS));", "weight = own;")],
    "boost": [("return boost > 1 ? boost : 1;", "return 1;")],
    "patience": [("(int64_t)(m->alpha_ns * m->items_worth + m->beta_ns)", "INT64_MAX / 4")],
    "lead": [("d->lead_ns = lead_of(m);", "d->lead_ns = 0 * lead_of(m);")],
    "lead: mean square": [("m->parameters.rounds_plain / load", "1 / load")],
    "lead: hurry": [("hurry > 1 ? hurry * lead : lead", "lead")],
    "lead: models to accelerators": [("(turns > 1 ? turns : 1) / batches", "1 / batches")],
    "even turns (2)": [("#define TURN 0.01", "#define TURN 0")],
    "rounds": [("double rounds = rounds_of(m->slo_ns - run_ns, run_ns);", "double rounds = 1;")],
    "mean of all models' rounds": [("if (rounds > m->parameters.rounds)", "if (false)")],
    "`gamma`": [("clip(m->parameters.gamma, 0, way == WAY_LONGEST ? 1 : TARGET_MOST)", "TARGET_MOST")],
    "slack": [("batch->items >= d->slack_items ? d->worth_slack : d->worth", "d->worth")],
    "shares": [("return share_admits(&d->credit", "return true || share_admits(&d->credit")],
}

# What a model thread that is busy refuses (src/sched/threads/model_thread.c), and nothing instead.
SHED = ("return t->busy > POLICY_FULL && waited_ns > POLICY_LATELY * time_ns;", "(void)t, (void)waited_ns, (void)time_ns; return false;")
STRESS_MODELS, STRESS_TIMES, STRESS_ROUNDS = (64, 256, 1000), (2.5, 3, 4), 3


def without(changes):
    """The policy's sources with the changes, each of which is in one place."""
    sources = {name: (TOP / "src" / name).read_text() for name in SOURCES}
    for old, new in changes:
        found = [name for name in SOURCES if old in sources[name]]
        if len(found) != 1 or sources[found[0]].count(old) != 1:
            raise SystemExit(f"rules.py: not in one place of {', '.join(SOURCES)}: {old}")
        sources[found[0]] = sources[found[0]].replace(old, new)
    return sources


def compiled(folder, number, changes):
    """--policy of a shared object with the changed policy, under a name of its own."""
    folder = folder / str(number)
    folder.mkdir()
    for name, text in without([*changes, ('.name = "deferred"', f'.name = "without{number}"')]).items():
        (folder / pathlib.Path(name).name).write_text(text)
    with (folder / "deferred.c").open("a") as to:
        to.write('#include "sched/threads/policy_file.h"\nPOLICY_EXPORT(policy_deferred);\n')
    subprocess.run(["gcc", "-std=gnu11", "-O2", "-w", "-ffp-contract=off", "-shared", "-fPIC", "-Wl,-Bsymbolic", "-I", TOP / "src",
                    *folder.glob("*.c"), "-o", folder / "policy.so"], check=True)
    return f"{folder}/policy.so:{BASE.split(':')[1]}"


def ratio(cells, key, policy):
    logs = [math.log(min(max(cell[key][policy], BAD_LEAST), BAD_MOST) / min(max(cell[key][BASE], BAD_LEAST), BAD_MOST)) for cell in cells]
    mean, deviation = math.exp(statistics.fmean(logs)), statistics.stdev(logs) if len(logs) > 1 else math.nan
    return f"{mean:.2f} ± {mean * 1.96 * deviation / math.sqrt(len(logs)):.2f}"


def losses_table(cells, policies):
    yield f"| without, {len(cells)} clusters | bad of the worst model | bad of all | over 1 % in |\n|---|---|---|---|"
    for rule, policy in policies.items():
        over, over_base = (sum(cell["worst_bad_rate"][name] > 0.01 for cell in cells) for name in (policy, BASE))
        yield f"| {rule} | {ratio(cells, 'worst_bad_rate', policy)} | {ratio(cells, 'bad_rate', policy)} | {over}, {over_base} |"


def flood_table(floods, policies):
    yield "| without | bad of the others, 25 times | 40 times | 100 times |\n|---|---|---|---|"
    for rule, policy in {"nothing": BASE, **policies}.items():
        yield f"| {rule} | " + " | ".join(f"{100 * flood['others_bad_rate']:.1f} %" for flood in floods
                                          if flood["policy"] == policy and flood["factor"] > 1) + " |"


def stress(program, *options):
    return json.loads(subprocess.run([program, "stress", "--accelerators", "1000", "--json", *map(str, options)],
                                     stdout=subprocess.PIPE, check=True).stdout)


def stress_table(folder):
    """Lines of the table: requests in time per second of the program as it is, and of one whose model threads refuse nothing for being busy."""
    source = (TOP / "src/sched/threads/model_thread.c").read_text()
    if source.count(SHED[0]) != 1:
        raise SystemExit(f"rules.py: not in one place of model_thread.c: {SHED[0]}")
    (folder / "model_thread.c").write_text(source.replace(*SHED))
    subprocess.run(["gcc", "-std=gnu11", "-O2", "-w", "-ffp-contract=off", "-fno-strict-aliasing", "-I", TOP / "src",
                    "-c", folder / "model_thread.c", "-o", folder / "model_thread.o"], check=True)
    link = subprocess.run(["ninja", "-C", RELEASE, "-t", "commands", "-s", "symphony"], stdout=subprocess.PIPE, text=True, check=True).stdout
    linked = shlex.quote(str(folder / "symphony"))  # the changed object comes before the library that has the other
    subprocess.run(link.replace("-o symphony ", f"{shlex.quote(str(folder / 'model_thread.o'))} -o {linked} "), shell=True, cwd=RELEASE, check=True)
    yield "| models | times a closed loop's rate | requests/s | in time/s | without refusing | ratio |\n|---|---|---|---|---|---|"
    logs = []
    for models in STRESS_MODELS:
        closed = stress(RELEASE / "symphony", "--models", models, "--closed", 10000)["requests_per_s"]
        for times in STRESS_TIMES:
            good = {RELEASE / "symphony": [], folder / "symphony": []}
            for _ in range(STRESS_ROUNDS):
                for program, found in good.items():
                    run = stress(program, "--models", models, "--rate", times * closed, "--seconds", 2)
                    found.append(run["requests_per_s"] * (1 - run["bad_rate"]))
            as_it_is, refusing_nothing = map(statistics.median, good.values())
            logs.append(math.log(max(refusing_nothing, 1) / max(as_it_is, 1)))
            yield (f"| {models} | {times} | {times * closed:,.0f} | {as_it_is:,.0f} | {refusing_nothing:,.0f} "
                   f"| {refusing_nothing / max(as_it_is, 1):.2f} |")
    yield f"Geometric mean {math.exp(statistics.fmean(logs)):.2f}, of {len(logs)} overloads."


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rules", nargs="*", metavar="RULE", help="only these (default: all)")
    parser.add_argument("--random", metavar="SEED", default="717171", help="clusters of bench_grid --random (default: 717171)")
    parser.add_argument("--sizes", metavar="SEED", help="clusters of bench_grid --sizes instead")
    parser.add_argument("--clusters", default="60", metavar="N", help="so many (default: 60)")
    parser.add_argument("--rates", metavar="FILE.csv", help="where the rates are kept, and taken from if they are there")
    parser.add_argument("--change", action="append", default=[], metavar="OLD=>NEW", help="another change of the sources; may be repeated")
    parser.add_argument("--flood", action="store_true", help="the loss of the others in a flood, instead of drawn clusters")
    parser.add_argument("--stress", action="store_true", help="live model threads in overload, with and without what busy ones refuse")
    args = parser.parse_args()
    unknown = [rule for rule in args.rules if rule not in RULES]
    if unknown:
        parser.error(f"no such rule: {unknown[0]} (there are {', '.join(RULES)})")
    rules = {rule: RULES[rule] for rule in args.rules or ([] if args.change else RULES)}
    rules.update({change: [tuple(change.split("=>", 1))] for change in args.change})
    clusters = [*(["--sizes", args.sizes] if args.sizes else ["--random", args.random]), "--clusters", args.clusters]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        if args.stress:
            for line in stress_table(folder):
                print(line, flush=True)
            return 0
        rates = args.rates or str(folder / "rates.csv")
        policies = {rule: compiled(folder, number, changes) for number, (rule, changes) in enumerate(rules.items())}
        if not args.flood:
            subprocess.run([GRID, *clusters, *SEARCH, "--policy", BASE, "--append", rates], stdout=sys.stderr)
        mode = ["flood", "--seconds", "5"] if args.flood else ["losses", *clusters, *LOSSES, "--rates", rates]
        run = subprocess.run([GRID, *mode, "--json", "--policy", BASE, *(word for policy in policies.values() for word in ("--policy", policy))],
                             stdout=subprocess.PIPE)
    if run.returncode > 1:  # 1: deferred is not where bench_grid wants it
        return run.returncode
    result = json.loads(run.stdout)
    print("\n".join(flood_table(result["floods"], policies) if args.flood else losses_table(result["cells"], policies)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
