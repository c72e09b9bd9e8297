"""Quantities with units, and the other scalars of the spec that are more than text.

Each is a subclass of the plain type it behaves as, so that `limits.timeout` can be compared with
seconds directly, and each can `parse` its written form. `expected` and `pattern` feed error
messages and the JSON Schema; `units` are the units of a quantity, the likeliest first.
`parse` raises ValueError with what was expected and, if that does not say it all, the reason.
"""

from __future__ import annotations

import os
import re
import warnings
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from typing_extensions import Self

_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "ms": 1e-3, "us": 1e-6}
_BYTES = {"GB": 10**9, "GiB": 2**30, "MB": 10**6, "MiB": 2**20}
_BYTES |= {"TB": 10**12, "TiB": 2**40, "KB": 10**3, "KiB": 2**10, "B": 1}
_BITS = {"Gbit": 10**9, "Mbit": 10**6, "kbit": 10**3, "Tbit": 10**12, "bit": 1}
_COUNTS = {"M": 10**6, "B": 10**9, "K": 10**3, "T": 10**12, "": 1}
_NUMBER = r"[0-9]{1,18}(\.[0-9]{1,9})?"
_LARGEST = 2**62
_YEAR = 366 * 86400
_LONGEST_REGEX = 2000
_BUCKET = "the name of a bucket has at least 3 characters of a-z, 0-9, '.', '_' and '-'"


class Duration(float):
    """Seconds, written `90s`, `1h30m` or `0.5ms`."""

    expected: ClassVar[str] = "a duration such as 90s, 1h30m or 0.5ms"
    pattern: ClassVar[str] = rf"^({_NUMBER}(d|h|ms|m|us|s))+$"
    units: ClassVar[tuple[str, ...]] = tuple(_SECONDS)

    @classmethod
    def parse(cls, text: str) -> Duration:
        """Raises ValueError if the text is not a valid duration."""
        if len(text) > 100 or not re.fullmatch(cls.pattern, text):
            raise ValueError(cls.expected)
        parts = re.findall(r"([0-9.]+)([a-z]+)", text)
        seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
        if seconds > _YEAR:
            raise ValueError("a duration of at most a year")
        return cls(seconds)

    def __str__(self) -> str:
        """The shortest usual writing: `1h30m`, `90s` as `1m30s`, `0.5ms`."""
        if 0 < self < 1:
            return f"{_decimal(self * 1e3)}ms"
        whole, rest = divmod(round(float(self), 6), 1)
        text = ""
        for unit in ("d", "h", "m"):
            count, whole = divmod(whole, _SECONDS[unit])
            text += f"{count:.0f}{unit}" if count else ""
        seconds = whole + rest
        return text + f"{_decimal(seconds)}s" if seconds or not text else text


class _Scaled(int):
    """A whole number of something, written with a unit; `scales` are the units."""

    expected: ClassVar[str]
    pattern: ClassVar[str]
    scales: ClassVar[dict[str, int]]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises ValueError if the text has a different form, or is zero or too large."""
        parts = re.match(r"([0-9]+)(?:\.([0-9]+))?([A-Za-z]*)", text)
        if not parts or not re.fullmatch(cls.pattern, text):
            raise ValueError(cls.expected)
        whole, decimals, unit = parts[1], parts[2] or "", parts[3]
        value = int(whole + decimals) * cls.scales[unit] // 10 ** len(decimals)
        if not 0 < value <= _LARGEST:
            raise ValueError(cls.expected, "it is too large" if value else "it is zero")
        return cls(value)


class Size(_Scaled):
    """Bytes, written `200GB` (10^9) or `2GiB` (2^30)."""

    expected: ClassVar[str] = "a size such as 200GB or 2GiB"
    pattern: ClassVar[str] = rf"^{_NUMBER}(B|[KMGT]i?B)$"
    scales: ClassVar[dict[str, int]] = _BYTES
    units: ClassVar[tuple[str, ...]] = tuple(_BYTES)


class Rate(_Scaled):
    """Bits per second, written `1Gbit` or `200Mbit`."""

    expected: ClassVar[str] = "a rate such as 1Gbit or 200Mbit"
    pattern: ClassVar[str] = rf"^{_NUMBER}[kMGT]?bit(/s)?$"
    scales: ClassVar[dict[str, int]] = _BITS
    units: ClassVar[tuple[str, ...]] = tuple(_BITS)


class Count(_Scaled):
    """A number of things, written `340M` or `1.5B`."""

    expected: ClassVar[str] = "a count such as 340M or 1.5B"
    pattern: ClassVar[str] = rf"^{_NUMBER}[KMBT]?$"
    scales: ClassVar[dict[str, int]] = _COUNTS
    units: ClassVar[tuple[str, ...]] = tuple(_COUNTS)


class FormedText(str):
    """Text of one form."""

    expected: ClassVar[str]
    pattern: ClassVar[str]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises ValueError if the text has a different form."""
        if not re.fullmatch(cls.pattern, text):
            raise ValueError(cls.expected)
        return cls(text)


