"""A pass that is being written: its draft, its tests in a process of their own, and what it does to the open model."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import streamlit as st

from workbench.backends.failures import shortened
from workbench.errors import UserError, counted, one_sentence
from workbench.evidence.verification.pass_files.checks import PassCheck
from workbench.evidence.verification.pass_files.pass_template import check_pass_name, write_new_pass
from workbench.interfaces.ui.server.origin_guard import listens_beyond_this_machine
from workbench.interfaces.ui.state.model_inputs import saved_inputs
from workbench.interfaces.ui.state.session import Opened, file_of_model
from workbench.interfaces.ui.state.work import Report
from workbench.ir import Graph
from workbench.pipeline.registry.pass_registry import library
from workbench.planning.layout.declared import declared_layouts
from workbench.rewrite.core.own_passes import own_passes_folder
from workbench.support.child_process import (
    CLOSING_S,
    OutputTail,
    json_lines,
    module_command,
    package_environment,
    process_group,
    signal_name,
)
from workbench.support.files import write_text

DraftAnswer = Mapping[str, Any]
WORKSHOP_VARIABLE = "WORKBENCH_WORKSHOP"  # environment variable
RUN_CODE_OF_ANYONE = "run-code-of-anyone"  # its value: whoever reaches the app may run code on this machine
_FOLDER, _OFFERED = "workshop_folder", "workshop_offered"
_LIMIT_S = 300.0  # seconds for the tests of a file, and for the open model
_EXAMPLES_LIMIT_S = 30.0  # seconds for a file and its examples
_POLL_S = 0.1
_LAST_LINE = 200  # characters of what a process printed last that are shown
_DRAFT = "workbench.interfaces.ui.state.draft_process"  # modules that are run
_CHECKS = "workbench.evidence.verification.pass_files"
_END = {"done": True}  # their last answer


def why_no_workshop() -> str:
    """Why passes cannot be written in this app, and what allows it; "" if they can."""
    if not listens_beyond_this_machine() or os.environ.get(WORKSHOP_VARIABLE) == RUN_CODE_OF_ANYONE:
        return ""
    return (
        "Passes cannot be written here, since a pass is code that runs on this machine and other machines reach the "
        "app. Start it with --server.address localhost, or set "
        f"{WORKSHOP_VARIABLE}={RUN_CODE_OF_ANYONE} to let whoever reaches it run code as you."
    )


def offer_file(name: str, content: bytes) -> None:
    """Have the page Workshop show a file that was dropped elsewhere."""
    st.session_state[_OFFERED] = name, content


def offered_file() -> tuple[str, bytes] | None:
    """The file that was dropped since the last call; None if none was."""
    result: tuple[str, bytes] | None = st.session_state.pop(_OFFERED, None)
    return result


@dataclass(frozen=True)
class DrawnExample:
    """An example as the draft carries it out: its graphs as text. fault: why it was not, or ""."""

    subject: str
    before: str = ""
    after: str = ""
    sentences: tuple[str, ...] = ()
    fault: str = ""


@dataclass(frozen=True)
class PassDraft:
    """A pass that is being written, as a process of its own ran it; nothing of it runs in the app's process.

    key:   its name and its text.
    fault: why the file holds no pass, or how its process was ended, or "".
    ran:   whether the file ran to its end or to an error; the app runs only such a file when it is saved.
    """

    key: tuple[str, str]
    file: Path
    explained: str = ""
    examples: tuple[DrawnExample, ...] = ()
    fault: str = ""
    ran: bool = True


def draft_file(name: str, text: str) -> Path:
    """The file of that text, in a folder of this session. Raises UserError for a name that no pass can have."""
    folder = st.session_state.setdefault(_FOLDER, tempfile.TemporaryDirectory(prefix="workbench-workshop-"))
    check_pass_name(name, ())
    file = Path(folder.name) / f"{name}.py"
    if not file.exists() or file.read_text(encoding="utf-8") != text:
        write_text(file, text)
    return file


def run_draft(key: tuple[str, str], file: Path, report: Report) -> PassDraft:
    """Run the file and carry out its examples. How that fails is the draft's fault."""
    answers: list[DraftAnswer] = []
    try:
        _run(
            _DRAFT, ("describe", str(file)), answers, DraftTask("the pass and its examples", _EXAMPLES_LIMIT_S), report
        )
        fault = next((answer["error"] for answer in answers if "error" in answer), "")
    except UserError as error:
        fault = str(error)
    examples = tuple(
        DrawnExample(**{**answer, "sentences": tuple(answer.get("sentences", ()))})
        for answer in answers
        if "subject" in answer
    )
    explained = next((answer["explained"] for answer in answers if "explained" in answer), "")
    inside = f"{file.parent}{os.sep}"
    examples = tuple(replace(example, fault=example.fault.replace(inside, "")) for example in examples)
    return PassDraft(key, file, explained, examples, fault.replace(inside, ""), ran=bool(answers))


