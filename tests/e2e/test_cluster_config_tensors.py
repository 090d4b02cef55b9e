"""test_cluster_config_tensors.py - what config.pbtxt makes of a model's tensors, in a cluster: the cases of `serve`, through a frontend
that has the models' descriptions only."""
# sanitizers: address
import pytest

from test_config_tensors import *  # noqa: F401,F403
from prepared import Cluster, is_for_a_frontend, server  # noqa: F401,F811 (fixtures, in the place of those)
from test_transports import TRANSPORTS, has

MODELS = "number", "densenet", "line", "words", "open", "lines", "some", "constant", "unnamed", "named"


@pytest.fixture(scope="module", params=[has(transport) for transport in TRANSPORTS])
def cluster(repository, request):  # noqa: F405
    with Cluster(repository, MODELS, "--shared-memory", transport=request.param) as running:
        yield running
