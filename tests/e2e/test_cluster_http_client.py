"""test_cluster_http_client.py - Triton's client of HTTP cannot tell a frontend of a cluster from `serve`: the same tests."""
from test_http_client import *  # noqa: F401,F403
from frontend import is_for_a_frontend, server  # noqa: F401 (in the place of theirs)
