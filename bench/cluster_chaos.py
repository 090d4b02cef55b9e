#!/usr/bin/env python3
"""cluster_chaos.py - breaks a cluster of real processes on hosts of their own (network namespaces) for a while, in whole and in part,
while clients ask, and says what each kind of fault cost. Fails if a request has no answer, two, or a wrong one, or if the requests of
the third and fourth second after the last fault are not as good as those before the first one. Needs root, the built program and the Python of ./run test.

    sudo build/venv/bin/python bench/cluster_chaos.py [--minutes 10] [--seed 1] [--rate 80] [--slo-ms 1000] [--etcd]
                                                      [--at-once 3] [--only KIND]... [--back-s 2] [--no-sick]

Two schedulers, two frontends, two backends of two emulated accelerators each, and two with a processor; one of these two has too little
memory for the runs of one model, so that they fail there always. Links have TLS. With --at-once 1 a fault's figures are its own."""
import argparse
import collections
import pathlib
import random
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "e2e"))
import askers as clients  # noqa: E402
from askers import Askers  # noqa: E402
from certificates import Authority  # noqa: E402
from chaos import CLOCKS, PARTIAL, SICK, WHOLE, Chaos, ask_count, good_since, right_of_count, save_models  # noqa: E402
from repository import measure  # noqa: E402
from server import wait_until  # noqa: E402
from weather import Cluster, Etcd, weather  # noqa: E402

WORDS = {"kill": "a process is killed", "end": "a process is ended (SIGTERM)", "stop": "a process is stopped (silent)",
         "cable": "a host's cable is out", "deaf": "a host does not hear another", "cut": "two hosts are cut off from each other",
         "loss": "1, 5 or 20 % of packets to a host are lost", "slow": "a host's link has 0.2, 1 or 5 Mbit/s",
         "strangers": "strangers talk nonsense to all ports", "stumble": "a backend is slow (stands still three quarters of the time)",
         "rollout": "a version is rolled out, in part or in whole, or back", "rotate": "certificates are replaced"}
SHARE_LESS = 0.05  # how much less of the requests may be good after the last fault than before the first one: others use the machine, too
CALM_S = 5  # before the first fault
AFTER_S = 0.5  # what comes so soon after a fault counts as the fault's


def table(chaos, log):
    """For each kind of fault: how many, the requests that were sent meanwhile, and how these ended."""
    rows = collections.defaultdict(lambda: [0, set()])
    for fault in chaos.log:
        rows[fault.what][0] += 1
        rows[fault.what][1].update(i for i, one in enumerate(log) if fault.began <= one.sent <= fault.ended + AFTER_S)
    print("| fault | times | requests meanwhile | lost | late | slowest answer |\n|---|---|---|---|---|---|")
    for what in sorted(rows, key=list(WORDS).index):
        times, numbers = rows[what]
        asked = [log[i] for i in numbers]
        right = [one for one in asked if one.right]
        print("| %s | %d | %d | %d | %d | %.2f s |" % (WORDS[what], times, len(asked), sum(not one.right for one in asked),
                                                     sum(not one.good() for one in right), max((one.took() for one in right), default=0)))


def share(asked):
    return sum(one.good() for one in asked) / max(1, len(asked))


def why(log):
    """The most frequent reasons why requests were not good."""
    told = collections.Counter((one.model, one.status, (one.error or "late")[:110]) for one in log if not one.good())
    for (model, status, error), count in told.most_common(8):
        print("%6d  %s  %s  %s" % (count, model, status or "broken", error))


def run(net, folder, args):
    etcd = Etcd(net, folder) if args.etcd else None
    save_models(folder / "repository")
    measure(folder / "repository")
    clients.MODELS["count"] = ask_count, right_of_count
    authority, pair = Authority(folder), [folder / "own.pem", folder / "own.key"]

    def rotate():
        for made, name in zip(authority.sign("next"), pair):
            made.rename(name)

    rotate()
    models = () if args.no_sick else ("count",)
    tls = ("--cluster-cert", pair[0], "--cluster-key", pair[1], "--cluster-ca", authority.path)
    try:
        with Cluster(net, folder, schedulers=2, frontends=2, backends=2, registry=etcd and etcd.registry, clocks=CLOCKS, tls=tls) as cluster:
            cluster.backends += [cluster.add(host, "backend", *cluster.join, "--repository", folder / "repository", "--pin", "none",
                                             "--accelerators", "cpu:1", "--slo-ms", "1000", *sick) for host, sick in (("b3", ()), ("b4", () if args.no_sick else SICK))]
            wait_until(lambda: cluster.whole() and all(cluster.model_ready(one, ["neg", "count"]) for one in cluster.frontends))
            chaos = Chaos(cluster, args.seed, args.only or WHOLE + PARTIAL, rotate, args.at_once)
            draw, began = random.Random(args.seed + 1), time.monotonic()
            with Askers(cluster.frontends, args.rate, lambda: args.slo_ms / 1000 * draw.uniform(0.9, 1.1), ("m-1", "neg", "m-2", *models)) as askers:
                wait_until(lambda: askers.all_good(30))
                calm = time.monotonic()
                time.sleep(CALM_S)
                before = share(askers.since(calm))
                chaos.run(args.minutes * 60)
                over = time.monotonic()
                time.sleep(args.back_s + 2)
                back_s = good_since(askers, over) - over
                askers.end()
            log = askers.told()
            after = share([one for one in log if over + args.back_s <= one.sent < over + args.back_s + 2])
            table(chaos, log)
            print()
            why(log)
            refused, broken = (sum(bad(one) for one in log) for bad in (lambda one: one.status not in (None, 200),
                                                                       lambda one: one.status is None))
            print("\n%.0f s, seed %d: %d faults, %d requests, %d good, %d refused or failed, %d broken with their frontend"
                  % (time.monotonic() - began, args.seed, len(chaos.log), len(log), askers.good(), refused, broken))
            print("good before the first fault %.1f %%, from %g s after the last one on %.1f %%; none was bad from %.2f s after it on"
                  % (100 * before, args.back_s, 100 * after, back_s), flush=True)
            askers.check(chaos.excused, {"count": (500,)})
            if after < before - SHARE_LESS:
                sys.exit("cluster_chaos.py: fewer requests are good %g s after the last fault" % args.back_s)
    finally:
        if etcd:
            etcd.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=float, default=80)
    parser.add_argument("--slo-ms", type=float, default=1000)
    parser.add_argument("--at-once", type=int, default=3, help="faults at once, at most")
    parser.add_argument("--no-sick", action="store_true", help="no backend at which a model's runs fail")
    parser.add_argument("--only", action="append", choices=WORDS)
    parser.add_argument("--back-s", type=float, default=2, help="time after the last fault until all has to be as before")
    parser.add_argument("--etcd", action="store_true", help="schedulers that find each other by etcd instead of a list")
    args = parser.parse_args()
    with weather() as net, tempfile.TemporaryDirectory() as folder:
        run(net, pathlib.Path(folder), args)


if __name__ == "__main__":
    main()
