"""One rule decides which names are those of secrets, and what is shown without them."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

import pytest

from rsctl.job.document import read
from rsctl.job.env_checks import without_secret
from rsctl.job.kept_text import kept_text
from rsctl.job.parameters import parameters_of
from rsctl.job.secret_names import (
    has_assigned_secret,
    is_secret_name,
    is_secret_variable,
    public_arguments,
    public_document,
    public_text,
    public_variables,
)


@pytest.mark.parametrize(
    "name",
    [
        *("HF_TOKEN", "hf-token", "hf.token", "hfToken", "--hf-token", "token", "WANDB_API_KEY"),
        *("api-key", "apiKey", "apikey", "API-Key", "password", "db-password", "DB_PWD", "Secret"),
        *("aws-secret-access-key", "secretAccessKey", "private-key", "github-pat", "account_key"),
        *("authtoken", "CLIENTSECRET", "HFTOKEN", "HFToken", "CREDENTIALS", "DB_PASS", "creds"),
        *("GOOGLE_CREDENTIALS", "passcode", "AUTHORIZATION", "STORAGE_KEY", "PASSWORDS", "DB_PW"),
        *("api-keys", "authTokens", "_auth", "AWS_BEARER_TOKEN_BEDROCK", "VAULT_SECRET_ID"),
        *("VAULT_UNSEAL_KEY", "ENCRYPT_KEY", "SUPABASE_SERVICE_ROLE_KEY", "SNOWFLAKE_PASSWORD"),
        *("API_TOKENS", "smtp_pass", "userpass", "TOKEN_1", "API_KEY_2", "PASSWORD2", "openai-key"),
        *("HF_TOKEN_PROD", "SLACK_WEBHOOK_URL", "connectionString", "session_cookie", "SAS_URL"),
        *("KAGGLE_KEY", "ROBOFLOW_KEY", "GCP_SA_KEY", "SERVICE_ACCOUNT_JSON", "PRIVATE_KEY_PEM"),
        *("ROOTPW", "USERPWD", "tsAuthkey", "totpSecret", "MLFLOW_TRACKING_PASSWORD"),
        *("REDIS_AUTH", "SENTRY_DSN", "POETRY_PYPI_TOKEN_PYPI", "pw", "LABEL_STUDIO_KEY"),
        *("user_otp", "LANGFUSE_SECRET_KEY"),
        *("SECRET_KEY_BASE", "DOCKER_AUTH_CONFIG", "seed-phrase", "BASIC_AUTH", "github_jwt"),
        *("PASS", "--pass", "SIGNING_SECRET_V2", "HF_TOKEN_V2", "HF_TOKEN_RO", "HF_TOKEN_READ"),
        *("tokenRw", "API_KEYV2"),
    ],
)
def test_names_of_secrets(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    [
        *("lr", "max-tokens", "eos-token", "pad_token", "image-token", "loss-per-token", "key"),
        *("primary-key", "tokenizer", "secretary", "pattern", "path", "pwd", "AWS_ACCESS_KEY_ID"),
        *("tokens", "num_tokens", "eostoken", "add-token", "forward_pass", "n-pass", "compass"),
        *("sort_key", "cache_key", "s3-key", "public_key", "GOOGLE_APPLICATION_CREDENTIALS"),
        *("auth", "BEARER_TOKEN_FILE", "secret-id", "draft_token", "speech-token"),
        *("TOKENIZERS_PARALLELISM", "monkey", "keyframe", "passes", "tokenizer_path", "NUM_TOKENS"),
        *("key_padding_mask", "token_type_ids", "pass_rate", "patience", "NSA_KEY_DIM", "hotkey"),
        *("RENDEZVOUS_KEY", "use_auth", "dropout_p", "pin_memory", "stop", "adopt", "PWM"),
        *("first_pass", "eos_token_v2", "TOKENS_V2", "num_pass_v2", "RO", "PASSES", "token_rot"),
        *("num_tokens_2", "max_token", "password-file", "tokenizer_json", "author", "bypass"),
        *("shop-session-id", "LOOP_SESSION", "train_op_session", "ctf_token_length"),
        "LANGFUSE_PUBLIC_KEY",
    ],
)
def test_other_names(name: str) -> None:
    assert not is_secret_name(name)


@pytest.mark.parametrize(
    ("name", "value", "is_secret"),
    [
        ("LAKE_KEY", "q7Hd92kLmZx04PqRt61v", True),
        ("EXPERIMENT_AUTH", "3fa85f6457174562b3fc2c963f66afa6", True),
        ("SORT_KEY", "created_at", False),
        ("CACHE_KEY", "torch-linux", False),
        ("INDEX_KEY", "s3://Data/shards/2024/index-000.json", False),
        ("EXPERIMENT_KEY", "resnet50-imagenet-2024-baseline", False),
        ("RUN_NAME", "q7Hd92kLmZx04PqRt61v", False),
    ],
)
def test_a_generated_value_of_an_unknown_key(name: str, value: str, is_secret: bool) -> None:
    assert is_secret_variable(name, value) is is_secret


def test_a_command_line_without_secrets() -> None:
    given = [
        *("train.py", "--api-key", "s1", "--lr=0.1", "--hf-token=s2", "--Password", "s3", "-v"),
        *("model.api_key=s4", "HF_TOKEN=s5", "--save-password", "--lr", "2"),
        *("--eos-token", "</s>", "https://me:s6@host/x", "hf_abcdefghijklmnopqrstuvwx"),
    ]
    assert public_arguments(given) == [
        *("train.py", "--api-key", "***", "--lr=0.1", "--hf-token=***", "--Password", "***", "-v"),
        *("model.api_key=***", "HF_TOKEN=***", "--save-password", "--lr", "2"),
        *("--eos-token", "</s>", "https***", "***"),
    ]


def test_a_text_without_secrets() -> None:
    line = "env HF_TOKEN='a b' x --lr 1 --api-key \"s 1\" --password=s2 --pad-token p"
    assert (
        public_text("git+https://0123456789abcdef0123@h/x ssh://git@h")
        == "git+https*** ssh://git@h"
    )
    assert public_text(line) == (
        "env HF_TOKEN=*** x --lr 1 --api-key *** --password=*** --pad-token p"
    )


def test_a_text_with_many_spaces_is_read_before_the_time_limit_of_a_test() -> None:
    text = "name=a" + " " * 300_000
    assert public_text(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://h/x?v=1&token=s1&y=2", "https://h/x?v=1&token=***"),
        ("Server=x;Password=s1;Database=y", "Server=x;Password=***"),
        ("Server=x; Pwd = s1 s1;Uid=sa", "Server=x; Pwd = ***;Uid=sa"),
        ("AccountName=a;AccountKey=s1==;B=c", "AccountName=a;AccountKey=***"),
        ("https://b/c?sv=2024&sp=r&sig=s1%3D", "https://b/c?sv=2024&sp=r&sig=***"),
        ('{"lr": 1, "api_key": "s1 s1", "x": 2}', '{"lr": 1, "api_key": ***, "x": 2}'),
        ('{\\"db\\": {\\"password\\": \\"s1\\"}}', '{\\"db\\": {\\"password\\": ***}}'),
        ("{lr: 1, hf-token: s1, x: 2}", "{lr: 1, hf-token: ***, x: 2}"),
        ('{"api_keys": ["s1", "s1 s1"], "x": 2}', '{"api_keys": ***, "x": 2}'),
        ("{api_keys: [s1, 's1 s1'], x: 2}", "{api_keys: ***, x: 2}"),
        ("api_keys = ['s1', \"s1 s1\"]  # x", "api_keys = ***  # x"),
        ('--api-keys=["s1","s1 s1"] --lr 1', "--api-keys=*** --lr 1"),
        ("password=[s1]s1 password: [s1]s1", "password=*** password: ***"),
        ('[{"name": "API_KEY", "value": "s1 s1"}]', '[{"name": "API_KEY", "value": ***}]'),
        ("environment=[{name=API_KEY,value=s1}]", "environment=[{name=API_KEY,value=***}]"),
        ("- name: API_KEY\n  value: s1\n", "- name: API_KEY\n  value: ***\n"),
        (
            '{\\"name\\": \\"API_KEY\\", \\"value\\": \\"s1 s1, s1\\"}',
            '{\\"name\\": \\"API_KEY\\", \\"value\\": ***}',
        ),
        (
            "name: lr, value: s2; name: API_KEY, is: s2",
            "name: lr, value: s2; name: API_KEY, is: s2",
        ),
        ("PRIVATE-TOKEN: s1", "PRIVATE-TOKEN: ***"),
        ("curl -H 'Authorization: Bearer s1' h", "curl -H 'Authorization: ***' h"),
        ("a=b token=s1 c=d,password=s1", "a=b token=*** c=d,password=***"),
        ("wandb_token = s1", "wandb_token = ***"),
        ('apiKey := "s1 s1"', "apiKey := ***"),
        ('"password" => "s1"', '"password" => ***'),
        ("password : s1", "password : ***"),
        ("lr = 1, max_tokens = 5, token == x", "lr = 1, max_tokens = 5, token == x"),
        ("lr=1&tokens=5;mode=x, key: v, {a: 1}", "lr=1&tokens=5;mode=x, key: v, {a: 1}"),
    ],
)
def test_the_second_key_of_a_text(text: str, shown: str) -> None:
    assert public_text(text) == shown
    assert public_text(shown) == shown
    assert has_assigned_secret(text) is (shown != text)
    variable = text.replace("s1 s1", "${V}").replace("s1==", "${V}").replace("s1%3D", "${V}")
    assert not has_assigned_secret(variable.replace("s1", "${V}"))


def test_a_request_without_secrets() -> None:
    request = {
        "HyperParameters": {"api-key": "s1", "lr": "0.1"},
        "env": [{"name": "HF_TOKEN", "value": "s2"}, {"name": "A", "value": "b"}],
        "args": ["--password", "s3"],
        "secret": True,
    }
    assert public_document(request) == {
        "HyperParameters": {"api-key": "***", "lr": "0.1"},
        "env": [{"name": "HF_TOKEN", "value": "***"}, {"name": "A", "value": "b"}],
        "args": ["--password", "***"],
        "secret": True,
    }


@pytest.mark.parametrize(
    ("setting", "shown"),
    [
        ("run.args.api-key=s1", "run.args.api-key=***"),
        ("run.args.lr=0.1", "run.args.lr=0.1"),
        ("run.args[0]=--password=s1", "run.args[0]=--password=***"),
        ("run.args=[--password, s1234, --lr, '2']", "run.args=[--password, ***, --lr, '2']"),
        ("run.args={hf-token: s1234, lr: 2}", "run.args={hf-token: ***, lr: 2}"),
        ("run.env.HfToken=s1", "run.env.HfToken=***"),
        ("run.args.tokens[0]=5", "run.args.tokens[0]=5"),
        ("image.secrets=[HF_TOKEN]", "image.secrets=[HF_TOKEN]"),
        ("gate.max_regression.nll_token=5%", "gate.max_regression.nll_token=5%"),
        ("metrics.nll_token={goal: min}", "metrics.nll_token={goal: min}"),
        ("targets.vertex.overlay.metrics.token=s1", "targets.vertex.overlay.metrics.token=***"),
        ("run.args.x=hf_abcdefghijklmnopqrstuvwx", "run.args.x=***"),
    ],
)
def test_a_setting_as_it_is_kept(setting: str, shown: str) -> None:
    assert without_secret(setting) == shown


JOB = """\
name: j
image: {uri: x}
run:
  command: [python, train.py]
  launcher: none
  args: ARGS
