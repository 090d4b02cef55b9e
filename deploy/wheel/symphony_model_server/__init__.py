"""The program `symphony`, which serves ONNX models, with the ONNX Runtime of the Python package onnxruntime (or onnxruntime-gpu)."""
import glob
import importlib.util
import os
import sys

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "symphony")


def engine():
    """The path of ONNX Runtime's library. Nothing of its package is imported."""
    package = importlib.util.find_spec("onnxruntime")
    found = [path for folder in (package and package.submodule_search_locations or ())
             for path in glob.glob(os.path.join(folder, "capi", "libonnxruntime.so.[0-9]*"))]
    if not found:
        raise SystemExit("symphony: the Python package onnxruntime is not installed here: pip install onnxruntime, or onnxruntime-gpu")
    if set(found[0]) & set(" :"):  # which end a path in LD_PRELOAD
        raise SystemExit("symphony: %s: the path of the Python environment may have neither blanks nor colons" % found[0])
    return found[0]


def environment():
    """For the program: it is linked with libonnxruntime.so.1, and the library that is loaded first has this name. CUDA's libraries are
    found where the Python packages nvidia-* have them."""
    changed = dict(os.environ, LD_PRELOAD=" ".join(filter(None, (engine(), os.environ.get("LD_PRELOAD")))))
    package = importlib.util.find_spec("nvidia")
    folders = [path for folder in (package and package.submodule_search_locations or ())
               for path in sorted(glob.glob(os.path.join(folder, "*", "lib")))]
    if folders:
        changed["LD_LIBRARY_PATH"] = ":".join(filter(None, (*folders, os.environ.get("LD_LIBRARY_PATH"))))
    return changed


def main():
    """Becomes the program, with this process's arguments."""
    os.execve(PROGRAM, ["symphony", *sys.argv[1:]], environment())
