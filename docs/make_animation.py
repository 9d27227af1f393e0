"""Write docs/screenshots/what_changed.gif from the running app: `python docs/make_animation.py`. Needs a Chromium."""

import io
import os
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

SCREEN = {"width": 1366, "height": 768}
FRAME_MS, FIRST_MS = 1600, 2600
COLOURS = 128


def main() -> None:
    """What changed in a real network: its kinds, the places of one, a place of another, and the whole again."""
    from PIL import Image

    from docs.make_screenshots import measure_until_quiet
    from tests.browser import GraphView, chromium, optimized, running_app, settle, watched_page

    os.environ["WORKBENCH_CACHE"] = tempfile.mkdtemp(prefix="animation-")
    with running_app() as (address, at), chromium() as browser:
        if browser is None:
            sys.exit("There is no Chromium here: install one, or run `playwright install chromium`.")
        with watched_page(browser, color_scheme="light") as page:
            page.set_viewport_size(SCREEN)
            optimized(page, (address, at), HERE.parent / "sample_models" / "ppocr_cls_v2.onnx")
            measure_until_quiet(page)
            frames = []

            def frame() -> None:
                page.mouse.move(SCREEN["width"] - 5, SCREEN["height"] - 5)
                GraphView(page).rest()
                page.wait_for_timeout(900)  # until what moves has come to rest
                frames.append(Image.open(io.BytesIO(page.screenshot())).quantize(COLOURS))

            def show(kind: str) -> None:
                page.get_by_role("button", name=kind).click()
                settle(page)
                frame()

            frame()
            show("hard swish")
            for _ in range(2):
                page.keyboard.press("n")
                settle(page)
                frame()
            show("after a convolution")
            show("The whole model")
    times = [FIRST_MS] + [FRAME_MS] * (len(frames) - 2) + [FIRST_MS]
    file = HERE / "screenshots" / "what_changed.gif"
    frames[0].save(file, save_all=True, append_images=frames[1:], duration=times, loop=0)


if __name__ == "__main__":
    main()
