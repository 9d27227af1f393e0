"""Write docs/screenshots/*.png from the running app: `python docs/make_screenshots.py`. Needs a Chromium."""

import contextlib
import os
import sys
import tempfile
from pathlib import Path

MEASUREMENTS = 8  # at most, of the card while the machine is busy: the browser's painting is work too
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))


def main() -> None:
    """The pages in the order of the data, on the first sample; then the figure of LayoutPresetToNPU."""
    from tests.browser import (
        SCREEN,
        GraphView,
        choose_strategy,
        chromium,
        go,
        open_advanced,
        running_app,
        settle,
        show_last_step,
        watched_page,
    )

    folder = HERE / "screenshots"
    folder.mkdir(exist_ok=True)
    os.environ["WORKBENCH_CACHE"] = tempfile.mkdtemp(prefix="screenshots-")  # nobody's own runs are shown
    os.environ["WORKBENCH_PASSES"] = tempfile.mkdtemp(prefix="screenshots-")
    with running_app() as (address, _), chromium() as browser, contextlib.ExitStack() as rooms:
        if browser is None:
            sys.exit("There is no Chromium here: install one, or run `playwright install chromium`.")
        page = rooms.enter_context(watched_page(browser, color_scheme="light"))
        page.goto(address)
        settle(page)

        def click(place) -> None:
            place.click()
            settle(page)

        def shot(name: str, height: int = SCREEN["height"]) -> None:
            page.set_viewport_size({**SCREEN, "height": height})
            page.mouse.move(SCREEN["width"] - 5, height - 5)
            page.wait_for_timeout(1500)  # pictures are placed and charts drawn after the script has ended
            page.screenshot(path=folder / f"{name}.png")
            page.set_viewport_size(SCREEN)

        def view(name: str):
            return page.locator(".st-key-view").get_by_text(name)

        shot("open")
        click(page.locator(".st-key-sample_ppocr_cls_v2 button"))  # docs/start.md goes with this one
        go(page, "Optimize")
        measure_until_quiet(page)
        shot("optimize")
        go(page, "Measure")
        for _ in range(MEASUREMENTS):  # on a busy machine there are no bars
            click(page.get_by_role("button", name="Measure", exact=True))
            page.get_by_role("tab", name="Where the time went").wait_for(timeout=180_000)
            settle(page)
            if page.get_by_text("Show in the graph").count():
                break
        shot("run", 1100)
        go(page, "Open")
        click(page.locator(".st-key-sample_resnet50_narrow button"))
        go(page, "Optimize")
        choose_strategy(page, "greedy")
        show_last_step(page)
        graph = GraphView(page)
        graph.press("ArrowUp", "Home", "ArrowRight", "ArrowRight", "ArrowRight", "t")
        graph.goto_node("conv n7")
        graph.press("ArrowRight", "ArrowLeft")
        shot("playback")
        page.get_by_label("Colour by").select_option(label="Operator category")
        page.get_by_role("button", name="As text", exact=True).click()
        shot("by_operator")
        page.get_by_label("Colour by").select_option(label="Layout")
        graph.press("Escape")
        click(view("Rewrites"))
        shot("rewrites")
        click(view("Text"))
        shot("text")
        click(view("Graph"))
        go(page, "Lockstep")
        shot("lockstep", 900)
        go(page, "Layouts")
        page.get_by_text("compared with", exact=True).wait_for()
        click(page.get_by_role("button", name="Measure latency"))
        page.get_by_text("Measured on").wait_for()
        shot("layouts", 960)
        go(page, "Measure")
        page.get_by_label("Repetitions", exact=True).fill("40")
        for _ in range(2):  # so that Runs has a change over time to show
            click(page.get_by_role("button", name="Measure", exact=True))
        page.get_by_role("tab", name="Operators").click()
        page.locator(".js-plotly-plot >> visible=true").first.wait_for()
        shot("operators", 1600)
        go(page, "Runs")
        page.locator(".js-plotly-plot").nth(1).wait_for()
        shot("runs")
        go(page, "Export")
        click(page.get_by_role("button", name="Build and measure all"))
        page.get_by_text("SHA-256").wait_for()
        shot("export", 960)
        go(page, "Open")
        click(page.locator(".st-key-sample_npu_reshape_add button"))
        go(page, "Optimize")
        open_advanced(page)
        page.locator(".st-key-target input").click()
        click(page.get_by_role("option", name="npu"))
        shot("npu_figure", 900)
        go(page, "Open")
        click(page.locator(".st-key-sample_ppocr_cls_v2 button"))
        go(page, "Matrix")
        page.get_by_label("Batches", exact=True).fill("1, 2, 4")
        page.get_by_label("Repetitions", exact=True).fill("20")
        click(page.get_by_role("button", name="Measure", exact=True))
        page.locator(".js-plotly-plot").nth(2).wait_for()
        shot("matrix", 1250)
        with tempfile.TemporaryDirectory() as scratch:
            other = other_tools_output(Path(scratch))
            page.goto(f"{address}/compare?model=sample_models/resnet50_narrow.onnx&other={other}")
            settle(page)
            shot("compare")
        passes = "fold_batchnorm%2Cfuse_groups"
        page.goto(f"{address}/optimize?model=sample_models/resnet50_narrow.onnx&passes={passes}&target=cuda&step=2")
        settle(page)
        graph = GraphView(page).rest()
        graph.open_all()
        graph.goto_node("group_1")
        settle(page)
        shot("groups")
        go(page, "Measure")
        page.get_by_role("combobox", name="Backends").click()
        page.get_by_role("option", name="fused").click()
        page.keyboard.press("Escape")
        page.get_by_label("Repetitions", exact=True).fill("40")
        click(page.get_by_role("button", name="Measure", exact=True))
        page.get_by_role("tab", name="Kernels").click()
        settle(page)
        shot("kernels", 1400)
        go(page, "Open")
        click(page.locator(".st-key-sample_ppocr_cls_v2 button"))
        go(page, "Optimize")
        go(page, "Memory")
        shot("memory", 1150)
        go(page, "Open")
        click(page.locator(".st-key-samples_Memory").get_by_text("Memory (6)"))
        click(page.locator(".st-key-sample_branches button"))
        click(page.get_by_text("Model of an H100", exact=True))
        shot("lanes", 900)
        page.goto(f"{address}/lessons?lesson=why_a_transpose&stop=4")
        settle(page)
        shot("lesson", 900)
        page.goto(f"{address}/optimize?model=sample_models/bias_add_dropout.onnx&passes=onnxslim")
        settle(page)
        page.get_by_text("NOT EQUAL", exact=False).first.wait_for()
        shot("another_tool")
        page.goto(f"{address}/precision?model=sample_models/ppocr_cls_v2.onnx")
        settle(page)
        click(page.get_by_role("button", name="Run in both types"))
        page.get_by_text("loses most by itself").wait_for()
        settle(page)
        shot("precision", 900)
        page.goto(f"{address}/rivals?model=sample_models/ppocr_cls_v2.onnx")
        settle(page)
        click(page.get_by_role("button", name="Run all tools"))
        page.get_by_text("Click a tool").wait_for()
        shot("rivals", 500)
        page.goto(f"{address}/extract?model=sample_models/resnet50_narrow.onnx")
        settle(page)
        for node, button in (("n16", "Begin here"), ("n25", "End here")):
            GraphView(page).rest().goto_node(node)
            click(page.get_by_role("button", name=button))
        click(page.get_by_role("button", name="Cut it out"))
        click(page.get_by_role("button", name="Open it"))
        page.locator(".wb-card").wait_for(timeout=180_000)  # what is put back is then what Optimize made of the part
        go(page, "Extract")
        click(page.get_by_role("button", name="Put it back"))
        page.get_by_text("Equal: 1 output").wait_for(timeout=180_000)
        shot("extract")
        page.goto(f"{address}/workshop?model=sample_models/resnet50_narrow.onnx")
        settle(page)
        text = page.locator(".st-key-workshop_text textarea")
        text.fill(text.input_value().replace('== relu(x)"', '== x"'))
        text.blur()
        page.get_by_text("checks failed").wait_for()
        settle(page)
        shot("workshop")
        page.goto(f"{address}/tune?model=sample_models/ppocr_cls_v2.onnx")
        settle(page)
        page.get_by_role("textbox", name="Budget").fill("150s")
        page.get_by_role("textbox", name="Budget").press("Tab")
        page.get_by_role("button", name="Tune", exact=True).click()
        page.get_by_text("Best for latency on").wait_for(timeout=700_000)
        settle(page)
        shot("tune", 1000)
        dark = rooms.enter_context(watched_page(browser, color_scheme="dark"))
        dark.goto(f"{address}/optimize?model=sample_models/npu_reshape_add.onnx&passes=layout_greedy&target=npu")
        settle(dark)
        dark.wait_for_timeout(1500)
        dark.screenshot(path=folder / "dark.png")


def measure_until_quiet(page) -> None:
    """Measure on Optimize until other work on this machine was little enough for a factor, a few times at most."""
    from tests.browser import settle

    card = page.locator(".wb-card")
    for _ in range(MEASUREMENTS):
        card.get_by_text(" ms").first.wait_for(timeout=180_000)
        settle(page)
        if "busy" not in card.inner_text():
            return
        page.get_by_role("button", name="Measure again").click()
        settle(page)


def other_tools_output(folder: Path) -> Path:
    """What ONNX Runtime's basic level makes of the first sample."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(folder / "by_onnxruntime.onnx")
    onnxruntime.InferenceSession(str(HERE.parent / "sample_models" / "resnet50_narrow.onnx"), options)
    return folder / "by_onnxruntime.onnx"


if __name__ == "__main__":
    main()
