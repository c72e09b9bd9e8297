"""Identifies names of secrets, and removes the values of such names from texts.

One rule for variables, arguments, keys and `--set`: it ignores case and treats `-`, `.` and `_` as
equal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from rsctl.job.token_forms import ENCODED_KEYS, ISSUED, LINKS, NETRC, PRIVATE_KEY

HIDDEN = "***"
"""The replacement for a secret."""

# Compiled when they are first used: most jobs need them not.
_NAME = (
    r"(?:SECRETS?|(?:^|_)(?:CREDENTIALS?|CREDS?|PATS?|JWTS?|COOKIES?|BEARER|SAS|AUTHORIZATION)"
    r"|TOKEN|AUTH_?TOKENS|PASSWORDS?|PASSWDS?|_PSWD|_PWD|(?:^|_)PW|(?:^|_)PASS|PASS_?(?:PHRASE|CODE|KEY)S?"
    r"|(?:DB|USER|ADMIN|ROOT|SMTP|MAIL|FTP|SSH|SUDO)PASS|SEED_?PHRASE|MNEMONIC"
    r"|(?:API|ACCESS|BEARER|REFRESH|SECRET|HF|HUB|GITHUB|GITLAB|GH|SESSION|OAUTH2?|SLACK|BOT"
    r"|PRIVATE|PERSONAL|DEPLOY|SERVICE|WANDB)_?TOKENS|(?:GH|GITHUB|GITLAB|AZURE)PATS?"
    r"|(?:API|APP|APPLICATION|ACCESS|SECRET|PRIVATE|ACCOUNT|ENCRYPT|ENCRYPTION|DECRYPTION|SIGNING|STORAGE|MASTER|AUTH"
    r"|SSH|DEPLOY|SHARED|SUBSCRIPTION|ADMIN|HMAC|AES|RSA|PGP|GPG|TLS|SSL|CLIENT|SERVICE|SERVICE_?ROLE"
    r"|LICEN[CS]E"
    r"|SESSION|FERNET|JWT|COOKIE|CONSUMER|AWS|AZURE|GCP|GOOGLE|OPENAI|ANTHROPIC|HF|HUGGINGFACE|WANDB|COMET"
    r"|NEPTUNE|KAGGLE|ROBOFLOW|NGC|LANGSMITH|GROQ|GEMINI|GITHUB|GITLAB|WEBHOOK|COHERE|MISTRAL"
    r"|SENTRY|STRIPE|SENDGRID|DATADOG|DD|RUNPOD|LAMBDA|REPLICATE|TOGETHER|FIREWORKS|DEEPSEEK"
    r"|OPENROUTER|PINECONE|TAVILY|SERPAPI|ELEVENLABS|LABEL_?STUDIO|CLEARML|CERT|VAULT|UNSEAL|BACKUP)_?KEYS?"
    r"|(?:^|_)SA_KEY|SECRET_KEY_BASE|(?:^|_)T?OTP|SENTRY_DSN|PYPI_TOKEN_\w+|BEARER_TOKEN_BEDROCK|VAULT_SECRET_ID"
    r"|^TF_TOKEN_\w+|^(?:BW|OP)_SESSION(?:_\w+)?|(?:DB|USER|ROOT|ADMIN)(?:PWD|PW)|SERVICE_?ACCOUNT_(?:JSON|INFO)"
    r"|(?:^|HTTP|BASIC|PROXY|REGISTRY|REDIS(?:CLI)?|DOCKER|NPM_CONFIG_|POLYAXON)_AUTH|AUTH_(?:HEADER|CONFIG)"
    r"|WEB_?HOOK(?:_UR[LI])?|SAS_UR[LI]|CONN(?:ECTION)?_?STR(?:ING)?)"
    r"(?:_?V?[0-9]+|_(?:RO|RW|READ|WRITE|PROD|DEV|STAGING|VALUE|STRING|B64|BASE64|JSON|PEM))?$"
)
# Tokens and passes of a text or of a model, such as --eos-token, and the path of Google's file.
_OF_A_TEXT = (
    r"(?:^|_)(?:BOS|EOS|EOT|EOD|PAD|UNK|SEP|CLS|CLASS|MASK|SPECIAL|START|STOP|BEGIN|END|IMAGE"
    r"|VIDEO|AUDIO|VISION|PER|NEWLINE|SPLIT|FIM|PREFIX|SUFFIX|MIDDLE|THINK|SUB|NEXT|CONTINUATION|LAST|FIRST"
    r"|WORD|LANG|LANGUAGE|SOURCE|TARGET|EXTRA|ADDED|ADD|EACH|BY|DUMMY|BLANK|REGISTER|DISTILL|TOOL"
    r"|CODE|PROMPT|OUTPUT|INPUT|MAX|MIN|NUM|N|BOI|EOI|SOI|SOS|BOA|EOA|SOFT|LATENT|QUERY|DRAFT|SPEECH"
    r"|SEMANTIC|ACOUSTIC|CODEC|TEXT|PATCH|IGNORE|SEPARATOR|DELIMITER|UNUSED|ASSISTANT|RESPONSE|REWARD"
    r"|NEW|DROP)_?TOKEN[_V0-9]*$"
    r"|(?:^|_)(?:FORWARD|BACKWARD|SINGLE|MULTI|ONE|TWO|FIRST|SECOND|THIRD|LAST|NEXT|EACH|PER|NUM|N"
    r"|MAX|MIN|LOW|HIGH|BAND|ALL|BY|FULL|EXTRA|DATA|TRAIN|EVAL|TEST|WARMUP|GRAD|FUSION|COMPILER?"
    r"|INDUCTOR|OPT|OPTIMIZER|RENDER|SKIP|MUST|WILL)_PASS[_V0-9]*$|GOOGLE_APPLICATION_CREDENTIALS$"
)
# More prefixes of tokens: see `_CONTENTS` in rsctl/images/exclusions.py for their source. Lengths
# are shorter than there: a text that is not shown costs less than a file that is missed.
_FORMS = (
    r"(?:\b(?:hf_[A-Za-z0-9]{20}|gh[pousr]_[A-Za-z0-9]{20}|github_pat_\w{20}|glpat-[\w-]{15}"
    r"|npm_[A-Za-z0-9]{30}|api_org_[A-Za-z]{30}|xapp-\d-[\w-]{10}|pypi-[\w-]{30}"
    r"|dckr_pat_[\w-]{20}|sk-(?=[A-Za-z_-]{0,60}\d)[\w-]{20}|(?:xoxe.)?xox[abeoprs]-[\w-]{8}"
    r"|(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}|AIza[\w-]{30}|ya29\.[\w-]{10}"
    r"|ey[\w-]{10,}\.ey[\w-]{10,}\.)"
    rf"|{PRIVATE_KEY}|{ENCODED_KEYS}"
    r"|\bcurl\s(?:[^\n|;&]{0,400}?\s)?(?:-[A-Za-z]{0,9}[uU]|--(?:proxy-)?user)"
    r"[ =]*[\"']?[^\s:\"'$@/]{0,80}:(?=[^\s$\"'])"
    r"|\b(?:mysql|mariadb)[\w-]*\s(?:[^\n|;&]{0,400}?\s)?-p[\"']?(?=[^\s$\"'])"
    r"|\b(?:(?:docker|podman|nerdctl|buildah)\s+login\s(?:[^\n|;&]{0,400}?\s)?-p"
    r"|(?:mongo[\w-]*|az\s+login)\s(?:[^\n|;&]{0,400}?\s)?-p"
    r"|unzip\s(?:[^\n|;&]{0,400}?\s)?-P|redis-cli\s(?:[^\n|;&]{0,400}?\s)?-a)"
    r"[ =]*[\"']?(?=[^\s$\"'-])"
    r"|\bwandb\s+login\s[^\n|;&]{0,400}?(?=(?:local-)?[0-9a-f]{40}\b)"
    r"|\bvault\s+login\s+(?:-\S+\s+)*(?=[A-Za-z.]*\d)(?=[\w.-]{8,}(?![\w.=-]))"
    r"|\bsshpass\s+-p\s*[\"']?(?=[^\s$\"'])|\"auth\"\s*:\s*\"(?=[A-Za-z0-9+/]{12})"
    r"|\bAuthorization: ?(?:Bearer|Basic|Token) +(?=[^\s$\"'])"
    rf"|{NETRC}|://[^/@\s:]*:[^/@\s]+@|://[\w-]{{20,}}@|(?<![A-Za-z0-9]){ISSUED}|{LINKS})"
)
_REST_OF_TOKEN = r"[^\s'\",}\]]*"  # noqa: S105 - a pattern
_CAMEL = r"(?<=[a-z0-9])(?=[A-Z])"
_SHORTEST_FORM = 6
_SHORTEST_OF_ALNUM = 20
"""Tokens of letters and digits alone are not shorter."""
_FLAG = r"--?[A-Za-z][\w.-]*"
_ASSIGNED = r"(?P<name>[-+]{0,2}[A-Za-z_][\w.-]*)="  # + and ++ are Hydra's
_SCHEME = r"(?:(?i:bearer|basic|token|digest) +)?"
_WHOLE = r"""\"[^"]*"|'[^']*'|\[[^\[\]]*\](?![^\s"',;)}\]])"""  # a quotation, or a list
_VALUE = rf"""{_WHOLE}|{_SCHEME}[^\s"'&;][^\s"']*"""
# Assignments in a text, as in a shell, a URL, a connection string, JSON, YAML and HTTP: what is
# before a value, and the value, which ends with the text's word, so that it is hidden with all of
# its characters. Only values of secrets are read: in `a=a=a=` each value reaches to the end.
_IN_TEXT = (
    (rf"(?<![\w./-]){_ASSIGNED}", _VALUE),
    (rf"(?<!\S)(?P<name>{_FLAG})\s+(?!-)", _VALUE),
    (
        r"(?<!;)(?<!; )(?<![\w./-])(?P<name>[A-Za-z][\w.-]*)[\"']? {0,4}(?: =|[:?]=|=>) {1,4}",
        _VALUE,
    ),
    (
        r"(?<!\S)(?P<name>[A-Za-z][\w.-]*)\s+",
        r"(?:[0-9a-f]{32,}|(?=\S*[A-Z])(?=\S*[a-z])(?=\S*\d)[\w+][\w+/=]{19,})(?!\S)",
    ),
    (r"(?<=[?&;])(?P<name>[A-Za-z][\w.-]*)=", r"""[^\s"'&;]+"""),
    (r"(?<=;)\s*(?P<name>[A-Za-z][\w. -]{0,40}?) ?= ?", r"""[^\s;"'][^;"']*"""),
    (
        r"""(?P<quote>\\{0,15}["'])(?P<name>[\w.-]+)(?P=quote)\s*:\s*""",
        r"""(?P<quote>\\{0,15}["']).*?(?P=quote)|\[[^\[\]]*\]|[^\s,}\]]+""",
    ),
    (
        r"""(?:^|(?<=[\s{,"']))(?P<name>[A-Za-z][\w.-]*) ?: +""",
        rf"""{_WHOLE}|{_SCHEME}[^\s"',}}]+""",
    ),
    (
        r"(?<![\w./-])(?P<name>[A-Za-z][\w.-]*):",
        r"""(?=[^\s"',}:/\d]*\d)[^\s"',}:/]{16,}""",
    ),
    (r"<(?P<name>[A-Za-z_][\w.-]*)>", r"[^<>\s$][^<>]*(?=</)"),
    (
        r"""\b(?i:name|key)[\\"']*\s*[:=]\s*[\\"']*(?P<name>[A-Za-z][\w.-]*)[\\"'\s]*"""
        r"""(?:,[\\"'\s]*)?\b(?i:value)[\\"']*\s*[:=]\s*""",
        rf"""{_WHOLE}|(?P<quote>\\{{1,15}}["']).*?(?P=quote)|[^\s,}}\]]+""",
    ),
)
_FROM_ELSEWHERE = r"\$\{\w+(?::?[-=?+])?\}|\$\w+|\$\([^()]*\)|`[^`]*`"
_NO_VALUE = (
    r"(?i:[\\\"'\[\], ]*|\*\*\*|bearer|basic|token|digest|[\"']?(?:none|null|true|false)[\"']?"
    r"|\d{1,3}|\d+\.\d+|[\"']?(?:<[^<>\s]*>|\[[A-Z]+\])[\"']?)"
)
"""Values that are not secret behind the name of a secret: switches, numbers of tokens, and a
model's tokens, such as <|user|> and [PAD].
"""
# A variable that ends so is a secret if its value looks generated.
_SUSPECTED = ("_KEY", "_AUTH", "_DSN", "_PIN", "_LICENSE", "_TOKEN", "_PASS")
_GENERATED = r"(?=.*[A-Z])(?=.*[a-z])(?=.*\d)[\w+=-]{20,}|[0-9a-f]{32,}"
_IN_LINKS = (
    r"(?i:sig|signature|(?:x-(?:amz|goog)-)signature|sharedaccesssignature|key|pwd|pass|auth)"
)


