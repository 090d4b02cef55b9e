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


def test_who_connects_when_no_file_is_left_is_sent_away():
    scheduler = subprocess.Popen(["prlimit", f"--nofile={FILES}:{FILES}", BINARY, "scheduler", "--listen", "127.0.0.1:0",
                                  "--no-metrics"], stderr=subprocess.PIPE, text=True)
    try:
        port = int(re.search(r'"ready" port=(\d+)', line_with(scheduler, 'msg="ready"')).group(1))
        connections = [socket.create_connection(("127.0.0.1", port)) for _ in range(2 * FILES)]
        assert "may not open more files" in line_with(scheduler, "stranger refused")
        for connection in connections:
            connection.setblocking(False)
        deadline = time.monotonic() + 4  # strangers are waited for 5 s
        while sum(map(is_closed, connections)) < FILES:
            assert time.monotonic() < deadline, "they are not sent away"
            time.sleep(0.01)
        assert not all(map(is_closed, connections))
        for connection in connections:
            connection.close()
        answer = subprocess.run([BINARY, "status", "--join", f"127.0.0.1:{port}"], capture_output=True, text=True, timeout=30)
        assert answer.returncode == 0, answer.stderr
    finally:
        scheduler.terminate()
        scheduler.communicate(timeout=30)
