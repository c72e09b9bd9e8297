"""Rooms import downwards only, and no modules import one another; see ARCHITECTURE.md."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import rsctl

PACKAGE = Path(rsctl.__file__).parent
ROOMS = (
    *("__main__", "cli", "api", "results", "sdk", "testing", "doctor", "tracking", "report"),
    *(
        "export",
        "prune",
        "bench",
        "rehearsal",
        "plan",
        "emulators",
        "targets",
        "fetch",
        "costs",
        "image",
        "runs",
    ),
    *("stream", "clients", "advise", "catalog", "spec", "target_info", "known_errors"),
    *("atomic_file", "findings", "installation", "data"),
    *("runtime", "transport"),
)
"""From the top down."""


COMMANDS_MAY_IMPORT = frozenset(
    {
        *("api", "results", "export", "prune", "report", "tracking", "data"),
        *("advise", "stream", "spec", "target_info", "atomic_file", "findings", "installation"),
    }
)
"""Rooms that the command line is written on, besides `cli` itself: jobs, runs and benches by `api`,
tables and reports by their rooms, and what events, job files and findings are."""


def modules() -> dict[str, Path]:
    """The files of the package by the names of their modules."""
    paths = {
        path: path.relative_to(PACKAGE.parent).with_suffix("") for path in PACKAGE.rglob("*.py")
    }
    return {".".join(p.parts).removesuffix(".__init__"): path for path, p in paths.items()}


@cache
def imports() -> dict[str, set[str]]:
    """By module, the modules of rsctl that it imports, also in functions, but not for types."""
    known = modules()
    return {name: set(_imported(path, known)) & set(known) - {name} for name, path in known.items()}


def _imported(path: Path, known: dict[str, Path]) -> Iterator[str]:
    tree = ast.parse(path.read_text())
    blocks = [
        n for n in ast.walk(tree) if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.dump(n.test)
    ]
    for_types = {id(node) for block in blocks for node in ast.walk(block)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and id(node) not in for_types:
            for each in node.names:
                module = f"{node.module}.{each.name}"
                yield module if module in known else str(node.module)


def test_rooms_import_downwards() -> None:
    floors = {name: ROOMS.index(name.split(".")[1]) for name in modules() if "." in name}
    upwards = [
        f"{name} imports {other}"
        for name, others in imports().items()
        for other in others
        if name in floors and other in floors and floors[name] > floors[other]
    ]
    assert sorted(upwards) == []


def test_no_modules_import_one_another() -> None:
    try:
        TopologicalSorter(imports()).prepare()
    except CycleError as problem:
        raise AssertionError(" <- ".join(problem.args[1])) from None


def test_commands_are_written_on_the_api() -> None:
    beyond = [
        f"{name} imports {other}"
        for name, others in imports().items()
        for other in others
        if name.startswith("rsctl.cli.")
        and "." in other
        and other.split(".")[1] not in {"cli", *COMMANDS_MAY_IMPORT}
    ]
    assert sorted(beyond) == []
