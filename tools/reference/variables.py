"""The page of environment variables; their names are collected from the source by its syntax."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import yaml

DESCRIPTIONS = Path(__file__).parent / "environment.yaml"

_OURS = re.compile(r"\bRSCTL_[A-Z0-9_]*[A-Z0-9](?![A-Z0-9_])")
_OTHERS = re.compile(
    r"(?:AIP|AWS|CLOUD_ML|CLOUDSDK|CUDA|DOCKER|FI|GIT|GITHUB|GLOO|GOOGLE|LD|NCCL|OMP|PYTHON|SM"
    r"|SAGEMAKER|STORAGE_EMULATOR|TORCH|TORCHELASTIC|XDG)_[A-Z0-9_]*[A-Z0-9]"
    r"|PYTHON[A-Z]+|CLUSTER_SPEC|TF_CONFIG|(?:LOCAL_|GROUP_|NODE_)?RANK|NNODES|(?:LOCAL_)?WORLD_SIZE"
    r"|MASTER_(?:ADDR|PORT)|CI|GITLAB_CI|TF_BUILD|TEAMCITY_VERSION|BUILDKITE|JENKINS_URL|CXX|COLUMNS|NO_COLOR|NO_PROXY|no_proxy"
)
"""A text that is such a name and nothing else is taken for a variable."""

_PREFIX = re.compile(r"(?:RSCTL|CLOUDSDK|AWS|SM|NCCL|AIP)_[A-Z0-9_]*_")
"""How a text that is put together begins, if it becomes a variable."""

_NOT_VARIABLES = frozenset({"GIT_CONFIG", "GOOGLE_LOGIN", "AWS_LOGIN"})


def page(root: Path) -> str:
    """The page, by what stands in `environment.yaml`. Raises LookupError if it is incomplete."""
    groups: dict[str, dict[str, str]] = yaml.safe_load(DESCRIPTIONS.read_text())
    described = [name for group in groups.values() for name in group]
    found = collect([*sorted((root / "rsctl").rglob("*.py")), root / "hatch_build.py"])
    lacking = [name for name in sorted(found) if not _is_described(name, described)]
    stale = [one for one in described if not any(fnmatchcase(name, one) for name in found)]
    if lacking or stale:
        raise LookupError(f"{DESCRIPTIONS}: lacks {lacking}, has {stale} for nothing")
    lines = [
        "# Environment variables\n",
        "rsctl, its images and its nodes read or set these variables. `*` stands for more letters.",
        "The job file sets the variables of the job itself in `run.env`.",
    ]
    for title, group in groups.items():
        lines += [f"\n## {title}\n", "| variable | set by | meaning |", "|---|---|---|"]
        for name, text in group.items():
            who, _, about = text.partition(" | ")
            lines.append(f"| `{name}` | {who} | {about} |")
    return "\n".join(lines) + "\n"


def collect(files: Iterable[Path]) -> set[str]:
    """The names of all variables in some source files; `X_*` where a name is put together."""
    found: set[str] = set()
    for path in files:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.update(_OURS.findall(node.value))
                if _OTHERS.fullmatch(node.value):
                    found.add(node.value)
            elif isinstance(node, ast.JoinedStr):
                found.update(f"{start}*" for start in _starts(node) if _PREFIX.fullmatch(start))
    return found - _NOT_VARIABLES


def _starts(text: ast.JoinedStr) -> Iterator[str]:
    """The beginning of an f-string, if it is constant."""
    if text.values and isinstance(text.values[0], ast.Constant):
        yield str(text.values[0].value)


def _is_described(name: str, described: list[str]) -> bool:
    return any(fnmatchcase(name, one) for one in described)
