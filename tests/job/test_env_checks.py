"""Variables of a job: which rsctl sets, which are secrets, and which anybody could read."""

from __future__ import annotations

from pathlib import Path

import pytest

from rsctl.job.document import read
from rsctl.job.env_checks import check_env, check_visible_env, is_reserved, without_secret
from rsctl.job.units import EnvValue


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *[(name, True) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "NODE_RANK", "NNODES")],
        *[(name, True) for name in ("GROUP_RANK", "MASTER_ADDR", "MASTER_PORT", "RSCTL_RUN")],
        *[(name, True) for name in ("RSCTL_", "RSCTL_TRANSPORT", "RSCTL_POWERSGD")],
        *[(name, False) for name in ("RSCTL_TRANSPORT_THREADS", "RSCTL_POWERSGD_RANK")],
        *[(name, False) for name in ("RSCTL_RECORD_STEPS", "rank", "RANKS", "MY_RSCTL_RUN")],
    ],
)
def test_the_variables_that_rsctl_sets(name: str, expected: bool) -> None:
    assert is_reserved(name) is expected


def value(text: str, secret: bool = False) -> EnvValue:
    found = EnvValue(text)
    found.secret = secret
    return found


ENV = {
    "RANK": value("1"),
    "HF_TOKEN": value("abc"),
    "GH_TOKEN": value("abc", secret=True),
    "X_TOKEN": value(""),
    "MODE": value("fast"),
    "FROM_OUTSIDE": value("abc", secret=True),
}
DATABASE = {"DATABASE_URL": value("postgres://me:pw@host/db")}


def test_secrets_belong_outside_of_the_file() -> None:
    reserved, written = check_env(ENV, "run.env")
    assert (reserved.code, reserved.path, reserved.is_error) == ("env", "run.env.RANK", True)
    assert (written.code, written.path, written.is_error) == ("secret", "run.env.HF_TOKEN", False)
    assert written.remedy == 'keep it out of the file: HF_TOKEN: "${HF_TOKEN}"'


def test_a_variable_whose_value_has_a_secret() -> None:
    [written] = check_env(DATABASE, "run.env")
    [visible] = check_visible_env(DATABASE, "image.env", "in an image")
    assert (written.path, written.is_error) == ("run.env.DATABASE_URL", False)
    assert (visible.path, visible.is_error) == ("image.env.DATABASE_URL", True)


def test_what_anybody_can_read_has_no_secret() -> None:
    reserved, *found = check_visible_env(ENV, "image.env", "in an image")
    assert reserved.path == "image.env.RANK"
    assert [(finding.path, finding.is_error, finding.message) for finding in found] == [
        (
            "image.env.HF_TOKEN",
            True,
            "HF_TOKEN looks like a secret, and anyone can read it in an image",
        ),
        (
            "image.env.GH_TOKEN",
            True,
            "GH_TOKEN comes from your environment, and anyone can read it in an image",
        ),
        (
            "image.env.FROM_OUTSIDE",
            True,
            "FROM_OUTSIDE comes from your environment, and anyone can read it in an image",
        ),
    ]


@pytest.mark.parametrize(
    ("setting", "shown"),
    [
        ("run.env.HF_TOKEN=abc", "run.env.HF_TOKEN=***"),
        ("run.env.HF_TOKEN[0]=abc", "run.env.HF_TOKEN[0]=***"),
        ("run.env.MODE=fast", "run.env.MODE=fast"),
        ("workers.count=2", "workers.count=2"),
        ("workers.count", "workers.count"),
        ("tracking=[{mlflow: 'https://me:pw@host'}]", None),
        ("run.env={HF_TOKEN: abc, MODE: fast}", None),
        ("run.env={HF_TOKEN: abc", None),
        ("x=https://me:pw@host/a", None),
    ],
)
def test_settings_are_shown_without_their_secrets(setting: str, shown: str | None) -> None:
    found = without_secret(setting)
    assert found == shown if shown else "***" in found
    assert "abc" not in found
    assert "pw" not in found
    assert ("MODE" in setting) <= ("fast" in found or found.endswith("=***"))


