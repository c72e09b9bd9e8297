"""Messages of `rsctl gate` about histories: recorded samples, and outdated baselines."""

from __future__ import annotations

import shlex

from rsctl.api import Gate, GateRecorder, GateRules, PreparedGate, Results
from rsctl.cli.gate_run import BenchRunner
from rsctl.cli.show import print_important, print_message
from rsctl.runs.stream.sanitize import sanitize_text


def print_renewal(gate: Gate, prepared: PreparedGate) -> None:
    """Say why the baseline is not the right one, and how to have a new one."""
    said = [f"baseline is outdated: {better}; " for better in gate.outdated]
    if gate.refused:
        said.append("baseline does not apply: run the gate under its conditions, or ")
    for text in said:
        print_important(sanitize_text(text + prepared.renewal(gate)))


def record_results(recorder: GateRecorder, results: Results) -> None:
    """Append the samples to the history, if there is one, and say so."""
    if recorder.location is None:
        return
    added = recorder.append(results)
    if added is None:
        print_message(f"no run has data: nothing is recorded in {recorder.location}")
        return
    from rsctl.cli.views.history import recorded_line

    print_message(recorded_line(added))


def record_only(recorder: GateRecorder, rules: GateRules, run: BenchRunner) -> Results:
    """Measure where there is nothing to compare with yet."""
    name = recorder.candidate.name
    if rules.history:
        print_message(f"{rules.history} has no records of {name} at other commits yet")
    else:
        where = shlex.quote(str(recorder.location))
        print_message(f"{name} is recorded only: to compare it, add --history {where}")
    results = recorder.candidate.measure(rules.repeat, run)
    for reason in (reason for cell in results.cells for reason in cell.lost[:3]):
        print_message(sanitize_text(reason))
    return results
