"""Causes of failed jobs that the operating system names by the number of its error, and those of
archives and of the locale.

Sources: texts of tests/fixtures/real; the errors of Linux (errno.h); the messages of GNU tar, gzip,
Info-ZIP, xz and bzip2.
"""

from __future__ import annotations

from rsctl.runs.stream.service_causes import cause

_OF_RUST = (
    r"(?m:^)(?:[^\n:]{0,80}(?:[Ee]rror|Exception|Caused by|\d)"
    r"|[^\n]{0,120}(?:`Err` value|I/O error)): "
)
"""How a line begins that ends with an error of Rust, unless the program only logs the error."""


def _refused(numbers: str, name: str = "Error") -> str:
    """The pattern of exceptions of Python, and of errors of Rust, with one of these numbers.

    SageMaker's toolkit writes an exception, with or without its traceback, after `ErrorMessage`.
    """
    return (
        rf"(?:(?m:^)|ErrorMessage \"[^\n]{{0,2000}}?)[ |]{{0,20}}[\w.]{{0,60}}"
        rf"{name}: \[Errno (?:{numbers})\] ([^\n]{{1,300}})"
        rf"|(?:(?m:^)|{_OF_RUST}(?:[^\n]{{0,200}}: )?)([^\n:]{{1,300}}\(os error (?:{numbers})\))"
        rf"|{_OF_RUST}[^\n]{{0,200}}(\bOs \{{ code: (?:{numbers}), [^\n]{{1,200}})"
    )


GENERAL_SYSTEM_CAUSES = (
    cause(
        "system-call",
        _refused("39"),
        "a folder got new files while the script renamed or deleted it: {names}",
        "let one rank of all nodes write, rename and delete it (rank 0), and give each run a "
        "folder of its own; on NFS an open file stays as .nfs...: close it before",
    ),
    cause(
        "system-call",
        _refused("18"),
        "a file cannot be renamed from one file system to another: {names}",
        "set TMPDIR in run.env to a folder on the disk of the target, or let the script call "
        "shutil.move in place of os.rename and os.replace",
    ),
    cause(
        "system-call",
        _refused("36"),
        "a file's name is longer than its file system permits: {names}",
        "shorten what it is made of: the name of the run, the output folder, and for caches "
        "HF_HOME and HF_DATASETS_CACHE in run.env; an encrypted home folder permits only 143 "
        "characters",
    ),
    cause(
        "system-call",
        _refused("29|38|95"),
        "a file system does not support an operation: {names}",
        "mounted buckets, and some file systems on the network, have no links, locks, appending "
        "or memory maps: write to a local disk and copy the result to the outputs, or turn the "
        "operation off in the script; read from a local copy (mode: copy)",
    ),
    cause(
        "system-call",
        _refused("22"),
        "the operating system, or a file system, does not accept a call: {names}",
        "look for a name with characters that its file system refuses, and for files above 2 GB, "
        "memory maps or direct I/O on a mounted folder: try a local disk (mode: copy)",
    ),
    cause(
        "network",
        _refused("99"),
        "an address does not belong to this machine: {names}",
        "a program can listen only on an address of its own node: leave MASTER_ADDR to rsctl, and "
        "let servers listen on 0.0.0.0; look in /etc/hosts for localhost",
    ),
    cause(
        "network",
        _refused("97|100|101|102|105|106|107|110|111|112|113", "OSError"),
        "a server on the network cannot be reached: {names}",
        "see in the traceback which server it is; check its address, that it listens, and the "
        "routes and firewalls between the node and it",
    ),
    cause(
        "system-call",
        _refused("7")
        + r"|(?:cannot run|(?m:^)exec|: (?:line )?\d{1,6}:) (\S{1,200}): [Aa]rgument list too long",
        "the command line or the environment of a new process is too long: {names}",
        "pass long lists of names in a file in place of arguments, and look for a very long "
        "variable in run.env or the image",
    ),
    cause(
        "file-permission",
        _refused("1"),
        "an operation is permitted only to the owner of a file, or to root: {names}",
        "mounted buckets and shares refuse to change owners and modes: copy with shutil.copyfile "
        "in place of shutil.copy, or write to a local disk; in a container some calls need a "
        "capability",
    ),
    cause(
        "file-permission",
        _refused("13"),
        "the job's user may not use a file, folder, device or port: {names}",
        "write into the outputs or below /tmp; a port below 1024 needs root; check the owner of "
        "what the script's line in the traceback uses, and the user of the image",
    ),
    cause(
        "file-missing",
        _refused(r"2(?!\] No such file or directory:)"),
        "a file or folder does not exist, and the error does not name it: {names}",
        "see the script's line in the traceback for its path: it may be the working directory, "
        "which was deleted, a file of certificates, or a folder of a file that is written",
    ),
    cause(
        "system-call",
        _refused("26"),
        "a program was started while another process writes it: {names}",
        "let one rank of a node build or copy it, under another name that it renames at the end",
    ),
    cause(
        "system-call",
        _refused("40"),
        "symbolic links point at each other: {names}",
        "make the link again, with an absolute path (`ln -s /FULL/PATH NAME`)",
    ),
    cause(
        "system-call",
        _refused("9"),
        "a file, pipe or socket was used after it had been closed: {names}",
        "look in the traceback for what uses it, and for what has closed it before: os.close, the "
        "end of a `with` block, another thread; 1 and 2 are stdout and stderr",
    ),
    cause(
        "system-call",
        _refused("27"),
        "a file is larger than its file system, or a limit, permits: {names}",
        "raise `ulimit -f`, use another file system, or write smaller files: sharded checkpoints, "
        "max_shard_size",
    ),
    cause(
        "system-call",
        _refused("126|127|128|129"),
        "the key or ticket for a file system is missing, or has expired: {names}",
        "log in again where the job starts (kinit, aklog), with a ticket that lasts as long as it",
    ),
    cause(
        "locale",
        r"Unicode(?:En|De)codeError: ('(?:ascii|latin-1|charmap|gbk|cp\d{3,4})' [^\n]{1,120})"
        r"|locale\.Error: (unsupported locale setting)",
        "the program's locale does not have the characters that it reads or writes: {names}",
        "set PYTHONUTF8=1 and LANG=C.UTF-8 in run.env; in the script, open text files with "
        "encoding='utf-8'",
    ),
    cause(
        "data-file",
        r"(?m:^)(?:tar|gzip|unzip|bzip2|xz|zstd|pigz): (?=[^\n]{0,160}(?:[Uu]nexpected E|nexpected "
        r"end|not in gzip|tar archive|next header|crc error|CRC|invalid compressed|zipfile|corrupt"
        r"|not recognized|unsupported format|premature end|ends unexpectedly))([^\n]{1,160})"
        r"|(End-of-central-directory signature not found)",
        "an archive is incomplete or damaged, or of another format than its name: {names}",
        "compare its size or checksum with the source, and download it again; join its parts "
        "before (`cat NAME.*`); a page of a login or a quota may stand in its place (`file NAME`)",
    ),
)
"""For errors of the operating system without any other cause."""

OTHER_REFUSAL = cause(
    "system-call",
    _refused(r"\d{1,4}", "OSError"),
    "the operating system refused an operation: {names}",
    "check the file, folder or address that the message names, and free space on its disk",
)
"""For the numbers that no row names, after all other causes."""
