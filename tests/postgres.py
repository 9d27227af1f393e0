"""A PostgreSQL server of the tests' own: started in a temporary folder, on a socket there, stopped in the end."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from tests.waiting import LIMIT_S

DEBIAN = Path("/usr/lib/postgresql")
USER, PASSWORD = "tester", "p@ss/word"


def find_binaries() -> Path | None:
    """The folder of initdb and pg_ctl: that on the PATH, else the newest of Debian's, else None."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).resolve().parent
    debian = sorted(DEBIAN.glob("*/bin/initdb"), key=lambda file: float(file.parts[-3]))
    return debian[-1].parent if debian else None


@contextlib.contextmanager
def running_postgres(binaries: Path) -> Iterator[str]:
    """The beginning and the end of its databases' URLs, "{}" for their name. It refuses root, so root lends it a user."""
    user = _other_user() if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory(prefix="workbench-postgres-") as name:
        folder, data = Path(name), Path(name) / "data"
        (folder / "password").write_text(PASSWORD)
        if user is not None:
            for place in (folder, folder / "password"):
                shutil.chown(place, user)

        def run(program: str, *words: str) -> None:
            command = [str(binaries / program), "-D", str(data), *words]
            with open(folder / "said", "w+") as said:
                done = subprocess.run(
                    command, user=user, cwd=folder, stdout=said, stderr=said, env=_environment(), timeout=LIMIT_S
                )
                said.seek(0)
                assert done.returncode == 0, said.read()

        run("initdb", "-U", USER, f"--pwfile={folder / 'password'}", "-A", "scram-sha-256", "-E", "UTF8", "--no-sync")
        run("pg_ctl", "-w", "-l", str(folder / "log"), "-o", f"-k {folder} -c listen_addresses= -c fsync=off", "start")
        try:
            yield f"postgresql://{USER}:{quote(PASSWORD, safe='')}@/{{}}?host={folder}"
        finally:
            run("pg_ctl", "-w", "-m", "immediate", "stop")


def _other_user() -> str:
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def _environment() -> dict[str, str]:
    """Without what would lead the server's programs to another server."""
    return {key: value for key, value in os.environ.items() if not key.startswith("PG")} | {"LC_ALL": "C.UTF-8"}