# ---- files -------------------------------------------------------------------------------


def own_files() -> list[str]:
    """The names of the user's files of passes."""
    return sorted(file.stem for file in own_passes_folder().glob("*.py") if not file.name.startswith("_"))


def text_of_own(name: str) -> str | None:
    """The text of one of the user's files; None if it is gone or is not text."""
    try:
        return (own_passes_folder() / f"{name}.py").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def save_own(name: str, text: str, opened_file: str) -> Path:
    """Write the text among the user's passes. opened_file: the name of the file that it may replace.

    Raises UserError for a name that is taken.
    """
    taken = {*library.all_names(), *library.presets(), *library.RESERVED} - {*own_files()}
    check_pass_name(name, taken)
    file = own_passes_folder() / f"{name}.py"
    if name != opened_file:
        return write_new_pass(name, text, own_passes_folder())
    write_text(file, text)
    return file


# ---- tests -------------------------------------------------------------------------------


def run_checks(file: Path, report: Report) -> Sequence[PassCheck]:
    """The checks of a pass's file, in a process of their own. Raises UserError if that ends early or takes too long."""
    rows: list[DraftAnswer] = []

    def report_checks(message: str, share: float | None) -> None:
        report(f"{counted(len(rows), 'check')} done", share)

    _run(_CHECKS, (str(file),), rows, DraftTask("the tests", _LIMIT_S), report_checks)
    return [PassCheck(row["subject"], row["ok"], row["sentence"], tuple(row["details"])) for row in rows]


# ---- the open model ----------------------------------------------------------------------


@dataclass(frozen=True)
class Tried:
    """What a pass did to a model. key: of the draft. graph: on which it ran. mode: in which.

    nodes: before and after. refusals: the number of nodes, the reason, the first node. ok, verdict: of the comparison.
    """

    key: tuple[str, str]
    graph: Graph
    mode: str
    considered: str
    refusals: Sequence[tuple[int, str, str]]
    nodes: tuple[int, int]
    sentences: Sequence[str]
    ok: bool | None
    verdict: str


def try_pass(opened: Opened, draft: PassDraft, report: Report) -> Tried:
    """Run the pass on the model as it was opened, in a process of its own, and compare the result. Raises UserError."""
    answers: list[DraftAnswer] = []

    def report_progress(message: str, share: float | None) -> None:
        last = next((answer["progress"] for answer in reversed(answers) if "progress" in answer), (message, share))
        report(*last)

    with tempfile.TemporaryDirectory(prefix="workbench-try-") as folder:
        inputs, dims = saved_inputs(opened, Path(folder))
        request = {
            "model": str(file_of_model(opened)),
            "dims": dims,
            "layouts": declared_layouts(opened.graph),
            "inputs": inputs,
            "seed": opened.seed,
            "given": opened.user_dim_names,
        }
        arguments = ("try", str(draft.file), json.dumps(request))
        _run(_DRAFT, arguments, answers, DraftTask("the pass on the open model", _LIMIT_S), report_progress)
    last = answers[-1]
    if "error" in last:
        raise UserError(last["error"].replace(f"{draft.file.parent}{os.sep}", ""))
    return Tried(draft.key, opened.graph, **last)


# ---- processes -----------------------------------------------------------------------------


@dataclass(frozen=True)
class DraftTask:
    """What a process does, in words, and how many seconds it may take."""

    name: str
    limit_s: float


def _run(module: str, arguments: Sequence[str], answers: list[DraftAnswer], task: DraftTask, report: Report) -> None:
    """Run a module in a process of its own; appends its lines of JSON to `answers` as they come.

    report: is called while it runs, and may raise to stop it.
    Raises UserError if the process dies or takes too long. All processes that it started are ended too.
    """
    deadline = time.monotonic() + task.limit_s
    with process_group(
        module_command(module, *arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=package_environment()
    ) as process:
        assert process.stdout is not None and process.stderr is not None  # they are pipes
        printed = OutputTail(process.stderr)
        reader = threading.Thread(target=answers.extend, args=(json_lines(process.stdout),), daemon=True)
        reader.start()
        while process.poll() is None:
            report("in a process of its own", None)
            if time.monotonic() > deadline:
                raise UserError(f"{task.name} took more than {task.limit_s:g} s; look for a loop that does not end")
            time.sleep(_POLL_S)
    reader.join(CLOSING_S)
    if not answers or answers.pop() != _END:
        last = shortened(printed.last_line(), _LAST_LINE)
        ending = f"{_ending(process.returncode)}; its last line was: {last}" if last else _ending(process.returncode)
        raise UserError(one_sentence(f"{task.name} {ending}"))


def _ending(code: int) -> str:
    if name := signal_name(code):
        return f"crashed with {name}; look at what it calls"
    return f"ended the process with code {code}; take out what ends it"
