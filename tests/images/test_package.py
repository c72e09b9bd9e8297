"""What is in a package, and under which hash."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile
from pathlib import Path

import pytest

from rsctl.findings import RsctlError, error, note
from rsctl.images import runtime_files
from rsctl.images.package import (
    LOADER,
    Package,
    digest_in,
    is_packaged,
    make_package,
    package_findings,
    package_notes,
)
from tests.kit.packages import SPEC, make_job


def written(package: Package) -> bytes:
    with io.BytesIO() as out:
        package.write(out)
        assert hashlib.sha256(gzip.decompress(out.getvalue())).hexdigest() == package.digest
        return out.getvalue()


def members(package: Package) -> list[tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(written(package)), mode="r:gz") as tar:
        return tar.getmembers()


def source_of(package: Package) -> list[str]:
    names = [member.name for member in members(package)]
    return [name for name in names if name.startswith("source")]


def test_it_has_the_source_and_the_runtime(tmp_path: Path) -> None:
    source = tmp_path / "src"
    (source / "lib").mkdir(parents=True)
    for name in ("train.py", "run.sh", "lib/a.py", "data.bin", "old.pyc", ".dockerignore"):
        (source / name).write_text("")
    (source / "run.sh").chmod(0o755)
    (source / "latest").symlink_to("lib")
    (source / ".dockerignore").write_text("*.bin\n")
    package = make_package(make_job(tmp_path))
    found = {member.name: member for member in members(package)}
    assert source_of(package) == [
        "source",
        "source/.dockerignore",
        "source/latest",
        "source/lib",
        "source/lib/a.py",
        "source/run.sh",
        "source/train.py",
    ]
    assert next(iter(found)) == "boot.py"
    assert found["source/latest"].linkname == "lib"
    assert (found["source/run.sh"].mode, found["source/train.py"].mode) == (0o755, 0o644)
    assert {"runtime/rsctl/node/launch.py", "runtime/rsctl/transport/reduce.py"} < set(found)
    assert any(name.endswith("dist-info/entry_points.txt") for name in found)


def test_what_a_compiler_made_stays_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = make_job(tmp_path)
    monkeypatch.setattr(runtime_files, "_CORE", tmp_path / "absent.so")
    without = make_package(job).digest
    (tmp_path / "core.so").write_bytes(b"machine code")
    monkeypatch.setattr(runtime_files, "_CORE", tmp_path / "core.so")
    assert make_package(job).digest == without


def test_its_hash_is_that_of_the_tar_whatever_compressed_it(tmp_path: Path) -> None:
    package = make_package(make_job(tmp_path))
    tar = gzip.decompress(written(package))
    assert hashlib.sha256(tar).hexdigest() == package.digest
    assert written(package) == written(package)


def test_the_same_files_have_the_same_hash_anywhere(tmp_path: Path) -> None:
    here = make_package(make_job(tmp_path / "here")).digest
    job = make_job(tmp_path / "there", name="other")
    os.utime(tmp_path / "there" / "src" / "train.py", (0, 0))
    (tmp_path / "there" / "src" / "train.py").chmod(0o600)
    assert make_package(job).digest == here


@pytest.mark.parametrize("change", ["content", "name", "mode"])
def test_a_change_changes_the_hash(tmp_path: Path, change: str) -> None:
    job = make_job(tmp_path)
    script = tmp_path / "src" / "train.py"
    before = make_package(job).digest
    if change == "content":
        script.write_text("print()")
    elif change == "name":
        (tmp_path / "src" / "more.py").touch()
    else:
        script.chmod(0o755)
    assert make_package(job).digest != before


def test_links_that_lead_out_are_left_out_and_reported(tmp_path: Path) -> None:
    source = tmp_path / "src"
    (source / "lib").mkdir(parents=True)
    (source / "train.py").touch()
    (source / "in").symlink_to("lib/../train.py")
    (source / "absolute").symlink_to(source / "train.py")
    (source / "lib" / "out").symlink_to("../../job.yaml")
    (source / "over").symlink_to("lib/out")  # by way of another one
    package = make_package(make_job(tmp_path))
    assert source_of(package) == ["source", "source/in", "source/lib", "source/train.py"]
    [reported] = package_notes(package)
    assert (reported.message, reported.remedy, reported.path) == (
        "not in the package: absolute, lib/out, over (a link that points outside the folder)",
        "copy the file that it points to into the folder",
        "image.source",
    )


def test_what_is_left_out_of_images_is_left_out_here(tmp_path: Path) -> None:
    job = make_job(tmp_path)
    (tmp_path / "src" / ".env").touch()
    [reported] = package_notes(make_package(job))
    assert reported.message == "not in the package: .env (may contain credentials)"
    assert reported.remedy == "to include it, write !PATH in .dockerignore"


def test_a_file_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    job = make_job(tmp_path)
    (tmp_path / "src").rename(tmp_path / "gone")
    with pytest.raises(RsctlError) as caught:
        make_package(job)
    assert caught.value.summary == f"cannot read {tmp_path}/src: No such file or directory"
    assert "is readable, or list it in .dockerignore" in (caught.value.findings[0].remedy or "")


def test_the_loader_is_what_sagemaker_takes_as_one_word(tmp_path: Path) -> None:
    assert len(LOADER) <= 256
    assert LOADER.isprintable()
    package = make_package(make_job(tmp_path))
    command = package.command("/x/package.tar.gz")
    assert command == ["python3", "-I", "-c", LOADER, "/x/package.tar.gz", package.digest]


@pytest.mark.parametrize("target", ["vertex", "sagemaker"])
def test_what_a_plan_says(tmp_path: Path, target: str) -> None:
    [reported] = package_findings(make_job(tmp_path), target)
    message = "the image is used without changes: it must have Python 3.10 or newer, as python3"
    assert reported == note("image", message, None, "image.uri")
    [_, missing] = package_findings(make_job(tmp_path, targets={}), target)
    scheme = {"vertex": "gs", "sagemaker": "s3"}[target]
    assert missing == error(
        "staging",
        "rsctl delivers image.source through a bucket if the image is used without changes",
        f"set targets.{target}.staging: {scheme}://BUCKET/FOLDER",
        f"targets.{target}.staging",
    )


@pytest.mark.parametrize(
    "image", [{"uri": "team/image:1"}, {"base": "python:3.12", "source": "src"}]
)
def test_other_jobs_have_none(tmp_path: Path, image: dict[str, str]) -> None:
    job = make_job(tmp_path, image=image)
    assert not is_packaged(job)
    assert list(package_findings(job, "vertex")) == []
    assert is_packaged(make_job(tmp_path, image=SPEC["image"]))


def test_the_package_of_a_request_is_found_in_it(tmp_path: Path) -> None:
    package = make_package(make_job(tmp_path))
    command = package.command(f"/gcs/b/{package.folder}package.tar.gz")
    assert digest_in({"body": {"pools": [{}, {"command": command}]}}) == package.digest
    assert digest_in({"body": [f"s3://b/{package.folder}"]}) == package.digest
    assert digest_in({"body": {"image": f"a/b@sha256:{package.digest}"}}) is None


def test_a_source_that_changes_before_it_is_written_is_named(tmp_path: Path) -> None:
    package = make_package(make_job(tmp_path))
    (tmp_path / "src" / "train.py").write_text("another")
    with pytest.raises(RsctlError) as caught:
        package.write(io.BytesIO())
    [finding] = caught.value.findings
    assert (finding.code, finding.path) == ("changed", "image.source")
    assert finding.message == "files changed while the job was being submitted: train.py"
