"""The identity of a rewrite within its step, by which the next run can leave it out."""

from __future__ import annotations

import re
from typing import NamedTuple

ANY_ORDINAL = -1
_ORDINAL = re.compile("[0-9]{1,9}")
RENAMED_RULES = {  # "pass.former name": the name today
    "algebra_constants.bounds": "max or min",
    "algebra_factor.multiples": "constant multiples",
    "algebra_reduce.twice": "nested sum or mean",
    "algebra_reduce.twice, of integers": "nested integer max or min",
    "cancel_pairs.expand and its bound": "expand and max or min",
    "fill_less.filled and cut": "slices of a constant fill",
    "fold_constants.side by side": "adjacent sizes",
    "fold_pad.before a largest": "before MaxPool",
    "fold_pad.behind a Reshape": "before a Reshape and Conv",
    "fold_shapes.side by side": "adjacent sizes",
    "known_selections.condition that is known": "constant condition",
    "known_selections.condition that is true": "all-true condition",
    "push_transposes.through a function": "through operators that round",
    "remove_neutral.truth": "boolean identity",
    "remove_neutral.zero added to no -0.0": "zero added to a value without -0.0",
    "remove_neutral.zero of another sign": "zero, ignoring its sign",
    "remove_neutral_parameters.bound beyond all": "max with the lowest or min with the largest number",
    "remove_neutral_parameters.neutral normalization of no -0.0": "neutral normalization of a value without -0.0",
    "remove_of_one.bound of one": "max, min or product of one",
    "remove_of_one.mean or bound of one": "sum, mean or max of one",
    "shrink_first.gather of a function": "gather of a vectorized operator",
    "shrink_first.slice of a function": "slice of a vectorized operator",
    "split_tensors.taken apart again": "sequence of parts of a tensor",
    "unroll_loops.few turns": "small trip count",
    "useless_transposes.before a bound of all": "before a max or min of all",
    "useless_transposes.before a bound of integers": "before an integer max or min",
}


RENAMED_PASSES = {
    "drop_dropout": "remove_dropout",
    "drop_zero_states": "remove_zero_states",
    "feed_inputs": "relayout_inputs",
    "give_outputs": "relayout_outputs",
    "layout_optimal_any_order": "layout_optimal",
}  # former names, read in version 0.2
RENAMED_STRATEGIES = {"optimal-any-order": "optimal"}  # of layout strategies


class RewriteId(NamedTuple):
    """One rewrite of one step.

    rule:    the rule that proposed it, "" for a procedure; after the pass's name and a dot in a fixpoint's rounds.
    node:    the node at which the rule matched, or the first that a procedure named; "loop/body/add" in a body.
    ordinal: how many rewrites of the step by that rule at that node came before it; ANY_ORDINAL for all of them.
    """

    rule: str
    node: str
    ordinal: int

    def __str__(self) -> str:
        """The text that links hold, "cancel_bn@Conv_3#0"; `read_rewrite_id` reads it."""
        return f"{self.rule}@{self.node}#{self.ordinal}"


def read_rewrite_id(text: str, step: str = "") -> RewriteId | None:
    """The identity that `str` wrote; None for any other text. Former names of rules are read too.

    step: the label of its step, "fold_pad" or "fold_pad#2".
    """
    rule, at, rest = text.partition("@")
    node, number, ordinal = rest.rpartition("#")
    if not at or not number or not _ORDINAL.fullmatch(ordinal):
        return None
    return RewriteId(_present_name(rule, step.partition("#")[0]), node, int(ordinal))


def present_label(step: str) -> str:
    """The label of a step, "remove_dropout#2", from one of the pass's former name."""
    name, sign, number = step.partition("#")
    return f"{RENAMED_PASSES.get(name, name)}{sign}{number}"


def _present_name(rule: str, pass_name: str) -> str:
    """The name of a rule today; in a fixpoint it follows the name of its pass and a dot."""
    of_pass, dot, rest = rule.partition(".")
    if dot and of_pass in RENAMED_PASSES:
        rule = f"{RENAMED_PASSES[of_pass]}.{rest}"
    for former, name in RENAMED_RULES.items():
        renamed_pass, _, old = former.partition(".")
        if (pass_name, rule) == (renamed_pass, old):
            return name
        if rule == former or rule.endswith(f".{former}"):
            return rule.removesuffix(old) + name
    return rule
