"""Rules, patterns, passes, the driver, and the history of what was done; optimizers that others wrote."""

from workbench.rewrite.core.counterexamples import Counterexample, WrongLaw
from workbench.rewrite.core.driver import run_pass
from workbench.rewrite.core.exactness import DEFAULT_MODE, MODES, Exactness
from workbench.rewrite.core.history import Excluded, History, Step
from workbench.rewrite.core.pass_context import PassContext
from workbench.rewrite.core.passes import OptionError, Pass, option, with_options
from workbench.rewrite.core.refusing import RuleRefusal, refused_by
from workbench.rewrite.core.rule import AppliedRewrite, Example, NoMatch, Refusal, Rewrite, Rule, rewrite_each

__all__ = [
    "DEFAULT_MODE",
    "MODES",
    "AppliedRewrite",
    "Counterexample",
    "Exactness",
    "Example",
    "Excluded",
    "History",
    "NoMatch",
    "OptionError",
    "Pass",
    "PassContext",
    "Refusal",
    "Rewrite",
    "Rule",
    "RuleRefusal",
    "Step",
    "WrongLaw",
    "option",
    "refused_by",
    "rewrite_each",
    "run_pass",
    "with_options",
]
