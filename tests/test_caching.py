"""What is kept of what was asked for: the bound holds, and what is in use stays."""

from __future__ import annotations

from knowloom.caching import Recent


def test_what_is_in_use_stays_however_much_else_is_asked_for():
    kept = Recent(10)
    kept.put("hot", 0)
    for number in range(1000):
        kept.put(number, number)
        assert kept.get("hot") == 0
        assert len(list(kept)) <= 10
    assert kept.get(5) is None


def test_what_was_kept_last_is_found():
    kept = Recent(10)
    for number in range(100):
        kept.put(number, number)
        assert [kept.get(one) for one in range(max(0, number - 2), number + 1)] == list(
            range(max(0, number - 2), number + 1)
        )


def test_sizes_are_those_of_the_values():
    kept = Recent(100, len)
    for number in range(50):
        kept.put(number, "x" * (number % 30))
        assert sum(len(kept._younger.get(one) or kept._older.get(one) or "") for one in kept) <= 100


def test_what_is_too_large_is_not_kept_and_displaces_nothing():
    kept = Recent(10, len)
    kept.put("a", "xxx")
    kept.put("b", "x" * 6)
    assert (kept.get("a"), kept.get("b")) == ("xxx", None)


def test_what_is_put_again_replaces_what_was_there():
    kept = Recent(4)
    kept.put("a", 1)
    kept.put("b", 1)
    kept.put("c", 1)  # the others are older now
    kept.put("a", 2)
    assert kept.get("a") == 2
    kept.put("d", 1)
    kept.put("e", 1)
    assert kept.get("a") == 2


def test_nothing_is_left_after_clearing():
    kept = Recent(4)
    for key in "abc":
        kept.put(key, key)
    kept.clear()
    assert [kept.get(key) for key in "abc"] == [None] * 3
    assert list(kept) == []