def is_secret_name(name: str) -> bool:
    """Whether what has this name is taken for a secret, so that its value is never shown."""
    plain = re.sub(r"[-.]", "_", re.sub(_CAMEL, "_", name).lstrip("-+")).upper()
    return re.search(_NAME, plain) is not None and re.search(_OF_A_TEXT, plain) is None


def is_secret_key(name: str, above: str, is_text: bool) -> bool:
    """Whether the value of a key below another one is taken for a secret, or for several.

    Names of metrics, which are mappings, and of the variables in `image.secrets` are not secret.
    """
    is_public = above == "max_regression" or (above, name) == ("image", "secrets")
    is_public = is_public or (above == "metrics" and not is_text)
    return not is_public and is_secret_name(name)


def is_secret(name: str, value: str) -> bool:
    """Whether a value is taken for a secret by its name: not a switch, nor a number of tokens."""
    return is_secret_name(name) and re.fullmatch(_NO_VALUE, value) is None


def has_secret(text: str) -> bool:
    """Whether something in a text has the form of a known kind of secret."""
    return len(text) >= _SHORTEST_FORM and (
        re.search(_FORMS, text) is not None or re.search(_FORMS, _decoded(text)) is not None
    )


def without_known_secrets(text: str) -> str:
    """A text in which what has the form of a known kind of secret is hidden."""
    if not has_secret(text):  # the second pattern is compiled for few texts
        return text
    shown = re.sub(_FORMS + _REST_OF_TOKEN, HIDDEN, text)
    return _without_encoded(shown, lambda word: re.search(_FORMS, word) is not None)


