"""What is never copied into an image, such as credentials, and what only looks like it."""

from __future__ import annotations

import os
from base64 import b64encode
from pathlib import Path

import pytest

from rsctl.bench.formats import junit
from rsctl.bench.formats.openmetrics import openmetrics
from rsctl.bench.gate import Gate
from rsctl.bench.results import CellRuns, Results, Series
from rsctl.bench.verdict import Verdict
from rsctl.images.context import source_entries
from rsctl.job.secret_names import has_secret
from rsctl.results.report.page import Page

from .conftest import context

KEY = '{"type": "service_account", "private_key": "x"}'


def test_what_is_known_by_its_content_is_left_out(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RSCTL_HOME", str(source / "runs"))
    (source / "key.json").write_text(KEY)
    (source / "config.json").write_text('{"type": "service_account"}')
    (source / "env" / "bin").mkdir(parents=True)
    (source / "env" / "pyvenv.cfg").touch()
    (source / "runs").mkdir()
    made = context(source)
    assert made.left_out == [
        ("env", "a virtual environment"),
        ("key.json", "a service account key"),
        ("runs", "the folder in which rsctl stores its runs"),
    ]
    assert "source/config.json" in [entry.name for entry in made.entries]


def test_the_folder_of_runs_is_left_out_by_any_path(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = source.parent / "link"
    link.symlink_to(source)
    monkeypatch.setenv("RSCTL_HOME", str(link / "runs"))
    (source / "runs").mkdir()
    assert context(source).left_out == [("runs", "the folder in which rsctl stores its runs")]


def test_what_rsctl_get_has_fetched_into_the_folder_of_its_run_is_left_out(source: Path) -> None:
    """Beside a job file, where `rsctl get RUN` makes that folder; one with a name of its own stays:
    a job may start from its checkpoint.
    """
    for name in ("digits-ab12cd", "pretrained"):
        (source / name / "checkpoints").mkdir(parents=True)
        (source / name / "checkpoints" / "last.pt").touch()
        (source / name / ".rsctl-get").write_text('{"run":"digits-ab12cd"}\n')
    made = context(source)
    assert made.left_out == [("digits-ab12cd", "results of a run, which rsctl get has fetched")]
    assert "source/pretrained/checkpoints/last.pt" in [entry.name for entry in made.entries]


def test_a_pipe_with_the_name_of_an_index_is_not_waited_for(source: Path) -> None:
    os.mkfifo(source / ".rsctl-get")
    assert context(source).left_out == [(".rsctl-get", "it is not a regular file")]


def test_what_report_and_profile_have_written_is_left_out(source: Path) -> None:
    """Beside a job file too, where both write; the next image would be another one."""
    (source / "report.html").write_text(Page().html("rsctl report: digits-ab12cd", [], ""))
    (source / "digits-ab12cd-profile").mkdir()
    (source / "digits-ab12cd-profile" / "rank-0.folded.txt").write_text("main;step 3\n")
    (source / "page.html").write_text("<!doctype html>\n<title>our reports</title>")
    made = context(source)
    assert [path for path, _ in made.left_out] == [
        "digits-ab12cd-profile/rank-0.folded.txt",
        "report.html",
    ]
    assert "source/page.html" in [entry.name for entry in made.entries]


def test_reports_for_ci_systems_are_left_out(source: Path) -> None:
    """A gate writes them while it runs, beside the job file in most recipes."""
    series = [Series(name="speed", goal="max", values=[1.0, 2.0])]
    results = Results(label="digits-bench-ab12cd", kind="bench", series=series)
    gate = Gate(verdict=Verdict.PASS, exit_code=0, baseline="b", candidate="c", checks=[])
    reports = {
        "begun.xml": junit.before("digits", ["runs"], ["speed"]).encode(),
        "ended.xml": junit.after("digits", [CellRuns(cell={})], gate).encode(),
        "metrics.txt": openmetrics(results).encode(),
    }
    others = {
        "pytest.xml": b'<testsuites name="pytest tests"><testsuite name="pytest" tests="1"/>',
        "node.txt": b"# TYPE node_load1 gauge\n",
    }
    for name, content in {**reports, **others}.items():
        (source / name).write_bytes(content)
    made = context(source)
    assert [path for path, _ in made.left_out] == sorted(reports)


PRIVATE_KEY = f"-----BEGIN {{}}PRIVATE KEY-----\n{'a' * 64}\n{'b' * 20}==\n-----END"


@pytest.mark.parametrize("kind", ["", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "])
def test_a_private_key_of_any_name_is_left_out(source: Path, kind: str) -> None:
    (source / "deploy.txt").write_text("# of the cluster\n" + PRIVATE_KEY.format(kind))
    (source / "crlf").write_bytes(PRIVATE_KEY.format(kind).replace("\n", "\r\n").encode())
    (source / "keys.py").write_text(f'MARK = """\n{PRIVATE_KEY.format(kind)}"""')
    (source / "notes.txt").write_text("it begins with -----BEGIN PRIVATE KEY----- and so on")
    made = context(source)
    assert made.left_out == [("crlf", "a private key"), ("deploy.txt", "a private key")]
    assert {"source/keys.py", "source/notes.txt"} <= {entry.name for entry in made.entries}


def test_a_secret_key_of_aws_is_left_out(source: Path) -> None:
    key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"  # of AWS's documentation
    (source / "settings").write_text(f"[default]\nAWS_SECRET_ACCESS_KEY = {key}\n")
    (source / "empty.ini").write_text("aws_secret_access_key =\n")
    assert context(source).left_out == [("settings", "an AWS secret key")]


@pytest.mark.parametrize("token", ["hf_" + "aB3" * 12, "ghp_" + "xY7z" * 9, "sk-" + "a1-B" * 10])
def test_a_token_alone_in_a_file_is_left_out(source: Path, token: str) -> None:
    (source / "tokens").mkdir()
    (source / "tokens" / "hub").write_text(f"{token}\n")
    (source / "words.txt").write_text(f"the form is {token}\n")
    (source / "tokens" / "train.bin").write_bytes(b"hf_\x00\x01")
    assert context(source).left_out == [("tokens/hub", "a token")]


# Each as a rule of gitleaks or of TruffleHog has it: see rsctl/job/token_forms.py.
ISSUED = [
    *(f"{kind}_" + "xY7z" * 9 for kind in ("ghp", "gho", "ghu", "ghs", "ghr")),
    "github_pat_" + "a1_B" * 20 + "cd",
    "glpat-" + "a1-B_" * 4,
    "glpat-" + "a1-B_" * 6 + ".a1b2c3d4e",
    "hf_" + "aB" * 17,
    "api_org_" + "aB" * 17,
    "npm_" + "a1" * 18,
    "pypi-AgEIcHlwaS5vcmc" + "a1-B_" * 10,
    "sk-" + "a1" * 10 + "T3BlbkFJ" + "b2" * 10,
    "sk-proj-" + "a1" * 37 + "T3BlbkFJ" + "b2" * 37,
    "AIza" + "a1-B_" * 7,
    "xoxb-123456789012-123456789012-" + "a1" * 12,
    "xoxp-123456789012-123456789012-123456789012-" + "a1" * 14,
    "xoxo-1234567890-1234567890-1234567890-abcdef",
    "xoxe.xoxp-1-" + "A1" * 82,
    "xapp-1-A1B2C3-123456-" + "a1" * 10,
    "hvs." + "a1-B_" * 18,
    "hvb." + "a1-B_" * 28,
    "dop_v1_" + "a1" * 32,
    "sk_live_" + "a1B2" * 6,
    "rk_prod_" + "a1B2" * 6,
    "SG." + "a1-B_." * 11,
    "glrt-" + "a1-B_" * 4,
    "glsa_" + "a1B2" * 8 + "_0a1b2c3d",
    "dapi" + "a1" * 16,
    "shpat_" + "a1" * 16,
    "pul-" + "a1" * 20,
    "ntn_12345678901" + "aB" * 17 + "c",
    "SK" + "a1" * 16,
    "1234567890:AA" + "a1-B_bC" * 4 + "x1y2z",
    "NRAK-" + "A1B" * 9,
    "gsk_" + "a1B2" * 13,
    "r8_" + "a1B2" * 9 + "c",
    "xai-" + "a1B2" * 20,
    "pcsk_3aB1xY_" + "a1B2" * 15 + "c3d",
    "tvly-dev-" + "a1B2" * 8,
    "tvly-" + "a1B2" * 8,
    "sbp_" + "a1b2" * 10,
    "sb_secret_" + "a1-B_" * 6 + "c",
    "jina_" + "a1b2" * 8 + "a1B2" * 7,
    "fc-" + "a1b2" * 8,
    "sl.u." + "a1-B_" * 28,
    "sk_" + "a1b2" * 12,
    "tskey-auth-" + "a1B2" * 4 + "-" + "a1B2" * 8,
    "tgp_v1_" + "a1-B_" * 8 + "a1B",
    "a1B2" * 13 + "JQQJ99BCACHYHv6XJ3w3AAABACOGa1b2",
    "a1B2" * 13 + "JQQJ99BFACAAAAALGcqjAAASAZDO3eqU",
    "sk-lf-0a1b2c3d-0a1b-4c2d-8e3f-0a1b2c3d4e5f",
    "MTAwMDAwMDAwMDAwMDAwMDAw" + ".Gab1c2." + "a1-B_" * 7,
    "eyJhbGciOiJIUzI1NiJ9x.eyJzdWIiOiIxMjM0NTY3ODkwIn0." + "a1-B_" * 8,
]


@pytest.mark.parametrize("token", ISSUED)
def test_tokens_as_a_maintained_scanner_knows_them(source: Path, token: str) -> None:
    (source / "alone").write_text(f"{token}\n")
    (source / "settings").write_text(f"KEY={token}\n")
    (source / "x.xml").write_text(f'<add key="x">\n  {token}\n</add>')
    names = ["alone", "settings", "x.xml"]
    assert context(source).left_out == [(name, "a token") for name in names]
    assert has_secret(f"train.py --key {token}")


RANDOM = "Zq8vT2mK" + "x4R9bW7c" * 8
HEX = "0a9f3c1d7e" * 4
SERVICE_ACCOUNT = b'{"type": "service_account", "private_key": "' + b"aB3/" * 80 + b'"}'
NEPTUNE = b64encode(b'{"api_address":"https://app.neptune.ai","api_key":"' + b"0a" * 16).decode()
SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"  # of AWS's documentation
TOKEN = "hf_" + "aB3" * 12
USER = '{"client_id": "a", "client_secret": "b", "refresh_token": "c", "type": "authorized_user"}'


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (USER, "a user's credentials"),
        (f'{{"Credentials": {{"SecretAccessKey": "{SECRET}"}}}}', "an AWS secret key"),
        (f"export AWS_SECRET_ACCESS_KEY={SECRET}\n", "an AWS secret key"),
        (f"  set AWS_SECRET_ACCESS_KEY={SECRET}\r\n", "an AWS secret key"),
        (f"Access key ID,Secret access key\nAKIA{'A' * 16},{SECRET}\n", "an AWS secret key"),
        (f"HF_TOKEN={TOKEN}\n", "a token"),
        (f"export HF_TOKEN='{TOKEN}'", "a token"),
        (f'{{"token": "{TOKEN}"}}', "a token"),
        (f"hub:\n  token: {TOKEN}\n", "a token"),
        (PRIVATE_KEY.format("").replace("\n", "\n    "), "a private key"),
        ('{"key": "' + PRIVATE_KEY.format("RSA ").replace("\n", "\\n") + '"}', "a private key"),
        (PRIVATE_KEY.format("").replace("-----\na", "-----\nProc-Type: 4,X\n\na"), "a private key"),
        ("x\n" * 100_000 + PRIVATE_KEY.format("EC "), "a private key"),
        (PRIVATE_KEY.format("") + "\n" + "x\n" * 900_000, "a private key"),
        ("x\n" * 900_000 + PRIVATE_KEY.format("") + "\n" + "x\n" * 900_000, "a private key"),
        ("x" * (1 << 20) + "\n" + "y" * 900_000 + PRIVATE_KEY.format("DSA "), "a private key"),
        (
            f"aws:\n  secret: {SECRET}\n  id: AKIA{'Z2' * 8}\n  other: {SECRET}\n",
            "an AWS secret key",
        ),
        (f'{{"id": "ASIA{"Z2" * 8}", "key": "{SECRET}"}}', "an AWS secret key"),
        (f"aws_secret_key: >-\n  {SECRET}\n", "an AWS secret key"),
        (f"secretKey: {SECRET}\n", "an AWS secret key"),
        ("PuTTY-User-Key-File-3: ssh-ed25519\nPrivate-Lines: 1\nAAAA\n", "a private key"),
        ("# created\nAGE-SECRET-KEY-1" + "QPZRY9X8" * 7 + "GF\n", "an age key"),
        ("users:\n- user:\n    client-key-data: LS0tLS1CRUdJTiBSU0E=\n", "a kubeconfig"),
        ("clusters: []\ncontexts: []\nusers:\n- user: {token: abcdefgh12}\n", "a kubeconfig"),
        (
            "clouds:\n  own:\n    auth:\n      auth_url: https://keystone\n      username: ann\n"
            "      password: blue\n",
            "credentials of OpenStack",
        ),
        ("kind: Secret\nmetadata: {name: a}\ndata:\n  a: cGFzc3dvcmQx\n", "a Kubernetes secret"),
        ('{"data": {"a": "cGFzc3dvcmQx"}, "kind": "Secret"}', "a Kubernetes secret"),
        ("db: postgres://me:s3cret@db.host/x\n", "a password in a link"),
        ("--extra-index-url https://me:s3cret@host/simple\n", "a password in a link"),
        (f"to: https://hooks.slack.com/services/{'T1B2' * 11}\n", "a webhook"),
        (f"https://discord.com/api/webhooks/{'1' * 18}/{'a-B_' * 17}\n", "a webhook"),
        (
            f"https://outlook.office.com/webhook/{'a1' * 18}@{'a1' * 18}/IncomingWebhook/"
            f"{HEX[:32]}\n",
            "a webhook",
        ),
        (
            f"https://a.logic.azure.com/workflows/x/triggers/manual?sp=%2F&sig={'a1-B_' * 8}abc\n",
            "a link with a shared access signature",
        ),
        (f'{{"kty": "oct", "k": "{"aB3-" * 10}", "alg": "HS256"}}', "a private key"),
        (
            f"---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\nComment: x\n{'a' * 64}\n{'b' * 64}\n",
            "a private key",
        ),
        (
            f"https://a.blob.core.windows.net/c?sv=2024&sig={'a1%2F' * 10}%3D&se=2026\n",
            "a link with a shared access signature",
        ),
        (
            '{"AccessToken": {}, "RefreshToken": {"k": {"secret": "0.AXoA-abcdefghijkl"}}}',
            "a token cache",
        ),
        ('{"accessToken": "aoaAAAAAGabcdefghi", "expiresAt": "2026"}', "a token cache"),
        (f"Authorization: Bearer {TOKEN}\n", "a token"),
        ('{"auths": {"h": {"identitytoken": "dXNlcjpwYXNz"}}}', "registry credentials"),
        ('{"auths": {"h": {"auth": "dXNlcjpwYXNz"}}}', "registry credentials"),
        ("machine h login me password secret", ".netrc credentials"),
        ("default login me password secret", ".netrc credentials"),
        ("machine h\n password secret\n login me\n", ".netrc credentials"),
        ("[default]\naws_secret_access_key = abc123def\n", "an AWS secret key"),
        (f"git+https://{'ghp_' + 'xY7z' * 9}@github.com/a/b.git\n", "a token"),
        (f"[submodule a]\n  url = https://{'ghp_' + 'xY7z' * 9}:@github.com/a\n", "a token"),
        (f"[Interface]\nPrivateKey = {'aB3/' * 10}aB3=\n", "a WireGuard key"),
        (f"key: {b64encode(SERVICE_ACCOUNT).decode()}\n", "a service account key"),
        (f"{b64encode(b' ' + SERVICE_ACCOUNT).decode()}\n", "a service account key"),
        (f'{{"kty": "EC", "x": "a", "d": "{"aB3-" * 10}"}}', "a private key"),
        *(
            (f"key: {b64encode(PRIVATE_KEY.format(kind).encode()).decode()}\n", "a private key")
            for kind in ("", "RSA ", "EC ")
        ),
        (f"accountName a\naccountKey {'aB3/' * 21}aB==\n", "a storage account key"),
        (
            f"azstorage:\n  account-name: a\n  accountKey: {'aB3/' * 21}aB==\n",
            "a storage account key",
        ),
        (f'{{"username": "me", "key": "{HEX[:32]}"}}', "a key of Kaggle"),
        (f"{NEPTUNE}\n", "a token"),
        (f"NEPTUNE_API_TOKEN={NEPTUNE}\n", "a token"),
        (f"<server><password>{RANDOM}</password></server>\n", "a generated secret"),
        (f"wandb:\n  login: wandb_v1_{RANDOM}_{HEX}\n", "a token"),
        (f"apikey = {RANDOM}\n", "a generated secret"),
        (f"[default]\napi_key={HEX}\n", "a generated secret"),
        (f"export WANDB_API_KEY={HEX}\n", "a generated secret"),
        (f"tracking:\n  api_key: '{HEX}'\n", "a generated secret"),
        (f'{{"applicationKey":"{RANDOM}"}}', "a generated secret"),
        (f'[[contexts]]\n  token = "{RANDOM}"\n', "a generated secret"),
        (f'api {{ credentials {{ "secret_key" = "{RANDOM}" }} }}', "a generated secret"),
        (f"2024-01-01 login with --password={RANDOM}\n", "a generated secret"),
    ],
)
def test_credentials_of_any_form_are_left_out(source: Path, content: str, reason: str) -> None:
    (source / "notes.cfg").write_text(content)
    assert context(source).left_out == [("notes.cfg", reason)]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_credentials_in_another_encoding_are_left_out(source: Path, encoding: str) -> None:
    contents = {
        "key": (PRIVATE_KEY.format(""), "a private key"),
        "netrc": ("machine h login me password secret", ".netrc credentials"),
        "token": (f"HF_TOKEN={TOKEN}\n", "a token"),
    }
    for name, (content, _) in contents.items():
        (source / f"{name}.cfg").write_bytes(content.encode(encoding))
    expected = [(f"{name}.cfg", reason) for name, (_, reason) in contents.items()]
    assert context(source).left_out == expected


@pytest.mark.parametrize(
    "name",
    [
        *("credentials", "rootkey_accessKeys.csv", "new_user_credentials.csv", "token.json"),
        *("auth.json", "pip.conf", ".condarc", ".env~", ".envrc.bak", "prod.env.old", "key.der"),
        *("#.env#", "..env.swp", ".env.swp", "id_rsa.bak", "server.pem.orig", "kaggle.json~"),
        *(
            ".comet.config",
            "msal_token_cache.json",
            "gha-creds-0a1b.json",
            "cookies.txt",
            "x.agekey",
        ),
        *("terraform.tfvars.json", "modal.toml", "trains.conf", "auth.toml", "lambda_keys"),
        *("cookies.json", "cookies.sqlite", "storage_state.json", "local.settings.json"),
        *(".vault_pass", "vault_pass.txt", "password.txt", "db_password.txt", "apikey.txt"),
        *("api_keys.json", "kaggle_creds.json", "Chrome Passwords.csv"),
        *("kaggle (1).json", "Credentials (2).json", ".env copy", "hf_token - Copy.txt"),
        *("kaggle copy 2.json", "kaggle - Copy (2).json"),
        *("id_rsa (copy)", "gcp-credentials.json", "1password-credentials.json", "a.tfplan"),
        *("basic_auth.ini", "jupyter_cookie_secret", ".passwd-s3fs", "krb5cc_1000"),
        *("x/access_tokens.db", ".obsutilconfig", "credentials-config.json"),
        *("credentials.bak", "x/credentials", ".netrc.save", "terraform.tfstate.1~"),
    ],
)
def test_more_names_of_credentials(source: Path, name: str) -> None:
    (source / name).parent.mkdir(exist_ok=True)
    (source / name).touch()
    assert context(source).left_out == [(name, "may contain credentials")]


@pytest.mark.parametrize(
    "name",
    [
        *(".ngc/config", ".config/hcloud/cli.toml", ".jupyter/jupyter_server_config.json"),
        *(".subversion/auth/svn.simple", ".paperspace/config.json", ".zenml/config.yaml"),
        *(".config/op/config", ".config/argocd/config", ".dbt/profiles.yml", ".polyaxon/.auth"),
        *(".local/share/jupyter/runtime/jpserver-12.json", ".local/share/uv/credentials/a.toml"),
    ],
)
def test_folders_with_credentials(source: Path, name: str) -> None:
    path = source / name
    path.parent.mkdir(parents=True)
    path.write_text("a\n")
    assert context(source).left_out == [(str(Path(name).parent), "may contain credentials")]


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("name", ["secret.txt", "wandb_key.txt", "github_pat"])
def test_the_name_of_a_file_names_its_only_value(source: Path, name: str, mark: str) -> None:
    (source / name).write_text(f"{mark}{HEX}\n")
    (source / "commit.txt").write_text(f"{HEX}\n")
    assert context(source).left_out == [(name, "a generated secret")]


def test_settings_of_editors_with_passwords_are_left_out(source: Path) -> None:
    for name in (".vscode/sftp.json", ".vscode/settings.json", ".idea/webServers.xml"):
        (source / name).parent.mkdir(exist_ok=True)
        (source / name).write_text("{}")
    assert [path for path, _ in context(source).left_out] == [
        ".idea/webServers.xml",
        ".vscode/sftp.json",
    ]


def test_the_local_configuration_of_dvc_is_left_out(source: Path) -> None:
    (source / ".dvc").mkdir()
    for name in ("config", "config.local"):
        (source / ".dvc" / name).write_text("[core]\n")
    assert context(source).left_out == [(".dvc/config.local", "may contain credentials")]


def test_nested_repositories_are_left_out(source: Path) -> None:
    (source / "third" / ".git").mkdir(parents=True)
    (source / "third" / ".git" / "config").write_text("url = https://me:token@example.com/a")
    assert context(source).left_out == [("third/.git", "version control")]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("credentials/__init__.py", ""),
        ("model.py.bak", ""),
        ("tokens (1).txt", ""),
        ("tokencopy.txt", ""),
        ("ca-bundle.crt", f"-----BEGIN CERTIFICATE-----\n{'aB3/' * 16}\n-----END"),
        ("user.json", '{"username": "me", "key": "image_0001"}'),
        ("config.yaml", "secret_access_key: ${AWS_SECRET_ACCESS_KEY}\ntoken: ${HF_TOKEN}\n"),
        ("data.csv", f"AKIA,{'a' * 50}\n"),
        ("data.bin", "\0" + TOKEN),
        ("requirements.txt", "git+https://${TOKEN}@github.com/a/b\n"),
        ("app.yaml", "db: postgres://${USER}:${PASSWORD}@db/x\nurl: http://a:8080/b@c\n"),
        ("compose.yaml", "db: postgres://postgres:postgres@localhost:5432/x\n"),
        ("values.yaml", "kind: ConfigMap\ndata:\n  a: cGFzc3dvcmQx\n"),
        ("kube.yaml", "clusters: []\ncontexts: []\nusers:\n- user: {token: $TOKEN}\n"),
        ("words.txt", "the form of a key is AGE-SECRET-KEY-1... and a PuTTY-User-Key-File-3\n"),
        ("example.yaml", f"hf_token: hf_{'x' * 34}\n"),
        ("go.txt", "timeout: s.AcceptanceTimeoutSeconds\n"),
        ("ids.json", f'{{"id": "AKIA{"Z2" * 8}", "sha1": "{"0a" * 20}"}}'),
        ("big.txt", "word " * 500_000),
        ("tokenizer.json", '{"eos_token": "<|endoftext|>", "token_id": 123, "pad_token": "[PAD]"}'),
        ("package-lock.json", f'{{"integrity": "sha512-{"aB3/" * 21}=="}}'),
        ("dvc.lock", f"deps:\n- path: token\n  md5: {HEX[:32]}\n"),
        (
            "config.toml",
            "password = 'change-me-Please-123456'\napi_key = 'YOUR_Api_Key_12345678901'\n",
        ),
        (
            "config.cfg",
            "api_key = ${API_KEY}\nsecret_key = {{ vault.Key1234567890abcdef }}\n",
        ),
        ("values.ini", f"commit = {HEX}\nkey = {RANDOM}\nmax_tokens = {'1' * 30}\n"),
        (
            "paths.txt",
            "token: s3://Data1/Models2/abcdef0123456789\nsecret: /mnt/Data1/keys2/a/b/c/d/e/f\n",
        ),
        (
            "arn.yaml",
            "db: arn:aws:secretsmanager:eu-west-1:1:secret:MyTestDatabaseSecret1-d4e5f6\n",
        ),
        ("page.json", f'{{"NextContinuationToken": "{RANDOM}"}}'),
        (
            "docs.yaml",
            "api_key: wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLE\npassword: xxxxxxxxxxxxxxxxxxxxA1a\n",
        ),
        ("pom.xml", f"<password>${{env.PASSWORD}}</password><sha1>{HEX}</sha1>\n"),
        ("ca.yaml", f"ca: {b64encode(b'-----BEGIN CERTIFICATE-----' + b'a' * 200).decode()}\n"),
        ("app.js", f"const token = '{RANDOM}'\n"),
        ("requirements.lock", f"token==1.0 --hash=sha256:{HEX[:32] * 2}\n"),
        ("aws.ini", "aws_secret_access_key = ${KEY1}\naws_secret_access_key = <SECRET>\n"),
        ("netrc.txt", "the default login and password of a machine\n"),
    ],
)
def test_what_holds_no_credentials_stays(source: Path, name: str, content: str) -> None:
    (source / name).parent.mkdir(exist_ok=True)
    (source / name).write_text(content)
    assert context(source).left_out == []


