"""Takes the picture of `rsctl ui` for the documentation, with the newest run of RSCTL_HOME.

python tools/ui_picture.py FILE
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from rsctl.api import known_runs
from rsctl.ui.server import serve
from tests.kit.live_browser import browser

_READY = "document.body?.dataset.ready === '1'"


def main(file: Path) -> None:
    """Write what a window of 1080 by 900 pixels shows."""
    run = known_runs(1)[0]
    with serve() as served, tempfile.TemporaryDirectory() as profile:  # noqa: SIM117
        with browser(Path(profile)) as tab:
            tab.look(1080, 1000)
            tab.open(served.url)
            tab.until(f"{_READY} && location.search === ''")
            tab.open(f"{served.address}run/{run}")
            tab.until(f"{_READY} && document.querySelectorAll('.drawing').length > 2")
            tab.until("document.querySelectorAll('#log p').length > 5")
            tab.value("document.getElementById('log').style.height = '13rem'")
            tab.value("document.getElementById('log').scrollTop = 1e6")
            tab.picture(file)


main(Path(sys.argv[1]))
