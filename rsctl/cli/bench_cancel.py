"""`rsctl bench cancel BENCH`: cancel all its runs and wait until they end."""

from __future__ import annotations

from rsctl import api
from rsctl.cli import options
from rsctl.cli.command import make_command
from rsctl.cli.show import print_json, print_message

_WAIT_SECONDS = 60.0


@make_command("cancel")
def command(bench: options.BenchArgument, output: options.Output = "text") -> None:
    """Cancel all runs of a bench, and start no more of them.

    Exit code: 0 if all runs have ended, 6 if some are still running after a minute.
    """
    handle = api.bench(bench)
    if handle.state.is_final:
        print_message(f"{handle.id} has already ended: {handle.state.value}")
    else:
        handle.cancel(_WAIT_SECONDS)
        print_message(
            f"{handle.id} {handle.state.value}; to continue it: {handle.record.command()}"
        )
    if output == "json":
        print_json(handle.to_dict())
