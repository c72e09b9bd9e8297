"""The rooms of the package: what each is for, which may import which, and by which modules.

`rooms.yaml` is the list, from the top down; ARCHITECTURE.md shows it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import yaml

import rsctl

PACKAGE = Path(rsctl.__file__).parent
ROOMS = yaml.safe_load((Path(__file__).parent / "rooms.yaml").read_text())
FLOORS = {f"rsctl.{name}": floor for floor, name in enumerate(ROOMS)}
CLOUDS = ("targets.vertex", "targets.sagemaker")


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
    for node in _statements(ast.parse(path.read_text()).body):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                module = f"{node.module}.{alias.name}"
                yield module if module in known else str(node.module)


def _statements(body: list[Any]) -> Iterator[Any]:
    """The statements of a block and of those within, but for what is only for types."""
    for node in body:
        if not isinstance(node, ast.If) or "TYPE_CHECKING" not in ast.dump(node.test):
            yield node
            for part in ("body", "orelse", "finalbody", "handlers", "cases"):
                yield from _statements(getattr(node, part, []))


def room_of(module: str) -> str:
    """The room that a module is in: the longest name of a room that its own begins with."""
    names = [name for name in FLOORS if f"{module}.".startswith(f"{name}.")]
    return max(names, key=len, default="rsctl")


def arrows() -> Iterator[tuple[str, str]]:
    """Each import of one room's module by a module of another room."""
    for name, others in imports().items():
        for other in others:
            if "." in name and "." in other and room_of(name) != room_of(other):
                yield name, other


def test_every_module_is_in_a_room() -> None:
    assert [name for name in modules() if "." in name and room_of(name) == "rsctl"] == []


def test_rooms_import_downwards() -> None:
    upwards = [
        f"{name} imports {other}"
        for name, other in arrows()
        if FLOORS[room_of(name)] > FLOORS[room_of(other)]
    ]
    assert sorted(upwards) == []


def test_outsiders_import_the_face_of_a_room() -> None:
    used: dict[str, set[str]] = {}
    for _, other in arrows():
        room = room_of(other)
        used.setdefault(room, set()).add(other.removeprefix(room).removeprefix(".") or room)
    faces = {f"rsctl.{name}": set(room.get("face", ())) for name, room in ROOMS.items()}
    for room, modules_used in used.items():
        assert modules_used - {room} == faces[room], room


def test_no_modules_import_one_another() -> None:
    try:
        TopologicalSorter(imports()).prepare()
    except CycleError as problem:
        raise AssertionError(" <- ".join(problem.args[1])) from None


def test_commands_are_written_on_the_api() -> None:
    """The command line uses `api`, what tables, reports and files are made by, and what events,
    job files and findings are; it never reaches a target, an image or a cloud itself."""
    below = {f"rsctl.{name}" for name in ("targets", "images", "clients", "bench", "node")}
    beyond = [
        f"{name} imports {other}"
        for name, other in arrows()
        if room_of(name) == "rsctl.cli" and any(f"{other}.".startswith(f"{b}.") for b in below)
    ]
    assert sorted(beyond) == []


def test_clouds_do_not_import_one_another() -> None:
    across = [
        f"{name} imports {other}"
        for name, other in arrows()
        for one in CLOUDS
        for another in set(CLOUDS) - {one}
        if name.startswith(f"rsctl.{one}.") and other.startswith(f"rsctl.{another}.")
    ]
    assert sorted(across) == []


_NAMES_A_CLOUD = re.compile("vertex|sagemaker|aiplatform", re.IGNORECASE)
_LIBRARY = re.compile(r"(boto3|botocore|google|sagemaker)(\.|$)")
_MAY_NAME_A_CLOUD = re.compile("vertex|sagemaker|aiplatform|boto|google", re.IGNORECASE)
_EXCEPTIONS = {
    "rsctl.target_info": "the table of our own targets",
    "rsctl.clients.aws": "calls to AWS, which buckets and a cloud's folder share",
    "rsctl.clients.aws_errors": "calls to AWS, which buckets and a cloud's folder share",
    "rsctl.clients.emulator_control": "the credentials of each cloud's emulator",
    "rsctl.clients.google": "calls to Google, which buckets and a cloud's folder share",
    "rsctl.clients.google_errors": "calls to Google, which buckets and a cloud's folder share",
    "rsctl.clients.sessions": "the one place that makes HTTP clients",
    "rsctl.clients.storage.s3": "buckets of S3, which every target can read",
    "rsctl.targets.managed.image_names": "names of vendors' images, which each cloud can run",
    "rsctl.targets.managed.hosts": "names of hosts in logs, also of other launchers",
    "rsctl.node.launch_arguments": "the form in which SageMaker passes long arguments",
    "rsctl.images.progress": "BuildKit calls the steps of a build vertices",
    "rsctl.cli.build_image": "help",
    "rsctl.cli.catalog": "help",
    "rsctl.cli.emulate": "help",
    "rsctl.job.from_command": "libraries by which a script submits jobs itself",
    "rsctl.job.inputs": "the description of a key",
    "rsctl.job.job": "the descriptions of keys",
    "rsctl.estimate.catalog.images": "a remedy that names images",
    "rsctl.runs.stream.accelerator_causes": "remedies of known causes",
    "rsctl.runs.stream.causes": "remedies of known causes",
    "rsctl.runs.stream.raiser_kinds": "remedies of known causes",
    "rsctl.runs.stream.service_causes": "remedies of known causes",
    "rsctl.runs.stream.start_causes": "remedies of known causes",
    "rsctl.targets.local.info": "why a key is refused",
    "rsctl.targets.slurm.connections": "a Slurm cluster of Vertex AI",
    "rsctl.targets.slurm.info": "why a key is refused",
    "rsctl.targets.slurm.job_address": "a Slurm cluster of Vertex AI",
    "rsctl.targets.slurm.options": "a Slurm cluster of Vertex AI, and HyperPod",
    "rsctl.targets.slurm.preflight": "a Slurm cluster of Vertex AI",
    "rsctl.targets.slurm.vertex_requests": "a Slurm cluster of Vertex AI",
    "rsctl.transport.pytorch.backend": "a message about AWS's library",
}
"""Modules outside a cloud's folder that name a cloud or import its libraries, with the reason."""


def test_a_cloud_is_named_in_its_folder() -> None:
    inside = (*(f"rsctl.{cloud}" for cloud in CLOUDS), "rsctl.node.platforms")
    outside = {
        name: path
        for name, path in modules().items()
        if not any(f"{name}.".startswith(f"{folder}.") for folder in inside)
    }
    naming = {name for name, path in outside.items() if _names_a_cloud(path)}
    assert naming == set(_EXCEPTIONS)


def _names_a_cloud(path: Path) -> bool:
    text = path.read_text()
    if not _MAY_NAME_A_CLOUD.search(text):
        return False  # without the cost of parsing
    nodes = [*ast.walk(ast.parse(text))]
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        match node:
            case ast.Constant(value=str(text)) if id(node) not in docstrings:
                words = text
            case ast.Name(id=words) | ast.Attribute(attr=words):
                pass
            case ast.FunctionDef(name=words) | ast.ClassDef(name=words):
                pass
            case ast.ImportFrom(module=str(module)):
                words = "vertex" if _LIBRARY.match(module) else module
            case ast.Import(names=aliases):
                words = "vertex" if any(_LIBRARY.match(a.name) for a in aliases) else ""
            case _:
                continue
        if _NAMES_A_CLOUD.search(words):
            return True
    return False
