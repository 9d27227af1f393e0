"""The page Export: the optimized file, its size and digest, the checks that it passed, and the equivalent command.

A result that failed verification is not offered, and the command line does not write it either. After confirmation it
can be written as .FAILED.onnx.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import streamlit as st

from workbench.errors import UserError
from workbench.evidence.verification.steps import verify_end
from workbench.formats.io.kinds import TORCH, kind_of
from workbench.formats.opsets.written import AS_NEEDED, FileForm
from workbench.interfaces.api import certificate, export
from workbench.interfaces.ui.screens.export_package import chosen_device, package_part
from workbench.interfaces.ui.state.checking import OFF
from workbench.interfaces.ui.state.commands import command_of, package_command_of, package_python_of, python_of
from workbench.interfaces.ui.state.export_variants import (
    THIS_RESULT,
    ExportVariant,
    export_variants,
    history_of_variant,
)
from workbench.interfaces.ui.state.markdown import markdown_escaped
from workbench.interfaces.ui.state.session import Opened, Spec, file_of_model, stop_checking, worker
from workbench.interfaces.ui.state.work import Report, forget_cancel, was_cancelled
from workbench.interfaces.ui.widgets.controls import chosen_verification
from workbench.interfaces.ui.widgets.downloads import as_download
from workbench.interfaces.ui.widgets.export_table import export_table
from workbench.interfaces.ui.widgets.file_form import chosen_form, history_in_form
from workbench.interfaces.ui.widgets.gain_card import gain_card
from workbench.interfaces.ui.widgets.linked_pipeline import optimized_here
from workbench.interfaces.ui.widgets.parts import header, show_error
from workbench.interfaces.ui.widgets.pass_list import switch_on
from workbench.interfaces.ui.widgets.progress import run_with_progress
from workbench.interfaces.ui.widgets.reports import report_button
from workbench.interfaces.ui.widgets.units import in_units
from workbench.pipeline.command_text import command_text
from workbench.pipeline.pipeline import Pipeline
from workbench.pipeline.registry.opset_choice import opset_increase_reason
from workbench.pipeline.registry.pass_choice import FIX
from workbench.presentation.explanations.reporting import history_report
from workbench.rewrite import History

_PACKAGE = "Compiled torch package (.pt2)"
_CERTIFICATE = "certificate.json"
_LARGE = 200e6  # bytes of weights
_VERIFY, _VARIANT = "verify_export", "export_variant"  # keys of jobs
_VERIFY_REQUESTED = (
    "verify_wanted"  # key in the session: the history that the user asked to verify although verification is off
)


@dataclass(frozen=True)
class _ExportChoice:
    """What is written: the history of a pipeline, None for the model as loaded, and in which form.

    spec: of the history. suffix: in the file's name. certified: whether with a certificate.
    """

    history: History | None
    spec: Spec | None
    suffix: str
    form: FileForm = AS_NEEDED
    certified: bool = False

    @property
    def failed(self) -> bool:
        return self.history is not None and self.history.failed is not None

    def file_name(self, opened: Opened) -> str:
        """The name of the file, which says what it is."""
        what = "as-loaded" if self.history is None else "FAILED" if self.failed else self.suffix
        return f"{Path(opened.path).stem}.{what}.onnx"

    def key(self, opened: Opened) -> tuple[Any, ...]:
        return id(opened.graph), self.spec, self.failed, self.form, self.certified


def export_page(optimize: Any) -> None:
    """optimize: the page on which the passes run again when dims are fixed."""
    opened = optimized_here()
    if opened is None:
        return
    header(opened)
    how = chosen_verification()
    card = st.container(key="place_of_card")
    table_place = st.container(key="place_of_variants")
    left, right = st.columns([1, 1], gap="large")
    result = opened.history
    if result is not None and result[-1].verdict is None and _is_to_compare(opened, how):
        _compare(opened, result)
    if result is not None:
        with card:  # after the comparison, which it tells
            gain_card(opened, result, how)
    variants = {} if opened.spec is None else export_variants(opened.spec)
    if opened.spec is not None:
        with table_place:
            export_table(opened, opened.spec, variants)
    place = device = None
    with left:
        chosen = st.radio(
            "Write", [*(variants or [THIS_RESULT]), _PACKAGE], horizontal=True, key=f"write_{opened.number}"
        )
        choice = _variant(opened, variants, chosen)
        if choice is None:
            return
        history = choice.history
        _verdict(history)
        if opened.graph.dims and not (opened.spec is not None and FIX in opened.spec.pipeline.names):
            _offer_fixed_dims(opened, optimize)
        if chosen == _PACKAGE:
            device = chosen_device(opened)
            if device is not None and not choice.failed:
                package_part(opened, opened.graph if history is None else history.graph, device)
        else:
            choice = _in_form(opened, choice)
            place = st.container() if _may_export(choice) else None
        if history is not None and choice.spec is not None:
            report_button(opened, history, choice.spec)
    with right:
        _commands(opened, choice, device, how != OFF)
    if place is not None:  # last, since the file may take seconds
        with place:
            _file(opened, choice, how != OFF)


def _variant(opened: Opened, variants: Mapping[str, ExportVariant], chosen: str) -> _ExportChoice | None:
    """The history of the chosen file; None if it could not be built, which is shown."""
    variant = variants.get(chosen)
    if variant is None or variant.spec == opened.spec:
        return _ExportChoice(opened.history, opened.spec, "opt")
    history = _history_of(opened, variant, chosen)
    return None if history is None else _ExportChoice(history, variant.spec, variant.suffix)


def _commands(opened: Opened, choice: _ExportChoice, device: str | None, verified: bool) -> None:
    """Draw the command and the program that write the same. device: of a package; None for an ONNX file."""
    spec, output = choice.spec or Spec(Pipeline(), opened.profile), choice.file_name(opened)
    command = command_of(opened, spec, output, verified=verified, form=choice.form)
    command += f" --certificate {_CERTIFICATE}" if choice.certified else ""
    code = python_of(opened, spec, output, verified=verified, form=choice.form)
    if device is not None:
        command += "\n" + package_command_of(opened, output, device)
        code += "\n" + package_python_of(output, device)
    st.caption("The same as a command")
    st.code(command, language="bash", wrap_lines=True)
    st.caption("The same in Python")
    st.code(code, language="python", wrap_lines=True)


def _history_of(opened: Opened, variant: ExportVariant, title: str) -> History | None:
    """The history of a variant, which runs now if it did not before; None if that was refused, which is shown."""
    work = lambda report: history_of_variant(opened, variant, title, report)  # noqa: E731
    if was_cancelled(opened.jobs, _VARIANT):
        st.info("It was cancelled; choose another file, or this one again.", icon=":material/block:")
        forget_cancel(opened.jobs, _VARIANT)
        return None
    try:
        return run_with_progress(opened.jobs, _VARIANT, title, work, worker(), request=variant.spec)
    except UserError as error:
        show_error(error)
        return None


def _in_form(opened: Opened, choice: _ExportChoice) -> _ExportChoice:
    """Draw the form of the ONNX file; returns what was chosen."""
    with st.expander("Opset, functions, metadata, certificate"):
        form = chosen_form(opened)
        certified = _may_certify(opened, choice.history) and st.checkbox(
            "With its certificate",
            key=f"certified_{opened.number}",
            help="All rewrites and the bounds of layouts, groups and orders, as a file that the command `check` checks "
            "without this program's engine.",
        )
    return replace(choice, form=form, certified=certified)


def _file(opened: Opened, choice: _ExportChoice, verified: bool) -> None:
    """Draw the file's download. A large file is written on a click, any other at once."""
    is_large = opened.summary.weight_bytes > _LARGE
    is_asked = is_large and st.button("Prepare the file", type=_button_type(choice), key="prepare")
    is_there = st.session_state.get("exported", (None,))[0] == choice.key(opened)
    if is_asked or not (is_large or is_there):
        _prepare(opened, choice, verified)
    _download(opened, choice)


