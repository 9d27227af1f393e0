"""The file that a certificate is of, with what the checker infers of its values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from workbench.checker.inference import Inferred, inferred
from workbench.checker.moved import Moved, moved_by_transposes
from workbench.checker.outcome import escaped
from workbench.checker.plain import PlainModel, PlainNode


@dataclass
class Output:
    """model: the file, whose main graph is that at the end of the log, or else a graph on the way there. dims: numbers
    for its symbols. name: for sentences, in quotation marks."""

    model: PlainModel
    dims: Mapping[str, int]
    name: str
    is_file: bool = True

    @cached_property
    def inferred(self) -> Inferred:
        return inferred(self.model, self.dims)

    @cached_property
    def moved(self) -> Moved:
        """By its Transposes as a runtime finds them that has kernels for the functions of the workbench's domain."""
        others = [key[:2] for key in self.model.functions if key[0] != _OWN]
        result = inferred(self.model, self.dims, others) if others else self.inferred
        return moved_by_transposes(result, set(self.model.graph.constants), self.dims)

    @cached_property
    def moved_inlined(self) -> Moved:
        """By its Transposes and those in the bodies of all functions that it calls."""
        if not self.model.functions:
            return self.moved
        result = inferred(self.model, self.dims, [key[:2] for key in self.model.functions])
        return moved_by_transposes(result, set(self.model.graph.constants), self.dims)

    @cached_property
    def makers(self) -> Mapping[str, PlainNode]:
        """By value, the node that computes it."""
        return {value: call for call in self.model.graph.nodes.values() for value in call.outputs if value}

    @property
    def calls_functions(self) -> bool:
        keys = {(call.domain, call.op_type, call.overload) for call in self.model.graph.nodes.values()}
        return not keys.isdisjoint(self.model.functions)

    @property
    def with_dims(self) -> str:
        """The numbers that its sizes have, for a sentence; "" if none of its symbols has one."""
        used = {symbol: size for symbol, size in sorted(self.dims.items()) if symbol in self.model.symbols}
        return f" with {', '.join(f'{escaped(symbol, 40)}={size:,}' for symbol, size in used.items())}" if used else ""


_OWN = "workbench"
