"""Jobs with source for an image that is used without changes, and tars that nobody should
unpack.
"""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Any

import yaml

from rsctl.job.document import read
from rsctl.job.job import Job

SPEC = {
    "name": "job",
    "image": {"uri": "team/image:1", "source": "src"},
    "run": {"script": "train.py", "launcher": "once"},
    "targets": {
        "vertex": {"staging": "gs://staging/a/b/"},
        "sagemaker": {"staging": "s3://staging/a/b", "region": "us-east-1"},
    },
}
DDP_SCRIPT = Path(__file__).parent / "scripts" / "ddp.py"
"""A training script with DistributedDataParallel, as small as can be."""

SCRIPT = "import os, sys\nprint(os.path.basename(os.getcwd()), sys.argv[1:])\n"


def make_job(folder: Path, **changes: Any) -> Job:
    """A job with a source of one script, unless the folder is there."""
    source = folder / "src"
    if not source.exists():
        source.mkdir(parents=True)
        (source / "train.py").write_text(SCRIPT)
    (folder / "job.yaml").write_text(yaml.safe_dump({**SPEC, **changes}))
    return read(str(folder / "job.yaml")).require_job()


def tar_of(*members: tuple[str, str | bytes | None]) -> bytes:
    """A tar: a name with its content, or with what it links to (`-> OPTIONS`), or None, a pipe."""
    with io.BytesIO() as out:
        with tarfile.open(fileobj=out, mode="w") as tar:
            for name, what in members:
                info = tarfile.TarInfo(name)
                content = what if isinstance(what, bytes) else b""
                info.size = len(content)
                if isinstance(what, str):
                    info.type, info.linkname = tarfile.SYMTYPE, what.removeprefix("-> ")
                elif what is None:
                    info.type = tarfile.FIFOTYPE
                tar.addfile(info, io.BytesIO(content))
        return out.getvalue()
