"""The base class of errors shown to users: one sentence, no traceback."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

MAX_SENTENCE = 300  # characters of an error that may quote names and texts of a file
_MAX_CAUSE, _MAX_NAME = 120, 200
_MAX_LISTED = 20  # names in the list of known names
_MIN_SIMILARITY = 0.8  # difflib's ratio from which a name of another kind is suggested
_NAME = re.compile(rf"'([^']{{{_MAX_NAME}}})[^']+'")


# Characters that show nothing, or as a space, though Unicode calls them letters, marks or symbols: fillers, the joiner
# of graphemes, inherent vowels, variation selectors, the blank Braille pattern.
_INVISIBLE = frozenset("\u115f\u1160\u3164\uffa0\u034f\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800").union(
    map(chr, range(0xFE00, 0xFE10)), map(chr, range(0xE0100, 0xE01F0))
)


class UserError(Exception):
    """An error for the user. Its message is one sentence: what is wrong, where, and what to do.

    As text it is `printable`, since names in it come from files.
    """

    def __str__(self) -> str:
        return printable(super().__str__())


def printable(text: str) -> str:
    """The text with what names in a file may have and nobody sees, control characters too, written as escape codes."""
    return "".join(c if c.isprintable() and c not in _INVISIBLE else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()


def one_sentence(text: str, limit: int = MAX_SENTENCE) -> str:
    """The text as one line of at most `limit` characters; the middle is cut, since the advice is at the end."""
    line = printable(" ".join(text.split()))
    if len(line) <= limit:
        return line
    end = limit // 3
    return f"{line[: limit - end - 5]} ... {line[-end:]}"


def with_short_names(text: str) -> str:
    """The text with quoted names cut after `_MAX_NAME` characters, since a model's names may have any length."""
    return _NAME.sub(lambda match: f"'{match[1]}...'", text)


@contextmanager
def reading(what: str, kind: type[UserError], advice: str) -> Iterator[None]:
    """Raise any error that libraries raise in this block, such as for a damaged file, as one sentence of class `kind`.

    what: names what is read. advice: what the user can do. A UserError or OSError is raised unchanged.
    """
    try:
        yield
    except UserError as error:
        if type(error) is not kind or len(str(error)) <= MAX_SENTENCE:
            raise
        raise kind(one_sentence(str(error))) from error
    except OSError:
        raise
    except MemoryError as error:
        raise kind(one_sentence(f"{what} does not fit into memory; {advice}")) from error
    except Exception as error:  # of any library that reads the file
        cause = one_sentence(f"{type(error).__name__}: {error}", _MAX_CAUSE)
        raise kind(one_sentence(f"{what} is damaged, or has an unknown format ({cause}); {advice}")) from error


def closest(word: str, known: Collection[str], others: Mapping[str, Collection[str]] | None = None) -> str:
    """A clause for an unknown name: the most similar known name, or the list of known names.

    others: names of other kinds that may be meant, by kind ("preset" -> the names of presets).
    """
    import difflib  # here, since it is rarely needed

    near = [(name, "") for name in difflib.get_close_matches(word, list(known), 1)]
    for kind, names in (others or {}).items():
        near += [(name, f"the {kind} ") for name in difflib.get_close_matches(word, list(names), 1, _MIN_SIMILARITY)]
    if near:
        name, kind = max(near, key=lambda one: difflib.SequenceMatcher(None, word, one[0]).ratio())
        return f"; did you mean {kind}'{name}'?"
    listed = list(known)
    return f"; there are: {', '.join(listed[:_MAX_LISTED])}{', ...' if len(listed) > _MAX_LISTED else ''}"


def quoted(names: Sequence[str], limit: int = 6) -> str:
    """The first `limit` names in quotation marks, and how many more there are."""
    return first_of([f"'{name}'" for name in names], limit)


def first_of(texts: Sequence[str], limit: int = 6) -> str:
    """The first `limit` texts, and how many more there are."""
    more = len(texts) - limit
    text = ", ".join(texts[:limit])
    return f"{text} and {more:,} more" if more > 0 else text


def counted(number: int, thing: str) -> str:
    """The number with its noun: "1 block", "1,234 blocks"."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"
