"""test_hostile.py - the good client beside hostile ones, shortly: all of them act, and the server goes on."""
# all: yes, it shows that a benchmark runs; test_rude.py has what such clients do to a server
import pathlib
import subprocess
import sys

HOSTILE = pathlib.Path(__file__).parent.parent.parent / "bench" / "hostile.py"
KINDS = ("impossible", "hurried", "poison", "silent", "half_close", "handshake", "slow_body", "large_body", "stream", "shape",
         "picture", "fan_out", "unread", "first_byte", "half_head", "inflate", "references", "flood")


def test_hostile():
    run = subprocess.run([sys.executable, "-B", HOSTILE, "--seconds", "1", "--rate", "20"],
                         capture_output=True, text=True, timeout=1200)
    assert run.returncode in (0, 1), run.stderr  # what is lost, a busy machine may decide
    assert "Traceback" not in run.stderr, run.stderr
    assert "| nobody | " in run.stdout and "| all of them | " in run.stdout
    for kind in KINDS:
        assert f"{kind} asked: " in run.stdout, run.stdout
