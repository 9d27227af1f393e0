"""The file with which a new pass begins: complete, and small enough to be rewritten."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection
from pathlib import Path

from workbench.errors import UserError
from workbench.support.files import write_text

_NAME = re.compile(r"[a-z][a-z0-9_]*")
TEMPLATE_LAW = "relu(relu(x)) == relu(x)"
_TEXT = '''\
"""A Relu of a Relu equals the first."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.rewrite import Exactness, Example, Pass, Refusal
from workbench.rewrite.patterns.algebra import algebraic_rule


@dataclass(frozen=True)
class CLASS(Pass):
    """One case: a Relu whose operand is the result of a Relu is removed.

    Does not apply to a Relu after any other operator.

    Source: idempotence, relu(relu(x)) = relu(x).
    """

    title = "TITLE"

    rules = (
        algebraic_rule(
            "second",
            "LAW",
            "{root} changes nothing after {nodes[0]}; 1 node fewer",
            Example(
                before="g (float[2] x) => (float[2] y) { a = Relu(x)  b = Relu(a)  y = Neg(b) }",
                after="g (float[2] x) => (float[2] y) { a = Relu(x)  y = Neg(a) }",
                sentences=("Relu 'Relu_b' changes nothing after Relu 'Relu_a'; 1 node fewer",),
            ),
            refusals=(
                Refusal(
                    "g (float[2] x) => (float[2] y) { a = Neg(x)  y = Relu(a) }",
                    "Relu 'Relu_y' does not follow a Relu",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
        ),
    )
'''


def new_pass_text(name: str) -> str:
    """The text of a file that holds one pass, of one rule with a law, an example and a refusal."""
    words = name.split("_")
    title = " ".join(filter(None, words)).capitalize()
    text = _TEXT.replace("CLASS", "".join(word.capitalize() for word in words)).replace("TITLE", title)
    return text.replace("LAW", TEMPLATE_LAW)


def template_sentences() -> list[str]:
    """The sentences of the docstrings with which a new pass begins, which are about its rule."""
    tree = ast.parse(_TEXT)
    (cls,) = (node for node in tree.body if isinstance(node, ast.ClassDef))
    texts = (ast.get_docstring(tree), ast.get_docstring(cls))
    return [" ".join(part.split()) for text in texts for part in (text or "").split("\n\n")]


def check_pass_name(name: str, taken: Collection[str]) -> None:
    """Raise UserError for a name that no new pass can have. taken: names of passes and presets."""
    if not _NAME.fullmatch(name):
        raise UserError(f"'{name}' cannot be the name of a pass; use small letters, digits and _, a letter first")
    if name in taken:
        raise UserError(f"there is a pass or preset '{name}' already; choose another name")


def write_new_pass(name: str, text: str, folder: Path) -> Path:
    """Write the file of a new pass into the folder, which is created, and return its path.

    Raises UserError for a file that exists already or cannot be written.
    """
    file = folder / f"{name}.py"
    if file.exists():
        raise UserError(f"'{file}' exists already; choose another name, or remove the file")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"the folder '{folder}' cannot be made: {error.strerror or error}; name another") from None
    write_text(file, text)
    return file
