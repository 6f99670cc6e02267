"""The page as a file: escaped, without outside resources, small, with notes on what is missing."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from PIL import Image
from report_runs import NASTY, audit_content, flower_table, toy_judgement, toy_posterior, write_run

from ulc.config import DataSpec, ImbalanceSpec, RunSpec
from ulc.data.prepare import label
from ulc.data.sources import load_source
from ulc.report.page import LARGEST, make_report, percent
from ulc.storage.run_folder import RunFolder

VOID = {"meta", "input", "img", "br", "link", "hr"}


class Reader(HTMLParser):
    """Elements with their attributes and text; raises where they are not nested properly."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.open, self.elements = [], []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append([tag, dict(attrs), ""])
        if tag not in VOID:
            self.open.append((tag, self.elements[-1]))

    def handle_startendtag(self, tag, attrs):
        self.elements.append([tag, dict(attrs), ""])

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        if self.open:
            self.open[-1][1][2] += data

    def all(self, tag):
        return [(attrs, text) for name, attrs, text in self.elements if name == tag]


def suspects(html):
    found = [
        text for attrs, text in Reader(html).all("script") if attrs.get("id") == "suspect-data"
    ]
    return json.loads(found[0])


@pytest.fixture(scope="module")
def flowers(tmp_path_factory):
    return flower_table(tmp_path_factory.mktemp("flowers"))


@pytest.fixture(scope="module")
def html(flowers):
    return make_report(flowers).html


def test_every_name_is_text(html):
    page = Reader(html)
    scripts = page.all("script")
    assert not any("alert(1)" in text for attrs, text in scripts if "type" not in attrs)
    assert NASTY in [text for attrs, text in page.all("span") if attrs.get("class") == "name"]
    assert "<script>alert" not in html
    assert "<b>bold" not in html
    ids = [attrs["id"] for _, attrs, _ in page.elements if "id" in attrs]
    assert len(ids) == len(set(ids))


def test_only_our_scripts_and_style_may_run(html):
    page = Reader(html)
    policy = next(a["content"] for a, _ in page.all("meta") if a.get("http-equiv"))
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert "unsafe" not in policy
    for tag, rule in (("script", "script-src"), ("style", "style-src")):
        ours = [text for attrs, text in page.all(tag) if "type" not in attrs]
        hashes = [base64.b64encode(hashlib.sha256(t.encode()).digest()).decode() for t in ours]
        assert ours
        assert rules[rule].split() == [f"'sha256-{each}'" for each in hashes]
    for _, attrs, _ in page.elements:  # the policy would stop these without a word
        assert not [name for name in attrs if name.startswith("on") or name == "style"]


def test_nothing_comes_from_outside(html):
    page = Reader(html)
    for _, attrs, _ in page.elements:
        for name in ("src", "href", "action", "srcset", "xlink:href"):
            assert attrs.get(name, "#").startswith("#")
    assert not re.findall(r"https?://|url\(|@import", html)


def test_the_same_run_makes_the_same_bytes(flowers, html):
    assert make_report(flowers).html == html


def test_a_suspect_says_what_labels_csv_says(flowers, html):
    import pandas as pd

    table = pd.read_csv(flowers.path / "labels.csv")
    table = table[table.is_label_issue]
    listed = suspects(html)
    names = json.loads(flowers.read("data.json"))["class_names"]
    assert [each["id"] for each in listed] == list(table.id)
    assert [names[each["given"]] for each in listed] == list(table.given_label)
    assert [names[each["suggested"]] for each in listed] == list(table.suggested_label)
    for column, key in [("label_score", "score"), ("epistemic",) * 2, ("aleatoric",) * 2]:
        assert np.allclose([each[key] for each in listed], table[column])


def test_a_review_lists_the_lowest_scores_flagged_or_not(flowers):
    flagged = int(flowers.judgement.issues(0.5).sum())
    page = make_report(flowers, review=flagged + 10)
    score = np.sort(flowers.judgement.clean_probability)[: flagged + 10]
    listed = suspects(page.html)
    assert np.allclose([each["score"] for each in listed], score, atol=1e-6)
    assert sum(each["given"] == each["suggested"] for each in listed) == 10
    assert page.listed == page.suspects == flagged + 10
    wrong = f"About {(1 - score.astype(float)).sum():,.0f} of them are expected to be wrong"
    assert wrong in page.html
    assert page.html.count('class="suspect"') == flagged + 10  # on the map
    assert "expected to be wrong" not in make_report(flowers).html


def page_data(html):
    found = [text for attrs, text in Reader(html).all("script") if attrs.get("id") == "page-data"]
    return json.loads(found[0])


