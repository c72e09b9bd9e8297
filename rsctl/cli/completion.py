"""`rsctl completion SHELL`: a completion script to load in the shell's start-up file."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

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
    [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null  # not in bash 3
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
_FISH = r"""
function _rsctl_completion
    env _RSCTL_COMPLETE=complete_fish _TYPER_COMPLETE_FISH_ACTION=$argv[1] \
        _TYPER_COMPLETE_ARGS=(commandline -cp) rsctl
end
function _rsctl_arguments
    set -l option (string match -r -- '^--[a-z-]+=' (commandline -ct))
    _rsctl_completion get-args | string replace -r -- '^' "$option"
end
complete --command rsctl --no-files --arguments "(_rsctl_arguments)" \
    --condition "_rsctl_completion is-args"
"""


@make_command("completion")
def command(
    shell: Annotated[
        Literal["bash", "zsh", "fish"], typer.Argument(metavar="SHELL", help="bash, zsh or fish.")
    ],
) -> None:
    """Print a shell completion script.

    \b
    bash:  eval "$(rsctl completion bash)"          in ~/.bashrc
    zsh:   eval "$(rsctl completion zsh)"           in ~/.zshrc
    fish:  rsctl completion fish | source           in ~/.config/fish/config.fish
    """
    typer.echo({"bash": _BASH, "zsh": _ZSH, "fish": _FISH}[shell].strip())
