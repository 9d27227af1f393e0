"""The base class of errors shown to users: one sentence, no traceback."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

LONGEST_SENTENCE = 300  # characters of a sentence about what was read, which may hold names and texts of any length
_OF_CAUSE, _OF_NAME = 120, 200
_MOST_LISTED = 20  # names that there are
_NEAR = 0.8  # of difflib's ratio, from which a name of another kind may be meant
_NAME = re.compile(rf"'([^']{{{_OF_NAME}}})[^']+'")


class UserError(Exception):
    """The message is one sentence: what is wrong, where, and what to do."""


def printable(text: str) -> str:
    """A text with names from a file as one line; control characters are written as their codes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def one_sentence(text: str, most: int = LONGEST_SENTENCE) -> str:
    """The text as one line of at most `most` characters; the middle is left out, since what to do stands at the end."""
    line = printable(" ".join(text.split()))
    if len(line) <= most:
        return line
    end = most // 3
    return f"{line[: most - end - 5]} ... {line[-end:]}"


def with_short_names(text: str) -> str:
    """The text, its quoted names cut after `_OF_NAME` characters: a model's may have any length."""
    return _NAME.sub(lambda found: f"'{found[1]}...'", text)


@contextmanager
def reading(what: str, kind: type[UserError], advice: str) -> Iterator[None]:
    """Whatever a damaged file, link or database makes libraries raise in this block is one sentence of class `kind`.

    Other errors for users, and those of the system, are raised as they are.
    """
    try:
        yield
    except UserError as error:
        if type(error) is not kind or len(str(error)) <= LONGEST_SENTENCE:
            raise
        raise kind(one_sentence(str(error))) from error
    except OSError:
        raise
    except MemoryError as error:
        raise kind(one_sentence(f"{what} does not fit into memory; {advice}")) from error
    except Exception as error:  # of any library that reads a part of it
        cause = one_sentence(f"{type(error).__name__}: {error}", _OF_CAUSE)
        raise kind(
            one_sentence(f"{what} is damaged, or not of a form that is known here ({cause}); {advice}")
        ) from error


def closest(word: str, known: Collection[str], others: Mapping[str, Collection[str]] | None = None) -> str:
    """A clause with the name that is meant, or with those that there are.

    others: names of other kinds, by the kind, that may be meant too ("preset" -> those of presets).
    """
    import difflib  # for few

    near = [(name, "") for name in difflib.get_close_matches(word, list(known), 1)]
    for kind, names in (others or {}).items():
        near += [(name, f"the {kind} ") for name in difflib.get_close_matches(word, list(names), 1, _NEAR)]
    if near:
        name, kind = max(near, key=lambda one: difflib.SequenceMatcher(None, word, one[0]).ratio())
        return f"; did you mean {kind}'{name}'?"
    listed = list(known)
    return f"; there are: {', '.join(listed[:_MOST_LISTED])}{', ...' if len(listed) > _MOST_LISTED else ''}"


def quoted(names: Sequence[str], most: int = 6) -> str:
    """The names in quotation marks: the first `most` of them, and how many more there are."""
    more = len(names) - most
    words = ", ".join(f"'{name}'" for name in names[:most])
    return f"{words} and {more:,} more" if more > 0 else words


def counted(number: int, thing: str) -> str:
    """ "1 block", "1,234 blocks"."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"
