"""test_soak.py - the soak, shortly: the server is afterwards as it was before. Memory is judged only after three minutes."""
# sanitizers: address thread
import json
import pathlib
import subprocess
import sys

import pytest

SOAK = pathlib.Path(__file__).parent.parent.parent / "bench" / "soak.py"


@pytest.mark.parametrize("how", [["--minutes", "0.05"], pytest.param(["--minutes", "3"], marks=pytest.mark.long),
                                 pytest.param(["--minutes", "0.2", "--tls"], marks=pytest.mark.long)])
def test_soak(how):
    for minutes in ([], ["--minutes", "1"], ["--minutes", "5"]):  # for longer if the machine stood still
        run = subprocess.run([sys.executable, "-B", SOAK, "--seed", "7", "--json", *how, *minutes],
                             capture_output=True, text=True, timeout=1200)
        result = json.loads(run.stdout)
        assert run.returncode == 0 and not result["wrong"], run.stderr
        if all(result["counts"].get(what) for what in ("died", "http 200", "grpc OK")):
            return
    pytest.fail("clients did not do all that they may: %s" % result["counts"])
