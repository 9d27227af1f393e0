"""Export a torch program, from a factory or a `.pt2` file, as an ONNX file.

The content of a file is checked first (`program_data`) and read in a separate process (`program_process`).
"""

from __future__ import annotations

import importlib
import logging
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.formats.io.errors import LoadError
from workbench.formats.io.program_data import copy_plain_data

if TYPE_CHECKING:
    import torch

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_NO_OPERATOR = re.compile(r"No ONNX function found for <OpOverload\(op='([\w.]+)', overload='(\w+)'\)>")
_AT_OPERATOR = re.compile(r"Error when translating node .*call_function\[target=([\w.]+)\]")
_LONGEST_REASON = 200  # characters


def call_factory(factory: str) -> torch.export.ExportedProgram:
    """The program that `package.module:factory` makes, exported for inference. Raises LoadError."""
    import torch

    module_name, _, function_name = factory.partition(":")
    if not module_name or not function_name:
        raise LoadError("write the factory as package.module:function")
    try:
        function = getattr(importlib.import_module(module_name), function_name)
    except ImportError as error:
        raise LoadError(f"module '{module_name}' cannot be imported ({error}); run this in its folder") from None
    except AttributeError:
        raise LoadError(f"module '{module_name}' has no '{function_name}'") from None
    returned = _guarded("the factory failed", function)
    if isinstance(returned, torch.export.ExportedProgram):
        return returned
    if not (isinstance(returned, tuple) and 2 <= len(returned) <= 4 and isinstance(returned[0], torch.nn.Module)):
        raise LoadError(
            "the factory must return (module, args), (module, args, kwargs), (module, args, kwargs, dynamic_shapes) "
            "or a torch.export.ExportedProgram"
        )
    module, args = returned[:2]
    kwargs, shapes = (*returned[2:], None, None)[:2]
    return _guarded(
        "torch.export failed", lambda: torch.export.export(module.eval(), tuple(args), kwargs, dynamic_shapes=shapes)
    )


def open_program(path: Path, scratch: Path) -> torch.export.ExportedProgram:
    """The program in a `.pt2` file; nothing in the file is unpickled or run. Raises LoadError."""
    import torch

    copy = scratch / "program.pt2"
    copy_plain_data(path, copy)
    with _quiet():
        return _guarded("torch cannot read the program", lambda: torch.export.load(copy))


def to_onnx(program: torch.export.ExportedProgram, scratch: Path) -> Path:
    """The program as an ONNX file in `scratch`. Raises LoadError."""
    import torch

    path = scratch / "model.onnx"
    with _quiet():
        _guarded(
            "torch.onnx cannot export the program",
            lambda: torch.onnx.export(program, (), path, dynamo=True, verbose=False, external_data=True),
        )
    return path


def _guarded(what: str, work: Callable[[], Any]) -> Any:
    """The result of foreign code; any exception becomes one line."""
    try:
        return work()
    except Exception as error:
        raise LoadError(f"{what}: {_reason(error)}") from error


def _reason(error: BaseException) -> str:
    """The message of the innermost cause of an exception, with the operator at which it occurred."""
    chain = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) is not None and cause not in chain:
        chain.append(cause)
    texts = [_COLOURS.sub("", str(cause)) for cause in chain]
    missing = next((match for text in texts if (match := _NO_OPERATOR.search(text))), None)
    if missing is not None:
        return f"ONNX has no equivalent of the operator {missing[1]}.{missing[2]}; write the program without it"
    place = next((match for text in texts if (match := _AT_OPERATOR.search(text))), None)
    where = f"at the operator {place[1].removeprefix('torch.ops.')}: " if place is not None else ""
    lines = [line.strip() for line in texts[-1].splitlines() if line.strip()]
    return f"{where}{type(chain[-1]).__name__}: {lines[0][:_LONGEST_REASON] if lines else 'no reason given'}"


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress torch's notes to its own developers."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "torch.export", "torch._export", "onnxscript")]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
