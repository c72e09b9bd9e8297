"""`image.python` to the requirements files of a build context."""

from __future__ import annotations

import codecs
import os
import posixpath
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from rsctl.findings import ExitCode, RsctlError, error
from rsctl.images.context import ContextEntry
from rsctl.job.env_checks import visible_secret
from rsctl.job.job import Image
from rsctl.job.secret_names import public_text, shows_secret

MAIN = "requirements.txt"
"""The name of the first file in the image, for any name here."""

_INCLUDE = re.compile(
    r"^\s*(?:-r|-c|--requirement|--constraint)(?:\s*=\s*|\s+|(?=\S))(?:\"([^\"]+)\"|'([^']+)'|(\S+))"
)
_OTHER_RSCTL = re.compile(r"^\s*rsctl\s*(?:$|[\[=<>!~;@#])", re.IGNORECASE)
_VALUE = r"(?:\s*=\s*|\s+(?!=)|(?=[^\s=]))"  # between an option and its value
_LOCAL = re.compile(
    rf"^\s*(?:(?:-e|--editable){_VALUE}(?!\\$|\w+\+(?!file:))\S|\.{{0,2}}/|\.\s*(?:\[|$)"
    r"|(?:\w+\+)?file:|[A-Za-z]:[\\/]|\w[\w.-]*/"
    rf"|(?:-[fi]|--(?:find-links|index-url|extra-index-url)){_VALUE}(?!\\$|\$|(?!file:)\S*://)\S"
    r"|[^\s#@:]+\.(?:whl|zip|tar\.gz|tar\.bz2|tgz)\s*(?:[;#\[]|$))"
)
_CLONED = re.compile(r"^\s*(?:-e|--editable)")
_BUILT_HERE = re.compile(r"^\s*[\w.\[\],-]+\s*@\s*(?:(?:\w+\+)?file:|\.{0,2}/)")
_OF_CONDA = re.compile(r"^\s*(?:\w[\w.-]*=[\w.*]+(?:=\S+)?\s*$|@EXPLICIT\b)")

_NAMES_PACKAGES = {
    MAIN: r"^\s*[^#\s-]",
    "pyproject.toml": r"^(?:dependencies\s*=\s*\[\s*[\"']|\[tool\.poetry\.dependencies\])",
    **dict.fromkeys(("setup.py", "setup.cfg"), r"^\s*install_requires\s*=\s*(?!\[\s*\])\S"),
    **dict.fromkeys(("environment.yml", "environment.yaml"), r"^dependencies:"),
}
"""Files of a project, and a line of each that names packages."""

_EXPORTS = {
    "uv.lock": "uv export --no-emit-project -o requirements.txt",
    "poetry.lock": "poetry export -o requirements.txt",
    "pdm.lock": "pdm export -o requirements.txt",
    "pipfile": "pipenv requirements > requirements.txt",
    "pipfile.lock": "pipenv requirements > requirements.txt",
    "pyproject.toml": "uv pip compile pyproject.toml -o requirements.txt",
    "pylock.toml": "uv pip compile pyproject.toml -o requirements.txt",
    "setup.cfg": "uv pip compile setup.cfg -o requirements.txt",
    "setup.py": "uv pip compile setup.py -o requirements.txt",
}
"""Files that name packages in other forms than pip's, and the command that writes pip's."""

_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def requirement_entries(image: Image, prefix: str) -> list[ContextEntry]:
    """The files that pip reads: a list as one file, or a file with all that it includes.

    Raises OSError for a file that cannot be read, RsctlError for a file that would be missing in
    the image or a line that pip would reject.
    """
    if not image.python:
        return []
    if isinstance(image.python, list):
        content = "".join(map(_requirement, image.python))
        _reject_recorded(content, image.secrets)
        return [ContextEntry(prefix + MAIN, content=content.encode())]
    main = Path(str(image.python))
    if remedy := to_install(main):
        raise _wrong(f"{main.name} is not a requirements file of pip", remedy)
    files: dict[str, bytes] = {}
    _collect(main, MAIN, main.parent, files)
    for file in files.values():
        _reject_recorded(_text(file), image.secrets)
    return [ContextEntry(prefix + name, content=content) for name, content in sorted(files.items())]


def uninstalled_file(image: Image) -> Path | None:
    """The file of the source that names packages while `image.python` names none; None if the
    source has none, or the user's Dockerfile may install them.
    """
    if image.python or image.dockerfile or not image.source:
        return None
    for name, requirement in _NAMES_PACKAGES.items():
        path = Path(image.source) / name
        with suppress(OSError):
            if re.search(requirement, path.read_text(errors="replace"), re.MULTILINE):
                return path
    return None