def secret_arguments(arguments: Sequence[str]) -> Iterator[tuple[int, str, int]]:
    """The arguments that hold a secret by its name: index, the name, and where its value begins.

    They have the form `--NAME=VALUE`, `NAME=VALUE`, Hydra's `+NAME=VALUE`, or `--NAME` with its
    value as the next one.
    """
    before = None
    for index, text in enumerate(arguments):
        assigned = re.match(_ASSIGNED, text)
        if assigned:
            name, start = assigned["name"], assigned.end()
            if is_secret(name, text[start:]):
                yield index, name, start
        elif before is not None and not re.fullmatch(f"{_NO_VALUE}|{_FLAG}", text):
            yield index, before, 0
        before = text if re.fullmatch(_FLAG, text) and is_secret_name(text) else None


def public_arguments(arguments: Sequence[str]) -> list[str]:
    """A command line without the values of secrets."""
    shown = list(arguments)
    for index, _, start in secret_arguments(arguments):
        shown[index] = shown[index][:start] + HIDDEN
    return [public_text(text) for text in shown]


def public_text(text: str) -> str:
    """A text without the values that follow names of secrets, and without known kinds of secret."""
    if text.isalnum() and len(text) < _SHORTEST_OF_ALNUM:
        return text
    shown = without_known_secrets(_without_assigned(text))
    return _without_encoded(shown, lambda word: _without_assigned(word) != word)


