"""Symphony's simulator from Python: `simulate()` one scenario, `sweep()` over settings, `rows()` for tables.

    import symphony
    result = symphony.simulate("scenarios/zoo-1080ti.yaml", policy="clockwork:ahead_ms=0", seed=3)
    print(result["good_rps"], result["models"][0]["latency_ms"]["p99"])

Results are what `symphony simulate --json` writes, as dictionaries (docs/simulate.md). Nothing but the standard library is needed, and the
program: the one that the environment variable SYMPHONY names, else that of the tree in which this package lies, else the one beside
the Python interpreter, where a wheel puts it, else the one on the PATH.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

__all__ = ["Error", "program", "rows", "simulate", "sweep"]


class Error(Exception):
    """The program refused or failed; the text is what it said."""


def program():
    """The path of the program `symphony`."""
    here = pathlib.Path(__file__).resolve().parent
    places = [os.environ.get("SYMPHONY"), here.parents[1] / "build" / "release" / "symphony",
              pathlib.Path(sys.executable).parent / "symphony", shutil.which("symphony")]
    for place in places:
        if place and os.access(place, os.X_OK):
            return str(place)
    raise Error("there is no program 'symphony': set SYMPHONY to its path")


def _run(scenario, settings, policy, seed, goodput, precision, trace, threads, keys):
    command = [program(), "simulate"]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "scenario.yaml"
        if isinstance(scenario, dict):  # JSON is YAML
            path.write_text(json.dumps(scenario, default=_plain))
            arrivals = (scenario.get("workload") or {}).get("arrivals")
            if isinstance(arrivals, dict):  # a trace's path is relative to the working directory if it is a setting
                settings = {"workload.arrivals": arrivals, **(settings or {})}
            scenario = path
        command.append(os.fspath(scenario))
        for key, value in (settings or {}).items():
            command.append(f"--set={key}={_text(value)}")
        for key, values in keys.items():
            values = [values] if isinstance(values, (str, dict)) or not hasattr(values, "__iter__") else values
            command.append(f"--sweep={key}={','.join(_text(value) for value in values)}")
        for option, value in {"policy": policy, "seed": seed, "precision": precision, "trace": trace, "threads": threads}.items():
            if value is not None:
                command.append(f"--{option}={value}")
        if goodput:
            command.append("--find=goodput")
        done = subprocess.run([*command, "--json"], capture_output=True, text=True)
    if done.returncode:
        raise Error(done.stderr.strip().replace(str(path), "scenario") or f"symphony simulate ended with {done.returncode}")
    return json.loads(done.stdout)


def _text(value):
    return value if isinstance(value, str) else json.dumps(value, default=_plain)


def _plain(value):
    """Of NumPy's numbers and arrays, what JSON can say."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise Error(f"{value!r} is neither a number, a text, a list nor a dictionary")


def simulate(scenario, settings=None, *, policy=None, seed=None, goodput=False, precision=None, trace=None):
    """Simulates a scenario, a file or a dictionary with the same keys (docs/scenarios.md), and returns the result.

    settings changes keys: {"workload.rate_rps": 7000}. policy is "NAME:KEY=VALUE,...", or the path of a shared object (docs/policies.md).
    goodput: searches the highest rate at which every model has 99 % of its requests good, to within `precision` (0.01). trace: a file
    to write the timeline to. The same arguments give the same result on every machine. Raises Error."""
    return _run(scenario, settings, policy, seed, goodput, precision, trace, None, {})


def sweep(scenario, keys, settings=None, *, policy=None, seed=None, goodput=False, precision=None, threads=None):
    """Simulates all combinations of keys' values, {"workload.rate_rps": [1000, 2000], "run.seed": range(5)}; the last key changes
    fastest. Returns a list of results; the member "sweep" says which is which. `threads` simulate at once (one a core)."""
    results = _run(scenario, settings, policy, seed, goodput, precision, None, threads, keys)
    return results if keys else [results]


def rows(results, models=False):
    """Results as flat dictionaries, for csv.DictWriter or pandas.DataFrame: one of each result, or, with `models`, of each model of each.
    Numbers of nested members get names as `latency_ms.p99`; lists are left out."""
    results = [results] if isinstance(results, dict) else results
    return [{**_flat(result), **(_flat(model) if model else {})} for result in results for model in (result["models"] if models else [None])]


def _flat(result):
    flat = {}
    for key, value in result.items():
        if key == "sweep":
            flat.update(value)
        elif isinstance(value, dict):
            flat.update({f"{key}.{inner}": number for inner, number in _flat(value).items()})
        elif not isinstance(value, list):
            flat[key] = value
    return flat
