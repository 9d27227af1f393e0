"""A graph prepared for torch: a list of steps over numbered registers.

Everything that can be decided once is decided here: attributes, the function
of each operator, the registers of its operands, and the step after which a value is freed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir

from workbench.backends.failures import first_line
from workbench.backends.torch.executor.fallback import OneNodeModel
from workbench.backends.torch.executor.host_placement import SHAPE_ONLY, host_values, results_on_host
from workbench.backends.torch.executor.instruction import Instruction, NodeCall, conforms
from workbench.backends.torch.executor.operator_errors import OperatorError, described, failure
from workbench.backends.torch.executor.run_config import Setting, on_host
from workbench.errors import UserError
from workbench.ir import AttrRef, Constant, DataType, Function, Graph, Node, constant_shape
from workbench.ir.function_calls import function_key
from workbench.ir.permutation import inverse
from workbench.ir.text import OPSET
from workbench.ir.versioned import opset_of_domain
from workbench.ops.channels_last import parse_channels_last
from workbench.ops.contract import contract_of
from workbench.ops.dtypes import UnsupportedByTorch, constant_tensor
from workbench.ops.lazy import torch as lazy_torch
from workbench.ops.npu import own_function

if TYPE_CHECKING:
    import torch

ABSENT = 0  # the register that holds None
# torch holds these in wider types
_SUB_BYTE_TYPES = (DataType.INT4, DataType.UINT4, DataType.INT2, DataType.UINT2, DataType.FLOAT4E2M1)
_TYPE_ATTRIBUTES = ("to", "dtype", "output_dtype")
_TYPED_BY_OPERAND = {"QuantizeLinear": (2, "output_dtype"), "CastLike": (1, "to")}


class Program:
    """A graph, body or function as steps.

    binding: values of the function's attributes. outside: values that a body captures. read_on_host: results that
    whatever runs it reads on the CPU.
    """

    def __init__(
        self,
        graph: Graph,
        setting: Setting,
        binding: Mapping[str, Any] | None = None,
        outside: Sequence[str] = (),
        read_on_host: Sequence[str] = (),
    ) -> None:
        self.graph = graph
        self.setting = setting
        self.binding = dict(binding or {})
        self.register_of: dict[str, int] = {"": ABSENT}
        self._template: list[Any] = [None]
        self._prepared: dict[tuple[str, Any], int] = {}
        self.on_cpu = host_values(graph, outside, read_on_host) if setting.places_matter else frozenset()
        self.inputs = [self._register(v) for v in graph.inputs]
        captured = [v for v in graph.captured if v not in self.register_of]
        self.captured_names = tuple(captured)
        self._captured = [self._register(v) for v in captured]
        self.steps = [self._step(node) for node in graph.nodes]
        self.outputs = [self._output(v) for v in graph.outputs]
        self._goes_straight = not (setting.places_matter or any(step.call.bodies for step in self.steps))
        self._ran = False
        self._generated: Callable[..., tuple[Any, ...]] | None = None
        self._types = [graph.tensor_type(value) for value in (*graph.inputs, *captured)]
        self.free_after_last_use()

    # ---- preparing -------------------------------------------------------------------

    def _register(self, value: str) -> int:
        if value not in self.register_of:
            self.register_of[value] = len(self._template)
            self._template.append(None)
        return self.register_of[value]

    def _constant(self, name: str, host: bool, restride: Callable[[torch.Tensor], torch.Tensor] | None) -> int:
        """The register of a constant, loaded once for each device and memory format."""
        host = host or not self.setting.places_matter
        key = (name, (host, restride is not None))
        if key not in self._prepared:
            value = self._loaded(self.graph.constants[name])
            value = value if host else self.setting.on_device(value)
            self._prepared[key] = len(self._template)
            self._template.append(restride(value) if restride else value)
        return self._prepared[key]

    def _loaded(self, tensor: Constant) -> Any:
        try:
            return constant_tensor(tensor)
        except UnsupportedByTorch as error:
            raise OperatorError(f"Constant '{tensor.name}' cannot be loaded: {error}.") from None

    def _output(self, value: str) -> int:
        return self._constant(value, False, None) if value in self.graph.constants else self.register_of[value]

    def _step(self, node: Node) -> Instruction:
        on_cpu = self.setting.places_matter and (
            node.op in SHAPE_ONLY or any(value in self.on_cpu for value in node.outputs)
        )
        attributes = self._attributes(node, on_cpu)
        device = lazy_torch.device("cpu") if on_cpu else self.setting.device
        call = NodeCall(node, device, attributes, self._numbers(node), self.setting.dtype is not None)
        contract = contract_of(node)
        host = self._operands_on_host(node, on_cpu)
        registers = [
            self._constant(v, host[i], _weight_order(node, i)) if v in self.graph.constants else self._register(v)
            for i, v in enumerate(node.inputs)
        ]
        captured = [
            self._constant(v, False, None) if v in self.graph.constants else self._register(v)
            for v in node.operands[len({v for v in node.inputs if v}) :]
        ]
        for name, body in attributes.items():
            if isinstance(body, Graph):
                read = results_on_host(node, name, body)
                program = Program(body, self.setting, self.binding, body.captured, read)
                call.bodies[id(body)] = (program, tuple(self._captured_registers(program)))
        step = Instruction(node, call, _unknown, tuple(registers), tuple(self._register(v) for v in node.outputs))
        step.captured = tuple(captured)
        if self.setting.places_matter and node.op not in SHAPE_ONLY:
            step.host = tuple(host)
        function = None if contract else self._function(node)
        if contract is not None:
            step.run = contract.run
        elif function is not None:
            step.function = self._function_program(function, attributes)
            step.run = step.function.call
        elif (opset := opset_of_domain(node.domain)) is not None:
            self._fall_back(step, f"it has the form of opset {opset}")
        else:
            self._fall_back(step, "the operator table does not know it")
        return step

    def _numbers(self, node: Node) -> dict[int, int]:
        held = ((place, self.graph.constants.get(value)) for place, value in enumerate(node.inputs))
        return {
            place: int(tensor.numpy())
            for place, tensor in held
            if tensor is not None and tensor.dtype.is_integer() and constant_shape(tensor) == ()
        }

    def _operands_on_host(self, node: Node, on_cpu: bool) -> list[bool]:
        contract = contract_of(node)
        numbers = contract.host_inputs if contract else ()
        return [on_cpu or i in numbers for i in range(len(node.inputs))]

    def _captured_registers(self, program: Program) -> list[int]:
        return [
            self._constant(v, v in program.on_cpu, None) if v in self.graph.constants else self._register(v)
            for v in program.captured_names
        ]

    def _attributes(self, node: Node, on_cpu: bool) -> dict[str, Any]:
        """The node's attributes, with references resolved and element types of the run."""
        attributes = {}
        for name, value in node.attributes.items():
            if isinstance(value, AttrRef):
                value = self.binding.get(value.name)
            if value is not None:
                attributes[name] = value
        operand, name = _TYPED_BY_OPERAND.get(node.op, (len(node.inputs), ""))
        if operand < len(node.inputs) and not attributes.get(name):
            type_ = self.graph.tensor_type(node.inputs[operand])
            if type_ is not None and type_.dtype in _SUB_BYTE_TYPES:
                attributes[name] = int(type_.dtype)
        if self.setting.dtype is None or on_cpu:
            return attributes
        narrow = DataType.FLOAT16 if self.setting.dtype == lazy_torch.float16 else DataType.BFLOAT16
        for name in _TYPE_ATTRIBUTES:
            if attributes.get(name) == DataType.FLOAT and node.op != "BitCast":  # whose bits are those of float32
                attributes[name] = int(narrow)
        value = attributes.get("value")
        if isinstance(value, onnx_ir.TensorProtocol) and value.dtype == DataType.FLOAT:
            attributes["value"] = onnx_ir.tensor(value.numpy().astype(narrow.numpy()))
        return attributes

    def _function(self, node: Node) -> Function | None:
        result = self.setting.functions.get(function_key(node))
        if result is not None or node.domain != "workbench":
            return result
        try:
            return own_function(node.op_type, self.setting.opsets.get("", OPSET))
        except KeyError:
            return None

    def _function_program(self, function: Function, attributes: Mapping[str, Any]) -> Program:
        binding = {**{k: v for k, v in function.attributes.items() if v is not None}, **attributes}
        return Program(function.graph, self.setting, binding)

    def _fall_back(self, step: Instruction, reason: str) -> None:
        self.setting.fallbacks.setdefault(step.node.op, reason)
        step.one_node = OneNodeModel(
            step.node, step.call.attributes, dict(self.setting.opsets), self.setting.dtype if step.host else None
        )

    def free_after_last_use(self) -> None:
        """Values are freed after the last step that reads them, except for constants and the graph's outputs."""
        kept = {ABSENT, *self.outputs, *self._prepared.values()}
        for step in reversed(self.steps):
            bodies = (register for _, captured in step.call.bodies.values() for register in captured)
            last = {*step.inputs, *step.outputs, *step.captured, *bodies} - kept
            step.frees = tuple(sorted(last))
            kept |= last
        self.steps_changed()

    def steps_changed(self) -> None:
        """To be called after a step was changed: what was written down of them does not hold any more."""
        self._ran, self._generated = False, None

    def drop_unread_constants(self) -> None:
        """Release the constants that no step reads any more."""
        read = set(self.outputs)
        for step in self.steps:
            read.update(step.inputs, step.captured, *(captured for _, captured in step.call.bodies.values()))
        for register in set(self._prepared.values()) - read:
            self._template[register] = None
        self.steps_changed()

    @property
    def entering(self) -> list[int]:
        """The registers of inputs and captured values."""
        return [*self.inputs, *self._captured]

    @property
    def constant_registers(self) -> dict[int, Any]:
        """The graph's constants as loaded, by register."""
        return {register: self._template[register] for register in self._prepared.values()}

    @property
    def resident(self) -> tuple[Any, ...]:
        """The constants in their registers."""
        return tuple(self._template[i] for i in self._prepared.values())

    @property
    def constants(self) -> dict[str, Any]:
        """The graph's constants as loaded, by name."""
        return {name: self._template[register] for (name, _), register in self._prepared.items()}

    # ---- running ------------------------------------------------------------------------

    def call(self, call: NodeCall, *operands: Any) -> tuple[Any, ...]:
        """The program as the run of an instruction."""
        return self.execute(operands, ())

    def execute(
        self,
        inputs: Sequence[Any],
        captured: Sequence[Any],
        observe: Callable[[Node, tuple[Any, ...]], None] | None = None,
    ) -> tuple[Any, ...]:
        """The outputs; missing inputs are absent optionals.

        From the second run on, which knows what torch does not run, by generated Python, if nobody observes.
        """
        if observe is None and self._ran and self._goes_straight:
            values = (*inputs, *repeat(None, len(self.inputs) - len(inputs)), *captured)
            if all(map(conforms, values, self._types)):
                run = self._as_python()
                try:
                    return run(*values)
                except UserError:
                    raise
                except Exception:
                    self._generated = None  # the steps say which operator failed, or have ONNX Runtime run it
        outputs = self._by_steps(self.filled_registers(inputs, captured), observe)
        self._ran = True
        return outputs

    def _as_python(self) -> Callable[..., tuple[Any, ...]]:
        if self._generated is None:
            from workbench.backends.torch.executor.codegen import generated  # which imports torch

            self._generated = generated(self)
        return self._generated

    def _by_steps(
        self, registers: list[Any], observe: Callable[[Node, tuple[Any, ...]], None] | None
    ) -> tuple[Any, ...]:
        for step in self.steps:
            results = self.results(step, registers)
            store(step, results, registers)
            if observe is not None:
                observe(step.node, results)
            if self._goes_straight and not self._ran:
                self._goes_straight = self._conform(step.node.outputs, results)
            del results
        return tuple(registers[i] for i in self.outputs)

    def _conform(self, names: Sequence[str], values: Sequence[Any]) -> bool:
        """Whether values are what the graph says of them, on which generated Python relies."""
        pairs = zip(names, values, strict=False)
        return all(conforms(value, self.graph.tensor_type(name)) for name, value in pairs if value is not None)

    def filled_registers(self, inputs: Sequence[Any], captured: Sequence[Any] = ()) -> list[Any]:
        """Registers with the constants, inputs and captured values, before the first step."""
        registers = self._template.copy()
        for register, value in zip(self.inputs, inputs, strict=False):
            registers[register] = value
        for register, value in zip(self._captured, captured, strict=True):
            registers[register] = value
        return registers

    def operands(self, step: Instruction, registers: list[Any]) -> list[Any]:
        """What a step reads, where it reads it."""
        operands = [registers[i] for i in step.inputs]
        if step.host is None:
            return operands
        return [
            on_host(value) if host else step.on_device(place, value, self.setting.on_device)
            for place, (value, host) in enumerate(zip(operands, step.host, strict=True))
        ]

    def results(self, step: Instruction, registers: list[Any]) -> tuple[Any, ...]:
        """What a step computes. Raises OperatorError."""
        operands, call = [registers[i] for i in step.inputs], step.call
        try:
            if step.host is not None:
                operands = self.operands(step, registers)
            if step.one_node is None:
                if call.bodies:
                    call.registers = registers
                results = step.run(call, *operands)
                return results if isinstance(results, tuple) else (results,)
        except (UnsupportedByTorch, NotImplementedError) as error:
            self._fall_back(step, first_line(error))
        except UserError:
            raise
        except Exception as error:
            if not any(isinstance(value, np.ndarray) for value in operands):
                raise OperatorError(failure(step.node, operands, error)) from error
            self._fall_back(step, "torch has no strings")
        finally:
            if step.call.bodies:
                step.call.registers = []
        return self._by_onnxruntime(step, operands, [registers[i] for i in step.captured])

    def _by_onnxruntime(self, step: Instruction, operands: Sequence[Any], captured: Sequence[Any]) -> tuple[Any, ...]:
        assert step.one_node is not None
        try:
            return step.one_node(operands, captured, step.call.device)
        except Exception as error:
            reason = self.setting.fallbacks[step.node.op]
            raise OperatorError(
                f"Neither torch ({reason}) nor ONNX Runtime can run {described(step.node, operands)}: "
                f"{first_line(error)}."
            ) from error


def store(step: Instruction, results: Sequence[Any], registers: list[Any]) -> None:
    """Put what a step has computed into its registers, and free what no later step reads."""
    for register, value in zip(step.outputs, results, strict=False):
        registers[register] = value
    registers[ABSENT] = None  # a result that nothing reads was put there
    for register in step.frees:
        registers[register] = None


def _unknown(call: NodeCall, *operands: Any) -> Any:
    raise UnsupportedByTorch("no function was prepared")


def _weight_order(node: Node, index: int) -> Callable[[torch.Tensor], torch.Tensor] | None:
    """The memory format of a weight: a channels-last convolution reads it channels last, which is converted once."""
    parts = parse_channels_last(node.domain, node.op_type)
    if index != 1 or parts is None or not parts.op_type.startswith("Conv") or parts.rank not in (4, 5):
        return None
    memory = lazy_torch.channels_last if parts.rank == 4 else lazy_torch.channels_last_3d
    perm = parts.weight_perm
    if perm is None:
        return lambda weight: weight.contiguous(memory_format=memory)
    return lambda weight: weight.permute(perm).contiguous(memory_format=memory).permute(inverse(perm))
