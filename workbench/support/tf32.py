"""TF32 for the float32 products and convolutions of a context, and nowhere else.

torch has two interfaces for it, `allow_tf32` with `set_float32_matmul_precision`, and `fp32_precision`
(https://docs.pytorch.org/docs/stable/notes/cuda.html). It refuses to read the first where a program has set the second
to something else, so both are set, and each is restored as far as it could be read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def tf32(allowed: bool) -> Iterator[None]:
    """A context in which products and convolutions of float32 on CUDA have TF32, or all 23 bits."""
    import torch

    backends: Any = torch.backends
    convolutions = (backends.cudnn, backends.cudnn.conv, backends.cudnn.rnn)
    settings = (backends.cuda.matmul, backends.mkldnn.matmul, *convolutions)
    before = [setting.fp32_precision for setting in settings]
    products = _if_readable(torch.get_float32_matmul_precision)
    cudnn = _if_readable(lambda: backends.cudnn.allow_tf32)
    try:
        torch.set_float32_matmul_precision("high" if allowed else "highest")
        backends.cudnn.allow_tf32 = allowed
        for setting in convolutions:
            setting.fp32_precision = "tf32" if allowed else "ieee"
        yield
    finally:
        if products is not None:
            torch.set_float32_matmul_precision(products)
        if cudnn is not None:
            backends.cudnn.allow_tf32 = cudnn
        for setting, was in zip(settings, before, strict=True):
            setting.fp32_precision = was


def _if_readable(read: Callable[[], Any]) -> Any:
    """The value; None where the other interface has set another."""
    try:
        return read()
    except RuntimeError:
        return None