PROGRAMS = ".py .ipynb .sh .md .rst .c .cc .cpp .h .cu .go .rs"
PAGES = (
    ".js .mjs .cjs .jsx .ts .tsx .java .kt .scala .rb .php .pl .lua .jl .r .m .swift .cs .cxx .hpp "
    ".hh .cuh .proto .pyi .pyx .html .htm .css .svg .map .bash .zsh .ps1 .bat .tex"
)


def test_programs_may_write_about_secrets(source: Path) -> None:
    """In programs of the usual languages, and notebooks, nothing is taken for a secret."""
    generated, key = f"token = '{RANDOM}'\n", PRIVATE_KEY.format("")
    for kind in (*PROGRAMS.split(), *PAGES.split()):
        (source / f"a{kind}").write_text(generated)
        (source / f"B{kind.upper()}").write_text(generated)
        (source / f"key{kind}").write_text(key)
    assert context(source).left_out == sorted(
        (f"key{kind}", "a private key") for kind in PAGES.split()
    )


def test_what_is_known_by_its_content_can_be_taken_back_in(source: Path) -> None:
    (source / "key.json").write_text(KEY)
    (source / ".dockerignore").write_text("!key.json\n")
    assert context(source).left_out == []


def test_a_folder_that_is_taken_back_brings_no_credentials_or_caches(source: Path) -> None:
    (source / ".dockerignore").write_text("*\n!pkg\n")
    before = context(source).digest()
    (source / "pkg" / ".env").write_text("A=1")
    (source / "pkg" / "key.json").write_text(KEY)
    (source / "pkg" / "__pycache__").mkdir()
    (source / "pkg" / "__pycache__" / "a.pyc").touch()
    assert context(source).digest() == before


