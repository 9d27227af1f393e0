"""The rewrites that a step must leave out, since results differ with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from workbench.rewrite.core.identity import ANY_ORDINAL, RewriteId
from workbench.rewrite.core.rule import Rewrite


class ExcludedRewrites:
    """The rewrites that a step must leave out, and a count of the applied rewrites by rule and node.

    If the next rewrite of a rule at a node is left out, so are all further ones: rewrites left out are not counted.
    """

    def __init__(self, ids: Collection[RewriteId] = ()) -> None:
        self._ids = frozenset(ids)
        self._done: Counter[tuple[str, str]] = Counter()

    def id_of(self, rewrite: Rewrite) -> RewriteId:
        """The identity of a rewrite that would be the next one."""
        rule, node = rewrite.rule_name, rewrite.root
        return RewriteId(rule, node, self._done[rule, node])

    def __contains__(self, rewrite: Rewrite) -> bool:
        if not self._ids:
            return False
        identity = self.id_of(rewrite)
        return identity in self._ids or identity._replace(ordinal=ANY_ORDINAL) in self._ids

    def add_done(self, rewrite: Rewrite) -> RewriteId:
        """Count a rewrite that was applied; returns its identity."""
        done = self.id_of(rewrite)
        self._done[done.rule, done.node] += 1
        return done

    def names(self, rule: str, node: str) -> bool:
        """Whether a rewrite by that rule at that node is left out."""
        return any((excluded.rule, excluded.node) == (rule, node) for excluded in self._ids)


class ExcludedRewritesOfRounds(ExcludedRewrites):
    """The same for a pass that runs within another one; the ids of its rewrites begin with its name."""

    def __init__(self, outer: ExcludedRewrites, pass_name: str) -> None:
        super().__init__()
        self._outer = outer
        self._pass_name = pass_name

    def __contains__(self, rewrite: Rewrite) -> bool:
        return rewrite.within(self._pass_name) in self._outer


NOTHING_EXCLUDED = ExcludedRewrites()