def _offer_fixed_dims(opened: Opened, optimize: Any) -> None:
    bound = ", ".join(f"{name} = {size:,}" for name, size in opened.graph.dims.items())
    text = f"The file keeps its symbolic dims. Fix {bound}"
    if st.button(markdown_escaped(text), key=FIX, help="The passes run again with the numbers in the graph."):
        switch_on(FIX)
        st.switch_page(optimize)


def _verdict(history: History | None) -> None:
    """Draw the transposes of the exported graph and of the original, and the verdict."""
    if history is None:
        st.info("Nothing is optimized yet: go to Optimize first, or export the model as loaded.")
        return
    first, last = history[0].before, history[-1].after
    if first["transposes"] or last["transposes"]:
        st.markdown(
            f"Transposes {first.text('transposes')}, now **{last.text('transposes')}**; "
            f"elements moved {first.text('elements_moved')}, now **{last.text('elements_moved')}**."
        )
    failed, verdict = history.failed, history[-1].verdict
    if failed is not None:
        why = "" if failed.verdict is None else f" {failed.verdict.sentence}"
        show_error(
            f"{failed.title}: NOT EQUAL to the original, so it is not offered for download.{why} "
            "Optimize shows the rewrite that broke it and can leave it out."
        )
        return
    if verdict is None:
        return
    show = st.success if verdict.ok else st.warning
    show(markdown_escaped(verdict.sentence))