NAMES_OF_CREDENTIALS = """
.env .env.x x.env .envrc .netrc _netrc .pypirc .npmrc .yarnrcx .git-credentials .boto .s3cfg
.pgpass pgpass.conf .my.cnf .mylogin.cnf .htpasswd .dockercfg .dockerconfigjson .vault-token
.terraformrc x.tfvars x.tfstate x.tfstate.x .databrickscfg .snowsql .rclone.conf rclone.conf
kaggle.json .kaggle .modal.toml .bash_history .zsh_history .python_history kubeconfig x.kubeconfig
secrets.toml secrets.yxml secrets.json secret.yxml secret.json auth.json pip.conf pip.ini .condarc
.envrc.x xaccesskeysx.csv xcredentialsx.csv gha-creds-x.json credentials.tfrc.json .comet.config
clearml.conf .clearml.conf .sentryclirc .cdsapirc .ecmwfapirc ngrok.yml .s3curl x.agekey
cookies.txt .urs_cookies .dodsrc nuget.config x.tfvars.json modal.toml trains.conf auth.toml
.secrets.x secrets.ini secrets.txt credentials.yxml credentials.toml credentials.ini
credentials.txt .vault_password xvault_password .env-x .env_x .dev.varsx .password .passwd .sshpass
xsmbcredentials xpg_service.conf .odbc.ini cqlshrc .msmtprc .fetchmailrc .erlang.cookie logins.json
key4.db secring.gpg x.keyring .vultr-cli.yaml .civo.json .config/openstack .config/scw
.config/configstore .config/helm .jfrog .anaconda/keyring x.jceks x.bcfks x.bks x.kdb x.1pux
lambda_keys xpasswordsx.csv .vault_pass xvault_pass.txt .vault-pass password.txt x_password.txt
x-password.txt cookies.json cookies.sqlite storage_state.json local.settings.json .aws .azure
.kube .docker .ssh .gnupg .oci .huggingface .ngc .config/hcloud .config/pypoetry/auth.toml
.config/gcloud .config/gh .config/rclone .config/hub .cargo/credentialsx .cache/huggingface/token
.cache/huggingface/stored_tokens .gem/credentials .dvc/config.local
.dvc/tmp/gdrive-user-credentials.json .mc/config.json .fly .pulumi/credentials.json
.m2/settings.xml .config/doctl .databricks .snowflake .secrets secrets .credentials .tokens
id_rsax id_dsax id_ecdsax id_ed25519x id_xmssx x.pem x.key x.p8 x.p12 x.pfx x.ppk x.jks x.keystore
x.keytab x.kdbx x.ovpn x.der x.asc.key application_default_credentials.json credentials.json
credentials.db client_secretx.json xservice-accountx.json xservice_accountx.json .token x.token
x_token x-token hf_token.x access_token.x token.txt token.json tokens.json x_token.json
x-token.json xtoken_cachex xtoken-cachex xtokencachex accesstokens.json x_token.txt x-token.txt
xapi_key xapi_key.txt xapi-key xapi-key.txt xapikey xapikey.txt xapi_keys.json xapikeys.json
x_creds.json creds.json
"""
"""Names of files and folders, in which x stands for any text."""


