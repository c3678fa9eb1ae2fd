"""The knapsack against every choice there is, on instances small enough to try them all."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from knowloom.context import knapsack, knapsack_table
from knowloom.context.knapsack import Choice, Offer, OfferGroup, Option, choose
from knowloom.context.knapsack_bounds import fix_variables
from knowloom.context.knapsack_table import BranchConstraints

EXAMPLES = int(os.environ.get("KNOWLOOM_EXAMPLES", "150"))
MANY = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
Picks = tuple[int, ...]

options = st.builds(Option, tokens=st.integers(0, 9), value=st.integers(0, 12))
offers = st.builds(Offer, options=st.lists(options, min_size=1, max_size=3).map(tuple))


@pytest.fixture(
    scope="module",
    autouse=True,
    params=[0, knapsack.SMALL_TABLE],
    ids=["settled before", "tables of all"],
)
def small(request: pytest.FixtureRequest) -> Iterator[None]:
    """Solve the small problems here with full tables, and with bounds and reduced tables."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(knapsack, "SMALL_TABLE", request.param)
        yield


@st.composite
def problems(
    draw: st.DrawFn, shares: bool = False, needs: bool = False, capped: bool = True
) -> tuple[list[OfferGroup], int]:
    """One to three groups with at most seven offers in all, and a budget that holds the shares."""
    sizes = draw(
        st.lists(st.integers(0, 4), min_size=1, max_size=3).filter(lambda sizes: sum(sizes) <= 7)
    )
    budget = draw(st.integers(0, 40))
    left, groups = budget, []
    for size in sizes:
        guaranteed = draw(st.integers(0, left)) if shares else 0
        left -= guaranteed
        taken = [draw(offers) for _ in range(size)]
        if needs:
            taken = [replace(offer, needs=draw(needed(sum(sizes)))) for offer in taken]
        limit = draw(st.integers(0, 40)) if capped else budget
        groups.append(OfferGroup(tuple(taken), guaranteed, limit, draw(st.integers(0, 4))))
    return groups, budget


def needed(size: int) -> st.SearchStrategy[tuple[Picks, ...]]:
    need = st.lists(st.integers(0, size - 1), min_size=1, max_size=2).map(tuple)
    return st.lists(need, max_size=2).map(tuple)


def cost(group: OfferGroup, picks: Sequence[int]) -> int:
    taken = [
        offer.options[pick].tokens
        for offer, pick in zip(group.offers, picks, strict=True)
        if pick >= 0
    ]
    return sum(taken) + (group.overhead if taken else 0)


def worth(group: OfferGroup, picks: Sequence[int]) -> int:
    return sum(
        offer.options[pick].value
        for offer, pick in zip(group.offers, picks, strict=True)
        if pick >= 0
    )


def split(groups: Sequence[OfferGroup], picks: Sequence[int]) -> list[Sequence[int]]:
    rest = list(picks)
    return [[rest.pop(0) for _ in group.offers] for group in groups]


def ways(group: OfferGroup) -> Iterator[Picks]:
    """Yield every choice of a group that stays within its cap."""
    for picks in product(*(range(-1, len(offer.options)) for offer in group.offers)):
        if cost(group, picks) <= group.cap:
            yield picks


def alone(group: OfferGroup) -> tuple[int, int]:
    """The best a group can make of its share, and the fewest tokens that give it."""
    reachable = [
        (worth(group, picks), -cost(group, picks))
        for picks in ways(group)
        if cost(group, picks) <= group.guaranteed
    ]
    value, tokens = max(reachable)
    return value, -tokens if value else 0


def best(groups: Sequence[OfferGroup], budget: int) -> int:
    """Return the best value; tokens that a group uses of its share are spent, others are free."""
    totals = {0: 0}  # tokens spent, the best value for them
    for group in groups:
        used = alone(group)[1]
        reachable: dict[int, int] = {}
        for picks in ways(group):
            spent = max(used, cost(group, picks))
            reachable[spent] = max(reachable.get(spent, 0), worth(group, picks))
        joined: dict[int, int] = {}
        for (before, gained), (spent, value) in product(totals.items(), reachable.items()):
            if before + spent <= budget:
                joined[before + spent] = max(joined.get(before + spent, 0), gained + value)
        totals = joined
    return max(totals.values())


def best_with_needs(groups: Sequence[OfferGroup], budget: int) -> int:
    combinations = product(*(list(ways(group)) for group in groups))
    return max(
        sum(worth(group, picks) for group, picks in zip(groups, parts, strict=True))
        for parts in combinations
        if sum(cost(group, picks) for group, picks in zip(groups, parts, strict=True)) <= budget
        and not broken(groups, [pick for picks in parts for pick in picks])
    )


