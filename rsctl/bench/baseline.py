"""Baselines: small JSON files of figures with the fingerprint of how they were measured.

They are read from a file, gs://, s3://, or git:REF:PATH, where the change under test cannot edit
them, and written to the first three.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, Optional

import msgspec

from rsctl.bench.fingerprint import Cell, Fingerprint
from rsctl.bench.results import CellRuns, Results, Series, cell_label
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.stream.events import now

VERSION = 1
_LARGEST = 16 << 20
_GIT_SECONDS = 60
_GIT = "git:"
_KEPT = ("run.time", "run.cost")
_BUCKETS = ("gs://", "s3://")
_REF = re.compile(r"[A-Za-z0-9_@][A-Za-z0-9_./@{}^~+-]*")


class BaselineMetric(msgspec.Struct, kw_only=True):
    """One metric of one cell, one value a run."""

    name: str
    unit: Optional[str] = None
    goal: Optional[Literal["min", "max"]] = None
    cell: Cell = {}
    values: list[Optional[float]]


class Baseline(msgspec.Struct, kw_only=True):
    """The file. `made` is when its values were measured, and of what."""

    version: int
    fingerprint: Fingerprint = msgspec.field(default_factory=Fingerprint)
    made: dict[str, Any] = {}
    metrics: list[BaselineMetric]


def is_place(reference: str) -> bool:
    """Whether a reference names a place of a baseline rather than a run or a bench."""
    if reference.startswith((*_BUCKETS, _GIT)):
        return True
    return os.path.sep in reference or reference.endswith(".json") or os.path.isfile(reference)


def read_baseline(place: str, folder: str = ".") -> Results:
    """The results that a baseline has. Paths and git's repository are those of `folder`.

    Raises RsctlError if it is not there or is none.
    """
    return decode_baseline(_bytes(place, folder), place)


def decode_baseline(data: bytes, place: str) -> Results:
    """The results of a baseline file's bytes. Raises RsctlError."""
    if len(data) > _LARGEST:
        raise _broken(place, f"it is larger than {_LARGEST >> 20} MiB")
    try:
        version = msgspec.json.decode(data, type=_Head).version
        if version != VERSION:
            raise _broken(place, f"its version is {version}, and this rsctl reads {VERSION}")
        kept = msgspec.json.decode(data, type=Baseline)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as problem:
        raise _broken(place, str(problem)) from None
    series = [
        Series(name=m.name, unit=m.unit, goal=m.goal, cell=m.cell, values=m.values)
        for m in kept.metrics
    ]
    keys = [(s.name, msgspec.json.encode(s.cell, order="sorted")) for s in series]
    twice = next((name for name, cell in keys if keys.count((name, cell)) > 1), None)
    if twice is not None:
        raise _broken(place, f"it has {twice} twice for one cell")
    cells = {msgspec.json.encode(s.cell, order="sorted"): s.cell for s in series}
    made, of = (kept.made.get(name) for name in ("time", "of"))
    return Results(
        label=place,
        of=of if isinstance(of, str) else "",
        kind="baseline",
        fingerprint=kept.fingerprint,
        series=series,
        cells=[CellRuns(cell=cell) for cell in cells.values()],
        made=made if isinstance(made, str) else "",
    )


def make_baseline(results: Results, required: Sequence[str] = ()) -> Baseline:
    """A baseline of what was measured: the job's metrics, and the time and money of its runs.

    Raises RsctlError where a run has no data for one of the `required`: later gates were blind.
    """
    for name in required:
        for runs in results.cells:
            _require(results, name, runs)
    metrics = [
        BaselineMetric(
            name=series.name,
            unit=series.unit,
            goal=_goal(series.goal),
            cell=series.cell,
            values=list(series.known),
        )
        for series in results.series
        if series.known and (series.name in _KEPT or not series.name.startswith("run."))
    ]
    if not metrics:
        reasons = [reason for runs in results.cells for reason in runs.lost]
        raise _incomplete(results, "any metric", {}, reasons)
    made = {"time": results.made or now(), "of": results.label}
    return Baseline(version=VERSION, fingerprint=results.fingerprint, made=made, metrics=metrics)