_NEURON_CORES = {"trainium": 2, "trainium2": 4}
"""The NeuronCores of a chip of AWS's, as its runtime shows them to processes: 8 physical cores of
Trainium2 are 4 logical ones. Source: AWS Neuron's documentation; with 16 chips they are the 64 of
aws/sagemaker-training-toolkit, environment.py, `num_neurons`."""


class Accelerator(FormedText):
    """GPUs of one node, written `a100-40gb:8`; without a count it is one."""

    expected: ClassVar[str] = "an accelerator and its count on each node, such as a100-40gb:8"
    pattern: ClassVar[str] = r"^[a-z][a-z0-9-]{0,39}(:[1-9][0-9]?)?$"

    @property
    def type(self) -> str:
        """The name in the catalogue, such as `a100-40gb`."""
        return self.partition(":")[0]

    @property
    def per_node(self) -> int:
        """How many on each node."""
        return int(self.partition(":")[2] or 1)

    @property
    def is_neuron(self) -> bool:
        """Whether these are AWS's own, which PyTorch uses by Neuron and neither CUDA nor NCCL."""
        return self.type in _NEURON_CORES

    @property
    def ranks_per_node(self) -> int:
        """How many ranks a node runs by default: one for each accelerator or NeuronCore."""
        return self.per_node * _NEURON_CORES.get(self.type, 1)


class Regex(str):
    """A Python regular expression with at least one group.

    The metric's value is the group named `value`, otherwise the first; a group named `step` is the
    step.
    """

    expected: ClassVar[str] = "a regular expression with a group, such as 'loss=([0-9.]+)'"
    pattern: ClassVar[str] = r"\("

    @classmethod
    def parse(cls, text: str) -> Regex:
        """Raises ValueError if the text does not compile, has no group, or is very long."""
        if len(text) > _LONGEST_REGEX:
            raise ValueError(f"a regular expression of at most {_LONGEST_REGEX} characters")
        regex = cls(text)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                compiled = re.compile(regex)  # `re` keeps it for callers that compile it again
        except (re.error, RecursionError, OverflowError) as problem:
            raise ValueError("a regular expression", str(problem)) from None
        if not compiled.groups:
            raise ValueError(cls.expected, "it has no group in ( ) for the number")
        if compiled.groups == 1 and "step" in compiled.groupindex:
            raise ValueError(cls.expected, "its only group is the step; add one for the number")
        return regex


class Warmup(str):
    """The part of a run's start that is ignored: `auto`, `20 steps` or `30s`."""

    expected: ClassVar[str] = "auto, a number of steps such as 20 steps, or a duration such as 30s"
    pattern: ClassVar[str] = rf"^(auto|[0-9]{{1,9}} steps?|({_NUMBER}(d|h|ms|m|us|s))+)$"

    @classmethod
    def parse(cls, text: str) -> Warmup:
        """Raises ValueError if the text has a different form."""
        if len(text) > 100 or not re.fullmatch(cls.pattern, text):
            raise ValueError(cls.expected)
        warmup = cls(text)
        if text != "auto" and warmup.steps is None:
            Duration.parse(text)
        return warmup

    @property
    def steps(self) -> int | None:
        """The number of steps, if it is written so."""
        number, _, unit = self.partition(" ")
        return int(number) if unit else None

    @property
    def seconds(self) -> float | None:
        """The duration, if it is written so."""
        return None if self == "auto" or self.steps is not None else float(Duration.parse(self))


class Money(float):
    """US dollars, written `50 USD` or `0.5USD`."""

    expected: ClassVar[str] = "an amount of US dollars such as 50 USD"
    pattern: ClassVar[str] = rf"^{_NUMBER} ?USD$"

    @classmethod
    def parse(cls, text: str) -> Money:
        """Raises ValueError if the text is not a valid amount, or is zero."""
        if not re.fullmatch(cls.pattern, text):
            raise ValueError(cls.expected)
        amount = float(text.removesuffix("USD"))
        if not amount:
            raise ValueError(cls.expected, "it is zero")
        return cls(amount)

    def __str__(self) -> str:
        """`50 USD`."""
        return f"{_decimal(self)} USD"


