"""How long rsctl asks a cloud again that does not tell the state of a job."""

from __future__ import annotations

import pytest

from rsctl.targets.managed import contact
from rsctl.targets.managed.contact import Contact


def given_up(made: Contact) -> tuple[bool, bool]:
    """Whether rsctl gives up on a cloud that refuses, and on one that is silent."""
    return made.is_refused_for_long, made.is_silent_for_long


@pytest.mark.parametrize("scale", [1.0, 0.1])
def test_both_the_time_and_the_number_of_failures_count(
    monkeypatch: pytest.MonkeyPatch, scale: float
) -> None:
    now = 1000.0
    monkeypatch.setattr(contact, "monotonic", lambda: now)
    made = Contact(scale)
    found = []
    for second, failures in ((0, 2), (30, 0), (30, 1), (599, 20), (600, 0)):
        now = 1000.0 + second * scale
        for _ in range(failures):
            made.failed()
        found.append(given_up(made))
    late = (True, False)
    assert found == [(False, False), (False, False), late, late, (True, True)]
    assert made.has_failed
    made.restored()
    assert (given_up(made), made.has_failed) == ((False, False), False)
    for _ in range(20):
        made.failed()
    assert given_up(made) == (False, False)
