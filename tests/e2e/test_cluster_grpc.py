"""test_cluster_grpc.py - clients of gRPC cannot tell a frontend of a cluster from `serve`: the same tests."""
from test_grpc import *  # noqa: F401,F403
from frontend import is_for_a_frontend, server  # noqa: F401 (in the place of theirs)
