"""Lessons: each that is shipped plays; every fault is a sentence with its line; a lesson is one HTML file."""

from __future__ import annotations

import math
import re
import tomllib
import zipfile
from functools import cache

import pytest

from passes import find_pass
from tests.conftest import ROOT
from tests.pages import drawn, fine
from tests.waiting import LIMIT_S
from workbench.errors import UserError
from workbench.formats.io.samples import FOLDER, samples
from workbench.interfaces.lessons import LessonError, find_lesson, play, read_lesson, shipped_lessons
from workbench.interfaces.lessons.exporting import inline_html, lesson_html

SATURATION = "saturation"  # needs a package that is an extra
NAMES = [lesson.name for lesson in shipped_lessons()]
WANTED = {  # by the documents: what the issue names
    "Why is there a transpose here?",
    "Greedy against record-then-insert",
    "The Reshape that must not be reached",
    "Two convolutions, two transposes",
    "Insert and cancel",
    "What may be folded, and what may not",
    "-0.0, NaN and the last bit",
}
FRONT = "---\ntitle: T\nmodel: npu_path.onnx\nprofile: npu\nstrategy: greedy\n---\n\n"
STOP = "## S\n\nmoment: greedy 1\nnode: output\n\n> K\n\nText.\n\nQuestion: Q?\nAnswer: A.\n"


def written(folder, text):
    file = folder / "lesson.md"
    file.write_text(text, encoding="utf-8")
    return file


# ---- shipped -----------------------------------------------------------------------------


@cache
def played_once(name):
    if name == SATURATION and find_pass("saturate_algebra").missing():
        pytest.skip(find_pass("saturate_algebra").missing())
    return play(find_lesson(name))


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_lesson_plays(name):
    lesson, stops = find_lesson(name), played_once(name)
    assert len(stops) == len(lesson.stops) >= 3
    assert lesson.about.endswith(".")
    for stop in stops:
        assert stop.stop.question.endswith("?") or "?" in stop.stop.question
        assert stop.stop.sentence.endswith(".")


@pytest.mark.parametrize("name", NAMES)
def test_every_stop_has_notes_and_each_number_in_them_is_that_of_its_graph(name):
    for played in played_once(name):
        stop = played.stop
        assert 1 <= len(re.findall(r"[.?](?= |$)", stop.notes)) <= 3, stop.title
        assert "usual wrong answer" in stop.notes, stop.title
        known = numbers_of(played)
        for left, right in re.findall(rf"({NUMBER}|\()([ \d.,()x+*/-]*? = {NUMBER})", f"{stop.answer} {stop.notes}"):
            computed, stated = f"{left}{right}".replace(",", "").replace("x", "*").split(" = ")
            assert eval(computed) == float(stated), (stop.title, computed, stated)
            known.add(float(stated))
        words = re.sub(r"\[[^]]*\]", "", stop.notes)  # without permutations
        said = {float(number.replace(",", "")) for number in re.findall(rf"(?<![\w.,]){NUMBER}(?!\w|\.\d)", words)}
        assert {number for number in said if number >= 100 and number.is_integer()} <= known, stop.title


NUMBER = r"\d(?:[\d,]*\d)?(?:\.\d+)?"


def numbers_of(played) -> set[float]:
    """What the picture can say: elements and bytes of values and weights, and the numbers in its sentences and title."""
    known = set()
    for graph in (played.history.before(played.step), played.graph):
        types = [graph.tensor_type(value) for node in graph.nodes for value in (*node.operands, *node.outputs)]
        counts = {math.prod(t.shape) for t in types if t and t.shape and all(isinstance(d, int) for d in t.shape)}
        known |= counts | {4 * count for count in counts}
    words = [rewrite.sentence for rewrite in played.history[played.step].rewrites]
    words += [played.picture.title, *played.picture.lines] if played.picture else []
    return known | {float(number.replace(",", "")) for number in re.findall(NUMBER, " ".join(words))}


