"""environments.py - a Python environment for each server, made once under build/compare and kept."""

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"  # of the Python that every environment gets
ENGINE = "onnxruntime==1.31.1"  # the version Symphony itself uses
REQUIREMENTS = {
    "triton": ["nvidia-pytriton==0.7.0", ENGINE],  # its Python backend needs the old numpy that PyTriton asks for
    "mlserver": ["mlserver==1.7.1", "uvloop<0.22", ENGINE],  # newer uvloops have no default event loop for it to find
    "litserve": ["litserve==0.2.19", ENGINE],
}


class Unavailable(Exception):
    """A server cannot be set up here; the message says why."""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class Environment:
    def __init__(self, root: Path, name: str):
        self.name = name
        self.folder = root / f"venv-{name}"
        self.python = self.folder / "bin" / "python"
        self.log = root / "log" / f"setup-{name}.log"
        self.stamp = self.folder / ".complete"

    def ensure(self) -> "Environment":
        """Installs the requirements unless that has been done; an interrupted installation is begun again."""
        wanted = hashlib.sha256("\n".join([sys.version, *REQUIREMENTS[self.name]]).encode()).hexdigest()
        if self.stamp.exists() and self.stamp.read_text() == wanted:
            return self
        say(f"compare: installing {', '.join(REQUIREMENTS[self.name])}")
        self.log.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)
        with open(self.log, "w") as log:
            for command in (
                [base_python(), "-m", "venv", str(self.folder)],
                [str(self.python), "-m", "pip", "install", "--disable-pip-version-check",
                 "--only-binary=:all:", *REQUIREMENTS[self.name]],
            ):
                if subprocess.run(command, stdout=log, stderr=subprocess.STDOUT).returncode != 0:
                    raise Unavailable(f"{REQUIREMENTS[self.name][0]} cannot be installed for Python {VERSION}: "
                                      f"{self.last_error()} ({self.log})")
        self.stamp.write_text(wanted)
        return self

    def last_error(self) -> str:
        lines = [line for line in self.log.read_text().splitlines() if line.startswith("ERROR: ")]
        return lines[-1].removeprefix("ERROR: ") if lines else "no reason given"

    @property
    def site_packages(self) -> Path:
        return self.folder / "lib" / f"python{VERSION}" / "site-packages"

    def version(self, package: str) -> str:
        program = "import sys, importlib.metadata; print(importlib.metadata.version(sys.argv[1]))"
        command = [str(self.python), "-c", program, package]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def base_python() -> str:
    """The interpreter this one's environment was made from, so that every environment has the same."""
    return os.path.realpath(os.path.join(sys.base_exec_prefix, "bin", f"python{VERSION}"))


class Triton:
    """Triton's own server as the nvidia-pytriton wheel carries it, with its Python backend made complete."""

    def __init__(self, environment: Environment):
        package = environment.site_packages / "pytriton" / "tritonserver"
        self.program = package / "bin" / "tritonserver"
        self.backends = package / "backends"
        self.libraries = environment.site_packages / "nvidia_pytriton.libs"
        self.programs = environment.folder / "bin"
        stub = package / "python_backend_stubs" / VERSION / "triton_python_backend_stub"
        if not stub.exists():
            raise Unavailable(f"the wheel has no Python backend for Python {VERSION}")
        beside = self.backends / "python" / stub.name
        if not beside.exists():
            shutil.copyfile(stub, beside)
        for program in (self.program, beside):
            program.chmod(0o755)

    def variables(self) -> dict[str, str]:
        """What the server's environment needs: the wheel's libraries, and the stub's Python packages."""
        python_libraries = sysconfig.get_config_var("LIBDIR")
        return {"LD_LIBRARY_PATH": f"{self.libraries}:{python_libraries}",
                "PATH": f"{self.programs}:{os.environ['PATH']}"}  # the first python3 there says where packages are
