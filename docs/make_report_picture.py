"""Take the README's picture of a report page: summary, map and the first suspicious labels.

python docs/make_report_picture.py REPORT.html docs/images/report.png
"""

import io
import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

WIDTH = 1180
PARTS = (  # where a part begins and ends
    ("header.top h1", "#summary .about"),
    ("#map", "#suspects"),
    ("#suspects", "#cards > li:nth-child(5)"),
)


def main(page_file: Path, target: Path) -> None:
    """All parts, one below the other, in few colours."""
    parts = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page(viewport={"width": WIDTH, "height": 900}, color_scheme="light")
        page.goto(page_file.absolute().as_uri())
        for place, decision in enumerate(("Accept", "Reject")):
            page.click(f"#cards .card >> nth={place} >> text={decision}")
        page.evaluate("scrollTo({top: 0, behavior: 'instant'})")
        for ends in PARTS:
            top, bottom = (page.locator(end).first.bounding_box()["y"] - 12 for end in ends)
            area = {"x": 0, "y": max(top, 0), "width": WIDTH, "height": bottom - top}
            parts.append(Image.open(io.BytesIO(page.screenshot(full_page=True, clip=area))))
        browser.close()
    whole = Image.new("RGB", (WIDTH, sum(part.height for part in parts)), "white")
    top = 0
    for part in parts:
        whole.paste(part, (0, top))
        top += part.height
    whole.quantize(128).save(target, optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
