"""The lists of runs and benches, a page at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple, TypeVar
from urllib.parse import quote

from rsctl.api import Store
from rsctl.bench.records import Benches, BenchRecord
from rsctl.bench.summary import INCOMPLETE, done, format_trial, state_text
from rsctl.findings import counted
from rsctl.results.report.html import Child, Markup, element, join, paragraph
from rsctl.results.report.result_section import state_mark
from rsctl.runs.records import RunSummary
from rsctl.runs.stream.events import now, seconds_between
from rsctl.runs.stream.formatting import format_duration, format_number
from rsctl.ui.shell import address

ROWS = 50
"""Runs of one page of the list."""

_METRICS = 2
_STATES = ("running", "failed", "succeeded", "cancelled", INCOMPLETE)
_GROUPS = {
    "queued": "running",
    "starting": "running",
    "cancelling": "running",
    "expired": "failed",
}

_Item = TypeVar("_Item", RunSummary, BenchRecord)


class Query(NamedTuple):
    """The filter of a list: a text, a group of states, and a page, counted from 1."""

    text: str = ""
    state: str = ""
    page: int = 1

    @classmethod
    def of(cls, parameters: Mapping[str, str]) -> Query:
        """The filter in an address; ignores values that it cannot have."""
        number = parameters.get("page", "1")
        state = parameters.get("state", "")
        return cls(
            parameters.get("q", "")[:200],
            state if state in _STATES else "",
            max(1, int(number[:6])) if number.isascii() and number.isdigit() else 1,
        )

    def address(self, path: str, state: str | None = None, page: int | None = None) -> str:
        """The address of a list with this filter, or with another state or page."""
        number = self.page if page is None else page
        return address(
            path,
            {
                "q": self.text,
                "state": self.state if state is None else state,
                "page": str(number) if number > 1 else "",
            },
        )


def run_list(store: Store, query: Query) -> Markup:
    """The runs that match, with links to other states and pages. Raises StoreError."""

    def rows(shown: Sequence[RunSummary]) -> Iterator[Markup]:
        trials = _trials(store, [run.run for run in shown])
        return (_run_row(store, run, trials.get(run.run)) for run in shown)

    hint = "rsctl submit JOB starts one; it then appears here."
    return _list("/", query, {run.run: run for run in store.index()}, rows, "run", hint)


def bench_list(store: Store, query: Query) -> Markup:
    """The benches that match. Raises StoreError."""
    known = {bench.bench: bench for bench in Benches(store).benches()}
    hint = "rsctl bench run JOB starts one; it then appears here."
    return _list("/benches", query, known, partial(map, _bench_row), "bench", hint)


def _list(
    path: str,
    query: Query,
    known: Mapping[str, _Item],
    rows: Callable[[Sequence[_Item]], Iterable[Markup]],
    kind: str,
    hint: str,
) -> Markup:
    if not known:
        return join([_nothing(f"No {kind} yet", hint)])
    named = [
        item for key, item in known.items() if _matches(query.text, key, item.name, item.target)
    ]
    states = [
        state_text(item) if isinstance(item, BenchRecord) else item.state.value for item in named
    ]
    groups = [_GROUPS.get(state, state) for state in states]
    chosen = [i for i, g in zip(named, groups, strict=True) if query.state in ("", g)]
    pages = max(1, -(-len(chosen) // ROWS))
    number = min(query.page, pages)
    nothing = _nothing(f"No {kind} matches", "Change the text or the state above.")
    shown = chosen[(number - 1) * ROWS : number * ROWS]
    return join(
        [
            _chips(path, query, groups),
            element("ul", *rows(shown), class_="rows") if shown else nothing,
            _pages(path, query, len(chosen), number, pages),
        ]
    )


def _matches(text: str, *names: str) -> bool:
    words = text.lower().split()
    whole = " ".join(names).lower()
    return all(word in whole for word in words)


def _nothing(title: str, text: str) -> Markup:
    return element("div", element("h2", title), paragraph(text, class_="faint"), class_="nothing")


def _chips(path: str, query: Query, groups: Iterable[str]) -> Markup:
    """Links to the states, with how many there are."""
    all_groups = list(groups)
    entries = [("", "all", len(all_groups))]
    shown = [s for s in _STATES if s in (*all_groups, query.state) or s != INCOMPLETE]
    entries += [(state, state, all_groups.count(state)) for state in shown]
    links = [
        element(
            "a",
            element("span", text, class_=f"dot {state}" if state else None),
            element("b", f"{count:,}"),
            href=query.address(path, state=state, page=1),
            aria_current="true" if state == query.state else None,
        )
        for state, text, count in entries
    ]
    return element("nav", *links, class_="chips", aria_label="States")


def _trials(store: Store, runs: Iterable[str]) -> dict[str, Markup]:
    """The cell and the bench, with a link, of each run that belongs to a bench."""
    benches = Benches(store)
    names = benches.by_run()
    found: dict[str, Markup] = {}
    for name in {names[run] for run in runs if run in names}:
        if (bench := benches.get(name)) is not None:
            link = element("a", name, href=f"/bench/{quote(name, safe='')}")
            for trial in bench.trials:
                cell = f"{format_trial(bench.cells, trial)} of "
                found[trial.run] = join([cell, link])
    return found


def _run_row(store: Store, run: RunSummary, trial: Markup | None) -> Markup:
    values: dict[str, float] = {}
    with suppress(KeyError):
        values = store.last_values(run.run)
    metrics = [
        element("span", f"{name} ", element("b", format_number(value)))
        for name, value in list(values.items())[:_METRICS]
    ]
    attempt = f" · attempt {run.attempt}" if run.attempt > 1 else ""
    about = run.reason or run.target + attempt
    more = join([about, " · ", trial]) if trial else about
    return element(
        "li",
        _pick(run.run, "run"),
        _name(f"/run/{quote(run.run, safe='')}", run.run, more),
        state_mark(run.state.value),
        element("span", *metrics, class_="values"),
        _time(run.created, run.ended or now()),
    )


def _bench_row(bench: BenchRecord) -> Markup:
    total = len(bench.cells) * bench.repeat
    text = f"{counted(len(bench.cells), 'cell')} on {bench.target}"
    state = state_text(bench)
    return element(
        "li",
        _pick(bench.bench, "bench"),
        _name(f"/bench/{quote(bench.bench, safe='')}", bench.bench, text),
        state_mark(state),
        element("span", element("b", f"{done(bench)} of {total}"), " runs", class_="values"),
        _time(bench.created, bench.ended or ("" if state == INCOMPLETE else now())),
    )


def _pick(name: str, kind: str) -> Markup:
    box = element("input", type="checkbox", data_compare=name)
    return element("label", box, class_="pick", title=f"Compare this {kind}")


def _name(link: str, name: str, more: Child) -> Markup:
    return element(
        "span",
        element("a", name, href=link),
        element("small", more, class_="faint"),
        class_="name",
    )


def _time(created: str, end: str) -> Markup:
    """The time until the end; empty for an end that is not a time."""
    took = ""
    with suppress(ValueError):
        took = format_duration(seconds_between(created, end))
    day = created[:16].replace("T", " ")
    return element("span", element("b", took), element("small", f"{day} UTC", class_="faint"),
                   class_="time")  # fmt: skip


def _pages(path: str, query: Query, total: int, number: int, pages: int) -> Child:
    if total == 0:
        return None
    first = (number - 1) * ROWS + 1
    text = f"{first:,} to {min(total, number * ROWS):,} of {total:,}"
    links: Sequence[Child] = [
        element("a", "Newer", href=query.address(path, page=number - 1), rel="prev")
        if number > 1
        else None,
        element("a", "Older", href=query.address(path, page=number + 1), rel="next")
        if number < pages
        else None,
    ]
    return element("nav", element("span", text, class_="faint"), *links, class_="pages",
                   aria_label="Pages of the list")  # fmt: skip
