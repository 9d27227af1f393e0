"""Packings as MiniMalloc's CSV: id, lower, upper, size and, if planned, offset; lifetimes are half-open.

Source: Moffitt, "MiniMalloc: A Lightweight Memory Allocator for Hardware-Accelerated Machine Learning", ASPLOS 2023;
https://github.com/google/minimalloc.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from workbench.errors import UserError, reading
from workbench.planning.memory.blocks.packing import MemoryBlock, Packing
from workbench.support.files import as_text_cell, from_text_cell

_COLUMNS = ("id", "lower", "upper", "size")
_LARGEST = 2**62  # bytes of all blocks
_LATEST = 10**7  # steps


def read_packing(path: str) -> Packing:
    """The blocks of a file. Raises UserError, with the line, for any other file."""
    with reading(f"'{path}'", UserError, f"write it as CSV with the columns {_listed()}"):
        return _read(path)


def _read(path: str) -> Packing:
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise UserError(f"'{path}' is not text in UTF-8; write it as CSV with the columns {_listed()}.") from None
    except OSError as error:
        raise UserError(f"'{path}' cannot be read: {error.strerror}.") from None
    rows = csv.reader(io.StringIO(text))
    try:
        header = [name.strip() for name in next(rows, [])]
        lines = [(rows.line_num, row) for row in rows if row]
    except csv.Error as error:
        raise UserError(f"'{path}', line {rows.line_num}: this is not CSV: {error}.") from None
    missing = [name for name in _COLUMNS if name not in header]
    if missing:
        raise UserError(f"'{path}' has no column '{missing[0]}'; its first line must name {_listed()}.")
    unknown = [name for name in header if name not in (*_COLUMNS, "offset")]
    if unknown:
        raise UserError(f"'{path}' has a column '{unknown[0]}', which is unknown; remove it.")
    results: dict[str, MemoryBlock] = {}
    for line, row in lines:
        block = _block(f"'{path}', line {line}", header, row)
        if block.name in results:
            raise UserError(f"'{path}', line {line}: the id '{block.name}' occurs twice; give each block its own.")
        results[block.name] = block
    if sum(block.bytes for block in results.values()) > _LARGEST:
        raise UserError(f"The blocks of '{path}' have more than 2^62 bytes together; leave some out.")
    return Packing(tuple(sorted(results.values(), key=lambda block: block.born)))


def write_packing(packing: Packing, offsets: Sequence[int] | None = None) -> str:
    """The blocks as CSV, with their offsets if given."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow((*_COLUMNS, *(["offset"] if offsets is not None else [])))
    for i, block in enumerate(packing.blocks):
        writer.writerow(
            (
                as_text_cell(block.name),
                block.born,
                block.dies,
                block.bytes,
                *([offsets[i]] if offsets is not None else []),
            )
        )
    return text.getvalue()


def _block(where: str, header: Sequence[str], row: Sequence[str]) -> MemoryBlock:
    if len(row) != len(header):
        raise UserError(f"{where} has {len(row)} columns, and the first line {len(header)}; write one value for each.")
    cells: Mapping[str, str] = dict(zip(header, (cell.strip() for cell in row), strict=True))
    numbers = {name: _number(where, name, cells[name]) for name in _COLUMNS[1:]}
    if numbers["upper"] <= numbers["lower"]:
        raise UserError(f"{where}: upper is not above lower; a block dies after it is born.")
    if numbers["upper"] > _LATEST:
        raise UserError(f"{where}: upper is above {_LATEST:,}; count steps, not time.")
    return MemoryBlock(from_text_cell(cells["id"]), numbers["size"], numbers["lower"], numbers["upper"])


def _number(where: str, name: str, text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 19:
        raise UserError(f"{where}: {name} must be a whole number from 0 to 2^62, not '{text[:40]}'.")
    return int(text)


def _listed() -> str:
    return ", ".join(_COLUMNS)
