"""The page Workshop: from the text of a new pass to one that is accepted, saved, and used on Optimize."""

import pytest
from streamlit import config

import passes
from tests.browser import guarded, running_app, select, settle
from tests.conftest import ROOT
from tests.pages import fine, history, opened_file, page, words
from workbench.errors import UserError
from workbench.evidence.verification.pass_files.example_graphs import typed
from workbench.evidence.verification.pass_files.pass_template import new_pass_text
from workbench.formats.io.exporting import export_onnx
from workbench.interfaces.ui.state import workshop
from workbench.interfaces.ui.widgets.file_drop import why_no_pass

MODEL = "g (float[2] x) => (float[2] y) { a = Neg(x)  b = Abs(a)  c = Relu(b)  y = Abs(c) }"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    folder = tmp_path / "mine"
    monkeypatch.setenv("WORKBENCH_PASSES", str(folder))
    return folder


@pytest.fixture
def at(folder, tmp_path):
    export_onnx(typed(MODEL), tmp_path / "m.onnx")
    return fine(page("workshop", opened_file(tmp_path / "m.onnx")).run())


def text(at):
    return at.text_area(key="workshop_text").value


def write(at, *changes):
    """Change the text on the page, and run what the page then does."""
    result = text(at)
    for before, after in changes:
        assert before in result
        result = result.replace(before, after)
    return at.text_area(key="workshop_text").set_value(result).run()


def checks(at):
    """The table of the tests: the mark of each check and what it says."""
    return {row["check"]: (row[""], row["in words"]) for row in at.dataframe[0].value.to_dict("records")}


def show(at, name):
    return at.segmented_control(key="workshop_shows").set_value(name).run()


def failures(at):
    return {check for check, (mark, _) in checks(at).items() if mark == "FAILED"}


@pytest.mark.slow
def test_from_the_first_text_to_a_pass_that_is_accepted_and_used(at, folder):
    assert "A pass is code: it runs as you" in words(at)
    assert "All 10 checks passed." in words(at)

    write(at, ("relu(relu(x)) == relu(x)", "abs(-x) == x"))
    assert "checks failed" in words(at) and "The pass does nothing there" in words(at)
    write(
        at,
        ("a = Relu(x)  b = Relu(a)  y = Neg(b)", "a = Neg(x)  y = Abs(a)"),
        ("a = Neg(x)  y = Relu(a)", "a = Relu(x)  y = Abs(a)"),
    )
    mark, said = checks(at)["law of 'second'"]
    assert mark == "FAILED" and "abs(-x) == x is wrong for integers (int8): with x = -" in said
    write(
        at,
        ("abs(-x) == x", "for signed integers and floats: abs(-x) == abs(x)"),
        ("a = Relu(x)  y = Neg(a)", "y = Abs(x)"),
        ("Relu 'Relu_b' changes nothing after Relu 'Relu_a'", "Abs 'Abs_y' changes nothing after Neg 'Neg_a'"),
        ("Relu 'Relu_y' does not follow a Relu", "Abs 'Abs_y' does not follow a Neg"),
    )
    mark, said = checks(at)["declarations"]
    assert (
        mark == "FAILED" and "docstrings still say what `new-pass` wrote: A Relu of a Relu equals the first.;" in said
    )
    write(
        at,
        ("A Relu of a Relu equals the first.", "The sign of a number makes no difference to its absolute value."),
        ("a Relu whose operand is the result of a Relu is removed.", "a Neg whose result an Abs reads is left out."),
        ("Does not apply to a Relu after any other operator.", "Does not apply to an Abs after any other operator."),
        ("idempotence, relu(relu(x)) = relu(x).", "abs(-x) = abs(x)."),
    )
    fine(at)
    assert "All 10 checks passed." in words(at), checks(at)

    fine(show(at, "On the open model"))
    fine(at.button(key="try_pass").click().run())
    assert "It considered 3, acted on 1, refused 2; 4 nodes become 3 nodes" in words(at).replace("\\", "")
    assert "Equal to the last bit" in at.success[0].value
    assert at.dataframe[0].value["reason"].tolist() == ["Abs '…' does not follow a Neg"]
    assert "Law: for signed integers" in fine(show(at, "In words")).code[0].value

    at.text_input(key="workshop_name").set_value("abs_of_neg").run()
    fine(at.button(key="save_pass").click().run())
    assert (folder / "abs_of_neg.py").read_text() == text(at)
    assert passes.find_pass("abs_of_neg").title == "My pass"
    on_optimize = page("optimize", at.session_state["opened"])
    fine(on_optimize.run())
    fine(on_optimize.checkbox(key="on_abs_of_neg").set_value(True).run())
    assert "abs_of_neg" in [step.pass_name for step in history(on_optimize).steps]