def has_assigned_secret(text: str) -> bool:
    """Whether a text has the value of a secret by its name; `${VAR}` is not one."""
    plain = re.sub(r"\$(?:\{[^}]*\}|\w+)", "", text)
    return _without_assigned(plain) != plain


def shows_secret(text: str) -> bool:
    """Whether a text has a secret; variables and the output of commands do not count."""
    plain = re.sub(_FROM_ELSEWHERE, "", text)
    return public_text(plain) != plain


def line_shows_secret(line: str) -> bool:
    """Whether a line of a job file has a secret, also as two items of a list."""
    words = re.sub(rf"{_FROM_ELSEWHERE}|[\"',\[\]{{}}]+", " ", line).split()
    return shows_secret(line) or any(True for _ in secret_arguments(words))


def ends_in_private_key(text: str) -> bool:
    """Whether the end of a text, such as that of a line, is within a private key in PEM."""
    begin = text.rfind("-----BEGIN ")
    is_open = begin >= 0 and text.find("-----END ", begin) < 0
    return is_open and re.match(PRIVATE_KEY, text[begin:]) is not None


def is_secret_variable(name: str, value: str) -> bool:
    """Whether a variable is a secret by its name, or its value has one or looks generated."""
    if is_secret(name, value) or public_text(value) != value:
        return True
    return name.upper().endswith(_SUSPECTED) and re.fullmatch(_GENERATED, value) is not None


