"""`image.python` to the files that pip reads in the image."""

from __future__ import annotations

from pathlib import Path

import pytest

from rsctl.findings import ExitCode, RsctlError, error
from rsctl.images.requirements import requirement_entries, to_install

from .conftest import ReadJob


def files(job: ReadJob, python: str) -> dict[str, bytes | None]:
    entries = requirement_entries(job(f"base: base\n  python: {python}").image, "")
    return {entry.name: entry.content for entry in entries}


@pytest.mark.parametrize(
    ("python", "content"),
    [
        ("requirements.txt", b"numpy==2.0\n"),
        ("[numpy, 'torch>=2']", b"numpy\ntorch>=2\n"),
        ("['a @ https://example.com/a.whl ; x']", b"a @ https://example.com/a.whl ; x\n"),
        ("[' numpy ']", b"numpy\n"),
    ],
)
def test_the_requirements_are_one_file(job: ReadJob, python: str, content: bytes) -> None:
    assert files(job, python) == {"requirements.txt": content}


def test_a_file_brings_what_it_includes(job: ReadJob, tmp_path: Path) -> None:
    (tmp_path / "deps").mkdir()
    (tmp_path / "gpu.txt").write_text("-r deps/base.txt\n--constraint=c.txt\n-r https://x/y.txt\n")
    (tmp_path / "deps" / "base.txt").write_text("-r more.txt\nscipy\n")
    (tmp_path / "deps" / "more.txt").write_text("-r base.txt  # a circle\n")
    (tmp_path / "c.txt").write_text("numpy<3\n")
    assert files(job, "gpu.txt") == {
        "requirements.txt": b"-r deps/base.txt\n--constraint=c.txt\n-r https://x/y.txt\n",
        "deps/base.txt": b"-r more.txt\nscipy\n",
        "deps/more.txt": b"-r base.txt  # a circle\n",
        "c.txt": b"numpy<3\n",
    }


def test_options_of_a_file_are_pips_affair(job: ReadJob, tmp_path: Path) -> None:
    text = b"--extra-index-url https://example.com\n--no-binary :all:\nnumpy\n"
    (tmp_path / "requirements.txt").write_bytes(text)
    assert files(job, "requirements.txt") == {"requirements.txt": text}


@pytest.mark.parametrize(
    "item",
    [
        *("numpy\\n--index-url http://evil", "a\\rb", "a\\u2028b", "numpy\\\\", "a\\x0bb"),
        *("--index-url=http://evil", " -r x", "-e .", "./wheel.whl", "/etc", ".[dev]", "file:///x"),
    ],
)
def test_a_requirement_is_one_line_and_names_a_package(item: str, job: ReadJob) -> None:
    """Refused here or already by the spec."""
    with pytest.raises(RsctlError) as caught:
        files(job, f'["{item}", other]')
    [finding] = caught.value.findings
    assert caught.value.exit_code == ExitCode.USAGE
    assert str(finding.path).startswith("image.python")


@pytest.mark.parametrize("item", ["./x", "../x", "/etc", ".[dev]", "file:///x", "a/b-1.0.tar.gz"])
def test_a_path_in_the_list_is_named(item: str, job: ReadJob) -> None:
    with pytest.raises(RsctlError) as caught:
        files(job, f'["{item}", other]')
    [finding] = caught.value.findings
    assert finding.message == (f"{item!r} is a local path, which is not in the image when pip runs")