def test_an_audit_s_page_draws_the_posterior_that_decided(tmp_path):
    folder = flower_table(tmp_path, posterior=True)
    html = make_report(folder).html
    assert "posterior scores, class by class" in html
    assert "(score_kind: posterior)" in html
    assert html.count("threshold-line") >= 3 + 1  # a line in each class's plot, and its style
    assert "mixture of two Gaussians" not in html
    assert "right-line" not in re.search(r'<section id="why".*?</section>', html, re.DOTALL)[0]
    assert page_data(html)["score_kind"] == "posterior"
    for record in suspects(html):
        (_, _, given), (_, _, suggested) = record["why"]
        assert given == pytest.approx(record["score"], abs=1e-6)
        assert suggested > given


def test_a_run_of_ulc_plus_has_a_posterior_but_no_factors(tmp_path):
    """Its run folder has no confusion model, so the page draws losses and does not explain."""
    judgement = toy_posterior(toy_judgement(90, 3))[1]
    html = make_report(write_run(tmp_path / "run", judgement, ("a", "b", "c"))).html
    why = re.search(r'<section id="why".*?</section>', html, re.DOTALL)[0]
    assert "Losses, class by class" in why
    assert "the score is not computed from them" in why
    assert "posterior scores" not in html
    assert "right-line" in why
    assert "threshold-line" not in why
    assert all(not each.get("why") for each in suspects(html))


def test_an_audit_s_page_has_the_noise_rate_of_the_screen_and_other_runs_a_range(tmp_path):
    folder = flower_table(tmp_path, posterior=True)
    assert "estimated in three ways" in make_report(folder).html
    content = audit_content() | {"noise_rate": 0.4321, "noise_interval": [0.3123, 0.5678]}
    folder.write_json("audit.json", content)
    html = make_report(folder).html
    assert '<dd class="orange">43 %</dd>' in html
    assert "expected between 31 and 57 %" in html
    assert "estimated in three ways" not in html


def test_a_page_without_a_posterior_draws_losses(html):
    assert "losses, class by class" in html
    assert "(score_kind: algorithm)" in html
    assert page_data(html)["score_kind"] == "algorithm"
    section = re.search(r'<section id="why".*?</section>', html, re.DOTALL)[0]
    assert section.count("<polyline") == 6  # two components in each of three classes
    assert "threshold-line" not in section
    assert all("why" not in record for record in suspects(html))


@pytest.mark.parametrize("damage", [None, {"temperature": 1.0, "transition": [[1.0]]}])
def test_a_posterior_without_its_confusion_model_is_refused(tmp_path, ulc, damage):
    folder = flower_table(tmp_path, posterior=True)
    if damage is None:
        (folder.path / "confusion.json").unlink()
        folder.write_json("audit.json", audit_content())
    else:
        folder.write_json("confusion.json", damage)
    assert "confusion.json" in sentence(ulc, folder.path)


def test_rows_of_a_table_show_their_values_but_no_true_label(flowers, html):
    data = [text for attrs, text in Reader(html).all("script") if attrs.get("id") == "page-data"]
    assert json.loads(data[0])["columns"] == ["petal", "sepal", "note"]
    lines = (flowers.path.parent / "flowers.csv").read_text().splitlines()
    by_id = {line.split(",")[0]: line.split(",")[-3:] for line in lines[1:]}
    for each in suspects(html):
        assert each["values"] == by_id[each["id"]]


@pytest.mark.slow
@pytest.mark.parametrize(("few", "size"), [(300, (300, 200)), (0, (160, 107))])
def test_pictures_of_a_folder_are_shown_and_missed_when_they_are_gone(
    tmp_path, monkeypatch, few, size
):
    monkeypatch.setattr("ulc.report.suspects.FEW", few)  # few suspects have large pictures
    judgement = toy_judgement(40, 2)
    ids = []
    for row in range(40):
        path = tmp_path / "photos" / f"{judgement.given[row]}" / f"{row}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (300, 200), (6 * row, 0, 0)).save(path)
        ids.append(str(path))
    data = DataSpec(source="folder", path=str(tmp_path / "photos"))
    folder = write_run(tmp_path / "run", judgement, ("a", "b"), data=data, ids=ids)
    page = make_report(folder)
    listed = suspects(page.html)
    assert len(listed) == page.listed > 5
    for each in listed:
        head, content = each["picture"].split(",")
        assert head == "data:image/webp;base64"
        (tmp_path / "one.webp").write_bytes(base64.b64decode(content))
        with Image.open(tmp_path / "one.webp") as image:
            assert image.size == size
            red = image.convert("RGB").getpixel((80, 50))[0]
        assert abs(red - 6 * each["row"]) < 6  # it is this row's
    (tmp_path / "photos").rename(tmp_path / "moved")
    gone = make_report(folder)
    assert gone.listed == page.listed
    assert not any("picture" in each for each in suspects(gone.html))
    assert (
        f"{page.listed} of {page.listed} pictures are no longer where the run read them"
        in gone.html
    )


