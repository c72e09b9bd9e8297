"""The type of the job spec for profiles of ranks."""

import re
from typing import Annotated, ClassVar, Literal, Optional

import msgspec
from msgspec import Meta, field

_LATEST = 10**9


class StepRange(str):
    """The first and the last step of a range, written `10..20`; both are in it."""

    expected: ClassVar[str] = "the first and the last step, such as 10..20"
    pattern: ClassVar[str] = r"^[0-9]{1,10}\.\.[0-9]{1,10}$"

    @classmethod
    def parse(cls, text: str) -> "StepRange":
        """Raises ValueError if the text is not a range of steps after the first step."""
        if not re.fullmatch(cls.pattern, text):
            raise ValueError(cls.expected)
        first, last = map(int, text.split(".."))
        if first < 2:
            raise ValueError(cls.expected, "step 1 includes the set-up; begin with step 2 or later")
        if not first <= last <= _LATEST:
            raise ValueError(cls.expected, f"the last step is from {first} to {_LATEST}")
        return cls(f"{first}..{last}")


DEFAULT_STEPS = StepRange("10..20")
"""The steps that the profiler of torch records by default: its files grow with each step."""


class ProfileBlock(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where ranks of the job spend their time, by a profiler. The script need not change."""

    tool: Annotated[
        Literal["torch", "py-spy", "nsys"],
        Meta(
            description="torch: PyTorch's profiler, for operations. py-spy: samples of Python "
            "functions, for any Python script. nsys: NVIDIA Nsight Systems, for kernels and CUDA "
            "calls. The image must have py-spy or nsys."
        ),
    ]
    ranks: Annotated[
        Annotated[list[Annotated[int, Meta(ge=0, lt=1 << 16)]], Meta(min_length=1)],
        Meta(description="The ranks that are profiled."),
    ] = field(default_factory=lambda: [0])
    steps: Annotated[
        Optional[StepRange],
        Meta(
            description="The first and the last step of the profile, such as 10..20, counted from "
            "1 by the steps of the script's first torch.optim optimizer. Default: 10..20 with "
            "torch, the whole run with py-spy and nsys."
        ),
    ] = None

    @property
    def range(self) -> Optional[StepRange]:
        """The steps of the profile; None for the whole run."""
        is_torch = self.tool == "torch"
        return self.steps or (DEFAULT_STEPS if is_torch else None)