"""


def parameters(tmp_path: Path, arguments: str) -> str:
    (tmp_path / "job.yaml").write_text(JOB.replace("ARGS", arguments))
    job = read(str(tmp_path / "job.yaml"), environ={"V": "s1"}).job
    assert job is not None
    return str(parameters_of(job))


@pytest.mark.parametrize(
    "arguments",
    [
        "{api-key: s1, hf-token: s1, lr: 0.1}",
        "[--password=s1, --api-key, s1]",
        "{url: 'https://me:s1@host'}",
        "{apiKey: s1}",
        '{token: ["s1", "s1"]}',
        '{words: ["--password", "s1", 3]}',
        '{api-key: "${V}"}',
    ],
)
def test_trackers_get_no_secret(tmp_path: Path, arguments: str) -> None:
    assert "s1" not in parameters(tmp_path, arguments)


def findings(tmp_path: Path, arguments: str) -> list[str]:
    (tmp_path / "job.yaml").write_text(JOB.replace("ARGS", arguments))
    environ = {"V": "v", "W": "w", "HF_TOKEN": "t"}
    return [
        f"{finding.severity} {finding.path}:{finding.line} {finding.message}"
        for finding in read(str(tmp_path / "job.yaml"), environ=environ).findings
    ]


SEEN = "anyone who sees the plan, the job or its command line can read it"


@pytest.mark.parametrize(
    ("arguments", "path", "message"),
    [
        ("{api-key: s1}", "run.args.api-key", "api-key looks like a secret written in the file"),
        ("{hfToken: [s1]}", "run.args.hfToken", "hfToken looks like a secret written in the file"),
        ("[--password=s1]", "run.args[0]", "--password looks like a secret written in the file"),
        ("[++a.apiKey=s1]", "run.args[0]", "++a.apiKey looks like a secret written in the file"),
        ("[-H, 'Authorization: Bearer s1']", "run.args", "this argument has the form of a secret"),
        ("[--passes, x, --token, s1]", "run.args[3]", "--token looks like a secret written in the"),
        ("[x, hf_abcdefghijklmnopqrstuv]", "run.args", "this argument has the form of a secret"),
        ("{url: 'h?v=1&token=s1'}", "run.args", "this argument has the form of a secret"),
    ],
)
def test_a_secret_written_among_the_arguments(
    tmp_path: Path, arguments: str, path: str, message: str
) -> None:
    [found] = findings(tmp_path, arguments)
    assert found.startswith(f"warning {path}:6 {message}")
    assert found.endswith(SEEN)
    assert "s1" not in found


@pytest.mark.parametrize(
    "arguments",
    [
        *("{use-token: true}", "{lr: 1}", "[--eos-token, x]", "[]", "{pass: 5}", "[--pass, '5']"),
        *("{user-token: '<|user|>'}", "{password: ''}", "{obs-token: '[OBS]'}"),
    ],
)
def test_no_secret_among_the_arguments(tmp_path: Path, arguments: str) -> None:
    assert findings(tmp_path, arguments) == []


def test_what_comes_from_the_environment_is_told_whatever_its_name(tmp_path: Path) -> None:
    assert findings(tmp_path, '{a: "${V}", b: "x${W}${V}", c: "${NONE:-d}"}') == [
        "note run.args.a:6 the plan and the saved run show the values of these environment "
        "variables: ${V} (run.args.a), ${W} (run.args.b)"
    ]


def test_a_secret_by_the_name_of_its_key(tmp_path: Path) -> None:
    [found] = findings(tmp_path, '{api-key: "${V}"}')
    assert found.startswith("warning run.args.api-key:6 run.args.api-key looks like a secret, and")


@pytest.mark.parametrize(
    ("options", "path", "message"),
    [
        (
            "sagemaker: {overlay: {Environment: {PASSWORD: s1}}}",
            "sagemaker.overlay.Environment.PASSWORD",
            "PASSWORD looks like a secret written in the file",
        ),
        (
            "sagemaker: {hyperparameters: {api_key: '\"s1\"'}}",
            "sagemaker.hyperparameters.api_key",
            "api_key looks like a secret written in the file",
        ),
        (
            "sagemaker: {overlay: {Tags: [{Key: api_token, Value: s1}]}}",
            "sagemaker.overlay.Tags[0].Value",
            "api_token looks like a secret written in the file",
        ),
        (
            "vertex: {overlay: [{op: add, path: /labels/api-key, value: s1}]}",
            "vertex.overlay[0].value",
            "api-key looks like a secret written in the file",
        ),
        (
            "vertex: {overlay: {env: [{name: A_TOKEN, value: s1}]}}",
            "vertex.overlay.env[0].value",
            "A_TOKEN looks like a secret written in the file",
        ),
        (
            "vertex: {overlay: {args: ['--password', s1]}}",
            "vertex.overlay.args[1]",
            "--password looks like a secret written in the file",
        ),
        (
            "vertex: {overlay: {passwords: [s1]}}",
            "vertex.overlay.passwords[0]",
            "passwords looks like a secret written in the file",
        ),
        (
            "sagemaker: {overlay: {Environment: {A: 'https://u:s1@host'}}}",
            "sagemaker.overlay.Environment.A",
            "this value has the form of a secret",
        ),
    ],
)
def test_a_secret_written_in_the_options_of_a_target(
    tmp_path: Path, options: str, path: str, message: str
) -> None:
    text = f"name: j\nrun: {{command: [a], launcher: once}}\ntargets: {{{options}}}\n"
    (tmp_path / "job.yaml").write_text(text)
    [found] = read(str(tmp_path / "job.yaml")).findings
    assert (found.severity, found.code, found.path) == ("warning", "secret", f"targets.{path}")
    assert found.message == f"{message}; anyone who sees the plan or the job can read it"
    assert "s1" not in str(kept_text(text))


def test_variables_without_secrets() -> None:
    variables = {"PASSWORD": "s1", "A": "https://u:s1@host", "B": "2", "C": None}
    assert public_variables(variables) == {"PASSWORD": None, "A": None, "B": "2", "C": None}
    switch = {"HF_HUB_DISABLE_IMPLICIT_TOKEN": "1", "USE_AUTH_TOKEN": "true"}
    assert public_variables(switch) == switch
    named_alike = {"EXTRA_TOKEN": RANDOM, "TEST_PASS": RANDOM, "EOS_TOKEN": "</s>"}
    assert public_variables(named_alike) == {**dict.fromkeys(named_alike), "EOS_TOKEN": "</s>"}


@pytest.mark.parametrize(
    "text",
    [
        "machine api.wandb.ai login user password s1",
        "machine h\n  login me\n  account a\n  password s1\n",
        "echo default login me password s1 > ~/.netrc",
    ],
)
def test_a_netrc_in_a_text(text: str) -> None:
    assert "s1" not in public_text(text)
    assert is_secret_variable("NETRC", text)


def test_texts_beside_a_netrc() -> None:
    for text in ("machine login and password", "the default password is long", "password $X"):
        assert public_text(text) == text


def test_a_token_of_letters_and_digits() -> None:
    assert public_text("AKIA" + "ABCD2345" * 2) == "***"
    assert public_text("a" * 50) == "a" * 50


RANDOM = "aZ9kQ7xV2mB4nT8wY1cE6rU3pL5dF0gH"
HEX = "9f86d081884c7d659a2feaa0c55ad015"
PEM = f"-----BEGIN RSA PRIVATE KEY-----\n{RANDOM}\n{RANDOM}==\n-----END RSA PRIVATE KEY-----\n"
SERVICE_ACCOUNT = '%s{"type": "service_account", "project_id": "p", "private_key": "' + RANDOM * 8


@pytest.mark.parametrize(
    "text",
    [
        PEM,
        PEM.replace("\n", "\\n"),
        PEM.partition("-----END")[0],
        PEM.replace("KEY-----", "KEY BLOCK-----\n").replace("RSA", "PGP"),
        *(b64encode(PEM.replace("RSA ", kind).encode()).decode() for kind in ("", "RSA ", "EC ")),
        *(b64encode((SERVICE_ACCOUNT % blanks).encode()).decode() for blanks in ("", " ", "  ")),
    ],
)
def test_a_private_key_of_several_lines_or_in_base64(text: str) -> None:
    assert public_text(f"a {text} b").replace("-----", "").split() == ["a", "***", "b"]
    assert is_secret_variable("CERT_DATA", text)


@pytest.mark.parametrize("name", ["CERT_DATA", "SSH_PRIVATE_KEY"])
def test_a_kept_job_has_no_line_of_a_private_key(name: str) -> None:
    lines = PEM.replace("\n", "\n    ")
    text = f"name: j\nrun:\n  env:\n   {name}: |\n    {lines}\n   LR: 1\n"
    kept = kept_text(text)
    assert kept is not None
    assert RANDOM not in kept
    assert kept.endswith("LR: 1\n")


@pytest.mark.parametrize(
    "text",
    [
        f"postgresql%3A%2F%2Fme%3A{RANDOM}%40db%2Fx",
        f"next=https%3A%2F%2Fh%2F%3Faccess_token%3D{RANDOM}",
        f"https%3A%2F%2Fhooks.slack.com%2Fservices%2FT00000000%2FB00000000%2F{RANDOM}",
        f"curl -sS -u me:{RANDOM} https://h",
        f"curl https://h --user 'me:{RANDOM}'",
        f"sshpass -p {RANDOM} ssh h",
        f"mysql -h db -u root -p{RANDOM} runs",
        f"unzip -q -P {RANDOM} data.zip",
        f"az login --service-principal -u app -p {RANDOM} --tenant t",
        f"curl -s -U me:{RANDOM} https://h",
        f"curl --proxy-user me:{RANDOM} https://h",
        f"curl -u :{RANDOM} https://h",
        f"curl -sSLu me:{RANDOM} https://h",
        f"wandb login --relogin {HEX}{HEX[:8]}",
        f"vault login {RANDOM}",
        "vault login -no-print f8a3c1d7-3f2a-9c1d-7e3f-2a9c1d7e3f2a && true",
        f"aws configure set aws_secret_access_key {RANDOM}",
        f"dvc remote modify --local store password {RANDOM}",
        f"ngrok config add-authtoken {RANDOM}",
        f"Bearer {RANDOM}",
        f"BW_SESSION={RANDOM}",
        f"OP_SESSION_my={RANDOM}",
        f"TF_TOKEN_app_terraform_io={RANDOM}",
        f"mysqldump -p'{RANDOM}' runs > x",
        f"docker login -u me -p {RANDOM} registry.example",
        f"redis-cli -h cache -a {RANDOM} ping",
        f"mongosh -u me -p {RANDOM} h",
        f"//npm.example/:_authToken={RANDOM}",
        f"//r.example/:_auth={RANDOM}",
        f'{{"auths": {{"r.example": {{"auth": "{RANDOM}"}}}}}}',
        f"<server><password>{RANDOM}</password></server>",
        f"-H X-Api-Key:{RANDOM}",
        f"https://api.telegram.org/bot123456789:AA{RANDOM}a/sendMessage",
        f"wandb_v1_{RANDOM}_{RANDOM}",
        f"lsv2_pt_{HEX}_{HEX[:10]}",
        f"GOCSPX-{RANDOM[:28]}",
        f"dckr_oat_{RANDOM}",
        f"KGAT_{HEX}",
        f"rpa_{RANDOM.upper()}ABCDEFGH",
        f"ATATT3{RANDOM * 5}=ABCD1234",
    ],
)
def test_a_secret_that_is_encoded_or_of_a_program(text: str) -> None:
    assert RANDOM[:20] not in public_text(text)
    assert HEX not in public_text(text)
    assert is_secret_variable("X", text)


@pytest.mark.parametrize(
    "text",
    [
        *("step=10 token=512 loss=1.2", '{"step": 1, "token": 512}', "pass: 5", "pw: 3.25"),
        *("use_auth_token=True", "token=None", '"api_key": null', "http_auth: false", "sig%3D1"),
        *("sk-learn-extra-long-package-name", "task-sk-something-very-long-indeed", "50%20of"),
        *(
            "curl -u 1000:$X",
            "curl -u $ME:$X h",
            "docker run -u 1000:1000 image",
            "hf-token:latest",
        ),
        *("mysql -u root -p runs", "mysql -P3306 --port 3306 -p$X", "mysqladmin -p'$X' ping"),
        *("docker login -u me --password-stdin", "docker run -p 8080:80 mysql:8", "mkdir -p a"),
        *("docker login -p $X h", "redis-cli -a $X", "redis-cli ping", "mongo -p -u me h"),
        *("tvly-your-api-key-of-the-search-tool", "sb_secret_name_of_the_key_in_the_store", "pa-1"),
        *("sbp_model_of_the_second_stage", "pcsk_id_and_secret", "xai-grok-2-latest", "r8_scale"),
        *("-----BEGIN CERTIFICATE-----\nTUlJ", "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t"),
        *("unzip -P", "cat a.zip -P 4", "wandb login", "vault login -method=oidc", "token Llama3"),
        *("vault login -method=aws role=train2-dev && python train.py", "vault login failed: 403"),
        *(
            "curl -s http://kube-ui:8080/health",
            "curl -XPUT http://gpu-U:80",
            "curl -u : https://h",
        ),
        *("secret /Data1/models2/Checkpoint", "git commit 9f86d081884c7d659a2feaa0c55ad015"),
        *("--user-token '<|user|>'", "pad token: [PAD]", "obs_token=<obs>"),
        *("--boi-token <boi>", "draft_token: <d>", "https://h/a%20b?x=%2F", "<token></token>"),
    ],
)
def test_texts_without_secrets(text: str) -> None:
    assert public_text(text) == text


def test_a_switch_with_the_name_of_a_secret() -> None:
    given = ["--use-auth-token", "true", "--token=None", "--pass", "3", "--token", "4711"]
    assert public_arguments(given) == [*given[:-1], "***"]


def test_a_document_hides_all_below_the_name_of_a_secret_and_in_mixed_arguments() -> None:
    document = {
        "args": ["--password", "hunter22", "--epochs", 3, "--pin-password", 12345678],
        "api_keys": ["first", ["second"]],
        "credentials": {"user": "ann", "value": 7, "enabled": True},
        "env": [{"name": "DB_PASSWORD", "value": ["third"]}],
    }
    assert public_document(document) == {
        "args": ["--password", "***", "--epochs", 3, "--pin-password", "***"],
        "api_keys": ["***", ["***"]],
        "credentials": {"user": "***", "value": "***", "enabled": True},
        "env": [{"name": "DB_PASSWORD", "value": ["***"]}],
    }


def test_a_document_shows_names_of_metrics_and_of_build_secrets() -> None:
    document = {
        "image": {"secrets": ["HF_TOKEN"]},
        "metrics": {"nll_token": {"regex": "nll=(.*)", "goal": "min"}},
        "gate": {
            "max_regression": {"nll_token": "5%"},
            "cells": [{"max_regression": {"b/token": 1}}],
        },
    }
    assert public_document(document) == document
    assert public_document({"metrics": {"token": "s1"}}) == {"metrics": {"token": "***"}}
