"""Timing of repeated calls on a machine whose speed changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Times:
    """Milliseconds per call.

    `cpu` is the median of processor time. `quiet` is the median wall time of the calls beside
    which a fixed loop ran at nearly its best: the speed of a shared machine changes by a half
    within seconds, and this is the figure of an idle one. `quiet_share` is the share of such calls.
    """

    p50: float
    p95: float
    cpu: float
    quiet: float
    quiet_share: float

    def __str__(self) -> str:
        return (
            f"p50 {self.p50:7.2f} ms   p95 {self.p95:7.2f} ms   cpu {self.cpu:7.2f} ms   at full"
            f" speed {self.quiet:7.2f} ms ({self.quiet_share:.0%})"
        )


def time_calls(call: Callable[[int], object], count: int, untimed: int = 3) -> Times:
    """Call `call(0)`, `call(1)`, ... `count` times after some untimed calls."""
    for number in range(untimed):
        call(number)
    walls, cpus, loops = [], [], [_time_fixed_loop()]
    for number in range(count):
        wall, cpu = time.perf_counter(), time.process_time()
        call(number)
        walls.append((time.perf_counter() - wall) * 1000)
        cpus.append((time.process_time() - cpu) * 1000)
        loops.append(_time_fixed_loop())
    slower_neighbour = np.maximum(loops[:-1], loops[1:])
    is_quiet = slower_neighbour <= np.percentile(slower_neighbour, 2) * 1.12
    return Times(
        float(np.percentile(walls, 50)),
        float(np.percentile(walls, 95)),
        float(np.percentile(cpus, 50)),
        float(np.percentile(np.array(walls)[is_quiet], 50)),
        float(is_quiet.mean()),
    )


def stage_medians(timings: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Return the median of each stage in milliseconds."""
    return {stage: round(float(np.percentile(spans, 50)), 2) for stage, spans in timings.items()}


def _time_fixed_loop() -> float:
    """Return the seconds that a fixed piece of work takes just now."""
    started, total = time.perf_counter(), 0
    for number in range(3000):
        total += number * number % 7
    return time.perf_counter() - started
