"""The forms of tokens that name their issuer: for texts and for files.

Prefixes, alphabets and lengths agree with these rules of gitleaks, which are under the MIT license:
1password-*, adobe-client-secret, age-secret-key, airtable-personnal-access-token, alibaba-*,
atlassian-api-token, azure-ad-client-secret, artifactory-*, authress-*, aws-amazon-bedrock-*,
clickhouse-*, clojars-*,
databricks-*, digitalocean-*, doppler-*, duffel-*, dynatrace-*, easypost-*, facebook-*,
flutterwave-*, flyio-*, frameio-*, gitlab-*, grafana-*, harness-*, hashicorp-tf-*,
heroku-api-key-v2, infracost-*, intra42-*, jwt-base64, linear-*, maxmind-*, notion-*, octopus-*,
new-relic-user-api-key, openshift-*, perplexity-*, planetscale-*, postman-*, prefect-*, pulumi-*,
readme-*, rubygems-*, scalingo-*, sendgrid-*, sendinblue-*, sentry-*, settlemint-*, shippo-*,
shopify-*, sourcegraph-*, square-*, stripe-*, telegram-*, twilio-*, vault-*:
https://github.com/gitleaks/gitleaks/blob/b58d3f102cf3a2c84cb7f923d05c25c9b1aed84b/config/gitleaks.toml
The forms of ElevenLabs, Pinecone, Supabase's sbp_, Tailscale and Tavily agree with TruffleHog's
detectors:
https://github.com/trufflesecurity/trufflehog/tree/ab707336ba9ec7e327e6474d90323e9ed3e7ebde/pkg/detectors
Those of Azure DevOps (the other keys of Azure with JQQJ99 are alike), Dropbox, Firecrawl and Jina
agree with Nosey Parker's rules, which are under the Apache license 2.0:
https://github.com/praetorian-inc/noseyparker/tree/2e6e7f36ce36619852532bbe698d8cb7a26d2da7/crates/noseyparker/data/default/builtin/rules
The forms of Discord's bots, Groq, NVIDIA, Replicate, Supabase's sb_secret_ and xAI follow the keys
that their own documentation shows; those of W&B, LangSmith, Kaggle, Neptune, RunPod, Together,
Google's OAuth clients and Docker's organizations follow keys that people have published by mistake.
Lengths are lower bounds, so that a longer token of an issuer is still found.
"""

from __future__ import annotations

