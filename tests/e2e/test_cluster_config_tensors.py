"""test_cluster_config_tensors.py - what config.pbtxt makes of a model's tensors, in a cluster: the cases of `serve`, through a frontend
that has the models' descriptions only."""
# sanitizers: address
import pytest

from test_config_tensors import *  # noqa: F401,F403
from prepared import Cluster, is_for_a_frontend, server  # noqa: F401,F811 (fixtures, in the place of those)

MODELS = "number", "densenet", "line", "words", "open", "lines", "some", "constant", "unnamed", "named"


@pytest.fixture(scope="module")
def cluster(repository):  # noqa: F405
    with Cluster(repository, MODELS, "--shared-memory") as running:
        yield running
