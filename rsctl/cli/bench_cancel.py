"""`rsctl bench cancel BENCH`: end all its runs and see that they end."""

from __future__ import annotations

from rsctl.api import Store
from rsctl.bench.cancel import cancel_bench
from rsctl.bench.records import Benches
from rsctl.cli import options
from rsctl.cli.bench_common import how_to_go_on, shown
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
    store = Store()
    known = Benches(store).find(bench)
    if known.state.is_final:
        print_message(f"{known.bench} has ended already: {known.state.value}")
    else:
        known = cancel_bench(store, known, _WAIT_SECONDS)
        print_message(f"{known.bench} {known.state.value}; go on with it: {how_to_go_on(known)}")
    if output == "json":
        print_json(shown(known))
    return int(ExitCode.SUCCEEDED)