ISSUED = (
    r"(?:hv[sb]\.[\w-]{20,}|do[opr]_v1_[a-f0-9]{32,}|(?:sk|rk)_(?:live|test|prod)_[A-Za-z0-9]{10,}"
    r"|gl(?:cbt|dt|ffct|ft|imt|agent|oas|ptt|rt|soat)-[\w-]{20,}|GR1348941[\w-]{20,}"
    r"|gl(?:c|sa)_[\w+/]{32,}|eyJrIjoi[A-Za-z0-9]{70,}|AGE-SECRET-KEY-(?:PQ-)?1[A-Z0-9]{58,}"
    r"|A3-[A-Z0-9]{6}-[A-Z0-9]{6}-?[A-Z0-9]{5}(?:-[A-Z0-9]{5}){3}|ops_eyJ[\w+/]{60,}"
    r"|p8e-[A-Za-z0-9]{32}|pat[A-Za-z0-9]{14}\.[a-f0-9]{64}|LTAI[A-Za-z0-9]{20}"
    r"|AKCp[A-Za-z0-9]{60,}|cmVmd[A-Za-z0-9]{59}|ABSK[\w+/]{100,}"
    r"|bedrock-api-key-[\w+/=-]{20,}|4b1d[A-Za-z0-9]{38}|CLOJARS_[A-Za-z0-9]{60}"
    r"|v1\.0-[a-f0-9]{24}-[a-f0-9]{146}|dapi[a-f0-9]{32}(?:-\d)?|dp\.(?:pt|st|ct|sa)\.[\w.]{40,}"
    r"|duffel_(?:test|live)_[\w=-]{43}|dt0c01\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{64}"
    r"|EZ[AT]K[A-Za-z0-9]{54}|EAA[MC][A-Za-z0-9]{100,}|FLWSECK(?:_TEST)?-[A-Za-z0-9]{12,}(?:-X)?"
    r"|f(?:o1_[\w-]{43}|m1[ar]_[\w+/]{100,}|m2_[\w+/]{100,})|fio-u-[\w=-]{64}"
    r"|[ps]at\.[\w-]{22}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20}|[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{60,}"
    r"|HRKU-AA[\w-]{58}|ico-[A-Za-z0-9]{32}|s-s4t2(?:ud|af)-[A-Fa-f0-9]{64}"
    r"|lin_(?:api|oauth)_[A-Za-z0-9]{40}|[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk|ntn_[A-Za-z0-9]{40,}"
    r"|API-[A-Z0-9]{26}|sha256~[\w-]{43}|pplx-[A-Za-z0-9]{40,}|pscale_(?:tkn|oauth|pw)_[\w=.-]{32,}"
    r"|PMAK-[A-Fa-f0-9]{24}-[A-Fa-f0-9]{34}|pn[ub]_[A-Za-z0-9]{36}|pul-[a-f0-9]{40}"
    r"|rdme_[a-z0-9]{70}|rubygems_[a-f0-9]{48}|tk-us-[\w-]{48}|SG\.[\w=.-]{60,}"
    r"|xkeysib-[a-f0-9]{64}-[A-Za-z0-9]{16}|sntry[su]_[\w+/=]{60,}|sm_[aps]at_[A-Za-z0-9]{16}"
    r"|shippo_(?:live|test)_[A-Fa-f0-9]{40}|shp(?:at|ca|pa|ss)_[A-Fa-f0-9]{32}"
    r"|(?:sq0atp-|sq0csp-)[\w-]{22,}|SK[0-9a-fA-F]{32}|gsk_[A-Za-z0-9]{40,}|nvapi-[\w-]{40,}"
    r"|sgp_(?:[a-fA-F0-9]{16}_|local_)?[a-fA-F0-9]{40}|[\w.~]{3}\dQ~[\w.~-]{31,34}"
    r"|\d{15,16}\|[\w-]{27,40}|ZXlK[A-Za-z0-9+/]{40,}={0,2}"
    r"|(?:sc|ext|scauth|authress)_[A-Za-z0-9]{5,30}\.[A-Za-z0-9]{4,6}\.acc[_-][A-Za-z0-9-]{10,32}"
    r"\.[\w+/=-]{30,120}|r8_[A-Za-z0-9]{37}|xai-[A-Za-z0-9]{60,}|NRAK-[A-Z0-9]{27}"
    r"|(?:bot)?\d{8,10}:AA[\w-]{33}"
    r"|wandb_v1_\w{40,}|lsv2_(?:pt|sk)_[a-f0-9]{32}\w*|GOCSPX-[\w-]{24,}|dckr_oat_[\w-]{20,}"
    r"|KGAT_[a-f0-9]{32}|rpa_[A-Z0-9]{30,}\w*|ATATT3[\w=-]{100,}"
    r"|pcsk_[A-Za-z0-9]{4,}_[A-Za-z0-9]{40,}|tvly-(?:dev-|prod-)?[A-Za-z0-9]{20,}"
    r"|sbp_[a-z0-9]{40}|sb_secret_(?=[A-Za-z_-]{0,60}\d)[\w-]{30,}"
    r"|eyJhcGlfYWRkcmVzcyI6[A-Za-z0-9+/]{40,}={0,2}"
    r"|[MNO][A-Za-z0-9]{23,27}\.[\w-]{6}\.[\w-]{27,40}"
    r"|[A-Za-z0-9]{52}JQQJ99[A-Za-z0-9]{24,}|jina_[A-Za-z0-9]{60}|fc-[a-f0-9]{32}"
    r"|sl\.(?:u\.)?[\w-]{130,}|sk_[a-f0-9]{48}|tgp_v1_[\w-]{43}|tskey-[a-z]+-\w{10,}-\w{20,})"
)
"""A regular expression for the whole token, without what is before and behind it."""

LINKS = (
    r"(?:hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9+/]{40,}"
    r"|office\.com/webhook(?:b2)?/[\w-]{36}@[\w-]{36}/IncomingWebhook/[A-Za-z0-9]{32}"
    r"|discord(?:app)?\.com/api/(?:v\d+/)?webhooks/\d{15,}/[\w-]{60,}"
    r"|[?&]sig=[A-Za-z0-9%/+_-]{40,})"
)
"""Links whose holder may post or read: webhooks (gitleaks: slack-webhook-url,
microsoft-teams-webhook) and shared access signatures of Azure Storage.
"""

NETRC = (
    r"\b(?:machine\s+\S+|default)\s+login\s+(?!and\s|or\s)\S+\s+"
    r"(?:account\s+\S+\s+)?password\s+(?=[^\s$])"
)
"""The line of a netrc file up to its password."""

PRIVATE_KEY = (
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?:(?:(?!-----BEGIN )[\s\S]){0,20000}?"
    r"-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?"
    r"|(?: BLOCK)?(?:-----)?(?:(?:\s|\\[nr])+[A-Za-z0-9+/=]{16,})*)"
)
"""A private key in PEM with all of its lines, also where its end is missing."""

ENCODED_PEM = (
    r"LS0tLS1CRUdJTi[A-Za-z0-9+/]{1,24}(?:UFJJVkFURSBLRV|BSSVZBVEUgS0V|QUklWQVRFIEtF)"
    r"[A-Za-z0-9+/]{16}"
)
"""Base64 of a private key in PEM."""

ENCODED_KEYS = (
    rf"(?:{ENCODED_PEM}"
    r"|(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{0,2000}?"
    r"(?:InNlcnZpY2VfYWNjb3VudCI|JzZXJ2aWNlX2FjY291bnQi|ic2VydmljZV9hY2NvdW50I)"
    r"[A-Za-z0-9+/]{200,})"
)
"""The same, and base64 of Google's `"service_account"` at each of its offsets."""
