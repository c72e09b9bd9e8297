"""How many submissions a minute, over all processes."""

from __future__ import annotations

from pathlib import Path

from rsctl.bench.rate import SubmissionRate, submission_rate


class Clock:
    """A clock that stands still until it is set."""

    now = 1000.0

    def __call__(self) -> float:
        """The time in seconds."""
        return self.now


def test_never_more_than_the_limit_within_a_minute(tmp_path: Path) -> None:
    """Whoever submits; one counts until a minute after its answer."""
    clock = Clock()
    path = tmp_path / "rates" / "r.json"
    one, other = (SubmissionRate(path, 3, 1.0, clock) for _ in range(2))
    assert [one.take("a"), other.take("b"), one.take("c"), other.take("d")] == [True] * 3 + [False]
    clock.now += 5
    other.sent("b")
    clock.now += 56
    assert [one.take("d"), other.take("e"), other.take("f")] == [True, True, False]
    clock.now += 5
    assert one.take("f")


def test_a_submission_that_is_sent_again_counts_again(tmp_path: Path) -> None:
    """As after a refusal because no machines were available."""
    clock = Clock()
    rate = SubmissionRate(tmp_path / "r.json", 3, 1.0, clock)
    for name, is_allowed in (("a", True), ("a", True), ("a", True), ("b", False), ("a", False)):
        assert rate.take(name) is is_allowed
        clock.now += 10
    clock.now += 15
    assert [rate.take(name) for name in ("b", "a")] == [True, False]


def test_a_damaged_file_and_a_clock_set_back_stop_nobody(tmp_path: Path) -> None:
    """What is of the future does not count."""
    clock = Clock()
    path = tmp_path / "r.json"
    path.write_text("{")
    rate = SubmissionRate(path, 1, 1.0, clock)
    assert rate.take("a")
    clock.now -= 500
    assert rate.take("b")


def test_targets_without_a_quota_have_no_rate(tmp_path: Path) -> None:
    """This machine takes what it is given; a cloud's account has one rate each."""
    assert submission_rate(tmp_path, "process", "") is None
    rate = submission_rate(tmp_path, "vertex", "https://x/v1/projects/p/locations/r/customJobs")
    assert rate is not None
    assert rate.take("a")
    assert len(list((tmp_path / "rates").iterdir())) == 1
