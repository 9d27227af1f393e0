"""Successive halving on simulated arms: what it finds, how many runs that takes, what it says."""

from functools import cache

import numpy as np
import pytest

from workbench.interfaces.study.tuning.halving import (
    FIRST_ITERATIONS,
    MAX_ITERATIONS,
    WITHIN,
    NothingRanError,
    compare_arms,
    halve,
)

SEEDS, ARMS = 30, 24


class Simulated:
    """Arms with true times; each run has noise of its own, each iteration one that all of its runs share."""

    def __init__(self, true, noise=0.03, seed=0, failing=()):
        self.true, self.noise, self.failing = true, noise, failing
        self.random, self.runs, self.opened = np.random.default_rng(seed), 0, []

    def __call__(self, arms, iterations):
        moments = np.exp(self.random.normal(0, 0.1, iterations))
        self.runs += iterations * len(arms)
        self.opened += arms
        times = {arm: self.true[arm] * moments * np.exp(self.random.normal(0, self.noise, iterations)) for arm in arms}
        return {arm: "no such kernel" if arm in self.failing else times[arm].tolist() for arm in arms}


def arms_of(seed):
    times = np.random.default_rng(seed).uniform(1.0, 1.6, ARMS)
    return {f"arm{i}": float(time) for i, time in enumerate(times)}


@cache
def played(seed):
    """The last standing, the true times, and the runs."""
    simulated = Simulated(arms_of(seed), seed=seed)
    *_, last = halve(list(simulated.true), simulated)
    return last, simulated.true, simulated.runs


@pytest.mark.slow
def test_the_best_is_never_lost_by_more_than_3_percent():
    losses = [true[last.best] / min(true.values()) - 1 for last, true, _ in map(played, range(SEEDS))]
    assert max(losses) <= WITHIN


@pytest.mark.slow
def test_it_takes_at_most_a_third_of_the_runs_of_a_full_enumeration():
    runs = [runs for _, _, runs in map(played, range(SEEDS))]
    assert max(runs) <= ARMS * MAX_ITERATIONS / 3


@pytest.mark.slow
def test_every_arm_is_left_or_dropped_with_its_round_and_reason():
    for last, true, _ in map(played, range(SEEDS)):
        assert last.complete and last.best == last.remaining[0]
        assert {*last.remaining, *last.dropped} == {*true} and not {*last.remaining} & {*last.dropped}
        whys = [dropped.why for dropped in last.dropped.values()]
        assert all("excludes 1" in why or "slower half" in why for why in whys)


def test_the_same_measurements_give_the_same_standings():
    def standings():
        simulated = Simulated(arms_of(5), seed=5)
        return list(halve(list(simulated.true), simulated))

    assert standings() == standings()


@pytest.mark.parametrize("seed", range(5))
def test_equal_arms_end_when_none_can_be_faster_by_more_than_3_percent(seed):
    *_, last = halve(["a", "b"], Simulated({"a": 1.0, "b": 1.0}, noise=0.005, seed=seed))
    assert last.settled


def test_arms_that_noise_hides_end_with_the_turns():
    *_, last = halve(["a", "b"], Simulated({"a": 1.0, "b": 1.0}, noise=0.5, seed=2))
    assert not last.settled and last.complete and last.iterations == MAX_ITERATIONS


def test_one_arm_needs_one_round():
    simulated = Simulated({"a": 1.0})
    *_, last = halve(["a"], simulated)
    assert last.settled and simulated.runs == FIRST_ITERATIONS


def test_what_fails_is_dropped_with_its_sentence_and_the_others_go_on():
    true = {"a": 1.0, "b": 1.2, "c": 2.0}
    *_, last = halve(list(true), Simulated(true, failing=("a",)))
    assert last.best == "b" and last.dropped["a"].why == "it does not run: no such kernel"


def test_if_all_fail_it_says_so():
    with pytest.raises(NothingRanError, match="no such kernel"):
        list(halve(["a", "b", "c"], Simulated(dict.fromkeys("abc", 1.0), failing="abc"), batch_size=2))


def test_lots_are_compared_by_the_best_so_far():
    """A moment that makes one batch slow does not count against its arms."""
    true = {f"arm{i}": 1.0 + abs(i - 3) / 10 for i in range(7)}
    calls = []

    def measure(arms, iterations):
        calls.append([*arms])
        return {arm: [true[arm] * 3 ** len(calls)] * iterations for arm in arms}

    *_, last = compare_arms(list(true), measure, 4, batch_size=3)
    assert calls == [["arm0", "arm1", "arm2"], ["arm2", "arm3", "arm4"], ["arm3", "arm5", "arm6"]]
    assert last.best == "arm3"
    assert {arm: found.ratio for arm, found in last.ratios.items()} == pytest.approx(true)


def test_if_the_best_so_far_fails_later_all_are_measured_again_without_it():
    true = {"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0}
    calls = []

    def measure(arms, iterations):
        calls.append([*arms])
        fails = len(calls) > 1
        return {arm: "it crashed" if fails and arm == "a" else [true[arm]] * iterations for arm in arms}

    *_, last = compare_arms(list(true), measure, 4, batch_size=2)
    assert last.best == "b" and {*last.ratios} == {"b", "c", "d"} and last.failed == {"a": "it crashed"}
    assert calls == [["a", "b"], ["a", "c"], ["b", "c"], ["b", "d"]]
