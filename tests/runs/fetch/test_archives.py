"""What comes out of an archive that anybody may have made."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import tracemalloc
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from rsctl.clients.retries import RetryPolicy
from rsctl.findings import Finding, RsctlError
from rsctl.runs.fetch.archives import Unpacking, unpack
from rsctl.runs.fetch.directory import Directory
from rsctl.runs.fetch.downloads import DownloadContext
from rsctl.runs.fetch.index import Index

Member = tuple[str, Any]
Unpack = Callable[..., tuple[dict[str, bytes], list[Finding]]]


def pack(path: Path, *members: Member) -> Path:
    """An archive of files (bytes) and others (fields of TarInfo), in their order."""
    with tarfile.open(path, "w:gz") as packed:
        for name, what in members:
            entry = tarfile.TarInfo(name)
            if isinstance(what, bytes):
                entry.size, entry.mode = len(what), 0o4777
                packed.addfile(entry, io.BytesIO(what))
                continue
            for field, value in what.items():
                setattr(entry, field, value)
            packed.addfile(entry)
    return path


def link(target: str) -> dict[str, Any]:
    return {"type": tarfile.SYMTYPE, "linkname": target}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def unpacked(home: Path) -> Unpack:
    """Unpacks below `artifacts`; what is there then, and the findings."""

    def call(archive: Path, most: int | None = None) -> tuple[dict[str, bytes], list[Finding]]:
        wanted = Unpacking("s3://b/model.tar.gz", "artifacts", lambda path: True, most)
        with closing(Directory(home)) as directory, closing(Index(directory, "r")) as index:
            context = DownloadContext(directory, index, RetryPolicy(), bool)
            with open(archive, "rb") as file:
                entries, links, findings = unpack(file, wanted, "1", context)
        there = content_of(home / "artifacts")
        there |= {path.removeprefix("artifacts/"): to.encode() for path, to in links.items()}
        written = sorted([*(entry.path for entry in entries), *links])
        assert written == sorted(f"artifacts/{name}" for name in there)
        return there, findings

    return call


def content_of(folder: Path) -> dict[str, bytes]:
    files = sorted(path for path in folder.rglob("*") if path.is_file() or path.is_symlink())
    assert not any(path.is_symlink() for path in files)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def test_files_come_out_without_modes(unpacked: Unpack, tmp_path: Path, home: Path) -> None:
    archive = pack(tmp_path / "a", ("./sub/a", b"1"), ("b", b""), ("b", b"2"))
    there, findings = unpacked(archive)
    assert (there, findings) == ({"b": b"2", "sub/a": b"1"}, [])
    assert (home / "artifacts" / "b").stat().st_mode & 0o7111 == 0


def test_names_that_lead_out_stay_inside(unpacked: Unpack, tmp_path: Path) -> None:
    archive = pack(tmp_path / "a", ("../../out", b"1"), ("/abs", b"2"), ("a/../../up", b"3"))
    there, _ = unpacked(archive)
    assert there == {"%2E%2E/%2E%2E/out": b"1", "%2E%2E/up": b"3", "abs": b"2"}
    assert [*tmp_path.iterdir()] == [archive, tmp_path / "home"] or not (tmp_path / "out").exists()


def test_links_become_copies_or_are_left_out(unpacked: Unpack, tmp_path: Path) -> None:
    archive = pack(
        tmp_path / "a",
        ("latest", link("steps/2.pt")),
        ("steps/2.pt", b"two"),
        ("steps/hard", {"type": tarfile.LNKTYPE, "linkname": "steps/2.pt"}),
        ("chain", link("latest")),
        ("passwd", link("/etc/passwd")),
        ("up", link("../../secret")),
        ("folder", link("steps")),
        ("best", link("folder")),
        ("nowhere", link("step")),
        ("loop", link("loop")),
        ("fifo", {"type": tarfile.FIFOTYPE}),
        ("device", {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 5}),
    )
    there, [finding] = unpacked(archive)
    assert there == {
        **dict.fromkeys(["chain", "latest", "steps/2.pt", "steps/hard"], b"two"),
        **dict.fromkeys(["folder", "best"], b"artifacts/steps"),
    }
    assert finding.code == "left-out"
    assert finding.message == (
        "s3://b/model.tar.gz: 'fifo', 'device', 'passwd' and 3 more skipped: neither files nor "
        "links within the archive"
    )


def test_a_link_and_what_is_below_it(unpacked: Unpack, tmp_path: Path) -> None:
    """The oldest trick: a link that leads out, then a file through it."""
    archive = pack(tmp_path / "a", ("x", link(str(tmp_path))), ("x/evil", b"1"))
    there, _ = unpacked(archive)
    assert there == {"x/evil": b"1"}
    assert not (tmp_path / "evil").exists()


def test_links_that_are_here_already_are_not_followed(
    unpacked: Unpack, tmp_path: Path, home: Path
) -> None:
    (home / "artifacts").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (home / "artifacts" / "x").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RsctlError, match="artifacts/x must be a folder, but is a file or a link"):
        unpacked(pack(tmp_path / "a", ("x/evil", b"1")))
    assert not [*(tmp_path / "elsewhere").iterdir()]
    (tmp_path / "file").write_text("mine")
    (home / "artifacts" / "x").unlink()
    (home / "artifacts" / "y").symlink_to(tmp_path / "file")
    there, _ = unpacked(pack(tmp_path / "a", ("y", b"1")))
    assert there == {"y": b"1"}
    assert (tmp_path / "file").read_text() == "mine"


def test_bombs_are_refused_before_anything_is_written(
    unpacked: Unpack, tmp_path: Path, home: Path
) -> None:
    archive = pack(tmp_path / "a", ("zeros", bytes(20 << 20)))
    assert archive.stat().st_size < 100_000
    with pytest.raises(RsctlError, match=r"has a member of 20,971,520 bytes") as caught:
        unpacked(archive, most=10 << 20)
    assert "--max-unpacked" in str(caught.value.findings[0].remedy)
    many = pack(tmp_path / "b", *((f"{i}", bytes(1 << 20)) for i in range(11)))
    with pytest.raises(RsctlError, match="has more than 10,485,760 bytes when unpacked"):
        unpacked(many, most=10 << 20)
    copies = pack(tmp_path / "c", ("a", bytes(1 << 20)), *((f"l{i}", link("a")) for i in range(11)))
    with pytest.raises(RsctlError, match="has more than 10,485,760 bytes when unpacked"):
        unpacked(copies, most=10 << 20)
    assert not (home / "artifacts").exists()


def test_a_description_that_is_a_bomb(unpacked: Unpack, tmp_path: Path) -> None:
    entry = tarfile.TarInfo("@LongLink")
    entry.type, entry.size = tarfile.GNUTYPE_LONGNAME, 1 << 30
    with gzip.open(tmp_path / "a", "wb", compresslevel=1) as file:
        file.write(entry.tobuf(tarfile.GNU_FORMAT))
        for _ in range(40):
            file.write(bytes(1 << 20))
    with pytest.raises(RsctlError, match="has a member description that cannot be read"):
        unpacked(tmp_path / "a")


def test_a_sparse_file_that_says_it_is_huge(unpacked: Unpack, tmp_path: Path) -> None:
    entry = tarfile.TarInfo("sparse")
    entry.size = 8 << 50
    with gzip.open(tmp_path / "a", "wb") as file:
        file.write(entry.tobuf(tarfile.GNU_FORMAT))
    with pytest.raises(RsctlError, match="has a member of 9,007,199,254,740,992 bytes"):
        unpacked(tmp_path / "a")


def test_no_space(unpacked: Unpack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Directory, "free", lambda _: 1000)
    with pytest.raises(RsctlError, match="unpacks to 1,001 bytes, but only 1,000 are free"):
        unpacked(pack(tmp_path / "a", ("a", bytes(1001))))


@pytest.mark.parametrize("damage", ["cut", "not gzip", "not tar", "flipped"])
def test_damaged_archives_leave_nothing(
    unpacked: Unpack, tmp_path: Path, home: Path, damage: str
) -> None:
    archive = pack(tmp_path / "a", ("a", os.urandom(100_000)), ("b", b"2"))
    content = archive.read_bytes()
    middle = len(content) // 2
    archive.write_bytes(
        {
            "cut": content[:middle],
            "not gzip": b"PK" + content,
            "not tar": gzip.compress(b"text" * 1000),
            "flipped": content[:middle] + bytes(8) + content[middle + 8 :],
        }[damage]
    )
    with pytest.raises(RsctlError, match="cannot be unpacked"):
        unpacked(archive)
    assert not (home / "artifacts").exists()


def deep(folders: int) -> str:
    return "a/" * folders + "x"


@pytest.mark.parametrize("what", [b"1", link("y"), {"type": tarfile.FIFOTYPE}])
@pytest.mark.parametrize("folders", [101, 20_000, 140_000])
def test_a_name_of_many_folders_costs_nothing(
    tmp_path: Path, unpacked: Unpack, folders: int, what: Any
) -> None:
    archive = pack(tmp_path / "a.tar.gz", (deep(folders), what), ("y", b"2"))
    tracemalloc.start()
    found, [finding] = unpacked(archive)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found == {"y": b"2"}
    assert finding.message.endswith("longer than 4,096 bytes, or deeper than 100 folders")
    assert most < 20 << 20


def test_a_link_to_a_name_of_many_folders(tmp_path: Path, unpacked: Unpack) -> None:
    archive = pack(tmp_path / "a.tar.gz", ("x", link(deep(20_000))), ("y", b"2"))
    found, [finding] = unpacked(archive)
    assert found == {"y": b"2"}
    assert "'x' skipped: longer" in finding.message


def test_names_of_a_hundred_folders_are_kept(tmp_path: Path, unpacked: Unpack) -> None:
    found, findings = unpacked(pack(tmp_path / "a.tar.gz", (deep(99), b"1")))
    assert (found, findings) == ({deep(99): b"1"}, [])


def test_many_long_names_are_refused_together(
    tmp_path: Path, unpacked: Unpack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rsctl.runs.fetch.archives._MOST_FOLDERS", 10_000)
    members = [(f"{number}/{deep(90)}", b"") for number in range(10)]
    with pytest.raises(RsctlError, match="has too many long names of members"):
        unpacked(pack(tmp_path / "a.tar.gz", *members))


def pax(name: str, value: str) -> bytes:
    """A header that describes the next member, in the least bytes."""
    record = f" {name}={value}\n".encode()
    length = len(record) + len(str(len(record)))
    length += len(str(length)) - len(str(len(record)))
    entry = tarfile.TarInfo("x")
    entry.type, entry.size = tarfile.XHDTYPE, length
    data = str(length).encode() + record
    return entry.tobuf(tarfile.USTAR_FORMAT) + data + bytes(-len(data) % 512)


@pytest.mark.parametrize(
    "blocks",
    [
        pax("path", "y") * 3000,
        pax("GNU.sparse.map", "0," * 50_000 + "0"),
        pax("GNU.sparse.major", "1") + pax("GNU.sparse.minor", "0"),
        pax("GNU.sparse.map", "x"),
        pax("size", "-1"),
        pax("size", "9" * 30),
        pax("path", "a/" * 4_000_000),
    ],
)
def test_a_broken_description_of_a_member(tmp_path: Path, unpacked: Unpack, blocks: bytes) -> None:
    entry = tarfile.TarInfo("y").tobuf(tarfile.USTAR_FORMAT)
    archive = tmp_path / "a.tar.gz"
    archive.write_bytes(gzip.compress(blocks + entry + bytes(1024)))
    tracemalloc.start()
    with suppress(RsctlError):
        unpacked(archive)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 100 << 20
