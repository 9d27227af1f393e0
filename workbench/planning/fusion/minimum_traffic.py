"""The grouping with the least memory traffic under given rules, with a proven bound."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from workbench.planning.fusion.joining import join_groups
from workbench.planning.fusion.multi_output import least_traffic_of_multi_output
from workbench.planning.fusion.one_output import MinimumGrouping, least_traffic_of_one_output
from workbench.planning.fusion.problem import Operator
from workbench.planning.fusion.rules import FusionRules
from workbench.planning.fusion.traffic import StoredValue


def least_traffic(
    operators: Sequence[Operator],
    values: Sequence[StoredValue],
    rules: FusionRules,
    max_operators: int,
    start: Sequence[int],
    seconds: float,
) -> MinimumGrouping:
    """The grouping with the least traffic that was found within `seconds`, and a lower bound of all groupings.

    values: all of known size. start: a grouping that the rules allow; for each operator the number of the operator
    whose results leave its group. The search for groups with several outputs starts from the minimum with one output,
    whose groups are joined as long as that saves bytes. Where a search that was stopped proves less, the bound is what
    every grouping moves: what comes from outside is read, and what leaves the graph is written.
    """
    began = time.monotonic()
    found = least_traffic_of_one_output(operators, values, rules, max_operators, start, seconds)
    if rules.multi_output:
        remaining = max(0.0, seconds - (time.monotonic() - began))
        joined = join_groups(operators, values, rules, max_operators, found.group)
        found = least_traffic_of_multi_output(operators, values, rules, max_operators, joined, remaining)
    return replace(found, lower_bound=max(found.lower_bound, _moved_by_every_grouping(values)))


def _moved_by_every_grouping(values: Sequence[StoredValue]) -> int:
    read = sum(value.size or 0 for value in values if value.producer is None and value.users)
    return read + sum(value.size or 0 for value in values if value.producer is not None and value.leaves)