def test_the_lessons_that_were_asked_for_are_there():
    assert {lesson.title for lesson in shipped_lessons()} >= WANTED
    assert len(set(NAMES)) == len(NAMES)


def test_every_sample_of_a_lesson_is_in_one():
    shown = {stop.pipeline.model for lesson in shipped_lessons() for stop in lesson.stops}
    listed = {str(one.file.relative_to(FOLDER)) for one in samples() if one.group != "Real networks"}
    assert listed - shown == {"npu_reshape_add.onnx"}  # npu_three_inputs is the figure to the last box


def test_the_lessons_are_in_the_wheel():
    table = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert (
        table["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]["inside"]["lessons"]
        == "workbench/lesson_files"
    )


# ---- faults ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("## S\n", 1, "must begin with front matter"),
        ("---\ntitle: T\n", 1, "must begin with front matter"),
        ("---\nmodel: npu_path.onnx\n---\n" + STOP, 1, "no 'title'"),
        ("---\ntitle: T\n---\n" + STOP, 1, "no 'model'"),
        (FRONT, 7, "there is no stop"),
        (FRONT.replace("profile: npu", "profil: npu") + STOP, 4, "no key 'profil' here; did you mean 'profile'?"),
        (
            FRONT.replace("profile: npu", "profile npu") + STOP,
            4,
            "'profile npu' is not a line of the form `key: value`",
        ),
        (FRONT.replace("profile: npu", "title: U") + STOP, 4, "'title' is given twice, first in line 2"),
        (FRONT + STOP.replace("> K\n", ""), 8, "the stop 'S' has no sentence; write its key sentence after >"),
        (FRONT + STOP.replace("Question: Q?\n", ""), 8, "the stop 'S' has no question"),
        (FRONT + STOP.replace("Answer: A.\n", ""), 8, "the stop 'S' has no answer"),
        (FRONT + STOP.replace("moment: greedy 1\n", ""), 8, "the stop 'S' has no moment"),
        (FRONT + STOP.replace("## S", "## "), 8, "the stop has no title"),
        (FRONT.replace("npu_path.onnx", "npu_pat.onnx") + STOP, 3, "did you mean 'npu_path.onnx'?"),
        (FRONT.replace("profile: npu", "profile: npx") + STOP, 4, "no target profile 'npx'; did you mean 'npu'?"),
        (FRONT.replace("strategy: greedy", "strategy: greed") + STOP, 5, "there is no layout strategy 'greed'"),
        (FRONT.replace("strategy: greedy", "mode: quick") + STOP, 5, "no mode 'quick'"),
        (FRONT.replace("strategy: greedy", "preset: quick") + STOP, 5, "no preset 'quick'"),
        (FRONT.replace("strategy: greedy", "passes: fold_batchnrm") + STOP, 5, "no pass 'fold_batchnrm'"),
        (FRONT.replace("strategy: greedy", "layouts: z=NHWC") + STOP, 5, "has no input 'z'"),
        (FRONT + STOP.replace("greedy 1", "greedi 1"), 10, "'greedi' is not a pass that runs here"),
        (FRONT + STOP.replace("greedy 1", "greedy 9"), 10, "has 2 rewrites here; write a number from 0 to 2"),
        (
            FRONT + STOP.replace("node: output", "node: outpu"),
            11,
            "no node 'outpu' at this moment of 'S'; did you mean 'output'?",
        ),
        (
            FRONT + STOP.replace("node: output", "frame: output, in:inpu"),
            11,
            "no node 'in:inpu' at this moment of 'S'; did you mean 'in:input'?",
        ),
        (FRONT + STOP.replace("node: output", "beside: nods"), 11, "no text 'nods'; did you mean 'nodes'?"),
        (FRONT + STOP.replace("node: output", "picture: film"), 11, "no picture 'film'"),
        (FRONT + STOP.replace("node: output", "picture: memory best"), 11, "no planner 'best'"),
        (FRONT + STOP.replace("node: output", "picture: memory exact up"), 11, "no execution order 'up'"),
        (FRONT + STOP.replace("node: output", "picture: elements input"), 11, "a picture has room for"),
        (FRONT + STOP.replace("node: output", "picture: elements q"), 11, "is not an image, kernel or matrix"),
        (
            FRONT + STOP + "Expect: count(op:Transpose) = 5\n",
            8,
            "'S' expects 5 of 'op:Transpose', but there are 2: to_nhwc_input, restore_output",
        ),
        (FRONT + STOP + "Expect: two Transposes\n", 8, "is not of the form `count(QUERY) = NUMBER`"),
        (FRONT + STOP + "Expect: count(shap:4) = 1\n", 8, "shap"),
    ],
)
def test_a_fault_is_a_sentence_with_its_file_and_line(tmp_path, run, text, line, words):
    file = written(tmp_path, text)
    with pytest.raises(LessonError) as caught:
        play(read_lesson(file))
    assert [(fault.file, fault.line) for fault in caught.value.faults] == [(str(file), line)]
    assert words in caught.value.faults[0].sentence
    code, said, _ = run("lesson", "check", file)
    assert code == 1 and said.startswith(f"{file}, line {line}: ") and said.count("\n") == 1


