"""Notes on a measurement, which a reader needs to interpret the numbers."""

from __future__ import annotations

from collections.abc import Mapping

from workbench.errors import counted, quoted
from workbench.run.measurement.measurement_result import MeasuredVariant
from workbench.run.measurement.statistics import BUSY

_WHOLE_RUN = {  # how the operators of these backends run, unlike one by one
    "torch-compile": "fused by the compiler",
    "torch-compile-autotuned": "fused by the compiler",
    "cuda-graphs": "launched together",
    "arena": "written to their places in the arena",
    "streams": "side by side",
}


def notes_of(variants: Mapping[str, MeasuredVariant], device: str) -> list[str]:
    """Notes on measured variants, each once with the labels that it concerns."""
    notes = busy_notes(variants)
    unstable = [label for label, result in variants.items() if not result.stable and not result.busy]
    copying = [label for label, result in variants.items() if result.backend == "onnxruntime"]
    if unstable:
        notes.append(
            f"The median of {quoted(unstable)} is not known to one percent yet; measure with more repetitions."
        )
    if device != "cpu" and copying:
        notes.append("ONNX Runtime copies inputs and outputs to and from the GPU in every run; torch's stay there.")
    return notes


def busy_notes(variants: Mapping[str, MeasuredVariant]) -> list[str]:
    """The notes on variants that ran while something else did, so that their medians cannot be compared."""
    notes = []
    contended = {
        label: result.others for label, result in variants.items() if result.others and result.others.is_contended
    }
    busy = [label for label, result in variants.items() if result.busy and label not in contended]
    if contended:
        worst = max(contended.values(), key=lambda others: others.cores)
        notes.append(
            f"Other processes used {worst.cores:.1f} of the {counted(worst.of, 'core')} while "
            f"{quoted(list(contended))} ran with {counted(worst.threads, 'thread')} for each operator. The threads "
            "waited for cores, so no factor is shown; stop other programs, and measure again."
        )
    if busy:
        notes.append(
            f"The machine was busy with something else while {quoted(busy)} ran (the middle half of the times spreads "
            f"by more than {BUSY:.0%} of the median), so no factor is shown; use the minimum, or measure again."
        )
    return notes


def ended_early(variants: Mapping[str, MeasuredVariant]) -> list[str]:
    """The note on a measurement that the user ended before the medians were known."""
    runs = min((len(variant.times_ms) for variant in variants.values()), default=0)
    return [f"Ended early, as asked, after {runs:,} {'run' if runs == 1 else 'runs'} of each variant."]


def launching_ms(total: float, median: float, backend: str, fallbacks: Mapping[str, str], device: str) -> float:
    """Milliseconds of a run on CUDA in which no kernel runs, since the host launches kernels one by one; else 0.

    total:  milliseconds of all kernels.
    median: milliseconds of the run.
    """
    runs_whole = backend in _WHOLE_RUN and backend not in fallbacks
    if not device.startswith("cuda") or runs_whole or backend == "onnxruntime" or not total:
        return 0.0
    return max(median - total, 0.0)


def why_sums_differ(
    total: float, median: float, backend: str, fallbacks: Mapping[str, str], busy: bool, device: str = "cpu"
) -> str:
    """The reason why the operators' times, `total` ms, do not add up to the run's `median`; "" if none was timed."""
    if not total:
        return ""
    if device.startswith("cuda") and backend != "onnxruntime":
        kernels = f"The kernels of the operators take {total:,.3f} ms on the device, the whole run {median:,.3f} ms"
        if backend not in fallbacks and backend in _WHOLE_RUN:
            return f"{kernels}, in which they are {_WHOLE_RUN[backend]}."
        launching = launching_ms(total, median, backend, fallbacks, device)
        if launching:
            return f"{kernels}: {launching:,.3f} ms ({launching / median:.0%}) is launching them one by one."
        return f"{kernels}: their launches are hidden by them."
    times = f"The operators take {total:,.3f} ms one by one, the whole run {median:,.3f} ms"
    if backend in _WHOLE_RUN and backend not in fallbacks:
        manner = _WHOLE_RUN[backend]
        return f"{times}: they were timed running operator by operator, and in the whole run they are {manner}."
    if backend == "onnxruntime":
        return f"{times}: they are from ONNX Runtime's own profile of one run, which costs time itself."
    if busy:
        return f"{times}; the machine was busy meanwhile, so the difference means little."
    if total <= median:
        return f"{times}: {median - total:,.3f} ms ({(median - total) / median:.0%}) pass between operators."
    return f"{times}: timing each one costs more than passes between them, so take them as shares."
