"""What a user should know of an image's files before it is built."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from rsctl.findings import Finding, error, note, warning
from rsctl.images import findings
from rsctl.images.context import ContextEntry, LeftOut
from rsctl.images.findings import (
    image_findings,
    large_file_notes,
    left_out_notes,
    pointer_notes,
    recipe_of,
)
from rsctl.images.gitignore import NAMED
from rsctl.images.known_errors import MOUNTED, OWN_BUILD
from rsctl.images.submodules import REASON as EMPTY_SUBMODULE

from .conftest import ReadJob


@pytest.fixture
def _unhashed(monkeypatch: pytest.MonkeyPatch) -> None:
    """No file is read."""
    monkeypatch.setattr(ContextEntry, "content_hash", "")


def large_files(job: ReadJob) -> list[Finding]:
    """The findings about large files of the job's source."""
    return [f for f in recipe_of(job("base: base"), "compose")[1] if f.code.startswith("large-")]


@pytest.mark.usefixtures("_unhashed")
def test_large_files_of_the_source_are_noted(job: ReadJob, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for name, size in (("data/a.bin", 300_000_000), ("b.bin", 100_000_000), ("c.bin", 99_999_999)):
        (tmp_path / name).touch()
        os.truncate(tmp_path / name, size)
    [finding] = large_files(job)
    assert (finding.severity, finding.path) == ("note", "image.source")
    assert finding.message == (
        "large files are copied into the image: data/a.bin (300 MB), b.bin (100 MB)"
    )


def test_files_that_git_lfs_has_not_fetched(job: ReadJob, tmp_path: Path) -> None:
    """A script finds three lines of text in place of its weights. The text is from git-lfs'
    docs/spec.md.
    """
    digest = "4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393"
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{digest}\nsize 12345\n"
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "a.bin").write_text(pointer)
    (tmp_path / "README.md").write_text(f"Pointers are such files: {pointer}")
    (tmp_path / "long.txt").write_text(pointer + "x" * 1024)
    _, found = recipe_of(job(), "compose")
    [finding] = [finding for finding in found if finding.code == "lfs"]
    assert (finding.severity, finding.path) == ("warning", "image.source")
    assert finding.message == (
        "pointers of Git LFS are copied into the image in place of the files' contents: "
        "weights/a.bin"
    )


