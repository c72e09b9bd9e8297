"""The addresses of the server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from anyio import CancelScope
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from rsctl.api import Bench, ExitCode, RsctlError, Run, Store
from rsctl.bench.records import Benches
from rsctl.results.report.html import Markup, element, paragraph, plain
from rsctl.results.report.page import style_sheet
from rsctl.ui import run_view, shell, streams
from rsctl.ui.exposition import MEDIA_TYPE, exposition
from rsctl.ui.keeper import Keeper
from rsctl.ui.lists import Query, bench_list, run_list
from rsctl.ui.own_thread import OwnThread

_ASSETS = {"app.js": "text/javascript", "plot.js": "text/javascript", "icon.svg": "image/svg+xml"}
_FOLDER = Path(__file__).with_name("assets")
_COMPARED = 20
_LOG_PARAMETERS = ("replica", "text", "errors")


def make_app(keeper: Keeper) -> Starlette:
    """The application; `Guard` must stand before it."""
    makers: dict[str, Callable[[Request], streams.Stream]] = {
        "runs": lambda asked: streams.list_events(keeper, run_list, Query.of(asked.query_params)),
        "benches": lambda asked: streams.list_events(
            keeper, bench_list, Query.of(asked.query_params)
        ),
        "run/{name}": lambda asked: streams.run_events(keeper, _run(asked), _chosen(asked)),
        "bench/{name}": lambda asked: streams.bench_events(keeper, _bench(asked)),
        "compare": lambda asked: streams.compare_events(keeper, _compared(asked)),
    }
    return Starlette(
        routes=[
            Route("/", lambda asked: _list_page(asked, "Runs", "/", run_list)),
            Route("/benches", lambda asked: _list_page(asked, "Benches", "/benches", bench_list)),
            Route("/run/{name}", _run_page),
            Route("/bench/{name}", _bench_page),
            Route("/compare", _comparison),
            *(Route(f"/events/{path}", partial(_events, make)) for path, make in makers.items()),
            Route("/cancel/run/{name}", partial(_cancel, _run), methods=["POST"]),
            Route("/cancel/bench/{name}", partial(_cancel, _bench), methods=["POST"]),
            Route("/assets/style.css", _style),
            Route("/assets/{name}", _asset),
            Route("/metrics", _metrics),
            Route("/favicon.ico", _icon),
        ],
        exception_handlers={HTTPException: _refused, RsctlError: _failed},
    )


def _run_page(request: Request) -> Response:
    return HTMLResponse(run_view.run_frame(_run(request), _chosen(request)))


def _bench_page(request: Request) -> Response:
    return HTMLResponse(run_view.bench_frame(_bench(request)))


def _comparison(request: Request) -> Response:
    return HTMLResponse(run_view.compare_frame(_compared(request)))


def _events(make: Callable[[Request], streams.Stream], request: Request) -> Response:
    return _Stream(make(request))


def _cancel(find: Callable[[Request], Run | Bench], request: Request) -> Response:
    handle = find(request)
    if not handle.state.is_final:
        handle.request_cancel()
    return JSONResponse({"requested": handle.id}, 202)


def _list_page(
    request: Request, title: str, path: str, make: Callable[[Store, Query], Markup]
) -> Response:
    query = Query.of(request.query_params)
    with closing(Store()) as store:
        rows = make(store, query)
    search = element(
        "form",
        element("input", type="search", name="q", value=query.text or None, maxlength="200",
                placeholder="Name or target", aria_label="Name or target"),
        element("input", type="hidden", name="state", value=query.state)
        if query.state
        else None,
        role="search",
        method="get",
        action=path,
    )  # fmt: skip
    heading = element("div", element("h1", title), search, class_="heading")
    events = "/events/runs" if path == "/" else path.replace("/", "/events/", 1)
    stream = query.address(events)
    text = shell.page(title, heading, shell.part("list", rows), here=path, stream=stream)
    return HTMLResponse(text)


def _run(request: Request) -> Run:
    with closing(Store()) as store:
        record = store.get(request.path_params["name"])
    if record is None:
        raise HTTPException(404, "This run does not exist, or is no longer in the list.")
    return Run(record)


def _bench(request: Request) -> Bench:
    with closing(Store()) as store:
        record = Benches(store).get(request.path_params["name"])
    if record is None:
        raise HTTPException(404, "This bench does not exist, or is no longer in the list.")
    return Bench(record)


def _compared(request: Request) -> list[str]:
    names = list(dict.fromkeys(request.query_params.getlist("of")))
    if not 2 <= len(names) <= _COMPARED:
        raise HTTPException(400, f"Select 2 to {_COMPARED} runs or benches in the list.")
    with closing(Store()) as store:
        known = store.ids()
        for name in names:
            if name not in known and Benches(store).get(name) is None:
                raise HTTPException(404, f"{plain(name, 80)} is not a run or a bench.")
    return names


def _chosen(request: Request) -> dict[str, str]:
    return {n: request.query_params[n] for n in _LOG_PARAMETERS if n in request.query_params}


class _Stream(StreamingResponse):
    """Events until their end, or until the browser goes away, which closes their run's log.

    A thread of its own makes and closes them: what follows a run belongs to one thread.
    """

    def __init__(self, events: streams.Stream) -> None:
        self._events, self._thread = events, OwnThread("rsctl-ui-stream")
        super().__init__(self._parts(), media_type="text/event-stream")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send them."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            with CancelScope(shield=True):
                await self._thread.call(self._events.close)
            self._thread.end()

    async def _parts(self) -> AsyncIterator[bytes]:
        while (part := await self._thread.call(partial(next, self._events, None))) is not None:
            yield part


def _style(_request: Request) -> Response:
    own = (_FOLDER / "ui.css").read_text(encoding="utf-8")
    return Response(style_sheet() + own, media_type="text/css")


def _asset(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in _ASSETS:
        raise HTTPException(404, "This file does not exist.")
    return Response((_FOLDER / name).read_bytes(), media_type=_ASSETS[name])


def _icon(_request: Request) -> Response:
    """The icon where a page names none, as while a browser logs in."""
    return Response((_FOLDER / "icon.svg").read_bytes(), media_type=_ASSETS["icon.svg"])


def _metrics(_request: Request) -> Response:
    with closing(Store()) as store:
        return Response(exposition(store), media_type=MEDIA_TYPE)


def _refused(request: Request, problem: Exception) -> Response:
    status = getattr(problem, "status_code", 500)
    return _problem(request, status, [str(getattr(problem, "detail", problem))])


def _failed(request: Request, problem: Exception) -> Response:
    findings: Any = getattr(problem, "findings", ())
    is_usage = getattr(problem, "exit_code", None) is ExitCode.USAGE
    return _problem(request, 400 if is_usage else 503, shell.finding_texts(findings))


def _problem(request: Request, status: int, texts: list[str]) -> Response:
    if request.method == "POST":
        return JSONResponse({"problem": [plain(text) for text in texts]}, status)
    box = element("div", *map(paragraph, texts), class_="nothing")
    heading = element("div", element("h1", "This did not work"), class_="heading")
    return HTMLResponse(shell.page("Problem", heading, box), status)
