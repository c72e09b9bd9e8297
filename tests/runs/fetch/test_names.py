"""Paths for names that anybody may choose."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsctl.runs.fetch.names import assign_paths, part_file


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("a/b.txt", "a/b.txt"),
        ("100% é b.pt", "100% é b.pt"),
        ("../../x", "%2E%2E/%2E%2E/x"),
        ("a/./b", "a/%2E/b"),
        ("/etc/passwd", "%2F/etc/passwd"),
        ("a//b", "a/%2F/b"),
        ("a/", "a/%2F"),
        ("a\x00b\x1b[31m\n", "a%00b%1B[31m%0A"),
        ("\ud800", "%ED%A0%80"),
        ("..\\..\\x", "..\\..\\x"),
        ("...", "..."),
        (".0123456789abcdef.part", "%2E0123456789abcdef.part"),
    ],
)
def test_names_that_lead_elsewhere_are_escaped(name: str, path: str) -> None:
    assert assign_paths([name], folds_case=False) == {name: path}


def test_a_file_and_a_folder_of_one_name() -> None:
    paths = assign_paths(["a", "a/b", "a/b/c"], folds_case=False)
    assert paths["a/b/c"] == "a/b/c"
    assert paths["a"].startswith("a~")
    assert paths["a/b"].startswith("a/b~")


def test_case_matters_where_the_file_system_says_so() -> None:
    names = ["Model.pt", "model.pt"]
    assert assign_paths(names, folds_case=False) == {name: name for name in names}
    folded = assign_paths(names, folds_case=True)
    assert folded["Model.pt"] == "Model.pt"
    assert folded["model.pt"].startswith("model.pt~")


def test_what_is_escaped_takes_no_name_from_others() -> None:
    paths = assign_paths(["../x", "%2E%2E/x"], folds_case=False)
    assert paths["%2E%2E/x"] == "%2E%2E/x"
    assert paths["../x"].startswith("%2E%2E/x~")


def test_long_names_are_shortened() -> None:
    names = ["é" * 300 + "1", "é" * 300 + "2"]
    paths = assign_paths(names, folds_case=False)
    assert len(set(paths.values())) == 2
    assert all(len(path.encode()) <= 255 for path in paths.values())


@given(st.sets(st.text("aAb./\\\0%~\x85é\ud800", max_size=8).filter(bool), max_size=12))
def test_no_two_share_a_path_and_none_leads_out(names: set[str]) -> None:
    for folds_case in (False, True):
        paths = assign_paths(names, folds_case)
        keys = {path.casefold() if folds_case else path for path in paths.values()}
        assert len(keys) == len(names)
        for path in paths.values():
            assert not PurePosixPath(path).is_absolute()
            assert not {"", ".", ".."} & set(path.split("/"))
            assert not any(other.startswith(f"{path}/") for other in paths.values())
            path.encode()


def test_a_part_is_beside_its_file() -> None:
    assert part_file("a/b").startswith("a/.")
    assert part_file("a") != part_file("b")
