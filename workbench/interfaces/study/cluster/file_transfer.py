"""Sending a model's files to another machine: they are identified by SHA-256 and sent in pieces.

A file that the other machine has at the same path with the same bytes, as on a shared disk, is not sent.
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
from workbench.formats.io.model_files import files_of
from workbench.run.records.store import RecordsError, file_hash

PIECE = 64 * 2**20  # bytes in one object of the store
MAX_BYTES = 8 * 10**9  # the most bytes of all files of one model that is sent


@dataclass(frozen=True)
class SentFile:
    """A file of a model. name: relative to the model's folder. path: on the driver. size: in bytes."""

    name: str
    path: str
    size: int
    sha256: str


Manifest = tuple[SentFile, ...]  # the model file first, then its weights


def manifest_of(path: str) -> Manifest:
    """The manifest of a model file, or of a file of inputs. Raises UserError if a file cannot be read."""
    main = Path(path).resolve()
    files = _files(main, main.stat().st_mtime_ns if main.is_file() else 0)
    try:
        return tuple(
            SentFile(str(file.relative_to(main.parent)), str(file), file.stat().st_size, file_hash(str(file)))
            for file in files
        )
    except OSError as error:
        raise UserError(f"'{error.filename}' cannot be read: {error.strerror or error}; put it back") from None


@lru_cache(maxsize=4096)
def _files(file: Path, changed_ns: int) -> list[Path]:
    return [file] if file.suffix == ".npz" else files_of(file)


def digest_of(manifest: Manifest) -> str:
    """SHA-256, in hexadecimal, of the names and hashes of all files."""
    content = [(file.name, file.sha256) for file in manifest]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def check_size(manifest: Manifest) -> None:
    """Raise UserError for more than MAX_BYTES bytes."""
    size = sum(file.size for file in manifest)
    if size > MAX_BYTES:
        raise UserError(
            f"'{manifest[0].path}' has {size / 1e9:.1f} GB with its weights, and at most {MAX_BYTES / 1e9:.0f} GB are "
            "sent to another machine; copy it to the same path on each machine"
        )


def pieces_of(file: SentFile) -> Iterator[bytes]:
    """The bytes of the file in pieces of at most PIECE bytes. Raises OSError."""
    with open(file.path, "rb") as opened:
        while piece := opened.read(PIECE):
            yield piece


def is_on_this_machine(manifest: Manifest) -> bool:
    """Whether this machine has all files at the same paths, with the same bytes."""
    return all(_is_same(file) for file in manifest)


def _is_same(file: SentFile) -> bool:
    path = Path(file.path)
    try:
        return path.is_file() and path.stat().st_size == file.size and file_hash(file.path) == file.sha256
    except (RecordsError, OSError):  # this user may not read it
        return False


class ReceivedFiles:
    """The files that were sent to this machine for the present job, in one folder per model."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path_of(self, manifest: Manifest) -> Path | None:
        """The local path of the first file, which has the others beside it; None if they must be sent."""
        if is_on_this_machine(manifest):
            return Path(manifest[0].path)
        folder = self._folder_of(manifest)
        return folder / manifest[0].name if folder.is_dir() else None

    def keep_only(self, manifests: Collection[Manifest]) -> None:
        """Remove all files except those of these manifests."""
        digests = {digest_of(manifest) for manifest in manifests}
        for folder in self._folder.glob("*"):
            if folder.name not in digests:
                shutil.rmtree(folder, ignore_errors=True)

    def receive(self, manifest: Manifest, pieces: Mapping[str, Callable[[], Iterable[bytes]]]) -> None:
        """Write the files. pieces: of each file, by SHA-256. Raises UserError if a file has another hash."""
        draft = self._folder / f"{digest_of(manifest)}.draft"
        for file in manifest:
            target, digest = draft / file.name, hashlib.sha256()
            target.parent.mkdir(parents=True, exist_ok=True)
            with open(target, "wb") as written:
                for piece in pieces[file.sha256]():
                    digest.update(piece)
                    written.write(piece)
            if digest.hexdigest() != file.sha256:
                raise UserError(f"'{file.path}' was changed while it was sent; start again")
        draft.rename(self._folder_of(manifest))

    def _folder_of(self, manifest: Manifest) -> Path:
        return self._folder / digest_of(manifest)
