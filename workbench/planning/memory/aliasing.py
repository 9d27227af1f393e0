"""Values that share memory: results written over an operand, views, and operands computed inside a Concat's result.

Decisions are made in execution order. None may raise the peak, the most bytes in use at once. A view of a small part
may keep a large value alive, and the result of a Concat is in use from its first operand on.

Sources: in-place and sharing as in Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016
(https://arxiv.org/abs/1604.06174), section 3; computing operands in place of a Concat as in Pleiss et al.,
"Memory-Efficient Implementation of DenseNets", 2017 (https://arxiv.org/abs/1707.06990).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workbench.analysis.inference.bound_shapes import bound_shape
from workbench.ops import fusion_kind_of
from workbench.ops.fusion_kinds import BROADCAST
from workbench.planning.memory.contiguous_parts import ContiguousPart, pieces_of_concat, views_by
from workbench.planning.memory.lifetimes import ExecutionStep, Kind, Lifetimes, ValueLifetime
from workbench.planning.memory.shared_memory import Alias, SharedMemory


@dataclass(frozen=True)
class Decision:
    """Whether `value` lies in the memory of `other`, decided at that step; the sentence says why."""

    step: int
    how: Alias
    value: str
    other: str
    accepted: bool
    sentence: str


def share_memory(
    lifetimes: Lifetimes, before: Mapping[int, frozenset[int]] | None = None
) -> tuple[SharedMemory, list[Decision]]:
    """Which values share memory, and each decision with its reason.

    before: None if operators run one after the other, else step -> steps certain to have ended when it begins.
            Steps that only return views are not listed.
    """
    aliasing = _Aliasing(lifetimes, before)
    for number, step in enumerate(lifetimes.steps):
        aliasing.step(number, step)
    return aliasing.memory, aliasing.decisions


class _Aliasing:
    def __init__(self, lifetimes: Lifetimes, before: Mapping[int, frozenset[int]] | None) -> None:
        self.lifetimes = lifetimes
        self.before = before
        self.values = lifetimes.values
        self.memory = SharedMemory(lifetimes)
        self.decisions: list[Decision] = []

    def step(self, number: int, step: ExecutionStep) -> None:
        if not any(step.node.outputs[:1]):  # it has no first result
            return
        if step.node.op == "Concat":
            self._concat(number, step)
            return
        views = list(views_by(step.graph, step.node))
        for piece in views:
            self._view(number, step, piece)
        if not views and fusion_kind_of(step.node) <= BROADCAST:  # elementwise, or broadcast
            self._in_place(number, step)

    # ---- views ------------------------------------------------------------------------------

    def _view(self, number: int, step: ExecutionStep, piece: ContiguousPart) -> None:
        part, whole = self._value(number, piece.part), self._value(number, piece.whole)
        refusal = self._why_not_view(part, whole)
        sentence = refusal or f"'{part.name}' is '{whole.name}' at byte {piece.offset:,}; nothing is copied"
        self._decide(Decision(number, Alias.VIEW, part.name, whole.name, not refusal, sentence), piece.offset)

    def _why_not_view(self, part: ValueLifetime, whole: ValueLifetime) -> str:
        root = self.values[self.memory.location(whole.name).base]
        if not root.kind.lies_in_arena:
            return (
                f"'{part.name}' is a result of the graph, and '{whole.name}' lies in {_described(root)}; it is copied"
                if part.kind == Kind.OUTPUT
                else ""
            )
        before, after = self.memory.peak, self.memory.peak_with(whole.name, [part.name])
        if after > before:
            return (
                f"as a view '{part.name}' would keep the {_bytes(root)} of '{root.name}' in use, and the peak"
                f" would rise from {before:,} to {after:,} bytes; it is copied"
            )
        return ""

    # ---- in place ---------------------------------------------------------------------------

    def _in_place(self, number: int, step: ExecutionStep) -> None:
        """Overwrite the first operand that can be; each operand that cannot be gets a refusal."""
        result = self._value(number, step.node.outputs[0])
        for name in dict.fromkeys(filter(None, step.node.inputs)):
            operand = self._value(number, name)
            refusal = self._why_not_in_place(number, step, operand, result, name)
            sentence = refusal or (
                f"{step.node} writes the {_bytes(result)} of '{result.name}' over '{operand.name}', which nothing reads"
                " later"
            )
            decision = Decision(number, Alias.IN_PLACE, result.name, operand.name, not refusal, sentence)
            self._decide(decision, 0)
            if decision.accepted:
                return

    def _why_not_in_place(
        self, number: int, step: ExecutionStep, operand: ValueLifetime, result: ValueLifetime, name: str
    ) -> str:
        sentence = f"{step.node} cannot overwrite '{operand.name}'"
        root = self.values[self.memory.location(operand.name).base]
        if not root.kind.lies_in_arena:
            return f"{sentence}: it lies in {_described(root)}"
        old, new = (step.graph.tensor_type(value) for value in (name, step.node.outputs[0]))
        if operand.bytes is None or result.bytes is None or old is None or new is None:
            return f"{sentence}: its size is not known"
        if old.dtype.bitwidth != new.dtype.bitwidth:
            return (
                f"{sentence}: an element of it has {old.dtype.bitwidth} bits, and one of '{result.name}'"
                f" {new.dtype.bitwidth}"
            )
        if bound_shape(step.graph, name) != bound_shape(step.graph, step.node.outputs[0]):
            return f"{sentence}: it has {_bytes(operand)}, and is broadcast to the {_bytes(result)} of '{result.name}'"
        if operand.kind == Kind.OUTPUT:
            return f"{sentence}: it is a result of the graph"
        if operand.dies > number + 1:
            return f"{sentence}: {self._reader(operand, number)} reads it later"
        for other in self.memory.overlapping(operand.name):
            if other.dies > number:
                return f"{sentence}: {self._reader(other, number)} reads '{other.name}', which lies in the same memory"
        concurrent = self._concurrent_user(number, operand)
        if concurrent is not None:
            return f"{sentence}: {concurrent.node} may run at the same time"
        before, after = self.memory.peak, self.memory.peak_with(operand.name, [result.name])
        if after > before:
            return (
                f"{sentence}: that would keep the {_bytes(root)} of '{root.name}' in use, and the peak would rise"
                f" from {before:,} to {after:,} bytes"
            )
        return ""

    def _concurrent_user(self, number: int, operand: ValueLifetime) -> ExecutionStep | None:
        """A step that uses the operand's memory and may still run when this step begins; None if there is none."""
        if self.before is None:
            return None
        ended = self.before.get(number, frozenset())
        for value in (operand, *self.memory.overlapping(operand.name)):
            for step in (*value.reads, value.producer):
                if step is None or step == number or step in ended or self._only_views(step):
                    continue
                return self.lifetimes.steps[step]
        return None

    def _only_views(self, number: int) -> bool:
        """Whether a step only returns views, and so touches no memory."""
        names = [self.lifetimes.operand(number, v) for v in self.lifetimes.steps[number].node.outputs if v]
        parents = [self.memory.parent.get(name) for name in names]
        return all(parent is not None and parent.alias == Alias.VIEW for parent in parents)

    def _reader(self, value: ValueLifetime, number: int) -> str:
        """The next node that reads a value, from that step on."""
        later = [read for read in value.reads if read > number] or [read for read in value.reads if read == number]
        return str(self.lifetimes.steps[later[0]].node) if later else "the caller"

    # ---- Concat -----------------------------------------------------------------------------

    def _concat(self, number: int, step: ExecutionStep) -> None:
        """Compute inside the result all operands that can be, if together they do not raise the peak."""
        pieces = list(pieces_of_concat(step.graph, step.node))
        result = self._value(number, step.node.outputs[0])
        accepted: list[tuple[ValueLifetime, ContiguousPart]] = []
        for piece in pieces:
            part = self._value(number, piece.part)
            refusal = self._why_not_placed(number, part, [operand.name for operand, _ in accepted])
            if refusal:
                self.decisions.append(Decision(number, Alias.CONCAT_IN_PLACE, part.name, result.name, False, refusal))
            else:
                accepted.append((part, piece))
        if not pieces:
            sentence = f"the operands of {step.node} are not contiguous in '{result.name}'; they are copied"
            self.decisions.append(Decision(number, Alias.CONCAT_IN_PLACE, result.name, result.name, False, sentence))
        roots = [self.memory.location(part.name).base for part, _ in accepted]
        before, after = self.memory.peak, self.memory.peak_with(result.name, roots)
        for (part, piece), root in zip(accepted, roots, strict=True):
            if after > before:
                sentence = (
                    f"'{part.name}' inside '{result.name}' would keep {_bytes(result)} in use from its first operand"
                    f" on, and the peak would rise from {before:,} to {after:,} bytes; it is copied"
                )
                self.decisions.append(Decision(number, Alias.CONCAT_IN_PLACE, part.name, result.name, False, sentence))
                continue
            sentence = f"'{part.name}' is computed at byte {piece.offset:,} of '{result.name}'; nothing is copied"
            self.decisions.append(Decision(number, Alias.CONCAT_IN_PLACE, part.name, result.name, True, sentence))
            self.memory.put(root, result.name, piece.offset, Alias.CONCAT_IN_PLACE)

    def _why_not_placed(self, number: int, part: ValueLifetime, others: Sequence[str]) -> str:
        location = self.memory.location(part.name)
        root = self.values[location.base]
        if not root.kind.lies_in_arena:
            return f"'{part.name}' lies in {_described(root)}; it is copied"
        if root.producer is None or self.lifetimes.scopes[root.producer] is not self.lifetimes.scopes[number]:
            return f"'{part.name}' is computed outside the body that contains the Concat; it is copied"
        if location.offset or root.bytes != part.bytes:
            return f"'{part.name}' lies in '{root.name}', which is larger; it is copied"
        if any(self.memory.location(other).base == root.name for other in others):
            return f"'{part.name}' shares memory with an operand already placed in the result; it is copied"
        return ""

    def _value(self, number: int, name: str) -> ValueLifetime:
        return self.values[self.lifetimes.operand(number, name)]

    def _decide(self, decision: Decision, offset: int) -> None:
        self.decisions.append(decision)
        if decision.accepted:
            self.memory.put(decision.value, decision.other, offset, decision.how)


def _described(root: ValueLifetime) -> str:
    return f"the {'weight' if root.kind == Kind.WEIGHT else 'input'} '{root.name}'"


def _bytes(value: ValueLifetime) -> str:
    return "unknown bytes" if value.bytes is None else f"{value.bytes:,} bytes"
