"""Images of the local container engine, docker's or podman's: look-up, layers, user, platform."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Optional

import msgspec

from rsctl.findings import ExitCode, RsctlError, error
from rsctl.images.commands import last_line, run_checked, run_command

_ABSENT = ("no such image", "no such object", "image not known")


class Layer(msgspec.Struct, frozen=True):
    """One layer of an image: its size in bytes and the instruction that made it."""

    size: int
    instruction: str


class EngineImage(msgspec.Struct, frozen=True):
    """An image that the engine has; its size is in bytes, and the layers end with the newest."""

    id: str
    size: int
    layers: list[Layer]


class BaseImage(msgspec.Struct, frozen=True):
    """The properties of a base image that a build needs; `user` is empty if it names none."""

    user: str
    platform: str

    def is_for(self, platform: str | None) -> bool:
        """Whether it is for a platform; variants, such as linux/arm64/v8, are not compared."""
        return platform is None or self.platform.split("/")[:2] == platform.split("/")[:2]


class _Config(msgspec.Struct):
    User: Optional[str] = None


class _Inspected(msgspec.Struct):
    """The part of `image inspect` that docker and podman share."""

    Id: str
    Size: int
    Os: str
    Architecture: str
    Config: Optional[_Config] = None


def find_image(program: str, reference: str) -> EngineImage | None:
    """An image of the engine, or None if it has none of this name. Raises RsctlError."""
    found = _inspect(program, reference)
    if found is None:
        return None
    layers = list(_layers(program, found.Id))
    return EngineImage(found.Id, found.Size, layers[::-1])


def find_base(program: str, reference: str, platform: str | None = None) -> BaseImage | None:
    """User and platform of an image, or None if the engine has none of this name.

    An engine with containerd's image store may have it for several platforms: then it is the image
    for `platform`, if Docker can tell (since 28.1). Raises RsctlError.
    """
    found = _inspect(program, reference)
    if found is None:
        return None
    if _base(found).is_for(platform):
        return _base(found)
    with suppress(RsctlError):
        found = _inspect(program, "--platform", str(platform), reference) or found
    return _base(found)


def _base(found: _Inspected) -> BaseImage:
    user = (found.Config.User if found.Config else None) or ""
    return BaseImage(user, f"{found.Os}/{found.Architecture}")


def _inspect(program: str, *arguments: str) -> _Inspected | None:
    argv = [program, "image", "inspect", *arguments]
    done = run_command(argv)
    if done.returncode == 0:
        found: list[_Inspected] = _decoded(argv, done.stdout, list[_Inspected])
        return found[0] if found else None
    if any(text in done.stderr.lower() for text in _ABSENT):
        return None
    raise _engine_error(argv, last_line(done))


def _layers(program: str, image: str) -> Iterator[Layer]:
    """The layers of an image, the newest first."""
    argv = [program, "history", "--human=false", "--no-trunc", "--format"]
    if program == "podman":
        argv += ["json", image]
        for record in _decoded(argv, run_checked(argv), list[dict[str, Any]]):
            yield _layer(argv, record.get("size"), record.get("CreatedBy"))
    else:
        argv += ["{{json .}}", image]
        for line in run_checked(argv).splitlines():
            record = _decoded(argv, line, dict[str, Any])
            yield _layer(argv, record.get("Size"), record.get("CreatedBy"))


def _layer(argv: list[str], size: object, instruction: object) -> Layer:
    try:
        return Layer(int(str(size)), str(instruction or ""))
    except ValueError:
        raise _engine_error(argv, f"{size!r} is not a valid size") from None


def _decoded(argv: list[str], text: str, form: Any) -> Any:
    try:
        return msgspec.json.decode(text, type=form)
    except (msgspec.DecodeError, RecursionError) as problem:
        raise _engine_error(argv, str(problem)) from None


def _engine_error(argv: list[str], why: str) -> RsctlError:
    message = f"{' '.join(argv[:3])}: {why}"
    remedy = f"check that `{argv[0]} info` works for your user"
    return RsctlError(ExitCode.ENVIRONMENT, error("engine", message, remedy))
