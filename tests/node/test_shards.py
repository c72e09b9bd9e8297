"""Names by brace ranges, and their shares."""

from __future__ import annotations

import re

import pytest

from rsctl.node import shards


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a-{0..2}.tar", ["a-0.tar", "a-1.tar", "a-2.tar"]),
        ("{08..10}", ["08", "09", "10"]),
        ("{8..010}", ["008", "009", "010"]),
        ("{9..11}", ["9", "10", "11"]),
        ("{5..5}", ["5"]),
        ("d{0..1}/{1..2}.tar", ["d0/1.tar", "d0/2.tar", "d1/1.tar", "d1/2.tar"]),
    ],
)
def test_a_range_is_expanded_as_by_a_shell(text: str, names: list[str]) -> None:
    assert shards.has_range(text)
    assert shards.expand(text) == names
    assert shards.count(text) == len(names)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{3..1}", "the range {3..1} is empty: its end is below its start"),
        ("{a..z}", "a range has the form {000..127}, two numbers in braces"),
        ("{0..3", "a range has the form {000..127}, two numbers in braces"),
        ("{..}", "a range has the form {000..127}, two numbers in braces"),
        ("{0..3}{a,b}", "a range has the form {000..127}, two numbers in braces"),
        ("{{0..3}}", "a range has the form {000..127}, two numbers in braces"),
        ("{0..-1}", "a range has the form {000..127}, two numbers in braces"),
        ("{0..999999999}", "it expands to 1,000,000,000 names, and the maximum is 100,000"),
        ("{0..999}{0..999}", "it expands to 1,000,000 names, and the maximum is 100,000"),
    ],
)
def test_what_is_no_range_is_said(text: str, why: str) -> None:
    assert shards.has_range(text)
    with pytest.raises(ValueError, match=f"^{re.escape(why)}$"):
        shards.expand(text)


@pytest.mark.parametrize("text", ["a.tar", "{a,b}.tar", "{}", "a..b", "data/x-*.tar"])
def test_other_names_have_none(text: str) -> None:
    assert not shards.has_range(text)


def test_the_folder_is_what_no_range_is_in() -> None:
    assert shards.split_folder("gs://b/a/t-{0..1}.tar") == ("gs://b/a", "t-{0..1}.tar")
    assert shards.split_folder("/d/{0..1}/{2..3}.tar") == ("/d", "{0..1}/{2..3}.tar")
    assert shards.split_folder("{0..1}") == ("", "{0..1}")


@pytest.mark.parametrize("nodes", [1, 3, 4, 7])
def test_nodes_have_each_shard_once(nodes: int) -> None:
    names = shards.expand("{0..9}")
    parts = [shards.share(names, node, nodes) for node in range(nodes)]
    assert sorted(name for part in parts for name in part) == names
    assert {len(part) for part in parts} <= {10 // nodes, 10 // nodes + 1}
    assert shards.share(["a"], 3, 4) == []
