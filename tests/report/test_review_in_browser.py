"""Gestures of the review, in headless Chromium."""

import csv

import pytest
from browser_pages import (
    assert_accessible,
    decided,
    downloaded,
    focused,
    opened,
    shown,
    suspects,
    write_page,
)
from report_runs import flower_table, photo_folder, with_health

pytestmark = pytest.mark.slow
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


@pytest.fixture(scope="module")
def flowers(tmp_path_factory):
    """A run on a table, and the path of its page."""
    folder = flower_table(tmp_path_factory.mktemp("flowers"))
    return folder, write_page(folder)


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """A run on photographs, some of them odd, and the path of its page."""
    folder = with_health(photo_folder(tmp_path_factory.mktemp("photos")))
    return folder, write_page(folder)


@pytest.fixture(scope="module")
def wide_review(photos):
    """The path of a page with six labels more than look wrong."""
    folder, _ = photos
    return write_page(folder, len(suspects(folder)) + 6, "review.html")


@pytest.fixture
def page(chromium, flowers):
    with opened(chromium, flowers[1]) as page:
        yield page


@pytest.fixture
def photo_page(chromium, photos):
    with opened(chromium, photos[1]) as page:
        yield page


def test_one_button_starts_the_review_at_the_first_label_without_a_decision(page, flowers):
    rows = suspects(flowers[0])
    assert page.locator("#review").text_content() == f"Review {len(rows)} labels"
    page.select_option("#filter-given", index=2)  # the review is about all labels
    page.click("#review")
    assert focused(page) == rows[0]["id"]
    for _ in range(24):  # a whole page
        page.keyboard.press("a")
    page.reload()
    assert page.locator("#review").text_content() == f"Review the other {len(rows) - 24} labels"
    page.click("#review")
    assert focused(page) == rows[24]["id"]
    page.wait_for_timeout(50)  # nothing takes the focus away later
    assert focused(page) == rows[24]["id"]


def test_keys_work_without_a_click_but_never_on_a_label_that_is_out_of_view(page, flowers):
    rows = suspects(flowers[0])
    page.keyboard.press("a")  # at the top of the page: the label is not in view
    assert focused(page) == rows[0]["id"]
    assert decided(page)[0] == ""
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("a")  # in view, no focus
    page.keyboard.press("s")
    page.keyboard.press("d")
    assert decided(page)[:4] == ["accept", "unsure", "delete", ""]


def test_keys_everywhere_can_be_switched_off(page):
    page.click("#review")
    page.evaluate("document.activeElement.blur()")
    page.click(".keys summary")
    page.uncheck("#keys-on")
    page.keyboard.press("a")
    assert set(decided(page)) == {""}
    page.focus("#cards .card")
    page.keyboard.press("a")
    assert decided(page)[0] == "accept"


def test_all_labels_of_a_filter_are_accepted_and_undone_in_one_step(page, flowers):
    rows = suspects(flowers[0])
    page.click("#review")
    page.keyboard.press("r")
    iris = [row for row in rows if row["given_label"] == "iris"]
    page.select_option("#filter-given", label=f"iris ({len(iris)})")
    page.select_option("#page-size", "96")
    open_ones = len(iris) - (rows[0] in iris)
    assert page.locator("#accept-all").text_content() == f"Accept these {open_ones}"
    page.click("#accept-all")
    rejected = ["reject"] if rows[0] in iris else []
    assert decided(page) == rejected + ["accept"] * open_ones
    assert page.locator("#progress").text_content() == f"{open_ones + 1} of {len(rows)} decided"
    assert page.locator("#accept-all").is_disabled()
    page.keyboard.press("u")
    assert decided(page) == rejected + [""] * open_ones
    assert page.locator("#progress").text_content() == f"1 of {len(rows)} decided"