def encode_baseline(baseline: Baseline) -> bytes:
    """The file's bytes: a line each value, sorted keys, so that a review sees what changed."""
    text = msgspec.json.format(msgspec.json.encode(baseline, order="deterministic"), indent=2)
    return text + b"\n"


def write_baseline(baseline: Baseline, place: str, folder: str = ".") -> str:
    """Write a baseline to a file, gs:// or s3://; returns where. Raises RsctlError.

    Of git:REF:PATH it writes PATH in the working tree, to be reviewed and committed.
    """
    data = encode_baseline(baseline)
    if place.startswith(_GIT):
        place = os.path.join(_top(place, folder), place.split(":", 2)[-1])
    if place.startswith(_BUCKETS):
        _write_object(place, data)
        return place
    path_of_file = Path(folder, place)
    try:
        path_of_file.parent.mkdir(parents=True, exist_ok=True)
        beside = path_of_file.with_name(f".{path_of_file.name}.new")
        beside.write_bytes(data)
        beside.replace(path_of_file)
    except OSError as problem:
        message = f"cannot write {path_of_file}: {problem.strerror}"
        raise RsctlError(ExitCode.ENVIRONMENT, error("baseline", message)) from None
    return str(path_of_file)


class _Head(msgspec.Struct):
    version: int


def _bytes(place: str, folder: str) -> bytes:
    if place.startswith(_GIT):
        return _from_git(place, folder)
    if place.startswith(_BUCKETS):
        return _read_object(place)
    try:
        with open(os.path.join(folder, place), "rb") as file:
            return file.read(_LARGEST + 1)
    except OSError as problem:
        beside = os.path.dirname(os.path.join(folder, place)) or "."
        names = os.listdir(beside) if os.path.isdir(beside) else []
        close = get_close_matches(os.path.basename(place), names, n=1)
        hint = f"did you mean {close[0]!r}? else " if close else ""
        message = f"cannot read the baseline {place}: {problem.strerror}"
        remedy = f"{hint}make one: rsctl gate BENCH --baseline {place} --update-baseline"
        raise RsctlError(ExitCode.USAGE, error("baseline", message, remedy)) from None


def _from_git(place: str, folder: str) -> bytes:
    """The file of a commit, read by git from the repository that `folder` is in."""
    ref, path = _parts(place)
    done = _git(["show", f"{ref}:{path}"], place, folder)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        message = f"cannot read {place}: {said[-1] if said else 'git failed'}"
        remedy = "a shallow clone lacks other branches: git fetch origin REF, then git:origin/REF:…"
        raise RsctlError(ExitCode.USAGE, error("baseline", message, remedy))
    return done.stdout


def _top(place: str, folder: str) -> str:
    """The folder of the working tree that `folder` is in."""
    _parts(place)
    done = _git(["rev-parse", "--show-toplevel"], place, folder)
    if done.returncode:
        message = f"cannot write {place}: {folder} is in no working tree of git"
        raise RsctlError(ExitCode.USAGE, error("baseline", message, "give --baseline FILE"))
    return done.stdout.decode(errors="surrogateescape").rstrip("\n")


def _parts(place: str) -> tuple[str, str]:
    """The commit and the path of git:REF:PATH. Raises RsctlError."""
    _, ref, path = [*place.split(":", 2), "", ""][:3]
    is_inside = path and not path.startswith(("/", "-")) and ".." not in path.split("/")
    if not _REF.fullmatch(ref) or not is_inside or "\0" in path:
        message = f"{place!r} is no git:REF:PATH"
        remedy = "such as git:origin/main:bench/baseline.json; PATH begins at the repository's root"
        raise RsctlError(ExitCode.USAGE, error("baseline", message, remedy))
    return ref, path


