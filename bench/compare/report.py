"""report.py - the document: what was measured, how, with what, and the figures. Each is a median of the rounds."""

import statistics

import load
import measure
import models

NONE = "–"
COLOURS = {"symphony": "#0b5fa5", "triton-in-process": "#c1670f", "triton-in-process-reject": "#e0a458", "triton": "#5f8f2b",
           "triton-reject": "#b03060", "pytriton": "#7a5195", "mlserver": "#444444", "litserve": "#00897b"}
LEFT, TOP, WIDTH, HEIGHT, NAMES = 76, 20, 560, 300, 310  # a chart's area, and the width of the names beside it


def figure(values: list[float], form: str) -> str:
    return format(statistics.median(values), form) if values else NONE


def ranged(values: list[float], form: str) -> str:
    """The median, and the least and the most where these differ from it."""
    if not values:
        return NONE
    low, middle, high = (format(value, form) for value in (min(values), statistics.median(values), max(values)))
    return middle if low == high else f"{middle} ({low}–{high})"


def table(head: list[str], lines: list[list[str]]) -> str:
    rule = ["---"] + ["---:"] * (len(head) - 1)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, rule, *lines)) + "\n"


def cost_table(rows: list[dict], engine: list[dict]) -> str:
    paced = {name: statistics.median(found[name]["paced_ms"] for found in engine) for name in measure.LOADED}
    lines = [[row["title"], *(ranged([ms - paced[name] for ms in row["p50_ms"][name]], ".2f") for name in measure.LOADED),
              ranged(row["p50_ms"]["tiny"], ".2f"), ranged(row["tiny_rps"], ",.0f"), figure(row["tiny_cpu_us"], ".0f"),
              figure([100 * share for share in row["idle_cpu"]], ".1f"), row["stop"]] for row in rows]
    return table(["", f"`mlp`, added p50 at {measure.PACE_RPS}/s, ms", "`filetype`, the same", "`tiny`, whole p50, ms",
                  "`tiny` saturated, requests/s", "CPU a request, us", "idle, % of a core", "gone after SIGTERM"], lines)


def loads_table(rows: list[dict], name: str, best_rps: float) -> str:
    """Per cent in time, by what is offered."""
    def cells(row: dict) -> list[str]:
        found = row["loads"].get(name, {})
        return [ranged([100 * good["share"] for good in found.get(key, [])], ".0f") for key in (*measure.SHARES, "after")]

    return table([f"`{name}`: % in time at", *(f"{share * best_rps:,.0f}/s" for share in measure.SHARES),
                  f"{measure.RECOVERY * best_rps:,.0f}/s right after"], [[row["title"], *cells(row)] for row in rows])


def best_rps(engine: dict) -> float:
    return max(1e3 * batch / ms for batch, ms in engine["batch_ms"].items())


def chart(result: dict, name: str) -> str:
    """An SVG: requests in time a second over requests offered, with the range of the rounds."""
    best = result["best_rps"][name]
    rows = [row for row in result["rows"] if name in row["loads"]]
    most = measure.SHARES[-1] * best

    def at(share: float, rps: float) -> tuple[float, float]:
        return LEFT + WIDTH * share * best / most, TOP + HEIGHT * (1 - rps / best)

    def text(x: float, y: float, words: str, anchor: str = "middle", more: str = "") -> str:
        return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="#444"{more}>{words}</text>'

    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + NAMES} {TOP + HEIGHT + 60}" '
             'font-family="sans-serif" font-size="13">',
             f"<title>{name}: requests answered in time over requests offered, by server</title>",
             f'<rect width="{LEFT + WIDTH + NAMES}" height="{TOP + HEIGHT + 60}" fill="#fff"/>']
    for share in (0, *measure.SHARES):
        x, y = at(share, 0)
        lines.append(text(x, y + 18, f"{share * best:,.0f}"))
        if share <= 1:
            x, y = at(0, share * best)
            lines.append(f'<path d="M{x:.1f} {y:.1f}h{WIDTH}" stroke="#ddd"/>' + text(x - 8, y + 4, f"{share * best:,.0f}", "end"))
    lines.append(text(LEFT + WIDTH / 2, TOP + HEIGHT + 42, "requests offered a second"))
    lines.append(text(0, 0, "answered in time, a second", more=f' transform="translate(16 {TOP + HEIGHT / 2}) rotate(-90)"'))
    (x0, y0), (x1, y1) = at(0, 0), at(1, best)
    lines.append(f'<path d="M{x0:.1f} {y0:.1f}L{x1:.1f} {y1:.1f}" stroke="#aaa" stroke-dasharray="4 4"/>')
    for number, row in enumerate(rows):
        colour = COLOURS[row["name"]]
        points = [(share, [good["rps"] for good in row["loads"][name].get(share, [])]) for share in measure.SHARES]
        points = [(share, rates) for share, rates in points if rates]
        path = " ".join("{:.1f},{:.1f}".format(*at(share, statistics.median(rates))) for share, rates in points)
        lines.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{3 if number == 0 else 2}"/>')
        for share, rates in points:
            (x, low), (_, high) = at(share, min(rates)), at(share, max(rates))
            lines.append(f'<path d="M{x + 2 * number - 7:.1f} {low:.1f}V{high:.1f}" stroke="{colour}" stroke-width="2"/>')
        y = TOP + 16 + 22 * number
        lines.append(f'<path d="M{LEFT + WIDTH + 12} {y - 4}h16" stroke="{colour}" stroke-width="3"/>'
                     + text(LEFT + WIDTH + 34, y, row["title"], "start"))
    return "\n".join(lines) + "\n</svg>\n"