def test_all_faults_are_told_at_once_and_in_order(tmp_path):
    file = written(tmp_path, FRONT.replace("title: T", "titel: T") + STOP.replace("Answer: A.\n", ""))
    with pytest.raises(LessonError) as caught:
        read_lesson(file)
    assert [fault.line for fault in caught.value.faults] == [1, 2, 8]
    assert "and 2 more" in str(caught.value)


def test_a_file_that_is_not_there_is_a_sentence(refused, tmp_path):
    assert "cannot be read" in refused("lesson", "check", tmp_path / "none.md")
    assert "there is no lesson 'why'" in refused("lesson", "check", "why")
    assert "end 'l.txt' with .html" in refused("lesson", "export", "folding", "-o", "l.txt")


# ---- what a lesson says ------------------------------------------------------------------


def test_a_stop_takes_over_what_it_does_not_say_itself(tmp_path):
    other = STOP.replace("moment: greedy 1", "strategy: record-then-insert\nmoment: record-then-insert 1")
    first, second = play(read_lesson(written(tmp_path, FRONT + STOP + "\n" + other)))
    assert (first.history.steps[1].pass_name, second.history.steps[1].pass_name) == (
        "layout_greedy",
        "layout_record_then_insert",
    )
    assert first.stop.pipeline.profile == second.stop.pipeline.profile == "npu"
    assert (first.step, first.rewrites) == (1, 1)
    assert (first.stop.sentence, first.stop.text, first.stop.question, first.stop.answer) == ("K", "Text.", "Q?", "A.")


def test_a_stop_may_have_a_frame_a_text_and_notes_and_takes_its_text_from_the_lesson(tmp_path):
    front = FRONT.replace("strategy: greedy", "strategy: greedy\nbeside: nodes")
    other = (
        STOP.replace("node: output", "node: output\nframe: in:input, to_nhwc_input\nbeside:")
        + "Notes: Wait.\nFor it.\n"
    )
    first, second = play(read_lesson(written(tmp_path, front + STOP + "\n" + other)))
    assert first.text.before[0].startswith("output = Conv(input, ") and len(first.text.after) == 3
    assert (first.stop.frame, first.stop.notes) == ((), "")
    assert (second.stop.frame, second.stop.notes, second.text) == (
        ("in:input", "to_nhwc_input"),
        "Wait.\nFor it.",
        None,
    )
    assert second.stop.answer == "A."


def test_what_an_answer_says_of_its_graph_is_checked_and_not_shown(tmp_path):
    lesson = read_lesson(written(tmp_path, FRONT + STOP + "Expect: count(op:Transpose) = 2\n"))
    (stop,) = lesson.stops
    assert stop.expected == ("count(op:Transpose) = 2",) and "count" not in stop.answer
    assert len(play(lesson)) == 1


