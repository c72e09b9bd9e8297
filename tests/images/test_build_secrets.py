"""Secrets of builds: which builder gets them, and what of them is shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rsctl.findings import ExitCode, RsctlError
from rsctl.images.build_secrets import BuildSecrets
from rsctl.images.events import BuildEvent, BuildOutput
from rsctl.images.recipe import make_recipe

from .conftest import ReadJob
from .engines import Install, Recipe, calls, image, named

VALUE = "https://me:pa%24%24word@host/simple"
SECRET = Recipe(secrets=("INDEX", "TOKEN"))


@pytest.mark.parametrize("name", ["buildx", "buildkit", "podman"])
def test_the_command_names_variables_and_the_output_no_value(
    name: str, install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INDEX", VALUE)
    monkeypatch.setenv("TOKEN", "abc")
    builder = named(name)
    start = " ".join(builder.command[1:])
    said = f"at {VALUE}, with pa$$word, pa%24%24word and abc\n"
    folder = install(**{builder.program: [image(), (start, said, "", 0)]})
    events: list[BuildEvent] = []
    builder.build(SECRET, events.append)
    assert [event.line for event in events if isinstance(event, BuildOutput)] == [
        "at ***, with ***, *** and ***"
    ]
    assert calls(folder)[-1] == (
        f"{' '.join(builder.command)} --secret id=INDEX,env=INDEX --secret id=TOKEN,env=TOKEN "
        "--tag rsctl/job:0123 -"
    )
    assert json.loads((folder / "env").read_text())["INDEX"] == VALUE


def test_what_stops_a_build_with_secrets(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = install(docker=[image()])
    monkeypatch.setenv("INDEX", VALUE)
    monkeypatch.setenv("TOKEN", "")
    for name, code, exit_code in (
        ("buildkit", "variable", ExitCode.USAGE),
        ("classic", "builder", ExitCode.ENVIRONMENT),
    ):
        with pytest.raises(RsctlError) as caught:
            named(name).build(SECRET, lambda _event: None)
        [finding] = caught.value.findings
        assert (finding.code, finding.path) == (code, "image.secrets")
        assert caught.value.exit_code is exit_code
        assert "INDEX" not in finding.message
    assert not (folder / "calls").exists()


def test_several_urls_in_one_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("URLS", "https://token-1@a/ https://x:token-2@b/")
    assert BuildSecrets(("URLS",)).hide("token-1 token-2 x") == "*** *** x"


@pytest.mark.parametrize(
    ("more", "path"),
    [
        ("", "image.secrets"),
        ("\n  python: [x]\n  env: {TOKEN: a}", "image.env.TOKEN"),
    ],
)
def test_secrets_that_no_step_reads_or_that_anyone_reads(
    more: str, path: str, job: ReadJob
) -> None:
    with pytest.raises(RsctlError) as caught:
        job(f"base: base\n  secrets: [TOKEN]{more}")
    assert path in [finding.path for finding in caught.value.findings if finding.is_error]


def test_the_tag_depends_on_the_names_alone(
    job: ReadJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source"  # without the job file, which changes
    source.mkdir()
    (source / "train.py").touch()

    def tag(secrets: str) -> str:
        keys = f"base: base\n  source: source\n  python: [x]\n  secrets: {secrets}"
        return make_recipe(job(keys), "compose").digest

    monkeypatch.setenv("TOKEN", "one")
    before = tag("[TOKEN, B, B]")
    monkeypatch.setenv("TOKEN", "two")
    assert tag("[B, TOKEN]") == before != tag("[B]")