def _is_to_compare(opened: Opened, how: str) -> bool:
    """Whether the result is compared with the original now; says if that is switched off or was cancelled."""
    cancelled = was_cancelled(opened.jobs, _VERIFY)
    if not cancelled and (how != OFF or st.session_state.get(_VERIFY_REQUESTED) == id(opened.history)):
        return True
    why = "the comparison was cancelled" if cancelled else "verification is switched off on Optimize"
    text, button = st.columns([6, 1], vertical_alignment="center")
    text.warning(f"This result is not verified: {why}.", icon=":material/info:")
    button.button("Verify it now", key="verify_now", width="stretch", on_click=_request_verification, args=(opened,))
    return False


def _request_verification(opened: Opened) -> None:
    forget_cancel(opened.jobs, _VERIFY)
    st.session_state[_VERIFY_REQUESTED] = id(opened.history)


def _compare(opened: Opened, history: History) -> None:
    """Compare the exported graph with the original if Optimize has not done so yet."""
    stop_checking(opened)

    def work(report: Report) -> None:
        verify_end(opened.verifier, history, lambda text: report(text, None))

    run_with_progress(opened.jobs, _VERIFY, "Verification", work, worker(), request=id(history))


def _button_type(choice: _ExportChoice) -> Literal["primary", "secondary"]:
    """The type of a button, which is not primary for a failed result."""
    return "secondary" if choice.failed else "primary"


def _may_export(choice: _ExportChoice) -> bool:
    """Whether the file may be written; a failed result only after the user confirms it."""
    if not choice.failed:
        return True
    text = "Write the wrong model anyway, as .FAILED.onnx, for debugging"
    return st.checkbox(markdown_escaped(text), key=f"wanted_{id(choice.history)}")


def _may_certify(opened: Opened, history: History | None) -> bool:
    file = file_of_model(opened)
    return history is not None and history.failed is None and file.is_file() and kind_of(file) != TORCH


def _prepare(opened: Opened, choice: _ExportChoice, verified: bool) -> None:
    """Write the file and its certificate to a temporary folder, and keep their bytes for the download buttons."""
    history, spec, text = choice.history, choice.spec, ""
    try:
        if history is not None and spec is not None and not choice.failed:
            history = history_in_form(opened, history, spec, choice.form, verified)
        graph = opened.graph if history is None else history.graph
        with tempfile.TemporaryDirectory(prefix="workbench-export-") as folder, st.spinner("Writing and checking"):
            path = Path(folder) / choice.file_name(opened)
            report = export(graph, path, **choice.form._asdict())
            if history is not None and spec is not None:
                text = opset_increase_reason(report.written, history, spec.pipeline)
            files = sorted(Path(folder).iterdir())
            content, evidence = as_download(files), None
            if choice.certified and history is not None:
                path = Path(folder) / _CERTIFICATE
                certificate(history, file_of_model(opened), report.path, path)
                evidence = path.read_bytes()
    except UserError as error:
        show_error(error)
        return
    st.session_state["exported"] = (choice.key(opened), (report, text), content, len(files) > 1, evidence)


def _download(opened: Opened, choice: _ExportChoice) -> None:
    key, result, content, zipped, evidence = st.session_state.get("exported", (None, None, b"", False, None))
    if key != choice.key(opened):
        return
    (report, text), history = result, choice.history
    name = choice.file_name(opened) + (".zip" if zipped else "")
    size, checks = st.columns([1, 2], vertical_alignment="bottom")
    size.metric("Size", in_units(report.bytes, "B"))
    checks.caption("Checked: " + markdown_escaped(", ".join(report.checks)))
    st.download_button(
        f"Download {name}", content, name, "application/octet-stream", key="download", type=_button_type(choice)
    )
    st.caption(markdown_escaped(text) if text else f"Opset {report.written.opset}, IR {report.written.ir}")
    st.caption("SHA-256")
    st.code(report.sha256, language=None, wrap_lines=True)
    if history is not None:
        as_json = json.dumps({"model": opened.title, **history_report(history)}, indent=1)
        st.download_button("Download the report (JSON)", as_json, file_name="report.json", key="download_report")
    if evidence is not None:
        st.download_button("Download the certificate", evidence, _CERTIFICATE, "application/json", key="download_proof")
        checked = command_text("check", opened.path, choice.file_name(opened), _CERTIFICATE)
        st.code(checked, language="bash", wrap_lines=True)
