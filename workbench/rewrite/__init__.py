"""Rules, passes, the driver, and the history of what was done."""

from workbench.rewrite.counterexamples import Counterexample, WrongLaw
from workbench.rewrite.driver import run_pass
from workbench.rewrite.exactness import DEFAULT_MODE, MODES, Exactness
from workbench.rewrite.history import History, LeftOut, Step
from workbench.rewrite.pass_context import PassContext
from workbench.rewrite.passes import OptionError, Pass, option, with_options
from workbench.rewrite.refusing import RuleRefusal, refused_by
from workbench.rewrite.rule import AppliedRewrite, Example, NoMatch, Refusal, Rewrite, Rule, rewrite_each

__all__ = [
    "DEFAULT_MODE",
    "MODES",
    "AppliedRewrite",
    "Counterexample",
    "Exactness",
    "Example",
    "History",
    "LeftOut",
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
