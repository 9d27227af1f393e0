"""Write every page at 1440 and 900 pixels in both themes, to be looked at: `python docs/make_page_pictures.py OUT`."""

import os
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

MODEL = "model=sample_models/resnet50_narrow.onnx"
PAGES = {  # its address, and what is pressed there
    "optimize": ("optimize", ""),
    "measure": ("run", "Measure"),
    "export": ("export", ""),
    "open": ("", ""),
    "lessons": ("lessons", ""),
    "layouts": ("layouts", ""),
    "lockstep": ("lockstep", ""),
    "compare": ("compare", ""),
    "matrix": ("matrix", ""),
    "memory": ("memory", ""),
    "lanes": ("lanes", ""),
    "rivals": ("rivals", "Run all tools"),
    "extract": ("extract", ""),
    "workshop": ("workshop", ""),
    "tune": ("tune", "Tune"),
    "runs": ("runs", ""),
}
HEIGHTS = {1440: 900, 900: 1000}


def main(folder: Path) -> None:
    from tests.browser import chromium, running_app, settle, watched_page

    folder.mkdir(exist_ok=True)
    os.environ["WORKBENCH_CACHE"] = tempfile.mkdtemp(prefix="pages-")  # nobody's own runs are shown
    with running_app() as (address, _), chromium() as browser:
        if browser is None:
            sys.exit("There is no Chromium here: install one, or run `playwright install chromium`.")
        for theme in ("light", "dark"):
            with watched_page(browser, color_scheme=theme) as page:
                for name, (place, press) in PAGES.items():
                    page.goto(f"{address}/{place}?{MODEL}")
                    settle(page)
                    if press:
                        page.get_by_role("button", name=press, exact=True).click()
                        settle(page)
                    for width, height in HEIGHTS.items():
                        page.set_viewport_size({"width": width, "height": height})
                        page.mouse.move(width - 5, height - 5)
                        page.wait_for_timeout(1500)  # pictures are placed after the script of the page has ended
                        settle(page)
                        page.screenshot(path=folder / f"{name}_{width}_{theme}.png")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
