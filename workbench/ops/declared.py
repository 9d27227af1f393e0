"""Operators that a user declares: each is a table in a TOML file of the folder `operators_folder()`.

Nothing here runs such an operator. A declaration says what types its results have, whether it works on any order of
axes, and whether equal calls give equal results.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

from workbench.errors import UserError, reading
from workbench.ir import Graph, Node
from workbench.ir.permutation import Permutation
from workbench.ops.contract import Call, Contract, Value, contracts, set_declared
from workbench.ops.dtypes import UnsupportedByTorch
from workbench.ops.fusion_kinds import OPAQUE
from workbench.ops.permutation.kinds import ALL_OPERANDS, LAYOUT_BARRIER, Layout, NotPermutable, PermutedCall, aligned
from workbench.ops.stand_ins import Nodes
from workbench.support.files import settings_folder

OPERATORS_VARIABLE = "WORKBENCH_OPERATORS"
_SUFFIX = ".toml"
_KEYS = ("operands", "results", "layout", "pure")
_LARGEST = 1_000_000  # bytes of a file
_NAME = re.compile(r"(?:[A-Za-z_][\w-]*\.)*[A-Za-z_]\w*")
_TYPE = re.compile(r"([A-Za-z]\w*)\[([^\[\]]*)\]")
_DIM = re.compile(r"\?|\*[A-Za-z]\w*|@\w+|\d+|(?:\d+\*)?[A-Za-z]\w*")
_ELEMENTS = {name.lower(): number for name, number in TensorProto.DataType.items() if name != "UNDEFINED"}


class DeclarationError(UserError):
    """A file of declared operators cannot be used."""


@dataclass(frozen=True)
class _Type:
    """The pattern of a type, as text: "T[N,2*C,@size,?]". element: of ONNX, or a name that operands give."""

    element: str
    dims: tuple[str, ...]


@dataclass(frozen=True)
class DeclaredOperator:
    """op: "my.Op", or the name alone in ONNX's domain. layout: "barrier" or "agnostic". pure: whether equal calls give
    equal results."""

    op: str
    file: Path
    operands: Sequence[_Type]
    results: Sequence[_Type]
    layout: str
    pure: bool

    @property
    def contract(self) -> Contract:
        layout = _ANY_ORDER if self.layout == "agnostic" else LAYOUT_BARRIER
        return Contract(
            self.op, "declared", self._run, layout, OPAQUE, _unknown_flops, stand_in=self._stand_ins, pure=self.pure
        )

    def _run(self, call: Call, *operands: Value) -> Value:
        raise UnsupportedByTorch(f"{self.op} is declared in '{self.file.name}', and nothing here runs it")

    def _stand_ins(self, node: NodeProto) -> list[NodeProto]:
        nodes = _Results(node, self.operands)
        for value, type_ in zip(node.output, self.results, strict=False):
            if value:
                nodes.add_result(value, type_)
        return nodes.nodes


def operators_folder() -> Path:
    """The folder of the files: $WORKBENCH_OPERATORS, or graph-workbench/operators in the user's settings."""
    return settings_folder("operators", OPERATORS_VARIABLE)


def use_declared_operators() -> tuple[Mapping[str, DeclaredOperator], list[str]]:
    """Read the files, from now on with their contracts; a sentence for each file that cannot be used."""
    folder = operators_folder()
    known: dict[str, DeclaredOperator] = {}
    faults = []
    for path in sorted(folder.glob(f"*{_SUFFIX}")) if folder.is_dir() else ():
        try:
            with reading(f"'{path}'", DeclarationError, "correct the file or delete it"):
                for declared in _declarations(path):
                    if declared.op in known:
                        first = known[declared.op].file
                        raise _fault(path, f"declares '{declared.op}', as '{first}' does", "keep one of them")
                    known[declared.op] = declared
        except DeclarationError as error:
            faults.append(str(error))
    set_declared({op: declared.contract for op, declared in known.items()})
    return known, faults


