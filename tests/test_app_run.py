"""The app without a browser: Run measures, Export writes what computes the same."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pytest
from streamlit.testing.v1 import AppTest

import workbench as wb
from tests.pages import STRATEGIES, compared, fine, opened_sample, page, through_optimize, words
from workbench.evidence.verification.verifier import Verifier
from workbench.interfaces.ui.screens import export_page, run_page
from workbench.interfaces.ui.state import session
from workbench.interfaces.ui.state.session import Opened
from workbench.run.inputs import seed_inputs


@pytest.fixture(scope="module")
def optimized() -> Opened:
    return through_optimize("conv_relu_conv_relu", ("strategy", STRATEGIES[0])).session_state["opened"]


def measured(at: AppTest, repetitions: int = 2, backends: Sequence[str] = ("torch",)) -> AppTest:
    """The page once it has measured."""
    next(m for m in at.multiselect if m.label == "Backends").set_value([*backends])
    next(n for n in at.number_input if n.label == "Repetitions").set_value(repetitions)
    return next(b for b in at.button if b.label == "Measure").click().run()


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["torch", "onnxruntime"])
def test_run_measures_the_original_beside_the_result(optimized, backend):
    at = page("run", optimized).run()
    fine(measured(at, backends=[backend]))
    rows = at.dataframe[0].value.to_dict("records")
    assert len(rows) == 2
    assert all(
        row["median (ms)"] > 0 and any(v > 0 for n, v in row.items() if n.startswith("peak of ")) for row in rows
    )
    assert rows[0]["variant"] == "original"  # which notes name it depends on how busy the machine is


@pytest.mark.slow
def test_backends_and_precisions_are_measured_together(optimized):
    at = page("run", optimized).run()
    next(m for m in at.multiselect if m.label == "Precisions").set_value(["float32", "bfloat16"])
    fine(measured(at, backends=["torch", "onnxruntime"]))
    rows = at.dataframe[0].value.to_dict("records")
    assert len(rows) == 2 * 3  # ONNX Runtime has float32 only
    assert words(at).replace("\\", "").count("ONNX Runtime is measured with the model's own types") == 1
    operators = next(d.value for d in at.dataframe if "GFLOP/s" in d.value)
    conv = operators[operators["operator"] == "Conv"].iloc[0]
    assert conv["GFLOP/s"] > 0
    assert conv["share of the roofline (%)"] > 0
    # operators, memory at the peak, the variants, all numbers, all over time
    assert [offer.label for offer in offered(at)] == ["CSV", "CSV", "CSV", "JSON", "Trace (Perfetto)"]
    peak = next(d.value for d in at.dataframe if "kept for" in d.value)
    assert (peak["size (MB)"] > 0).all()
    assert "one by one, the whole run" in words(at)


@pytest.mark.slow
def test_sizes_that_were_run_stand_in_the_header():
    opened = opened_sample("ppocr_cls_v2")
    assert "224,224" in words(fine(page("run", opened).run()))
    inputs = {"x": np.zeros((1, 3, 48, 96), np.float32)}
    opened.verifier = Verifier(opened.graph, inputs, worker=session.worker())
    at = fine(measured(page("run", opened).run()))
    assert "x float\\[1,3,48,96\\]" in words(at)
    assert "224,224" not in words(at)


@pytest.mark.slow
def test_an_operator_with_a_body_says_so():
    at = fine(measured(page("run", opened_sample("silero_vad")).run()))
    operators = next(d.value for d in at.dataframe if "GFLOP/s" in d.value)
    assert operators.iloc[0]["operator"] == "If with its body"
    assert "1 of 4 operators have a known count of operations" in words(at)


@pytest.mark.slow
def test_of_a_busy_machine_no_factor_is_told(optimized):
    at = fine(measured(page("run", optimized).run()))
    record = optimized.measured
    found = record.measurement
    *_, (label, last) = found.variants.items()

    def told_busy(busy: bool) -> None:
        variant = replace(last, ratio=replace(last.ratio, ratio_busy=busy))
        changed = replace(found, variants={**found.variants, label: variant})
        optimized.take_measurement(replace(record, measurement=changed))

    told_busy(False)
    assert any(" than " in m.value and "original" in m.value for m in fine(at.run()).markdown)
    told_busy(True)
    fine(at.run())
    assert not any(" than " in m.value and "original" in m.value for m in at.markdown)
    assert at.dataframe[0].value.to_dict("records")[-1]["ratio, 95 % interval"] == "busy"
    assert "no change of an operator is shown" in words(at)
    assert not any("change (ms)" in table.value for table in at.dataframe), "nor bars"


@pytest.mark.slow
def test_a_cancelled_measurement_says_one_thing():
    at = page("run", opened_sample("conv_relu_conv_relu"))
    at.session_state["opened"].jobs.cancelled.add("measure")
    fine(at.run())
    assert "The measurement was cancelled; nothing is measured yet." in at.info[0].value
    assert "Nothing is measured" not in words(at)
    fine(measured(at))
    at.session_state["opened"].jobs.cancelled.add("measure")
    assert "earlier results are kept" in fine(at.run()).info[0].value


def test_variants_that_fail_alike_are_one_sentence():
    at = AppTest.from_string(
        "from workbench.interfaces.ui.widgets.numbers import say_failures\n"
        "say_failures([('a', 'No CUDA.'), ('b', 'No CUDA.'), ('c', 'Too large.')])"
    ).run()
    assert [w.value.replace("\\", "") for w in at.warning] == ["a, b: No CUDA.", "c: Too large."]


@pytest.mark.slow
def test_what_was_measured_before_a_change_says_so():
    opened = opened_sample("conv_relu_conv_relu")
    fine(page("optimize", opened).run())
    at = fine(measured(page("run", opened).run()))
    assert "Measured before" not in words(at)
    fine(page("optimize", opened).run().radio(key="strategy").set_value(STRATEGIES[0]).run())
    assert "Measured before" in words(fine(page("run", opened).run()))


def test_nothing_chosen_to_measure_is_a_sentence(optimized):
    at = page("run", optimized).run()
    next(m for m in at.multiselect if m.label == "Measure, interleaved").set_value([])
    at = measured(at)
    assert "Nothing is chosen" in at.error[0].value


@pytest.mark.slow
def test_a_killed_worker_is_a_sentence_and_the_next_run_works(optimized):
    worker = session.worker()
    at = page("run", optimized).run()
    killed = threading.Event()

    def kill() -> None:
        while not killed.is_set():
            if worker._busy and worker.pid:
                time.sleep(0.3)
                os.kill(worker.pid, signal.SIGKILL)
                killed.set()
            time.sleep(0.01)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        at = measured(at, 10_000)
    finally:
        killed.set()
        killer.join()
    assert not at.exception
    assert "killed" in at.error[0].value
    fine(measured(at))
    assert len(at.dataframe[0].value) == 2


def test_export_gives_a_file_that_computes_the_same(optimized):
    at = fine(page("export", optimized).run())
    _, (written, _), content, zipped, evidence = at.session_state["exported"]
    assert not zipped and evidence is None
    assert written.bytes == len(content)
    assert written.sha256 in "".join(code.value for code in at.code)
    onnx.checker.check_model(onnx.load_from_string(content), full_check=True)
    inputs = seed_inputs(optimized.graph, dict(optimized.graph.dims), 0)
    first = onnxruntime.InferenceSession(optimized.path).run(None, inputs)
    second = onnxruntime.InferenceSession(content).run(None, inputs)
    for a, b in zip(first, second, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_export_with_a_certificate_that_holds(optimized, tmp_path):
    at = fine(page("export", optimized).run())
    fine(at.checkbox(key=f"certified_{optimized.number}").set_value(True).run())
    assert "--certificate certificate.json" in at.code[-2].value
    _, _, content, _, evidence = at.session_state["exported"]
    out, proof = tmp_path / "conv_relu_conv_relu.opt.onnx", tmp_path / "certificate.json"
    out.write_bytes(content)
    proof.write_bytes(evidence)
    assert wb.check_certificate(optimized.path, out, proof)
    assert any(code.value.startswith("python -m workbench check ") for code in at.code)
    assert offered(at)[-2].label == "Download the certificate"


def test_export_without_optimizing_says_so():
    at = fine(page("export", opened_sample("conv_relu_conv_relu")).run())
    assert "Nothing is optimized yet" in at.info[0].value
    onnx.checker.check_model(onnx.load_from_string(at.session_state["exported"][2]))


def test_what_failed_verification_is_exported_only_when_that_is_confirmed_and_under_a_name_that_tells():
    at = page("optimize", opened_sample("npu_reshape_add"))
    at.session_state["strategy"] = "wrong-on-purpose"
    wrong = compared(at.run()).session_state["opened"]
    assert wrong.history.failed is not None
    at = page("export", wrong).run()
    assert not at.exception
    assert "NOT EQUAL" in at.error[0].value.replace("\\", "")
    assert [offer.label for offer in offered(at)] == ["Download the report (HTML)"]  # which shows the failure
    (confirm,) = (box for box in at.checkbox if "FAILED" in box.label)
    confirm.set_value(True).run()
    assert not at.exception
    names = [offer.label for offer in offered(at)]
    assert names == ["Download npu_reshape_add.FAILED.onnx", "Download the report (JSON)", "Download the report (HTML)"]
    assert all(offer.type == "secondary" for offer in offered(at))
    onnx.checker.check_model(onnx.load_from_string(at.session_state["exported"][2]))


def offered(at: AppTest) -> list:
    """What can be downloaded from the page."""
    return [element.proto for element in at.get("download_button")]


def test_a_good_file_is_the_one_thing_to_take_home_and_a_large_one_waits_for_a_click(optimized, monkeypatch):
    monkeypatch.setattr(export_page, "_LARGE", 1000)
    at = fine(page("export", optimized).run())
    assert [offer.label for offer in offered(at)] == ["Download the report (HTML)"]
    fine(at.button(key="prepare").click().run())
    first = offered(at)[0]
    assert (first.label, first.type) == ("Download conv_relu_conv_relu.opt.onnx", "primary")


@pytest.mark.slow
def test_export_offers_to_fix_dims_and_writes_what_was_compared():
    """The passes run again with the numbers in the graph, since a file must be what was verified."""
    opened = opened_sample("ppocr_cls_v2")
    at = fine(page("export", opened).run())
    assert "Fix" in at.button(key="fix_dims").label and "fix_dims" not in at.code[-2].value
    at = fine(page("optimize", opened).run())
    at.session_state["on_fix_dims"] = True
    fine(at.run())
    assert opened.history[1].pass_name == "fix_dims"
    at = fine(page("export", opened).run())
    assert "fix_dims" in at.code[-2].value and "fix_dims" not in [button.key for button in at.button]
    shape = onnx.load_from_string(at.session_state["exported"][2]).graph.input[0].type.tensor_type.shape
    assert all(dim.HasField("dim_value") for dim in shape.dim)


def test_what_does_not_run_at_all_is_a_sentence_on_every_page(monkeypatch, optimized):
    """A worker that cannot start: no device is found, and the page says so."""
    monkeypatch.setattr("sys.executable", "/bin/false")
    session.worker.clear()
    run_page.worker_devices.clear()
    at = page("run", optimized).run()
    monkeypatch.undo()
    session.worker.clear()
    assert not at.exception
    assert "process ended" in at.error[0].value


@pytest.mark.slow
def test_a_job_over_its_limits_is_a_sentence_and_the_next_runs(optimized):
    at = page("run", optimized).run()
    next(n for n in at.number_input if n.label == "Memory limit (GB)").set_value(0.1)
    at = measured(at, 10_000)
    assert "more than its limit of 0\\.1 GB" in at.error[0].value
    next(n for n in at.number_input if n.label == "Memory limit (GB)").set_value(None)
    fine(measured(at))