@pytest.mark.parametrize("line", ["rsctl", "rsctl==0.2", "Rsctl [local]>=0", "rsctl # runtime"])
def test_a_strangers_package_of_our_name_stays_out(line: str, job: ReadJob, tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text(f"rsctl-more\n{line}\n")
    for python in ("requirements.txt", f'["{line}"]'):
        with pytest.raises(RsctlError) as caught:
            files(job, python)
        [finding] = caught.value.findings
        assert finding.message == f"{line!r} is another project's package, not this rsctl"


@pytest.mark.parametrize(
    "line",
    [
        *("-e .", "--editable=.", ".", "./pkg", "../pkg", "/pkg", "-e./x"),
        *("vendor/x-1.0-py3-none-any.whl", "x-1.0.tar.gz ; python_version > '3'", "-f wheels"),
        *(
            "--find-links=./wheels",
            "-f file:///wheels",
            "--extra-index-url=file:///x",
            "-i ./simple",
        ),
        *("libs/mylib", "libs/mylib[cuda]", "mylib/ ; python_version > '3'", "C:\\wheels\\x.whl"),
        *("git+file:///home/me/x", "-e git+file:///x", "-e mylib", "file:x"),
    ],
)
def test_a_local_path_in_a_file_is_not_in_the_image_when_pip_runs(
    line: str, job: ReadJob, tmp_path: Path
) -> None:
    (tmp_path / "requirements.txt").write_text(f"numpy\n{line}\n")
    with pytest.raises(RsctlError) as caught:
        files(job, "requirements.txt")
    [finding] = caught.value.findings
    assert finding.message == (
        f"requirements.txt contains {line!r}, which is not in the image when pip runs"
    )


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("numpy @ file:///croot/numpy_1/work", "a file of the machine"),
        ("x[a]@file:../x", "a file of the machine"),
        ("x @ git+file:///home/me/x", "a file of the machine"),
        ("x @ ./wheels/x.whl", "a file of the machine"),
        ("@EXPLICIT", "the form of conda"),
        ("numpy=1.26.4=py311h24aa872_0", "the form of conda"),
        ("numpy=1.26.*", "the form of conda"),
    ],
)
def test_a_line_of_conda_is_refused_before_the_build(
    line: str, what: str, job: ReadJob, tmp_path: Path
) -> None:
    """`pip freeze` and `conda list --export` in an environment of conda write such lines."""
    (tmp_path / "requirements.txt").write_text(f"torch\n{line}\n")
    for python in ("requirements.txt", f'["{line}"]'):
        with pytest.raises(RsctlError) as caught:
            files(job, python)
        [finding] = caught.value.findings
        assert what in finding.message
        assert "pip list --format=freeze" in str(finding.remedy)


@pytest.mark.parametrize(
    "line",
    [
        "x @ https://example.com/x-1.0.tar.gz",
        "https://example.com/x.whl",
        "x @ git+https://example.com/x.git@v1.zip",
        "--find-links https://example.com/whl/torch.html",
        *("-i https://example.com/simple", "--index-url=${INDEX}", "-f $WHEELS", "-i = ${INDEX}"),
        "-e git+https://example.com/x/y.git@abc#egg=y",
        "--editable=hg+ssh://example.com/x#egg=x",
        "git+ssh://git@example.com/x/y.git",
        "x===1.0",
        "x==1.0  # not x=1.0",
        "x >= 1, <= 2 ; python_version == '3.12'",
        "--hash=sha256:00",
    ],
)
def test_lines_that_pip_reads_are_taken(line: str, job: ReadJob, tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text(f"{line}\n")
    assert files(job, "requirements.txt")


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("uv.lock", "uv export "),
        ("poetry.lock", "poetry export "),
        ("Pipfile", "pipenv requirements "),
        ("pyproject.toml", "uv pip compile pyproject.toml "),
        ("setup.cfg", "uv pip compile setup.cfg "),
        ("environment.yml", "conda env update "),
        ("pixi.toml", "conda env update "),
        ("pixi.lock", "conda env update "),
        ("pylock.toml", "uv pip compile pyproject.toml "),
    ],
)
def test_a_file_of_another_tool_is_not_given_to_pip(
    name: str, remedy: str, job: ReadJob, tmp_path: Path
) -> None:
    """The build took minutes to fail."""
    (tmp_path / name).write_text("[project]\n")
    with pytest.raises(RsctlError) as caught:
        files(job, name)
    [finding] = caught.value.findings
    assert finding.message == f"{name} is not a requirements file of pip"
    assert remedy in str(finding.remedy)


