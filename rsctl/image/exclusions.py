"""Files that are never copied into an image or package: by name, and by content."""

from __future__ import annotations

import os
import re
from pathlib import Path

from rsctl.runs.home import home

_SHELL_AND_TOOLS = (
    *(".env", ".env.*", "*.env", ".envrc", ".netrc", "_netrc", ".pypirc", ".npmrc", ".yarnrc*"),
    *(".git-credentials", ".boto", ".s3cfg", ".pgpass", "pgpass.conf", ".my.cnf", ".mylogin.cnf"),
    *(".htpasswd", ".dockercfg", ".dockerconfigjson", ".vault-token", ".terraformrc", "*.tfvars"),
    *("*.tfstate", "*.tfstate.*", ".databrickscfg", ".snowsql", ".rclone.conf", "rclone.conf"),
    *("kaggle.json", ".kaggle", ".modal.toml", ".bash_history", ".zsh_history", ".python_history"),
    *("kubeconfig", "*.kubeconfig", "secrets.toml", "secrets.y*ml", "secrets.json"),
    *("secret.y*ml", "secret.json"),
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
)
_TOKENS = (
    *("application_default_credentials.json", "credentials.json", "credentials.db"),
    *("client_secret*.json", "*service-account*.json", "*service_account*.json"),
    *(".token", "*.token", "*_token", "*-token", "hf_token.*", "access_token.*", "token.txt"),
    *("*_token.txt", "*-token.txt", "*api_key", "*api_key.txt", "*api-key", "*api-key.txt"),
)
_CREDENTIAL_NAMES = (*_SHELL_AND_TOOLS, *_FOLDERS, *_KEYS, *_TOKENS)
"""At any depth. Public keys and certificates of these names are excluded with them."""

_VERSION_CONTROL = "version control"
_GENERATED = "made by tools, and made again where it is needed"
_VIRTUAL_ENV = "a virtual environment"
CREDENTIALS = "may hold credentials"
EXCLUDED_NAMES = {
    ".git": _VERSION_CONTROL,
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

_LARGEST = 1 << 14  # bytes; a key's file has a few thousand
_ACCOUNT_MARKS = (b'"service_account"', b'"private_key"')
_PROGRAMS = (".py", ".ipynb", ".sh", ".md", ".rst", ".c", ".cc", ".cpp", ".h", ".cu", ".go", ".rs")
"""May talk about keys, and people would miss them. A key in them is theirs to find."""

_PRIVATE_KEY = re.compile(
    rb"^-----BEGIN [A-Z ]*PRIVATE KEY-----\s+[A-Za-z0-9+/=:, \r\n-]{64}", re.M
)
_AWS_SECRET = re.compile(
    rb"^\s*aws_secret_access_key\s*[=:]\s*[\"']?[A-Za-z0-9/+]{40}[\"']?\s*$", re.M | re.I
)
_TOKEN_ALONE = re.compile(
    rb"\A\s*(?:hf_[A-Za-z0-9]{30,}|gh[pousr]_[A-Za-z0-9]{30,}|github_pat_\w{40,}|glpat-[\w-]{20,}"
    rb"|npm_[A-Za-z0-9]{36}|sk-[\w-]{32,}|xox[abeprs]-[\w-]{20,})\s*\Z"
)
_CONTENTS = {
    _PRIVATE_KEY: "a private key",
    _AWS_SECRET: "a secret key of AWS",
    _TOKEN_ALONE: "a token and nothing else",
}


def content_exclusion(item: os.DirEntry[str]) -> str | None:
    """Why a file or folder is excluded for what it contains; None if not. Raises OSError."""
    if item.is_dir(follow_symlinks=False):
        return _excluded_folder(Path(item.path))
    if item.is_file(follow_symlinks=False) and not item.name.lower().endswith(_PROGRAMS):
        return _excluded_content(item)
    return None


def _excluded_folder(path: Path) -> str | None:
    if (path / "pyvenv.cfg").is_file():
        return "a virtual environment"
    return "where rsctl keeps its runs" if path == home() else None


def _excluded_content(item: os.DirEntry[str]) -> str | None:
    if item.stat(follow_symlinks=False).st_size > _LARGEST:
        return None
    content = Path(item.path).read_bytes()
    if all(mark in content for mark in _ACCOUNT_MARKS):
        return "the key of a service account"
    return next((what for mark, what in _CONTENTS.items() if mark.search(content)), None)
