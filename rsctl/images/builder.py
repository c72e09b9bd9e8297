"""Builds an image with docker or podman."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO

from rsctl.atomic_file import temporary_file
from rsctl.findings import ExitCode, Finding, RsctlError, error, note
from rsctl.images.build_errors import FailureDetails, explain_failure, of_dockerfile
from rsctl.images.build_secrets import BuildSecrets
from rsctl.images.builder_detection import detect_builder, require_local_images
from rsctl.images.commands import run_streamed
from rsctl.images.dockerfile_base import DOCKERFILE, DockerfileBase
from rsctl.images.engine import BaseImage, EngineImage, find_base, find_image
from rsctl.images.events import BuildEvent, BuildOutput, BuildStep, Show, check_build
from rsctl.images.labels import LABEL
from rsctl.images.progress import (
    CLASSIC,
    PODMAN,
    BuildKitProgress,
    BuildOutputReader,
    StepwiseProgress,
)
from rsctl.images.recipe import Recipe


@dataclass(frozen=True)
class Builder:
    """A build command: its arguments, its environment, and the format of its output.

    `command` is followed by arguments that all builders share. With `cache_mounts` it also mounts
    secrets. If rsctl is killed, it gets `ended_by`.
    """

    name: str
    command: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    cache_mounts: bool
    progress: Callable[[], BuildOutputReader]
    ended_by: signal.Signals = signal.SIGTERM

    @property
    def program(self) -> str:
        """docker or podman."""
        return self.command[0]

    def argv(self, recipe: Recipe, user: str = "") -> list[str]:
        """The command that builds a recipe, whose context it reads from standard input, on a base
        that runs as `user`; empty if the base names none.
        """
        argv = list(self.command)
        if recipe.platform:
            argv += ["--platform", recipe.platform]
        if user:
            argv += ["--build-arg", f"BASE_USER={user}"]
        for name, value in sorted(recipe.labels.items()):
            argv += ["--label", f"{name}={value}"]
        argv += BuildSecrets(recipe.secrets).options
        return [*argv, "--tag", recipe.reference, "-"]

    def image(self, reference: str) -> EngineImage | None:
        """The image of this name in the builder's engine, or None. Raises RsctlError."""
        return find_image(self.program, reference)

    def base_user(self, recipe: Recipe, show: Show | None = None) -> str:
        """The user that the base runs as, empty if it names none; pulls the base if it is missing.

        Raises RsctlError if the base is not available, for the recipe's platform if it has one.
        """
        base = find_base(self.program, recipe.base, recipe.platform)
        is_pulled = recipe.dockerfile_base is None
        if is_pulled and (base is None or not base.is_for(recipe.platform)):
            self._pull(recipe, show or _ignore_event)
            base = find_base(self.program, recipe.base, recipe.platform)
        if base is None or not base.is_for(recipe.platform):
            raise _wrong_base(recipe, base)
        return base.user

    def build(self, recipe: Recipe, show: Show) -> None:
        """Build the recipe's image and name it; `show` gets the progress.

        Raises RsctlError, with the known cause if there is one, when the build fails.
        """
        secrets = BuildSecrets(recipe.secrets)
        secrets.require(can_mount=self.cache_mounts)
        if recipe.dockerfile_base:
            self._build_base(recipe, recipe.dockerfile_base, show)
        user = self.base_user(recipe, show)
        failure = self._run(
            self.argv(recipe, user),
            lambda out: recipe.write_context(out, self.cache_mounts),
            show,
            secrets,
        )
        if failure:
            problem = failure.to_error(recipe, self.program)
            if problem.findings[0].code == "base":
                require_local_images(self.name, recipe.base, "image.base")
            raise problem

    def _build_base(self, recipe: Recipe, base: DockerfileBase, show: Show) -> None:
        """Build the user's Dockerfile, unless the engine has its image."""
        if find_base(self.program, base.reference):
            return
        image = "the image built from image.dockerfile"
        require_local_images(self.name, image, "image.dockerfile")
        argv = [*self.command, "--file", DOCKERFILE]
        argv += ["--platform", recipe.platform] if recipe.platform else []
        # The label marks it as rsctl's image, so that `prune` finds it.
        argv += ["--label", f"{LABEL}={recipe.labels.get(LABEL, '')}"]
        secrets = BuildSecrets(recipe.secrets)
        argv += [*secrets.options, "--tag", base.reference, "-"]
        failure = self._run(argv, base.write_context, show, secrets)
        if failure:
            raise of_dockerfile(failure.to_error(recipe, self.program), base)

    def _run(
        self,
        argv: list[str],
        write: Callable[[IO[bytes]], None],
        show: Show,
        secrets: BuildSecrets,
    ) -> FailureDetails | None:
        """Run a build whose context `write` writes; returns details of its failure if it fails."""
        failure, progress = FailureDetails(), self.progress()

        def on_line(line: str | None) -> None:
            check_build(show)
            for event in progress.read(line and secrets.hide(line)):
                _report(event, failure, show)

        with temporary_file(write, "context", "copy the build's files to") as context:
            env = {**os.environ, **dict(self.env)}
            code = run_streamed(argv, on_line, env, context, self.ended_by)
        for event in progress.end(failed=code != 0):
            _report(event, failure, show)
        if code:
            return failure
        for finding in failure.errors:
            show(finding)
        return None

    def _pull(self, recipe: Recipe, show: Show) -> None:
        """Make the engine pull the base, for the recipe's platform."""
        argv = [self.program, "pull"]
        argv += ["--platform", recipe.platform] if recipe.platform else []
        step = BuildStep(0, 0, f"pull {recipe.base}")
        lines: list[str] = []

        def on_line(line: str | None) -> None:
            check_build(show)
            if line:
                lines[:] = [*lines[-20:], line]
                show(BuildOutput(line))

        show(_pulls(recipe, self.program))
        show(step)
        code = run_streamed([*argv, recipe.base], on_line)
        show(BuildStep(0, 0, step.instruction, seconds=0.0, failed=code != 0))
        if code:
            raise _pull_failed(recipe, self.program, step.instruction, lines)


