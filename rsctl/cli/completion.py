"""`rsctl completion SHELL`: a completion script to load in the shell's start-up file."""

from __future__ import annotations

from typing import Annotated, Literal

import typer
from typer.completion import shell_complete

from rsctl.cli.app import COMPLETION_VARIABLE, PROGRAM, make_program
from rsctl.cli.command import make_command

# As typer's scripts, which add a space to `--set KEY=` and complete nothing in `--target=`.
_BASH = r"""
_rsctl_completion() {
    local IFS=$'\n'
    local words="${COMP_WORDS[*]:0:COMP_CWORD+1}"
    words="${words//$'\n='$'\n'/=}"  # bash splits words at =
    words="${words/%$'\n='/=}"
    local breaks="${words//[!$'\n']}"
    COMPREPLY=( $( env COMP_WORDS="$words" COMP_CWORD=${#breaks} \
                   _RSCTL_COMPLETE=complete_bash $1 ) )
    [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace
    return 0
}
complete -o default -F _rsctl_completion rsctl
"""
_ZSH = r"""
#compdef rsctl
_rsctl_completion() {
    if [[ $words[CURRENT] == --*=* || $words[CURRENT-1] == --set ]]; then
        local -a found
        found=(${(f)"$(env COMP_WORDS="${(F)words[1,CURRENT]}" COMP_CWORD=$((CURRENT-1)) \
            _RSCTL_COMPLETE=complete_bash rsctl)"})
        compset -P '--[a-z-]##='
        local end=' '
        [[ $found[1] == *= ]] && end=''
        compadd -S "$end" -- $found && return
    fi
    eval $(env _TYPER_COMPLETE_ARGS="${words[1,$CURRENT]}" _RSCTL_COMPLETE=complete_zsh rsctl)
}
compdef _rsctl_completion rsctl
"""


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
    if shell != "fish":
        typer.echo(_BASH if shell == "bash" else _ZSH)
        return 0
    program = make_program(is_completing=True)
    return shell_complete(program, {}, PROGRAM, COMPLETION_VARIABLE, "source_fish")
