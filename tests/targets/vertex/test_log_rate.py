"""When a log's entries are asked for: soon while lines come, and within the project's quota."""

from __future__ import annotations

from rsctl.targets.vertex.log_rate import LogRateLimiter


class Reader:
    """A reader that asks as soon as it may, by a clock of its own."""

    def __init__(self, factor: float = 1.0) -> None:
        self.now = 1000.0
        self.limiter = LogRateLimiter(factor, self.now)

    def ask(self, has_news: bool = False, has_more: bool = False) -> float:
        """The seconds until the next request may be made, in steps of 1/64 s; it is answered."""
        waited = self.wait()
        self.limiter.spend(self.now)
        self.limiter.answered(self.now, has_news, has_more)
        return waited

    def wait(self) -> float:
        start = self.now
        while not self.limiter.is_due(self.now):
            self.now += 1 / 64
        return round(self.now - start, 1)

    def refused(self) -> float:
        self.limiter.refused(self.now)
        return self.wait()


def test_a_silent_log_is_asked_less_and_less_often() -> None:
    """Every 8 seconds at most, after ten minutes every 20; a line brings the short pause back."""
    reader = Reader()
    assert [reader.ask() for _ in range(8)] == [0.0, 2.0, 2.8, 3.9, 5.5, 7.7, 8.0, 8.0]
    reader.now += 600
    reader.ask()
    assert [reader.ask() for _ in range(5)] == [8.0, 11.2, 15.7, 20.0, 20.0]
    reader.ask(has_news=True)
    assert [reader.ask() for _ in range(2)] == [2.0, 2.0]


def test_pages_follow_at_once_up_to_the_rate_of_one_log() -> None:
    """Ten without a pause, then one in two seconds: half of the project's quota."""
    reader = Reader()
    assert [reader.ask(has_more=True) for _ in range(10)] == [0.0] * 10
    assert [reader.ask(has_more=True) for _ in range(3)] == [2.0] * 3


def test_refusals_halve_the_rate_and_answers_restore_it() -> None:
    """Down to four requests a minute; each answer adds one again."""
    reader = Reader()
    for _ in range(10):
        reader.ask(has_more=True)
    for longest in (5.0, 10.0, 20.0, 40.0, 60.0, 60.0):
        assert longest / 2 <= reader.refused() <= longest + 15.0
    reader.now += 600
    pauses = [reader.ask(has_more=True) for _ in range(30)]
    slowest = pauses.index(max(pauses))
    assert pauses[slowest] == 10.9
    assert pauses[slowest:] == sorted(pauses[slowest:], reverse=True)
    assert pauses[-3:] == [2.0] * 3


def test_the_end_of_a_job_shortens_the_pause_unless_the_cloud_refuses() -> None:
    reader = Reader()
    reader.ask()
    reader.limiter.not_before(reader.now + 30)
    reader.limiter.not_after(reader.now + 1)
    assert reader.wait() == 1.0
    reader.limiter.refused(reader.now)
    reader.limiter.not_after(reader.now)
    assert reader.wait() >= 2.5


def test_times_are_scaled() -> None:
    reader = Reader(0.5)
    reader.ask()
    assert reader.ask() == 1.0
