"""CodeBuild's buildspec, version 0.2, as far as commands, phases and exported variables go."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.kit.builders.commands import BuildCommands

_PHASES = ("install", "pre_build", "build", "post_build")


class Buildspec(NamedTuple):
    """Commands by phase, and the variables whose values are shown at the end."""

    phases: dict[str, list[str]]
    exported: list[str]

    @classmethod
    def of(cls, text: str) -> Buildspec:
        """Read a buildspec. Raises ValueError."""
        try:
            content: Any = yaml.safe_load(text)
        except yaml.YAMLError as problem:
            raise ValueError(f"YAML_FILE_ERROR: {problem}") from None
        if not isinstance(content, dict) or content.get("version") != 0.2:
            raise ValueError("YAML_FILE_ERROR: wrong or missing version")
        try:
            phases = {name: phase["commands"] for name, phase in content["phases"].items()}
            return cls(phases, content.get("env", {}).get("exported-variables", []))
        except (KeyError, TypeError, AttributeError):
            raise ValueError("YAML_FILE_ERROR: phases need commands") from None


def run_phases(
    spec: Buildspec, commands: BuildCommands, folder: Path, variables: dict[str, str]
) -> tuple[list[tuple[str, str | None]], list[dict[str, str]]]:
    """Run the phases up to the first that fails: each with what it failed of, and the exports.

    All commands share one shell, as in CodeBuild.
    """
    state = folder.with_name(folder.name + "-state")
    state.mkdir()
    code = commands.run(["bash", "-c", _script(spec, state)], variables)
    begun = (state / "phases").read_text().split() if (state / "phases").exists() else []
    message = f"Error while executing command. Reason: exit status {code}"
    results: list[tuple[str, str | None]] = [(name.upper(), None) for name in begun]
    if code and results:
        results[-1] = (results[-1][0], message)
    exported = [
        {"name": name, "value": (state / f"export-{name}").read_text()}
        for name in spec.exported
        if (state / f"export-{name}").exists()
    ]
    return results, exported


def _script(spec: Buildspec, state: Path) -> str:
    """One script: each command is a file that is sourced, and ends the script if it fails."""
    lines = []
    for phase in _PHASES:
        if phase not in spec.phases:
            continue
        lines.append(f"echo {phase} >> '{state}/phases'")
        for number, command in enumerate(spec.phases[phase]):
            file = state / f"{phase}-{number}"
            file.write_text(command, encoding="utf-8")
            lines.append(f". '{file}' || exit $?")
    lines += [f"printf %s \"${name}\" > '{state}/export-{name}'" for name in spec.exported]
    return "\n".join(lines)