def public_variables(variables: Mapping[str, str | None]) -> dict[str, str | None]:
    """Variables with None for each secret."""
    return {
        name: None if value is None or is_secret_variable(name, str(value)) else value
        for name, value in variables.items()
    }


def _decoded(text: str) -> str:
    """A text with the characters that a URL has as %XX."""
    if "%" not in text:
        return text
    from urllib.parse import unquote

    return unquote(text)


def _without_encoded(text: str, is_secret: Callable[[str], bool]) -> str:
    """A text without the words that are secret once they are decoded."""

    def shown(found: re.Match[str]) -> str:
        plain = _decoded(found[0])
        return HIDDEN if plain != found[0] and is_secret(plain) else found[0]

    return re.sub(r"[^\s\"']+", shown, text) if "%" in text else text


def _without_assigned(text: str) -> str:
    for before, value in _IN_TEXT:
        text = _hide_assigned(text, re.compile(before), re.compile(value))
    return text


def _hide_assigned(text: str, pattern: re.Pattern[str], value: re.Pattern[str]) -> str:
    """One text after the other is looked at: an ordinary value can contain the next one."""
    parts, done, at = [], 0, 0
    while found := pattern.search(text, at):
        at = found.end()
        name = found["name"].replace(" ", "_")
        before = text[max(0, found.start("name") - 9) : found.start("name")].rstrip()
        is_link = before.endswith(("?", "&", ";")) and re.fullmatch(_IN_LINKS, name)
        if not (is_link or is_secret_name(name)):
            continue
        secret = value.match(text, at)
        if secret and not re.fullmatch(_NO_VALUE, secret[0]):
            parts += [text[done:at], HIDDEN]
            done = at = secret.end()
    return "".join([*parts, text[done:]])


def public_document(value: Any, is_hidden: bool = False, key: str = "") -> Any:
    """Plain data, such as a request, without the values of secrets in arguments and mappings.

    All numbers and texts below the name of a secret are hidden. `key` is the value's key.
    """
    if isinstance(value, list):
        texts = [str(item) if isinstance(item, (str, int, float)) else "" for item in value]
        shown = texts if is_hidden else public_arguments(texts)
        return [
            public_document(item, is_hidden) if text == given else text
            for item, given, text in zip(value, texts, shown, strict=True)
        ]
    if isinstance(value, Mapping):
        named = next((value[key] for key in ("name", "Name", "key", "Key") if key in value), None)
        secret = {"value", "Value"} if isinstance(named, str) and is_secret_name(named) else ()
        return {
            name: public_document(
                item,
                is_hidden or name in secret or is_secret_key(str(name), key, isinstance(item, str)),
                str(name),
            )
            for name, item in value.items()
        }
    if is_hidden and isinstance(value, (str, int, float)) and not isinstance(value, bool):
        return HIDDEN
    return public_text(value) if isinstance(value, str) else value
