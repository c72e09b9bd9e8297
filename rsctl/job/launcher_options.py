"""Reads the options of another launcher's command line, and remembers which were understood.

What is not taken is named in a remark, so that no option is dropped in silence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from rsctl.findings import ExitCode, RsctlError, error


class Launched(NamedTuple):
    """The program that a launcher starts: `words` are a script, a module or a command with its
    arguments.

    `processes` are ranks on each node, 0 if the command line does not set their number; a value of
    `env` is None if it comes from the environment; `keys` are other keys of the job file by their
    paths; `remarks` are lines for its head.
    """

    kind: str
    words: list[str]
    nodes: int = 1
    processes: int = 0
    env: Mapping[str, str | None] = {}
    keys: Mapping[str, Any] = {}
    remarks: tuple[str, ...] = ()
    launcher: str = ""
    """Empty for a program that starts by itself."""

    def within(
        self,
        env: Mapping[str, str | None] | None = None,
        keys: Mapping[str, Any] | None = None,
        remarks: Iterable[str] = (),
    ) -> Launched:
        """The same, started by a program that adds these; what is nearer to the script wins."""
        return self._replace(
            env={**(env or {}), **self.env},
            keys={**(keys or {}), **self.keys},
            remarks=(*remarks, *self.remarks),
        )


RENDEZVOUS = (
    *("rdzv_backend", "rdzv_endpoint", "rdzv_id", "rdzv_conf", "rdzv_port", "standalone"),
    *("node_rank", "master_addr", "master_port", "local_addr", "base_rank", "use_env"),
    *("machine_rank", "main_process_ip", "main_process_port", "main_address", "main_port"),
    "jobid",
)
"""Where ranks run and meet is rsctl's to decide."""


class _Given(NamedTuple):
    name: str
    written: str
    values: list[str]