BUILDERS = (
    Builder(
        "buildx",
        ("docker", "buildx", "build", "--load", "--progress", "plain"),
        # An attestation makes an index of the image, which SageMaker does not take.
        (("BUILDX_NO_DEFAULT_ATTESTATIONS", "1"),),
        cache_mounts=True,
        progress=BuildKitProgress,
    ),
    Builder(
        "buildkit",
        ("docker", "build", "--progress", "plain"),
        (("DOCKER_BUILDKIT", "1"), ("DOCKER_SCAN_SUGGEST", "false")),
        cache_mounts=True,
        progress=BuildKitProgress,
        ended_by=signal.SIGKILL,  # docker 20.10 waits for the build's end after SIGTERM
    ),
    Builder(
        "classic",
        ("docker", "build", "--force-rm"),
        (("DOCKER_BUILDKIT", "0"), ("DOCKER_SCAN_SUGGEST", "false")),
        cache_mounts=False,
        progress=lambda: StepwiseProgress(CLASSIC),
    ),
    Builder(
        "podman",
        ("podman", "build", "--force-rm", "--format", "docker"),
        (),
        cache_mounts=True,
        progress=lambda: StepwiseProgress(PODMAN),
    ),
)
"""In the order in which they are preferred."""


def select_builder(wanted: str = "auto") -> Builder:
    """The builder of a name, or with `auto` the first that works here.

    In their order these are buildx, BuildKit inside an older docker, docker's classic builder, and
    podman where no Docker engine answers. With `auto`, DOCKER_BUILDKIT in the environment is
    honoured. Raises RsctlError, which names the missing program, if there is no builder.
    """
    name = detect_builder(wanted)
    return next(builder for builder in BUILDERS if builder.name == name)


def _ignore_event(_event: BuildEvent) -> None:
    """Shows nothing."""


def _report(event: BuildEvent, failure: FailureDetails, show: Show) -> None:
    """Show an event; errors are shown once, at the end."""
    failure.add(event)
    if not (isinstance(event, Finding) and event.is_error):
        show(event)


def _wrong_base(recipe: Recipe, base: BaseImage | None) -> RsctlError:
    if recipe.dockerfile_base:
        built = f"builds an image for {base.platform}" if base else "did not build an image"
        message = f"{recipe.dockerfile_base.path} {built}, but {recipe.platform} is needed"
        remedy = (
            "change its last FROM to an image for that platform, and remove --platform from the "
            "Dockerfile"
        )
        finding = error("platform", message, remedy, "image.dockerfile")
        return RsctlError(ExitCode.USAGE, finding)
    has = (
        f"is for {base.platform}, not for {recipe.platform}"
        if base
        else ("was pulled but no longer exists")
    )
    remedy = (
        f"use a base image for {recipe.platform}; if docker has {recipe.base} for several "
        f"platforms, upgrade Docker to 28.1 or newer, or run `docker image rm {recipe.base}`"
        if base
        else "try again"
    )
    finding = error("platform", f"{recipe.base} {has}", remedy, "image.base")
    return RsctlError(ExitCode.USAGE, finding)


def _pulls(recipe: Recipe, program: str) -> Finding:
    """The notice before a long download."""
    message = f"{program} is pulling the base image {recipe.base}, which is not on this machine"
    message += "; images with PyTorch and CUDA take several GB"
    remedy = "to use another base image: --set image.base=IMAGE"
    return note("pull", message, remedy, "image.base")


def _pull_failed(recipe: Recipe, program: str, instruction: str, lines: list[str]) -> RsctlError:
    known = explain_failure(lines, instruction, recipe.base)
    message = f"{program} cannot pull {recipe.base}: {lines[-1] if lines else 'it printed nothing'}"
    if known is None:
        remedy = "check its name, and that this machine has read permission"
        return RsctlError(ExitCode.ENVIRONMENT, error("base", message, remedy, "image.base"))
    finding = known.findings[0]
    remedy = f"{finding.message}; {finding.remedy}"
    return RsctlError(known.exit_code, error(finding.code, message, remedy, "image.base"))
