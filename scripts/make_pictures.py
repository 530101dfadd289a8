"""Photograph the pages that docs/img shows, with Chromium by playwright.

python scripts/make_pictures.py --explain explearn-demo.html --compare report.html --report reports/report.html \
    --serve http://127.0.0.1:8000
"""

from __future__ import annotations

import argparse
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import FloatRect, ViewportSize, sync_playwright

FOLDER = Path(__file__).resolve().parents[1] / "docs/img"
TEXT = "The plot is thin, but the acting is superb."
COLOURS = 256
WINDOW = ViewportSize(width=430, height=760)
"""As narrow as a phone, so that the pictures can be read there."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--explain", type=Path, help="page of explearn demo, for README")
    parser.add_argument("--compare", type=Path, help="page of explearn compare")
    parser.add_argument("--report", type=Path, help="page of a run")
    parser.add_argument("--serve", help="address of explearn serve")
    parser.add_argument("--chromium", help="Chromium to start (default: playwright's own)")
    args = parser.parse_args()
    places = {
        "side_by_side": args.explain and args.explain.resolve().as_uri(),
        "compare": args.compare and args.compare.resolve().as_uri(),
        "report": args.report and args.report.resolve().as_uri(),
        "serve": args.serve,
    }
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=args.chromium)
        for name, address in places.items():
            if not address:
                continue
            page = browser.new_page(viewport=WINDOW, device_scale_factor=2)
            page.goto(address)
            if name == "serve":
                page.fill("textarea", TEXT)
                page.click("form button[type=submit], form button:not([type])")
                page.wait_for_load_state("networkidle")
            clip = None
            if name == "side_by_side":
                words = page.locator("div.explearn").nth(1).bounding_box()
                assert words is not None
                clip = around(words)
            shot = page.screenshot(clip=clip, full_page=clip is not None)
            picture = Image.open(BytesIO(shot)).convert("RGB").quantize(COLOURS)
            picture.save(FOLDER / f"{name}.png", optimize=True)
        browser.close()


def around(box: FloatRect) -> FloatRect:
    """Return a box with a margin of 12 pixels."""
    return FloatRect(x=box["x"] - 12, y=box["y"] - 12, width=box["width"] + 24, height=box["height"] + 24)


if __name__ == "__main__":
    main()
