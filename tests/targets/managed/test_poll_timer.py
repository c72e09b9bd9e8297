"""When a job's state is asked for next."""

from __future__ import annotations

from rsctl.targets.managed.poll_timer import PollTimer


def test_a_job_without_news_is_asked_less_and_less_often() -> None:
    """At once, then after pauses that grow by 30 % up to the longest; after news soon."""
    now = [100.0]
    timer = PollTimer(0.5, first=10.0, longest=20.0, clock=lambda: now[0])

    def pause() -> float:
        """The time from a poll to the next one, in steps of 1/64 s."""
        start = now[0]
        assert not timer.is_due()
        while not timer.is_due():
            now[0] += 1 / 64
        return round(now[0] - start, 1)

    assert timer.is_due()
    pauses = []
    for is_news in (False, False, False, False, True, False):
        timer.restart(is_news)
        pauses.append(pause())
    assert pauses == [6.5, 8.5, 10.0, 10.0, 5.0, 6.5]
    timer.restart()
    timer.expire()
    assert timer.is_due()
    timer.restart()
    assert pause() == 6.5
