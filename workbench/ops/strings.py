"""Strings, as numpy arrays on the CPU, since torch has none."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from workbench.ops.contract import Call, operator
from workbench.ops.fusion_kinds import OPAQUE
from workbench.ops.permutation.kinds import LAYOUT_BARRIER

_CASES: dict[str, Callable[[str], str]] = {"LOWER": str.lower, "UPPER": str.upper, "NONE": str}


@operator("StringNormalizer", category="other", layout=LAYOUT_BARRIER, fusion=OPAQUE)
def string_normalizer(call: Call, x: np.ndarray) -> np.ndarray:
    """Words without the stop words, in one case. ONNX Runtime's kernel needs the locale, which this one does not.

    x: [C] or [1, C] -> [K] or [1, K]
    """
    change = _CASES[call.attr("case_change_action")]
    compared = _CASES["NONE" if call.attr("is_case_sensitive") else "LOWER"]
    stops = {compared(word) for word in call.attr("stopwords") or ()}
    words = [word.decode() if isinstance(word, bytes) else word for word in x.reshape(-1).tolist()]
    kept = [change(word) for word in words if compared(word) not in stops] or [""]
    return np.array(kept, dtype=object).reshape(*x.shape[:-1], -1)
