"""servers.py - the servers that are compared: how each starts, is known to be ready, and stops.

To add a server, write a class with prepare() and command(), and put it into SERVERS.
"""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import environments
import models

HOST = "127.0.0.1"
SERVE = Path(__file__).parent / "serve"
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
SETTLE_S = 20  # at most, until a server has worked off what a load has left
BUSY_SHARE = 0.4  # of a core: a server that takes less has nothing left (LitServe takes a quarter when idle)


class Context:
    """What every server is given: folders, ports, the server's core, the models' files, and what the engine needs."""

    def __init__(self, root: Path, top: Path, core: int, onnx: dict[str, Path], engine: dict):
        self.root, self.top, self.core, self.onnx, self.engine = root, top, core, onnx, engine
        self.batch = {name: models.max_batch(models.MODELS[name], engine[name]["batch_ms"]) for name in models.MODELS}
        self.environments: dict[str, environments.Environment] = {}

    def environment(self, name: str) -> environments.Environment:
        if name not in self.environments:
            self.environments[name] = environments.Environment(self.root, name).ensure()
        return self.environments[name]


def session_processes(session: int) -> dict[int, int]:
    """The CPU time in ticks of each live process of a session, by process id."""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        with contextlib.suppress(OSError):
            with open(f"/proc/{entry}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
            state, in_session, ticks = fields[0], int(fields[3]), int(fields[11]) + int(fields[12])
            if in_session == session and state != "Z":
                found[int(entry)] = ticks
    return found


class Server:
    """One row of the table. A running server is a session of its own, so that all of its processes are known."""

    name = ""
    title = ""
    settings = ""  # one line for the document
    tensors = "binary"  # how requests carry their tensors: the fastest way of this server
    asked = ("cost", "loads")  # the measurements; a variant that differs in one respect is measured in that alone

    def __init__(self, context: Context, port: int):
        self.context, self.port = context, port  # and two ports more
        self.process = None
        self.log = context.root / "log" / f"{self.name}.log"
        self.stop_note = ""

    def prepare(self) -> None:
        """Sets the server up; raises environments.Unavailable."""

    def version(self) -> str:
        raise NotImplementedError

    def command(self) -> list[str]:
        raise NotImplementedError

    def variables(self) -> dict[str, str]:
        return {}

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def start(self, timeout_s: float = 300) -> None:
        with socket.socket() as probe:
            if probe.connect_ex((HOST, self.port)) == 0:
                raise environments.Unavailable(f"port {self.port} is in use; choose others with --port")
        self.log.parent.mkdir(parents=True, exist_ok=True)
        command = ["taskset", "--cpu-list", str(self.context.core), *self.command()]
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(command, env={**os.environ, **self.variables()}, cwd=self.context.root,
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                                            start_new_session=True)
        deadline = time.monotonic() + timeout_s
        while not self.ready():
            if self.process.poll() is not None:
                raise environments.Unavailable(f"{self.title} exited with {self.process.returncode}: see {self.log}")
            if time.monotonic() > deadline:
                raise environments.Unavailable(f"{self.title} was not ready after {timeout_s:.0f} s: see {self.log}")
            time.sleep(0.2)

    def ready(self) -> bool:
        try:
            return self.get("/v2/health/ready")[0] == 200 and all(
                self.get(f"/v2/models/{name}")[0] == 200 for name in models.MODELS)
        except (OSError, http.client.HTTPException):
            return False

    def get(self, path: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(HOST, self.port, timeout=5)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def cpu_s(self) -> float:
        """CPU time of all of the server's processes since they began."""
        return sum(session_processes(self.process.pid).values()) / CLOCK_TICKS

    @contextlib.contextmanager
    def awake(self):
        """The server runs; otherwise it stands still, and takes nothing from the others. At the end it works off what
        a load has left."""
        self.send(signal.SIGCONT)
        try:
            yield
            deadline = time.monotonic() + SETTLE_S
            while time.monotonic() < deadline:
                began = self.cpu_s()
                time.sleep(0.3)
                if self.cpu_s() - began <= 0.3 * BUSY_SHARE:
                    break
        finally:
            self.send(signal.SIGSTOP)

    def send(self, number: signal.Signals) -> None:
        for pid in session_processes(self.process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def stop(self, grace_s: float = 10) -> None:
        """Sends SIGTERM to the server as an init system would, and after a grace period kills all that is left."""
        if self.process is None:
            return
        # A second Ctrl-C must not leave processes behind.
        held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
        try:
            self.stop_held(grace_s)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, held)

    def stop_held(self, grace_s: float) -> None:
        self.send(signal.SIGCONT)
        began = time.monotonic()
        self.process.terminate()
        while session_processes(self.process.pid) and time.monotonic() - began < grace_s:
            self.process.poll()
            time.sleep(0.05)
        left = session_processes(self.process.pid)
        elapsed_s = time.monotonic() - began
        self.stop_note = f"{len(left)} left after {grace_s:.0f} s" if left else f"{elapsed_s:.1f} s"
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        self.process = None


class Symphony(Server):
    name = "symphony"
    title = "Symphony"
    settings = "defaults; `slo_ms` of each model in its `symphony.yaml`"

    @property
    def program(self) -> Path:
        return self.context.top / "build" / "release" / "symphony"

    def prepare(self):
        if not self.program.exists():
            raise environments.Unavailable(f"{self.program} is not built: ./run serve builds it")
        self.repository = models.symphony_repository(self.context.root / "symphony", self.context.onnx)

    def version(self):
        output = subprocess.run([self.program, "--version"], capture_output=True, text=True, check=True).stdout
        return output.split()[1]

    def command(self):
        return [str(self.program), "serve", "--repository", str(self.repository), "--accelerators", "cpu:1",
                "--host", HOST, "--http-port", str(self.port), "--no-grpc", "--metrics-port",
                str(self.port + 2)]


def reject(server: Server, queue: str, name: str) -> str:
    """With the longest wait that leaves time for the largest batch to run."""
    run_ms = server.context.engine[name]["batch_ms"][server.context.batch[name]]
    longest_us = int(1000 * max(1.0, models.MODELS[name].slo_ms - 1 - run_ms))
    return f"{queue} default_queue_policy {{ timeout_action: REJECT default_timeout_microseconds: {longest_us} }}"


class TritonServer(Server):
    name = "triton"
    title = "Triton (core, Python backend)"
    queue_delay_us = 1000
    model_py: Path | None = SERVE / "triton_model.py"

    @property
    def settings(self):
        return f"`dynamic_batching {{ {self.queue('mlp')} }}` (`mlp`)"

    def queue(self, name: str) -> str:
        delay = f"max_queue_delay_microseconds: {self.queue_delay_us}" if self.queue_delay_us else ""
        return f"preferred_batch_size: [ {self.context.batch[name]} ] {delay}".strip()

    def prepare(self):
        self.triton = environments.Triton(self.context.environment("triton"))
        self.repository = models.triton_repository(self.context.root / self.name, self.context.onnx,
                                                   self.model_py, self.context.batch,
                                                   {name: self.queue(name) for name in models.MODELS})

    def version(self):
        return json.loads(self.get("/v2")[1])["version"]

    def command(self):
        return [str(self.triton.program), "--model-repository", str(self.repository),
                "--backend-directory", str(self.backends()), "--http-address", HOST,
                "--http-port", str(self.port), "--grpc-port", str(self.port + 1),
                "--metrics-port", str(self.port + 2), "--allow-gpu-metrics=false"]

    def variables(self):
        return self.triton.variables()

    def backends(self) -> Path:
        return self.triton.backends


class TritonInProcess(TritonServer):
    """Its core around a backend of ours that calls ONNX Runtime in its process: what its ONNX Runtime backend does, and no more."""

    name = "triton-in-process"
    title = "Triton (core, engine in its process)"
    model_py = None

    def prepare(self):
        super().prepare()
        engine = self.context.top / "build" / "onnxruntime"
        library = self.backends() / "engine" / "libtriton_engine.so"
        library.parent.mkdir(parents=True, exist_ok=True)
        command = ["gcc", "-std=gnu11", "-O2", "-shared", "-fPIC", f"-I{engine}/include", str(SERVE / "engine_backend.c"), "-o", str(library),
                   f"-L{engine}/lib", "-lonnxruntime", f"-Wl,-rpath,{engine}/lib"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise environments.Unavailable(f"engine_backend.c could not be compiled: {done.stderr.strip()[-300:]}")

    def backends(self):
        return self.context.root / "backends"


class TritonInProcessReject(TritonInProcess):
    name = "triton-in-process-reject"
    title = "Triton (core, engine in its process), REJECT"
    asked = ("loads",)

    def queue(self, name):
        return reject(self, super().queue(name), name)


class TritonNoDelay(TritonServer):
    name = "triton-no-delay"
    title = "Triton (core, Python backend), no queue delay"
    queue_delay_us = 0
    asked = ("cost",)


class TritonReject(TritonServer):
    name = "triton-reject"
    title = "Triton (core, Python backend), REJECT"
    asked = ("loads",)

    def queue(self, name):
        return reject(self, super().queue(name), name)


def script_settings(server: Server, **more) -> str:
    """The JSON file that a server made of a script reads; returns its path."""
    rows = [{"name": name, "path": str(server.context.onnx[name].resolve()), "input": model.input,
             "datatype": model.datatype, "width": model.width, "output": model.output,
             "output_width": model.output_width, "max_batch": server.context.batch[name]}
            for name, model in models.MODELS.items()]
    path = server.context.root / f"{server.name}.json"
    path.write_text(json.dumps({"port": server.port, "models": rows, **more}, indent=1))
    return str(path)


class PyTriton(Server):
    name = "pytriton"
    title = "PyTriton"
    settings = "`DynamicBatcher(max_queue_delay_microseconds=1000)`"

    def prepare(self):
        self.environment = self.context.environment("triton")
        self.arguments = script_settings(self, queue_delay_us=1000)

    def version(self):
        return self.environment.version("nvidia-pytriton")

    def command(self):
        return [str(self.environment.python), str(SERVE / "pytriton_app.py"), self.arguments]


class MLServer(Server):
    name = "mlserver"
    title = "MLServer"
    tensors = "json"  # its HTTP front end has no binary tensors
    settings = "`max_batch_time` 0.001, `parallel_workers` 0 (quicker on one core than a process of its own)"

    def prepare(self):
        self.environment = self.context.environment("mlserver")
        settings = {"host": HOST, "http_port": self.port, "grpc_port": self.port + 1, "metrics_port": self.port + 2,
                    "parallel_workers": 0, "debug": False}
        self.repository = models.mlserver_repository(self.context.root / self.name, self.context.onnx,
                                                     SERVE / "mlserver_model.py", json.dumps(settings),
                                                     self.context.batch, 0.001)

    def version(self):
        return self.environment.version("mlserver")

    def command(self):
        return [str(self.environment.folder / "bin" / "mlserver"), "start", str(self.repository)]


class LitServe(Server):
    name = "litserve"
    title = "LitServe"
    settings = "`batch_timeout` 0.001, `num_api_servers` 1, `fast_queue` (quicker than without)"

    def prepare(self):
        self.environment = self.context.environment("litserve")
        self.arguments = script_settings(self, batch_timeout_s=0.001, fast_queue=True)

    def version(self):
        return self.environment.version("litserve")

    def command(self):
        return [str(self.environment.python), str(SERVE / "litserve_app.py"), self.arguments]


SERVERS = [Symphony, TritonInProcess, TritonInProcessReject, TritonServer, TritonNoDelay, TritonReject, PyTriton, MLServer, LitServe]