class Options:
    """The options before the program in a command line; `words` is what follows them.

    `spec` has the number of values of each option, by its name with `_` and without dashes. Raises
    RsctlError for an unknown option.
    """

    def __init__(
        self,
        launcher: str,
        arguments: list[str],
        spec: Mapping[str, int],
        short: Mapping[str, str] = {},
    ) -> None:
        self.launcher = launcher
        self.words = list(arguments)
        self._given: list[_Given] = []
        self._used: set[str] = set()
        while self.words and self.words[0].startswith("-") and len(self.words[0]) > 1:
            written = self.words.pop(0)
            if written == "--":
                break
            self._given += self._read(written, spec, short)

    def _read(
        self, written: str, spec: Mapping[str, int], short: Mapping[str, str]
    ) -> list[_Given]:
        shown, separator, value = written.partition("=")
        name = shown.lstrip("-").replace("-", "_")
        name = short.get(name, name)
        values = [value] if separator else []
        flags: list[_Given] = []
        if name not in spec and not written.startswith("--"):
            letters = written[1:]
            while letters and spec.get(letter := short.get(letters[0], letters[0])) == 0:
                flags.append(_Given(letter, f"-{letters[0]}", []))  # of `-vn4`
                letters = letters[1:]
            if not letters:
                return flags
            letter = short.get(letters[0], letters[0])
            if letter in spec and len(written) > 2:
                name, written, separator = letter, f"-{letters}", letters[1:]  # `-n4`
                values = [separator] if separator else []
        elif name not in spec:
            begun = {short.get(n, n) for n in (*spec, *short) if n.startswith(name)}
            name = begun.pop() if len(begun) == 1 else name  # argparse and getopt_long do so
        if name not in spec:
            message = f"{self.launcher}: rsctl does not know its option {shown}"
            remedy = "omit the option here; set what it does in the script, run.env or the job file"
            raise command_error(message, remedy)
        while len(values) < spec[name]:
            if not self.words or _is_option(self.words[0], spec, short):  # an unset variable
                raise command_error(
                    f"{self.launcher}: {written} requires a value", "complete the command"
                )
            values.append(self.words.pop(0))
            if spec[name] == 2 and "=" in values[0]:
                values = values[0].split("=", 1)  # as Hydra reads `-genv A=1`
        if values[:1] == [""] and name not in RENDEZVOUS:
            message = f"{self.launcher}: {shown} has an empty value"
            raise command_error(message, "check the variable that it comes from")
        given = _Given(name, " ".join([written, *(values if not separator else [])]), values)
        return [*flags, given]

    def all(self, name: str) -> list[list[str]]:
        """The values of each use of an option."""
        self._used.add(name)
        return [given.values for given in self._given if given.name == name]

    def text(self, *names: str) -> str:
        """The last value of one of these options; empty if none is given."""
        found = [values[0] for name in names for values in self.all(name) if values]
        return found[-1] if found else ""

    def has(self, name: str) -> bool:
        """Whether an option is given."""
        return bool(self.all(name))

    def number(self, *names: str) -> int:
        """A number of things; 0 if it is not given or negative, as deepspeed's -1."""
        text = self.text(*names) or "0"
        try:
            return max(0, int(text))
        except ValueError:
            message = f"{self.launcher}: --{names[0]} {text!r} is not a number"
            raise command_error(message, "correct the command") from None

    def remarks(self, ours: Iterable[str] = ()) -> list[str]:
        """Lines that name the options that were not taken; `ours` are those that rsctl replaces."""
        known = set(ours)
        rest = [given for given in self._given if given.name not in self._used]
        own = [given.written for given in rest if given.name in known]
        other = [given.written for given in rest if given.name not in known]
        reasons = ((own, "rsctl does this itself"), (other, "no key for it"))
        return [f"{self.launcher}: omitted {', '.join(g)}: {why}" for g, why in reasons if g]

    def rest(self, without: Iterable[str]) -> list[tuple[str, list[str]]]:
        """The options that were not taken, which now are, except for some."""
        taken = {*self._used, *without}
        rest = [(given.name, given.values) for given in self._given if given.name not in taken]
        self._used.update(name for name, _ in rest)
        return rest

    def program(self) -> list[str]:
        """The program that the launcher starts. Raises RsctlError if it is nothing."""
        if not self.words:
            raise command_error(
                f"{self.launcher} does not start a script",
                "give the script or module after the options",
            )
        return self.words

    def program_kind(self) -> str:
        """The kind of the program, by the launcher's options `module` and `no_python`."""
        if self.has("no_python"):
            return "command"
        return "module" if self.has("module") else "script"


def _is_option(word: str, spec: Mapping[str, int], short: Mapping[str, str]) -> bool:
    name = word.partition("=")[0].lstrip("-").replace("-", "_")
    return len(name) > 1 and word.startswith("-") and (name in spec or name in short)


def spec(none: str = "", one: str = "", two: str = "") -> dict[str, int]:
    """The number of values of options, from their names."""
    return {name: n for n, names in enumerate((none, one, two)) for name in names.split()}


def option_values(name: str, words: Sequence[str]) -> list[str]:
    """The values of an option among a script's arguments, as `NAME VALUE` or `NAME=VALUE`; empty
    for one at the end.
    """
    pairs = zip(words, [*words, ""][1:], strict=True)
    found = [(*word.partition("="), after) for word, after in pairs]
    return [value if separator else after for key, separator, value, after in found if key == name]


def per_node(launcher: str, ranks: int, nodes: int) -> int:
    """Ranks on each node. Raises RsctlError if they are not the same on all."""
    if ranks % nodes:
        message = f"{launcher}: {ranks} processes are not divisible by {nodes} nodes"
        raise command_error(message, "use a multiple of the number of nodes")
    return ranks // nodes


def unsupported(launcher: str, what: str, remedy: str) -> NoReturn:
    """Raises RsctlError for what a job file cannot say."""
    raise command_error(f"{launcher}: {what}", remedy)


def command_error(message: str, remedy: str) -> RsctlError:
    """The error for a command line that cannot become a job file."""
    return RsctlError(ExitCode.USAGE, error("command", message, remedy))
