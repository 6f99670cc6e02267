"""The map of the data: which rows are on it, where, and when there is none."""

import re

import numpy as np
import pytest
from browser_pages import decided, focused, opened, suspects, write_page
from report_runs import flower_table, photo_folder, toy_judgement, write_run
from sklearn.decomposition import PCA

from stub_sentences import make_messages
from ulc.config import DataSpec, RunSpec
from ulc.data.sources import load_source
from ulc.data.text.encoding import TextEncoding
from ulc.data.text.pretrained import PretrainedFeatures
from ulc.errors import InputError
from ulc.report import data_map
from ulc.report.data_map import chosen_rows, draw_map, principal_plane
from ulc.report.examples import wanted_rows
from ulc.report.features import find_features, read_features
from ulc.report.findings import Findings
from ulc.report.page import make_report
from ulc.training.run import run


def vector_run(path, rows=120, width=40):
    """Vectors of three classes in an npz file, and its run."""
    judgement = toy_judgement(rows, 3)
    rng = np.random.default_rng(0)
    centres = rng.normal(0, 4, (3, width))
    vectors = centres[np.arange(rows) % 3] + rng.normal(0, 1, (rows, width))
    np.savez(path / "x.npz", X=vectors.astype(np.float32), y=judgement.given)
    data = DataSpec(source="npz", path=str(path / "x.npz"))
    return write_run(path / "run", judgement, "abc", data=data)


def test_the_plane_is_that_of_principal_components_whatever_their_sign():
    rng = np.random.default_rng(0)
    features = rng.normal(0, 1, (200, 6)) * np.array([1, 5, 1, 3, 0, 1]) + 7
    places, explained = principal_plane(features)
    fitted = PCA(2).fit(features)
    expected = fitted.transform(features)
    signs = np.sign((places * expected).sum(0))
    assert np.allclose(places, expected * signs)
    assert explained == pytest.approx(fitted.explained_variance_ratio_.sum())
    assert np.allclose(principal_plane(features[::-1])[0][::-1], places)


def test_rows_on_the_map_are_few_and_hold_the_first_suspects_and_all_classes(monkeypatch):
    monkeypatch.setattr(data_map, "POINTS", 60)
    monkeypatch.setattr(data_map, "MARKED", 20)
    judgement = toy_judgement(900, 5)
    findings = Findings.from_judgement(judgement, tuple("abcde"), np.zeros(5, bool), 0.5)
    rows = chosen_rows(findings, findings.suspects)
    assert len(rows) == len(set(rows)) == 60
    assert list(rows[-20:]) == list(findings.suspects[:20])
    assert not findings.issue[rows[:-20]].any()
    assert np.bincount(findings.given[rows[:-20]]).min() >= 5  # of 40, eight by their share


def test_sentences_have_a_map_of_the_vectors_that_were_learned(tmp_path):
    make_messages(60).to_csv(tmp_path / "mail.csv", index=False)
    data = DataSpec(source="table", path=str(tmp_path / "mail.csv"), label="topic", text="message")
    folder = run(RunSpec(data=data, algorithm="ce", epochs=1), tmp_path / "runs")
    rows = np.array([7, 0, 31])
    assert np.allclose(find_features(folder, rows, None), load_source(data).inputs[rows])
    assert '<section id="map"' in make_report(folder).html


@pytest.mark.parametrize("make", [vector_run, flower_table])
def test_vectors_and_tables_have_a_map_with_every_suspect(tmp_path, make):
    folder = make(tmp_path)
    html = make_report(folder).html
    assert html == make_report(folder).html
    section = re.search(r'<section id="map".*?</section>', html, re.DOTALL)[0]
    drawn = {int(row) for row in re.findall(r'data-row="(\d+)"', section)}
    assert drawn == set(Findings.of(folder).suspects.tolist())
    points = section.count("h0")
    assert points + len(drawn) == len(Findings.of(folder))


def test_embedded_images_of_an_audit_have_a_map(tmp_path):
    folder = photo_folder(tmp_path)
    findings = Findings.of(folder)
    assert draw_map(folder, findings, folder.ids, findings.suspects) is None  # raw images
    vectors = np.random.default_rng(0).normal(0, 1, (len(findings), 8)).astype(np.float16)
    np.savez(folder.path / "features.npz", X=vectors, y=findings.given)
    assert draw_map(folder, findings, folder.ids, findings.suspects).rows == len(findings)


def test_data_that_moved_or_are_all_equal_have_no_map(tmp_path):
    folder = vector_run(tmp_path)
    findings = Findings.of(folder)
    assert draw_map(folder, findings, None, findings.suspects) is not None
    np.savez(tmp_path / "x.npz", X=np.ones((120, 40)), y=findings.given)
    assert draw_map(folder, findings, None, findings.suspects) is None
    (tmp_path / "x.npz").unlink()
    assert draw_map(folder, findings, None, findings.suspects) is None
    assert 'id="map"' not in make_report(folder).html


@pytest.mark.slow
def test_a_point_leads_to_its_card_and_the_map_follows_the_review(chromium, tmp_path):
    folder = flower_table(tmp_path)
    rows = suspects(folder)
    positions = {row: int(row.removeprefix("flower-")) for row in (each["id"] for each in rows)}
    with opened(chromium, write_page(folder)) as page:

        def ringed():
            return page.locator("#map circle.here").get_attribute("data-row")

        assert ringed() == str(positions[rows[0]["id"]])
        page.locator("#search").fill(rows[0]["id"])  # the filter hides the other one
        last = rows[-1]["id"]
        page.locator(f'#map circle[data-row="{positions[last]}"]').dispatch_event("click")
        assert focused(page) == last
        assert ringed() == str(positions[last])
        coloured = page.locator("#map path.is-suggested").get_attribute("data-class")
        names = ["iris", "rose, wild"]
        expected = rows[-1]["suggested_label"]
        assert int(coloured) == (names.index(expected) if expected in names else 2)
        page.click("#review")
        page.keyboard.press("a")
        assert decided(page)[0] == "accept"
        assert ringed() == str(positions[rows[1]["id"]])


def test_a_pretrained_model_of_sentences_is_not_loaded_for_a_map(tmp_path, monkeypatch):
    monkeypatch.setattr("ulc.data.text.pretrained.load_encoder", None)
    make_messages(60).to_csv(tmp_path / "mail.csv", index=False)
    data = DataSpec(source="table", path=str(tmp_path / "mail.csv"), label="topic", text="message")
    folder = write_run(tmp_path / "run", toy_judgement(60, 3), "abc", data=data)
    encoding = TextEncoding("message", PretrainedFeatures("model2vec:small", np.zeros((1, 2))))
    folder.write_arrays("text.npz", encoding.arrays())
    assert read_features(folder, wanted_rows(folder, np.array([7, 0]), None)) is None


def test_an_encoding_without_columns_is_refused_and_costs_the_map_only(tmp_path):
    folder = flower_table(tmp_path)
    folder.write_json("encoding.json", {"columns": [], "left_out": {"petal": "constant"}})
    wanted = wanted_rows(folder, np.array([7, 0]), None)
    with pytest.raises(InputError, match=r"encoding.json: 'columns'"):
        read_features(folder, wanted)
    assert 'id="map"' not in make_report(folder).html
