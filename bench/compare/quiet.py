"""quiet.py - repeats measurements that the machine has disturbed.

Before and after each measurement the engine alone runs for a moment on the server's core. If that took longer than
usual in this run, or if other processes took too much of the cores meanwhile, the measurement is made again, and the
least disturbed one counts. A measurement waits while the engine is slow, but half a minute at most.
"""

import statistics
import time
from collections.abc import Callable
from typing import TypeVar

from environments import say

SLOWER = 0.10  # than the median of all probes so far
OTHERS = 0.05  # share of the two cores that others may take
REPEATS = 2  # at most, of one measurement
FIRST_PROBES = 7
WAIT_S, WAITS = 5, 6  # for a machine that is slow before a measurement

Result = TypeVar("Result")


class Quiet:
    def __init__(self, probe: Callable[[], dict[str, float]], sleep: Callable[[float], None] = time.sleep):
        """`probe` gives the engine's time for one run of each of its models."""
        self.probe, self.sleep, self.seen = probe, sleep, []
        self.measured = self.repeated = self.disturbed = 0
        for _ in range(FIRST_PROBES):
            self.seen.append(probe())

    def slowness(self, counts: bool = True) -> float:
        """How much slower the engine is now than usual; `counts`: this moment counts for what is usual."""
        now = self.probe()
        if counts:
            self.seen.append(now)
        return max(0.0, *(now[name] / statistics.median(probe[name] for probe in self.seen) - 1 for name in now))

    def wait(self) -> float:
        """Waits while the engine is slow; returns the slowness that is left. Only the first probe counts as usual: a
        slow time that is probed often must not become the usual."""
        slower = self.slowness()
        for _ in range(WAITS):
            if slower <= SLOWER:
                break
            self.sleep(WAIT_S)
            slower = self.slowness(counts=False)
        return slower

    def measure(self, what: str, act: Callable[[], Result], settle: Callable[[], None] = lambda: None,
                others_begin: Callable[[], Callable[[], float]] = lambda: lambda: 0.0) -> Result:
        """The result of the least disturbed act(). settle() waits until the server is idle again; others_begin()
        returns a function that tells the share that other processes have taken since."""
        least, kept = None, None
        self.measured += 1
        for attempt in range(1 + REPEATS):
            before = self.wait()
            others_share = others_begin()
            result, others = act(), others_share()
            settle()
            slower = max(before, self.slowness())
            disturbed = max(slower / SLOWER, others / OTHERS)
            if least is None or disturbed < least:
                least, kept = disturbed, result
            if disturbed <= 1:
                return kept
            again = attempt < REPEATS
            say(f"  {what}: the machine was disturbed (the engine alone up to {slower:.0%} slower, others took {others:.0%}); "
                + ("again" if again else "the least disturbed counts"))
            self.repeated += again and attempt == 0
        self.disturbed += 1
        return kept

    def summary(self) -> dict:
        return {"measured": self.measured, "repeated": self.repeated, "disturbed": self.disturbed}
