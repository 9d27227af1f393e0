"""Walk through every lesson in a browser and write docs/lessons/*.webp: `python docs/make_lessons.py [NAME...]`.

One picture a lesson, its stops below each other in two columns, each with its answer open. Needs a Chromium.
With WORKBENCH_SHOTS=FOLDER each stop is written there too, in full size.
"""

import io
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
SCREEN = {"width": 1280, "height": 800}
SHOWN = 720  # pixels of width of a stop in the picture
QUALITY = 20  # of 100: text stays readable


def main(wanted: list[str]) -> None:
    from PIL import Image

    from tests.browser import chromium, running_app, watched_page
    from workbench.interfaces.lessons import shipped_lessons

    folder = HERE / "lessons"
    folder.mkdir(exist_ok=True)
    with running_app() as (address, _), chromium() as browser:
        if browser is None:
            sys.exit("There is no Chromium here: install one, or run `playwright install chromium`.")
        for lesson in shipped_lessons():
            if wanted and lesson.name not in wanted:
                continue
            with watched_page(browser, color_scheme="light") as page:
                page.set_viewport_size(SCREEN)
                stops = [Image.open(io.BytesIO(shot)).convert("RGB") for shot in walk(page, address, lesson)]
            height = SHOWN * SCREEN["height"] // SCREEN["width"]
            sheet = Image.new("RGB", (2 * SHOWN, (len(stops) + 1) // 2 * height), "white")
            for number, stop in enumerate(stops):
                sheet.paste(
                    stop.resize((SHOWN, height), Image.Resampling.LANCZOS), (number % 2 * SHOWN, number // 2 * height)
                )
            file = folder / f"{lesson.name}.webp"
            sheet.save(file, quality=QUALITY, method=6)
            print(f"{file.name}: {len(stops)} stops, {file.stat().st_size:,} bytes")


def walk(page, address: str, lesson) -> Iterator[bytes]:
    """A screenshot of each stop, reached by the keys."""
    from tests.browser import GraphView, settle

    page.goto(f"{address}/lessons?lesson={lesson.name}&stop=1")
    for number, stop in enumerate(lesson.stops, 1):
        page.get_by_text(f"stop {number} of {len(lesson.stops)}").wait_for()
        settle(page)
        GraphView(page).wait(f"hook => hook.state().selected === {json.dumps(stop.node)}")
        page.keyboard.press("a")
        page.get_by_role("button", name="Hide the answer").wait_for()
        settle(page)
        page.mouse.move(5, SCREEN["height"] - 5)
        page.wait_for_timeout(700)
        shot = page.screenshot()
        if "WORKBENCH_SHOTS" in os.environ:
            (Path(os.environ["WORKBENCH_SHOTS"]) / f"{lesson.name}_{number}.png").write_bytes(shot)
        yield shot
        page.keyboard.press("PageDown")


if __name__ == "__main__":
    main(sys.argv[1:])
