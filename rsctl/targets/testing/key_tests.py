"""Rule one as tests: nothing that a job file says is silently dropped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Optional, Union, get_args, get_origin

import msgspec

from rsctl.findings import Finding, RsctlError
from rsctl.plan import make_plan
from rsctl.target_info import OPTIONAL_KEYS, target_info
from rsctl.targets.base import Submission, Target
from rsctl.targets.testing.spec_keys import (
    BUILT,
    FILES,
    SAMPLES,
    Sample,
    Values,
    filled,
    merged,
    with_value,
)
from rsctl.targets.testing.suite import COUNT, Suite

_RUN = "suite-aaaaaa"


class Planned:
    """The result of planning a job: a submission, or the findings that prevent one."""

    def __init__(self, plan: Any) -> None:
        self.submission: Optional[Submission] = None
        try:
            made: Submission = plan()
        except RsctlError as problem:
            self.findings = list(problem.findings)
        else:
            self.submission, self.findings = made, made.plan.findings

    @property
    def content(self) -> tuple[Any, ...]:
        """All by which the target can honour a key."""
        if self.submission is None:
            return ()
        made, plan = self.submission, self.submission.plan
        sent = (plan.request, plan.env, plan.image, plan.pools, plan.world_size, plan.inputs)
        return (*sent, plan.cost, made.recipe, made.package, made.secrets)

    def names(self, key: str, known: list[Finding]) -> bool:
        """Whether a finding that is not known yet is about a key."""
        paths = [f.path or "" for f in self.findings if f not in known]
        above = [name for name in OPTIONAL_KEYS if key.startswith(f"{name}.")]
        return any(
            path in (key, *above) or path.startswith((f"{key}.", f"{key}[")) for path in paths
        )


class KeyTests(Suite):
    """Every key changes the plan, or a finding names it."""

    repository: ClassVar[Optional[str]] = None
    """Where an image that rsctl builds is pushed; None where it need not be."""
    other_machine: ClassVar[str] = "large"
    """A machine type of the target that is not the smallest one."""
    accelerator: ClassVar[str] = "t4:1"
    """An accelerator of the target's machines."""
    option_samples: ClassVar[dict[str, Any]] = {}
    """For options of the target: values other than the default, by the option's name."""
    options_elsewhere: ClassVar[dict[str, str]] = {}
    """Options that do not matter to the jobs of the suite, with where they do."""

    def test_no_key_is_ignored(self, tmp_path: Path, target: Target) -> None:
        """Each is honoured, refused with an error or left unused with a note."""
        values = self._values(tmp_path)
        samples = [_filled(sample, values) for sample in SAMPLES]
        assert self._ignored(tmp_path, target, samples) == []

    def test_no_option_is_ignored(self, tmp_path: Path, target: Target) -> None:
        """The same holds for the target's own options."""
        kind = target_info(self.target_name).options_type()
        samples = {**_option_samples(kind), **self.option_samples}
        block = f"targets.{self.target_name}"
        given = [
            Sample(f"{block}.{name}", value)
            for name, value in samples.items()
            if name not in self.options_elsewhere
        ]
        assert self._ignored(tmp_path, target, given) == []

    def _ignored(self, folder: Path, target: Target, samples: list[Sample]) -> list[str]:
        """The samples of which neither the plan nor a finding says anything, in words."""
        plans: dict[str, Planned] = {}
        found = ((each, self._problem(folder, target, each, plans)) for each in samples)
        return [f"{each.key}: {each.value}: {problem}" for each, problem in found if problem]

    def _problem(
        self, folder: Path, target: Target, sample: Sample, plans: dict[str, Planned]
    ) -> str | None:
        """Find what is wrong with a sample; `plans` keeps the plans without it by their keys."""
        keys = self._keys(sample.common)
        if repr(keys) not in plans:
            plans[repr(keys)] = Planned(lambda: self._plan(folder, target, keys))
        before = plans[repr(keys)]
        if before.submission is None:
            refused = [f for f in before.findings if f.is_error and _is_of(f, sample.common)]
            problems = [f"{f.path}: {f.message}" for f in before.findings if f.is_error]
            return None if refused else f"the job cannot be planned without it: {problems}"
        changed = with_value(keys, sample.key.split("."), sample.value)
        after = Planned(lambda: self._plan(folder, target, changed))
        known = [f for f in before.findings if f.path != sample.key]  # common may have it, too
        if after.names(sample.key, known):
            return None
        if after.submission is None:
            problems = [f"{f.path}: {f.message}" for f in after.findings if f.is_error]
            block = f"targets.{self.target_name}."
            is_of_options = all(each.startswith(block) for each in (sample.key, *problems))
            return None if is_of_options else f"no finding names it, but {problems}"
        is_ignored = after.content == before.content
        return "neither the plan nor a finding changes" if is_ignored else None

    def _plan(self, folder: Path, target: Target, keys: Mapping[str, Any]) -> Submission:
        return make_plan(self.job(folder, COUNT, **keys), target, _RUN)

    def _keys(self, common: Mapping[str, Any]) -> dict[str, Any]:
        """The keys of a job, of which rsctl builds the image if the sample asks for that."""
        keys = merged(self.job_keys, {name: common[name] for name in common if name != BUILT})
        if common.get(BUILT):
            image = {"base": "python:3.12-slim", "repository": self.repository}
            own = common.get("image", {})
            keys["image"] = {**image, **own}
        return keys

    def _values(self, folder: Path) -> Values:
        for name, text in FILES.items():
            for place in (folder, folder / "source"):
                (place / name).parent.mkdir(parents=True, exist_ok=True)
                (place / name).write_text(text)
        scheme = min(target_info(self.target_name).schemes)
        bucket = str(folder) if scheme == "file" else f"{scheme}://bucket"
        image = (self.job_keys.get("image") or {}).get("uri") or "python:3.12"
        return Values(
            folder=str(folder),
            image=image,
            other_image=f"{image}-other",
            other_repository=f"{self.repository or 'example.com/suite'}-other",
            other_machine=self.other_machine,
            accelerator=self.accelerator,
            location=f"{bucket}/package",
            other_location=f"{bucket}/source2",
        )


