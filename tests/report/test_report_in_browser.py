"""The page in headless Chromium."""

import csv

import pytest
from browser_pages import assert_accessible, decided, opened, shown, suspects, write_page
from report_runs import NASTY, flower_table

from ulc.cli import app

pytestmark = pytest.mark.slow
COMMANDS = {command.callback.__name__ for command in app.registered_commands}


@pytest.fixture(scope="module")
def flowers(tmp_path_factory):
    """A run on a table, and the path of its page."""
    folder = flower_table(tmp_path_factory.mktemp("flowers"))
    return folder, write_page(folder)


@pytest.fixture
def page(chromium, flowers):
    """The page, newly opened; a message or error in the browser fails the test."""
    with opened(chromium, flowers[1]) as page:
        yield page


def test_the_gallery_shows_the_most_suspicious_labels_first(page, flowers):
    expected = [row["id"] for row in suspects(flowers[0])]
    assert len(expected) > 24  # more than a page
    assert shown(page) == expected[:24]
    page.click("#next")
    assert shown(page) == expected[24:48]


def test_a_card_of_an_audit_shows_bayes_rule(chromium, tmp_path):
    folder = flower_table(tmp_path, posterior=True)
    page = chromium.new_page()
    page.goto(write_page(folder).as_uri())
    card = page.locator("#cards .card").first
    assert not card.locator(".reasons table").is_visible()
    card.locator("summary", has_text="Why").click()
    table = card.locator(".reasons table")
    assert table.is_visible()
    rows = table.locator("tbody tr")
    assert rows.count() == 2
    assert rows.locator("th").all_text_contents() == [
        card.locator(".given").text_content(), card.locator(".suggested").text_content(),
    ]  # fmt: skip
    score = card.locator(".score").text_content()
    assert rows.first.locator("td").last.text_content() == score
    assert decided(page)[0] == ""
    page.close()


def test_a_card_of_another_run_shows_none(page):
    assert page.locator("#cards .reasons details").count() == 0


def test_labels_are_filtered_by_class_pair_text_and_decision(page, flowers):
    rows = suspects(flowers[0])
    page.select_option("#page-size", "96")
    iris = [row["id"] for row in rows if row["given_label"] == "iris"]
    page.select_option("#filter-given", label=f"iris ({len(iris)})")
    assert shown(page) == iris
    both = [
        row["id"]
        for row in rows
        if (row["given_label"], row["suggested_label"]) == ("iris", "rose, wild")
    ]
    assert 0 < len(both) < len(iris)
    page.select_option("#filter-pair", label=f"iris → rose, wild ({len(both)})")
    assert shown(page) == both
    page.click("#filters button[type=reset]")
    page.fill("#search", iris[0].upper())
    assert shown(page) == [iris[0]]
    page.fill("#search", "<b>bold")  # a value of the row
    assert 0 < len(shown(page)) < len(rows)
    page.fill("#search", "")
    page.click("#cards .card >> nth=0 >> text=Accept")
    page.select_option("#filter-decision", "open")
    assert shown(page) == [row["id"] for row in rows[1:25]]
    page.select_option("#filter-decision", "accept")
    assert shown(page) == [rows[0]["id"]]


@pytest.mark.parametrize(
    ("order", "key"),
    [
        ("likely", lambda row: -float(row["label_score"])),
        ("sure", lambda row: float(row["epistemic"])),
        ("unsure", lambda row: -float(row["epistemic"])),
        ("unclear", lambda row: float(row["aleatoric"])),
        ("name", lambda row: row["id"]),
    ],
)
def test_labels_are_sorted(page, flowers, order, key):
    page.select_option("#page-size", "96")
    page.select_option("#sort", order)
    assert shown(page) == [row["id"] for row in sorted(suspects(flowers[0]), key=key)]


def test_a_cell_of_the_heat_map_leads_to_its_labels(page, flowers):
    rows = suspects(flowers[0])
    page.click("table.heat button >> nth=0")  # belongs to iris, given as the second class
    pair = [
        row["id"]
        for row in rows
        if (row["given_label"], row["suggested_label"]) == ("rose, wild", "iris")
    ]
    assert shown(page) == pair[:24]


