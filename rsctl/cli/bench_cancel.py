"""`rsctl bench cancel BENCH`: end all its runs and see that they end."""

from __future__ import annotations

from rsctl import api
from rsctl.cli import options
from rsctl.cli.bench_common import how_to_go_on
from rsctl.cli.command import make_command
from rsctl.cli.show import print_json, print_message
from rsctl.findings import ExitCode

_WAIT_SECONDS = 60.0


@make_command("cancel")
@options.errors_as_json
def command(bench: options.Bench, output: options.Output = "text") -> int:
    """End all runs of a bench, and start none any more.

    Exit code: 0 if all of it has ended, 6 if runs go on after a minute.
    """
    known = api.bench(bench)
    if known.state.is_final:
        print_message(f"{known.id} has ended already: {known.state.value}")
    else:
        known.cancel(_WAIT_SECONDS)
        print_message(f"{known.id} {known.state.value}; go on with it: {how_to_go_on(known)}")
    if output == "json":
        print_json(known.to_dict())
    return int(ExitCode.SUCCEEDED)
