"""Export as a compiled package of torch."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.pages import fine, opened_sample, page, words
from tests.test_compile import compiles
from workbench.interfaces.ui.state import histories
from workbench.interfaces.ui.state.session import Spec
from workbench.pipeline.registry.pass_choice import choose
from workbench.planning.layout.profile import load_profile

CHECK = """
import sys, torch
run = torch._inductor.aoti_load_package(sys.argv[1])
(result,) = run(torch.zeros(*map(int, sys.argv[2].split(","))))
print(list(result.shape))
"""


def opened_package(*passes):
    opened = opened_sample("conv_relu_conv_relu")
    if passes:
        spec = Spec(choose(list(passes)), load_profile("cuda"))
        histories.history_of(opened, spec, lambda *_: None)
    at = fine(page("export", opened).run())
    return opened, fine(at.radio(key=f"write_{opened.number}").set_value("Compiled torch package (.pt2)").run())


@pytest.mark.slow
def test_the_package_and_its_device_are_offered_beside_onnx():
    opened, at = opened_package()
    assert at.selectbox(key=f"package_device_{opened.number}").value == "cpu"
    assert "not compiled yet" in words(at)
    out = "conv_relu_conv_relu.as-loaded"
    assert f"workbench package {out}.onnx -o {out}.pt2 --device cpu" in at.code[0].value
    assert f"wb.package(history.graph, '{out}.pt2', device='cpu')" in at.code[1].value
    at.radio(key=f"write_{opened.number}").set_value("ONNX, this result").run()
    assert "package" not in at.code[-2].value and at.get("download_button")


def test_without_a_compiler_the_page_says_so(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    _, at = opened_package()
    at.button(key="compile_package").click().run()
    assert not at.exception and "there is no C++ compiler 'no-such-compiler'" in at.error[0].value.replace("\\", "")


@compiles
@pytest.mark.slow
def test_the_package_is_made_and_loads_where_torch_is_alone(tmp_path):
    _, at = opened_package("layout_greedy")
    fine(at.button(key="compile_package").click().run())
    assert "In a process with only torch, compared with ONNX Runtime: Equal" in at.success[-1].value.replace("\\", "")
    _, made, content = at.session_state["packaged"]
    assert made.call[1] in [code.value for code in fine(at.run()).code]  # it stays
    (tmp_path / "m.pt2").write_bytes(content)
    shape = made.inputs[0][1].partition("[")[2].rstrip("]")
    done = subprocess.run(
        [sys.executable, "-I", "-c", CHECK, tmp_path / "m.pt2", shape], capture_output=True, text=True, check=True
    )
    assert made.outputs[0][1].endswith(done.stdout.strip())