class Regression(str):
    """How much worse a metric may become: `5%` of the baseline, or an amount in its unit."""

    expected: ClassVar[str] = "a percentage of the baseline such as 5%, or an amount such as 0.2"
    pattern: ClassVar[str] = rf"^{_NUMBER}([eE][+-]?[0-9]{{1,2}})? ?%?$"

    @classmethod
    def parse(cls, text: str) -> Regression:
        """Raises ValueError if the text is neither, or 100 % or more."""
        if not re.fullmatch(cls.pattern, text):
            raise ValueError(cls.expected)
        regression = cls(text.replace(" ", ""))
        if regression.is_relative and regression.amount >= 1:
            raise ValueError(cls.expected, "a percentage below 100 %")
        return regression

    @property
    def is_relative(self) -> bool:
        """Whether it is a part of the baseline."""
        return self.endswith("%")

    @property
    def amount(self) -> float:
        """The part, of 1, or the amount in the metric's unit."""
        return float(self[:-1]) / 100 if self.is_relative else float(self)


class Bound(FormedText):
    """A bound of a metric: a number, or a part of the metric's own median so far."""

    expected: ClassVar[str] = "a number such as 0.5, or a part such as 80% of its median"
    pattern: ClassVar[str] = (
        r"^([-+]?[0-9]{1,18}(\.[0-9]{1,18})?([eE][-+]?[0-9]{1,3})?"
        r"|[0-9]{1,9}(\.[0-9]{1,9})? ?% of its median)$"
    )

    @property
    def part(self) -> float | None:
        """The part of the median, of 1; None for a number."""
        number, found, _ = self.partition("%")
        return float(number) / 100 if found else None

    def value(self, median: float) -> float:
        """The bound, where the metric's median so far is this.

        For a negative median it is on the same side and as far: 80 % of -10 is -12.
        """
        if self.part is None:
            return float(self)
        return (self.part if median >= 0 else 2 - self.part) * median + 0.0  # never -0


class Location(str):
    """Where data is: `gs://bucket/path`, `s3://bucket/path`, or a local path made absolute."""

    expected: ClassVar[str] = "gs://BUCKET/PATH, s3://BUCKET/PATH or a local path"
    pattern: ClassVar[str] = r"^(?!.*://).+$|^(gs|s3)://[a-z0-9]([a-z0-9._-]|\{region\})+(/.*)?$"

    @classmethod
    def parse(cls, text: str, base: str | os.PathLike[str]) -> Location:
        """A local path is relative to `base`, the folder of the job file. Raises ValueError."""
        if not re.fullmatch(cls.pattern, text):
            is_cloud = text.startswith(("gs://", "s3://"))
            raise ValueError(cls.expected, _BUCKET) if is_cloud else ValueError(cls.expected)
        return cls(text if "://" in text else _absolute(text, base))

    @property
    def scheme(self) -> str:
        """`gs`, `s3`, or `file` for a local path."""
        scheme, separator, _ = self.partition("://")
        return scheme if separator else "file"


class LocalPath(str):
    """A file or folder on this machine, relative to the job file, made absolute."""

    expected: ClassVar[str] = "a path relative to this file"
    pattern: ClassVar[str] = r"^(?!.*://).+$"

    @classmethod
    def parse(cls, text: str, base: str | os.PathLike[str]) -> LocalPath:
        """Raises ValueError for an empty path or a URL."""
        if not re.fullmatch(cls.pattern, text):
            raise ValueError(cls.expected)
        return cls(_absolute(text, base))


class RelativePath(FormedText):
    """A file inside the source folder; it stays as written."""

    expected: ClassVar[str] = "a path inside image.source, such as train.py"
    pattern: ClassVar[str] = r"^(?!(.*/)?\.\.(/|$))[^/-].*$"


class EnvValue(str):
    """An environment value. `secret` if it came out of the environment: it is never saved."""

    expected: ClassVar[str] = "text"
    secret: bool = False


URL_REMEDY = 'set an environment variable to the URL, and write url: "${NAME}" with its name'
"""The remedy for a URL in a job file that belongs in the environment."""


class EnvReference(FormedText):
    """A variable of the environment, as `${NAME}`. rsctl keeps the name; it never reads the value
    into the job.
    """

    expected: ClassVar[str] = "an environment variable, as ${NAME}"
    pattern: ClassVar[str] = r"^\$\{[A-Za-z_][A-Za-z0-9_]*\}$"

    @property
    def variable(self) -> str:
        """The name of the variable."""
        return self[2:-1]


def _absolute(path: str, base: str | os.PathLike[str]) -> str:
    home = os.path.expanduser("~")
    path = home + path[1:] if path == "~" or path.startswith("~/") else path
    return os.path.abspath(os.path.join(base, path))


def _decimal(value: float) -> str:
    return f"{value:.9f}".rstrip("0").rstrip(".")
