"""load.py - puts loads on a server with the same client for all: `symphony bench`, pinned to a core of its own."""

import json
import subprocess
from pathlib import Path

import models
from servers import Server


WARMUP_S = 0.5
CONNECTIONS = 128  # opened before the first request; the client opens more when all are busy


class LoadError(Exception):
    """The client could not do its work; the message is its own."""


class Client:
    def __init__(self, program: Path, core: int, log: Path):
        self.program, self.core, self.log = program, core, log

    def command(self, server: Server, model: models.Model, *options: str) -> list[str]:
        tensors = ["--json-tensors", "--outputs", "json"] if server.tensors == "json" else []
        return ["taskset", "--cpu-list", str(self.core), str(self.program), "bench", server.url, "--json",
                "--models", model.name, "--connections", str(CONNECTIONS), *tensors, *options]

    def begin(self, server: Server, model: models.Model, *options: str) -> subprocess.Popen:
        return subprocess.Popen(self.command(server, model, *options), stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def end(self, running: subprocess.Popen) -> dict:
        try:
            output, errors = running.communicate()
        except BaseException:  # Ctrl-C: the client ends with us
            running.kill()
            running.wait()
            raise
        with open(self.log, "a") as log:
            log.write(f"$ {' '.join(running.args)}\n{errors}{output}\n")
        if running.returncode != 0:
            raise LoadError(errors.strip().splitlines()[-1] if errors.strip() else f"status {running.returncode}")
        return json.loads(output)

    def run(self, server: Server, model: models.Model, *options: str) -> dict:
        return self.end(self.begin(server, model, *options))

    def rate(self, server: Server, model: models.Model, rate_rps: float, seconds: float, arrivals: str,
             *options: str) -> dict:
        return self.run(server, model, *open_loop(model, rate_rps, seconds, arrivals), *options)

    def answered_rps(self, server: Server, model: models.Model, outstanding: int, seconds: float) -> float:
        """Answers a second when so many requests are always outstanding."""
        return self.run(server, model, "--closed", str(outstanding), "--seconds", f"{seconds:g}", "--warmup",
                        "0")["good_rps"]


def open_loop(model: models.Model, rate_rps: float, seconds: float, arrivals: str) -> tuple[str, ...]:
    return ("--rate", f"{rate_rps:.1f}", "--seconds", f"{seconds:g}", "--arrivals", arrivals, "--warmup",
            f"{WARMUP_S:g}", "--slo-ms", f"{model.slo_ms:g}")
