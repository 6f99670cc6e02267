"""Outliers, almost equal rows and copies in conflict on the page."""

import re

import pytest
from report_runs import complete_health, flower_table, photo_folder, with_health

from ulc.errors import InputError
from ulc.report.page import make_report


def section(html):
    found = re.search(r'<section id="odd".*?</section>', html, re.DOTALL)
    return found and found[0]


def test_poor_pictures_are_listed_by_kind(tmp_path):
    folder = photo_folder(tmp_path)
    kinds = [
        {"kind": "dark", "rows": 0, "listed": []},
        {
            "kind": "blurry",
            "rows": 40,
            "listed": [{"id": each, "label": "x", "score": 0.1} for each in folder.ids[:20]],
        },
    ]
    entry = {"poor_pictures": {"found_by": "cleanvision 0.0", "kinds": kinds}}
    folder.write_json("health.json", complete_health(folder) | entry)
    shown = section(make_report(folder).html)
    assert re.findall("<h3>(.*?)</h3>", shown) == ["Blurred pictures (40)"]
    assert shown.count('src="data:image/webp;base64,') == 12


def test_one_line_says_how_to_look_for_poor_pictures(tmp_path):
    folder = photo_folder(tmp_path)
    entry = {"poor_pictures": {"note": "pip install <something>."}}
    folder.write_json("health.json", complete_health(folder) | entry)
    assert "pip install &lt;something&gt;." in section(make_report(folder).html)


def test_the_page_lists_them_with_pictures_and_relative_paths(tmp_path):
    folder = with_health(photo_folder(tmp_path))
    shown = section(make_report(folder).html)
    names = [each.removeprefix(f"{tmp_path}/photos/") for each in folder.ids[:15]]
    conflict, pictures, near, outlier = (names[3:5], names[5:15], names[1:3], names[:1])
    assert re.findall(r'class="path">(.*?)<', shown) == [*conflict, *pictures, *near, *outlier]
    assert shown.count('src="data:image/webp;base64,') == 15
    assert "Outliers: far from all others (7)" in shown
    assert "Almost equal features (9)" in shown
    assert "Copies with different labels (3)" in shown
    assert "Almost the same picture (5, 1 with different labels)" in shown
    assert shown.count("different labels</span>") == 1  # a mark at one group of pictures
    assert "and 22 more" in shown
    assert "&lt;b&gt;" in shown


def test_rows_of_a_table_are_listed_by_id(tmp_path):
    shown = section(make_report(with_health(flower_table(tmp_path))).html)
    assert "flower-000" in shown
    assert "<img" not in shown


def test_a_run_without_them_has_no_such_part(tmp_path):
    assert section(make_report(flower_table(tmp_path)).html) is None


def test_a_health_file_of_another_form_is_told_in_a_sentence(tmp_path):
    folder = flower_table(tmp_path)
    odd = {"outliers": {"listed": [{"id": 3}]}}
    folder.write_json("health.json", complete_health(folder) | odd)
    with pytest.raises(InputError, match=r"health\.json is damaged"):
        make_report(folder)
