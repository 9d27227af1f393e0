"""The page Precision: what operators lose in a narrower type, of the model as it is and of the result."""

from __future__ import annotations

import pytest

from tests.pages import fine, opened_sample, page


@pytest.mark.slow
def test_the_operator_that_loses_most_comes_first():
    at = fine(page("precision", opened_sample("ppocr_cls_v2")).run())
    assert not at.dataframe and "One run says" in at.caption[-1].value
    fine(at.button(key="precision_run").click().run())
    rows = at.dataframe[0].value.to_dict("records")
    assert set(rows[0]) == {"node", "operator", "alone", "cumulative", "max |value|"}
    sizes = [float(row["alone"]) for row in rows if row["alone"] not in ("overflows", "NaN", "not 0")]
    assert sizes == sorted(sizes, reverse=True) and len(rows) > 100
    assert rows[0]["node"] in at.markdown[-1].value.replace("\\", "")
    assert "in float16" in at.markdown[-1].value
    fine(at.selectbox(key="precision_type").set_value("bfloat16").run())
    assert not at.dataframe, "another type waits for a run of its own"
    fine(at.selectbox(key="precision_type").set_value("float16").run())
    assert at.dataframe, "and the first is kept"


@pytest.mark.slow
def test_a_model_without_such_operators_is_a_sentence():
    at = page("precision", opened_sample("silero_vad")).run()
    at.selectbox(key="precision_type").set_value("float16")
    at.button(key="precision_run").click().run()
    assert not at.exception