def to_install(path: Path) -> str | None:
    """The remedy for a file of another tool, of which each line is an error of pip."""
    if export := _EXPORTS.get(path.name.lower()):
        return f"run `{export}`, and set image.python: {MAIN}"
    if path.suffix.lower() in (".yml", ".yaml") or path.stem == "pixi":
        return (
            "list the packages of PyPI in a requirements file; for packages of conda use an "
            "image.dockerfile that runs `conda env update -n base -f FILE`"
        )
    return None


def _collect(path: Path, name: str, root: Path, files: dict[str, bytes]) -> None:
    """The file as `name`, and its included files by their paths below `root`."""
    content = path.read_bytes()
    if name in files and files[name] != content:
        raise _wrong(f"two files would both become {name} in the image", "rename one of them")
    if name in files:
        return
    files[name] = content
    for number, line in enumerate(_text(content).splitlines(), 1):
        if _LOCAL.match(line):
            shown = public_text(line.strip())
            raise _wrong(
                f"{path.name} contains {shown!r}, which is not in the image when pip runs",
                "remove it: image.source is /app in the image, where the script runs",
            )
        _reject_other_forms(line, path.name)
        _reject_other_rsctl(line)
        if shows_secret(line):
            found = visible_secret(f"{path.name}:{number}", "image.python")
            raise RsctlError(ExitCode.USAGE, found)
        for included in _includes(line):
            _collect_included(path, included, root, files)


def _collect_included(path: Path, included: str, root: Path, files: dict[str, bytes]) -> None:
    found = Path(os.path.normpath(path.parent / included))
    if not found.is_relative_to(root):
        message = f"{path.name} includes {included!r}, which is not in its own folder or below"
        raise _wrong(message, "move it there")
    name = posixpath.join(*found.relative_to(root).parts)
    _collect(found, name, root, files)


def _includes(line: str) -> Iterator[str]:
    """The file that a line includes; pip itself fetches one from the network."""
    match = _INCLUDE.match(line)
    path = next(filter(None, match.groups())) if match else "://"
    if "://" not in path:
        yield path


def _text(content: bytes) -> str:
    """A file's text as pip decodes it: PowerShell's `>` writes UTF-16."""
    for mark, encoding in _BYTE_ORDER_MARKS:
        if content.startswith(mark):
            return content[len(mark) :].decode(encoding, errors="replace")
    return content.decode(errors="replace")


def _requirement(text: str) -> str:
    """One line of a requirements file; pip would take a line break for the end of one."""
    if len(text.splitlines()) > 1 or text.endswith("\\"):
        message = f"expected one requirement on one line, got {public_text(text)!r}"
        raise _wrong(message, "list each one separately")
    if text.lstrip().startswith("-"):
        message = f"expected a requirement, got an option of pip: {public_text(text)!r}"
        raise _wrong(
            message, "put it in a requirements file, and set image.python to that file's name"
        )
    if _LOCAL.match(text):
        message = f"{public_text(text)!r} is a local path, which is not in the image when pip runs"
        raise _wrong(message, "remove it: image.source is /app in the image")
    _reject_other_forms(text, "the list")
    _reject_other_rsctl(text)
    return text.strip() + "\n"


def _reject_other_forms(line: str, name: str) -> None:
    """A line that conda has written, or `pip freeze` of packages that conda has installed."""
    shown = public_text(line.strip())
    if _BUILT_HERE.match(line):
        message = f"{name} contains {shown!r}, a file of the machine where the line was written"
        raise _wrong(message, "write the file with `python -m pip list --format=freeze`")
    if _OF_CONDA.match(line):
        message = f"{name} contains {shown!r}, the form of conda, which pip cannot read"
        raise _wrong(message, "write NAME==VERSION, as `python -m pip list --format=freeze` does")


def _reject_other_rsctl(line: str) -> None:
    """The package called rsctl on PyPI is another project's, and would replace rsctl's runtime."""
    if _OTHER_RSCTL.match(line):
        message = f"{public_text(line.strip())!r} is another project's package, not this rsctl"
        raise _wrong(message, "remove it: rsctl's runtime is in every image that rsctl builds")


def _reject_recorded(content: str, secrets: list[str]) -> None:
    """A secret in a link to a package: pip records the link beside the package, in the image, with
    all but its user and password. The clone of an editable package keeps these, too.
    """
    for line in content.replace("\\\n", "").splitlines():
        recorded = re.sub(r"://[^/?#\s]*@", "://", line)
        for name in secrets:
            if f"${{{name}}}" in line and _CLONED.match(line):
                message = f"pip would keep the value of {name} in the image, in the package's clone"
                raise _wrong(message, "write the line without -e")
            if f"${{{name}}}" in recorded and not re.match(r"\s*[-#]", line):
                message = f"pip would record the value of {name} in the image, with the link"
                raise _wrong(message, f"write https://${{{name}}}@HOST/PATH, or use an index")


def _wrong(message: str, remedy: str) -> RsctlError:
    return RsctlError(ExitCode.USAGE, error("requirement", message, remedy, "image.python"))
