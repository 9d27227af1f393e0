"""Files as downloads."""

from __future__ import annotations

import io
import shutil
import zipfile
from collections.abc import Sequence
from pathlib import Path

from workbench.support.archives import zip_entry


def as_download(files: Sequence[Path]) -> bytes:
    """The bytes of the file; of several, such as a model with external data, those of an archive."""
    if len(files) == 1:
        return files[0].read_bytes()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for file in files:
            with file.open("rb") as content, archive.open(zip_entry(file.name), "w", force_zip64=True) as entry:
                shutil.copyfileobj(content, entry)
    return buffer.getvalue()
