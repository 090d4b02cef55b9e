"""test_cluster_limits.py - what a scheduler does when it may open no more files."""
import os
import re
import socket
import subprocess
import time

BINARY = os.environ.get("SYMPHONY_BINARY", "build/release/symphony")
FILES = 60


def line_with(process, text):
    for line in process.stderr:
        if text in line:
            return line
    raise AssertionError(f"it ended without '{text}'")


def is_closed(connection):
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


def crowd_is_sent_away(scheduler, port):
    """Whether a crowd sees, while some of it still wait to be asked who they are, that the others are sent away."""
    connections = [socket.create_connection(("127.0.0.1", port)) for _ in range(2 * FILES)]
    assert "may not open more files" in line_with(scheduler, "stranger refused")
    for connection in connections:
        connection.setblocking(False)
    deadline = time.monotonic() + 4  # strangers are waited for 5 s
    while sum(map(is_closed, connections)) < FILES and time.monotonic() < deadline:
        time.sleep(0.01)
    some = FILES <= sum(map(is_closed, connections)) < len(connections) and time.monotonic() < deadline
    for connection in connections:
        connection.close()
    return some


def test_who_connects_when_no_file_is_left_is_sent_away():
    scheduler = subprocess.Popen(["prlimit", f"--nofile={FILES}:{FILES}", BINARY, "scheduler", "--listen", "127.0.0.1:0",
                                  "--no-metrics"], stderr=subprocess.PIPE, text=True)
    try:
        port = int(re.search(r'"ready" port=(\d+)', line_with(scheduler, 'msg="ready"')).group(1))
        assert any(crowd_is_sent_away(scheduler, port) for _ in range(10))  # on a machine that stands still, not the first
        answer = subprocess.run([BINARY, "status", "--join", f"127.0.0.1:{port}"], capture_output=True, text=True, timeout=60)
        assert answer.returncode == 0, answer.stderr
    finally:
        scheduler.terminate()
        scheduler.communicate(timeout=60)
