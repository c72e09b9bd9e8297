"""The command to type in place of an unknown command, by its meaning or its letters."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches

_MEANINGS = {
    "submit": "run start launch train execute exec-job sbatch create-job apply up go",
    "rerun": "again repeat retry resubmit replay restart",
    "submit --resume": "resume continue",
    "list": "ls ps jobs runs squeue queue history-of-runs",
    "watch": "attach follow wait",
    "logs -f": "tail",
    "logs": "log output",
    "status": "show describe info inspect state stat",
    "get": "download pull fetch cp copy artifacts results",
    "shell": "ssh connect bash sh",
    "plan": "dryrun dry-run render preview diff-plan",
    "validate": "check lint verify",
    "init": "new create template",
    "build-image": "build image push",
    "catalog": "machines prices price cost costs gpus instances",
    "ui": "dashboard web board top",
    "metrics": "stats plot",
    "advise": "estimate recommend",
    "compare": "cmp versus vs",
    "open": "browse console",
    "doctor": "diagnose health login auth whoami credentials",
    "--version": "version ver",
    "--help": "help man usage",
}
_BY_WORD = {word: ours for ours, words in _MEANINGS.items() for word in words.split()}
_DESTRUCTIVE = frozenset({"cancel", "forget", "prune"})
"""Commands that rsctl does not suggest after a typing error."""

_ENDING = frozenset(
    (
        *("stop", "kill", "abort", "terminate", "end", "down", "scancel"),
        *("delete", "del", "rm", "remove", "clean", "cleanup", "purge", "destroy", "drop"),
    )
)
_ALIKE = 0.7  # of 1: `delete` and `emulate` are 0.62


def suggest_command(word: str, names: Collection[str]) -> str:
    """A sentence that helps with an unknown command; empty if nothing is like it.

    It names no command that ends or removes something.
    """
    plain = word.lower().replace("_", "-")
    if plain in _ENDING:
        return "The commands that end or remove something are in the list of --help."
    meant = _BY_WORD.get(plain, "")
    if meant and (meant.startswith("-") or meant.split()[0] in names):
        return f"Did you mean {meant!r}?"
    harmless = [name for name in names if name not in _DESTRUCTIVE]
    close = get_close_matches(plain, harmless, n=1, cutoff=_ALIKE)
    return f"Did you mean {close[0]!r}?" if close else ""
