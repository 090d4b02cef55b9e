"""pulls.py - pulls of inputs by each transport beside the tools that measure the same link: iperf3 for tcp, fi_rma_bw for
fabric, memcpy() for shm.

    build/venv/bin/python bench/pulls.py [--transport shm|fabric|tcp]... [--bytes N]... [--each E] [--seconds S]
                                         [--rounds N] [--against BENCH_PULLS]

Runs build/release/bench_pulls and the tool in turns, with messages as long as the inputs, and prints a row for each
transport and size: medians of the rounds. "bare" is what bench_pulls does itself with as many blocks; for shm that is
memcpy(), and the tool. "of it" is a round's pulls by the same round's tool, and the median of these; "best" the rate that a
tenth of the time exceeds, and its part of the bare way's. --against: another build of
bench_pulls takes turns, too, in rows of its own.

The tools are taken from PATH; without one its column is empty.
- iperf3 (Debian's package): `iperf3 -c 127.0.0.1 -l N -t 1`, what the receiver says. It sends at most 1 MiB at once, so
  larger inputs are compared with that.
- fi_rma_bw (fabtests of https://github.com/ofiwg/libfabric, of the installed libfabric's release):
  `fi_rma_bw -p tcp -e msg -S N`, once with `-o read` and once with `-o writedata`; the faster one counts. The former
  moves as much in the other direction at the same time, which it does not count.
"""
import argparse
import json
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import time

TOP = pathlib.Path(__file__).resolve().parent.parent
PULLS = TOP / "build/release/bench_pulls"
BARS = {"tcp": 90, "fabric": 90, "shm": 80}  # per cent of the tool, which the pulls are to reach
TOOLS = {"tcp": "iperf3", "fabric": "fi_rma_bw", "shm": "memcpy"}
SIZES = [1000, 10000, 150000, 1000000, 10000000]
IPERF3_MOST = 1 << 20
CONNECT_S = 10  # a tool's server listens within
TRIES = 5
transfers = {}  # (operation, bytes) of fi_rma_bw: how many take about as long as is wanted


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def client_and_server(server, client):
    """Runs both, and returns what the client prints. The server may not listen yet when the client comes, and may end with
    a client that fails."""
    until, printed = time.monotonic() + CONNECT_S, "its server ends at once"
    while time.monotonic() < until:
        with subprocess.Popen(server, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            try:
                while process.poll() is None and time.monotonic() < until:
                    done = subprocess.run(client, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                    if done.returncode == 0:
                        return done.stdout
                    printed = done.stdout.strip()
                    time.sleep(0.02)
            finally:
                process.terminate()
    sys.exit("pulls.py: %s: %s" % (" ".join(client), printed))


def iperf3(size, seconds):
    for _ in range(TRIES):  # on a busy machine its two ends sometimes do not exchange their results
        port = str(free_port())
        client = ["iperf3", "-c", "127.0.0.1", "-p", port, "-l", str(min(size, IPERF3_MOST)), "-t", str(max(1, round(seconds))), "-J"]
        told = json.loads(client_and_server(["iperf3", "-s", "-1", "-p", port], client))
        if "sum_received" in told["end"]:
            return told["end"]["sum_received"]["bits_per_second"] / 8e6
    sys.exit("pulls.py: iperf3: %s" % told.get("error", "no results"))


def fi_rma_bw(size, seconds):
    """MB/s of the faster operation; it is told a number of transfers, not a time."""
    rates = []
    for operation in ("read", "writedata"):
        count = transfers.get((operation, size), max(200, 20000000 // size))
        while True:
            port, common = str(free_port()), ["-p", "tcp", "-e", "msg", "-o", operation, "-S", str(size), "-I", str(count)]
            printed = client_and_server(["fi_rma_bw", *common, "-s", "127.0.0.1", "-B", port],
                                        ["fi_rma_bw", *common, "-P", port, "127.0.0.1"])
            rate = float(printed.split("\n")[-2].split()[4])  # bytes #sent total time MB/sec usec/xfer
            took = size * count / (rate * 1e6)
            if (operation, size) in transfers:
                break
            transfers[operation, size] = count = max(100, int(count * seconds / took))
        rates.append(rate)
    return max(rates)


def pulls(binary, transport, size, options):
    """One row of bench_pulls: MB/s of pulls, and bare; the same in the best tenth of the time; CPU in us a request, and bare."""
    command = [str(binary), "--transport", transport, "--bytes", str(size), "--seconds", str(options.seconds)]
    command += ["--each", str(options.each)] if options.each else []
    row = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.split("\n")[-2]
    cells = [cell for cell in row.split() if cell != "%"]
    return {"rate": float(cells[4]), "bare": float(cells[5]), "best": float(cells[7]), "best bare": float(cells[8]),
            "cpu": float(cells[12]), "cpu bare": float(cells[11]) * size / 1e6, "p50": float(cells[14])}


def turn(transport, size, options):
    """One round: the tool's rate, None without it, and the rows of each build."""
    rate, tool = None, TOOLS[transport]
    if tool in ("iperf3", "fi_rma_bw") and shutil.which(tool):
        rate = iperf3(size, options.seconds) if tool == "iperf3" else fi_rma_bw(size, options.seconds)
    rows = [pulls(binary, transport, size, options) for binary in [PULLS, *options.against]]
    return rate, rows


def show(transport, size, name, rounds):
    """`rounds`: [(the tool's rate, the build's row)]"""
    row = {key: statistics.median(r[key] for _, r in rounds) for key in rounds[0][1]}
    bare = "%.0f, %.0f %%" % (row["bare"], statistics.median(100 * r["rate"] / r["bare"] for _, r in rounds))
    if transport == "shm":
        rounds, bare = [(r["bare"], r) for _, r in rounds], ""
    tool = "", "", ""
    if rounds[0][0] is not None:
        part = statistics.median(100 * r["rate"] / rate for rate, r in rounds)
        tool = ("%.0f" % statistics.median(rate for rate, _ in rounds), "%.0f %%" % part, "yes" if part >= BARS[transport] else "no")
    print("| %s | %d | %.0f | %s | %s | %s | %s | %.0f, %.0f %% | %.2f | %.2f | %.0f |" % (
        transport + name, size, row["rate"], *tool, bare, row["best"], statistics.median(100 * r["best"] / r["best bare"] for _, r in rounds), row["cpu"], row["cpu bare"], row["p50"]),
        flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--transport", action="append", choices=list(TOOLS))
    parser.add_argument("--bytes", type=int, action="append", metavar="N")
    parser.add_argument("--each", type=int, metavar="E", help="requests of a batch; without it 8 to 64")
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--against", type=pathlib.Path, action="append", default=[], metavar="BENCH_PULLS")
    options = parser.parse_args()
    transports = options.transport or ["shm", "fabric", "tcp"]
    for tool in [TOOLS[t] for t in transports if t != "shm" and not shutil.which(TOOLS[t])]:
        print("pulls.py: %s is not in PATH; its column stays empty" % tool, file=sys.stderr)
    cases = [(transport, size) for transport in transports for size in options.bytes or SIZES]
    seen = {case: [] for case in cases}
    for _ in range(options.rounds):
        for case in cases:
            seen[case].append(turn(*case, options))
    print("| transport | bytes | MB/s | tool | of it | as wanted | bare, of it | best, of bare | CPU us/request | bare | p50 us |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for case in cases:
        for i, binary in enumerate([PULLS, *options.against]):
            show(*case, "" if i == 0 else " (%s)" % binary.name, [(rate, rows[i]) for rate, rows in seen[case]])


if __name__ == "__main__":
    main()
