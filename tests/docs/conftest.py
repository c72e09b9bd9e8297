"""What a reader of the first pages has installed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit import fork_server
from tests.kit.readers_environment import make_readers_environment
from tests.kit.shared import locked, shared_folder


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of the environment that README's two commands make."""
    folder = shared_folder(tmp_path_factory, "reader")
    with locked(folder):
        if not (made := folder / "made").exists():
            make_readers_environment(folder / ".venv")
            made.touch()
    return folder / ".venv" / "bin"


@pytest.fixture(scope="session")
def readers_forks(
    programs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    """Variables by which the reader's scripts begin as copies of a process of the reader's Python
    that has imported what the quickstart needs. The nodes of a rehearsal do not get them: for these
    the reader's Python itself knows the server.
    """
    modules = "torch.distributed.nn sklearn.datasets sklearn.model_selection"
    folder = shared_folder(tmp_path_factory, "readers-forks")
    python = programs / "python"
    with fork_server.started(folder, python, FORKED_MODULES=modules) as variables:
        forked = Path(fork_server.__file__).with_name("forked") / "sitecustomize.py"
        [site] = (programs.parent / "lib").glob("python*/site-packages")
        (site / "forked_scripts.py").write_text(
            "import os, runpy, sys\n"
            "if not any(word.endswith('fork_server.py') for word in sys.orig_argv):\n"
            f"    os.environ.setdefault('TORCH_FORKS', {variables['TORCH_FORKS']!r})\n"
            f"    runpy.run_path({str(forked)!r})\n"
        )
        (site / "forked_scripts.pth").write_text("import forked_scripts\n")
        yield variables
