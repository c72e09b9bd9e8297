"""`rsctl build-image JOB`: the training container of a job, built, proven and pushed."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
import typer

from rsctl.cli import options
from rsctl.cli.build_view import format_seconds, make_build_view
from rsctl.cli.command import make_command
from rsctl.cli.show import print_json, print_message, show_findings
from rsctl.findings import ExitCode, error
from rsctl.image.ensure import ImageResult, ensure_image, ensure_image_remotely
from rsctl.image.findings import image_findings, recipe_of
from rsctl.image.last_build import Change
from rsctl.image.recipe import Recipe
from rsctl.spec.document import Document, read
from rsctl.stream.formatting import format_bytes

_SHOWN = 5


@make_command("build-image")
@options.errors_as_json
def command(
    job: options.Job,
    target: options.Target = None,
    settings: options.Settings = [],
    push: Annotated[bool, typer.Option("--push", help="Push it to image.repository too.")] = False,
    print_only: Annotated[
        bool, typer.Option("--print", help="Print the Dockerfile; build nothing.")
    ] = False,
    builder: Annotated[
        Literal["auto", "buildx", "buildkit", "classic", "podman", "cloud"],
        typer.Option(
            "--builder",
            help="What builds. cloud: Cloud Build on vertex, CodeBuild on sagemaker; it always "
            "pushes.",
        ),
    ] = "auto",
    output: options.Output = "text",
) -> int:
    """Build a job's image, and push it if asked.

    Exit code: 0 if the image is there, built now or before.
    """
    document = read(job, settings)
    chosen = target or (document.job.target if document.job else "process")
    recipe = _recipe(document, chosen, push or builder == "cloud")
    if print_only:
        _print_recipe(recipe, document, output)
    else:
        _build(recipe, document, chosen, builder, push, output)
    return int(ExitCode.SUCCEEDED)


def _recipe(document: Document, target: str, push: bool) -> Recipe:
    """The recipe of an image that can be built, and pushed if it is to be; shows the findings."""
    if document.job is not None:
        document.add(image_findings(document.job, target))
        if document.job.image.uri:
            message = "image.uri is used as it is; there is nothing to build"
            document.add([error("image", message, "give image.base to build on", "image.uri")])
    recipe, findings = recipe_of(document.require_job(), target)
    document.add(findings)
    if push and not recipe.repository:
        message = f"no repository to push the image of target {target} to"
        remedy = f"set image.repository, or image.repository.{target}: HOST/PATH"
        document.add([error("repository", message, remedy, "image.repository")])
    document.require_job()
    return recipe


def _print_recipe(recipe: Recipe, document: Document, output: str) -> None:
    text = recipe.dockerfile(cache_mounts=True)
    if output == "text":
        typer.echo(text, nl=False)
        return
    shown = {"tag": recipe.reference, "transport": recipe.transport, "platform": recipe.platform}
    print_json({**shown, "dockerfile": text, "findings": document.findings})


def _build(
    recipe: Recipe, document: Document, target: str, builder: str, push: bool, output: str
) -> None:
    job = document.require_job()
    show_findings(document.findings, document)
    view = make_build_view()
    try:
        if builder == "cloud":
            result = ensure_image_remotely(recipe, job, target, view.show)
        else:
            result = ensure_image(recipe, job, view.show, builder, push)
    finally:
        view.finish()
    if output == "json":
        print_json({**msgspec.to_builtins(result), "findings": document.findings})
    else:
        print_message(_in_words(result))
        typer.echo(result.reference)


def _in_words(result: ImageResult) -> str:
    """What was done, and the image that there is now."""
    did = ["built"] if result.built else []
    did += ["pushed"] if result.pushed else []
    done = " and ".join(did) + f" in {format_seconds(result.seconds)}" if did else "unchanged"
    facts = [done, f"transport {result.transport}"]
    if result.size is not None:
        layers = sum(1 for layer in result.layers if layer.size)
        facts.insert(1, f"{format_bytes(result.size)} in {layers} layers")
    return "; ".join([", ".join(facts), *_format_changes(result.changes)])


def _format_changes(changes: list[Change] | None) -> list[str]:
    if not changes:
        return []
    shown = ", ".join(f"{change.path} {change.change}" for change in changes[:_SHOWN])
    more = f" and {len(changes) - _SHOWN} more" if changes[_SHOWN:] else ""
    return [f"since the last build: {shown}{more}"]
