"""The record of a matrix: its finished blocks, as lines of a file or as rows in the database of runs."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from workbench.interfaces.study.sweep.blocks import Block, MatrixError, block_from_json
from workbench.run.records.store import RecordsError, RunOrigin, keep, kept_measurements
from workbench.support.files import SPECIAL, is_special, replacing

IN_DATABASE = "database"  # given instead of a path


class Record(Protocol):
    """Where finished blocks are written, and from where an interrupted matrix is resumed."""

    def read(self, blocks: Collection[Block]) -> dict[str, Block]:
        """The finished ones among these blocks, by key."""

    def add(self, block: Block, origins: Mapping[str, RunOrigin]) -> Block:
        """Write a block and store its runs; returns the block, with a note if the runs could not be stored.

        A block with a failed variant is not written, so that it is measured again. Raises MatrixError.
        """


def record_at(target: Path | str | None) -> Record:
    """The record for a path or IN_DATABASE; for None, runs are stored and the matrix cannot be resumed."""
    return _InDatabase() if target == IN_DATABASE else _InFile(None if target is None else Path(target))


class _InFile:
    """A file of one JSON object per line."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def read(self, blocks: Collection[Block]) -> dict[str, Block]:
        result = _recorded(self._path)
        return {block.key: result[block.key] for block in blocks if block.key in result}

    def add(self, block: Block, origins: Mapping[str, RunOrigin]) -> Block:
        if self._path is not None and _is_complete(block):
            try:
                with open(self._path, "a", encoding="utf-8") as file:
                    file.write(json.dumps(block.to_json()) + "\n")
            except OSError as error:
                raise _not_written(self._path, error) from None
        return _stored(block, origins, None)


class _InDatabase:
    """The database of runs, where the runs of a block share the block's key as id of their measurement."""

    def read(self, blocks: Collection[Block]) -> dict[str, Block]:
        """Raises RecordsError."""
        result = kept_measurements([block.key for block in blocks])
        return {block.key: replace(block, measurement=result[block.key]) for block in blocks if block.key in result}

    def add(self, block: Block, origins: Mapping[str, RunOrigin]) -> Block:
        return _stored(block, origins, block.key if _is_complete(block) else None)


def _is_complete(block: Block) -> bool:
    return block.measurement is not None and not block.measurement.failures


def _stored(block: Block, origins: Mapping[str, RunOrigin], measurement: str | None) -> Block:
    """Store the block's runs; returns the block, with a note if that fails."""
    result = block.measurement
    if result is None:
        return block
    try:
        keep(result, origins, measurement=measurement)
    except RecordsError as error:
        notes = [*result.notes, f"This block is not kept among the runs: {error}."]
        return replace(block, measurement=replace(result, notes=notes))
    return block


# ---- the file ------------------------------------------------------------------------------------


def _recorded(record: Path | None) -> dict[str, Block]:
    """The blocks in the file. An incomplete last line is removed from it."""
    if record is None or not record.exists():
        return {}
    if is_special(record):
        raise MatrixError(f"'{record}' cannot be a record, for {SPECIAL}; name another file")
    try:
        lines = record.read_text(encoding="utf-8").splitlines(keepends=True)
    except (OSError, UnicodeDecodeError) as error:
        raise MatrixError(f"the record '{record}' cannot be read: {error}; name another file") from None
    complete = lines if not lines or _is_block(lines[-1]) or lines[-1].endswith("\n") else lines[:-1]
    invalid_line = next(
        (number for number, line in enumerate(complete, 1) if line.strip() and not _is_block(line)), None
    )
    if invalid_line is not None:
        raise MatrixError(f"'{record}' is not a record of a matrix: line {invalid_line}; name another file")
    try:
        if len(complete) < len(lines):
            os.truncate(record, len("".join(complete).encode()))
        elif complete and not complete[-1].endswith("\n"):
            with open(record, "a", encoding="utf-8") as file:
                file.write("\n")
    except OSError as error:
        raise _not_written(record, error) from None
    blocks = [block_from_json(json.loads(line)) for line in complete if line.strip()]
    return {block.key: block for block in blocks}


def forget_blocks(record: Path, blocks: Collection[Block]) -> None:
    """Remove these blocks from the record, so that they are measured again. Raises MatrixError."""
    keys = {block.key for block in blocks}
    remaining = [block for key, block in _recorded(record).items() if key not in keys]
    try:
        with replacing(record) as draft:
            draft.write_text("".join(f"{json.dumps(block.to_json())}\n" for block in remaining), encoding="utf-8")
    except OSError as error:
        raise _not_written(record, error) from None


def _is_block(line: str) -> bool:
    """Whether the line holds a block."""
    try:
        return isinstance(block_from_json(json.loads(line)).key, str)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError):
        return False


def _not_written(record: Path, error: OSError) -> MatrixError:
    return MatrixError(f"the record '{record}' cannot be written: {error.strerror or error}")