def test_a_colon_as_chinese_keyboards_write_it_ends_a_key(tmp_path):
    plain, wide = (written(tmp_path, FRONT + STOP.replace("A.", "A：B")) for _ in range(2))
    before = read_lesson(plain)
    wide.write_text(
        wide.read_text(encoding="utf-8").replace("title: ", "title：").replace("Answer: ", "Answer："), "utf-8"
    )
    after = read_lesson(wide)
    assert (after.title, after.stops[0].answer) == (before.title, "A：B"), "elsewhere it stays"


def test_a_model_may_lie_beside_its_lesson(tmp_path):
    (tmp_path / "mine.onnx").write_bytes((FOLDER / "npu_path.onnx").read_bytes())
    (stop,) = play(read_lesson(written(tmp_path, FRONT.replace("npu_path", "mine") + STOP)))
    assert stop.model == tmp_path / "mine.onnx"
    with pytest.raises(UserError, match="not this"):
        play(read_lesson(tmp_path / "lesson.md"), may_open=refuse)


def refuse(path: str) -> None:
    raise UserError(f"not this: {path}")


def test_the_elements_are_drawn_in_the_order_of_their_bytes():
    first, second, kernel = play(find_lesson("two_orders"))
    cells = [re.findall(r">([a-z]\d+)<", stop.picture.svg) for stop in (first, second, kernel)]
    nchw, nhwc = [f"{c}{i}" for c in "abc" for i in range(8)], [f"{c}{i}" for i in range(8) for c in "abc"]
    assert cells[:2] == [[*nchw, *nhwc], [*nhwc, *nchw]]
    assert cells[2][6:12] == ["a0", "b0", "a1", "b1", "a2", "b2"]


def test_emphasis_and_code_are_all_the_markup_there_is():
    assert inline_html("a **b** _c_ `d_e_f` <script>") == "a <b>b</b> <em>c</em> <code>d_e_f</code> &lt;script&gt;"


def test_a_lesson_is_one_file_without_a_network(tmp_path, done):
    said = done("lesson", "export", "why_a_transpose", "-o", tmp_path / "l.html")
    text = (tmp_path / "l.html").read_text()
    assert "open it in a browser" in said
    assert text.count("<section data-stop") == 5 * 5  # of each part of the page one a stop
    assert not re.search(r"""(?:src|href)=["']?http""", text)
    lesson = find_lesson("why_a_transpose")
    assert lesson_html(lesson, play(lesson)) == text
    assert "The next lesson is: The Reshape that must not be reached" in text
    assert "why_a_transpose: Why is there a transpose here?" in done("lesson", "list")


@pytest.mark.slow
def test_all_lessons_are_a_zip_of_files_that_lead_to_each_other(tmp_path, done, refused):
    assert "end 'l.html' with .zip" in refused("lesson", "export", "all", "-o", "l.html")
    assert "open its first file" in done("lesson", "export", "all", "-o", tmp_path / "l.zip")
    with zipfile.ZipFile(tmp_path / "l.zip") as archive:
        names = archive.namelist()
        assert {entry.external_attr >> 16 & 0o777 for entry in archive.infolist()} == {0o644}
        texts = [archive.read(name).decode() for name in names]
    assert names == sorted(names) and len(names) == len(NAMES)
    for text, following in zip(texts, names[1:], strict=False):
        assert f'<a href="{following}">' in text
    assert "This was the last lesson." in texts[-1]


# ---- the page ----------------------------------------------------------------------------


def words(at) -> str:
    """Everything that stands on the page, also as HTML."""
    return "\n".join([*(element.value for element in at.markdown), *(html.proto.body for html in at.get("html"))])


def lessons_page(**query):
    from streamlit.testing.v1 import AppTest

    at = AppTest.from_string(
        "from workbench.interfaces.ui.screens.lessons_page import lessons_page; lessons_page()", default_timeout=LIMIT_S
    )
    for key, words in query.items():
        at.query_params[key] = words
    return at