PACKAGE = """\
name: a
image: {uri: "a/b:1"%s}
run: {package: %s, launcher: none, %s}
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    folder = tmp_path / "pkg"
    (folder / "trainer").mkdir(parents=True)
    (folder / "trainer" / "task.py").touch()
    (folder / "setup.py").touch()
    return folder


def findings(folder: Path, text: str) -> list[tuple[str | None, str]]:
    (folder / "job.yaml").write_text(text)
    found = read(str(folder / "job.yaml"), ()).findings
    return [(finding.path, finding.message.replace(str(folder), "")) for finding in found]


@pytest.mark.parametrize(
    ("image", "place", "run", "expected"),
    [
        ("", "pkg", "module: trainer.task", []),
        ("", "pkg", "script: trainer/task.py", []),
        ("", "gs://bucket/a.tar.gz", "module: x.y", []),
        (
            "",
            "gs://bucket/a.zip",
            "module: x.y",
            [("run.package", "'gs://bucket/a.zip' is not a source distribution")],
        ),
        (
            "",
            "gs://bucket/.tar.gz",
            "module: x.y",
            [("run.package", "'gs://bucket/.tar.gz' is not a source distribution")],
        ),
        ("", "none", "module: x.y", [("run.package", "folder '/none' does not exist")]),
        (
            "",
            "pkg",
            "script: none.py",
            [("run.script", "script 'none.py' does not exist in '/pkg'")],
        ),
        (
            ", source: pkg",
            "pkg",
            "module: trainer.task",
            [
                (
                    "image.source",
                    "the container gets only run.package, so image.source has no effect",
                )
            ],
        ),
    ],
)
def test_what_is_wrong_with_a_package(
    tmp_path: Path, package: Path, image: str, place: str, run: str, expected: list[object]
) -> None:
    assert findings(tmp_path, PACKAGE % (image, place, run)) == expected


@pytest.mark.parametrize("text", ["package_dir = x", "[tool.setuptools.package-dir]"])
@pytest.mark.parametrize("file", ["setup.py", "pyproject.toml", "setup.cfg"])
def test_a_build_that_maps_folders_may_have_any_module(
    tmp_path: Path, package: Path, text: str, file: str
) -> None:
    job = PACKAGE % ("", "pkg", "module: other.task")
    assert findings(tmp_path, job) == [("run.module", "module other.task does not exist in '/pkg'")]
    (package / file).write_text(text)
    assert findings(tmp_path, job) == []


def test_a_folder_that_pip_cannot_install(tmp_path: Path, package: Path) -> None:
    (package / "setup.py").unlink()
    [(path, message)] = findings(tmp_path, PACKAGE % ("", "pkg", "module: trainer.task"))
    assert path == "run.package"
    assert message == "'/pkg' is not a Python package: it has neither pyproject.toml nor setup.py"


def test_what_a_package_does_not_go_together_with(tmp_path: Path, package: Path) -> None:
    text = "name: a\nrun: {package: pkg, command: [a], launcher: once}\n"
    paths = {path for path, _ in findings(tmp_path, text)}
    assert paths == {"run.command", "run.launcher", "image.uri"}


@pytest.mark.parametrize(
    "line",
    [
        "run: ['git clone https://oauth2:hunter2@host/a.git']",
        "run: ['true', 'export HF_TOKEN=hunter2 && hf download a']",
        "run: ['curl -H \"Authorization: Bearer hunter2\" https://host']",
        "run: ['wget --password=hunter2 https://host']",
        "run: ['wget --password hunter2 https://host']",
        "run: ['pip install git+https://ghp_abcdefghijklmnopqrst@host/a.git']",
        "run: ['export HF_TOKEN=${HF_TOKEN}']",
        "run: ['echo ${HF_TOKEN}']",
        "python: ['git+https://oauth2:hunter2@host/a.git']",
        "python: ['numpy', 'a @ https://host/${HF_TOKEN}']",
    ],
)
def test_what_ends_in_the_image_has_no_secret(line: str, tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(f"name: j\nrun: {{command: [a], launcher: none}}\nimage: {{base: b, {line}}}\n")
    [found] = [f for f in read(str(path), environ={"HF_TOKEN": "hunter2"}).findings if f.is_error]
    index = 1 if ", " in line and line.count("', '") else 0
    assert (found.code, found.path) == ("secret", f"image.{line.partition(':')[0]}[{index}]")
    assert found.message == "it has a secret, and anyone can read it in the image"


def test_a_secret_that_the_build_reads_from_elsewhere(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(
        """name: j
run: {command: [a], launcher: none}
image:
  base: b
  run:
    - export HF_TOKEN=$(cat /run/secrets/hf) TOKEN=$OTHER && hf auth login --token "$TOKEN" --force
    - git clone https://oauth2:$${TOKEN}@host/a.git
    - 'curl -H "Authorization: Bearer $TOKEN" https://host'
    - export TOKEN=$${TOKEN:-} API_KEY=`cat key`
    - jupyter lab --ServerApp.token='' --ServerApp.password=""
  python: ["git+https://$${USER}:$${TOKEN}@host/a.git", "numpy==2.0", "a @ https://host/a.whl"]
"""
    )
    assert read(str(path)).findings == []
