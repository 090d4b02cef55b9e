"""cold.py - measures how fast models load that are asked for, beside how fast their files can be read.

    build/venv/bin/python bench/cold.py [--mib M] [--models N] [--rounds R] [--policy NAME] [--folder DIR]

Serves N models of M MiB on one CPU accelerator with room for two of them, and asks for one after the other, so that each
request waits for a load: with its files in the page cache, and after they were thrown out of it. Each model has been loaded
before, and has stayed open without its weights. Reads as many bytes of the same files in the same way. Prints Markdown:
medians, in MB/s; and the processor time of a load, which does not depend on what else the machine does. Server and client
share this machine.
"""
import argparse
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time

TOP = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TOP / "tests" / "e2e"), str(TOP / "bench")]
os.environ.setdefault("SYMPHONY_BINARY", str(TOP / "build/release/symphony"))
from loading import dense  # noqa: E402
from repository import measure  # noqa: E402
from server import Server  # noqa: E402

WIDTH, BLOCK = 1024, 1 << 20


def files_of(folder):
    """What a load reads: the file that the engine has written, if it has, else the model's."""
    kept = [path for path in folder.glob("1/.symphony/*") if path.stat().st_size > 2**20]
    return kept or [folder / "1" / "model.onnx"]


def forget(files):
    for path in files:
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read(files, size):
    """Seconds; at most `size` bytes of each."""
    buffer, start = bytearray(BLOCK), time.monotonic()
    for path in files:
        with open(path, "rb", buffering=0) as file:
            while file.tell() < size and file.readinto(buffer):
                pass
    return time.monotonic() - start


def loader_seconds(pid):
    """Processor time of the threads that load."""
    ticks = 0
    for task in pathlib.Path("/proc/%d/task" % pid).iterdir():
        if (task / "comm").read_text().startswith("loader"):
            ticks += sum(map(int, (task / "stat").read_text().rsplit(")", 1)[1].split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=64)
    parser.add_argument("--models", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--policy", default="deferred")
    parser.add_argument("--folder", help="where the models are written: on the disk that is to be measured")
    options = parser.parse_args()
    depth = max(1, options.mib * 2**20 // (4 * WIDTH * WIDTH))
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        models = pathlib.Path(folder)
        for m in range(options.models):
            dense(models, "m-%d" % m, WIDTH, depth)
            (models / ("m-%d" % m) / "symphony.yaml").write_text("max_batch: 1\nslo_ms: 60000\n")
        measure(models)
        takes = max(json.loads(path.read_text())["weights_bytes"] for path in models.glob("*/1/.symphony/*.profile.json"))
        files = {m: files_of(models / ("m-%d" % m)) for m in range(options.models)}
        tensor = [{"name": "x", "datatype": "FP32", "shape": [1, WIDTH], "data": [0.0] * WIDTH}]
        times = {way: [] for way in ("load, cached", "load, from disk", "read, cached", "read, from disk")}
        with Server("--repository", models, "--accelerators", "cpu:1", "--memory-mib", 2 * (takes // 2**20 + 2), "--policy",
                    options.policy, "--slo-ms", 60000) as server:
            def answered(m):
                start = time.monotonic()
                status, answer = server.infer("m-%d" % m, tensor)
                assert status == 200, answer
                return time.monotonic() - start

            def loaded(m):
                """How much longer the first answer takes than the second one."""
                first = answered(m)
                return first - answered(m)

            for m in range(options.models):
                answered(m)
            for _ in range(options.rounds):
                for m in range(options.models):
                    read(files[m], takes)
                    times["load, cached"].append(loaded(m))
                for m in range(options.models):
                    times["read, cached"].append(read(files[m], takes))
                    forget(files[m])
                    times["read, from disk"].append(read(files[m], takes))
                    forget(files[m])
                    times["load, from disk"].append(loaded(m))
            loads = 2 * options.rounds * options.models
            processor_ms = 1e3 * loader_seconds(server.process.pid) / loads
            assert server.stop() == 0
    print("One load reads %.0f MB (%s)." % (takes / 1e6, options.policy))
    print("\n| | MB/s | ms |\n|---|---|---|")
    for way, seconds in times.items():
        took = statistics.median(seconds)
        print("| %s | %.0f | %.1f |" % (way, takes / 1e6 / took, 1e3 * took))
    print("\nA load and the unload before it take %.0f ms of a processor." % processor_ms)


if __name__ == "__main__":
    main()
