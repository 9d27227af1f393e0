"""Small helpers of the app's tests: a page without a browser, a model opened in it, and what stands there."""

from __future__ import annotations

import base64
import functools
import gzip
import json
from pathlib import Path

from streamlit.components.v2 import manifest_scanner
from streamlit.testing.v1 import AppTest

import passes as library
from tests.waiting import LIMIT_S
from workbench.evidence.verification.verifier import Verifier
from workbench.formats.io import load_model
from workbench.formats.io.samples import samples
from workbench.interfaces.ui.state import session
from workbench.interfaces.ui.state.session import Opened
from workbench.interfaces.ui.widgets.steps import WHOLE
from workbench.rewrite import History
from workbench.run.verdict_words import verdict_label

# Streamlit looks through all installed packages for components: once a process of its server, at each run of a test.
manifest_scanner.scan_component_manifests = functools.cache(manifest_scanner.scan_component_manifests)
STRATEGIES = tuple(library.compared_strategies())


_ELSEWHERE = dict.fromkeys(("export", "workshop", "compare_tools", "tune", "extract"), "None")


def page(name: str, opened: Opened | None = None) -> AppTest:
    """One page, with a model already opened or the first sample."""
    at = AppTest.from_string(
        f"from workbench.interfaces.ui.screens.{name}_page import {name}_page; {name}_page({_ELSEWHERE.get(name, '')})",
        default_timeout=LIMIT_S,
    )
    if opened is not None:
        at.session_state["opened"] = opened
    if name == "optimize":  # a short list of passes, the last step of it, and all controls unfolded
        at.session_state["preset"], at.session_state["whole"] = "normalize", False
        for folded in ("advanced", "other_passes", "pass_options"):
            at.session_state[folded] = True
    if name in ("optimize", "layouts"):  # a target whose layouts are not the models' own
        at.session_state["target"] = "cuda"
    return at


def opened_sample(stem: str) -> Opened:
    sample = next(s for s in samples() if s.file.stem == stem)
    return opened_file(sample.file, sample.dims, sample.title)


def opened_file(path: Path, dims=None, title: str | None = None) -> Opened:
    graph = load_model(path, dims)
    return Opened(
        title or path.name, str(path), graph, Verifier(graph, worker=session.worker(), given=tuple(dims or ()))
    )


def fine(at: AppTest) -> AppTest:
    assert not at.exception, [e.message for e in at.exception]
    assert not at.error, [e.value for e in at.error]
    return at


def steps(at: AppTest) -> list[dict]:
    """The table of the steps that changed something on Optimize, a dict a row."""
    at.segmented_control(key="view").set_value("Steps").run()
    rows = at.dataframe[0].value.to_dict("records")
    at.segmented_control(key="view").set_value("Graph").run()
    return rows


def history(at: AppTest) -> History:
    """The history of the model that is open."""
    return at.session_state["opened"].history


def compared(at: AppTest) -> AppTest:
    """The page when every step of its history has been compared, or one has failed."""
    checking = at.session_state["opened"].checking
    if checking is not None:
        checking.wait(LIMIT_S)
        at.run()
    return at


def verdicts(at: AppTest) -> set[str]:
    """What every step of the history was found to be, whether the page has drawn it yet or not."""
    checking = at.session_state["opened"].checking
    if checking is not None:
        checking.wait(LIMIT_S)
    return {verdict_label(step.verdict.ok) for step in history(at).steps[1:]}


def optimize(stem: str = "conv_relu_conv_relu") -> AppTest:
    """Optimize as a new session has it."""
    at = page("optimize", opened_sample(stem))
    for key in ("preset", WHOLE):
        del at.session_state[key]
    return fine(at.run())


def words(at: AppTest) -> str:
    """Everything that stands in text on the page."""
    places = (*at.markdown, *at.caption, *at.error, *at.warning, *at.info, *at.success)
    return "\n".join(element.value for element in places)


def drawn(at: AppTest) -> dict:
    """What the page's graph view was given, its scene unpacked."""
    given = [json.loads(component.proto.json) for component in at.get("bidi_component")]
    (data,) = (data for data in given if "scene" in data)  # the address bar is a component too
    return {**data, "scene": json.loads(gzip.decompress(base64.b64decode(data["scene"])))}


def looks(at: AppTest) -> list[dict]:
    """What the boxes of the page's graph view look like, at any moment."""
    return drawn(at)["scene"]["looks"]


def through_optimize(stem: str, *settings: tuple[str, str]) -> AppTest:
    at = fine(page("optimize", opened_sample(stem)).run())
    for key, value in settings:
        widget = at.radio(key=key) if key == "strategy" else at.selectbox(key=key)
        fine(widget.set_value(value).run())
    return at