FREEZE = "write the file with `python -m pip list --format=freeze`"
AS_PIP = "write NAME==VERSION, as `python -m pip list --format=freeze` does"
APP = "remove it: image.source is /app in the image"


@pytest.mark.parametrize(
    ("python", "text", "message", "remedy"),
    [
        (
            *("['-r x']", "", "expected a requirement, got an option of pip: '-r x'"),
            "put it in a requirements file, and set image.python to that file's name",
        ),
        (
            *("[./x]", "", "'./x' is a local path, which is not in the image when pip runs"),
            APP,
        ),
        (
            "requirements.txt",
            "-e .",
            "requirements.txt contains '-e .', which is not in the image when pip runs",
            f"{APP}, where the script runs",
        ),
        (
            "[x @ file:///x]",
            "",
            "the list contains 'x @ file:///x', a file of the machine where the line was written",
            FREEZE,
        ),
        (
            "requirements.txt",
            "x=1.0",
            "requirements.txt contains 'x=1.0', the form of conda, which pip cannot read",
            AS_PIP,
        ),
        (
            "[rsctl]",
            "",
            "'rsctl' is another project's package, not this rsctl",
            "remove it: rsctl's runtime is in every image that rsctl builds",
        ),
        (
            "requirements.txt",
            "-r ../x",
            "requirements.txt includes '../x', which is not in its own folder or below",
            "move it there",
        ),
        (
            "other.txt",
            "-r requirements.txt  # itself",
            "two files would both become requirements.txt in the image",
            "rename one of them",
        ),
        (
            "environment.yaml",
            "",
            "environment.yaml is not a requirements file of pip",
            "list the packages of PyPI in a requirements file; for packages of conda use an "
            "image.dockerfile that runs `conda env update -n base -f FILE`",
        ),
        (
            "poetry.lock",
            "",
            "poetry.lock is not a requirements file of pip",
            "run `poetry export -o requirements.txt`, and set image.python: requirements.txt",
        ),
        (
            "requirements.txt\n  secrets: [A, B]",
            "x @ https://me:${A}@h/${B}.whl",
            "pip would record the value of B in the image, with the link",
            "write https://${B}@HOST/PATH, or use an index",
        ),
        (
            "['x @ https://h/$${A}.whl']\n  secrets: [A]",
            "",
            "pip would record the value of A in the image, with the link",
            "write https://${A}@HOST/PATH, or use an index",
        ),
        (
            "requirements.txt\n  secrets: [A]",
            "-e \\\n  git+https://${A}@h/x.git",
            "pip would keep the value of A in the image, in the package's clone",
            "write the line without -e",
        ),
    ],
)
def test_all_that_is_said_of_a_wrong_requirement(
    python: str, text: str, message: str, remedy: str, job: ReadJob, tmp_path: Path
) -> None:
    if text or not python.startswith("["):
        (tmp_path / python.split("\n")[0]).write_text(f"{text}\n")
    made = job(f"base: base\n  python: {python}").image
    with pytest.raises(RsctlError) as caught:
        requirement_entries(made, "")
    assert caught.value.exit_code is ExitCode.USAGE
    assert caught.value.findings == (error("requirement", message, remedy, "image.python"),)


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("uv.lock", "uv export --no-emit-project -o requirements.txt"),
        ("poetry.lock", "poetry export -o requirements.txt"),
        ("pdm.lock", "pdm export -o requirements.txt"),
        ("Pipfile", "pipenv requirements > requirements.txt"),
        ("Pipfile.lock", "pipenv requirements > requirements.txt"),
        ("pyproject.toml", "uv pip compile pyproject.toml -o requirements.txt"),
        ("pylock.toml", "uv pip compile pyproject.toml -o requirements.txt"),
        ("setup.cfg", "uv pip compile setup.cfg -o requirements.txt"),
        ("setup.py", "uv pip compile setup.py -o requirements.txt"),
    ],
)
def test_the_command_that_writes_a_requirements_file(name: str, command: str) -> None:
    remedy = f"run `{command}`, and set image.python: requirements.txt"
    assert to_install(Path("folder", name)) == remedy
    assert to_install(Path("folder", "requirements.txt")) is None


