"""The grouping with the least memory traffic under given rules, with a proven bound."""

from __future__ import annotations

import time
from collections.abc import Sequence

from workbench.fusion.joining import join_groups
from workbench.fusion.one_output import (
    GroupingProgram,
    MinimumGrouping,
    least_traffic_of_one_output,
    program_of_one_output,
)
from workbench.fusion.problem import Operator
from workbench.fusion.rules import FusionRules
from workbench.fusion.several_outputs import least_traffic_of_several_outputs, program_of_several_outputs
from workbench.fusion.traffic import StoredValue


def grouping_program(
    operators: Sequence[Operator],
    values: Sequence[StoredValue],
    rules: FusionRules,
    max_operators: int,
    group: Sequence[int],
) -> GroupingProgram:
    """The linear program behind `least_traffic`, with a grouping as its solution.

    group: for each operator the number of its group, under rules for one output that of its last operator.
    """
    program_of = program_of_several_outputs if rules.several_outputs else program_of_one_output
    return program_of(operators, values, rules, max_operators, group)


def least_traffic(
    operators: Sequence[Operator],
    values: Sequence[StoredValue],
    rules: FusionRules,
    max_operators: int,
    start: Sequence[int],
    seconds: float,
) -> MinimumGrouping:
    """The grouping with the least traffic that was found within `seconds`, and a bound that none is below.

    values: all of known size. start: for each operator the number of its group, that of the operator whose results
    leave it, in a grouping that the rules allow. The search for groups with several outputs starts from the minimum
    with one, whose groups are joined as long as that saves something.
    """
    since = time.monotonic()
    minimum_grouping = least_traffic_of_one_output(operators, values, rules, max_operators, start, seconds)
    if not rules.several_outputs:
        return minimum_grouping
    left = max(0.0, seconds - (time.monotonic() - since))
    joined = join_groups(operators, values, rules, max_operators, minimum_grouping.group)
    return least_traffic_of_several_outputs(operators, values, rules, max_operators, joined, left)