# ---- reading ---------------------------------------------------------------------------------------


def _fault(path: Path, what: str, advice: str) -> DeclarationError:
    return DeclarationError(f"'{path}' {what}, so its operators are not known; {advice}")


def _declarations(path: Path) -> list[DeclaredOperator]:
    try:
        if not (path.is_file() and path.stat().st_size <= _LARGEST):  # reading a pipe would never end
            raise _fault(path, f"is not a file of at most {_LARGEST:,} bytes", "delete it")
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise _fault(path, f"cannot be read ({error.strerror or error})", "change its permissions") from None
    except (ValueError, RecursionError) as error:  # not TOML, not UTF-8, or nested too deeply
        raise _fault(path, f"is not TOML ({error})", "correct it") from None
    return [_declaration(path, op, table) for op, table in tables.items()]


def _declaration(path: Path, op: str, table: Any) -> DeclaredOperator:
    if not isinstance(table, dict):
        raise _fault(path, f"has the key '{op[:60]}' outside of any table", f'begin a table, such as ["my.{op[:60]}"]')
    if not _NAME.fullmatch(op) or any(isinstance(value, dict) for value in table.values()):
        raise _fault(path, f"has the table '{op[:60]}'", 'write an operator with its domain in quotes: ["my.Op"]')
    domain, _, op_type = op.rpartition(".")
    if op in contracts() or onnx.defs.has(op_type, domain):
        raise _fault(path, f"declares '{op}', which is known", "take it out")
    unknown = next((key for key in table if key not in _KEYS), None)
    if unknown is not None:
        raise _fault(path, f"has the key '{unknown[:60]}' for '{op}'", f"there are {', '.join(_KEYS)}")
    if "results" not in table:
        raise _fault(path, f"gives no results for '{op}'", 'add their types, such as results = ["float[N,4]"]')
    operands, results = (_types(path, op, key, table.get(key, [])) for key in ("operands", "results"))
    _check_names(path, op, operands, results)
    layout, pure = table.get("layout", "barrier"), table.get("pure", False)
    if layout not in ("barrier", "agnostic"):
        raise _fault(path, f"has the layout '{str(layout)[:60]}' for '{op}'", "write barrier or agnostic")
    if not isinstance(pure, bool):
        raise _fault(path, f"has pure = {str(pure)[:60]} for '{op}'", "write true or false")
    return DeclaredOperator(op, path, operands, results, layout, pure)


def _types(path: Path, op: str, key: str, texts: Any) -> list[_Type]:
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise _fault(path, f"has {key} of '{op}' that are not a list of texts", f'write {key} = ["float[N,4]"]')
    results = []
    for text in texts:
        match = _TYPE.fullmatch(text.replace(" ", ""))
        dims = () if match is None or not match[2] else tuple(match[2].split(","))
        if match is None or not all(map(_DIM.fullmatch, dims)):
            raise _fault(path, f"has the type '{text[:60]}' for '{op}'", 'write one such as "float[N,2*C,@size,?]"')
        results.append(_Type(match[1], dims))
    return results


def _check_names(path: Path, op: str, operands: Sequence[_Type], results: Sequence[_Type]) -> None:
    """Refuse names in results that no operand gives, and what operands cannot give."""
    given = {dim for type_ in operands for dim in type_.dims}
    elements = {type_.element for type_ in operands}
    for type_ in operands:
        product = next((dim for dim in type_.dims if "@" in dim or re.match(r"\d+\*", dim)), None)
        if product is not None:
            raise _fault(path, f"has '{product}' in an operand of '{op}'", "write a number, a name or ?")
    for type_ in results:
        if type_.element not in _ELEMENTS and type_.element not in elements:
            raise _fault(path, f"has the element type '{type_.element}' for '{op}'", "name ONNX's or an operand's")
        whole = any(dim.startswith("*") for dim in type_.dims)
        if whole and not any(other.dims == type_.dims for other in operands):
            raise _fault(path, f"has '{','.join(type_.dims)}' for '{op}'", "* stands for axes only as in an operand")
        name = next((n for dim in type_.dims if (n := _name(dim)) and n not in given), None)
        if name is not None and not whole:
            raise _fault(path, f"has the size '{name}' for '{op}', which no operand has", "give it to one, or write ?")


