"""Summaries of profiles: read of log lines, kept by rank, shown as a sentence."""

from __future__ import annotations

import json

import pytest

from rsctl.findings import JobState
from rsctl.runs.profiles import keep_profile, profiles_of
from rsctl.runs.store import RunRecord, Store
from rsctl.runs.stream.events import LogEvent
from rsctl.runs.stream.profiles import RankProfile, reported_profile

FIELDS = {
    **{"rsctl": "profile", "tool": "py-spy", "rank": 2, "steps": None, "communication": 0.5},
    **{"file": "rsctl-profile/rank-2.folded.txt", "top": [["f (/a/b/c.py:3)", 0.25]]},
}


def read(**fields: object) -> RankProfile | None:
    """The summary in a line of a log with these fields."""
    text = json.dumps({**FIELDS, **fields})
    return reported_profile(
        LogEvent("2026-01-01T00:00:00.000000Z", "worker-0", "0", "stdout", text)
    )


def test_a_summary_is_a_sentence() -> None:
    found = read()
    assert found is not None
    assert found.describe() == (
        "profile of rank 2 (py-spy, the whole run): 50% communication; most time in f (c.py:3) "
        "25%; rsctl-profile/rank-2.folded.txt"
    )
    some = read(tool="torch", steps="2..4", communication=None, top=[])
    assert some is not None
    assert some.describe() == (
        "profile of rank 2 (torch, steps 2..4); rsctl-profile/rank-2.folded.txt"
    )


@pytest.mark.parametrize(
    "fields",
    [
        {"rsctl": "profiles"},
        {"tool": "other"},
        {"rank": -1},
        {"rank": "0"},
        {"communication": 1.5},
        {"top": [["f"]]},
        {"top": [["f", 0.1]] * 21},
        {"file": None},
    ],
)
def test_a_line_of_another_form_is_ignored(fields: dict[str, object]) -> None:
    assert read(**fields) is None


def test_texts_of_a_line_become_one_line() -> None:
    found = read(file="a\x1b[31m\nb", top=[["x\ry" * 200, 0.1]], steps="1\n2")
    assert found is not None
    texts = [found.file, found.top[0][0], str(found.steps)]
    assert all(text.isprintable() and len(text) <= 1000 for text in texts)


def test_the_last_summary_of_a_rank_is_kept() -> None:
    store = Store()
    run = "job-aaaaaa"
    store.add(
        RunRecord(
            run=run,
            name="job",
            target="process",
            url=f"process://{run}",
            state=JobState.RUNNING,
            created="2026-01-01T00:00:00.000000Z",
        )
    )
    for rank, part in ((2, 0.1), (1, 0.2), (2, 0.3)):
        found = read(rank=rank, communication=part)
        assert found is not None
        keep_profile(store, run, found)
    kept = profiles_of(store, run)
    assert [(each.rank, each.communication) for each in kept] == [(1, 0.2), (2, 0.3)]
    assert profiles_of(store, "job-bbbbbb") == []
