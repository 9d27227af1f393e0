"""Uploaded models, kept by their hash in the user's cache, so that a link to one opens in any tab.

A session works on its own folder with links to the kept files, so that what it has open survives their removal.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workbench.errors import UserError
from workbench.support.files import cache_folder
from workbench.support.owned_folders import owned_folder

LIMIT_BYTES = 4_000_000_000  # of all kept uploads; the ones that were opened longest ago are removed first

_CERTAIN = (".onnx", ".pt2", ".onnxtxt")  # a second file of these is another model, not data of the first
_MODELS = (".onnx", ".pt2", ".txt", ".onnxtxt", ".gz", ".textproto", ".pbtxt")
_KEY = re.compile(r"[0-9a-f]{32}")
_DRAFTS = ".draft-"  # folders in which uploads are being stored


@dataclass(frozen=True)
class Upload:
    """Uploaded files.

    key:    of their names and contents, by which they are kept.
    folder: has the files for as long as something holds it.
    models: the paths of the models in it, one at least.
    """

    key: str
    folder: tempfile.TemporaryDirectory[str]
    models: tuple[Path, ...]


@dataclass(frozen=True)
class KeptUploads:
    """How many uploads are kept, and their bytes."""

    number: int
    bytes: int


def save_upload(files: Sequence[Any]) -> Upload:
    """Save the files in a new folder."""
    folder = tempfile.TemporaryDirectory(prefix="workbench-upload-")
    saved = []
    for file in files:
        saved.append(Path(folder.name) / Path(file.name).name)
        saved[-1].write_bytes(file.getbuffer())
    first = next((path for path in saved if path.suffix in _MODELS), saved[0])
    models = (first, *(path for path in saved if path.suffix in _CERTAIN and path != first))
    return Upload(_key_of(Path(folder.name)), folder, models)


def keep_upload(upload: Upload) -> str:
    """Keep the files in the cache; returns why they are not kept, as a sentence without a full stop, or ""."""
    source, kept = Path(upload.folder.name), _folder() / upload.key
    name, consequence = upload.models[0].name, "a link to it opens in this tab only"
    if _bytes_of(source) > LIMIT_BYTES:
        return f"'{name}' is larger than the {LIMIT_BYTES / 1e9:,.0f} GB that are kept; {consequence}"
    try:
        _folder().mkdir(parents=True, exist_ok=True)
        if not kept.is_dir():
            with owned_folder(_DRAFTS, _folder()) as draft:
                (draft / upload.key).mkdir()
                _link_files(source, draft / upload.key)
                os.rename(draft / upload.key, kept)
        os.utime(kept)
        _remove_oldest()
    except OSError as error:
        return f"'{name}' is not kept in {_folder()}: {error.strerror or error}; {consequence}"
    return ""


def kept_upload(key: str, name: str) -> Upload:
    """The kept upload of that key, whose model is the file `name`. Raises UserError if it is not kept."""
    kept = _folder() / key
    if not _KEY.fullmatch(key) or Path(name).name != name or not (kept / name).is_file():
        raise UserError(f"the link is to '{name}', an upload that is not kept here; upload the file")
    if _key_of(kept) != key:
        raise UserError(f"the link is to '{name}', an upload whose kept file was changed; upload the file")
    os.utime(kept)
    folder = tempfile.TemporaryDirectory(prefix="workbench-upload-")
    _link_files(kept, Path(folder.name))
    return Upload(key, folder, (Path(folder.name) / name,))


def kept_uploads() -> KeptUploads:
    sizes = [_bytes_of(folder) for folder in _kept_folders()]
    return KeptUploads(len(sizes), sum(sizes))


def forget_uploads() -> None:
    """Remove all kept uploads; models that are open stay open."""
    for folder in _kept_folders():
        shutil.rmtree(folder)


def path_from_here(path: str) -> str:
    """The path, relative to the working folder if it is inside."""
    absolute = Path(path).absolute()
    return str(absolute.relative_to(Path.cwd())) if absolute.is_relative_to(Path.cwd()) else path


def _folder() -> Path:
    return cache_folder() / "uploads"


def _remove_oldest() -> None:
    """Remove what is over the limit."""
    size = 0
    for folder in _kept_folders():  # the latest first
        size += _bytes_of(folder)
        if size > LIMIT_BYTES:
            shutil.rmtree(folder)


def _kept_folders() -> list[Path]:
    """The folders of kept uploads, those that were opened last first."""
    folders = [path for path in _folder().glob("*") if _KEY.fullmatch(path.name) and path.is_dir()]
    return sorted(folders, key=lambda folder: folder.stat().st_mtime_ns, reverse=True)


def _key_of(folder: Path) -> str:
    """The first half of the SHA-256 of the names, sizes and contents of the folder's files."""
    key = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        key.update(f"{path.name}\0{path.stat().st_size}\0".encode())
        with open(path, "rb") as file:
            while block := file.read(2**20):
                key.update(block)
    return key.hexdigest()[:32]


def _bytes_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def _link_files(source: Path, target: Path) -> None:
    """Hard links to the files of one folder in another one; copies if the folders are on two file systems."""
    for path in source.iterdir():
        try:
            os.link(path, target / path.name)
        except OSError:
            shutil.copyfile(path, target / path.name)
