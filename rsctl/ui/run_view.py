"""The page of one run: its frame, and the parts that change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any, NamedTuple
from urllib.parse import quote

from rsctl.api import Bench, Run, Store
from rsctl.bench.records import Benches
from rsctl.bench.summary import format_cell
from rsctl.findings import Finding, counted
from rsctl.results.report.build import add_overview
from rsctl.results.report.data import RunData, collect
from rsctl.results.report.html import Child, Markup, element, items, join, paragraph, section, table
from rsctl.results.report.page import left_out
from rsctl.results.report.result_section import state_mark
from rsctl.results.report.run_section import named_parts, run_facts
from rsctl.runs.records import Replica
from rsctl.runs.stream.formatting import format_number
from rsctl.ui.live_page import LivePage
from rsctl.ui.shell import address, button, finding_texts, page, part

TILES = 512
"""Replicas with a tile at most."""

_MANY = 16
"""Replicas beyond which tiles are small."""

_PARTS = ("results", "problems", "replicas")
_CHARTS = (
    *("metrics", "timeline", "goodput", "machines"),
    *("gradients", "stragglers", "profiles", "facts"),
)
_BENCH_PARTS = ("bench", "trials")


class View(NamedTuple):
    """The content of a page: its parts by name, its charts, and whether it no longer changes."""

    parts: dict[str, str]
    plots: list[dict[str, Any]]
    state: str
    is_final: bool


def run_frame(run: Run, parameters: dict[str, str]) -> str:
    """The page of a run before its first event."""
    quoted = quote(run.id, safe="")
    stream = address(f"/events/run/{quoted}", parameters)
    return page(
        run.id,
        _heading(run.id, run.state.value, [*_bench_link(run), *_links(run)]),
        part("outdated"),
        *(part(name) for name in _PARTS),
        _log(run, parameters),
        *(part(name) for name in _CHARTS),
        stream=stream,
        state=run.state.value,
        action=f"/cancel/run/{quoted}",
        subject=run.id,
    )


def bench_frame(bench: Bench) -> str:
    """The page of a bench before its first event."""
    quoted = quote(bench.id, safe="")
    return page(
        bench.id,
        _heading(bench.id, bench.state_text, []),
        *(part(name) for name in _BENCH_PARTS),
        stream=f"/events/bench/{quoted}",
        state=bench.state_text,
        action=f"/cancel/bench/{quoted}",
        subject=bench.id,
    )


def compare_frame(names: Sequence[str]) -> str:
    """The page that compares runs and benches, before its first event."""
    heading = element("div", element("h1", "Comparison"), class_="heading")
    stream = address("/events/compare", {"of": list(names)})
    return page("Comparison", heading, part("comparison"), stream=stream)


def _heading(name: str, state: str, links: Sequence[Child]) -> Markup:
    return element(
        "div",
        element("h1", name),
        element("span", state_mark(state), id="state"),
        element("nav", *links, button("Cancel", id="cancel", class_="danger", hidden="")),
        class_="heading",
    )


def _bench_link(run: Run) -> Iterator[Child]:
    with closing(Store()) as store:
        bench = Benches(store).of_run(run.id)
    if bench is not None:
        title = f"The bench of this run: {bench.bench}"
        link = f"/bench/{quote(bench.bench, safe='')}"
        yield element("a", "Bench", href=link, title=title, class_="button")


def _links(run: Run) -> list[Child]:
    """Links to the pages of the cloud; other addresses, such as folders, are among the facts."""
    pages = run.pages()
    return [
        element("a", name, href=where, target="_blank", rel="noopener noreferrer", class_="button")
        for name, where in pages.items()
        if where.startswith("https://")
    ]


def _log(run: Run, parameters: dict[str, str]) -> Markup:
    replica = parameters.get("replica", "")
    choices = [element("option", "all replicas", value="")]
    choices += [
        element("option", name, value=name, selected="" if name == replica else None)
        for name in run.replicas[:TILES]
    ]
    tools = element(
        "div",
        element("select", *choices, id="log-replica", aria_label="Replica"),
        element(
            "input",
            type="search",
            id="log-text",
            placeholder="Lines that contain …",
            aria_label="Lines that contain this text",
            value=parameters.get("text") or None,
            maxlength="200",
        ),
        element(
            "label",
            element("input", type="checkbox", id="log-errors",
                    checked="" if parameters.get("errors") else None),
            "standard error only",
        ),
        element("label", element("input", type="checkbox", id="log-follow", checked=""), "follow"),
        class_="tools",
    )  # fmt: skip
    lines = element("div", id="log", class_="log", tabindex="0", role="log", aria_label="Log")
    return element("section", element("h3", "Log"), tools, lines, id="log-section")


def run_view(store: Store, run: Run, outdated: Sequence[Finding]) -> View:
    """A run as it is now. Raises StoreError."""
    live = LivePage()
    data = collect(store, run.record, run.locations())
    named = {name: str(join(children)) for name, children in named_parts(live, data).items()}
    parts = {
        **named,
        "outdated": str(_outdated(outdated)),
        "replicas": str(join([_waiting(run), _tiles(data)])),
        "facts": str(section("Run", run_facts(data))),
    }
    return View(parts, live.plots, run.state.value, run.state.is_final)


def _waiting(run: Run) -> Markup:
    waiting = run.waiting()
    if waiting is None:
        return Markup()
    return paragraph(element("strong", "Waiting "), waiting.describe())


def _outdated(findings: Sequence[Finding]) -> Markup:
    if not findings:
        return Markup()
    title = paragraph(element("strong", "This page may be out of date"))
    return element("div", title, items(finding_texts(findings)), class_="warning")


def _tiles(data: RunData) -> Markup:
    """Each replica in the colour of its state, with its last step and its use of processors."""
    replicas = data.run.replicas[:TILES]
    if not replicas:
        return Markup()
    steps = _last_steps(data)
    use = {name: events[-1].value for name, events in
           data.metrics.get("node.cpu_percent", {}).items() if events}  # fmt: skip
    tiles = [_tile(each, steps.get(each.replica), use.get(each.replica)) for each in replicas]
    more = left_out(len(data.run.replicas) - len(replicas), "replica", "not shown")
    title = counted(len(data.run.replicas), "replica")
    kind = "tiles many" if len(tiles) > _MANY else "tiles"
    return section(title, element("div", *tiles, class_=kind), more)


def _last_steps(data: RunData) -> dict[str, int]:
    steps: dict[str, int] = {}
    for name in data.logged():
        for replica, events in data.metrics[name].items():
            if events and (step := events[-1].step) is not None:
                steps[replica] = max(step, steps.get(replica, 0))
    return steps


def _tile(replica: Replica, step: int | None, use: float | None) -> Markup:
    how = replica.state.value
    if replica.exit_code:
        how += f", exit {replica.exit_code}"
    at = f"step {step:,}" if step is not None else "\u00a0"
    load = f" CPU: {format_number(use)} % of a core." if use is not None else ""
    return element(
        "button",
        element("b", replica.replica),
        element("span", how),
        element("small", at),
        type="button",
        class_=f"tile {replica.state.value}",
        data_replica=replica.replica,
        title=f"{replica.reason or how}, since {replica.since[11:19]} UTC.{load} Show its log.",
    )


def bench_view(store: Store, bench: Bench) -> View:
    """A bench as it is now, with links to its runs. Raises StoreError."""
    live = LivePage(heading=f"Bench {bench.id}")
    add_overview(live, store, [bench.record])
    parts = {"bench": str(join(live.sections)), "trials": str(_trials(bench))}
    return View(parts, live.plots, bench.state_text, bench.state.is_final)


def _trials(bench: Bench) -> Markup:
    rows = [
        (
            element("a", trial.run, href=f"/run/{quote(trial.run, safe='')}"),
            state_mark(trial.state.value),
            format_cell(bench.record.cells[trial.cell]),
            trial.repetition + 1,
            trial.reason or "",
        )
        for trial in sorted(bench.record.latest().values(), key=lambda trial: trial.key)
    ]
    if not rows:
        return Markup()
    return section("Runs", table(("run", "state", "cell", "repetition", "reason"), rows))


def compare_view(store: Store, names: Sequence[str]) -> View:
    """Runs and benches side by side. Raises RsctlError if one does not exist."""
    sources: list[Any] = []
    for name in names:
        bench = Benches(store).get(name)
        sources.append(bench if bench is not None else store.find(name))
    live = LivePage()
    add_overview(live, store, sources)
    is_final = all(source.state.is_final for source in sources)
    return View({"comparison": str(join(live.sections))}, live.plots, "", is_final)
