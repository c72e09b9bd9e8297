"""`rsctl completion SHELL`: a completion script to load in the shell's start-up file."""

from __future__ import annotations

from typing import Annotated, Literal

import typer
from typer.completion import shell_complete

from rsctl.cli.app import COMPLETION_VARIABLE, PROGRAM, make_program
from rsctl.cli.command import make_command


@make_command("completion")
def command(
    shell: Annotated[
        Literal["bash", "zsh", "fish"], typer.Argument(metavar="SHELL", help="bash, zsh or fish.")
    ],
) -> int:
    """Print a shell completion script.

    \b
    bash:  eval "$(rsctl completion bash)"          in ~/.bashrc
    zsh:   eval "$(rsctl completion zsh)"           in ~/.zshrc
    fish:  rsctl completion fish | source           in ~/.config/fish/config.fish
    """
    program = make_program(is_completing=True)
    return shell_complete(program, {}, PROGRAM, COMPLETION_VARIABLE, f"source_{shell}")
