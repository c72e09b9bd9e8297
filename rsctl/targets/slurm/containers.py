"""How a task starts in its container: options of srun, and the words before its command. Pure.

Neither pyxis nor Apptainer runs in rsctl's tests. The command lines follow their
documentation:

- pyxis: https://github.com/NVIDIA/pyxis, "Usage": --container-image, --container-mounts,
  --no-container-mount-home, --no-container-entrypoint; and --container-env, because by default the
  values of variables in the image take precedence over those of the job
- enroot: https://github.com/NVIDIA/enroot/blob/master/doc/cmd/import.md: `enroot import --output
  FILE docker://[USER@]REGISTRY#IMAGE[:TAG]`; credentials in $ENROOT_CONFIG_PATH/.credentials, from
  which it takes USER, too. Enroot 3 reads a digest as IMAGE:sha256:… alone (src/docker.sh)
- Apptainer: https://apptainer.org/docs/user/latest/docker_and_oci.html: `apptainer pull FILE
  docker://IMAGE`; `apptainer exec --nv --bind FOLDER --pwd FOLDER`; credentials by
  `apptainer registry login` or APPTAINER_DOCKER_USERNAME and APPTAINER_DOCKER_PASSWORD
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from rsctl.targets.slurm.options import SlurmOptions


def import_lines(options: SlurmOptions) -> list[str]:
    """Lines of bash that make a file of the image RSCTL_IMAGE in the shared folder, once.

    An image by digest is imported once for all runs; one by tag once for each run. Two jobs that
    import the same image at the same time both succeed: the last to rename its file wins.
    """
    if options.container == "none":
        return []
    folder = f"{options.shared}/images"
    if options.container == "pyxis":
        command = 'enroot import --output "$new" "docker://$(enroot_name "$RSCTL_IMAGE")"'
    else:
        command = 'apptainer pull "$new" "docker://$RSCTL_IMAGE"'
    suffix = "sqsh" if options.container == "pyxis" else "sif"
    failed = 'finish 3 "cannot convert image $RSCTL_IMAGE on $(hostname): see the log"'
    return [
        f"mkdir -p {shlex.quote(folder)} || finish 3 'cannot make {folder}'",
        "case $RSCTL_IMAGE in",
        "    *@sha256:*) RSCTL_IMAGE_FILE="
        f"{shlex.quote(folder)}/${{RSCTL_IMAGE##*@sha256:}}.{suffix} ;;",
        f"    *) RSCTL_IMAGE_FILE=$RSCTL_FOLDER/image.{suffix} ;;",
        "esac",
        'if [ ! -e "$RSCTL_IMAGE_FILE" ]; then',
        f"    local new=$RSCTL_IMAGE_FILE.$SLURM_JOB_ID.{suffix}",
        f'    {command} || {{ rm -f "$new"; {failed}; }}',
        '    mv -f "$new" "$RSCTL_IMAGE_FILE" || finish 3 "cannot write $RSCTL_IMAGE_FILE"',
        "fi",
        "unset APPTAINER_DOCKER_USERNAME APPTAINER_DOCKER_PASSWORD",
        "export RSCTL_IMAGE_FILE",
    ]


ENROOT_NAME = """enroot_name() { # [REGISTRY/]NAME[:TAG][@DIGEST] as [REGISTRY#]NAME:TAG, or :DIGEST
    local name=${1%%@*}
    case $1 in
        *@*)
            case ${name##*/} in *:*) name=${name%:*} ;; esac
            name=$name:${1#*@} ;;
    esac
    case $name in
        *.*/*|*:*/*|localhost/*) echo "${name%%/*}#${name#*/}" ;;
        *) echo "$name" ;;
    esac
}"""


def srun_words(options: SlurmOptions, mounts: list[str], names: Iterable[str]) -> list[str]:
    """The options of srun, as words of bash. `names` are the variables that the job sets."""
    if options.container != "pyxis":
        return []
    places = ",".join(f"{folder}:{folder}" for folder in mounts)
    return [
        '--container-image="$RSCTL_IMAGE_FILE"',
        shlex.quote(f"--container-mounts={places}"),
        "--no-container-mount-home",
        "--no-container-entrypoint",
        f"--container-env={','.join(names)}",
    ]


def command_words(options: SlurmOptions, mounts: list[str], has_gpus: bool) -> list[str]:
    """The words before the command of a task, as words of bash."""
    if options.container != "apptainer":
        return []
    binds = [f"--bind {shlex.quote(folder)}" for folder in mounts]
    return [
        "apptainer exec",
        *(["--nv"] if has_gpus else []),
        "--no-home",
        *binds,
        '"$RSCTL_IMAGE_FILE"',
    ]
