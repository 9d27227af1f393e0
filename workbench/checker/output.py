"""The output of a certificate, with what the checker infers about its values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from workbench.checker.inference import Inferred, inferred
from workbench.checker.kernels import LayoutKernel, layout_kernels
from workbench.checker.opening import OpenedNodes, opened
from workbench.checker.outcome import Unreadable, escaped
from workbench.checker.plain import FunctionKey, PlainModel
from workbench.checker.transpose_traffic import Moved, moved_by_transposes
from workbench.checker.types import sizes_of


@dataclass
class Output:
    """model: the written file. dims: numbers for its symbols. name: for sentences, with its quotation marks. unknown:
    operators of which only a runtime says what they do."""

    model: PlainModel
    dims: Mapping[str, int]
    name: str
    unknown: Sequence[str] = ()

    @cached_property
    def inferred(self) -> Inferred:
        """With functions as calls."""
        return inferred(self.model, self.dims)

    @cached_property
    def kernels(self) -> Mapping[FunctionKey, LayoutKernel]:
        """The functions for which a runtime may have a kernel, which then runs none of the Transposes in them."""
        return layout_kernels(self.model)

    @cached_property
    def opened(self) -> OpenedNodes:
        """Its nodes, with every function but kernels opened. Raises Unreadable."""
        return opened(self.model.proto, self.kernels)

    @cached_property
    def with_kernels(self) -> Inferred:
        """What a runtime with kernels for other layouts runs."""
        result = self._with(self.kernels)
        unknown = [value for value, type_ in result.types.items() if sizes_of(type_) is None] if self.kernels else []
        if unknown:  # whose sizes follow from what their functions run
            result = replace(result, types={**result.types, **{v: self.without_kernels.types.get(v) for v in unknown}})
        return result

    @cached_property
    def without_kernels(self) -> Inferred:
        """What any other runtime runs."""
        return self._with({}) if self.kernels else self.with_kernels

    def _with(self, kernels: Mapping[FunctionKey, LayoutKernel]) -> Inferred:
        if not self.model.functions:
            return self.inferred
        try:
            nodes = self.opened if kernels == self.kernels else opened(self.model.proto, kernels)
        except Unreadable as error:
            return Inferred(why=str(error))
        return inferred(self.model, self.dims, nodes.nodes)

    @cached_property
    def fixed(self) -> frozenset[str]:
        """The constants in place of which no caller may give something else."""
        return frozenset(self.model.graph.constants) - self.model.overridable

    @cached_property
    def moved(self) -> Moved:
        """What its Transposes move in a runtime with kernels for other layouts."""
        return moved_by_transposes(self.with_kernels, self.fixed, self.dims)

    @cached_property
    def moved_inlined(self) -> Moved:
        """What its Transposes move in any other runtime."""
        return moved_by_transposes(self.without_kernels, self.fixed, self.dims) if self.kernels else self.moved

    @cached_property
    def opaque(self) -> int:
        """The number of nodes of the main graph with bodies, or with functions that are no kernels, in which there are
        further values."""
        functions = self.model.functions.keys() - self.kernels.keys()
        calls = self.model.graph.nodes.values()
        return sum(any(c.bodies) or (c.domain, c.op_type, c.overload) in functions for c in calls)

    @property
    def version(self) -> int:
        """The version of ONNX's own operators."""
        return self.model.opsets.get("", 0)

    @property
    def with_dims(self) -> str:
        """The numbers of its symbols, for a sentence; "" if no symbol has one."""
        used = {symbol: size for symbol, size in sorted(self.dims.items()) if symbol in self.model.symbols}
        return f" with {', '.join(f'{escaped(symbol, 40)}={size:,}' for symbol, size in used.items())}" if used else ""
