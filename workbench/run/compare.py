"""Comparison of two sets of outputs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from workbench.run.tolerances import FLOAT32, Tolerance

TINY = 1e-30  # keeps relative errors finite if every number is zero
_MAX_NAMED = 3  # outputs named in one sentence
_FEW_STEPS = 4
FAINT = 1e-6  # smaller outputs are always within the absolute tolerance


@dataclass(frozen=True)
class OutputComparison:
    """Comparison of one output.

    max_abs, max_rel: None if there is nothing to subtract; `reason` says why.
    weak:             why equality proves little; "" if it does not.
    """

    name: str
    ok: bool
    bit_equal: bool
    tolerance: Tolerance
    max_abs: float | None
    max_rel: float | None
    reason: str = ""
    weak: str = ""


@dataclass(frozen=True)
class Comparison:
    """All outputs; the errors are the largest of any output.

    excluded: elements that do not count. run: the number of the run that shows a difference; None if there is none.
    """

    outputs: tuple[OutputComparison, ...]
    max_abs_error: float | None
    max_rel_error: float | None
    bit_equal: bool
    ok: bool
    sentence: str
    excluded: int = 0
    run: int | None = None


@dataclass(repr=False)
class Verdict:
    """The result of a verification.

    ok:        None if nothing could be compared.
    max_abs_error, max_rel_error: None if there was nothing to subtract.
    tolerance: the loosest of any output; each output is compared with its own.
    run:       the number of the run that shows a difference; None if there is none, or none alone.
    """

    ok: bool | None
    max_abs_error: float | None
    max_rel_error: float | None
    bit_equal: bool
    tolerance: Tolerance
    sentence: str
    seconds: float
    run: int | None = None

    @property
    def is_close(self) -> bool:
        """Whether the outputs are within their tolerance and not equal, since values were quantized on purpose."""
        return self.ok is True and self.tolerance.close and not self.bit_equal

    def __repr__(self) -> str:
        return f"<Verdict: {self.sentence}>"


def compare(
    reference: Mapping[str, np.ndarray],
    candidate: Mapping[str, np.ndarray],
    tolerance: Tolerance | Mapping[str, Tolerance] = FLOAT32,
    explained: Collection[str] = (),
) -> Comparison:
    """Compare two runs, output by output, by name.

    tolerance: the tolerance of all outputs, or that of each by name (FLOAT32 for one without). Elements of a sequence
    have that of the sequence. explained: outputs of floats that may differ by more, since rounding is known to do that.
    Shapes and element types must be equal, NaN and infinities at the same
    places, integers, bools and strings equal; each float within what the tolerance says of it.
    """
    names = dict.fromkeys((*reference, *candidate))
    allowed = dict.fromkeys(names, tolerance) if isinstance(tolerance, Tolerance) else tolerance
    outputs = tuple(
        _compared(name, reference.get(name), candidate.get(name), _of_output(allowed, name), name in explained)
        for name in names
    )
    return _of_outputs(outputs)


def compare_numbers(
    reference: Mapping[str, np.ndarray],
    candidate: Mapping[str, np.ndarray],
    tolerance: Tolerance | Mapping[str, Tolerance],
    explained: Collection[str] = (),
) -> Comparison:
    """The same, without elements that are infinite or NaN in the reference."""
    right, found, excluded = dict(reference), dict(candidate), 0
    for name, array in reference.items():
        if array.dtype.kind == "f" and name in candidate and candidate[name].shape == array.shape:
            ends = ~np.isfinite(array)
            excluded += int(np.count_nonzero(ends))
            right[name], found[name] = (np.where(ends, one.dtype.type(0), one) for one in (array, candidate[name]))
    return replace(compare(right, found, tolerance, explained), excluded=excluded)


def of_all_runs(runs: Sequence[Comparison]) -> Comparison:
    """One comparison of all runs: each output as in the run where it is worst."""
    wrong = next((number for number, run in enumerate(runs) if not run.ok), None)
    if len(runs) == 1:
        return replace(runs[0], run=wrong)
    names = dict.fromkeys(output.name for run in runs for output in run.outputs)
    by_name = {name: [output for run in runs for output in run.outputs if output.name == name] for name in names}
    excluded = sum(run.excluded for run in runs)
    return replace(_of_outputs(tuple(map(_worst, by_name.values()))), excluded=excluded, run=wrong)


def _worst(runs: list[OutputComparison]) -> OutputComparison:
    """The comparison of an output in the run where it is worst; weak only if it is weak in each."""
    wrong = next((output for output in runs if not output.ok), None)
    if wrong is not None:
        return wrong
    strong = [output for output in runs if not output.weak] or runs  # a relative error of next to nothing says nothing
    worst = max(strong, key=lambda output: (not output.bit_equal, output.max_rel or 0.0))
    bit_equal = all(output.bit_equal for output in runs)
    return replace(worst, max_abs=max(output.max_abs or 0.0 for output in strong), bit_equal=bit_equal)


def _of_outputs(outputs: tuple[OutputComparison, ...]) -> Comparison:
    ok = all(output.ok for output in outputs)
    bit_equal = all(output.bit_equal for output in outputs)
    max_abs = max((o.max_abs for o in outputs if o.max_abs is not None), default=None)
    max_rel = max((o.max_rel for o in outputs if o.max_rel is not None), default=None)
    return Comparison(outputs, max_abs, max_rel, bit_equal, ok, _sentence(outputs, bit_equal))


def _of_output(allowed: Mapping[str, Tolerance], name: str) -> Tolerance:
    """The tolerance of an output; `s[0]` has that of the sequence `s`."""
    return allowed.get(name) or allowed.get(name.rpartition("[")[0], FLOAT32)


def _compared(
    name: str, a: np.ndarray | None, b: np.ndarray | None, tolerance: Tolerance, explained: bool
) -> OutputComparison:
    def differs(reason: str) -> OutputComparison:
        return OutputComparison(name, False, False, tolerance, None, None, reason)

    if a is None or b is None:
        return differs("only one of the two has it")
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape:
        return differs(f"shape {list(b.shape)} where {list(a.shape)} is right")
    if a.dtype != b.dtype and not (a.dtype.kind in "USO" and b.dtype.kind in "USO"):
        return differs(f"{b.dtype} where {a.dtype} is right")
    if a.dtype.kind in "USO":
        same = bool((a.astype(str) == b.astype(str)).all())
        return OutputComparison(name, True, True, tolerance, 0.0, 0.0) if same else differs("other strings")
    weak = _weakness(a, tolerance)
    if _same_bits(a, b):
        return OutputComparison(name, True, True, tolerance, 0.0, 0.0, weak=weak)
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    x, y = a.astype(wide), b.astype(wide)
    if not np.array_equal(np.isnan(x), np.isnan(y)):
        return differs(f"{np.isnan(y).sum()} NaN where {np.isnan(x).sum()} are right, or at other places")
    infinite = np.isinf(x) | np.isinf(y)
    if not np.array_equal(x[infinite], y[infinite]):
        return differs("infinities at other places")
    x, y = (np.where(infinite, 0, np.nan_to_num(number)) for number in (x, y))
    error = np.abs(x - y)
    max_abs = float(error.max(initial=0.0))
    max_rel = max_abs / max(float(np.abs(x).max(initial=0.0)), TINY)
    if a.dtype.kind in "biu" and not (tolerance.quantized and a.dtype.kind != "b" and a.dtype.itemsize == 1):
        wrong = a != b
        reason = f"{np.count_nonzero(wrong):,} of {a.size:,} {a.dtype} values differ"
    else:
        other_sign = a.dtype.kind != "c" and tolerance.bits and (np.signbit(x) != np.signbit(y))
        wrong = (error > (0.0 if tolerance.bits else tolerance.largest(x))) | other_sign
        allowed = f" (allowed: {tolerance}); {np.count_nonzero(wrong):,} of {a.size:,} elements"
        reason = f"relative error {max_rel:.2g}, absolute {max_abs:.2g}{allowed}"
    if not tolerance.bits and (not wrong.any() or (explained and a.dtype.kind not in "biu")):
        used = (
            replace(tolerance, reason=f"{tolerance.reason}, and what rounding explains") if wrong.any() else tolerance
        )
        return OutputComparison(name, True, False, used, max_abs, max_rel, weak=weak)
    reason += _example(a, b, wrong)
    return OutputComparison(name, False, False, tolerance, max_abs, max_rel, reason, weak)


def _example(right: np.ndarray, found: np.ndarray, wrong: np.ndarray) -> str:
    """The first element that is wrong: ", such as 2 in place of 1 at [0, 3]". "" if none is, or nothing has a place."""
    if not wrong.any() or not right.ndim:
        return ""
    place = np.unravel_index(int(wrong.argmax()), wrong.shape)
    numbers = (found[place], right[place])
    other, one = (f"{number:.7g}" if right.dtype.kind not in "biu" else str(number) for number in numbers)
    return f", such as {other} in place of {one} at {[int(index) for index in place]}"


def _same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether all numbers are the same, -0.0 and 0.0 distinguished; all NaNs are equal."""
    if a.dtype.kind == "f" and np.isnan(a).any():
        nan = np.isnan(a)
        return np.array_equal(nan, np.isnan(b)) and _same_bits(a[~nan], b[~nan])
    plain = f"u{a.dtype.itemsize}" if a.dtype.itemsize in (1, 2, 4, 8) else "u8"
    first, second = (np.ascontiguousarray(x).reshape(-1).view(plain) for x in (a, b))
    return np.array_equal(first, second)


