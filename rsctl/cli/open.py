"""`rsctl open RUN`: the web pages of a run."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Literal, Optional

import typer

from rsctl.cli import options
from rsctl.cli.command import make_command
from rsctl.cli.runs import find_run
from rsctl.cli.show import print_json, print_message
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.runs.stream.sanitize import sanitize_line

Page = Literal["console", "tensorboard", "logs", "run", "outputs", "checkpoints", "model"]


@make_command("open")
def command(
    run: options.RunId,
    page: Annotated[
        Optional[Page],
        typer.Argument(metavar="[PAGE]", help="The page to open. Default: the first."),
    ] = None,
    browser: Annotated[
        bool,
        typer.Option(
            "--browser/--no-browser",
            show_default=False,
            help="Open the page in a browser. Default: only on a desktop.",
        ),
    ] = True,
    output: options.Output = "text",
) -> None:
    """Show the web pages of a run: console, TensorBoard, log.

    A run on this machine has folders instead. On a desktop, if standard output is a terminal and CI
    is not set, the command also opens one.

    Exit code: 0, or 2 if the page does not exist.
    """
    handle = find_run(run)
    pages = handle.pages()
    if page is not None and page not in pages:
        message = f"{handle.id} has no page {page}"
        remedy = f"it has {', '.join(pages)}" if pages else None
        raise RsctlError(ExitCode.USAGE, error("page", message, remedy))
    chosen = {page: pages[page]} if page is not None else pages
    if output == "json":
        print_json({"run": handle.id, "pages": chosen})
        return
    width = max(map(len, chosen), default=0)
    for name, address in chosen.items():
        typer.echo(sanitize_line(f"{name:<{width}}  {address}"))
    if browser and chosen and is_desktop():
        open_page(next(iter(chosen.values())))


def is_desktop() -> bool:
    """Whether a user at a desktop can see the opened page."""
    if os.environ.get("CI") or os.environ.get("SSH_CONNECTION") or not sys.stdout.isatty():
        return False
    has_display = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return sys.platform == "darwin" or bool(has_display)


def open_page(address: str) -> None:
    """Open an address or a folder in a browser, or print that none starts."""
    import webbrowser

    is_url = address.startswith("https://")
    if not webbrowser.open(address if is_url else Path(address).as_uri()):
        print_message("no browser could be started")