def test_an_included_file_with_a_space_in_its_name(job: ReadJob, tmp_path: Path) -> None:
    for name in ("a b.txt", "c d.txt"):
        (tmp_path / name).write_text("scipy\n")
    (tmp_path / "requirements.txt").write_text("-r \"a b.txt\"  # both\n-c='c d.txt'\n")
    assert sorted(files(job, "requirements.txt")) == ["a b.txt", "c d.txt", "requirements.txt"]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_file_of_another_encoding_is_checked_as_pip_reads_it(
    encoding: str, job: ReadJob, tmp_path: Path
) -> None:
    """`pip freeze > requirements.txt` of PowerShell writes UTF-16."""
    path = tmp_path / "requirements.txt"
    path.write_text("numpy\n", encoding=encoding)
    assert files(job, "requirements.txt") == {"requirements.txt": path.read_bytes()}
    path.write_text("-e .\n", encoding=encoding)
    with pytest.raises(RsctlError, match="which is not in the image"):
        files(job, "requirements.txt")
    path.write_text("--extra-index-url https://me:hunter2@host/simple\n", encoding=encoding)
    with pytest.raises(RsctlError, match="has a secret"):
        files(job, "requirements.txt")


def test_the_clone_of_an_editable_package_would_keep_a_secret(job: ReadJob, tmp_path: Path) -> None:
    line = "-e git+https://me:${GIT_TOKEN}@host/a.git#egg=a\n"
    (tmp_path / "requirements.txt").write_text(line)
    with pytest.raises(RsctlError, match="keep the value of GIT_TOKEN in the image") as caught:
        files(job, "requirements.txt\n  secrets: [GIT_TOKEN]")
    assert caught.value.findings[0].remedy == "write the line without -e"


def test_what_is_included_from_elsewhere_is_refused(job: ReadJob, tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("-r ../secret.txt\n")
    with pytest.raises(RsctlError, match="not in its own folder or below"):
        files(job, "requirements.txt")


def test_two_files_of_one_name_are_refused(job: ReadJob, tmp_path: Path) -> None:
    (tmp_path / "gpu.txt").write_text("-r requirements.txt\n")
    with pytest.raises(RsctlError, match="two files would both become requirements\\.txt"):
        files(job, "gpu.txt")


def test_a_missing_file_is_an_error_with_its_name(job: ReadJob, tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("-r gone.txt\n")
    with pytest.raises(FileNotFoundError) as caught:
        files(job, "requirements.txt")
    assert caught.value.filename == str(tmp_path / "gone.txt")


@pytest.mark.parametrize(
    "line",
    [
        "--extra-index-url https://me:hunter2@host/simple",
        "git+https://oauth2:hunter2@host/a.git",
        "# git+https://ghp_abcdefghijklmnopqrst@host/a.git",
    ],
)
def test_a_secret_in_a_file_would_be_in_the_image(line: str, job: ReadJob, tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("numpy\n-r more.txt\n")
    (tmp_path / "more.txt").write_text(f"torch --hash=sha256:{'0a' * 32}\n{line}\n")
    with pytest.raises(RsctlError) as caught:
        files(job, "requirements.txt")
    [finding] = caught.value.findings
    message = "more.txt:2 has a secret, and anyone can read it in the image"
    assert (finding.code, finding.message, finding.path) == ("secret", message, "image.python")


def test_a_variable_in_a_file_is_not_a_secret(job: ReadJob, tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("git+https://me:${GIT_TOKEN}@host/a.git\n")
    assert files(job, "requirements.txt")
