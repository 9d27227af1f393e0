"""What a pass is given besides the graph: the mode, the limits, and what certain passes ask for, by its type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from workbench.errors import UserError
from workbench.rewrite.core.exactness import DEFAULT_MODE
from workbench.rewrite.core.limits import NO_LIMITS, RuleLimits

_T = TypeVar("_T")


class MissingExtensionError(UserError):
    """A pass asks its context for something that the caller did not put there."""


@dataclass(frozen=True, init=False)
class PassContext:
    """Data shared by all passes of one run: `PassContext(load_profile("cuda"), timer, mode="fast")`.

    extensions: what certain passes ask for, each found by its type: the target's `Profile` and an `OperatorTimer` for
                layout strategies, a `ToolRunner` for optimizers of others.
    mode:       how exact rewrites must be (MODES).
    limits:     what rules must not do besides.
    """

    extensions: tuple[object, ...]
    mode: str
    limits: RuleLimits

    def __init__(self, *extensions: object, mode: str = DEFAULT_MODE, limits: RuleLimits = NO_LIMITS) -> None:
        """Raises TypeError for a text among the extensions: the mode is given by name."""
        if any(isinstance(one, str) for one in extensions):
            raise TypeError("an extension of a PassContext is an object, not a text; the mode is given as mode=...")
        object.__setattr__(self, "extensions", extensions)
        object.__setattr__(self, "mode", mode)
        object.__setattr__(self, "limits", limits)

    def in_mode(self, mode: str) -> PassContext:
        """The same for another mode."""
        return PassContext(*self.extensions, mode=mode, limits=self.limits)

    def find(self, kind: type[_T]) -> _T | None:
        """The extension of that type; None if there is none."""
        return next((one for one in self.extensions if isinstance(one, kind)), None)

    def get(self, kind: type[_T]) -> _T:
        """The extension of that type. Raises MissingExtensionError if there is none."""
        extension = self.find(kind)
        if extension is None:
            raise MissingExtensionError(
                f"this pass needs a {kind.__name__}, which its PassContext does not hold; pass one to PassContext(...)"
            )
        return extension
