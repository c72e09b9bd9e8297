"""`rsctl ui`: a live page of runs and benches in the browser."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from html import escape
from pathlib import Path
from typing import Annotated, Optional

import typer

from rsctl.cli import options
from rsctl.cli.command import make_command
from rsctl.cli.interrupts import Interrupts
from rsctl.cli.open import is_desktop
from rsctl.cli.show import print_message
from rsctl.ui.server import serve

_POLL_SECONDS = 0.1


@make_command("ui")
def command(
    port: options.Port = 0,
    token_file: Annotated[
        Optional[Path],
        typer.Option(
            "--token-file",
            metavar="FILE",
            help="Take the access token from this file, which is written if it does not exist; "
            "Prometheus can read it there. Default: a new token.",
        ),
    ] = None,
    browser: Annotated[
        bool,
        typer.Option(
            "--open/--no-open",
            show_default=False,
            help="Open the page in a browser. Default: only on a desktop.",
        ),
    ] = True,
) -> None:
    """Show runs and benches on a live page in the browser.

    The page shows states, logs, charts, findings and comparisons, and can cancel runs. Only
    browsers on this machine that have opened the printed address can read it. /metrics is for
    Prometheus. The command serves until Ctrl-C and then exits with 0; runs continue.
    """
    with Interrupts().listening() as interrupts, serve(port, token_file) as served:
        interrupts.hold()
        typer.echo(served.url)
        sys.stdout.flush()
        print_message("The page is served until Ctrl-C. The address contains the access token.")
        with tempfile.TemporaryDirectory(prefix="rsctl-ui-") as folder:
            if browser and is_desktop():
                _open(served.url, Path(folder))
            while not interrupts.count:
                time.sleep(_POLL_SECONDS)


def _open(url: str, folder: Path) -> None:
    """Open a file that leads to the address: other users can see a browser's command line."""
    import webbrowser

    file = folder / "open.html"
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as page:
        page.write(f'<!doctype html><meta http-equiv="refresh" content="0;url={escape(url)}">')
    if not webbrowser.open(file.as_uri()):
        print_message("no browser could be started")
