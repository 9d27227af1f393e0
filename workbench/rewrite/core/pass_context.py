"""The context of a pass: the mode, the limits, and extensions that certain passes ask for by type."""

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

    extensions: objects that certain passes find by type: layout strategies the target's `Profile` and an
                `OperatorTimer`, passes that run external optimizers a `ToolRunner`.
    mode:       how exact rewrites must be (MODES).
    limits:     what rules must not do.
    """

    extensions: tuple[object, ...]
    mode: str
    limits: RuleLimits

    def __init__(self, *extensions: object, mode: str = DEFAULT_MODE, limits: RuleLimits = NO_LIMITS) -> None:
        """Raises TypeError for a string among the extensions: the mode is a keyword argument."""
        if any(isinstance(extension, str) for extension in extensions):
            raise TypeError("an extension of a PassContext is an object, not a string; the mode is given as mode=...")
        object.__setattr__(self, "extensions", extensions)
        object.__setattr__(self, "mode", mode)
        object.__setattr__(self, "limits", limits)

    def in_mode(self, mode: str) -> PassContext:
        """The same for another mode."""
        return PassContext(*self.extensions, mode=mode, limits=self.limits)

    def find(self, kind: type[_T]) -> _T | None:
        """The extension of that type; None if there is none."""
        return next((extension for extension in self.extensions if isinstance(extension, kind)), None)

    def get(self, kind: type[_T]) -> _T:
        """The extension of that type. Raises MissingExtensionError if there is none."""
        extension = self.find(kind)
        if extension is None:
            raise MissingExtensionError(
                f"this pass needs a {kind.__name__}, which its PassContext does not hold; pass one to PassContext(...)"
            )
        return extension