def _weakness(a: np.ndarray, tolerance: Tolerance) -> str:
    """Why equality of this output proves little; "" if it does not."""
    if a.size > 1 and bool((a == a.reshape(-1)[0]).all()):
        return f"every one of its {a.size} values is {a.reshape(-1)[0]}"
    if a.size and a.dtype.kind == "f" and bool((np.abs(a) < FAINT).all()):
        return f"every value of it is below {FAINT:g}"
    if tolerance.quantized and a.size > 1 and np.ptp(a.astype(np.float64)) <= _FEW_STEPS * tolerance.absolute:
        return f"its values lie within {_FEW_STEPS} quantization steps, of which one may differ"
    return "it is empty" if a.size == 0 else ""


def _sentence(outputs: tuple[OutputComparison, ...], bit_equal: bool) -> str:
    wrong = next((o for o in outputs if not o.ok), None)
    if wrong is not None:
        return f"Output '{wrong.name}' differs: {wrong.reason}."
    count = f"{len(outputs)} output{'s' if len(outputs) != 1 else ''}"
    weak = next((f" This proves little for output '{o.name}': {o.weak}." for o in outputs if o.weak), "")
    if bit_equal:
        return f"Equal to the last bit: {count}.{weak}"
    by_tolerance: dict[Tolerance, list[OutputComparison]] = {}
    for output in outputs:
        by_tolerance.setdefault(output.tolerance, []).append(output)
    groups = (_largest_errors(group, name_them=len(by_tolerance) > 1) for group in by_tolerance.values())
    equal = "Close, not equal" if any(output.tolerance.close for output in outputs) else "Equal"
    return f"{equal}: {count}, {'; '.join(groups)}.{weak}"


def _largest_errors(outputs: list[OutputComparison], name_them: bool) -> str:
    """The largest errors of outputs with one tolerance. name_them: whether to name the outputs."""
    named = ", ".join(f"'{output.name}'" for output in outputs[:_MAX_NAMED])
    more = f" and {len(outputs) - _MAX_NAMED} more" if len(outputs) > _MAX_NAMED else ""
    relative = max((output.max_rel for output in outputs if output.max_rel is not None), default=0.0)
    absolute = max((output.max_abs for output in outputs if output.max_abs is not None), default=0.0)
    sentence = f"relative error {relative:.2g}, absolute {absolute:.2g} (allowed: {outputs[0].tolerance})"
    return f"{named}{more} {sentence}" if name_them else sentence