def test_a_label_is_typed_and_a_new_class_is_said_to_be_one(page, flowers, tmp_path, ulc):
    rows = suspects(flowers[0])
    page.click("#review")
    page.keyboard.press("l")
    assert page.locator("#relabel-take").is_disabled()
    page.keyboard.type("ROSE, wild")  # a known class in other letters
    assert page.locator("#relabel-note").text_content() == ""
    page.keyboard.press("Enter")
    page.keyboard.press("l")
    page.keyboard.type(" tulip ")
    assert "“tulip” is a new class" in page.locator("#relabel-note").text_content()
    page.keyboard.press("Enter")
    page.keyboard.press("s")
    page.keyboard.press("d")
    page.reload()
    found = downloaded(page, tmp_path / "decisions.csv")
    given = [row["given_label"] for row in rows]
    assert [(row["decision"], row["label"]) for row in found] == [
        ("relabel", "rose, wild"), ("relabel", "tulip"), ("unsure", given[2]), ("delete", given[3]),
    ]  # fmt: skip
    target = tmp_path / "corrected.csv"
    code, printed = ulc("apply", flowers[0].path, tmp_path / "decisions.csv", "--out", target)
    assert code == 0, printed.err
    with target.open(newline="") as file:
        after = {row["id"]: row for row in csv.DictReader(file)}
    ids = [row["id"] for row in rows]
    assert [after[each]["label"] for each in ids[:3]] == ["rose, wild", "tulip", given[2]]
    assert [after[each]["verified"] for each in ids[:3]] == ["1", "1", "0"]
    assert ids[3] not in after


def test_the_completion_offers_every_class(page):
    offered = page.locator("#class-names option").evaluate_all("all => all.map(one => one.value)")
    assert len(offered) == 3
    assert "rose, wild" in offered


def test_a_picture_is_enlarged_and_decided_about(photo_page, photos):
    rows = suspects(photos[0])
    photo_page.click("#cards .card .picture >> nth=0")
    assert photo_page.locator("#zoom").is_visible()
    large = photo_page.locator("#zoomed > img").bounding_box()
    small = photo_page.locator("#cards .picture img").first.bounding_box()
    assert large["height"] > 2 * small["height"]
    photo_page.keyboard.press("Escape")
    assert not photo_page.locator("#zoom").is_visible()
    photo_page.locator(".card:focus").wait_for()
    photo_page.keyboard.press("z")
    photo_page.keyboard.press("ArrowRight")  # the next picture, enlarged
    assert photo_page.locator("#zoom").is_visible()
    photo_page.keyboard.press("a")
    assert not photo_page.locator("#zoom").is_visible()
    assert decided(photo_page)[:3] == ["", "accept", ""]
    photo_page.wait_for_timeout(50)
    assert focused(photo_page) == rows[2]["id"].removeprefix(f"{photos[0].path.parent}/photos/")


def test_trusted_pictures_of_both_classes_are_beside_a_suspect(photo_page, photos):
    first = suspects(photos[0])[0]
    card = photo_page.locator("#cards .card").first
    for side, label in (("suggested", "suggested_label"), ("given", "given_label")):
        box = card.locator(f".{side}-class")
        assert box.locator("p").text_content() == f"{first[label]}, trusted"
        assert box.locator("img").count() == 3
        assert box.locator("img").first.evaluate("image => image.naturalWidth") == 112


def test_paths_are_relative_on_the_page_and_whole_in_the_file(photo_page, photos, tmp_path):
    rows = suspects(photos[0])
    root = f"{photos[0].path.parent}/photos/"
    assert shown(photo_page)[0] == rows[0]["id"].removeprefix(root)
    assert photo_page.get_by_text(root, exact=True).count() == 1
    photo_page.click("#review")
    photo_page.keyboard.press("a")
    assert downloaded(photo_page, tmp_path / "d.csv")[0]["id"] == rows[0]["id"]


def test_rows_of_a_table_are_rows(page, flowers):
    heads = page.locator(".rows thead th").all_text_contents()
    assert heads == ["Label → suggestion", "Decision", "Score", "petal", "sepal", "note", "Details"]
    first = page.locator("#cards tr").first
    line = next(
        line
        for line in (flowers[0].path.parent / "flowers.csv").read_text().splitlines()
        if line.startswith(suspects(flowers[0])[0]["id"])
    )
    assert first.locator("td.value").all_text_contents() == line.split(",")[-3:]


