"""The calls of torch that a contract's function makes, recorded once with torch.fx.

A contract's function looks at its operands in every run: at their types, shapes, and axes that are in tensors. It is
called once with operands that answer from the graph instead. What it calls of torch is added to an fx graph; what it
looked at is not looked at again. Where the graph does not know an answer, or the function reads numbers, it is called
as a whole in every run.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any, NoReturn

import torch
from torch import fx
from torch.fx.node import Argument, Target
from torch.fx.proxy import GraphAppendingTracer, TraceError
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from workbench.ir import TensorType
from workbench.ops.contract import Call
from workbench.ops.dtypes import torch_dtype


class NotRecordable(TraceError):
    """The function asks for something that only a run knows."""


class Operand(fx.Proxy):
    """A tensor of a later run. type: what the graph says of it; None: nothing, as of what torch computes between."""

    def __init__(self, node: fx.Node, tracer: Recorder, type_: TensorType | None = None) -> None:
        super().__init__(node, tracer)
        self.type_ = type_

    def _known(self) -> TensorType:
        if self.type_ is None:
            raise NotRecordable("its type is not known")
        return self.type_

    @property
    def dtype(self) -> torch.dtype:
        return torch_dtype(self._known().dtype)

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    @property
    def shape(self) -> torch.Size | tuple[int | fx.Proxy, ...]:
        """Sizes that are not known are read in each run."""
        known = self._known()
        if known.static_shape is not None:
            return torch.Size(known.static_shape)
        if known.shape is None:
            raise NotRecordable("its rank is not known")
        return tuple(
            size if isinstance(size, int) else self.tracer.create_proxy("call_method", "size", (self, axis), {})
            for axis, size in enumerate(known.shape)
        )

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def dim(self) -> int:
        return self.ndim

    def size(self, axis: int | None = None) -> Any:
        return self.shape if axis is None else self.shape[axis]

    def numel(self) -> int:
        size = self._known().elements
        if size is None:
            raise NotRecordable("its size is not known")
        return size

    def element_size(self) -> int:
        return self.dtype.itemsize

    def is_floating_point(self) -> bool:
        return self.dtype.is_floating_point

    def is_complex(self) -> bool:
        return self.dtype.is_complex

    def __len__(self) -> int:
        size = self.shape[0]
        if isinstance(size, int):
            return size
        raise NotRecordable("its size is not known")

    def _numbers(self, *_: Any) -> NoReturn:
        raise NotRecordable("its numbers are read")

    __bool__ = __int__ = __float__ = __index__ = __complex__ = __contains__ = __array__ = _numbers
    __setitem__ = is_contiguous = stride = data_ptr = tolist = item = numpy = _numbers

    def __iter__(self) -> Iterator[fx.Proxy]:
        raise NotRecordable("it is taken apart")


class Recorder(GraphAppendingTracer):
    """Writes into an fx graph. share: takes a tensor that all runs read, and returns its name in the code.

    created: the nodes since the list was last emptied.
    """

    def __init__(self, graph: fx.Graph, share: Callable[[torch.Tensor], str]) -> None:
        super().__init__(graph)
        self.created: list[fx.Node] = []
        self._share = share

    def create_node(self, *args: Any, **kwargs: Any) -> fx.Node:
        self.created.append(super().create_node(*args, **kwargs))
        return self.created[-1]

    def proxy(self, node: fx.Node) -> Operand:
        return Operand(node, self)

    def constant(self, tensor: Any) -> fx.Node:
        """A node that reads a tensor, or an array of strings, which all runs share."""
        return self.create_node("get_attr", self._share(tensor), (), {})

    def create_arg(self, a: Any) -> Argument:
        return self.constant(a) if isinstance(a, torch.Tensor) else super().create_arg(a)


class _EveryCall(TorchFunctionMode):
    """Records calls that make tensors of no operand; calls on tensors that are known are done.

    is_paused: whether all calls are done.
    """

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.is_paused = False
        self._recorder = recorder

    def __torch_function__(
        self, func: Target, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if self.is_paused or any(isinstance(leaf, (fx.Proxy, torch.Tensor)) for leaf in tree_leaves((args, kwargs))):
            return func(*args, **kwargs)  # type: ignore[operator]  # a function: no method comes here by its name
        return self._recorder.create_proxy("call_function", func, args, kwargs)


class _RecordedCall:
    """A call while its function is recorded: tensors that it holds for later runs are computed, not recorded."""

    def __init__(self, call: Call, mode: _EveryCall) -> None:
        self._call = call
        self._mode = mode

    def __getattr__(self, name: str) -> Any:
        return getattr(self._call, name)

    def cached_tensor(self, key: Hashable, make: Callable[[], torch.Tensor]) -> torch.Tensor:
        def computed() -> torch.Tensor:
            result = make()
            if isinstance(result, torch.Tensor):
                return result
            raise NotRecordable("what it holds depends on sizes that are not known")

        self._mode.is_paused = True
        try:
            return self._call.cached_tensor(key, computed)
        finally:
            self._mode.is_paused = False


def record(
    recorder: Recorder, run: Callable[..., Any], call: Call, operands: list[Operand | torch.Tensor | None]
) -> list[fx.Node] | None:
    """The results of a contract's function, as nodes of the recorder's graph; None if it cannot be recorded.

    operands: those that are tensors are the same in every run, and known by their numbers.
    """
    recorder.created.clear()
    try:
        with _EveryCall(recorder) as mode:
            result = run(_RecordedCall(call, mode), *operands)
    except Exception:  # an operand is no tensor, which a function may notice anywhere; a run shows its real failures
        result = None
    results = result if isinstance(result, tuple) else (result,)
    nodes = [value.node for value in results if isinstance(value, Operand)]
    is_recorded = len(nodes) == len(results)
    for node in reversed(recorder.created):
        if not is_recorded or (node.target == "size" and not node.users and node not in nodes):
            recorder.graph.erase_node(node)
    return nodes if is_recorded else None