def test_links_that_lead_to_nothing_in_the_image(job: ReadJob, tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    for name, target in {
        "data": "/mnt/nas/data",
        "pkg/shared": "../../shared/pkg",
        "pkg/inside": "../train.py",
        "own": f"{tmp_path}/train.py",
        "python": "/usr/bin/python3",
        "libs": "/library",
        "self": ".",
    }.items():
        (tmp_path / name).symlink_to(target)
    _, found = recipe_of(job(), "compose")
    [finding] = [finding for finding in found if finding.code == "links"]
    assert (finding.severity, finding.path) == ("warning", "image.source")
    assert finding.message.partition("no files: ")[2].split(", ") == [
        "data -> /mnt/nas/data",
        "libs -> /library",
        f"own -> {tmp_path}/train.py",
        "pkg/shared -> ../../shared/pkg",
    ]


def test_large_files_that_only_the_dockerfile_can_copy(job: ReadJob, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM base\n")
    (tmp_path / ".gitignore").write_text("data/\n")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.bin").touch()
    os.truncate(tmp_path / "data" / "a.bin", 100_000_000)
    _, found = recipe_of(job("dockerfile: Dockerfile"), "compose")
    [finding] = [finding for finding in found if finding.code == "large-files"]
    assert finding.path == "image.dockerfile"
    assert finding.message == (
        "large files are copied into the context of image.dockerfile: data/a.bin (100 MB)"
    )


def test_a_secret_in_the_dockerfile_of_the_job(job: ReadJob, tmp_path: Path) -> None:
    lines = "FROM base\nARG HF_TOKEN\nENV HF_TOKEN=hunter2\nRUN export A_TOKEN=$HF_TOKEN\n"
    (tmp_path / "Dockerfile").write_text(lines)
    _, found = recipe_of(job("dockerfile: Dockerfile"), "compose")
    [secret] = [finding for finding in found if finding.code == "secret"]
    assert (secret.severity, secret.line, secret.path) == ("warning", 3, "image.dockerfile")
    assert secret.message == "this line has a secret, and anyone can read it in the image"


def test_a_mount_of_a_secret_of_the_job(job: ReadJob, tmp_path: Path) -> None:
    lines = "FROM base\nRUN --mount=type=secret,id=PIP,required=true x\n"
    (tmp_path / "Dockerfile").write_text(lines + "RUN --mount=type=secret,id=PIP2 x\n")
    _, found = recipe_of(job("dockerfile: Dockerfile\n  secrets: [PIP]"), "compose")
    assert [finding.line for finding in found if finding.code == "build-secret"] == [3]


def test_a_mount_that_needs_what_rsctl_does_not_pass(job: ReadJob, tmp_path: Path) -> None:
    """BuildKit mounts nothing in its place, and the command fails or continues without it."""
    lines = (
        "FROM base\n# RUN --mount=type=ssh x\nRUN --mount=type=cache,target=/c x\n"
        "RUN --mount=type=secret,id=pip x\nRUN --mount=type=cache,target=/c \\\n"
        "  --mount=target=/x,type=ssh git clone x\n"
    )
    (tmp_path / "Dockerfile").write_text(lines)
    _, found = recipe_of(job("dockerfile: Dockerfile"), "compose")
    mounts = [finding for finding in found if finding.code == "build-secret"]
    assert [(m.severity, m.line, m.path) for m in mounts] == [
        ("warning", 4, "image.dockerfile"),
        ("warning", 6, "image.dockerfile"),
    ]
    assert "image.secrets" in str(mounts[0].remedy)
    assert "docker build --ssh" in str(mounts[1].remedy)


@pytest.mark.parametrize(
    ("lines", "noted"),
    [
        ('FROM base\nENTRYPOINT ["/start.sh"]\n', [2]),
        ('FROM base AS one\nENTRYPOINT ["/start.sh"]\nFROM base\n', []),
        ('FROM base\nENTRYPOINT ["/start.sh"]\nentrypoint []\n', []),
    ],
)
def test_the_entrypoint_of_a_dockerfile_does_not_start(
    lines: str, noted: list[int], job: ReadJob, tmp_path: Path
) -> None:
    """rsctl-launch is the first process; an environment that the other made would be missing."""
    (tmp_path / "Dockerfile").write_text(lines)
    _, found = recipe_of(job("dockerfile: Dockerfile"), "compose")
    assert [finding.line for finding in found if finding.code == "entrypoint-replaced"] == noted


@pytest.mark.parametrize(
    ("image", "files", "remedy"),
    [
        ("base: base", {"requirements.txt": "# own\nnumpy\n"}, "set image.python: "),
        ("base: base", {"requirements.txt": "# none\n"}, None),
        ("base: base\n  python: requirements.txt", {"requirements.txt": "numpy\n"}, None),
        ("dockerfile: Dockerfile", {"requirements.txt": "numpy\n"}, None),
        (
            "base: base",
            {
                "requirements.txt": "",
                "pyproject.toml": '[project]\ndependencies = [\n  "numpy",\n]\n',
            },
            "uv pip compile pyproject.toml",
        ),
        (
            "base: base",
            {"requirements.txt": "", "pyproject.toml": "[project]\ndependencies = []\n"},
            None,
        ),
    ],
)
def test_packages_that_no_key_installs(
    image: str, files: dict[str, str], remedy: str | None, job: ReadJob, tmp_path: Path
) -> None:
    """The run would fail at its first import, after the machines have started."""
    (tmp_path / "Dockerfile").write_text("FROM base\n")
    made = job(image)
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    found = [f for f in recipe_of(made, "compose")[1] if f.code == "requirement"]
    assert [(f.severity, f.path) for f in found] == [("note", "image.python")] * bool(remedy)
    assert all(str(remedy) in str(f.remedy) for f in found)


def test_what_is_left_out_has_a_note_for_each_reason() -> None:
    """With what helps: a rule of the user's own needs another remedy than a rule of rsctl."""
    left = [LeftOut(f"f{n}", "generated") for n in range(7)]
    left += [LeftOut("a", NAMED), LeftOut("lib", EMPTY_SUBMODULE)]
    generated, named, submodule = left_out_notes(left, "the image")
    assert generated == note(
        "left-out",
        "not in the image: f0, f1, f2, f3, f4 and 2 more (generated)",
        "to include it, write !PATH in .dockerignore",
        "image.source",
    )
    assert (named.code, named.severity) == ("left-out", "note")
    assert named.message == f"not in the image: a ({NAMED})"
    assert named.remedy != generated.remedy
    assert (submodule.code, submodule.severity, submodule.path) == (
        "submodule", "warning", "image.source",
    )  # fmt: skip
    assert "git submodule update --init" in (submodule.remedy or "")
    [other] = left_out_notes(left[:1], "there", "do it", "run.package")
    assert other == note("left-out", "not in there: f0 (generated)", "do it", "run.package")


@pytest.mark.parametrize(
    ("transport", "is_compiled", "is_noted"),
    [("rsctl", False, True), ("rsctl", True, False), ("none", False, False)],
)
def test_an_image_without_the_compiled_core(
    job: ReadJob,
    monkeypatch: pytest.MonkeyPatch,
    transport: str,
    is_compiled: bool,
    is_noted: bool,
) -> None:
    monkeypatch.setattr(findings, "has_compiled_core", lambda: is_compiled)
    _, found = recipe_of(job(f"base: base\n  transport: {transport}"), "process")
    noted = [finding for finding in found if finding.code == "core"]
    assert [(finding.severity, finding.path) for finding in noted] == (
        [("note", "image.transport")] * is_noted
    )


SECRET_LINE = "this line has a secret, and anyone can read it in the image"
FIRST_PROCESS = (
    "rsctl-launch is the first process of the image, so this ENTRYPOINT does not run",
    "set variables with ENV or image.env, and start other programs in run.command",
)
NOT_PASSED = "this line mounts a {} that rsctl does not pass to the build"


def test_all_that_is_said_of_a_dockerfile(job: ReadJob, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(
        "FROM base\nENV HF_TOKEN=hunter2\nRUN --mount=type=ssh true\n"
        "RUN --mount=type=secret,id=x true\nENTRYPOINT /start.sh\n"
    )
    _, found = recipe_of(job("dockerfile: Dockerfile\n  transport: none"), "compose")
    told = [(f.severity, f.code, f.line, f.message, f.remedy) for f in found if f.file]
    assert {(f.path, f.column) for f in found if f.file} == {("image.dockerfile", 1)}
    assert told == [
        ("warning", "secret", 2, SECRET_LINE, "remove it"),
        ("warning", "build-secret", 3, NOT_PASSED.format("ssh"), OWN_BUILD),
        ("warning", "build-secret", 4, NOT_PASSED.format("secret"), MOUNTED),
        ("note", "entrypoint-replaced", 5, *FIRST_PROCESS),
    ]


def files_of(folder: Path, sizes: dict[str, int]) -> list[ContextEntry]:
    """Sparse files of these sizes, as a context has them."""
    for name, size in sizes.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.truncate(path, size)
    return [ContextEntry(f"source/{name}", path=folder / name) for name in sizes]


MB = 1_000_000


@pytest.mark.parametrize(
    ("sizes", "severity", "message"),
    [
        ({"a": 100 * MB - 1}, None, ""),
        ({"a": 100 * MB}, "note", "large files are copied into it: a (100 MB)"),
        (
            {f"f{n}": (100 + n) * MB for n in range(6)},
            "note",
            "large files are copied into it: f5 (105 MB), f4 (104 MB), f3 (103 MB), f2 (102 MB), "
            "f1 (101 MB) and 1 more",
        ),
        (
            {"a": 500 * MB, "b": 500 * MB - 1},
            "note",
            "large files are copied into it: a (500 MB), b (500 MB)",
        ),
        ({"a": 1000 * MB}, "warning", "1 GB in 1 file are copied into it: a (1 GB)"),
        (
            {"d/a": 600 * MB, "d/e/b": 600 * MB, "c": 1300 * MB, "x": 26 * MB, "y": 24 * MB},
            "warning",
            "2.55 GB in 5 files are copied into it: c (1.3 GB), d/ (1.2 GB), x (26 MB)",
        ),
        (
            {f"f{n}": (200 + n) * MB for n in range(6)},
            "warning",
            "1.22 GB in 6 files are copied into it: f5 (205 MB), f4 (204 MB), f3 (203 MB), "
            "f2 (202 MB), f1 (201 MB)",
        ),
    ],
)
def test_the_size_of_a_source(
    sizes: dict[str, int], severity: str | None, message: str, tmp_path: Path
) -> None:
    entries = files_of(tmp_path, sizes)
    entries += [ContextEntry("runtime/own", path=entries[0].path), ContextEntry("source/link")]
    remedies = {
        "note": "list them in .dockerignore and provide data as inputs, unless the script needs "
        "them there",
        "warning": "list files that the script does not need in .dockerignore, and provide data as "
        "inputs: each build sends all files, and each node pulls them",
    }
    code = {"note": "large-files", "warning": "large-source"}
    assert [
        (f.severity, f.code, f.message, f.remedy, f.path)
        for f in large_file_notes(entries, "it", "a.key")
    ] == [(s, code[s], message, remedies[s], "a.key") for s in [severity] if s]


@pytest.mark.parametrize(("size", "is_pointer"), [(1024, True), (1025, False)])
def test_the_largest_pointer_of_git_lfs(size: int, is_pointer: bool, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("version https://git-lfs.github.com/spec/v1\n".ljust(size, "x"))
    (tmp_path / "empty").touch()
    entries = [ContextEntry(f"source/{n}", path=tmp_path / n) for n in ("a", "empty", "lost")]
    assert (
        list(pointer_notes(entries, "it", "a.key"))
        == [
            warning(
                "lfs",
                "pointers of Git LFS are copied into it in place of the files' contents: a",
                "run git lfs pull; in CI, check out files of Git LFS",
                "a.key",
            )
        ]
        * is_pointer
    )


@pytest.mark.parametrize(
    ("name", "text", "remedy"),
    [
        ("requirements.txt", "numpy\n", "set image.python: {}/requirements.txt"),
        (
            "pyproject.toml",
            'dependencies = ["numpy"]\n',
            "run `uv pip compile pyproject.toml -o requirements.txt`, and set image.python: "
            "requirements.txt",
        ),
        # https://github.com/openai/guided-diffusion/blob/main/setup.py
        (
            "setup.py",
            'setup(\n    install_requires=["blobfile>=1.0.5", "torch", "tqdm"],\n)\n',
            "run `uv pip compile setup.py -o requirements.txt`, and set image.python: "
            "requirements.txt",
        ),
        # https://github.com/facebookresearch/DiT/blob/main/environment.yml
        (
            "environment.yml",
            "name: DiT\ndependencies:\n  - python >= 3.8\n  - pip:\n    - timm\n",
            "list the packages of PyPI in a requirements file; for packages of conda use an "
            "image.dockerfile that runs `conda env update -n base -f FILE`",
        ),
    ],
)
def test_all_that_is_said_of_packages_that_are_not_installed(
    name: str, text: str, remedy: str, job: ReadJob, tmp_path: Path
) -> None:
    made = job("base: base\n  transport: none")
    (tmp_path / "requirements.txt").unlink()
    (tmp_path / name).write_text(text)
    [found] = recipe_of(made, "compose")[1]
    assert found == note(
        "requirement",
        f"{name} in image.source is not installed, because image.python is not set",
        f"{remedy.format(tmp_path)}, unless the base has the packages",
        "image.python",
    )


# https://github.com/k2-fsa/icefall/blob/master/README.md: PYTHONPATH has the root of the project
@pytest.mark.parametrize(
    ("value", "outside"),
    [("../../..", "../../.."), ("a:..", ".."), ("a/../../b:/c", "a/../../b"), ("..a:.:a/..:", "")],
)
def test_a_folder_of_pythonpath_outside_the_source(
    value: str, outside: str, job: ReadJob, tmp_path: Path
) -> None:
    made = job("base: base\n  transport: none\n  python: requirements.txt")
    made = replace(made, run=replace(made.run, env={"PYTHONPATH": value}))
    expected = warning(
        "links",
        f"PYTHONPATH has {outside}, which leads out of image.source: nodes have no such folder",
        "write the job file in a folder that has both, with paths from there",
        "run.env.PYTHONPATH",
    )
    assert recipe_of(made, "compose")[1] == ([expected] if outside else [])


def test_links_and_what_a_gitignore_names_have_their_remedies(job: ReadJob, tmp_path: Path) -> None:
    (tmp_path / "data").symlink_to("/mnt/data")
    (tmp_path / ".gitignore").write_text("*.log\n")
    (tmp_path / "a.log").touch()
    made = job("base: base\n  transport: none\n  python: requirements.txt")
    assert recipe_of(made, "compose")[1] == [
        note(
            "left-out",
            "not in the image: a.log (named in .gitignore)",
            "to choose files yourself, write a .dockerignore; rsctl then ignores .gitignore",
            "image.source",
        ),
        warning(
            "links",
            "links lead out of image.source, where the image has no files: data -> /mnt/data",
            "copy the files into the folder, provide data as inputs, or list the links in "
            ".dockerignore",
            "image.source",
        ),
    ]


def test_an_image_that_a_job_does_not_name(job: ReadJob) -> None:
    assert image_findings(job("apt: [git]"), "vertex") == [
        error(
            "image",
            "target vertex needs an image",
            "set image.base or image.dockerfile to build an image, or image.uri to use an existing "
            "one",
            "image",
        )
    ]
