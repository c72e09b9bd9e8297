"""Files that are never copied into an image or package: by name, and by content."""

from __future__ import annotations

import os
import re
from fnmatch import fnmatchcase
from pathlib import Path

from rsctl.runs.home import home

_SHELL_AND_TOOLS = (
    *(".env", ".env.*", "*.env", ".envrc", ".netrc", "_netrc", ".pypirc", ".npmrc", ".yarnrc*"),
    *(".git-credentials", ".boto", ".s3cfg", ".pgpass", "pgpass.conf", ".my.cnf", ".mylogin.cnf"),
    *(".htpasswd", ".dockercfg", ".dockerconfigjson", ".vault-token", ".terraformrc", "*.tfvars"),
    *("*.tfstate", "*.tfstate.*", ".databrickscfg", ".snowsql", ".rclone.conf", "rclone.conf"),
    *("kaggle.json", ".kaggle", ".modal.toml", ".bash_history", ".zsh_history", ".python_history"),
    *("kubeconfig", "*.kubeconfig", "secrets.toml", "secrets.y*ml", "secrets.json"),
    *("secret.y*ml", "secret.json", "auth.json", "pip.conf", "pip.ini", ".condarc", ".envrc.*"),
    *("*accesskeys*.csv", "*credentials*.csv"),
)
_FOLDERS = (
    *(".aws", ".azure", ".kube", ".docker", ".ssh", ".gnupg", ".oci", ".huggingface"),
    *(".config/gcloud", ".config/gh", ".config/rclone", ".config/hub", ".cargo/credentials*"),
    *(".cache/huggingface/token", ".cache/huggingface/stored_tokens", ".gem/credentials"),
    *(".secrets", "secrets", ".credentials", ".tokens"),
)
_KEYS = (
    *("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "id_xmss*", "*.pem", "*.key", "*.p8"),
    *("*.p12", "*.pfx", "*.ppk", "*.jks", "*.keystore", "*.keytab", "*.kdbx", "*.ovpn"),
    *("*.der", "*.asc.key"),
)
_TOKENS = (
    *("application_default_credentials.json", "credentials.json", "credentials.db"),
    *("client_secret*.json", "*service-account*.json", "*service_account*.json"),
    *(".token", "*.token", "*_token", "*-token", "hf_token.*", "access_token.*", "token.txt"),
    *("token.json", "tokens.json", "*_token.json", "*-token.json"),
    *("*_token.txt", "*-token.txt", "*api_key", "*api_key.txt", "*api-key", "*api-key.txt"),
)
_CREDENTIAL_NAMES = (*_SHELL_AND_TOOLS, *_FOLDERS, *_KEYS, *_TOKENS)
"""At any depth. Public keys and certificates of these names are excluded with them."""

_VERSION_CONTROL = "version control"
_GENERATED = "made by tools, and made again where it is needed"
_VIRTUAL_ENV = "a virtual environment"
CREDENTIALS = "may hold credentials"
EXCLUDED_NAMES = {
    "**/.git": _VERSION_CONTROL,
    "**/.hg": _VERSION_CONTROL,
    "**/.svn": _VERSION_CONTROL,
    "**/__pycache__": _GENERATED,
    "**/*.pyc": _GENERATED,
    "**/.mypy_cache": _GENERATED,
    "**/.ruff_cache": _GENERATED,
    "**/.pytest_cache": _GENERATED,
    "**/.ipynb_checkpoints": _GENERATED,
    "**/.DS_Store": _GENERATED,
    "**/node_modules": _GENERATED,
    "**/.venv": _VIRTUAL_ENV,
    "**/venv": _VIRTUAL_ENV,
    **dict.fromkeys((f"**/{name}" for name in _CREDENTIAL_NAMES), CREDENTIALS),
}
"""Patterns of what is never copied unless `.dockerignore` takes it back in, and why.

Those of credentials hold in upper and lower case: people write `ID_RSA` and `Prod.ENV`.
"""

_SNIFFED = 1 << 13
_SCANNED = 1 << 20  # bytes of a file in which its kind is looked for
_PROGRAMS = (".py", ".ipynb", ".sh", ".md", ".rst", ".c", ".cc", ".cpp", ".h", ".cu", ".go", ".rs")
"""May talk about keys, and people would miss them. A key in them is theirs to find."""

_BACKUP = re.compile(r"(?:~|\.(?:bak|backup|old|orig|save|copy|tmp|sw[op]|[0-9]+))+$", re.I)
_FILES = ("credentials", *(name for name in _CREDENTIAL_NAMES if "/" not in name))

_TOKEN = (
    rb"(?:hf_[A-Za-z0-9]{30,}|gh[pousr]_[A-Za-z0-9]{30,}|github_pat_\w{40,}|glpat-[\w-]{20,}(?:\.\w{9})?"
    rb"|api_org_[A-Za-z]{34}|xapp-\d-[\w-]{20,}|xoxe\.xox[bp]-[\w-]{20,}|npm_[A-Za-z0-9]{36}|pypi-[\w-]{50,}|dckr_pat_[\w-]{20,}|sk-[\w-]{32,}|xox[abeoprs]-[\w-]{20,}"
    rb"|AIza[\w-]{35}|ya29\.[\w-]{20,})"
)
_PRIVATE_KEY = (
    rb"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----"
    rb"(?:[\s\"'+,|>]|\\[nrt]|[A-Za-z-]{1,30}: ?[^\r\n\\]{0,200}){0,40}?"
    rb"[A-Za-z0-9+/=]{16}[A-Za-z0-9+/=:, \r\n\\-]{48}"
)
_AWS_SECRET = (
    rb"(?i:secret_?access_?key)[\"']?\s*[=:]\s*[\"']?[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+])"
    rb"|(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}[\"']?\s*[,;\t]\s*[\"']?[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+])"
)
_CONTENTS = {
    (b"PRIVATE KEY",): (_PRIVATE_KEY, "a private key"),
    (b"ecret",): (_AWS_SECRET, "a secret key of AWS"),
    (b"ECRET",): (_AWS_SECRET, "a secret key of AWS"),
    (b"AKIA",): (_AWS_SECRET, "a secret key of AWS"),
    (b"ASIA",): (_AWS_SECRET, "a secret key of AWS"),
    (b'"service_account"', b'"private_key"'): (b"", "the key of a service account"),
    (b'"refresh_token"', b'"client_secret"'): (b"", "the log-in of a user"),
    (b'"auths"', b'"auth"'): (rb'"auth"\s*:\s*"[A-Za-z0-9+/=]{8,}"', "log-ins of registries"),
    (b"machine", b"login", b"password"): (
        rb"\bmachine\s+\S+\s+login\s+\S+\s+password\s+\S+",
        "log-ins of .netrc",
    ),
    (b"AccountKey=",): (rb"AccountKey=[A-Za-z0-9+/]{86}==", "a key of a storage account"),
    (): (
        rb"\A\s*" + _TOKEN + rb"\s*\Z|[=:]\s*[\"']?" + _TOKEN + rb"(?![\w-])",
        "a token",
    ),
}
"""By texts that a file must have, its regular expression and what it then is.

Prefixes of tokens, and the form of an AWS access key id, agree with these rules of gitleaks
(aws-access-token, gcp-api-key, github-*, gitlab-pat*, huggingface-*, npm-access-token,
openai-api-key, private-key, pypi-upload-token, slack-*-token), which are under the MIT license:
https://github.com/gitleaks/gitleaks/blob/b58d3f102cf3a2c84cb7f923d05c25c9b1aed84b/config/gitleaks.toml
Lengths here are lower bounds, so that a longer token of an issuer is still found. The other rows
have no such source: they follow the files that the programs themselves write.
"""


def content_exclusion(item: os.DirEntry[str]) -> str | None:
    """Why a file or folder is excluded for what it contains; None if not. Raises OSError."""
    if item.is_dir(follow_symlinks=False):
        return _excluded_folder(Path(item.path))
    if not item.is_file(follow_symlinks=False):
        return None
    if _is_backup_of_credentials(item.name):
        return CREDENTIALS
    return None if item.name.lower().endswith(_PROGRAMS) else _excluded_content(item)


def _is_backup_of_credentials(name: str) -> bool:
    """Whether a name is that of credentials, or of an editor's copy of them: `.env~`, `#.env#`."""
    plain = _BACKUP.sub("", name.strip("#")).lower()
    if plain == name.lower() and plain != "credentials":
        return False
    names = (plain, plain[1:]) if plain.startswith("..") else (plain,)
    return any(fnmatchcase(each, pattern) for each in names for pattern in _FILES)


def _excluded_folder(path: Path) -> str | None:
    if (path / "pyvenv.cfg").is_file():
        return "a virtual environment"
    return "where rsctl keeps its runs" if path == home() else None


def _excluded_content(item: os.DirEntry[str]) -> str | None:
    with open(item.path, "rb") as file:
        content = file.read(_SCANNED)
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        content = content.decode("utf-16", errors="replace").encode()
    elif b"\0" in content[:_SNIFFED]:
        return None  # a program or data
    for needed, (pattern, what) in _CONTENTS.items():
        if all(text in content for text in needed) and re.search(pattern, content):
            return what
    return None
