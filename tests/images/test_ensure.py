"""What a user sees of the push of an image."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from rsctl.findings import ExitCode, RsctlError, error
from rsctl.images import ensure
from rsctl.images.events import BuildEvent, BuildOutput, BuildStep
from rsctl.images.registry import push

PUSH = "push registry/job:1"


@pytest.fixture
def pushed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[BuildEvent]]:
    """The events of a push of an image that exists on this machine."""
    recipe: Any = SimpleNamespace(reference="registry/job:1")
    builder = SimpleNamespace(program="docker", image=lambda _: None, build=lambda *_: None)
    for name in ("_find_pushed", "_prepare_repository", "changes_since_last_build", "save_build"):
        monkeypatch.setattr(ensure, name, lambda *_: None)
    for name in ("replace", "make_labels"):
        monkeypatch.setattr(ensure, name, lambda *_, **__: None)
    monkeypatch.setattr(ensure, "select_builder", lambda _: builder)
    monkeypatch.setattr(ensure, "_result", lambda *_, **__: None)

    def run(fake: Callable[[Callable[[str], None]], str]) -> list[BuildEvent]:
        events: list[BuildEvent] = []
        monkeypatch.setattr(push, "push", lambda _program, _name, _login, on_line: fake(on_line))
        try:
            ensure.ensure_image(recipe, Any, events.append, push=True)  # type: ignore[arg-type]
        except RsctlError:
            events.append(error("push", "refused"))
        return events

    return run


def test_a_push_is_a_step_with_its_lines(pushed: Callable[..., list[BuildEvent]]) -> None:
    def fake(on_line: Callable[[str], None]) -> str:
        on_line("layer: Pushed")
        return "sha256:1"

    start, line, end = pushed(fake)
    assert (start, line) == (BuildStep(0, 0, PUSH), BuildOutput("layer: Pushed"))
    assert isinstance(end, BuildStep)
    assert (end.instruction, end.failed) == (PUSH, False)
    assert end.seconds is not None


def test_a_push_that_is_refused_has_failed(pushed: Callable[..., list[BuildEvent]]) -> None:
    def fake(_: object) -> str:
        raise RsctlError(ExitCode.REFUSED, error("push", "refused"))

    _, end, problem = pushed(fake)
    assert isinstance(end, BuildStep)
    assert end.failed
    assert problem == error("push", "refused")
