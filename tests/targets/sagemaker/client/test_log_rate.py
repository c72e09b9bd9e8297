"""When a log's next page is asked for: soon while lines come, and within the API's quota."""

from __future__ import annotations

from rsctl.targets.sagemaker.log_rate import PageTimer


class Clock:
    """A time that the test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def until_due(self, timer: PageTimer) -> float:
        """Move to the next request, in steps of 1/64 s; the seconds until then."""
        start = self.now
        while not timer.is_due():
            self.now += 1 / 64
        return round(self.now - start, 1)


def passes(clock: Clock, timer: PageTimer, count: int, pages: int = 1) -> list[float]:
    """The pauses after so many passes without a line."""
    found = []
    for _ in range(count):
        timer.pass_ended(pages, has_lines=False)
        found.append(clock.until_due(timer))
    return found


def test_a_silent_log_is_asked_less_and_less_often() -> None:
    """Before the first line every 5 seconds at most, and then every 10; after a line soon."""
    timer = PageTimer(1.0, clock := Clock())
    assert clock.until_due(timer) == 0.0
    assert passes(clock, timer, 6) == [1.5, 2.2, 3.4, 5.0, 5.0, 5.0]
    timer.pass_ended(1, has_lines=True)
    assert clock.until_due(timer) == 1.0
    assert passes(clock, timer, 7) == [1.5, 2.2, 3.4, 5.1, 7.6, 10.0, 10.0]


def test_many_pages_are_followed_by_a_pause_as_long() -> None:
    timer = PageTimer(1.0, clock := Clock())
    timer.page_follows()
    assert clock.until_due(timer) == 0.5
    assert passes(clock, timer, 1, pages=8) == [4.0]
    assert passes(clock, timer, 1, pages=99) == [10.0]


def test_the_log_of_a_job_that_has_ended_is_read_soon_and_often() -> None:
    timer = PageTimer(1.0, clock := Clock())
    timer.pass_ended(1, has_lines=True)
    passes(clock, timer, 9)
    timer.pass_ended(1, has_lines=False)
    timer.finish()
    assert clock.until_due(timer) == 0.5
    assert passes(clock, timer, 4) == [1.5, 2.0, 2.0, 2.0]


def test_a_refused_request_is_repeated_later_and_later() -> None:
    """The pauses are as long at the end of the job."""
    timer = PageTimer(1.0, clock := Clock())
    for most in (2.0, 4.0, 8.0, 16.0, 30.0, 30.0):
        timer.back_off()
        timer.finish()
        assert most / 2 <= clock.until_due(timer) <= most
    timer.page_follows()
    clock.until_due(timer)
    timer.back_off()
    assert clock.until_due(timer) <= 2.0


def test_a_pass_goes_far_back_once_a_minute() -> None:
    timer = PageTimer(1.0, clock := Clock())
    assert [timer.is_deep_pass_due(), timer.is_deep_pass_due()] == [True, False]
    clock.now += 59.9
    assert not timer.is_deep_pass_due()
    clock.now += 0.1
    assert timer.is_deep_pass_due()
