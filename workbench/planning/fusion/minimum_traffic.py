"""The grouping with the least memory traffic under given rules, with a proven bound."""

from __future__ import annotations

import time
from collections.abc import Sequence

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
    whose groups are joined as long as that saves bytes.
    """
    began = time.monotonic()
    minimum_grouping = least_traffic_of_one_output(operators, values, rules, max_operators, start, seconds)
    if not rules.multi_output:
        return minimum_grouping
    remaining = max(0.0, seconds - (time.monotonic() - began))
    joined = join_groups(operators, values, rules, max_operators, minimum_grouping.group)
    return least_traffic_of_multi_output(operators, values, rules, max_operators, joined, remaining)
