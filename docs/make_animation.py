"""Write docs/screenshots/playback.gif from the running app: `python docs/make_animation.py`. Needs a Chromium."""

import io
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

SCREEN = {"width": 1100, "height": 700}
FRAME_MS, LAST_MS = 900, 2500


def main() -> None:
    """The layout pass `greedy` on the smallest sample, rewrite by rewrite."""
    from PIL import Image

    from tests.browser import (
        GraphView,
        choose_strategy,
        chromium,
        go,
        open_sample,
        running_app,
        settle,
        show_last_step,
        watched_page,
    )

    with running_app() as (address, _), chromium() as browser:
        if browser is None:
            sys.exit("There is no Chromium here: install one, or run `playwright install chromium`.")
        with watched_page(browser, color_scheme="light") as page:
            page.set_viewport_size(SCREEN)
            page.goto(address)
            settle(page)
            open_sample(page, "conv_relu_conv_relu")
            go(page, "Optimize")
            choose_strategy(page, "greedy")
            show_last_step(page)
            graph = GraphView(page)
            graph.press("ArrowUp", "Home")
            pictures = []
            for _ in range(9):
                page.wait_for_timeout(700)  # until what moves has come to rest
                pictures.append(Image.open(io.BytesIO(page.screenshot())).quantize(128))
                graph.press("ArrowRight")
    frames = [picture for number, picture in enumerate(pictures) if number == 0 or picture != pictures[number - 1]]
    times = [FRAME_MS] * (len(frames) - 1) + [LAST_MS]
    frames[0].save(
        HERE / "screenshots" / "playback.gif", save_all=True, append_images=frames[1:], duration=times, loop=0
    )


if __name__ == "__main__":
    main()
