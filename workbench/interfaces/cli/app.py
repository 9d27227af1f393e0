"""The command `app`: the workbench in the browser."""

from __future__ import annotations

import argparse
import importlib.util
import runpy
import sys
from pathlib import Path

from workbench.errors import UserError
from workbench.interfaces.cli.exit_codes import DONE
from workbench.support.extras import adding

HELP = "open the workbench in the browser"
EXAMPLES = (
    "",
    "model.onnx",
)
DETAILS = """
The app listens on this machine alone and answers its own page only. The name of a command is an address: /bench leads
to the page Measure.

- WORKBENCH_MEASURE=asked: a result is measured only when that is asked for. Otherwise a model of up to 20 GFLOP is
measured by itself for some seconds, unless other machines reach the app.
- WORKBENCH_FOLDERS=/data/models:/srv/onnx: files there open by path for whoever reaches the app from elsewhere.
- WORKBENCH_WORKSHOP=run-code-of-anyone: the Workshop stays open where other machines reach the app. Whoever does can
then run code on this machine.
"""
_PACKAGE = Path(__file__).resolve().parents[2]


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("model", nargs="?", help="an ONNX or torch model to open; default: a sample")
    command.add_argument("--port", type=int, default=8501, metavar="N", help="the port to listen on (default: 8501)")
    command.add_argument("--headless", action="store_true", help="do not open a browser")


def run(chosen: argparse.Namespace) -> int:
    """Serve until the process is stopped. Raises UserError if Streamlit is not installed, or without such a model."""
    if importlib.util.find_spec("streamlit") is None:
        raise UserError(f"the app needs Streamlit, which is not installed; {adding('app')} adds it")
    if chosen.model is not None and not Path(chosen.model).is_file():
        raise UserError(f"there is no file '{chosen.model}' to open; name an ONNX or torch model")
    installed = _PACKAGE / "app.py"
    script = installed if installed.is_file() else _PACKAGE.parent / "app.py"
    options = ["--server.port", str(chosen.port), "--server.headless", str(chosen.headless).lower()]
    model = [] if chosen.model is None else ["--", str(Path(chosen.model).resolve())]
    sys.argv = ["streamlit", "run", str(script), *options, *model]
    runpy.run_module("streamlit", run_name="__main__")  # ends by SystemExit
    return DONE