@pytest.mark.slow
def test_the_page_lists_the_lessons_and_begins_one():
    at = fine(lessons_page().run())
    assert words(at).count('class="wb-picture"') == len(NAMES)
    assert "6 stops, about 6 minutes" in words(at)
    fine(at.button(key="begin_folding").click().run())
    assert at.query_params["lesson"] in ("folding", ["folding"])
    assert "stop 1 of 6" in words(at)


@pytest.mark.slow
def test_a_stop_shows_its_moment_its_node_and_then_its_answer():
    at = fine(lessons_page(lesson="why_a_transpose", stop="2").run())
    found = drawn(at)
    assert (found["at"]["step"], found["at"]["rewrite"], found["show"]["id"]) == (1, 1, "to_nhwc_input")
    assert (found["player"], found["show"]["frame"]) == (True, [])
    assert "Nothing: " not in words(at)
    fine(at.button(key="lesson_answer").click().run())
    assert "Nothing: " in words(at)
    fine(at.button(key="lesson_next").click().run())
    assert drawn(at)["at"]["rewrite"] == 2 and "Nothing: " not in words(at)
    fine(at.button(key="lesson_next").click().run())
    assert drawn(at)["show"]["frame"] == ["to_nhwc_input", "output", "restore_output"]


@pytest.mark.slow
def test_after_the_last_stop_comes_the_next_lesson_and_after_the_last_lesson_the_list(tmp_path):
    at = fine(lessons_page(lesson="why_a_transpose", stop="5").run())
    assert at.button(key="lesson_next").label == "Next lesson"
    fine(at.button(key="lesson_next").click().run())
    assert "stop 1 of 4" in words(at)
    assert at.query_params["lesson"] in ("the_reshape", ["the_reshape"])
    own = fine(lessons_page(lesson=str(written(tmp_path, FRONT + STOP))).run())
    assert own.button(key="lesson_next").label == "All lessons"
    fine(own.button(key="lesson_next").click().run())
    assert own.button(key="begin_folding")


def test_presenting_shows_the_notes_and_goes_on_over_stops_and_lessons():
    at = fine(lessons_page(lesson="why_a_transpose", stop="5").run())
    fine(at.button(key="lesson_present").click().run())
    assert at.query_params["present"] in ("1", ["1"])
    fine(at.button(key="lesson_back").click().run())
    assert "The sizes stand on the arrows" in words(at)
    fine(at.button(key="lesson_notes").click().run())
    assert "The sizes stand on the arrows" not in words(at)
    for _ in range(2):
        fine(at.button(key="lesson_next").click().run())
    assert "stop 1 of 4" in words(at) and "wb-clock" in words(at)
    fine(at.button(key="lesson_leave").click().run())
    assert "present" not in at.query_params and "wb-clock" not in words(at)


def test_a_lesson_on_algebra_has_the_expressions_before_and_after():
    at = fine(lessons_page(lesson="algebra", stop="5").run())
    assert "y = x * a + z * a" in words(at) and "y = (x + z) * a" in words(at)


@pytest.mark.parametrize("late", [True, False])
def test_a_run_that_was_asked_for_before_a_turn_does_not_take_it_back(late, monkeypatch):
    """The browser's Back, later, does."""
    monkeypatch.setattr("workbench.interfaces.ui.screens.lessons_page._LATE_S", 1000.0 if late else 0.0)
    at = fine(lessons_page(lesson="why_a_transpose", stop="1").run())
    fine(at.button(key="lesson_next").click().run())
    assert "stop 2 of 5" in words(at)
    at.query_params["stop"] = "1"  # as a browser sends it that has not heard of the turn
    fine(at.run())
    assert f"stop {2 if late else 1} of 5" in words(at)


def test_a_link_to_a_lesson_that_does_not_play_is_one_sentence(tmp_path):
    at = lessons_page(lesson=str(written(tmp_path, FRONT + STOP.replace("greedy 1", "greedy 9")))).run()
    (error,) = at.error
    assert "line 10" in error.value and not at.exception
