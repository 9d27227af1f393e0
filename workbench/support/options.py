"""Options that a function passes on to another one by keyword."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any


def check_options(verb: str, given: Mapping[str, Any], of: Callable[..., Any], taken: Collection[str]) -> None:
    """Raise a TypeError with the options of `verb` if one of those given is no parameter of `of`.

    taken: parameters that the verb gives itself.
    """
    known = [name for name in inspect.signature(of).parameters if name not in taken]
    unknown = next((name for name in given if name not in known), None)
    if unknown is not None:
        raise TypeError(f"{verb} has no option '{unknown}'; its further options are: {', '.join(known)}")