@pytest.mark.slow
def test_a_file_that_changes_on_disk_is_read_again_unless_it_was_changed_here_too(at, folder):
    fine(at.button(key="save_pass").click().run())
    file = folder / "my_pass.py"
    file.write_text(file.read_text().replace("My pass", "My second pass"))
    fine(at.run())
    assert "My second pass" in text(at) and "was read again" in words(at)

    write(at, ("My second pass", "Mine"))
    file.write_text(file.read_text().replace("My second pass", "My third pass"))
    fine(at.run())
    assert "Mine" in text(at) and "saving it replaces the file's" in words(at)
    fine(at.button(key="save_pass").click().run())
    assert "Mine" in file.read_text()

    file.unlink()
    fine(at.run())
    assert "is gone; its text is still here" in words(at) and "Mine" in text(at)


@pytest.mark.slow
def test_a_text_that_does_not_run_is_one_sentence_with_its_line(at):
    write(at, ("Exactness.BIT_EXACT", "Exactness.BITS"))
    (error,) = at.error
    assert error.value.replace("\\", "").startswith("my_pass.py, line 38: AttributeError")


@pytest.mark.slow
def test_saving_replaces_no_other_file_and_takes_no_name(at, folder):
    folder.mkdir()
    (folder / "other.py").write_text("kept")
    for name, said in (
        ("other", "exists already"),
        ("cancel_pairs", "already; choose another name"),
        ("../x", "cannot be the name of a pass"),
    ):
        at.text_input(key="workshop_name").set_value(name).run()
        at.button(key="save_pass").click().run()
        assert any(said in error.value.replace("\\", "") for error in at.error), name
    assert [file.name for file in folder.iterdir()] == ["other.py"] and (folder / "other.py").read_text() == "kept"


@pytest.mark.slow
def test_a_dropped_file_is_shown_as_a_new_pass(at):
    given = new_pass_text("from_a_colleague").encode()
    fine(at.get("file_uploader")[0].upload("from_a_colleague.py", given, "text/x-python").run())
    assert at.text_input(key="workshop_name").value == "from_a_colleague"
    assert "class FromAColleague(Pass)" in text(at)
    write(at, ("From a colleague", "Mine"))
    at.get("file_uploader")[0].upload("other.py", given, "text/x-python").run()
    assert "is not shown, since the text here is not saved" in at.error[0].value.replace("\\", "")
    assert 'title = "Mine"' in text(at)


@pytest.mark.slow
def test_a_pass_that_is_broken_later_leaves_optimize_working(folder, at):
    fine(at.button(key="save_pass").click().run())
    optimize = page("optimize", at.session_state["opened"])
    fine(optimize.run())
    assert optimize.checkbox(key="on_my_pass").value is False
    (folder / "my_pass.py").write_text("x = (\n")
    optimize.run()
    assert not optimize.exception
    (error,) = optimize.error
    assert "line 1: it is not Python" in error.value.replace("\\", "")


