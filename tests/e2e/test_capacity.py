"""test_capacity.py - the examples of docs/capacity.md and docs/plan.md print what these say."""
import pathlib
import re
import shlex
import subprocess

import pytest

from server import BINARY

TOP = pathlib.Path(__file__).resolve().parents[2]
# An example is an indented block that begins with "$ symphony"; blank lines may be within it.
EXAMPLE = re.compile(r"^    \$ symphony (.*)\n((?:    .*\n|\n(?=    ))*)", re.M)
EXAMPLES = [example for page in ("capacity.md", "plan.md") for example in EXAMPLE.findall((TOP / "docs" / page).read_text())]
# Parts of the commands that take seconds of a processor: others show the same columns, and change with the same policies.
TAKE_LONG = "--find goodput --sweep cluster.accelerators", "run.seconds=2400"


def cases():
    for command, output in EXAMPLES:
        marks = [pytest.mark.long] if any(part in command for part in TAKE_LONG) else []
        yield pytest.param(command, output, id=command[:60], marks=marks)


def shown(text):
    """Without the time it took, and the ends of lines."""
    return [re.sub(r"; \d+\.\d+ s$", "", line).rstrip() for line in text.strip("\n").splitlines()]


def test_there_are_examples():
    assert len(EXAMPLES) >= 8


@pytest.mark.parametrize("command, output", list(cases()))
def test_examples_print_what_is_said(command, output):
    done = subprocess.run([pathlib.Path(BINARY).resolve(), *shlex.split(command)], cwd=TOP, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert shown(done.stdout) == shown("\n".join(line[4:] for line in output.splitlines()))