def test_every_name_of_credentials_is_left_out(tmp_path: Path) -> None:
    """In upper case too, and at any depth."""
    names = NAMES_OF_CREDENTIALS.split()
    for folder, shown in (("a", names), ("b/c", [name.upper() for name in names])):
        for name in shown:
            path = tmp_path / folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        excluded = dict(source_entries(tmp_path / folder, "")[1])
        assert excluded == dict.fromkeys(shown, "may contain credentials")


def test_what_tools_make_is_left_out(tmp_path: Path) -> None:
    names = {
        "version control": ".git .hg .svn",
        "generated by tools, which generate it again when needed": (
            "__pycache__ x.pyc .mypy_cache .ruff_cache .pytest_cache .ipynb_checkpoints .DS_Store "
            "node_modules"
        ),
        "a virtual environment": ".venv venv",
    }
    expected = {name: reason for reason, each in names.items() for name in each.split()}
    for name in expected:
        (tmp_path / name).mkdir()
    excluded = dict(source_entries(tmp_path, "")[1])
    assert excluded == expected


def test_a_link_is_not_judged_by_what_it_leads_to(source: Path, tmp_path: Path) -> None:
    """It is copied as a link; a file of the source is judged where it lies."""
    (tmp_path / "outside.txt").write_text(f"api_key={HEX}\n")
    (source / "kept").symlink_to("../outside.txt")
    found = context(source)
    assert found.left_out == []
    assert {entry.name: entry.link for entry in found.entries}["source/kept"] == "../outside.txt"