@pytest.mark.parametrize("allowed", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_where_other_machines_reach_the_app_the_page_says_what_allows_it(folder, tmp_path, monkeypatch, allowed):
    before = config.get_option("server.address")
    if allowed:
        monkeypatch.setenv("WORKBENCH_WORKSHOP", "run-code-of-anyone")
    config.set_option("server.address", "0.0.0.0")
    try:
        at = page("workshop", opened_file(ROOT / "sample_models" / "conv_relu_conv_relu.onnx"))
        fine(at.run())
    finally:
        config.set_option("server.address", before)
    assert bool(at.text_area) is allowed
    if not allowed:
        config.set_option("server.address", "0.0.0.0")
        assert why_no_pass(["mine.py"]) == (
            "'mine.py' is Python, not a model, and no pass can be written in this app; drop a model"
        )
        config.set_option("server.address", before)
        assert why_no_pass(["mine.py"]) == "" and "drop one .py file" in why_no_pass(["a.py", "b.py"])
        (info,) = at.info
        assert "WORKBENCH_WORKSHOP=run-code-of-anyone" in info.value.replace("\\", "")
        assert "a pass is code that runs on this machine" in info.value


def drafted(tmp_path, does: str, where: str = "rules_of_run") -> workshop.PassDraft:
    """The draft of a pass that does this in a function, or when the file is run."""
    text = new_pass_text("mine").replace("from dataclasses", "import os\nfrom dataclasses")
    text = f"{text}\n\n{does}\n" if where == "file" else f"{text}\n    def {where}(self):\n        {does}\n"
    file = tmp_path / "mine.py"
    file.write_text(text)
    return workshop.run_draft(("mine", text), file, lambda *_: None)


@pytest.mark.parametrize(
    ("does", "where", "said"),
    [
        ("os._exit(1)", "rules_of_run", "the pass and its examples ended the process with code 1"),
        pytest.param("os._exit(0)", "file", "ended the process with code 0", marks=pytest.mark.slow),
        pytest.param("os.kill(os.getpid(), 11)", "file", "crashed with SIGSEGV", marks=pytest.mark.slow),
        pytest.param("while True: pass", "file", "took more than 6 s; look for a loop", marks=pytest.mark.slow),
        pytest.param("while True: pass", "rules_of_run", "took more than 6 s; look for a loop", marks=pytest.mark.slow),
        pytest.param("while True: print('x' * 9999)", "rules_of_run", "took more than 6 s", marks=pytest.mark.slow),
    ],
)
def test_a_draft_that_ends_its_process_or_never_ends_is_one_sentence(does, where, said, tmp_path, monkeypatch):
    monkeypatch.setattr(workshop, "_EXAMPLES_LIMIT_S", 6.0)
    draft = drafted(tmp_path, does, where)
    assert said in draft.fault and "\n" not in draft.fault
    assert draft.ran is (where != "file")
    assert not draft.examples


@pytest.mark.slow
def test_a_draft_may_print_and_its_examples_are_drawn(tmp_path):
    draft = drafted(
        tmp_path, "os.write(1, b'{\"subject\": 1}\\n' * 100_000); print('x' * 1_000_000); return self.rules"
    )
    assert not draft.fault and draft.ran
    (example,) = draft.examples
    assert (example.subject, example.fault) == ("example of 'second'", "")
    assert "Relu" in example.after and example.sentences


@pytest.mark.slow
def test_a_draft_that_never_ends_leaves_the_page_working_and_is_not_saved(at, folder, monkeypatch):
    monkeypatch.setattr(workshop, "_EXAMPLES_LIMIT_S", 6.0)
    write(at, ("from dataclasses", "while True: pass\nfrom dataclasses"))
    (error,) = at.error
    assert "took more than 6 s; look for a loop that does not end" in error.value
    assert at.button(key="save_pass").disabled and not at.exception
    monkeypatch.undo()
    write(at, ("while True: pass\n", ""))
    assert "All 10 checks passed." in words(fine(at))
    assert not at.button(key="save_pass").disabled


@pytest.mark.slow
@pytest.mark.parametrize(
    ("does", "said"),
    [
        ("os._exit(0)", "the tests ended the process with code 0"),
        pytest.param("while True: pass", "the tests took more than 8 s; look for a loop", marks=pytest.mark.slow),
    ],
)
def test_tests_that_end_their_process_or_never_end_are_one_sentence(does, said, tmp_path, monkeypatch):
    monkeypatch.setattr(workshop, "_LIMIT_S", 8.0)
    file = tmp_path / "mine.py"
    text = new_pass_text("mine").replace("from dataclasses", "import os\nfrom dataclasses")
    file.write_text(f"{text}\n    def rules_of_run(self):\n        {does}\n")
    with pytest.raises(UserError, match=said):
        workshop.run_checks(file, lambda *_: None)


@pytest.mark.slow
@pytest.mark.browser
def test_in_a_browser_a_file_that_another_editor_saves_is_shown_by_itself(browser, folder):
    folder.mkdir()
    file = folder / "mine.py"
    file.write_text(new_pass_text("mine"))
    with running_app() as (address, _), guarded(browser, address) as tab:
        tab.goto(f"{address}/workshop?model=sample_models/conv_relu_conv_relu.onnx")
        settle(tab)
        tab.get_by_text("checks passed").wait_for()
        select(tab, tab.locator(".st-key-workshop_file"), "mine")
        file.write_text(file.read_text().replace("relu(relu(x)) == relu(x)", "relu(relu(x)) == x"))
        tab.get_by_text("checks failed").wait_for()
        assert "relu(relu(x)) == x" in tab.locator(".st-key-workshop_text textarea").input_value()
        file.write_text(new_pass_text("mine"))
        tab.get_by_text("checks passed").wait_for()
