"""Small pieces that the pages share."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

import streamlit as st

from workbench.ir import Graph
from workbench.layout.profile import Profile
from workbench.summary import Summary
from workbench.ui.session import Opened, Spec
from workbench.view.picture import LOOKS, MARKS, MOST_BOXES, OWN, PLAIN, TARGET, Picture

_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>()#+\-.!|~$:^=&])")


def plain(text: str) -> str:
    """Text for a Streamlit element that reads Markdown: it shows just what stands in it."""
    return _MARKDOWN.sub(r"\\\1", " ".join(text.split()))


_STYLE = """<style>
.stMainBlockContainer {padding: 3.6rem 1.6rem 1rem 1.6rem; max-width: none;}
[data-testid="stSidebarUserContent"] {padding-top: 0.5rem;}
[data-testid="stVerticalBlock"] {gap: 0.55rem;}
[data-testid="stMetricValue"] {font-size: 1.35rem;}
[data-testid="stSidebar"] [data-testid="stHorizontalBlock"] {min-height: 0; gap: 0.1rem;}
</style>"""


def style() -> None:
    """An instrument, not a brochure: less air than Streamlit's own pages."""
    st.html(_STYLE)


def show_error(error: Exception | str) -> None:
    st.error(plain(str(error)), icon=":material/error:")


def header(opened: Opened, summary: Summary) -> None:
    """One line that says what is open."""
    inputs = ", ".join(f"{v.name} {v.bound}" for v in summary.inputs[:3])
    more = f" and {len(summary.inputs) - 3} more" if len(summary.inputs) > 3 else ""
    st.markdown(
        f"**{plain(opened.title)}**&ensp;·&ensp;{summary.nodes:,} nodes&ensp;·&ensp;"
        f"{summary.parameters / 1e6:,.2f} M parameters&ensp;·&ensp;{plain(inputs + more)}"
    )


@st.cache_data(show_spinner=False, hash_funcs={Graph: id}, max_entries=64)
def summary_of(graph: Graph) -> Summary:
    from workbench.summary import summarize

    return summarize(graph)


def legend(target: Profile) -> None:
    """The three layout colours, each with its border and words, and the three marks of a change."""
    chips = []
    borders = {OWN: "1px solid #555", TARGET: "2.5px solid #555", PLAIN: "1.5px dotted #555"}
    for kind in (OWN, TARGET, PLAIN):
        look = LOOKS[kind]
        words = f"{look.words} ({target.layout})" if kind == TARGET else look.words
        chips.append(
            f'<span style="background:{look.fill};border:{borders[kind]};color:#222;padding:1px 8px;'
            f'border-radius:3px;margin-right:10px;white-space:nowrap">{words}</span>'
        )
    for mark, (colour, words) in MARKS.items():
        style = "dashed" if mark == "-" else "solid"
        chips.append(
            f'<span style="border:2px {style} {colour};padding:0 8px;border-radius:3px;margin-right:10px;'
            f'white-space:nowrap">{"−" if mark == "-" else mark} {words}</span>'
        )
    st.html(f'<div style="font-size:0.8rem;line-height:2" role="note" aria-label="Legend">{"".join(chips)}</div>')


def picture(title: str, drawn: Picture, height: int = 560) -> None:
    """One pane with a graph; it scrolls."""
    note = "" if drawn.drawn == drawn.nodes else f", {drawn.drawn:,} of them drawn (a picture has at most {MOST_BOXES})"
    st.caption(f"{title}: {drawn.nodes:,} nodes{note}")
    with st.container(height=height, border=True):
        if drawn.nodes:
            st.graphviz_chart(drawn.dot, width="content")
        else:
            st.caption("No nodes are left: the outputs are inputs or constants.")


def command_of(opened: Opened, spec: Spec, output: str = "optimized.onnx", fix_dims: bool = False) -> str:
    """The same as a command."""
    words = ["python", "-m", "workbench", "optimize", opened.path, "-o", output]
    words += ["--passes", ",".join(name for name, _ in spec.passes) or "''", "--target", spec.target]
    for key, value in changed_options(spec).items():
        words += ["--option", f"{key}={value}"]
    if opened.graph.dims:
        words += ["--dims", ",".join(f"{name}={size}" for name, size in opened.graph.dims.items())]
    if fix_dims:
        words.append("--fix-dims")
    return " ".join(w if w == "''" else shlex.quote(w) for w in words)


def python_of(opened: Opened, spec: Spec, output: str = "optimized.onnx", fix_dims: bool = False) -> str:
    """The same as five lines of Python."""
    options = changed_options(spec)
    dims = f", dims={dict(opened.graph.dims)!r}" if opened.graph.dims else ""
    more = f", options={options!r}" if options else ""
    fixed = ", fix_dims=True" if fix_dims else ""
    names = [name for name, _ in spec.passes]
    return "\n".join(
        [
            "import workbench as wb",
            f"graph = wb.load({opened.path!r}{dims})",
            f"history = wb.optimize(graph, {names!r}, target={spec.target!r}{more})",
            "print(wb.verify(graph, history.graph).sentence)",
            f"wb.export(history.graph, {output!r}{fixed})",
        ]
    )


def changed_options(spec: Spec) -> Mapping[str, object]:
    """Options that are not at their defaults."""
    import passes as library

    defaults = {name: library.find_pass(name)().options() for name, _ in spec.passes}
    return {
        f"{name}.{key}": value
        for name, options in spec.passes
        for key, value in options
        if defaults[name][key] != value
    }


def warnings(messages: Sequence[str]) -> None:
    for message in messages:
        st.warning(plain(message), icon=":material/info:")
