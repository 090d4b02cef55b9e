"""test_cluster_many_tensors.py - models with as many inputs and outputs as are served, in a cluster: the cases of `serve`."""
# sanitizers: address
import pytest

from test_many_tensors import *  # noqa: F401,F403
from prepared import Cluster, is_for_a_frontend, server  # noqa: F401,F811 (fixtures, in the place of those)
from test_many_tensors import MODELS
from test_transports import TRANSPORTS, has


@pytest.fixture(scope="module", params=[has(transport) for transport in TRANSPORTS])
def cluster(repository, request):  # noqa: F405
    with Cluster(repository, MODELS, transport=request.param) as running:
        yield running
