"""What the chief of the checks concludes from the rounds that its time allowed."""

from __future__ import annotations

import time

from rsctl.node.health.chief import Members, lead
from rsctl.node.health.measurer import Measurer
from rsctl.node.health.rules import NodeProblem
from rsctl.node.health.settings import Checks


class Readings(Measurer):
    """A measurer that gives these readings in turn, with so much time left."""

    def __init__(self, *rounds: float, seconds: float = 60) -> None:
        self.until = time.monotonic() + seconds
        self._rounds = list(rounds)

    def measure(self) -> dict[str, float]:
        rate = self._rounds.pop(0)
        return {"gpus": 2.0, "cuda0.matmul_tflops": rate, "cuda1.matmul_tflops": 100.0}

    def judged(self) -> list[NodeProblem]:
        _, found = lead(Members(), Checks(gpu=True), self, lambda *_: 0.0, "host", ("", 0))
        assert not self._rounds, "fewer rounds than expected"
        return found


SLOW = (
    "worker-0 on host: GPU 0 multiplies matrices at 10 TFLOP/s, and the median of the other GPUs "
    "is 100"
)


def test_what_is_slow_in_three_rounds_is_an_error() -> None:
    [found] = Readings(10, 10, 10).judged()
    assert (found.code, found.is_error, found.message) == ("node-unhealthy", True, SLOW)


def test_what_is_slow_in_two_of_three_rounds_is_healthy() -> None:
    assert Readings(10, 10, 100).judged() == []
    assert Readings(100).judged() == []


def test_what_is_slow_in_all_rounds_that_the_time_allowed_is_a_warning() -> None:
    [found] = Readings(10, seconds=1).judged()
    assert (found.code, found.is_error) == ("node-check", False)
    assert found.message == f"{SLOW}; the check ended before it was sure, after 20 s"
    assert found.remedy.startswith("Submit the job again to get other machines")
