"""`rsctl completion SHELL`: a completion script to load in the shell's start-up file."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from rsctl.cli import options
from rsctl.cli.app import COMPLETION_VARIABLE, app
from rsctl.findings import ExitCode

_HELP = """Print a shell completion script.

\b
bash:  eval "$(rsctl completion bash)"          in ~/.bashrc
zsh:   eval "$(rsctl completion zsh)"           in ~/.zshrc
fish:  rsctl completion fish | source           in ~/.config/fish/config.fish
"""


@click.command("completion", help=_HELP)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@options.talk_options
def command(shell: str) -> int:
    """Exit with 0."""
    completion = get_completion_class(shell)
    if completion is not None:
        click.echo(completion(app, {}, "rsctl", COMPLETION_VARIABLE).source())
    return int(ExitCode.SUCCEEDED)
