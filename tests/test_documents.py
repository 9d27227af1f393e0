"""README and the first pages as a new user follows them: their commands and snippets are run, their links lead somewhere."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from benchmarks.publishing.groups import GROUPS, NAMES
from benchmarks.publishing.page import group_page, places, published_parts, results_page
from benchmarks.publishing.publish import PAGE, measured
from benchmarks.publishing.summary import CLAIMS, summary
from benchmarks.shared.benchmark import RealModels, benchmark
from tests.conftest import ROOT
from tests.waiting import LIMIT_S
from workbench.run.records.published import PUBLISHED_FOLDER, published_text, read_published

READ_FIRST = [ROOT / "README.md", ROOT / "docs" / "start.md"]
DOCS = ROOT / "docs"
MADE_FOR_THE_SITE = (DOCS / "passes.md", DOCS / "passes", DOCS / "rules.md", DOCS / "reference")  # by make docs
PAGES = [
    page
    for page in (*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md")))
    if not any(page.is_relative_to(made) for made in MADE_FOR_THE_SITE)
]
LINK = re.compile(r"!?\[[^\]]*\]\(([^)#\s]+)(#[^)\s]*)?\)")
MAX_LINE = 400  # characters
MAX_WORDS_OF_ALL = 30_000  # written by hand
MAX_WORDS = 25  # of a sentence, on average over a page
MAX_WORDS_OF_THE_TOUR = 1_500
GENERATED = ("conformance.md", "precision-reports.md", "results.md")
HAND_WRITTEN = [page for page in PAGES if page.name not in GENERATED]


def path_of(document: Path) -> str:
    return str(document.relative_to(ROOT))


def blocks(language: str) -> list[str]:
    pattern = re.compile(rf"^```{language}\n(.*?)^```", re.MULTILINE | re.DOTALL)
    return [text for page in READ_FIRST for text in pattern.findall(page.read_text(encoding="utf-8"))]


@pytest.fixture
def beside_the_samples(tmp_path):
    """A folder in which the snippets can write, with the samples where they expect them."""
    (tmp_path / "sample_models").symlink_to(ROOT / "sample_models")
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("snippet", blocks("python"))
def test_a_snippet_runs_as_it_stands(snippet, beside_the_samples):
    words = [sys.executable, "-c", snippet]
    ended = subprocess.run(words, cwd=beside_the_samples, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    assert "Equal" in ended.stdout and "261 → 125" in ended.stdout
    assert len(onnx.load(beside_the_samples / "model.opt.onnx").graph.node) == 125


@pytest.mark.slow_after(1)
@pytest.mark.parametrize(
    "command", [line for text in blocks("bash") for line in text.splitlines() if "optimize" in line]
)
def test_a_command_runs_as_it_stands(command, done, beside_the_samples, monkeypatch):
    monkeypatch.chdir(beside_the_samples)
    program, *arguments = shlex.split(command, comments=True)
    assert program == ".venv/bin/graph-workbench"
    done(*arguments)
    written = arguments[arguments.index("-o") + 1]
    assert len(onnx.load(written).graph.node) == 125


def test_every_make_target_that_is_named_exists():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = {line.split()[1] for text in blocks("bash") for line in text.splitlines() if line.startswith("make ")}
    assert named >= {"run", "test"}
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in named)


@pytest.mark.parametrize("document", PAGES, ids=path_of)
def test_every_link_to_a_file_leads_to_one(document):
    targets = [target for target, _ in LINK.findall(document.read_text(encoding="utf-8")) if ":" not in target]
    missing = [target for target in targets if not (document.parent / target).exists()]
    assert not missing


def test_every_module_that_is_named_exists():
    """In pages, and in what is written in the code: `run/inputs.py`, or the name of the file alone."""
    files = [
        path for top in ("workbench", "passes", "benchmarks", "docs", "tests") for path in (ROOT / top).rglob("*.*")
    ]
    known = {"/".join(path.parts[-count:]) for path in files for count in range(1, 6)}
    users = {"halve.py", "passes/drop_second_relu.py"}  # files that users have
    texts = [page for page in HAND_WRITTEN if page.name != "CHANGELOG.md"]
    texts += [path for path in files if path.suffix == ".py" and path.is_relative_to(ROOT / "workbench")]
    named = {
        (path_of(text), name)
        for text in texts
        for name in re.findall(r"`([a-z_]+(?:/[a-z_]+)*\.(?:py|js|css|cpp))`", text.read_text(encoding="utf-8"))
    }
    assert sorted((text, name) for text, name in named if name not in known | users) == []


@pytest.mark.parametrize("document", PAGES, ids=path_of)
def test_no_line_is_over_400_characters(document):
    """A line is a paragraph, an item of a list or a row of a table: what is longer is too dense to read."""
    lines = document.read_text(encoding="utf-8").splitlines()
    assert [number for number, line in enumerate(lines, 1) if len(line) > MAX_LINE] == []


@pytest.mark.parametrize("document", [page for page in HAND_WRITTEN if page.is_relative_to(ROOT / "docs")], ids=path_of)
def test_every_page_has_a_picture(document):
    text = document.read_text(encoding="utf-8")
    assert "](" in text and re.search(r"^!\[.+\]\(.+\)$|^<video", text, re.MULTILINE)


def test_no_text_has_users_install_a_package_by_our_name():
    """Nobody has published `graph-workbench`: whoever registers it would decide what such a command installs."""
    folders = (ROOT / name for name in ("workbench", "passes", "lessons", "sample_models", "benchmarks"))
    texts = [
        path for folder in folders for path in folder.rglob("*.*") if path.suffix in (".py", ".js", ".md", ".toml")
    ]
    asked = re.compile(r"pip install [^`\n]*graph-workbench")
    assert not [path_of(path) for path in (*texts, *PAGES) if asked.search(path.read_text(encoding="utf-8"))]


def sentences(text: str) -> list[str]:
    """The sentences of a page, without code, tables and headings."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    text = "\n".join(line for line in text.splitlines() if not line.startswith(("|", "#")))
    paragraphs = re.split(r"\n\s*\n|\n- ", text)
    ends = (re.split(r"(?<=[.!?:])\s+(?=[A-Z`*\"(\[])", " ".join(paragraph.split())) for paragraph in paragraphs)
    return [sentence for paragraph in ends for sentence in paragraph if sentence]


