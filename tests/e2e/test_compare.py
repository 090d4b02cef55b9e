"""test_compare.py - of `./run compare`: what a slow minute hits is measured again. No server is started."""
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent.parent / "bench" / "compare"))
import quiet  # noqa: E402

WAITED = [1] * (quiet.WAITS + 1)


@pytest.mark.parametrize("slow, others, kept, summary", [
    ([0, 0], [0], 1, (1, 0, 0)),                                # quiet
    ([0, 1, 0, 0], [0, 0], 2, (1, 1, 0)),                       # slow after the first attempt
    ([1, 1, 1, 0, 0], [0], 1, (1, 0, 0)),                       # slow before it: it waits
    ([0, 0, 0, 0], [0.2, 0], 2, (1, 1, 0)),                     # others took their part
    ([0, 0, 0, 0, 0, 0], [0.3, 0.1, 0.2], 2, (1, 1, 1)),        # always: the least disturbed counts
    (WAITED + [1] + WAITED + [1] + WAITED + [1], [0, 0, 0], 1, (1, 1, 1))])
def test_what_a_slow_minute_hits_is_measured_again(slow, others, kept, summary):
    """slow: what each probe will see; others: what others take during each attempt."""
    probes, shares, attempts, slept = iter([0] * quiet.FIRST_PROBES + slow), iter(others), iter(range(1, 99)), []
    watched = quiet.Quiet(lambda: {"a": 3.0 if next(probes) else 2.0, "b": 5.0}, slept.append)
    begin = lambda: lambda share=next(shares): share
    assert watched.measure("x", lambda: next(attempts), others_begin=begin) == kept
    assert tuple(watched.summary().values()) == summary
    assert next(probes, None) is None and next(shares, None) is None  # as many as were expected