def document(result: dict) -> str:
    rows, failed = result["rows"], result["failed"]
    plan = result["plan"]
    slos = ", ".join(f"`{name}` {models.MODELS[name].slo_ms:g} ms" for name in measure.LOADED)
    text = f"""\
# Symphony beside other model servers

**Triton stands here in two ways**, since its ONNX Runtime backend is not in the Python package that was measured.
"Engine in its process" is Triton's core around a backend of ours (`bench/compare/serve/engine_backend.c`) that does
what that one does. "Python backend" is Triton's own, which runs ONNX Runtime in another process.

Written on {result['date']} by

    {result['invocation']}

The same models, one engine thread and one core for each server, the same client on another core. **All servers are
measured in turns, {plan['rounds']} rounds**, at the same rates; the others stand still meanwhile (SIGSTOP). Figures are
medians, with the least and the most of the rounds.

Machine: {result['machine']}.

## Load through overload

Poisson arrivals, {plan['load_s']:g} s each, at {", ".join(f"{share:g}" for share in measure.SHARES)} times what the engine alone does in its best batch;
at once after the last, {measure.RECOVERY:g} times. SLO: {slos}.

"""
    for name in measure.LOADED:
        text += (f"![{name}: answered in time over offered](images/compare-{name}.svg)\n\n"
                 + loads_table([row for row in rows if name in row["loads"]], name, result["best_rps"][name]) + "\n")
    text += f"""\
## Cost of the server itself

{cost_table([row for row in rows if row["tiny_rps"]], result["engine"])}
Added p50: the median from when a request was due to its whole answer, less the engine's own time. Saturated: 32 or 128
requests always outstanding, the better; CPU of all of the server's processes.

"""
    if failed:
        text += "Not measured:\n\n" + "".join(f"- {title}: {why}\n" for title, why in failed.items()) + "\n"
    text += f"""\
## The models and the engine alone

{"".join(f"- `{name}`: {model.what}. SLO {model.slo_ms:g} ms.{chr(10)}" for name, model in models.MODELS.items())}
The engine alone is ONNX Runtime {result['engine_version']} with `intra_op_num_threads` and `inter_op_num_threads` 1,
called directly in a closed loop.

## Versions and settings

Python {result['python']}; client: `symphony bench` of {result['client_version']}, {load.CONNECTIONS}
kept-alive connections and more when all are busy.

| | version | tensors | settings |
|---|---|---|---|
"""
    settings = {}
    for row in rows:
        settings.setdefault((row["version"], row["tensors"], row["settings"]), []).append(row["title"])
    for like, titles in settings.items():
        text += f"| {'; '.join(titles)} | {' | '.join(like)} |\n"
    return text + NOTES.format(batch=", ".join(f"{size} for `{name}`" for name, size in result["batch"].items()))


NOTES = """
## Notes

- Every server's answers were compared with the engine's.
- Largest batch (`max_batch_size`) of servers that want one: {batch},
  the largest of which two in a row still meet the SLO.
- Triton is its core with both front ends, from the Python package `nvidia-pytriton`. The REJECT policy's timeout is the
  SLO less 1 ms and the time of the largest batch.
- Not compared: servers of language models (vLLM, TensorRT-LLM, SGLang) and of Python code (Ray Serve, BentoML).
- Where a difference is within the ranges, it means nothing.
"""