@pytest.mark.slow
def test_pictures_of_an_uneven_slice_are_those_of_its_rows(tmp_path):
    spec = RunSpec(imbalance=ImbalanceSpec(kind="half", ratio=10), epochs=4, seed=3)
    kept = label(spec).source
    judgement = toy_judgement(len(kept.labels), 10)
    folder = write_run(tmp_path / "run", judgement, load_source(spec.data).class_names, spec=spec)
    for each in suspects(make_report(folder, limit=5).html):
        (tmp_path / "one.webp").write_bytes(base64.b64decode(each["picture"].split(",")[1]))
        with Image.open(tmp_path / "one.webp") as image:
            pixels = np.asarray(image.convert("L")).astype(int)
        assert np.abs(pixels - kept.inputs[each["row"], 0]).max() <= 1


@pytest.mark.parametrize("kind", ["images", "numbers", "wide"])
def test_rows_of_an_npz_file(tmp_path, kind):
    rng = np.random.default_rng(0)
    judgement = toy_judgement(50, 2)
    shape = {"images": (50, 12, 9, 3), "numbers": (50, 4), "wide": (50, 99)}[kind]
    values = rng.integers(0, 256, shape).astype(np.uint8 if kind == "images" else np.float32)
    np.savez_compressed(tmp_path / "x.npz", X=values, y=judgement.given)
    data = DataSpec(source="npz", path=str(tmp_path / "x.npz"))
    html = make_report(write_run(tmp_path / "run", judgement, ("a", "b"), data=data)).html
    first = suspects(html)[0]
    if kind == "images":
        (tmp_path / "one.webp").write_bytes(base64.b64decode(first["picture"].split(",")[1]))
        with Image.open(tmp_path / "one.webp") as image:
            assert np.array_equal(np.asarray(image), values[first["row"]])
    elif kind == "numbers":
        assert np.allclose([float(each) for each in first["values"]], values[first["row"]])
    else:
        assert "values" not in first
        assert "vector of 99 numbers, which is not shown" in html


def test_a_table_that_changed_is_not_shown(tmp_path):
    folder = flower_table(tmp_path)
    table = tmp_path / "flowers.csv"
    lines = table.read_text().splitlines()
    table.write_text("\n".join([*lines[:-1], ""]))
    assert "has 89 rows now and had 90 in the run" in make_report(folder).html
    table.write_text("\n".join([lines[0], *reversed(lines[1:]), ""]))
    html = make_report(folder).html
    assert "flowers.csv has changed since the run" in html
    assert not any("values" in each for each in suspects(html))
    table.unlink()
    assert "no such file" in make_report(folder).html


def test_a_method_without_uncertainty_and_a_run_without_suspects(tmp_path):
    judgement = toy_judgement(60, 3, wrong=0, measured=False)
    page = make_report(write_run(tmp_path / "run", judgement, ("a", "b", "c")))
    assert page.suspects == 0
    assert "No label looks wrong" in page.html
    assert "does not estimate the uncertainty of the model" in page.html


@pytest.mark.slow
def test_the_page_stays_below_its_limit(tmp_path, monkeypatch):
    judgement = toy_judgement(20_000, 10)
    ids = [f"{row}-" + "x" * 200 for row in range(20_000)]
    folder = write_run(tmp_path / "run", judgement, [f"class {k}" for k in range(10)], ids=ids)
    page = make_report(folder, limit=20_000)
    assert page.listed == page.suspects > 5000
    assert len(page.html.encode()) < LARGEST
    monkeypatch.setattr("ulc.report.page.LARGEST", 500_000)
    page = make_report(folder, limit=20_000)
    assert 400_000 < len(page.html.encode()) <= 500_000
    assert 0 < page.listed < page.suspects
    assert f"the {page.listed:,} most suspicious of {page.suspects:,}" in page.html
    assert [each["id"] for each in suspects(page.html)] == [
        line.split(",")[0]
        for line in (folder.path / "labels.csv").read_text().splitlines()[1 : page.listed + 1]
    ]


@pytest.mark.slow
def test_many_classes_do_not_blow_it_up(tmp_path):
    judgement = toy_judgement(3000, 600)
    page = make_report(write_run(tmp_path / "run", judgement, [f"c{k}" for k in range(600)]))
    assert len(page.html.encode()) < 2_000_000
    drawn = 40
    there = len(np.unique(judgement.given))
    assert f"{there - drawn} others are not" in page.html
    assert "The 570 classes with the fewest corrections are left out" in page.html


