"""Every policy on the same arrivals, each at its best setting: `./run policies SCENARIO.yaml`, or `python3 -m symphony.policies`.

A policy's settings are those of SETTINGS; the first is the published one, or the preset where nothing is published. Which setting is the best
is found on a seed of its own, and judged on others. Policies of one seed get the same arrivals, so that differences are paired: they are
taken seed by seed. The intervals are Student's, of 95 %.
"""
import argparse
import csv
import html
import math
import statistics
import sys

import symphony
import symphony.live

SETTINGS = {
    "deferred": ["deferred"],
    "symphony": ["symphony:schedulable=beta_lambda,drop=timeout", "symphony", "symphony:drop=timeout", "symphony:order=invalid_after"] +
                [f"symphony:target_share={share}" for share in (0.5, 0.85, 1)],
    "eager": ["eager"] + [f"eager:order={order}" for order in ("invalid_after", "first_come")] + ["eager:drop=window"],
    "timeout": ["timeout"] + [f"timeout:delay_share={share}" for share in (0.1, 0.25, 0.5)] + ["timeout:batch_share=1,delay_share=0.5"],
    "fifo": ["fifo"],
    "clockwork": ["clockwork"] + [f"clockwork:ahead_ms={ahead}" for ahead in (0, 1, 2, 10)] + ["clockwork:heads=skip"],
    "nexus": ["nexus", "nexus:batch=planned", "nexus:drop=lazy", "nexus:epoch_s=10"],
    "kairos": ["kairos:late=serve", "kairos"],
}
# Quantiles of Student's distribution at 0.975, by degrees of freedom from 1 on; above, the normal distribution's and a term for the rest.
STUDENT = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101,
           2.093, 2.086]
COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#5f4b8b", "#7f7f7f"]  # told apart by colour-blind readers


def interval(values):
    """Mean, and half of the 95 % interval of the mean (NaN: one value has none)."""
    n = len(values)
    if n < 2:
        return statistics.fmean(values), math.nan
    t = STUDENT[n - 2] if n - 2 < len(STUDENT) else 1.96 + 2.5 / (n - 1)
    return statistics.fmean(values), t * statistics.stdev(values) / math.sqrt(n)


class Measure:
    """What is compared: `goodput` in requests/s, the most is best; or the share of `bad` requests, of all or of the worst model, at the
    scenario's own rate, the least is best."""

    def __init__(self, args):
        self.args, self.goodput = args, args.measure == "goodput"
        self.key = {"goodput": "goodput_rps", "bad": "bad_rate", "worst": "worst_bad_rate"}[args.measure]
        self.title = {"goodput": "goodput, requests/s", "bad": "bad requests, share", "worst": "bad requests of the worst model, share"}[
            args.measure]

    def of(self, policy, seeds):
        results = symphony.sweep(self.args.scenario, {"run.seed": seeds}, dict(self.args.set), policy=policy, goodput=self.goodput,
                                 precision=self.args.precision if self.goodput else None, threads=self.args.threads)
        return [result[self.key] or 0 for result in results]

    def best(self, of):
        """The key of the best value; the first of equal ones."""
        return (max if self.goodput else min)(of, key=of.get)


def compare(args):
    """Yields a line for each policy: name, setting, its values by seed, those of its published setting."""
    measure, seeds = Measure(args), list(range(args.seed + 1, args.seed + 1 + args.seeds))
    for name, settings in args.policies.items():
        print(f"{name}: {', '.join(settings)}", file=sys.stderr, flush=True)
        try:
            best = measure.best({setting: measure.of(setting, [args.seed])[0] for setting in settings}) if len(settings) > 1 else settings[0]
            values = measure.of(best, seeds)
            yield name, best, values, values if best == settings[0] else measure.of(settings[0], seeds)
        except symphony.Error as error:
            print(f"{name}: left out: {error}", file=sys.stderr)


def number(value, beside=None):
    """The value in the digits of `beside`, or in its own."""
    return f"{value:.1f}" if (value if beside is None else beside) >= 10 else f"{value:.5f}"


def mean_text(mean, half, digits):
    """With the interval, if there is one."""
    return digits(mean) if math.isnan(half) else f"{digits(mean)} ± {digits(half).lstrip('+')}"


def table(lines, measure):
    """The result as Markdown. Every policy is compared with the first."""
    base = lines[0][2]
    yield f"| policy | best setting | {measure.title} | of {lines[0][0]}'s | as published |"
    yield "|---|---|---|---|---|"
    for name, best, values, first in lines:
        mean, half = interval(values)
        if measure.goodput:
            against = mean_text(*interval([value / other if other else math.nan for value, other in zip(values, base)]), "{:.3f}".format)
        else:
            against = mean_text(*interval([value - other for value, other in zip(values, base)]), "{:+.5f}".format)
        yield f"| {name} | `{best}` | {mean_text(mean, half, lambda value: number(value, mean))} | {against if name != lines[0][0] else ''} | " \
              f"{number(statistics.fmean(first)) if first is not values else 'the same'} |"