def test_a_score_of_nought_is_told_in_words(page):
    told = [page.evaluate(f"inWords({value})") for value in (0, 0.0004, 0.0005, 0.9996)]
    assert told == ["< 0.001", "< 0.001", "0.001", "> 0.999"]


@pytest.mark.parametrize("kind", ["flowers", "photos"])
def test_on_a_telephone_a_bar_decides_about_the_label_at_the_top(chromium, request, kind):
    folder, path = request.getfixturevalue(kind)
    with opened(chromium, path, **PHONE) as page:
        rows = suspects(folder)
        assert not page.locator("#cards .actions").first.is_visible()
        page.locator("#filters").scroll_into_view_if_needed()
        page.locator("#deck >> text=Accept").dispatch_event("click")  # no label is in view
        assert set(decided(page)) == {""}
        page.tap("#review")
        page.tap("#deck >> text=Accept")
        assert decided(page)[:2] == ["accept", ""]
        assert page.locator("#cards .card.here .path").text_content() == shown(page)[1]
        third = page.locator("#cards .card >> nth=3")
        third.evaluate("card => card.scrollIntoView({block: 'start', behavior: 'instant'})")
        page.locator("#cards .card.here .path", has_text=shown(page)[3]).wait_for()
        page.tap("#deck >> text=Reject")
        assert decided(page)[:5] == ["accept", "", "", "reject", ""]
        for selector in ("#deck", "#cards .card.here"):
            box = page.locator(selector).bounding_box()
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= 390
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert len(rows) > 5
        for table in (".classes", ".heat"):
            around = page.locator(f".scroll:has({table})")
            assert around.evaluate("box => box.scrollWidth <= box.clientWidth")  # not cut off


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_photographs_and_dialogs_are_accessible(chromium, axe, wide_review, scheme, width):
    size = {"width": width, "height": 900}
    options = {"color_scheme": scheme, "viewport": size, "bypass_csp": True}
    with opened(chromium, wide_review, **options) as page:
        page.click("#review")
        for key in "asdr":
            page.keyboard.press(key)
        assert_accessible(page, axe)
        page.keyboard.press("z")
        assert page.locator("#zoom").is_visible()
        assert_accessible(page, axe, checks=8)
        page.keyboard.press("l")
        page.keyboard.type("wolf")
        assert page.locator("#relabel-note").is_visible()
        assert_accessible(page, axe, checks=8)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_review_has_labels_without_a_suggestion_that_can_only_be_kept(
    chromium, photos, wide_review, tmp_path
):
    flagged = len(suspects(photos[0]))
    with opened(chromium, wide_review) as page:
        assert page.locator("#review").text_content() == f"Review {flagged + 6} labels"
        assert page.locator("#accept-all").text_content() == f"Accept these {flagged}"
        page.select_option("#page-size", "96")
        last = page.locator("#cards .card").last
        assert last.locator(".suggested").text_content() == "no other class"
        assert not last.locator("[data-decision=accept]").is_visible()
        assert last.locator("[data-decision=reject]").text_content() == "Keep"
        assert last.locator(".references").count() == 1
        last.focus()
        page.keyboard.press("a")
        assert decided(page)[-1] == "reject"
        page.click("#accept-all")
        assert decided(page)[flagged:] == [""] * 5 + ["reject"]
        assert set(decided(page)[:flagged]) == {"accept"}
        made = downloaded(page, tmp_path / "decisions.csv")
    assert [row["decision"] for row in made] == ["accept"] * flagged + ["reject"]


def test_almost_equal_pictures_are_shown_those_with_different_labels_first(photo_page):
    photo_page.click("nav a[href='#odd']")
    groups = photo_page.locator("h3:has-text('Almost the same picture') ~ ul").first.locator("li")
    assert groups.first.locator(".badge").text_content() == "different labels"
    assert groups.nth(1).locator(".badge").count() == 0
    widths = groups.first.locator("img").evaluate_all("all => all.map(each => each.naturalWidth)")
    assert len(widths) == 2
    assert min(widths) > 0
    assert groups.first.is_visible()