@pytest.mark.parametrize("document", HAND_WRITTEN, ids=path_of)
def test_sentences_have_at_most_25_words_on_average(document):
    page_sentences = sentences(document.read_text(encoding="utf-8"))
    assert sum(len(sentence.split()) for sentence in page_sentences) <= MAX_WORDS * len(page_sentences)


def test_all_pages_together_are_short_enough_to_be_read():
    """The changes of versions aside, which grow with them; code and tables too."""
    pages = [page for page in HAND_WRITTEN if page.name != "CHANGELOG.md"]
    words = sum(len(sentence.split()) for page in pages for sentence in sentences(page.read_text(encoding="utf-8")))
    assert 15_000 < words <= MAX_WORDS_OF_ALL


def test_the_tour_is_a_tour():
    """Of options, the help of the commands says what they do; of a task, its page of docs/how-to/."""
    assert len((DOCS / "usage.md").read_text(encoding="utf-8").split()) <= MAX_WORDS_OF_THE_TOUR


def test_a_page_that_fails_is_a_failed_test_and_no_error_of_pytest(tmp_path):
    """An argument `page` is a file here, and what a browser shows in others, whose text conftest.py reports."""
    failing = tmp_path / "test_failing.py"
    failing.write_text(
        "import pytest\n@pytest.mark.parametrize('page', ['x.md'])\ndef test_it(page):\n    assert not page\n",
        encoding="utf-8",
    )
    words = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", "--rootdir", tmp_path]
    ended = subprocess.run([*words, failing], cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S)
    assert ended.returncode == pytest.ExitCode.TESTS_FAILED and "1 failed" in ended.stdout


# ---- docs/results.md, which is drawn from docs/results/*.json --------------------------------------------


MAX_WORDS_OF_RESULTS = 2_500


@pytest.fixture(scope="module")
def published():
    return published_parts()


def test_the_page_of_the_results_is_drawn_from_their_files(published):
    assert PAGE.read_text(encoding="utf-8") == results_page(published), "run python -m benchmarks draw"


def test_the_page_of_the_results_is_short_enough_to_be_read():
    assert 1_000 < len(PAGE.read_text(encoding="utf-8").split()) <= MAX_WORDS_OF_RESULTS


def test_every_table_is_on_one_page_of_the_site(published):
    """And a link to its file leads to the heading above it."""
    pages = {f"results/{group.place}.md": group_page(group, published) for group in GROUPS}
    for name, part in published.items():
        place, _, anchor = places(published)[f"results/{name}.json"].partition("#")
        assert f"\n## {part.title}\n" in pages[place] and anchor == part.anchor
        tables = [table for one in part.measurements for table in one.tables]
        assert tables and all(table.markdown in pages[place] for table in tables)


def test_every_part_is_named_on_the_page_of_the_results(published):
    links = LINK.findall(PAGE.read_text(encoding="utf-8"))
    assert {target for target, _ in links} == {f"results/{name}.json" for name in published}


def test_the_figures_of_gpus_are_those_of_their_runs(published):
    assert measured(benchmark("on_gpu"), RealModels()) == published["on_gpu"].measurements


def test_every_file_of_results_has_the_form_in_which_it_is_written():
    files = {file.name: file.read_text(encoding="utf-8") for file in PUBLISHED_FOLDER.iterdir()}
    assert files == {
        f"{name}.json": published_text(read_published(PUBLISHED_FOLDER / f"{name}.json")) for name in NAMES
    }


def test_every_claim_has_a_figure_and_what_speaks_against_it(published):
    claims = summary(published).rows
    assert len(claims) == len(CLAIMS) == 10
    assert all(re.search(r"\d", figure) and re.search(r"\d", against) for _, figure, against, _ in claims)


def test_every_row_of_the_results_says_of_what_it_is(published):
    tables = [table for part in published.values() for one in part.measurements for table in one.tables]
    assert len(tables) > 40 and all(row[0] for table in tables for row in table.rows)
