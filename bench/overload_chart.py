"""overload_chart.py [SYMPHONY] > docs/images/overload.svg - the README's chart: requests answered in time over requests offered, through
overload, by policy, in virtual time. The same on every machine (tests/e2e/test_docs.py compares)."""
import csv
import subprocess
import sys

SCENARIO = "scenarios/table4-resnet50.yaml"
RATES = range(1000, 9001, 500)
LINES = [  # policy, name in the chart, colour, where its name stands
    ("deferred", "deferred (Symphony's default)", "#0b5fa5", (5650, 5850)),
    ("clockwork", "clockwork", "#c1670f", (8100, 4810)),
    ("nexus", "nexus", "#5f8f2b", (8100, 4180)),
    ("timeout:delay_share=0.2,batch_share=0.8", "dynamic batcher, tuned", "#b03060", (5950, 1500)),
]
LEFT, TOP, WIDTH, HEIGHT, MOST, HIGH = 76, 20, 640, 300, 9000, 7000


def at(rate, good):
    return LEFT + WIDTH * rate / MOST, TOP + HEIGHT * (1 - good / HIGH)


def text(x, y, words, anchor="middle", colour="#444", more=""):
    return '<text x="%.1f" y="%.1f" text-anchor="%s" fill="%s"%s>%s</text>' % (x, y, anchor, colour, more, words)


def points(symphony, policy):
    done = subprocess.run([symphony, "simulate", SCENARIO, "--policy", policy, "--set", "run.seconds=5", "--set", "run.warmup_seconds=1",
                           "--sweep", "workload.rate_rps=" + ",".join(map(str, RATES)), "--csv"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True, check=True)
    return [(float(row["offered_rps"]), float(row["good_rps"])) for row in csv.DictReader(done.stdout.splitlines()) if row["model"] == "all"]


def main():
    symphony = sys.argv[1] if len(sys.argv) > 1 else "build/release/symphony"
    print('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 380" font-family="sans-serif" font-size="13">')
    print('<title>Requests answered in time over requests offered</title><rect width="760" height="380" fill="#fff"/>')
    for tick in range(0, HIGH + 1, 1000):
        x, y = at(0, tick)
        print('<path d="M%.1f %.1fh%d" stroke="#ddd"/>' % (x, y, WIDTH) + text(x - 8, y + 4, "{:,}".format(tick), "end"))
    for tick in range(0, MOST + 1, 1000):
        x, y = at(tick, 0)
        print(text(x, y + 18, "{:,}".format(tick)))
    print(text(LEFT + WIDTH / 2, TOP + HEIGHT + 42, "requests offered a second"))
    print(text(0, 0, "answered in time, a second", more=' transform="translate(16 %d) rotate(-90)"' % (TOP + HEIGHT / 2)))
    print('<path d="M%.1f %.1fL%.1f %.1f" stroke="#aaa" stroke-dasharray="4 4"/>' % (*at(0, 0), *at(HIGH, HIGH)))
    print(text(*at(6150, 6650), "all in time", "end", "#777"))
    for policy, name, colour, where in LINES:
        path = " ".join("%.1f,%.1f" % at(*point) for point in points(symphony, policy))
        print('<polyline points="%s" fill="none" stroke="%s" stroke-width="%s"/>' % (path, colour, 3 if policy == "deferred" else 2))
        print(text(*at(*where), name, "start", colour, ' font-weight="bold"'))
    print("</svg>")


main()
