"""Outliers, almost equal rows and copies in conflict on the page."""

import re

import pytest
from report_runs import flower_table, photo_folder

from ulc.errors import InputError
from ulc.labels.health import health
from ulc.report.page import make_report


def complete_health(folder):
    """The health.json of the run's own judgement."""
    return health(folder.judgement, folder.read_json("data.json")["class_names"], 0.5)


def with_health(folder):
    """The run with a health.json that names its first rows."""
    ids = folder.ids
    folder.write_json(
        "health.json",
        complete_health(folder)
        | {
            "outliers": {
                "rows": 7,
                "listed": [{"id": ids[0], "label": "<b>", "distance": 4.5}],
            },
            "near_duplicates": {
                "pairs": 9,
                "listed": [{"ids": ids[1:3], "labels": ["x", "y"], "distance": 0.01}],
            },
            "duplicates": {
                "groups": 3,
                "rows": 6,
                "conflicts": 3,
                "conflicting": [{"ids": ids[3:5], "labels": ["x", "y"], "size": 2}],
            },
            "near_pictures": {
                "groups": 5,
                "rows": 40,
                "conflicts": 1,
                "listed": [
                    {"ids": ids[5:7], "labels": ["x", "y"], "size": 2},
                    {"ids": ids[7:27], "labels": ["x"] * 20, "size": 30},
                ],
            },
        },
    )
    return folder


def section(html):
    found = re.search(r'<section id="odd".*?</section>', html, re.DOTALL)
    return found and found[0]


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
