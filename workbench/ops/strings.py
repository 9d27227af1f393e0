"""Strings, as numpy arrays on the CPU, since torch has none."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from workbench.ops.contract import operator
from workbench.ops.fusion_kinds import OPAQUE
from workbench.ops.permutation.kinds import BARRIER

_CASES: dict[str, Callable[[str], str]] = {"LOWER": str.lower, "UPPER": str.upper, "NONE": str}


@operator("StringNormalizer", category="other", layout=BARRIER, fusion=OPAQUE)
def string_normalizer(call, x):
    """Words without the stop words, in one case; in ONNX Runtime it requires that the locale is installed."""
    change = _CASES[call.attr("case_change_action")]
    compared = _CASES["NONE" if call.attr("is_case_sensitive") else "LOWER"]
    stops = {compared(word) for word in call.attr("stopwords") or ()}
    words = [word.decode() if isinstance(word, bytes) else word for word in x.reshape(-1).tolist()]
    kept = [change(word) for word in words if compared(word) not in stops] or [""]
    return np.array(kept, dtype=object).reshape(*x.shape[:-1], -1)