def broken(groups: Sequence[OfferGroup], picks: Sequence[int]) -> bool:
    offers = [offer for group in groups for offer in group.offers]
    taken = {number for number, pick in enumerate(picks) if pick >= 0}
    return any(not taken & set(need) for number in taken for need in offers[number].needs)


def assert_possible(groups: Sequence[OfferGroup], budget: int, choice: Choice) -> None:
    parts = split(groups, choice.options)
    costs = [cost(group, picks) for group, picks in zip(groups, parts, strict=True)]
    assert sum(costs) <= budget
    assert all(spent <= group.cap for group, spent in zip(groups, costs, strict=True))
    assert choice.value == sum(
        worth(group, picks) for group, picks in zip(groups, parts, strict=True)
    )
    assert choice.value <= choice.bound


@MANY
@given(problems())
def test_without_shares_and_needs_no_choice_is_better(problem):
    groups, budget = problem
    choice = choose(groups, budget)
    assert_possible(groups, budget, choice)
    assert choice.value == best(groups, budget)
    assert choice.gap == 0


@MANY
@given(problems(shares=True))
def test_the_choice_is_optimal_under_the_guaranteed_shares(problem):
    groups, budget = problem
    choice = choose(groups, budget)
    assert_possible(groups, budget, choice)
    assert choice.value == best(groups, budget)
    assert choice.gap == 0


@MANY
@given(problems(shares=True))
def test_every_group_gets_at_least_the_value_of_its_share(problem):
    groups, budget = problem
    parts = split(groups, choose(groups, budget).options)
    assert all(
        worth(group, picks) >= alone(group)[0] for group, picks in zip(groups, parts, strict=True)
    )


@MANY
@given(problems(shares=True, capped=False))
def test_tokens_that_one_group_cannot_use_go_to_the_others(problem):
    groups, budget = problem
    everything = sum(
        group.overhead
        + sum(max(option.tokens for option in offer.options) for offer in group.offers)
        for group in groups
    )
    assume(everything <= budget)
    choice = choose(groups, budget)
    assert choice.value == sum(
        max(option.value for option in offer.options) for group in groups for offer in group.offers
    )


@MANY
@given(problems(needs=True))
def test_no_dependency_is_broken_and_no_choice_that_keeps_them_is_better(problem):
    groups, budget = problem
    choice = choose(groups, budget)
    assert_possible(groups, budget, choice)
    assert not broken(groups, choice.options)
    assert choice.value == best_with_needs(groups, budget)
    assert choice.gap == 0


@MANY
@given(problems(shares=True, needs=True))
def test_dependencies_and_shares_go_together(problem):
    groups, budget = problem
    choice = choose(groups, budget)
    assert_possible(groups, budget, choice)
    assert not broken(groups, choice.options)


@MANY
@given(problems(needs=True), st.integers(0, 3))
def test_without_enough_nodes_the_gap_bounds_the_distance_to_the_optimum(problem, nodes):
    groups, budget = problem
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(knapsack, "MAX_NODES", nodes)
        choice = choose(groups, budget)
    assert_possible(groups, budget, choice)
    assert not broken(groups, choice.options)
    assert choice.value <= best_with_needs(groups, budget) <= choice.bound


@MANY
@given(problems(needs=True), st.floats(0.001, 0.5))
def test_with_a_tolerance_a_choice_that_keeps_dependencies_is_nearly_the_best(problem, tolerance):
    groups, budget = problem
    choice = choose(groups, budget, tolerance)
    assert_possible(groups, budget, choice)
    assert not broken(groups, choice.options)
    assert (
        (1 - tolerance) * best_with_needs(groups, budget)
        <= choice.value
        <= best_with_needs(groups, budget)
        <= choice.bound
    )


@MANY
@given(problems(), st.integers(1, 60))
def test_a_coarse_table_fits_and_bounds_the_missed_value(problem, cells):
    groups, budget = problem
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(knapsack_table, "MAX_CELLS", cells)
        choice = choose(groups, budget)
    assert_possible(groups, budget, choice)
    assert choice.value <= best(groups, budget) <= choice.bound
    assert choice.gap > 0 or choice.value == best(groups, budget)


