"""Files of models on their way to another machine: known by the SHA-256 of their bytes, sent in pieces.

A file that lies on the other machine at the same path with the same bytes, as on a shared disk, is not sent.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from workbench.errors import UserError
from workbench.io.model_files import files_of
from workbench.run.records.store import RecordsError, file_hash

PIECE = 64 * 2**20  # bytes in one object of the store
MOST_BYTES = 8 * 10**9  # bytes of one model's files that are sent


@dataclass(frozen=True)
class SentFile:
    """name: relative to the folder of the model; path: on the machine that sends it."""

    name: str
    path: str
    size: int
    sha256: str


Manifest = tuple[SentFile, ...]  # the file that a job names is the first


def manifest_of(path: str) -> Manifest:
    """Raises UserError for a file that cannot be read."""
    file = Path(path).resolve()
    every = _files(file, file.stat().st_mtime_ns if file.is_file() else 0)
    try:
        return tuple(
            SentFile(str(one.relative_to(file.parent)), str(one), one.stat().st_size, file_hash(str(one)))
            for one in every
        )
    except OSError as error:
        raise UserError(f"'{error.filename}' cannot be read: {error.strerror or error}; put it back") from None


@lru_cache(maxsize=4096)
def _files(file: Path, changed_ns: int) -> list[Path]:
    return [file] if file.suffix == ".npz" else files_of(file)


def digest_of(manifest: Manifest) -> str:
    """Of the names and bytes of all files."""
    sentences = [(one.name, one.sha256) for one in manifest]
    return hashlib.sha256(json.dumps(sentences).encode()).hexdigest()


def check_size(manifest: Manifest) -> None:
    """Raise UserError for more than MOST_BYTES bytes."""
    size = sum(one.size for one in manifest)
    if size > MOST_BYTES:
        raise UserError(
            f"'{manifest[0].path}' has {size / 1e9:.1f} GB with its weights, and at most {MOST_BYTES / 1e9:.0f} GB are "
            "sent to another machine; put it at the same path on each, where it is found"
        )


def pieces_of(file: SentFile) -> Iterator[bytes]:
    """At most PIECE bytes each. Raises OSError."""
    with open(file.path, "rb") as opened:
        while piece := opened.read(PIECE):
            yield piece


def lies_here(manifest: Manifest) -> bool:
    """Whether all files lie on this machine at the same paths, with the same bytes."""
    return all(_is_same(one) for one in manifest)


def _is_same(one: SentFile) -> bool:
    path = Path(one.path)
    try:
        return path.is_file() and path.stat().st_size == one.size and file_hash(one.path) == one.sha256
    except (RecordsError, OSError):  # it may not be read here
        return False


class ReceivedFiles:
    """The files that were sent to this machine: a folder for each model, those of the last job only."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path_of(self, manifest: Manifest) -> Path | None:
        """Where the first file lies, with the others beside it; None if they must be sent."""
        if lies_here(manifest):
            return Path(manifest[0].path)
        place = self._place(manifest)
        return place / manifest[0].name if place.is_dir() else None

    def keep_only(self, manifests: Collection[Manifest]) -> None:
        """Remove the others."""
        wanted = {digest_of(manifest) for manifest in manifests}
        for place in self._folder.glob("*"):
            if place.name not in wanted:
                shutil.rmtree(place, ignore_errors=True)

    def receive(self, manifest: Manifest, pieces: Mapping[str, Callable[[], Iterable[bytes]]]) -> None:
        """Write the files. pieces: by SHA-256. Raises UserError if the bytes are others than those that were hashed."""
        draft = self._folder / f"{digest_of(manifest)}.draft"
        for one in manifest:
            target, digest = draft / one.name, hashlib.sha256()
            target.parent.mkdir(parents=True, exist_ok=True)
            with open(target, "wb") as file:
                for piece in pieces[one.sha256]():
                    digest.update(piece)
                    file.write(piece)
            if digest.hexdigest() != one.sha256:
                raise UserError(f"'{one.path}' was changed while it was sent; start again")
        draft.rename(self._place(manifest))

    def _place(self, manifest: Manifest) -> Path:
        return self._folder / digest_of(manifest)
