"""report.py - the document: what was measured, how, with what, and the figures."""

import load
import measure
import models
import quiet

NONE = "–"


def figure(value, form: str) -> str:
    return NONE if value is None else format(value, form)


def pair(row: dict, key: str, inner: str, form: str) -> str:
    found = row.get(key, {})
    return ", ".join(figure(found[name][inner], form) if name in found else NONE for name in measure.LOADED)


def table(head: list[str], lines: list[list[str]]) -> str:
    rule = ["---"] + ["---:"] * (len(head) - 1)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, rule, *lines)) + "\n"


def cost_table(rows: list[dict]) -> str:
    lines = [[row["title"], *(figure(row["added_ms"][name], ".2f") for name in measure.LOADED),
              figure(row["p50_ms"]["tiny"], ".2f"), figure(row["tiny_rps"], ",.0f"), figure(row["tiny_cpu_us"], ".0f"),
              figure(100 * row["idle_cpu"], ".1f")] for row in rows]
    return table(["", f"`mlp`, added p50 at {measure.PACE_RPS}/s, ms", "`filetype`, the same", "`tiny`, whole p50, ms",
                  "`tiny` saturated, requests/s", "CPU a request, us", "idle, % of a core"], lines)


def goodput_table(rows: list[dict], engine: dict) -> str:
    alone = ["the engine alone, its best batch"]
    for name in measure.LOADED:
        alone += [figure(best_rps(engine[name]), ",.0f"), ""]
    lines = [alone]
    for row in rows:
        goodput = row.get("goodput_rps", {})
        lines.append([row["title"], *(figure(goodput.get(name, {}).get(arrivals), ",.0f")
                                      for name in measure.LOADED for arrivals in measure.ARRIVALS)])
    return table(["goodput, requests/s"] + [f"`{name}`, {arrivals}" for name in measure.LOADED
                                            for arrivals in ("constant gaps", "Poisson")], lines)


def overload_table(rows: list[dict]) -> str:
    lines = [[row["title"], pair(row, "overload", "good", ".1%"), pair(row, "overload", "goodput_kept", ".0%"),
              pair(row, "overload", "refused", ".1%"), pair(row, "overload", "refusal_p99_ms", ".1f"),
              pair(row, "overload", "good_after", ".1%"), row.get("stop", NONE)] for row in rows]
    return table(["`mlp`, `filetype`", f"in time at {measure.OVERLOAD} times the goodput", "goodput kept", "refused",
                  "a refusal's p99, ms", f"in time at {measure.RECOVERY} times, right after",
                  "gone after SIGTERM"], lines)


def best_rps(engine: dict) -> float:
    return max(1e3 * batch / ms for batch, ms in engine["batch_ms"].items())


def document(result: dict) -> str:
    rows, failed = result["rows"], result["failed"]
    full = [row for row in rows if "goodput_rps" in row]
    plan = result["plan"]
    slos = ", ".join(f"`{name}` {models.MODELS[name].slo_ms:g} ms" for name in measure.LOADED)
    text = f"""\
# Symphony beside other model servers

**Triton stands here in two ways.** Its ONNX Runtime backend, which most people would use, is not in the Python package that was measured, and no
package registry has its source. "Engine in its process" is Triton's core around a backend of ours (`bench/compare/serve/engine_backend.c`) that
does what that one does and no more: it gathers inputs, calls ONNX Runtime in Triton's process, and copies outputs. "Python backend" is Triton's
own, which runs ONNX Runtime in another process.

`{result['invocation']}` wrote this page on {result['date']}: the same models and one engine thread, one server after the
other on the same core, the same client on another. Run it again to have the figures of your machine.

Machine: {result['machine']}. Server on core {result['server_core']}, client on core {result['client_core']}.

## Cost of the server itself

{cost_table([row for row in rows if "added_ms" in row])}
Added p50: the median from when a request was due to its whole answer, less the engine's own time at the same pace.
`tiny` saturated: 32 or 128 requests always outstanding, the better; CPU of all of the server's processes.

## Goodput

The highest rate at which at least 99 % of the requests are answered within the SLO ({slos}),
found by `symphony bench --find goodput` to {plan['precision']:.0%} with trials of {plan['probe_s']:g} s.

{goodput_table(full, result['engine'])}
## Overload, and after

{plan['overload_s']:g} s at {measure.OVERLOAD} times the server's own goodput at constant gaps, then at once
{plan['recovery_s']:g} s at {measure.RECOVERY} times.

{overload_table(full)}
"""
    if failed:
        text += "Not measured:\n\n" + "".join(f"- {title}: {why}\n" for title, why in failed.items()) + "\n"
    text += f"""\
## The models and the engine alone

{"".join(f"- `{name}`: {model.what}. SLO {model.slo_ms:g} ms.{chr(10)}" for name, model in models.MODELS.items())}
The engine alone is ONNX Runtime {result['engine_version']} with `intra_op_num_threads` and `inter_op_num_threads` 1, called
directly in a closed loop, in batches of up to 32.

## Versions and settings

Python {result['python']}; client: `symphony bench` of {result['client_version']}, {load.CONNECTIONS} kept-alive
connections and more when all are busy.

| | version | tensors | settings |
|---|---|---|---|
"""
    for row in rows:
        text += f"| {row['title']} | {row['version']} | {row['tensors']} | {row['settings']} |\n"
    return text + NOTES.format(batch=", ".join(f"{size} for `{name}`" for name, size in result["batch"].items()),
                               others=max((row["others_share"] for row in rows), default=0), slower=quiet.SLOWER,
                               others_max=quiet.OTHERS, repeats=quiet.REPEATS, **result["quiet"])


NOTES = """
## Notes

- Every server's answers were compared with the engine's own before it was measured.
- Largest batch given to the servers that want one: {batch}, the largest of which two in a row still meet the SLO. Symphony
  works its own out.
- Triton is its core with both front ends, from the Python package `nvidia-pytriton`. The REJECT policy's timeout is the SLO
  less 1 ms and the time of the largest batch.
- Not compared: vLLM, TensorRT-LLM and SGLang, which stream tokens of language models; Ray Serve and BentoML, which run
  Python code.
- MLServer takes tensors over HTTP as JSON only. LitServe speaks no Open Inference Protocol: its paths and tensors are
  given by `api_path`, `decode_request` and `encode_response`.
- "–": not asked of this server.
- One run on one machine: differences of a few per cent mean nothing. While a server was measured, other processes
  took at most {others:.1%} of the two cores.
- The engine alone ran on the server's core before and after each measurement. Where it was more than {slower:.0%}
  slower than usual, or other processes took more than {others_max:.0%} of the cores, the measurement was made again, up
  to {repeats} times: {repeated} of {measured} were, and {disturbed} remained disturbed.
"""
