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


@pytest.mark.parametrize("name", ["PATH", "HOME", "LD_PRELOAD", "PYTHONPATH", "BASH_ENV"])
def test_a_variable_by_which_the_build_finds_its_files_is_no_secret(
    name: str, job: ReadJob
) -> None:
    with pytest.raises(RsctlError) as caught:
        job(f"base: base\n  python: [x]\n  secrets: [GOPATH, MY_HOME, {name}]")
    [found] = [finding for finding in caught.value.findings if finding.is_error]
    assert found.path == "image.secrets[2]"
    message = f"this machine's {name} would replace the image's in the step that reads it"
    assert found.message == message


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


@pytest.mark.parametrize(
    ("value", "line", "shown"),
    [
        ("a/b+c?=d", "at a%2Fb%2Bc%3F%3Dd and a/b%2Bc%3F%3Dd", "at *** and ***"),
        ('q"u\\o', 'json "q\\"u\\\\o"', 'json "***"'),
        ("it's (x)", "sh 'it'\"'\"'s (x)'", "sh '***'"),
        ("a.*(b", "a.*(b axx(b", "*** axx(b"),
        ("tab\tx", "a tab\tx b", "a *** b"),
        ("p\udcffw", "p\ufffdw", "***"),
        ('{\n "k": "long"\n}\n', '{ } "k": "long"', "{ } ***"),
        ("7", "#7 0.7 text", "#7 0.7 text"),
        ("https://0123456789abcdef0123:x-oauth-basic@h/r", "0123456789abcdef0123", "***"),
        ("https://h/0123456789abcdef/simple/", "https://h/0123456789abcdef/x", "https://h/***/x"),
        ("https://me-myself:pw1@h/simple", "me-myself pw1", "me-myself ***"),
        ('{"key": "-----BEGIN\\nMIIEpAIBAAKCAQEA\\n"}', "MIIEpAIBAAKCAQEA", "***"),
        ("secret-value", "… sec secret…", "… sec ***…"),
        ("secret-value", "secret", "secret"),
        ("machine h\nlogin me password 0123456789abcdef", "0123456789abcdef", "***"),
    ],
)
def test_what_programs_make_of_a_value(
    value: str, line: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", value)
    assert BuildSecrets(("TOKEN",)).hide(line) == shown


def test_a_line_that_is_cut_within_a_secret(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INDEX", "x")
    monkeypatch.setenv("TOKEN", "0123456789abcdef")
    builder = named("buildkit")
    said = " " * 16_370 + "is 0123456789abcdef\n"
    install(**{builder.program: [image(), (" ".join(builder.command[1:]), said, "", 0)]})
    events: list[BuildEvent] = []
    builder.build(SECRET, events.append)
    assert [e.line.strip() for e in events if isinstance(e, BuildOutput)] == ["is ***…"]


@pytest.mark.parametrize(
    ("line", "is_kept"),
    [
        ("x @ https://h/x.whl?t=${TOKEN}", True),
        ("x @ git+https://h/${TOKEN}/x.git", True),
        ("https://me:${TOKEN}@h/${TOKEN}.whl", True),
        ("x @ git+https://${TOKEN}@h/x.git", False),
        ("x @ https://me:${TOKEN}@h/x.whl", False),
        ("--index-url https://h/${TOKEN}/simple", False),
        ("--index-url \\\n  https://h/${TOKEN}/simple", False),
        ("x @ https://h/${OTHER}/x.whl", False),
    ],
)
def test_a_link_that_pip_records(line: str, is_kept: bool, job: ReadJob, tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text(f"torch\n{line}\n")
    given = job("base: base\n  python: requirements.txt\n  secrets: [TOKEN]")
    if not is_kept:
        assert make_recipe(given, "compose").secrets == ("TOKEN",)
        return
    with pytest.raises(RsctlError, match=r"pip would record the value of TOKEN in the image"):
        make_recipe(given, "compose")