def _is_of(finding: Finding, common: Mapping[str, Any]) -> bool:
    """Whether a finding is about a key that a sample takes for granted."""
    path = finding.path or ""
    is_of_image = bool(common.get(BUILT)) and path in ("image.base", "image.source")
    return is_of_image or any(
        path == key or path.startswith((f"{key}.", f"{key}[")) or key.startswith(f"{path}.")
        for key in _leaves(common)
    )


def _leaves(keys: Mapping[str, Any], above: str = "") -> Iterator[str]:
    for name, value in keys.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{above}{name}.")
        else:
            yield f"{above}{name}"


def _filled(sample: Sample, values: Values) -> Sample:
    return sample._replace(value=filled(sample.value, values), common=filled(sample.common, values))


def _option_samples(options: type[msgspec.Struct]) -> dict[str, Any]:
    """A value other than the default for each option whose type lists its values."""
    samples = {}
    for field in msgspec.structs.fields(options):
        value = _other_value(field.type, field.default)
        if value is not None:
            samples[field.encode_name] = value
    return samples


def _other_value(annotation: Any, default: Any) -> Any:
    """A value of a type that is not this one; None if the type does not say enough."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        metas = [meta for meta in arguments[1:] if isinstance(meta, msgspec.Meta)]
        if any(meta.pattern for meta in metas):
            return None
        low = next((meta.ge for meta in metas if meta.ge is not None), None)
        high = next((meta.le for meta in metas if meta.le is not None), None)
        bounds = [value for value in (high, low) if value is not None and value != default]
        return bounds[0] if bounds else _other_value(arguments[0], default)
    if origin is Union:
        found = (_other_value(each, default) for each in arguments if each is not type(None))
        return next((value for value in found if value is not None), None)
    if origin is Literal:
        return next((value for value in arguments if value != default), None)
    if annotation is bool:
        return not default
    return {int: 3, float: 3.0, str: "suite"}.get(annotation)
