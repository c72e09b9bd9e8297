"""The lists of runs and benches: what a filter chooses, and where the links lead."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from html import unescape

import pytest

from rsctl.bench.folder import BenchFolder
from rsctl.bench.records import Benches, BenchRecord
from rsctl.findings import JobState
from rsctl.runs.store import Store
from rsctl.ui.lists import Query, bench_list, run_list

COUNT = 120
STATES = (JobState.SUCCEEDED, JobState.EXPIRED, JobState.QUEUED)


@pytest.fixture
def benches() -> Store:
    """Benches of three states in turn, the newest first in the list."""
    return stored([STATES[number % 3] for number in range(COUNT)])


def stored(states: Iterable[JobState]) -> Store:
    store = Store()
    for number, state in enumerate(states):
        bench = BenchRecord(
            bench=f"bench-{number:03}",
            name="odd" if number % 2 else "even",
            target="process",
            definition=str(number),
            created=f"2026-01-31T12:00:00.{number:06}Z",
            state=state,
            repeat=1,
            cells=[{}],
            spec={},
        )
        Benches(store).claim(bench)
    return store


def listed(page: str) -> list[str]:
    return re.findall(r'href="/bench/([\w-]+)"', page)


def links(page: str) -> dict[str, str]:
    """The links to other pages, by their texts."""
    found = re.findall(r'<a href="([^"]+)" rel="\w+">(\w+)</a>', page)
    return {text: unescape(address) for address, text in found}


def test_benches_are_listed_by_pages(benches: Store) -> None:
    newest = [f"bench-{number:03}" for number in reversed(range(COUNT))]
    pages = [str(bench_list(benches, Query(page=number))) for number in (1, 2, 3, 9)]
    assert [listed(page) for page in pages] == [
        newest[:50],
        newest[50:100],
        newest[100:],
        newest[100:],
    ]
    assert [re.findall(r"[\d,]+ to [\d,]+ of [\d,]+", page) for page in pages] == [
        ["1 to 50 of 120"],
        ["51 to 100 of 120"],
        ["101 to 120 of 120"],
        ["101 to 120 of 120"],
    ]
    assert [links(page) for page in pages] == [
        {"Older": "/benches?page=2"},
        {"Newer": "/benches", "Older": "/benches?page=3"},
        {"Newer": "/benches?page=2"},
        {"Newer": "/benches?page=2"},
    ]


def test_a_filter_chooses_benches_by_words_and_state(benches: Store) -> None:
    page = str(bench_list(benches, Query(text="EVEN bench-01")))
    assert listed(page) == [f"bench-0{number}" for number in (18, 16, 14, 12, 10)]
    chips = re.findall(r'href="([^"]+)"(?: aria-current="\w+")?><span.*?</span><b>(\d+)</b>', page)
    assert [(unescape(address), int(count)) for address, count in chips] == [
        ("/benches?q=EVEN+bench-01", 5),
        ("/benches?q=EVEN+bench-01&state=running", 0),
        ("/benches?q=EVEN+bench-01&state=failed", 2),
        ("/benches?q=EVEN+bench-01&state=succeeded", 2),
        ("/benches?q=EVEN+bench-01&state=cancelled", 0),
        ("/benches?q=EVEN+bench-01&state=incomplete", 1),
    ]
    for state, numbers in (("succeeded", (18, 12)), ("failed", (16, 10)), ("incomplete", (14,))):
        chosen = str(bench_list(benches, Query("EVEN bench-01", state)))
        assert listed(chosen) == [f"bench-0{number}" for number in numbers]
        assert chosen.count('aria-current="true"') == 1
    none = str(bench_list(benches, Query("EVEN bench-01", "cancelled")))
    assert "No bench matches" in none
    assert "Pages of the list" not in none


def test_each_state_is_under_one_of_the_links() -> None:
    """A bench that has not ended and that no process runs is incomplete."""
    store = stored(JobState)
    lock = BenchFolder("bench-000").lock()
    assert lock is not None
    page = str(bench_list(store, Query()))
    os.close(lock)
    assert re.findall(r"<span[^>]*>(\w+)</span><b>(\d+)</b></a>", page) == [
        ("all", "8"),
        ("running", "1"),
        ("failed", "2"),
        ("succeeded", "1"),
        ("cancelled", "1"),
        ("incomplete", "3"),
    ]


def test_a_bench_that_no_process_runs_is_incomplete_and_has_no_time() -> None:
    """A process that holds the lock of a bench runs it."""
    store = stored([JobState.RUNNING])
    row = r'class="state \w+">(\w+)<.*?<span class="time"><b>([\d:]*)</b>'
    assert re.findall(row, str(bench_list(store, Query()))) == [("incomplete", "")]
    lock = BenchFolder("bench-000").lock()
    assert lock is not None
    [(state, time)] = re.findall(row, str(bench_list(store, Query())))
    os.close(lock)
    assert (state, bool(time)) == ("running", True)


def test_an_empty_list_says_how_one_begins() -> None:
    store = Store()
    assert "No run yet" in (page := str(run_list(store, Query())))
    assert "rsctl submit JOB starts one" in page
    assert "No bench yet" in (page := str(bench_list(store, Query("x"))))
    assert "rsctl bench run JOB starts one" in page
