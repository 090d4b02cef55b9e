"""test_soak.py - the soak, shortly: the server is afterwards as it was before."""
# sanitizers: yes
import json
import pathlib
import subprocess
import sys

import pytest

SOAK = pathlib.Path(__file__).parent.parent.parent / "bench" / "soak.py"


@pytest.mark.parametrize("how", [["--minutes", "0.2"], ["--minutes", "0.1", "--tls"]])
def test_soak(how):
    run = subprocess.run([sys.executable, "-B", SOAK, "--seed", "7", "--json", *how],
                         capture_output=True, text=True, timeout=1200)
    result = json.loads(run.stdout)
    assert run.returncode == 0 and not result["wrong"], run.stderr
    assert result["counts"]["died"] > 0 and result["counts"]["http 200"] > 0 and result["counts"]["grpc OK"] > 0
