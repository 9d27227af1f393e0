"""The page Compare: another file beside the open one, what corresponds and what does not."""

from __future__ import annotations

from tests.pages import drawn, fine, opened_sample, page, words
from workbench.io.samples import FOLDER
from workbench.ui.state.session import open_other


def test_what_corresponds_is_counted_and_what_does_not_is_listed():
    opened = opened_sample("conv_relu_conv_relu")
    open_other(opened, str(FOLDER / "npu_reshape_add.onnx"))
    at = fine(page("compare", opened).run())
    assert "only in the first" in words(at) or "only in the second" in words(at)
    counts, unmatched = (table.value.to_dict("records") for table in at.dataframe)
    assert [row["nodes"] for row in counts] == [len(opened.graph), len(opened.other.graph)]
    assert len(unmatched) == sum(row["only here"] for row in counts) > 0
    scene = drawn(at)["scene"]
    assert scene["pair"] == 1 and [step["title"] for step in scene["steps"]] == [
        opened.title,
        "npu_reshape_add.onnx",
    ]
    assert "--against" in at.code[0].value


def test_a_file_against_itself_has_nothing_unmatched():
    opened = opened_sample("npu_path")
    open_other(opened, opened.path)
    at = fine(page("compare", opened).run())
    assert len(at.dataframe) == 1
    scene = drawn(at)["scene"]
    assert all(version[1] > 1 for box in scene["boxes"] for version in box["v"]), "nothing goes"


def test_a_link_opens_the_other_file_and_says_what_is_wrong_with_it():
    at = page("compare", opened_sample("npu_path"))
    at.query_params["other"] = str(FOLDER / "conv_relu_conv_relu.onnx")
    assert len(fine(at.run()).dataframe) >= 1
    at = page("compare", opened_sample("npu_path"))
    at.query_params["other"] = "/no/such/file.onnx"
    at.run()
    assert not at.exception
    assert "there is no such file" in at.error[0].value
    assert "upload another model" in words(at)


def test_it_starts_with_the_original_beside_the_result():
    opened = opened_sample("ppocr_cls_v2")
    at = fine(page("compare", opened).run())
    assert not at.dataframe and "Optimize the open model to see its result beside it" in words(at)
    fine(page("optimize", opened).run())
    at = fine(page("compare", opened).run())
    rows = at.dataframe[0].value.to_dict("records")
    graphs = (opened.graph, opened.history.graph)
    assert [(row["file"], row["nodes"]) for row in rows] == [("original", len(graphs[0])), ("result", len(graphs[1]))]
    assert [row["corresponding"] + row["only here"] for row in rows] == [*map(len, graphs)]
    assert [step["title"] for step in drawn(at)["scene"]["steps"]] == ["original", "result"]

    at.query_params["other"] = str(FOLDER / "conv_relu_conv_relu.onnx")  # a link to another file is not lost
    fine(at.run())
    assert drawn(at)["scene"]["steps"][1]["title"] == "conv_relu_conv_relu.onnx"
    fine(at.button(key="compare_whole").click().run())
    assert drawn(at)["scene"]["steps"][1]["title"] == "result" and "other" not in at.query_params