def _name(dim: str) -> str:
    """The name in a size such as "N" or "2*N"; "" if there is none."""
    last = dim.rpartition("*")[2]
    return last if last[:1].isalpha() or last[:1] == "_" else ""


# ---- what a declaration means -----------------------------------------------------------------------


class _Results(Nodes):
    """Nodes of ONNX's operators whose results have the declared types."""

    def __init__(self, node: NodeProto, operands: Sequence[_Type]) -> None:
        super().__init__(node)
        self._node = node
        self._operands = [(value, type_) for value, type_ in zip(node.input, operands, strict=False) if value]

    def add_result(self, value: str, type_: _Type) -> None:
        whole = next((operand for operand, other in self._operands if other.dims == type_.dims and type_.dims), None)
        if whole is not None:
            self._with_element(whole, value, type_.element)
        elif not any(dim.startswith("*") for dim in type_.dims):
            sizes = [self._size(dim) for dim in type_.dims] or [self._numbers([])]
            shape = self.add("Concat", sizes, axis=0)
            filled = self.add("ConstantOfShape", [shape])
            self._with_element(filled, value, type_.element)

    def _with_element(self, source: str, value: str, element: str) -> None:
        like = next((operand for operand, other in self._operands if other.element == element), None)
        if element in _ELEMENTS:
            self.add("Cast", [source], value, to=_ELEMENTS[element])
        elif like is not None:
            self.add("CastLike", [source, like], value)

    def _size(self, dim: str) -> str:
        """One size, as a list of one integer."""
        if dim.isdecimal():
            return self._numbers([int(dim)])
        if dim.startswith("@"):
            number = next((a.i for a in self._node.attribute if a.name == dim[1:]), None)
            return self._unknown() if number is None else self._numbers([number])
        name, factor = _name(dim), dim.rpartition("*")[0]
        place = next(((v, t.dims.index(name)) for v, t in self._operands if name in t.dims), None)
        if place is None:
            return self._unknown()
        operand, axis = place
        size = self.add("Gather", [self.add("Shape", [operand]), self._numbers([axis])])
        return self.add("Mul", [size, self._numbers([int(factor)])]) if factor else size

    def _unknown(self) -> str:
        """A size that nothing gives: that of what is not zero in a tensor of any size."""
        count = self.add("Shape", [self.add("NonZero", [self.add("Constant", [], value_ints=[0, 1])])])
        return self.add("Gather", [count, self._numbers([1])])

    def _numbers(self, numbers: Sequence[int]) -> str:
        tensor = numpy_helper.from_array(np.array(numbers, np.int64))
        result = self.add("Constant", [])
        self.nodes[-1].attribute.append(helper.make_attribute("value", tensor))
        return result


def _unknown_flops(*_: object) -> None:
    return None


def _propagate_to_all(graph: Graph, node: Node, perm: Permutation) -> PermutedCall:
    """Every operand has all axes: whether others are broadcast is not declared."""
    inputs, constants = [], {}
    for index, value in enumerate(node.inputs):
        tensor = graph.constant(value) if value else None
        if value and graph.rank_of(value) != len(perm):
            raise NotPermutable(f"operand '{value}' of {node} has another rank than the permutation")
        if tensor is not None:
            moved = aligned(tensor, perm)
            constants.update({} if moved is None else {index: moved})
        elif value:
            inputs.append(index)
    if not inputs:
        raise NotPermutable(f"no operand of {node} is computed")
    return PermutedCall(tuple(inputs), (perm,) * len(node.outputs), constants=constants)


_ANY_ORDER = Layout("agnostic", _propagate_to_all, ALL_OPERANDS)
