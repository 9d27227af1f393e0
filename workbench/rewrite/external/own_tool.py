"""The user's own optimizers as passes: a command in a TOML file, or a function in a Python file.

Each file in $WORKBENCH_TOOLS, or in graph-workbench/tools of the user's settings, is a pass of its name, such as
`shrink.toml` with

    title = "Shrink"
    command = "shrink --level 3 {input} {output}"

or `halve.py` with a function `optimize(model: onnx.ModelProto) -> onnx.ModelProto`, whose module's docstring says what
it does. Both run in a separate process; listing the tools does not import their files.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import shlex
import subprocess
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar

from workbench.errors import UserError, one_sentence, reading
from workbench.rewrite.external.files import read_whole, write_whole
from workbench.rewrite.external.tool_pass import ToolPass
from workbench.support.child_process import last_line
from workbench.support.files import settings_folder

TOOLS_VARIABLE = "WORKBENCH_TOOLS"
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_KEYS = ("title", "command", "about")
_PLACEHOLDERS = ("{input}", "{output}")


class OwnToolError(UserError):
    """The file of a tool is not valid, or its command failed."""


@dataclass(frozen=True)
class OwnTool(ToolPass):
    """Base of the passes that `own_tools` makes. file: the path of the tool's file."""

    about: ClassVar[str] = ""

    file: str = ""

    @property
    def name(self) -> str:
        return Path(self.file).stem

    @classmethod
    def summary(cls) -> str:
        return cls.about

    def convert(self, source: Path, target: Path) -> None:
        file = Path(self.file)
        if file.suffix == ".toml":
            _run_command(_description(file)["command"], source, target)
        else:
            write_whole(_function(file)(read_whole(source)), target)


def own_tools(taken: Collection[str] = ()) -> Mapping[str, type[OwnTool] | str]:
    """The user's tools by name; for a file that is not a tool, the sentence that says why.

    taken: names that other passes have.
    """
    folder = settings_folder("tools", TOOLS_VARIABLE)
    files = sorted(file for kind in ("*.toml", "*.py") for file in folder.glob(kind)) if folder.is_dir() else []
    results: dict[str, type[OwnTool] | str] = {}
    for file in files:
        name = file.stem if file.stem not in (*taken, *results) else file.name
        try:
            if file.stem in (*taken, *results):
                raise OwnToolError(f"there is another pass '{file.stem}'; rename the file")
            with reading("the file", OwnToolError, "correct or remove it"):
                results[name] = _pass_of(file, file.stat().st_mtime_ns)
        except (OwnToolError, OSError) as error:
            results[name] = one_sentence(f"{file}: {error}")
    return results


@cache
def _pass_of(file: Path, changed_ns: int) -> type[OwnTool]:
    """The pass of a file, cached by its time of change: every run of a page asks for all passes."""
    if not _NAME.fullmatch(file.stem):
        raise OwnToolError("the file's name must be small letters, digits and _; rename it")
    description = _description(file)
    fields = {
        "__annotations__": {"file": str},
        "__module__": OwnTool.__module__,
        "__doc__": description["about"],
        "file": str(file),
        "title": description["title"],
        "about": description["about"],
    }
    return dataclass(frozen=True)(type(OwnTool.__name__, (OwnTool,), fields))


def _description(file: Path) -> Mapping[str, str]:
    """Title, command (of a TOML file) and a sentence about the tool. Raises OwnToolError."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".py":
        return _description_in_python(file, text)
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise OwnToolError(f"it is not TOML: {error}") from None
    unknown = [key for key in table if key not in _KEYS]
    if unknown:
        raise OwnToolError(f"'{unknown[0]}' is not one of {', '.join(_KEYS)}; remove it")
    if not all(isinstance(value, str) for value in table.values()):
        raise OwnToolError("its values must be text; put them in quotes")
    command = table.get("command", "")
    if not all(placeholder in command for placeholder in _PLACEHOLDERS):
        raise OwnToolError("its command must have {input} and {output}, which stand for the two files' names")
    about = table.get("about", f"Runs `{command}`.")
    return {"title": table.get("title", file.stem), "command": command, "about": about}


def _description_in_python(file: Path, text: str) -> Mapping[str, str]:
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise OwnToolError(f"line {error.lineno} is not Python: {error.msg}") from None
    if not any(isinstance(part, ast.FunctionDef) and part.name == "optimize" for part in tree.body):
        raise OwnToolError("it has no function `optimize(model)`; write one that returns the optimized model")
    about = (ast.get_docstring(tree) or f"The function `optimize` of {file.name}.").partition("\n\n")[0]
    return {"title": file.stem, "about": about}


def _run_command(command: str, source: Path, target: Path) -> None:
    """Raises OwnToolError for an exit code other than 0."""
    arguments = [w.replace("{input}", str(source)).replace("{output}", str(target)) for w in shlex.split(command)]
    try:
        done = subprocess.run(
            arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
        )
    except OSError as error:
        raise OwnToolError(f"'{arguments[0]}' cannot be started: {error.strerror or error}") from None
    if done.returncode != 0:
        line = last_line(done.stdout.decode(errors="replace"))[:200]
        last = f"; its last line was: {line}" if line else ""
        raise OwnToolError(f"the command ended with code {done.returncode}{last}")


def _function(file: Path):  # type: ignore[no-untyped-def]  # a user's function from ModelProto to ModelProto
    spec = importlib.util.spec_from_file_location(f"own_tool_{file.stem}", file)
    assert spec is not None and spec.loader is not None  # it ends in .py
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.optimize
