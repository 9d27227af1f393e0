"""Finished blocks of a matrix, from which it is resumed: lines of a file, or rows in the database of kept runs."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from workbench.run.records.store import RecordsError, RunOrigin, keep, kept_measurements
from workbench.study.sweep.blocks import Block, MatrixError, block_from_json
from workbench.support.files import SPECIAL, is_special, replacing

IN_DATABASE = "database"  # in place of a file's name


class Record(Protocol):
    """Where finished blocks are written at once."""

    def read(self, blocks: Collection[Block]) -> dict[str, Block]:
        """By key, those of the blocks that are finished."""

    def add(self, block: Block, origins: Mapping[str, RunOrigin]) -> Block:
        """Write a block and keep its runs; returns it, with a note if they could not be kept.

        One of which a part failed is not written, so that it is tried again. Raises MatrixError.
        """


def record_at(place: Path | str | None) -> Record:
    """place: a file, IN_DATABASE, or None: runs are kept, and nothing can be resumed."""
    return _InDatabase() if place == IN_DATABASE else _InFile(None if place is None else Path(place))


class _InFile:
    """One JSON object per line."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def read(self, blocks: Collection[Block]) -> dict[str, Block]:
        result = _recorded(self._path)
        return {block.key: result[block.key] for block in blocks if block.key in result}

    def add(self, block: Block, origins: Mapping[str, RunOrigin]) -> Block:
        if self._path is not None and _is_whole(block):
            try:
                with open(self._path, "a", encoding="utf-8") as file:
                    file.write(json.dumps(block.to_json()) + "\n")
            except OSError as error:
                raise _not_written(self._path, error) from None
        return _kept(block, origins, None)


class _InDatabase:
    """The kept runs themselves: a block's key is the id that its variants share."""

    def read(self, blocks: Collection[Block]) -> dict[str, Block]:
        """Raises RecordsError."""
        result = kept_measurements([block.key for block in blocks])
        return {block.key: replace(block, found=result[block.key]) for block in blocks if block.key in result}

    def add(self, block: Block, origins: Mapping[str, RunOrigin]) -> Block:
        return _kept(block, origins, block.key if _is_whole(block) else None)


def _is_whole(block: Block) -> bool:
    return block.found is not None and not block.found.failures


def _kept(block: Block, origins: Mapping[str, RunOrigin], measurement: str | None) -> Block:
    """Keep the block's measurements among the runs, and return the block; if that fails, its notes say so."""
    result = block.found
    if result is None:
        return block
    try:
        keep(result, origins, measurement=measurement)
    except RecordsError as error:
        notes = [*result.notes, f"This block is not kept among the runs: {error}."]
        return replace(block, found=replace(result, notes=notes))
    return block


# ---- the file ------------------------------------------------------------------------------------


def _recorded(record: Path | None) -> dict[str, Block]:
    """The blocks in the file. An incomplete last line is removed from it."""
    if record is None or not record.exists():
        return {}
    if is_special(record):
        raise MatrixError(f"'{record}' cannot be a record, for {SPECIAL}; name another")
    try:
        lines = record.read_text(encoding="utf-8").splitlines(keepends=True)
    except (OSError, UnicodeDecodeError) as error:
        raise MatrixError(f"the record '{record}' cannot be read: {error}; name another file") from None
    whole = lines if not lines or _is_block(lines[-1]) or lines[-1].endswith("\n") else lines[:-1]
    wrong = next((number for number, line in enumerate(whole, 1) if line.strip() and not _is_block(line)), None)
    if wrong is not None:
        raise MatrixError(f"'{record}' is no record of a matrix: line {wrong}; name another file")
    try:
        if len(whole) < len(lines):
            os.truncate(record, len("".join(whole).encode()))
        elif whole and not whole[-1].endswith("\n"):
            with open(record, "a", encoding="utf-8") as file:
                file.write("\n")
    except OSError as error:
        raise _not_written(record, error) from None
    blocks = [block_from_json(json.loads(line)) for line in whole if line.strip()]
    return {block.key: block for block in blocks}


def forget_blocks(record: Path, blocks: Collection[Block]) -> None:
    """Remove these blocks from the record, so that they are measured again. Raises MatrixError."""
    keys = {block.key for block in blocks}
    kept = [block for key, block in _recorded(record).items() if key not in keys]
    try:
        with replacing(record) as draft:
            draft.write_text("".join(f"{json.dumps(block.to_json())}\n" for block in kept), encoding="utf-8")
    except OSError as error:
        raise _not_written(record, error) from None


def _is_block(line: str) -> bool:
    """Whether this is a block as it is written here."""
    try:
        return isinstance(block_from_json(json.loads(line)).key, str)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError):
        return False


def _not_written(record: Path, error: OSError) -> MatrixError:
    return MatrixError(f"the record '{record}' cannot be written: {error.strerror or error}")
