"""The published figures as data: what the app shows of them for the open model, and files that cannot be read."""

from __future__ import annotations

import json

import onnx
import pytest

from tests.browser import settle, watched_page
from tests.conftest import ROOT
from tests.pages import fine, opened_file, opened_sample, page, words
from workbench.errors import MAX_SENTENCE
from workbench.run.records import published
from workbench.run.records.published import PublishedError, published_about, read_published

VERIFIED = published.PUBLISHED_FOLDER / "verified.json"
LABEL = "Published figures"


@pytest.fixture(scope="module")
def renamed(tmp_path_factory):
    """A sample under a name of which nothing is published, and under one that only begins as a published one."""
    folder = tmp_path_factory.mktemp("renamed")
    model = onnx.load(ROOT / "sample_models" / "conv_relu_conv_relu.onnx")
    for name in ("mine", "conv_relu"):
        onnx.save(model, folder / f"{name}.onnx")
    return folder


def shown(at):
    return [expander for expander in at.expander if expander.label == LABEL]


@pytest.mark.slow
def test_measure_shows_the_published_rows_of_the_open_model_with_their_machine_and_date():
    (expander,) = shown(fine(page("run", opened_sample("conv_relu_conv_relu")).run()))
    tables = [one.value.splitlines() for one in expander.markdown if one.value.startswith("|")]
    files = [file.read_text(encoding="utf-8") for file in published.PUBLISHED_FOLDER.iterdir()]
    rows = [row for _, _, *rows in tables for row in rows]
    assert rows and all("conv_relu_conv_relu" in row for row in rows)
    assert all(any(json.dumps(row[2:-2].split(" | "), ensure_ascii=False) in file for file in files) for row in rows)
    (head,) = [head for head, _, *rows in tables if rows[0].startswith("| `optimize --no-verify`, ")]
    assert "| file (MB) | seconds: median (min to max) | peak (MB) |" in head

    (engine,) = [part for part in published_about("conv_relu_conv_relu") if part.name == "engine"]
    said = [caption.value.replace("\\", "") for caption in expander.caption]
    assert all(
        one.origin in said and one.date in one.origin and one.machine in one.origin for one in engine.measurements
    )
    assert any("docs/results/engine.json" in one.value for one in expander.markdown)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mine", "conv_relu"])
def test_measure_says_nothing_of_a_model_of_which_nothing_is_published(renamed, name):
    at = fine(page("run", opened_file(renamed / f"{name}.onnx")).run())
    assert not shown(at) and "docs/results" not in words(at)


@pytest.mark.parametrize(
    ("part", "instead"),
    [
        ("{", ""),  # not JSON
        ('"title": "The cost of verification",', ""),
        ('"not verified (CPU s)",', ""),  # a column less than cells
        ('"0.67"', "0.67"),  # a number, whose digits JSON does not keep
        ('"date": "2026-11-22"', '"date": null'),
    ],
)
def test_a_file_that_is_not_as_it_was_written_is_refused_in_one_sentence(part, instead, tmp_path):
    text = VERIFIED.read_text(encoding="utf-8")
    assert part in text
    file = tmp_path / "verified.json"
    file.write_text(text.replace(part, instead, 1), encoding="utf-8")
    with pytest.raises(PublishedError, match=r"verified\.json") as refused:
        read_published(file)
    assert len(str(refused.value)) <= MAX_SENTENCE and "\n" not in str(refused.value)


@pytest.mark.slow
def test_measure_says_in_a_sentence_that_the_figures_cannot_be_read(tmp_path, monkeypatch):
    (tmp_path / "verified.json").write_text("{", encoding="utf-8")
    monkeypatch.setattr(published, "PUBLISHED_FOLDER", tmp_path)
    at = page("run", opened_sample("conv_relu_conv_relu")).run()
    (error,) = at.error
    assert not at.exception and "verified" in error.value and "restore it" in error.value
    assert [button.label for button in at.button if button.label == "Measure"]  # the page can be used


def test_a_folder_in_place_of_a_file_is_refused(tmp_path):
    with pytest.raises(PublishedError, match="cannot be read"):
        read_published(tmp_path)


@pytest.mark.slow
@pytest.mark.browser
def test_wide_tables_scroll_in_their_own_place_on_a_phone(browser, app):
    with watched_page(browser) as tab:
        tab.set_viewport_size({"width": 390, "height": 768})
        tab.goto(f"{app[0]}/run?model=sample_models/silero_vad.onnx")
        settle(tab)
        tab.get_by_text(LABEL).click()
        tab.get_by_role("cell", name="silero_vad").first.wait_for()
        widths = tab.evaluate("""[".st-key-published", "[data-testid=stMain]"].map(name => {
            const { scrollWidth, clientWidth } = document.querySelector(name);
            return scrollWidth - clientWidth;
        })""")
        assert widths[0] > 0 and widths[1] <= 0