# What a user may do wrong: one sentence each.


def sentence(ulc, *arguments):
    code, printed = ulc("report", *arguments)
    assert code == 2
    assert printed.err.count("\n") == 1
    assert printed.out == ""
    return printed.err


def test_a_run_that_is_unfinished(tmp_path, ulc):
    folder = flower_table(tmp_path)
    (folder.path / "done").unlink()
    said = sentence(ulc, folder.path)
    assert "the run is unfinished (4 of 4 epochs); go on with `ulc resume" in said
    (folder.path / "records.jsonl").unlink()
    assert "unfinished (0 of 4 epochs)" in sentence(ulc, folder.path)
    for name in ("spec.toml", "judgement.npz"):
        (folder.path / name).unlink()
    (folder.path / "audit.toml").write_text("")
    assert "the audit is unfinished; go on with `ulc resume" in sentence(ulc, folder.path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("judgement.npz", b"PK"),
        ("judgement.npz", None),
        ("data.json", b"{"),
        ("data.json", b"{}"),
        ("data.json", b'{"class_names": ["a", "b"], "small_classes": []}'),
        ("records.jsonl", b"{"),
        ("ids.json", b'["one"]'),
        ("ids.json", b"["),
    ],
)
def test_a_run_that_is_damaged(tmp_path, ulc, name, content):
    folder = flower_table(tmp_path)
    if content is None:
        (folder.path / name).unlink()
    else:
        (folder.path / name).write_bytes(content)
    said = sentence(ulc, folder.path)
    assert "is damaged" in said or "is missing from the run" in said
    assert "--fresh" in said
    assert not (folder.path / "report.html").exists()


def test_a_run_of_another_version(tmp_path, ulc):
    folder = flower_table(tmp_path)
    folder.write_json("environment.json", {"packages": {"ulc": "9.9"}})
    assert ulc("report", folder.path)[0] == 0  # what can be read is read
    arrays = toy_judgement(90, 3).stored() | {"mood": np.zeros(90)}
    folder.write_arrays("judgement.npz", arrays)
    said = sentence(ulc, folder.path)
    assert "made by ulc 9.9, which this version" in said
    spec = (folder.path / "spec.toml").read_text()
    (folder.path / "spec.toml").write_text("mood = 3\n" + spec)
    assert "made by ulc 9.9" in sentence(ulc, folder.path)


def test_what_is_no_run_and_what_is_no_page(tmp_path, ulc):
    assert "not a run folder" in sentence(ulc, tmp_path)
    folder = flower_table(tmp_path)
    said = sentence(ulc, folder.path, "--out", folder.path / "labels.csv")
    assert "let the name end in .html" in said
    assert "there is no folder" in sentence(ulc, folder.path, "--out", tmp_path / "no" / "p.html")


def test_the_command_says_where_the_page_is(tmp_path, ulc):
    folder = flower_table(tmp_path)
    code, printed = ulc("report", folder.path, "--limit", 3, "--out", tmp_path / "page.html")
    assert code == 0
    assert printed.out.startswith(f"{tmp_path / 'page.html'}: 3 of ")
    assert len(suspects((tmp_path / "page.html").read_text(encoding="utf-8"))) == 3
    assert not (folder.path / "report.html").exists()
    assert isinstance(folder, RunFolder)


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (None, "–"), (0.0, "0 %"), (1e-6, "< 0.1 %"), (0.00049, "< 0.1 %"), (0.0006, "0.1 %"),
        (0.0512, "5.1 %"), (0.1, "10 %"), (0.256, "26 %"), (1.0, "100 %"),
    ],
)  # fmt: skip
def test_a_share_that_is_not_nought_is_not_told_as_nought(share, text):
    assert percent(share) == text


def test_ids_of_other_rows_are_refused(tmp_path, ulc):
    folder = flower_table(tmp_path)
    folder.write_json("ids.json", ["one", "two"])
    said = sentence(ulc, folder.path)
    assert "ids.json is damaged (2 ids, not 90)" in said
    assert not (folder.path / "report.html").exists()


def test_the_page_is_opened_if_asked(tmp_path, ulc, monkeypatch):
    folder, opened = flower_table(tmp_path, rows=24), []
    monkeypatch.setattr("typer.launch", opened.append)
    assert ulc("report", folder.path)[0] == 0
    assert opened == []
    assert ulc("report", folder.path, "--open")[0] == 0
    assert opened == [(folder.path / "report.html").as_uri()]
