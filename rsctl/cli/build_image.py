"""`rsctl build-image JOB`: build, verify and push the training image of a job."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
import typer

from rsctl.api import ImageChange, ImageResult, PreparedImage, load, prepare_image
from rsctl.cli import options
from rsctl.cli.command import make_command
from rsctl.cli.interrupts import Interrupts
from rsctl.cli.show import print_json, print_message, show_findings
from rsctl.cli.views.build import make_build_view
from rsctl.cli.views.build_text import format_seconds
from rsctl.findings import first_of
from rsctl.runs.stream.formatting import format_bytes

_SHOWN = 5


@make_command("build-image")
def command(
    context: typer.Context,
    job: options.Job,
    target: options.Target = None,
    settings: options.Settings = [],
    push: Annotated[
        bool, typer.Option("--push", help="Also push the image to image.repository.")
    ] = False,
    print_only: Annotated[
        bool, typer.Option("--print", help="Print the Dockerfile; build nothing.")
    ] = False,
    builder: Annotated[
        Literal["auto", "buildx", "buildkit", "classic", "podman", "cloud"],
        typer.Option(
            "--builder",
            help="The builder to use. cloud: Cloud Build on vertex, CodeBuild on sagemaker; it "
            "always pushes.",
        ),
    ] = "auto",
    output: options.Output = "text",
) -> None:
    """Build a job's image, and optionally push it.

    Exit code: 0 if the image exists, whether built now or before.
    """
    context.with_resource(Interrupts().listening())
    file = load(job, set=settings, strict=False)
    image = prepare_image(file, target, push=push, builder=builder)
    if print_only:
        _print_recipe(image, output)
    else:
        show_findings(image.findings, file)
        _build(image, output)


def _print_recipe(image: PreparedImage, output: str) -> None:
    if output == "text":
        typer.echo(image.dockerfile, nl=False)
        return
    recipe = image.recipe
    shown = {"tag": image.tag, "transport": recipe.transport, "platform": recipe.platform}
    print_json({**shown, "dockerfile": image.dockerfile, "findings": image.findings})


def _build(image: PreparedImage, output: str) -> None:
    view = make_build_view()
    try:
        result = image.build(view.show)
    finally:
        view.finish()
    if output == "json":
        print_json({**msgspec.to_builtins(result), "findings": image.findings})
    else:
        print_message(_in_words(result))
        typer.echo(result.reference)


def _in_words(result: ImageResult) -> str:
    """Show the actions taken and the resulting image."""
    did = ["built"] if result.built else []
    did += ["pushed"] if result.pushed else []
    done = " and ".join(did) + f" in {format_seconds(result.seconds)}" if did else "unchanged"
    facts = [done, f"transport {result.transport}"]
    if result.size is not None:
        layers = sum(1 for layer in result.layers if layer.size)
        facts.insert(1, f"{format_bytes(result.size)} in {layers} layers")
    return "; ".join([", ".join(facts), *_format_changes(result.changes)])


def _format_changes(changes: list[ImageChange] | None) -> list[str]:
    if not changes:
        return []
    shown = first_of([f"{change.path} {change.change}" for change in changes], _SHOWN)
    return [f"since the last build: {shown}"]
