"""Causes of failed jobs whose container did not start: pyxis and enroot, apptainer, NVIDIA's hook.

Sources: texts of tests/fixtures/real; messages in the code of pyxis.
"""

from __future__ import annotations

from rsctl.runs.stream.service_causes import cause

CONTAINER_CAUSES = (
    cause(
        "gpu-container",
        r"Command not found: nvidia-container-cli|Auto-detected mode as .legacy."
        r"[\s\S]{0,200}?nvidia-container-cli",
        "the node cannot give a container its GPUs: nvidia-container-cli is missing or failed",
        "exclude the node, and ask its administrators to install the nvidia-container-toolkit; "
        "without GPUs, set NVIDIA_VISIBLE_DEVICES=void in run.env",
    ),
    cause(
        "container-command",
        r"enroot-switchroot: failed to execute: ([^\n:]{1,120})",
        "the container does not have the program that starts it: {names}",
        "use an image that contains bash and the program, or let its entrypoint out with srun's "
        "option no-container-entrypoint",
    ),
    cause(
        "container-image",
        r"importing docker image: (\S{1,200})\n(?=(?:[^\n]{0,300}\n){0,4}[^\n]{0,80}"
        r"failed to import)"
        r"|pyxis: failed to import docker image(?:[\s\S]{0,1500}?\[ERROR\] ([^\n]{1,160})"
        r"|[\s\S]{0,900}? log file[^\n]{0,9}\n[^\n]{0,60}pyxis: {2,9}(?![ \[])([^\n]{1,160}))?",
        "the node could not import the image: {names}",
        "see the lines of enroot above: a name or login that the registry refuses (401), a full "
        "disk or a folder that the user may not write (ENROOT_CACHE_PATH, ENROOT_RUNTIME_PATH); a "
        "file of an image needs a path with / or ./",
    ),
    cause(
        "container-start",
        r"pyxis: (?:couldn't start container|container start failed)"
        r"(?![\s\S]{0,600}(?:failed to execute: |Command not found: nvidia))"
        r"|(?:pyxis|enroot)[^\n]{0,60}\[ERROR\] ([^\n]{1,160})"
        r"|error: pyxis: (couldn't (?!start)[^\n]{1,160})"
        r"|FATAL:\s{1,4}(?!stat )([^\n]{1,400})",
        "the node could not start the container: {names}",
        "see the lines of enroot or apptainer above: a hook of the node, an image that cannot be "
        "pulled or unpacked, a full disk (ENROOT_CACHE_PATH), or a mount that does not exist",
    ),
)
"""In the order in which they are shown."""
