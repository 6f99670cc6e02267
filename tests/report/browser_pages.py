"""Pages in headless Chromium: open them, and read what they show."""

import csv
from contextlib import contextmanager

from ulc.report.page import make_report


def write_page(folder, review=None, name="report.html"):
    """The path of the run's page, newly made."""
    path = folder.path / name
    path.write_text(make_report(folder, review=review).html, encoding="utf-8")
    return path


@contextmanager
def opened(chromium, path, **options):
    """The page, newly opened; a message, an error or a request to the network fails the test."""
    context = chromium.new_context(accept_downloads=True, **options)
    page = context.new_page()
    complaints, requests = [], []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: (complaints.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(path.as_uri())
    yield page
    context.close()
    assert complaints == []
    assert {url.split(":")[0] for url in requests} <= {"file", "data", "blob"}


def shown(page):
    return page.locator("#cards .card .path").all_text_contents()


def decided(page):
    return page.locator("#cards .card").evaluate_all(
        "cards => cards.map(card => card.dataset.decision)"
    )


def suspects(folder):
    with (folder.path / "labels.csv").open(newline="") as file:
        return [row for row in csv.DictReader(file) if row["is_label_issue"] == "True"]


def downloaded(page, target):
    """The rows of the downloaded decisions, saved as `target`."""
    with page.expect_download() as download:
        page.click("#download")
    download.value.save_as(target)
    with target.open(newline="") as file:
        return list(csv.DictReader(file))


def focused(page):
    """Name of the card that has the focus; None: none has it."""
    return page.evaluate(
        "document.activeElement.closest('.card')?.querySelector('.path').textContent ?? null"
    )


def assert_accessible(page, axe, checks=20):
    """Check the page as it is now by axe-core; it needs a context that bypasses the policy.

    checks: more than so many rules must apply; an open dialog hides the rest of the page
    """
    page.add_script_tag(content=axe)
    found = page.evaluate("axe.run()")
    serious = [
        (each["id"], each["impact"], [node["html"][:200] for node in each["nodes"]][:3])
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
    ]
    assert serious == []
    assert len(found["passes"]) > checks  # it did look
