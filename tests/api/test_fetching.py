"""How results are found by the run's target, and how an image is built."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rsctl.api import fetching, image_build
from rsctl.api.fetching import fetch_results, has_checkpoints
from rsctl.api.image_build import PreparedImage
from rsctl.findings import ExitCode, RsctlError, error, warning
from rsctl.runs.fetch.fetch import FetchSelection
from rsctl.runs.home import run_directory
from tests.api.recorded import add

LOST = RsctlError(ExitCode.ENVIRONMENT, error("network", "no answer", "wait"))


class Target:
    """A target that notes what it is asked."""

    def __init__(self, result_source: str | None = None, fails: bool = False) -> None:
        self.info = SimpleNamespace(result_source=result_source)
        self.fails, self.log = fails, list[str]()

    def collect(self, run: str) -> None:
        self.log.append(f"collect {run}")
        if self.fails:
            raise LOST

    def release(self, run: str) -> None:
        self.log.append(f"release {run}")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The calls of `fetch` and of `locations_of`."""
    noted: list[Any] = []

    def fetch(*given: Any) -> Any:
        noted.append(given)
        return SimpleNamespace(findings=["of a file"])

    def locations_of(*given: Any) -> str:
        noted.append(given)
        return "locations"

    monkeypatch.setattr("rsctl.runs.fetch.fetch.fetch", fetch)
    monkeypatch.setattr(fetching, "locations_of", locations_of)
    monkeypatch.setattr(
        fetching, "result_locations", lambda _: {"checkpoints": "c", "outputs": "o"}
    )
    return noted


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("kinds", [{"outputs"}, {"outputs", "logs"}])
def test_the_log_is_collected_first_where_it_is_wanted(
    monkeypatch: pytest.MonkeyPatch, calls: list[Any], fails: bool, kinds: set[str]
) -> None:
    target = Target(fails=fails)
    monkeypatch.setattr(fetching, "get", lambda _: target)
    choice = FetchSelection(kinds=frozenset(kinds))  # type: ignore[arg-type]
    fetched = fetch_results(add(), None, choice)
    outdated = [warning("network", "no answer", "wait")] if fails and "logs" in kinds else []
    assert fetched.findings == [*outdated, "of a file"]
    assert target.log == (["collect job-1", "release job-1"] if "logs" in kinds else [])
    run, locations, folder, chosen, *_ = calls[1]
    assert (run, locations, folder, chosen) == ("job-1", "locations", Path("job-1"), choice)
    fetch_results(add("job-2"), "elsewhere", choice)
    assert calls[3][2] == Path("elsewhere")


def open_source(run: str, plan: Any, location: str, endpoints: Any) -> tuple[Any, ...]:
    """As a target names it in its `result_source`."""
    return run, location, endpoints.is_emulator


@pytest.mark.parametrize("is_rehearsed", [False, True])
@pytest.mark.parametrize("source", [None, f"{__name__}:open_source"])
def test_a_target_reads_the_paths_of_its_jobs_itself(
    monkeypatch: pytest.MonkeyPatch, calls: list[Any], source: str | None, is_rehearsed: bool
) -> None:
    monkeypatch.setattr(fetching, "get", lambda _: Target(source))
    run = add()
    if is_rehearsed:
        run_directory("job-1").mkdir(parents=True, exist_ok=True)
        (run_directory("job-1") / "rehearsal.json").write_text("{}")
    fetch_results(run, None, FetchSelection(kinds=frozenset()))
    name, results, endpoints, _, opened = calls[0]
    assert (name, results) == ("job-1", {"checkpoints": "c", "outputs": "o"})
    if source is None or is_rehearsed:
        assert opened is None
    else:
        assert opened("/a") == ("job-1", "/a", endpoints.is_emulator)


class Source:
    def __init__(self, *files: str, findings: tuple[str, ...] = ()) -> None:
        self.found, self.findings = files, findings

    def files(self) -> Iterator[str]:
        yield from self.found


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([], False),
        ([("checkpoints", Source())], False),
        ([("checkpoints", Source("a"))], True),
        ([("checkpoints", Source("a", findings=("x",)))], True),
        ([("checkpoints", Source(findings=("x",)))], None),
        ([("logs", Source("a", findings=("x",)))], False),
        ([("logs", Source("a")), ("checkpoints", Source("b"))], True),
        (LOST, None),
    ],
)
def test_whether_there_are_checkpoints(
    monkeypatch: pytest.MonkeyPatch, calls: list[Any], found: Any, expected: bool | None
) -> None:
    def locations_of(_run: str, results: dict[str, str], *_: Any) -> list[Any]:
        assert results == {"checkpoints": "c"}
        if isinstance(found, RsctlError):
            raise found
        return [SimpleNamespace(kind=kind, source=source) for kind, source in found]

    monkeypatch.setattr(fetching, "get", lambda _: Target())
    monkeypatch.setattr(fetching, "locations_of", locations_of)
    assert has_checkpoints(add()) is expected
    assert calls == []


@pytest.mark.parametrize("builder", ["cloud", "buildx"])
def test_an_image_is_built_here_or_in_the_cloud(
    monkeypatch: pytest.MonkeyPatch, builder: Any
) -> None:
    asked: list[Any] = []
    recipe: Any = SimpleNamespace(
        reference="r:tag", dockerfile=lambda cache_mounts: f"FROM x {cache_mounts}"
    )
    job: Any = "job"
    for name in ("ensure_image", "ensure_image_remotely"):
        monkeypatch.setattr(
            image_build, name, lambda *given, name=name: asked.append((name, given)) or "built"
        )
    image = PreparedImage(recipe, job, "vertex", (), builder, push=True)
    assert (image.tag, image.dockerfile) == ("r:tag", "FROM x True")
    assert image.build(print) == "built"  # type: ignore[comparison-overlap]
    expected = {
        "cloud": ("ensure_image_remotely", (recipe, "job", "vertex", print)),
        "buildx": ("ensure_image", (recipe, "job", print, "buildx", True)),
    }
    assert asked == [expected[builder]]
    image.build()
    assert asked[1][0] == asked[0][0]
