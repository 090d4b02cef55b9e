"""test_cluster_http.py - clients of HTTP cannot tell a frontend of a cluster from `serve`: the same tests."""
from test_http import *  # noqa: F401,F403
from frontend import is_for_a_frontend, server  # noqa: F401 (in the place of theirs)
