"""Generated secrets for every rule.

They are assembled from parts at run time: no file of the project contains text that a scanner
would report.
"""

import random
import string
from collections.abc import Callable

HEX = "0123456789abcdef"
UPPER = string.ascii_uppercase + string.digits
LOWER = string.ascii_lowercase + string.digits
ALNUM = string.ascii_letters + string.digits
WORD = ALNUM + "_"
BASE64 = ALNUM + "+/"
BASE32 = string.ascii_uppercase + "234567"
BECH32 = "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L"

Samples = dict[str, list[str]]


class SecretGenerator:
    """Random strings from a seed."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)
        self.password = f"T{self.some(LOWER, 6)}4&{self.some(ALNUM, 5)}"
        self.key = self.some(ALNUM, 14) + "7x3" + self.some(ALNUM, 14)

    def some(self, alphabet: str, length: int) -> str:
        return "".join(self._random.choice(alphabet) for _ in range(length))

    def uuid(self) -> str:
        head = f"{self.some(HEX, 8)}-{self.some(HEX, 4)}-4{self.some(HEX, 3)}"
        return f"{head}-{self.some(HEX, 4)}-{self.some(HEX, 12)}"

    def pem(self, kind: str, header: str = "") -> str:
        body = "\n".join(self.some(BASE64, 64) for _ in range(6))
        return f"-----BEGIN {kind}-----\n{header}{body}\n-----END {kind}-----"


def samples(rule: str) -> list[str]:
    """Return texts that the rule must reject, the same ones on every call."""
    generator = SecretGenerator(rule)
    generated: Samples = {}
    for family in FAMILIES:
        generated |= family(generator)
    return generated[rule]


def _cloud_samples(generator: SecretGenerator) -> Samples:
    some, uuid = generator.some, generator.uuid
    return {
        "aws-access-key": [p + some(BASE32, 16) for p in ("AKIA", "ASIA")],
        "aws-bedrock-key": ["ABSK" + some(BASE64, 128)],
        "aws-secret-key": [
            f"aws_{'secret'}_access_{'key'} = {some(BASE64, 40)}",
            f'AWS_{"SECRET"}_KEY: "{some(BASE64, 40)}"',
        ],
        "gcp-api-key": ["AI" + "za" + some(WORD, 35)],
        "gcp-client-secret": ["GOC" + "SPX-" + some(WORD, 28)],
        "gcp-access-token": ["ya" + "29." + some(WORD, 60)],
        "azure-storage-key": [
            f"DefaultEndpointsProtocol=https;AccountName=harbor;Account{'Key'}={some(BASE64, 86)}=="
        ],
        "azure-client-secret": [f"the app has {some(ALNUM, 3)}8" + "Q~" + some(WORD, 34)],
        "azure-shared-access-key": [
            "Endpoint=sb://harbor.servicebus.windows.net/;SharedAccessKeyName=all;"
            f"SharedAccess{'Key'}={some(BASE64, 43)}="
        ],
        "azure-signed-url": [
            "https://harbor.blob.core.windows.net/a/b.csv?sv=2024-01-01&se=2030-01-01"
            f"&{'sig'}={some(ALNUM, 43)}%3D"
        ],
        "azure-devops-token": [some(ALNUM, 76) + "AZ" + "DO" + some(ALNUM, 4)],
        "alibaba-access-key": ["LT" + "AI" + some(ALNUM, 20)],
        "tencent-secret-id": ["AK" + "ID" + some(ALNUM, 32)],
        "digitalocean-token": ["dop" + "_v1_" + some(HEX, 64)],
        "heroku-key": ["HR" + "KU-" + uuid()],
        "flyio-token": ["fo" + "1_" + some(WORD, 43), "fm" + "2_" + some(BASE64, 120)],
        "cloudflare-origin-key": ["v1" + ".0-" + some(HEX, 24) + "-" + some(HEX, 146)],
        "netlify-token": ["nf" + "p_" + some(ALNUM, 36)],
        "render-key": ["rn" + "d_" + some(ALNUM, 32)],
        "supabase-key": ["sb" + "p_" + some(HEX, 40), "sb_" + "secret_" + some(WORD, 31)],
        "planetscale-token": ["psc" + "ale_pw_" + some(WORD, 43)],
        "databricks-token": ["da" + "pi" + some(HEX, 32)],
    }


def _code_hosting_samples(generator: SecretGenerator) -> Samples:
    some = generator.some
    return {
        "github-token": [f"gh{letter}_{some(ALNUM, 36)}" for letter in "pousr"],
        "github-fine-grained-token": ["github" + "_pat_" + some(ALNUM, 22) + "_" + some(ALNUM, 59)],
        "gitlab-token": ["gl" + "pat-" + some(WORD, 20), "gl" + "rt-" + some(WORD, 20)],
        "bitbucket-password": ["AT" + "BB" + some(ALNUM, 32)],
        "atlassian-token": ["ATA" + "TT3" + some(WORD, 180)],
        "npm-token": ["np" + "m_" + some(ALNUM, 36)],
        "npm-registry-token": [f"//registry.harbor.example/:_auth{'Token'}={some(ALNUM, 30)}"],
        "pypi-token": ["py" + "pi-AgE" + some(WORD, 150)],
        "rubygems-key": ["ruby" + "gems_" + some(HEX, 48)],
        "crates-token": ["ci" + "o" + some(ALNUM, 32)],
        "docker-token": ["dckr" + "_pat_" + some(WORD, 27)],
        "nuget-key": ["oy" + "2" + some(LOWER, 43)],
        "clojars-token": ["CLO" + "JARS_" + some(LOWER, 60)],
        "jfrog-key": ["AK" + "Cp" + some(ALNUM, 69), "cmVm" + "dGtu" + some(ALNUM, 56)],
        "circleci-token": ["CCI" + "PAT_" + some(ALNUM, 22) + "_" + some(HEX, 40)],
        "buildkite-token": ["bk" + "ua_" + some(HEX, 40)],
        "sonar-token": ["sq" + "p_" + some(HEX, 40)],
    }


def _messaging_samples(generator: SecretGenerator) -> Samples:
    some, uuid = generator.some, generator.uuid
    return {
        "slack-token": [
            "xo" + "xb-" + f"{some(string.digits, 12)}-{some(string.digits, 12)}-{some(ALNUM, 24)}"
        ],
        "slack-app-token": [
            "xa" + f"pp-1-{some(UPPER, 11)}-{some(string.digits, 13)}-{some(HEX, 64)}"
        ],
        "slack-webhook": [
            "https://hooks.sl"
            + f"ack.com/services/T{some(UPPER, 10)}/B{some(UPPER, 10)}/{some(ALNUM, 24)}"
        ],
        "discord-token": [f"M{some(ALNUM, 23)}.{some(WORD, 6)}.{some(WORD, 27)}"],
        "discord-webhook": [
            f"https://disc{'ord'}.com/api/webhooks/{some('123456789', 18)}/{some(WORD, 68)}"
        ],
        "teams-webhook": [
            f"https://harbor.web{'hook'}.office.com/webhookb2/{uuid()}@{uuid()}"
            f"/IncomingWebhook/{some(HEX, 32)}/{uuid()}"
        ],
        "telegram-token": [some("123456789", 10) + ":A" + "A" + some(WORD, 33)],
        "twilio-key": ["S" + "K" + some(HEX, 32)],
        "sendgrid-key": ["S" + f"G.{some(WORD, 22)}.{some(WORD, 43)}"],
        "mailgun-key": ["ke" + "y-" + some(HEX, 32)],
        "mailchimp-key": [some(HEX, 32) + "-u" + "s12"],
        "brevo-key": ["xkey" + f"sib-{some(HEX, 64)}-{some(ALNUM, 16)}"],
        "resend-key": ["r" + f"e_{some(ALNUM, 8)}_{some(ALNUM, 24)}"],
    }


def _payment_samples(generator: SecretGenerator) -> Samples:
    some, uuid = generator.some, generator.uuid
    return {
        "stripe-key": [
            f"{kind}_{mode}_{some(ALNUM, 24)}" for kind in ("sk", "rk") for mode in ("live", "test")
        ],
        "signing-secret": ["wh" + "sec_" + some(ALNUM, 32)],
        "square-token": ["sq0" + "atp-" + some(WORD, 22)],
        "braintree-token": ["access" + f"_token$production${some(LOWER, 16)}${some(HEX, 32)}"],
        "plaid-token": ["access" + "-production-" + uuid()],
        "shopify-token": ["shp" + "at_" + some(HEX, 32)],
        "easypost-key": ["EZ" + "AK" + some(ALNUM, 54)],
        "shippo-token": ["shippo" + "_live_" + some(HEX, 40)],
        "flutterwave-key": ["FLW" + "SECK-" + some(HEX, 32) + "-X"],
    }


def _language_model_samples(generator: SecretGenerator) -> Samples:
    some = generator.some
    return {
        "anthropic-key": ["sk-" + "ant-api03-" + some(WORD, 93) + "AA"],
        "openrouter-key": ["sk-" + "or-v1-" + some(HEX, 64)],
        "openai-key": ["sk" + "-" + some(ALNUM, 48), "sk" + "-proj-" + some(WORD, 120)],
        "huggingface-token": ["h" + "f_" + some(string.ascii_letters, 34)],
        "groq-key": ["gs" + "k_" + some(ALNUM, 52)],
        "xai-key": ["xa" + "i-" + some(ALNUM, 80)],
        "perplexity-key": ["pp" + "lx-" + some(ALNUM, 48)],
        "replicate-token": ["r" + "8_" + some(ALNUM, 37)],
        "nvidia-key": ["nv" + "api-" + some(WORD, 64)],
        "tavily-key": ["tv" + "ly-dev-" + some(ALNUM, 32)],
        "langsmith-key": ["ls" + f"v2_pt_{some(HEX, 32)}_{some(HEX, 10)}"],
        "pinecone-key": ["pc" + "sk_" + some(WORD, 70)],
    }


def _workplace_samples(generator: SecretGenerator) -> Samples:
    some, uuid = generator.some, generator.uuid
    return {
        "notion-token": ["nt" + "n_" + some(ALNUM, 46), "secret" + "_" + some(ALNUM, 43)],
        "linear-key": ["lin" + "_api_" + some(ALNUM, 40)],
        "airtable-token": ["pa" + f"t{some(ALNUM, 14)}.{some(HEX, 64)}"],
        "figma-token": ["fig" + "d_" + some(WORD, 40)],
        "postman-key": ["PM" + f"AK-{some(HEX, 24)}-{some(HEX, 34)}"],
        "typeform-token": ["tf" + "p_" + some(WORD, 59)],
        "hubspot-token": ["pat" + "-na1-" + uuid()],
        "salesforce-token": ["00" + f"D{some(ALNUM, 12)}!{some(WORD, 96)}"],
        "dropbox-token": ["s" + "l." + some(WORD, 135)],
        "mapbox-token": ["s" + f"k.eyJ{some(ALNUM, 60)}.{some(WORD, 22)}"],
        "facebook-token": ["EA" + "AC" + some(ALNUM, 160)],
        "twitter-bearer": ["A" * 22 + some(ALNUM, 80)],
        "contentful-token": ["CF" + "PAT-" + some(WORD, 43)],
    }


def _operations_samples(generator: SecretGenerator) -> Samples:
    some, uuid = generator.some, generator.uuid
    return {
        "newrelic-key": ["NR" + "AK-" + some(UPPER, 27)],
        "grafana-token": [
            "gl" + "c_" + some(BASE64, 60),
            "gl" + f"sa_{some(ALNUM, 32)}_{some(HEX, 8)}",
        ],
        "sentry-token": ["snt" + "rys_" + some(WORD, 90)],
        "dynatrace-token": ["dt" + f"0c01.{some(UPPER, 24)}.{some(UPPER, 64)}"],
        "posthog-key": ["ph" + "x_" + some(ALNUM, 43)],
        "launchdarkly-key": ["sd" + "k-" + uuid()],
        "vault-token": ["hv" + "s." + some(WORD, 90)],
        "terraform-token": [some(ALNUM, 14) + ".atlas" + "v1." + some(WORD, 67)],
        "pulumi-token": ["pu" + "l-" + some(HEX, 40)],
        "doppler-token": ["d" + "p.st.prd." + some(ALNUM, 44)],
        "onepassword-token": ["op" + "s_eyJ" + some(BASE64, 300)],
        "tailscale-key": ["ts" + f"key-auth-{some(ALNUM, 12)}-{some(ALNUM, 32)}"],
        "prefect-key": ["pn" + "u_" + some(ALNUM, 36)],
        "knowloom-key": ["know" + f"loom_{some(HEX, 8)}_{some(WORD, 43)}"],
    }


def _private_key_samples(generator: SecretGenerator) -> Samples:
    some, pem = generator.some, generator.pem
    return {
        "private-key": [
            *(pem(f"{kind}PRIVATE KEY") for kind in ("", "RSA ", "EC ", "ENCRYPTED ")),
            pem("RSA PRIVATE KEY", "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00112233\n\n"),
            '{"private_key": "' + pem("PRIVATE KEY").replace("\n", "\\n") + '"}',
        ],
        "ssh-private-key": [
            pem("OPENSSH PRIVATE KEY"),
            f"PuTTY-User-Key-File-3: ssh-rsa\nPrivate-Lines: 14\n{some(BASE64, 64)}",
        ],
        "pgp-private-key": [pem("PGP PRIVATE KEY BLOCK", "Version: GnuPG v2\n\n")],
        "age-key": ["AGE-SECRET" + "-KEY-1" + some(BECH32, 58)],
        "jwt": [f"ey{'J'}{some(ALNUM, 34)}.eyJ{some(ALNUM, 60)}.{some(WORD, 43)}"],
    }


def _connection_samples(generator: SecretGenerator) -> Samples:
    some, key = generator.some, generator.key
    return {
        "connection-string": [
            *(
                f"{scheme}://harbor:{some(ALNUM, 9)}@db.harbor.internal/orders"
                for scheme in ("postgres", "postgresql+psycopg", "mysql", "mongodb+srv", "amqps")
            ),
            f"redis://:{some(ALNUM, 9)}@cache:6379/0",
            f"postgres://harbor:{some(LOWER, 4)}@{some(LOWER, 4)}@db/orders",
        ],
        "url-password": [
            f"https://deploy:{some(ALNUM, 12)}@git.harbor.internal/a.git",
            f"see http://maya:{some(LOWER, 8)}@10.0.0.4:8080/",
        ],
        "connection-settings": [
            "Server=db.harbor.internal;Database=orders;User Id=app;"
            f"{'Pass'}word={some(string.ascii_lowercase, 9)};Encrypt=true",
            "host=db dbname=orders user=app "
            f"{'pass'}word={some(string.ascii_lowercase, 9)} sslmode=require",
        ],
        "authorization-header": [
            f"{'Author'}ization: Bearer {key}",
            f"-H '{'author'}ization: Basic {some(ALNUM, 20)}7Z2=='",
        ],
        "curl-password": [f"curl -s -u maya:{some(LOWER, 9)} https://api.harbor.internal/"],
    }


def _assignment_samples(generator: SecretGenerator) -> Samples:
    some, uuid, password, key = generator.some, generator.uuid, generator.password, generator.key
    return {
        "command-line-secret": [
            f"tool login --{'pass'}word {password}",
            f"deploy --api-{'key'}={key}",
        ],
        "assigned-password": [
            f"{'pass'}word = '{password}'",
            f"DB_{'PASS'}WORD={password}",
            f'"db{"Pass"}word": "{password}"',
            f"**{'Pass'}word:** `{password}`",
            f"<{'pass'}word>{password}</{'pass'}word>",
            f"| {'pass'}word | {password} |",
            f"{'pass'}word: {'hunter2' * 2}",
            f"Pass{'wort'}: {password}",
        ],
        "told-password": [
            f"The wifi {'pass'}word is {password}.",
            f"The {'pass'}word for the staging box is now {password}",
            f"set the {'pass'}word to {password}",
        ],
        "assigned-secret": [
            f"api_{'key'} = {key}",
            f'"client{"Secret"}": "{key}"',
            f"export HARBOR_{'TOKEN'}={some(HEX, 40)}",
            f"X-Api-{'Key'}: {uuid()}",
            f"https://harbor.example/hook?access_{'token'}={key}",
        ],
    }


def _newer_provider_samples(generator: SecretGenerator) -> Samples:
    some, uuid = generator.some, generator.uuid
    base64, lower = some(BASE64, 400), some(LOWER, 100)
    return {
        "google-refresh-token": [f"refresh 1//0{some(WORD, 44)}"],
        "azure-openai-key": [some(ALNUM, 52) + "JQQJ99" + some(ALNUM, 26)],
        "azure-devops-legacy-token": [f"ado_pat = '{some(BASE32.lower(), 52)}'"],
        "yandex-key": ["AQVN" + some(ALNUM, 36)],
        "vercel-token": ["vcp_" + some(ALNUM, 56)],
        "openshift-token": ["sha256~" + some(ALNUM, 43)],
        "octopus-key": ["API-" + some(UPPER, 28)],
        "harness-token": [f"pat.{some(ALNUM, 22)}.{some(HEX, 24)}.{some(ALNUM, 20)}"],
        "sourcegraph-token": ["sgp_" + some(HEX, 40), f"sgp_{some(HEX, 16)}_{some(HEX, 40)}"],
        "segment-token": ["sgp_" + some(ALNUM, 64)],
        "gitlab-runner-token": ["GR1348941" + some(ALNUM, 20)],
        "infracost-key": ["ico-" + some(ALNUM, 32)],
        "dependency-track-key": ["odt_" + some(ALNUM, 32)],
        "intra42-secret": ["s-s4t2ud-" + some(HEX, 64)],
        "twitch-stream-key": [f"live_{some('23456789', 9)}_{some(ALNUM, 30)}"],
        "truenas-key": [f"TrueNAS: 8-{some(ALNUM, 64)}"],
        "duffel-token": ["duffel_live_" + some(ALNUM, 43)],
        "frameio-token": ["fio-u-" + some(ALNUM, 64)],
        "readme-key": ["rdme_" + lower[:70]],
        "scalingo-token": ["tk-us-" + some(ALNUM, 48)],
        "settlemint-token": ["sm_pat_" + some(ALNUM, 16)],
        "maxmind-key": [f"{some(ALNUM, 6)}_{some(ALNUM, 29)}_mmk"],
        "defined-networking-key": [f"dnkey-{some(LOWER, 26)}-{some(LOWER, 52)}"],
        "adobe-client-secret": ["p8e-" + some(ALNUM, 32)],
        "clickhouse-key": ["4b1d" + some(ALNUM, 38)],
        "apify-token": ["apify_api_" + some(ALNUM, 36)],
        "facebook-app-token": [f"{some('23456789', 16)}|{some(ALNUM, 27)}"],
        "onepassword-secret-key": [
            f"A3-{some(UPPER, 6)}-{some(UPPER, 11)}-{some(UPPER, 5)}-{some(UPPER, 5)}-"
            f"{some(UPPER, 5)}"
        ],
        "sidekiq-key": [f"BUNDLE_GEMS__CONTRIBSYS__COM={some(HEX, 8)}:{some(HEX, 8)}"],
        "newrelic-license-key": [f"eu01xx{some(HEX, 30)}NRAL", "NRIQ-" + some(ALNUM, 32)],
        "sonar-login": [f"sonar.login={some(HEX, 40)}"],
        "sumologic-access-id": [f"sumo_access_id = 'su{some(ALNUM, 12)}'"],
        "okta-token": [f"okta_api = '00{some(ALNUM, 40)}'"],
        "codeclimate-id": [f"CC_TEST_REPORTER_ID: {some(HEX, 64)}"],
        "thingsboard-token": [f"https://thingsboard.cloud/api/v1/{some(LOWER, 20)}/telemetry"],
        "aws-mws-token": ["amzn.mws." + uuid()],
        "aws-appsync-key": ["da2-" + some(LOWER, 26)],
        "azure-app-configuration": [
            f"Endpoint=https://harbor.azconfig.io;Id=ab-l0-s0:xy;Secret={base64[:44]}"
        ],
        "stackhawk-key": [f"hawk.{some(ALNUM, 20)}.{some(ALNUM, 20)}"],
        "teamcity-token": [f"eyJ0eXAiOiAiVENWMiJ9.{some(ALNUM, 36)}.{some(ALNUM, 48)}"],
        "authress-key": [f"sc_{some(LOWER, 8)}.{some(LOWER, 4)}.acc_{lower[:20]}.{lower[20:60]}"],
        "grafana-legacy-key": ["eyJrIjoi" + some(ALNUM, 80)],
        "beamer-token": [f"beamer_key = b_{some(LOWER, 44)}"],
        "freemius-key": [f"'secret_{'key'}' => 'sk_{some(ALNUM, 29)}'"],
        "wireguard-key": [f"PrivateKey = {base64[:43]}="],
        "gitlab-session": [f"Cookie: _gitlab_session={some(LOWER, 32)}"],
        "particle-token": [f"https://api.particle.io/v1/devices?access_token={some(HEX, 40)}"],
        "mapbox-public-token": [f"pk.eyJ{some(ALNUM, 40)}.{some(ALNUM, 22)}"],
        "together-key": ["tgp_v1_" + some(ALNUM, 43)],
        "fireworks-key": ["fw_" + some(ALNUM, 24)],
        "cerebras-key": ["csk-" + some(LOWER, 48)],
        "elevenlabs-key": ["sk_" + some(HEX, 48)],
        "voyage-key": ["pa-" + some(ALNUM, 43)],
        "jina-key": [f"jina_{some(HEX, 32)}{some(ALNUM, 28)}"],
        "firecrawl-key": ["fc-" + some(HEX, 32)],
        "langfuse-key": ["sk-lf-" + uuid()],
        "llamacloud-key": ["llx-" + some(ALNUM, 48)],
        "wandb-key": ["wandb_v1_" + some(ALNUM, 60)],
        "e2b-key": ["e2b_" + some(HEX, 40)],
        "mem0-key": ["m0-" + some(ALNUM, 40)],
        "cursor-key": ["key_" + some(HEX, 64)],
        "zhipu-key": [f"glm: {some(HEX, 32)}.{some(ALNUM, 16)}"],
        "webhook-url": [
            f"https://hooks.zapier.com/hooks/catch/812345/{some(LOWER, 7)}/",
            f"https://open.feishu.cn/open-apis/bot/v2/hook/{uuid()}",
        ],
    }


def _document_samples(generator: SecretGenerator) -> Samples:
    some, uuid, password, key = generator.some, generator.uuid, generator.password, generator.key
    crypt, word = some(ALNUM + "./", 200), some(string.ascii_lowercase, 9)
    begin = "LS0tLS1CRUdJTiBSU0Eg" + "UFJJVkFURSBLRVktLS0tLQ"
    return {
        "encoded-private-key": [begin + some(BASE64, 80)],
        "password-hash": [
            f"$2b$12${crypt[:53]}",
            f"$6${crypt[:8]}${crypt[8:94]}",
            f"$argon2id$v=19$m=65536,t=3,p=4${some(BASE64, 22)}${some(BASE64, 43)}",
            f"{{SSHA}}{some(BASE64, 32)}",
        ],
        "windows-hash": [f"maya:1001:{some(HEX, 32)}:{some(HEX, 32)}:::"],
        "vault-unseal-key": [f"Unseal Key 2: {some(BASE64, 43)}="],
        "vault-legacy-token": [f"vault login s.{some(ALNUM, 24)}"],
        "approle-secret-id": [f"vault write auth/approle/login role_id=x secret_id={uuid()}"],
        "kubernetes-secret": [
            f"kind: Secret\nmetadata:\n  name: db\ndata:\n  user: {some(ALNUM, 16)}\n",
            f"data:\n  user: {some(ALNUM, 12)}\nkind: Secret\n",
        ],
        "kubernetes-bootstrap-token": [f"kubeadm join --token {some(LOWER, 6)}.{some(LOWER, 16)}"],
        "jenkins-password": [f"-H 'Jenkins-Crumb: {some(HEX, 32)}'"],
        "netrc-password": [f"machine git.harbor.internal login maya {'pass'}word {word}"],
        "build-credentials": [
            f'credentials {{ username "maya"\n  {"pass"}word "{word}"\n}}',
            f"<server><id>x</id><{'pass'}word>{word}</{'pass'}word></server>",
        ],
        "jwt-secret": [f"jwt:\n  {'secret'}: '{word}-{word}'"],
        "django-secret-key": [f"{'SECRET'}_KEY = '{some(ALNUM + '!@#%^*', 50)}'"],
        "bearer-token": [f"use Bearer {key}"],
        "basic-credentials": [f"use Basic {some(ALNUM, 20)}7Z2=="],
        "dotnet-credentials": [f'new NetworkCredential("maya", "{word}")'],
        "told-secret": [f"The api key is {key}", f"The access token for staging is now {key}"],
        "provider-key": [f"datadog_app = '{some(HEX, 40)}'"],
        "quoted-password": [f'{"pass"}word = "{word}{word[:3]}"'],
        "environment-password": [f"DB_{'PASS'}WORD={word}"],
        "powershell-password": [f"Connect-VIServer vc.lab -User a -{'Pass'}word {password}"],
        "told-quoted-password": [f"The default {'pass'}word is '{word}'"],
        "user-and-password": [f"user = Aladdin\n{'pass'}word = open_{word[:6]}\n"],
    }


# The order decides which random values each sample gets.
FAMILIES: list[Callable[[SecretGenerator], Samples]] = [
    _cloud_samples,
    _code_hosting_samples,
    _messaging_samples,
    _payment_samples,
    _language_model_samples,
    _workplace_samples,
    _operations_samples,
    _private_key_samples,
    _connection_samples,
    _assignment_samples,
    _newer_provider_samples,
    _document_samples,
]
