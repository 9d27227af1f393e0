"""Notes on a measurement: what a reader of its numbers has to know."""

from __future__ import annotations

from collections.abc import Mapping

from workbench.errors import counted, quoted
from workbench.run.measurement.measured import MeasuredVariant
from workbench.run.measurement.statistics import BUSY

_AS_A_WHOLE = {  # what a run does that one operator by operator does not
    "torch-compile": "fused by the compiler",
    "torch-compile-autotuned": "fused by the compiler",
    "cuda-graphs": "launched together",
    "arena": "written to their places",
    "lanes": "side by side",
}


def notes_of(variants: Mapping[str, MeasuredVariant], device: str) -> list[str]:
    """Notes on measured variants, each once with the labels that it concerns."""
    notes = []
    crowds = {
        label: result.others for label, result in variants.items() if result.others and result.others.is_contended
    }
    busy = [label for label, result in variants.items() if result.busy and label not in crowds]
    unsure = [label for label, result in variants.items() if not result.stable and not result.busy]
    copying = [label for label, result in variants.items() if result.backend == "onnxruntime"]
    if crowds:
        most = max(crowds.values(), key=lambda others: others.cores)
        notes.append(
            f"Other processes used {most.cores:.1f} of the {counted(most.of, 'core')} while {quoted(list(crowds))} "
            f"ran, in which an operator has {counted(most.threads, 'thread')}: they waited for each other, so no "
            "factor is shown; end what else runs, and measure again."
        )
    if busy:
        notes.append(
            f"The machine was busy with something else while {quoted(busy)} ran (the middle half of the times spreads "
            f"by more than {BUSY:.0%} of the median), so no factor is shown; trust the minimum, or measure again."
        )
    if unsure:
        notes.append(f"The median of {quoted(unsure)} is not known to one percent yet; measure with more repetitions.")
    if device != "cpu" and copying:
        notes.append("ONNX Runtime copies inputs and outputs to and from the GPU in every run; torch's stay there.")
    return notes


def ended_early(variants: Mapping[str, MeasuredVariant]) -> list[str]:
    """The note on a measurement that its user ended before the medians were known."""
    runs = min((len(variant.times_ms) for variant in variants.values()), default=0)
    return [f"Ended early, as asked, after {runs:,} {'run' if runs == 1 else 'runs'} of each variant."]


def launching_ms(total: float, median: float, backend: str, fallbacks: Mapping[str, str], device: str) -> float:
    """Milliseconds of a run on CUDA in which no kernel runs, since the host launches them one by one; 0 where it does
    not. total: of the operators' kernels. median: of the run."""
    is_whole = backend in _AS_A_WHOLE and backend not in fallbacks
    if not device.startswith("cuda") or is_whole or backend == "onnxruntime" or not total:
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
        if backend not in fallbacks and backend in _AS_A_WHOLE:
            return f"{kernels}, in which they are {_AS_A_WHOLE[backend]}."
        launching = launching_ms(total, median, backend, fallbacks, device)
        if launching:
            return f"{kernels}: {launching:,.3f} ms ({launching / median:.0%}) is launching them one by one."
        return f"{kernels}: their launches are hidden by them."
    both = f"The operators take {total:,.3f} ms one by one, the whole run {median:,.3f} ms"
    if backend in _AS_A_WHOLE and backend not in fallbacks:
        how = _AS_A_WHOLE[backend]
        return f"{both}: they were timed running operator by operator, and in the whole run they are {how}."
    if backend == "onnxruntime":
        return f"{both}: they are from ONNX Runtime's own profile of one run, which costs time itself."
    if busy:
        return f"{both}; the machine was busy meanwhile, so the difference means little."
    if total <= median:
        return f"{both}: {median - total:,.3f} ms ({(median - total) / median:.0%}) pass between operators."
    return f"{both}: timing each one costs more than passes between them, so take them as shares."
