"""`.dockerignore` as docker's documentation and its matcher (moby/patternmatcher) have it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rsctl.findings import ExitCode, RsctlError
from rsctl.images.dockerignore import Dockerignore


@pytest.mark.parametrize(
    ("lines", "out", "kept"),
    [
        # the table of docker's documentation
        (["# comment"], [], ["# comment", "comment"]),
        (["*/temp*"], ["a/temporary.txt", "a/temp"], ["temp", "a/b/temp"]),
        (["*/*/temp*"], ["a/b/temporary.txt"], ["a/temp", "a/b/c/temp"]),
        (["temp?"], ["tempa", "tempb"], ["temp", "tempab", "a/tempa"]),
        (["**/*.go"], ["a.go", "a/b/c.go"], ["a.gox"]),
        (["*.md", "!README.md"], ["a.md"], ["README.md", "a/b.md"]),
        (
            ["*.md", "!README*.md", "README-secret.md"],
            ["a.md", "README-secret.md"],
            ["README.md", "README-x.md"],
        ),
        (
            ["*.md", "README-secret.md", "!README*.md"],
            ["a.md"],
            ["README-secret.md", "README.md"],
        ),
        (["**", "!keep"], ["a", "a/b"], ["keep", "keep/x"]),
        (["foo/bar", "/foo2/bar", "foo3//bar/"], ["foo/bar", "foo2/bar/x", "foo3/bar"], ["bar"]),
        (["."], [], ["a", "a/b"]),
        (["/"], [], ["a"]),
        # a folder takes its content along
        (["docs"], ["docs", "docs/a", "docs/a/b"], ["docsx", "a/docs"]),
        (["docs", "!docs/keep"], ["docs", "docs/a"], ["docs/keep", "docs/keep/a"]),
        (["docs/**"], ["docs/a", "docs/a/b"], ["docs"]),
        # paths are made clean
        (["./a", "b/./c", "d/../e", "f/"], ["a", "b/c", "e", "f/x"], ["d", "c"]),
        (["../a"], [], ["a"]),
        (["  spaced  "], ["spaced"], []),
        (["! a", "a"], ["a"], []),
        (["a", "! a"], [], ["a"]),
        (["", "   "], [], ["a"]),
        ([" # no comment"], ["# no comment"], ["# comment"]),
        # ** in every place
        (["a/**/b"], ["a/b", "a/x/b", "a/x/y/b"], ["ab", "a/xb"]),
        (["**/b"], ["b", "a/b", "a/x/b"], ["ab"]),
        (["**.pyx"], ["a.pyx", "a/b.pyx", ".pyx"], ["a.pyxx"]),
        (["a**b"], ["ab", "ax/b"], ["axb"]),
        (["a**"], ["a", "abc", "a/b"], ["ba"]),
        # classes and escapes, as Go's filepath.Match has them
        (["[ab].txt"], ["a.txt", "b.txt"], ["c.txt", "ab.txt"]),
        (["[a-c]x"], ["ax", "cx"], ["dx", "-x"]),
        (["[^a]x"], ["bx"], ["ax"]),
        (["[!a]x"], ["!x", "ax"], ["bx"]),
        (["[[]x"], ["[x"], ["x"]),
        ([r"\*.txt"], ["*.txt"], ["a.txt"]),
        ([r"\!a", r"\#b"], ["!a", "#b"], ["a", "b"]),
        (
            ["a.b", "a+b", "(a)", "a|b", "^a", "a$"],
            ["a.b", "a+b", "(a)", "a|b", "^a", "a$"],
            ["aab"],
        ),
        # dots are no special files, and case counts
        (["*"], [".hidden", "a"], []),
        (["Readme"], ["Readme"], ["README"]),
        (["a\u00e9*"], ["a\u00e9", "a\u00e9/x"], ["ae"]),
    ],
)
def test_a_pattern_means_what_docker_means(
    lines: list[str], out: list[str], kept: list[str]
) -> None:
    ignore = Dockerignore(lines)
    assert [path for path in out if not ignore.exclusion(path)] == []
    assert [path for path in kept if ignore.exclusion(path)] == []


@pytest.mark.parametrize(
    "path",
    [
        ".git",
        ".git/config",
        "a/__pycache__/x.pyc",
        "x.pyc",
        ".venv/bin/python",
        "sub/venv/x",
        ".env",
        "sub/.env",
        "sub/.env.production",
        ".netrc",
        ".aws/credentials",
        ".ssh/id_rsa",
        ".config/gcloud/credentials.db",
        "certs/key.pem",
        # what entered an image, or might
        *("server.key", "TLS.KEY", "a/ID_RSA", "id_ed25519.pub", ".npmrc", ".pgpass", "prod.env"),
        *("Prod.ENV", ".ENV", ".Netrc", "_netrc", ".yarnrc.yml", ".my.cnf", ".htpasswd", "a.PFX"),
        *(".dockercfg", ".vault-token", "terraform.tfstate", "x.auto.tfvars", ".databrickscfg"),
        *("kaggle.json", ".kaggle/kaggle.json", ".huggingface/token", ".cache/huggingface/token"),
        *("client_secret_1.json", "my-service-account-key.json", "hf_token", "gh.token", ".token"),
        *(".config/gh/hosts.yml", ".cargo/credentials.toml", "secrets/db.txt", ".SECRETS/x"),
        *("kubeconfig", "prod.kubeconfig", "x.keytab", "vault.kdbx", "home.ovpn", "putty.ppk"),
        *("token.txt", "wandb_token.txt", "OPENAI_API_KEY", "api-key.txt", "k8s/secret.yaml"),
        "node_modules/x",
        ".DS_Store",
    ],
)
def test_secrets_and_rubbish_stay_out_unless_taken_back_in(path: str) -> None:
    assert Dockerignore([]).exclusion(path)
    assert not Dockerignore([f"!{path}"]).exclusion(path)


@pytest.mark.parametrize(
    "pattern", ["!src", "!src/", "!src/**", "!src/*", "!**", "!src/**/*.py", "!src/b"]
)
@pytest.mark.parametrize(
    "path",
    [
        *("src/.env", "src/a.pyc", "src/.git/a.py", "src/.venv/a.py", "src/b/secrets/a.py"),
        "src/b/__pycache__/a.pyc",
    ],
)
def test_a_pattern_for_a_folder_or_a_type_does_not_return_what_always_stays_out(
    pattern: str, path: str
) -> None:
    """`*` and then `!src` is how many people write which folders an image needs."""
    ignore = Dockerignore(["*", pattern])
    assert ignore.exclusion(path)
    assert not ignore.exclusion("src/b/train.py")


def test_why_a_file_of_a_returned_folder_is_left_out() -> None:
    assert Dockerignore(["*", "!src"]).exclusion("src/.env") == "may contain credentials"
    assert Dockerignore(["*", "!src", "src"]).exclusion("src/.env") == "named in .dockerignore"


@pytest.mark.parametrize(
    ("lines", "path"),
    [
        (["*", "!src", "!src/.env"], "src/.env"),
        (["*", "!src/.env", "!src"], "src/.env"),  # the order of both does not matter
        (["*", "!src", "!src/*.pem"], "src/ca.pem"),
        (["*", "!**/.venv/**"], "a/.venv/lib/cacert.pem"),
        (["!.venv"], ".venv/lib/.env"),
        (["*", "!sr[c]/.e*"], "src/.env"),
    ],
)
def test_a_pattern_with_the_name_returns_it(lines: list[str], path: str) -> None:
    ignore = Dockerignore(lines)
    assert ignore.exclusion(path) is None
    assert ignore.is_included(path)


@pytest.mark.parametrize(
    "path",
    [
        *("train.py", "environment.yml", ".gitignore", "sub/.github/x", "env/x", "pem", ".config"),
        *("keys.py", "tokens/train.bin", "tokenizer.json", "token_ids.npy", "id_map.csv", "env.py"),
        *("secretary.yaml", "token_counts.txt", "api_keys.py"),
        *(
            "special_tokens_map.json",
            "hf_tokenizer.json",
            "secrets.py",
            "credentials.py",
            "key",
            "monkey.txt",
        ),
    ],
)
def test_other_files_stay_in(path: str) -> None:
    assert not Dockerignore([]).exclusion(path)


def test_a_file_with_a_byte_order_mark_and_windows_line_ends(tmp_path: Path) -> None:
    (tmp_path / ".dockerignore").write_bytes(b"\xef\xbb\xbf*.a\r\n# x\r\n*.b\r\n")
    ignore = Dockerignore.of(tmp_path)
    assert [name for name in ("x.a", "x.b", "x.c") if ignore.exclusion(name)] == ["x.a", "x.b"]


@pytest.mark.parametrize("pattern", ["a[", "[]", "[z-a]", "x[a"])
def test_a_pattern_that_docker_refuses_is_refused_with_its_place(
    tmp_path: Path, pattern: str
) -> None:
    (tmp_path / ".dockerignore").write_text(f"# one\n{pattern}\n")
    with pytest.raises(RsctlError) as caught:
        Dockerignore.of(tmp_path)
    [finding] = caught.value.findings
    assert caught.value.exit_code == ExitCode.USAGE
    place = (finding.file, finding.line, finding.column)
    assert place == (str(tmp_path / ".dockerignore"), 2, 1)
    assert f"docker does not accept the pattern {pattern!r}" in finding.message
