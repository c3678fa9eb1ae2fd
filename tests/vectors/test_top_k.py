"""Top-k selection by a sample must select what sorting selects."""

import numpy as np
import pytest

from knowloom.vectors.top_k import ROUNDING, SAMPLE_STEP, k_largest, k_smallest


def sorted_largest(scores, limit):
    above = [(value, index) for index, value in enumerate(scores.tolist()) if value > 0]
    last = (
        sorted((value for value, _ in above), reverse=True)[limit - 1] - ROUNDING
        if 0 < limit < len(above)
        else 0
    )
    return (
        [index for value, index in above if value >= last],
        [round(value, 6) for value, _ in above if value >= last],
        len(above),
    )


def sorted_smallest(distances, limit):
    last = sorted(distances.tolist())[limit - 1]
    return [index for index, value in enumerate(distances.tolist()) if value <= last]


SCORES = {
    "spread": lambda rng, size: rng.random(size),
    "mostly nothing": lambda rng, size: rng.random(size) * (rng.random(size) < 0.01),
    "nothing": lambda rng, size: np.zeros(size),
    "ties": lambda rng, size: rng.integers(0, 4, size) / 4,
    "all the same": lambda rng, size: np.full(size, 0.5),
    "the best out of the sample": lambda rng, size: np.where(
        np.arange(size) % SAMPLE_STEP == 0, 0.1, 0.2 + rng.random(size) / 2
    ),
    "the best in the sample alone": lambda rng, size: np.where(
        np.arange(size) % SAMPLE_STEP == 0, 0.9, 0.2 + rng.random(size) / 2
    ),
    "differing by less than rounding": lambda rng, size: 0.5 + rng.random(size) * 3 * ROUNDING,
}


@pytest.mark.parametrize("size", [1, 5, 200, 5000])
@pytest.mark.parametrize("limit", [1, 3, 100])
@pytest.mark.parametrize("generate", SCORES.values(), ids=SCORES)
def test_the_largest_match_those_of_sorting(generate, limit, size):
    scores = generate(np.random.default_rng(size + limit), size)
    assert k_largest(scores, limit) == sorted_largest(scores, limit)


@pytest.mark.parametrize("size", [200, 5000])
@pytest.mark.parametrize("limit", [1, 3, 100])
@pytest.mark.parametrize("generate", SCORES.values(), ids=SCORES)
def test_the_smallest_match_those_of_sorting(generate, limit, size):
    distances = (generate(np.random.default_rng(size + limit), size) * 384).astype(np.uint16)
    assert k_smallest(distances, limit).tolist() == sorted_smallest(distances, limit)