def _git(words: list[str], place: str, folder: str) -> subprocess.CompletedProcess[bytes]:
    command = ["git", "-C", folder, *words]
    try:
        return subprocess.run(command, capture_output=True, timeout=_GIT_SECONDS, check=False)
    except FileNotFoundError:
        finding = error("baseline", f"cannot use {place}: git is not installed", "install git")
        raise RsctlError(ExitCode.ENVIRONMENT, finding) from None
    except subprocess.TimeoutExpired:
        finding = error("baseline", f"git did not answer within {_GIT_SECONDS} s for {place}")
        raise RsctlError(ExitCode.ENVIRONMENT, finding) from None


def _read_object(place: str) -> bytes:
    bucket, name = _object(place)
    if place.startswith("gs://"):
        from rsctl.clients.google import Google
        from rsctl.clients.pace import Pace
        from rsctl.clients.storage import Storage

        pace = Pace.of_environment()
        storage = Storage(Google(pace), bucket, pace)
        data = b""
        while len(data) <= _LARGEST and (block := storage.read(name, len(data))):
            data += block
        if not data:
            raise _no_object(place)
        return data
    from botocore.exceptions import ClientError

    from rsctl.clients.aws import client, code_of, findings

    with findings("gate.baseline"):
        try:
            answer = client("s3", None).get_object(Bucket=bucket, Key=name)
            content: bytes = answer["Body"].read(_LARGEST + 1)
            return content
        except ClientError as problem:
            if code_of(problem) not in ("NoSuchKey", "404"):
                raise
            raise _no_object(place) from None


def _write_object(place: str, data: bytes) -> None:
    bucket, name = _object(place)
    if place.startswith("gs://"):
        from rsctl.clients.google import Google
        from rsctl.clients.pace import Pace
        from rsctl.clients.storage import Storage

        pace = Pace.of_environment()
        Storage(Google(pace), bucket, pace).replace(name, data, "application/json")
        return
    from rsctl.clients.aws import client, findings

    with findings("gate.baseline"):
        client("s3", None).put_object(
            Bucket=bucket, Key=name, Body=io.BytesIO(data), ContentType="application/json"
        )


def _object(place: str) -> tuple[str, str]:
    bucket, _, name = place.partition("://")[2].partition("/")
    if not bucket or not name:
        message = f"{place!r} names no object"
        raise RsctlError(
            ExitCode.USAGE, error("baseline", message, "such as gs://bucket/name.json")
        )
    return bucket, name


def _no_object(place: str) -> RsctlError:
    remedy = f"make one: rsctl gate BENCH --baseline {place} --update-baseline"
    return RsctlError(ExitCode.USAGE, error("baseline", f"there is no {place}", remedy))


def _broken(place: str, why: str) -> RsctlError:
    message = f"{place} is no baseline: {why}"
    remedy = "baselines are written by `rsctl gate BENCH --baseline FILE --update-baseline`"
    return RsctlError(ExitCode.USAGE, error("baseline", message, remedy))


def _require(results: Results, name: str, runs: CellRuns) -> None:
    series = results.find(name, runs.cell)
    if series is None or not series.known or len(series.known) < len(series.values):
        reasons = series.reasons if series else runs.lost
        raise _incomplete(results, name, runs.cell, reasons)


def _incomplete(results: Results, name: str, cell: Cell, reasons: Sequence[str]) -> RsctlError:
    of = f" of {cell_label(cell)}" if cell else ""
    why = f": {'; '.join(reasons[:3])}" if reasons else ""
    message = f"{results.label} lacks data for {name}{of}{why}"
    remedy = "run what is missing, then write the baseline"
    return RsctlError(ExitCode.INCONCLUSIVE, error("baseline", message, remedy))


def _goal(goal: str | None) -> Literal["min", "max"] | None:
    return "min" if goal == "min" else "max" if goal == "max" else None
