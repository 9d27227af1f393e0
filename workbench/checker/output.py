"""The output of a certificate, with what the checker infers about its values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from workbench.checker.cast_traffic import Converted, converted_by_casts
from workbench.checker.inference import Inferred, inferred
from workbench.checker.outcome import escaped
from workbench.checker.plain import PlainModel, PlainNode
from workbench.checker.transpose_traffic import Moved, moved_by_transposes


@dataclass
class Output:
    """model: the written file, or (`is_file` is False) a graph that the log has before its end. dims: numbers for its
    symbols. name: for sentences, with its quotation marks."""

    model: PlainModel
    dims: Mapping[str, int]
    name: str
    is_file: bool = True

    @cached_property
    def inferred(self) -> Inferred:
        return inferred(self.model, self.dims)

    @property
    def _constants(self) -> set[str]:
        """Those that no caller can replace."""
        return self.model.graph.constants.keys() - {value.name for value in self.model.proto.graph.input}

    @cached_property
    def moved(self) -> Moved:
        """What its Transposes move in a runtime with kernels for the functions of the workbench's domain."""
        foreign = [key[:2] for key in self.model.functions if key[0] != _WORKBENCH_DOMAIN]
        result = inferred(self.model, self.dims, foreign) if foreign else self.inferred
        return moved_by_transposes(result, self._constants, self.dims)

    def converted(self, narrow: int) -> Converted:
        """What its Casts between float32 and a narrower type read and write."""
        return converted_by_casts(self.inferred, self._constants, self.dims, narrow)

    @cached_property
    def moved_inlined(self) -> Moved:
        """What its Transposes move with all functions inlined."""
        if not self.model.functions:
            return self.moved
        result = inferred(self.model, self.dims, [key[:2] for key in self.model.functions])
        return moved_by_transposes(result, self._constants, self.dims)

    @cached_property
    def producers(self) -> Mapping[str, PlainNode]:
        """For each value, the node that computes it."""
        return {value: call for call in self.model.graph.nodes.values() for value in call.outputs if value}

    @property
    def calls_functions(self) -> bool:
        keys = {(call.domain, call.op_type, call.overload) for call in self.model.graph.nodes.values()}
        return not keys.isdisjoint(self.model.functions)

    @property
    def with_dims(self) -> str:
        """The numbers of its symbols, for a sentence; "" if no symbol has one."""
        used = {symbol: size for symbol, size in sorted(self.dims.items()) if symbol in self.model.symbols}
        return f" with {', '.join(f'{escaped(symbol, 40)}={size:,}' for symbol, size in used.items())}" if used else ""


_WORKBENCH_DOMAIN = "workbench"