@MANY
@given(problems(), st.integers(1, 60))
def test_tokens_left_by_a_coarse_table_are_spent(problem, cells):
    groups, budget = problem
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(knapsack_table, "MAX_CELLS", cells)
        taken = split(groups, choose(groups, budget).options)
    spent = sum(cost(group, picks) for group, picks in zip(groups, taken, strict=True))
    for group, picks in zip(groups, taken, strict=True):
        for place, offer in enumerate(group.offers):
            for option in range(len(offer.options)):
                more = [*picks[:place], option, *picks[place + 1 :]]
                fits = (
                    cost(group, more) <= group.cap
                    and spent - cost(group, picks) + cost(group, more) <= budget
                )
                assert not (fits and worth(group, more) > worth(group, picks))


def test_a_thousand_equal_offers_fill_a_budget_too_large_for_an_exact_table(monkeypatch):
    monkeypatch.setattr(knapsack_table, "MAX_CELLS", 400_000)
    group = OfferGroup(
        tuple(Offer((Option(130 + number % 9, 1000), Option(7, 50))) for number in range(1000)),
        0,
        60_000,
        3,
    )
    choice = choose([group], 60_000)
    assert_possible([group], 60_000, choice)
    assert cost(group, choice.options) > 0.999 * 60_000 and choice.gap < 0.001


@MANY
@given(problems(shares=True, needs=True), st.integers(1, 60))
def test_a_coarse_table_with_shares_and_needs_still_fits(problem, cells):
    groups, budget = problem
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(knapsack_table, "MAX_CELLS", cells)
        choice = choose(groups, budget)
    assert_possible(groups, budget, choice)
    assert not broken(groups, choice.options)


@MANY
@given(problems(shares=True, needs=True))
def test_the_same_problem_has_the_same_answer(problem):
    groups, budget = problem
    again = [
        OfferGroup(
            tuple(Offer(tuple(offer.options), offer.needs) for offer in group.offers),
            group.guaranteed,
            group.cap,
            group.overhead,
        )
        for group in groups
    ]
    assert choose(groups, budget) == choose(again, budget)


def test_of_equal_offers_the_first_are_taken():
    group = OfferGroup(tuple(Offer((Option(2, 5),)) for _ in range(5)), guaranteed=0, cap=6)
    assert choose([group], 6).options == (0, 0, 0, -1, -1)


def test_of_equal_options_the_first_is_taken():
    assert choose([OfferGroup((Offer((Option(2, 5), Option(2, 5))),), 0, 9)], 9).options == (0,)


def test_of_equal_groups_the_first_is_served():
    groups = [
        OfferGroup((Offer((Option(3, 7),)),), 0, 9),
        OfferGroup((Offer((Option(3, 7),)),), 0, 9),
    ]
    assert choose(groups, 5).options == (0, -1)


@pytest.mark.parametrize(
    "groups", [[], [OfferGroup((), 0, 0)], [OfferGroup((), 3, 9, overhead=2), OfferGroup((), 0, 9)]]
)
def test_nothing_on_offer_is_nothing_chosen(groups):
    assert choose(groups, 10) == Choice((), 0, 0)


def test_without_tokens_only_free_options_are_taken():
    group = OfferGroup((Offer((Option(1, 9),)), Offer((Option(0, 2),))), guaranteed=0, cap=0)
    assert choose([group], 0) == Choice((-1, 0), 2, 2)


def test_free_options_pay_for_their_heading():
    group = OfferGroup((Offer((Option(0, 2),)),), guaranteed=0, cap=9, overhead=3)
    assert [choose([group], budget).options for budget in (2, 3)] == [(-1,), (0,)]


def test_an_offer_without_options_is_never_taken():
    assert choose([OfferGroup((Offer(()), Offer((Option(1, 1),))), 0, 5)], 5).options == (-1, 0)


def test_a_budget_beyond_everything_needs_no_more_memory_than_everything():
    groups = [
        OfferGroup((Offer((Option(10, 1),)),), guaranteed=10**14, cap=10**15, overhead=1)
        for _ in range(3)
    ]
    assert choose(groups, 10**15) == Choice((0, 0, 0), 3, 3)


def test_values_may_be_as_large_as_two_hundred_sure_hits():
    group = OfferGroup(
        tuple(Offer((Option(1, 10**12),)) for _ in range(200)), guaranteed=0, cap=150
    )
    assert choose([group], 200).value == 150 * 10**12


def test_a_need_that_nothing_can_meet_keeps_the_offer_out():
    group = OfferGroup(
        (Offer((Option(1, 9),), needs=((),)), Offer((Option(1, 1),))), guaranteed=0, cap=5
    )
    assert choose([group], 5) == Choice((-1, 0), 1, 1)