def write_csv(path, lines, seed):
    with open(path, "w", newline="") as to:
        out = csv.writer(to)
        out.writerow(["policy", "setting", "best", "seed", "value"])
        for name, best, values, first in lines:
            for i, value in enumerate(values):
                out.writerow([name, best, "true", seed + 1 + i, value])
            for i, value in enumerate(first if first is not values else []):
                out.writerow([name, SETTINGS.get(name, [name])[0], "false", seed + 1 + i, value])


def write_svg(path, lines, measure, scenario):
    """A row for each policy: a bar to the mean at its best, a line over the interval, a mark for its published setting."""
    most = max(max(interval(values)[0], statistics.fmean(first)) for _, _, values, first in lines) or 1
    left, width, row = 110, 560, 30
    height = 60 + row * len(lines) + 34

    def x(value):
        return left + width * value / (most * 1.08)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 90} {height}" role="img" '
           'font-family="Helvetica, Arial, \'DejaVu Sans\', sans-serif" font-size="13">',
           f'<title>{html.escape(scenario)}: {measure.title}</title><rect width="100%" height="100%" fill="white"/>',
           f'<text x="{left}" y="22" font-size="15">{html.escape(measure.title)}</text>',
           f'<text x="{left}" y="42" fill="#555">{html.escape(scenario)}; bar: best setting, with its 95 % interval; mark: published or preset</text>']
    for i, (name, _, values, first) in enumerate(lines):
        y, (mean, half) = 56 + row * i, interval(values)
        half = 0 if math.isnan(half) else half
        out.append(f'<text x="{left - 8}" y="{y + 16}" text-anchor="end">{html.escape(name)}</text>'
                   f'<rect x="{left}" y="{y + 3}" width="{x(mean) - left:.1f}" height="18" fill="{COLOURS[i % len(COLOURS)]}"/>'
                   f'<path d="M{x(max(mean - half, 0)):.1f} {y + 12}H{x(mean + half):.1f}" stroke="black" stroke-width="2"/>'
                   f'<path d="M{x(statistics.fmean(first)):.1f} {y}v24" stroke="black" stroke-width="1.5" stroke-dasharray="3 2"/>'
                   f'<text x="{x(mean + half) + 6:.1f}" y="{y + 16}">{number(mean)}</text>')
    out.append(f'<path d="M{left} 54V{height - 30}" stroke="#555"/><text x="{left}" y="{height - 12}" text-anchor="middle">0</text></svg>')
    with open(path, "w") as to:
        to.write("\n".join(out) + "\n")


def arguments(argv):
    parser = argparse.ArgumentParser(prog="./run policies", description="Simulates a scenario with every policy on the same arrivals, "
                                     "each at the best of its settings, and compares them with the first.")
    parser.add_argument("scenario", metavar="SCENARIO.yaml")
    parser.add_argument("--seeds", type=int, default=5, metavar="N", help="that the policies are judged on (default: 5)")
    parser.add_argument("--seed", type=int, default=1000, metavar="N", help="that settings are chosen on; the next ones judge (default: 1000)")
    parser.add_argument("--measure", choices=["goodput", "bad", "worst"], default="goodput",
                        help="the goodput (default), or the share of bad requests at the scenario's own rate, of all or of the worst model")
    parser.add_argument("--policy", action="append", default=[], metavar="NAME[:KEY=VALUE,...]",
                        help="only these, each as given; a shared object, too (docs/policies.md); may be repeated, the first is compared with")
    parser.add_argument("--add", action="append", default=[], metavar="NAME[:KEY=VALUE,...]", help="this one beside the others; may be repeated")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", type=lambda text: text.split("=", 1),
                        help="change the scenario; may be repeated")
    parser.add_argument("--precision", type=float, default=0.005, metavar="P", help="of a search for the goodput (default: 0.005)")
    parser.add_argument("--threads", type=int, metavar="N", help="that simulate at once (default: one a core)")
    parser.add_argument("--live", action="store_true", help="each policy as preset on a live server with emulated accelerators, in "
                        "turns, beside a simulation of the same arrivals; --set then changes workload and run alone")
    parser.add_argument("--csv", metavar="FILE", help="write every value")
    parser.add_argument("--svg", metavar="FILE", help="draw the means")
    args = parser.parse_args(argv)
    if args.seeds < 1:
        parser.error("--seeds: at least 1")
    if any(len(pair) != 2 for pair in args.set):
        parser.error("--set: expected KEY=VALUE")
    if args.live and (args.csv or args.svg or any(key.split(".")[0] not in ("workload", "run") for key, _ in args.set)):
        parser.error("--live: goes without --csv and --svg, and --set is for workload and run")
    args.policies = {**({text: [text] for text in args.policy} or SETTINGS), **{text: [text] for text in args.add}}
    return args


def main(argv=None):
    args = arguments(argv)
    if args.live:
        print("\n".join(symphony.live.table(args)))
        return 0
    measure, lines = Measure(args), list(compare(args))
    if not lines:
        return "no policy could be simulated"
    print("\n".join(table(lines, measure)))
    if args.csv:
        write_csv(args.csv, lines, args.seed)
    if args.svg:
        write_svg(args.svg, lines, measure, args.scenario)
    return 0


if __name__ == "__main__":
    sys.exit(main())