def test_decisions_by_keyboard_survive_a_reload_and_reach_the_file(page, flowers, tmp_path, ulc):
    folder, _ = flowers
    rows = suspects(folder)
    page.focus("#cards .card")
    for key in ("a", "r", "a", "u", "ArrowLeft", "ArrowRight", "r"):
        page.keyboard.press(key)
    page.keyboard.press("l")
    page.keyboard.type(NASTY)
    page.keyboard.press("Enter")  # take it
    assert decided(page)[:5] == ["accept", "reject", "reject", "relabel", ""]
    assert page.locator("#progress").text_content() == f"4 of {len(rows)} decided"
    page.reload()
    assert decided(page)[:5] == ["accept", "reject", "reject", "relabel", ""]
    page.click("#undo")  # still knows the last step
    assert decided(page)[:5] == ["accept", "reject", "reject", "", ""]
    page.keyboard.press("a")  # the focus is where something changed
    assert decided(page)[:5] == ["accept", "reject", "reject", "accept", ""]
    with page.expect_download() as download:
        page.click("#download")
    assert download.value.suggested_filename == "decisions.csv"
    saved = tmp_path / "decisions.csv"
    download.value.save_as(saved)
    with saved.open(newline="") as file:
        found = list(csv.DictReader(file))
    expected = ["suggested_label", "given_label", "given_label", "suggested_label"]
    assert found == [
        {"id": row["id"], "decision": decision, "label": row[column]}
        for row, decision, column in zip(
            rows, ["accept", "reject", "reject", "accept"], expected, strict=False
        )
    ]


def test_the_downloaded_file_is_what_apply_takes(page, flowers, tmp_path, ulc):
    if "apply" not in COMMANDS:
        pytest.skip("this version has no `ulc apply`")
    page.focus("#cards .card")
    page.keyboard.press("a")
    page.keyboard.press("r")
    with page.expect_download() as download:
        page.click("#download")
    download.value.save_as(tmp_path / "decisions.csv")
    target = tmp_path / "corrected.csv"
    code, printed = ulc("apply", flowers[0].path, tmp_path / "decisions.csv", "--out", target)
    assert code == 0, printed.err
    first = suspects(flowers[0])[0]
    with target.open(newline="") as file:
        labels = {row["id"]: row["label"] for row in csv.DictReader(file)}
    assert labels[first["id"]] == first["suggested_label"]


def test_the_same_decision_twice_takes_it_back_and_cancel_changes_nothing(page):
    first = page.locator("#cards .card >> nth=0")
    first.get_by_role("button", name="Accept").click()
    assert first.get_by_role("button", name="Accept").get_attribute("aria-pressed") == "true"
    first.get_by_role("button", name="Accept").click()
    first.get_by_role("button", name="Relabel…").click()
    page.keyboard.press("Escape")
    assert decided(page)[0] == ""
    assert page.locator("#download").is_disabled()


def test_keys_do_nothing_outside_the_cards(page):
    page.fill("#search", "")
    page.type("#search", "flower-a r l")
    assert page.locator("#progress").text_content().startswith("0 of ")


def test_names_are_text_and_never_run(page):
    assert page.get_by_text(NASTY, exact=True).count() > 0
    assert page.locator("main script").count() == 0
    assert page.locator("#cards b").count() == 0


def test_a_script_that_somebody_puts_in_is_refused(chromium, flowers, tmp_path):
    html = flowers[1].read_text(encoding="utf-8")
    attacked = tmp_path / "attacked.html"
    attack = "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">"
    attacked.write_text(html.replace("</main>", attack + "</main>"), encoding="utf-8")
    page = chromium.new_page()
    page.goto(attacked.as_uri())
    page.wait_for_selector("#cards .card")  # ours still run
    assert "flowers" in page.title()
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_accessibility(chromium, axe, flowers, scheme, width):
    context = chromium.new_context(
        color_scheme=scheme, viewport={"width": width, "height": 900}, bypass_csp=True
    )
    page = context.new_page()
    page.goto(flowers[1].as_uri())
    page.click(("#deck" if width < 600 else "#cards .card >> nth=0") + " >> text=Accept")
    assert_accessible(page, axe)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    context.close()