def test_two_offers_that_need_each_other_come_together_or_not_at_all():
    group = OfferGroup(
        (
            Offer((Option(3, 9),), needs=((1,),)),
            Offer((Option(3, 1),), needs=((0,),)),
            Offer((Option(1, 1),)),
        ),
        guaranteed=0,
        cap=9,
    )
    assert [choose([group], budget).options for budget in (5, 6)] == [(-1, -1, 0), (0, 0, -1)]


def test_a_worthless_offer_is_taken_when_a_good_one_needs_it():
    groups = [
        OfferGroup((Offer((Option(2, 9),), needs=((1,),)),), 0, 9),
        OfferGroup((Offer((Option(2, 0),)),), 0, 9, overhead=1),
    ]
    assert choose(groups, 4).value == 0
    assert choose(groups, 5) == Choice((0, 0), 9, 9)


def test_a_coarse_table_costs_nothing_where_everything_fits(monkeypatch):
    monkeypatch.setattr("knowloom.context.knapsack_table.MAX_CELLS", 20)
    group = OfferGroup(
        tuple(Offer((Option(7, 5), Option(1, 1))) for _ in range(9)), guaranteed=63, cap=63
    )
    choice = choose([group], 63)
    assert (choice.options, choice.gap) == ((0,) * 9, 0.0)


def some_offer(chance: random.Random, worth: int) -> Offer:
    tokens = chance.randint(1, 120)
    shorter = [
        Option(tokens * chance.randint(10, 90) // 100, max(2, worth * 35 // 100)),
        Option(chance.randint(0, 15), max(1, worth // 20)),
    ]
    options = [
        Option(tokens, max(3, worth)),
        *(option for option in shorter if chance.random() < 0.6),
    ]
    return Offer(
        tuple(
            chance.sample(options, len(options))
            if chance.random() < 0.1
            else options
            if chance.random() < 0.9
            else ()
        )
    )


def some_problem(seed: int) -> tuple[list[OfferGroup], int]:
    """As large as those of requests, some with many equal values."""
    chance = random.Random(seed)
    budget = chance.choice([chance.randint(1, 400), chance.randint(400, 2500)])
    worth = chance.choice(
        [lambda: chance.randint(0, 3), lambda: int(10**12 * chance.random() ** 6), lambda: 0]
    )
    left, groups = budget, []
    for _ in range(chance.randint(1, 4)):
        guaranteed = chance.choice([0, 0, chance.randint(0, left // 2)])
        left -= guaranteed
        cap = chance.choice([budget, budget, chance.randint(0, budget)])
        groups.append(
            OfferGroup(
                tuple(some_offer(chance, worth()) for _ in range(chance.choice([0, 3, 20, 40]))),
                guaranteed,
                cap,
                chance.choice([0, 3, 20]),
            )
        )
    return groups, budget


def test_fixed_variables_agree_with_the_full_tables(monkeypatch):
    monkeypatch.setattr(knapsack, "SMALL_TABLE", 0)
    for seed in range(max(300, EXAMPLES)):
        groups, budget = some_problem(seed)
        assert choose(groups, budget) == knapsack._solve(groups, budget, BranchConstraints())


def test_most_of_a_large_problem_is_settled_before_any_table_is_made():
    chance = random.Random(3)
    groups = [
        OfferGroup(
            tuple(some_offer(chance, int(10**12 * chance.random() ** 6)) for _ in range(40)),
            0,
            2000,
            3,
        )
        for _ in range(2)
    ]
    parts = fix_variables(groups, 2000, {})
    assert parts is not None
    assert sum(len(part.rest.offers) for part in parts) < 30


def test_a_large_problem_is_solved_exactly_when_its_reduction_is_small(
    monkeypatch,
):
    chance = random.Random(3)
    group = OfferGroup(
        tuple(some_offer(chance, int(10**12 * chance.random() ** 6)) for _ in range(80)), 0, 2000
    )
    exact = choose([group], 2000)
    monkeypatch.setattr(knapsack_table, "MAX_CELLS", 40_000)
    assert choose([group], 2000) == exact


def test_fixed_picks_leave_room_for_the_rest(monkeypatch):
    monkeypatch.setattr(knapsack, "SMALL_TABLE", 0)
    large = [Offer((Option(400, 0), Option(1, 1)))]
    sure = Offer((Option(300, 10**9),))
    groups = [
        OfferGroup(tuple(large), 500, 1000),
        OfferGroup(
            (sure, *(Offer((Option(23 + number % 7, 100 + number),)) for number in range(30))),
            0,
            1000,
            3,
        ),
    ]
    assert choose(groups, 1000) == knapsack._solve(groups, 1000, BranchConstraints())
