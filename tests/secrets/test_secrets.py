"""Secrets are refused on every way in, by the matching rule; text about secrets is not."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import knowloom
from knowloom import Edge, Invalid, Item
from knowloom.secrets.rules import builtin_scanner
from knowloom.secrets.scanner import SecretScanner
from paths import ROOT
from secret_samples import ALNUM, HEX, samples

SCANNER = builtin_scanner()
KEY = samples("github-token")[0]
PASSWORD = "hunter2" * 2

ORDINARY = [
    "max token: 512",
    "The token budget is 2000 tokens; max_tokens=2000, token_limit: 128000.",
    "A password must be at least 12 characters and have a digit.",
    "Password: required. Password: 12-characters minimum. Password: 8-64 characters.",
    "Password: your corporate password, the same as for e-mail.",
    "The password is case-sensitive; it is base64-encoded and the hash is sha256-based.",
    "The password is stored as SHA-256/PBKDF2, the token is OAuth2-based.",
    "Forgot your password? Ask it@harbor.example. Password: maya2@harbor.example",
    "Set api_key = <YOUR_API_KEY> or export API_KEY=${API_KEY_2}.",
    (
        "password: ${DB_PASSWORD_1}, token: {{ vault.token2 }}, secret: $HARBOR_SECRET_2, pwd ="
        " %PASSWORD1%"
    ),
    "api_key: xxxxxxxxxxxxxxxxxxxxxxxx, token: ************************",
    (
        "password = os.environ['DB_PASSWORD_2']; token = get_token2(user, 17); secret ="
        " settings.signing_secret_v2"
    ),
    "password: vault:secret/data/db1#password; password: op://ops/db1/password",
    "token = AUTH_TOKEN_ENV_VAR_NAME_2 names the variable",
    (
        "Connect to postgres://db.example.com:5432/orders or"
        " postgresql://reader@db.example.com/orders."
    ),
    (
        "The form is postgres://user:password@host:5432/database, or mysql://USER:PASSWORD@HOST/DB,"
        " redis://:<password>@cache."
    ),
    (
        "https://harbor.example:8443/a@b and http://[::1]:8080/x@y and"
        " git@git.harbor.example:team/repo.git"
    ),
    "Server=db;Database=orders;Trusted_Connection=True; or User Id=app;Password=<password>;",
    "Send it as Authorization: Bearer <token>, or Authorization: Bearer knowloom_…",
    (
        "def connect(host='db', user='app', password=None): ... and"
        " socks5h://<username>:<password>@proxy-host2"
    ),
    "curl -u user:password https://api.harbor.example",
    (
        "Order 3f2504e0-4f89-41d3-9a0c-0305e82c3301 was shipped; key:"
        " 3f2504e0-4f89-41d3-9a0c-0305e82c3301"
    ),
    (
        "Fixed in 4b825dc642cb6eb9a060e54bf8d69288fbee4904, see commit"
        " 9fceb02d0ae598e95dc970b74767f19372d61af8."
    ),
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    (
        "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAC"
        "hwGA60e6kgAAAABJRU5ErkJggg=="
    ),
    "AbstractSingletonProxyFactoryBeanWithVersion2, org.harbor.security.TokenAuthenticationFilter2",
    (
        "https://harbor.example/orders/8812736612/items/a8f5f167f44f4964e6c998dee827110c"
        "?page=2&sort=created_at"
    ),
    "nextPageToken: CAUQAAoKMTIzNDU2Nzg5MDEyMzQ1Njc4OTA, page_token=eyJvZmZzZXQiOjEwMH0abc123",
    "The file begins with -----BEGIN PRIVATE KEY----- and must never be committed.",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl maya@harbor",
    (
        "-----BEGIN PUBLIC KEY-----\n"
        "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEEVs/o5+uQbTjL3chynL4wXgUg2R9\n"
        "-----END PUBLIC KEY-----"
    ),
    (
        "AWS access keys look like AKIAIOSFODNN7EXAMPLE; a key of Stripe begins with sk_live_, one"
        " of OpenAI with sk-."
    ),
    "Rotate the API key every 90 days: open Settings, then API keys, then Rotate key2.",
    "secret: projects/harbor/secrets/db-password/versions/12",
    "token: https://auth.harbor.example/oauth2/v2.0/token",
    "The primary key: customer_id, order_number_2; the sort key: created_at#2026-11-15T10:00:00Z",
    (
        "Ask the front desk for the secret: a smile. Auth: SAML2/OIDC. Credentials: see the vault,"
        " entry 4711."
    ),
    (
        "Tokens are counted with cl100k_base; the secretary's keynote is about token2vec and"
        " passwordless sign-in."
    ),
    "private_key: /etc/ssl/private/harbor-2024.key, token: ./secrets/token1.txt, pwd: /home/maya2",
    "Das Passwort muss mindestens 12 Zeichen haben. Passwort: siehe Tresor.",
    "パスワードは12文字以上にしてください。 API キー: <キー>",
]


def properties(**values):
    return Item("a", "s", properties=values)


@pytest.fixture
def kb():
    with knowloom.open("memory:", embedder=None) as kb:
        yield kb


@pytest.mark.parametrize("rule", [rule.name for rule in SCANNER.rules])
def test_every_rule_refuses_its_samples_under_its_own_name(rule):
    for sample in samples(rule):
        for text in (
            sample,
            f"We noted it here:\n{sample}\nand went on.",
            f"Näheres: {sample} … 東京",
        ):
            finding = SCANNER.find(text.encode())
            assert finding is not None and finding.rule.name == rule


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_is_not_a_secret(kb, text):
    assert kb.add(Item("a", "s", title="a", text=text, properties={"note": text})).added == 1


def test_a_placeholder_is_not_a_secret():
    for filler in ("x" * 36, "X" * 36, "0" * 36, "YOUR" + "_TOKEN_" + "x" * 30, "1234567890" * 4):
        assert SCANNER.find(f"gh{'p'}_{filler}".encode()) is None


def test_the_example_knowledge_has_no_secret(kb):
    assert kb.load(ROOT / "examples" / "harbor").skipped == ()


@pytest.mark.parametrize(
    "field", ["title", "text", "summary", "embedding_text", "source", "type", "section", "subject"]
)
def test_every_text_of_an_item_is_scanned(kb, field):
    with pytest.raises(Invalid) as caught:
        kb.add(Item("a", "s", **({"text": "words"} | {field: f"see {KEY}"})))
    assert caught.value.code == "secret" and caught.value.status == 422
    assert (
        field in str(caught.value)
        and "'github-token'" in str(caught.value)
        and KEY not in str(caught.value)
    )
    assert kb.maintenance.stats().spaces == ()


@pytest.mark.parametrize(
    ("item", "place", "rule"),
    [
        (Item("a", "s", text="x", tags=("ok", KEY)), "tags", "github-token"),
        (properties(password=PASSWORD), "properties.password", "assigned-password"),
        (
            properties(db={"users": [{"db_password": PASSWORD}]}),
            "properties.db.users[0].db_password",
            "assigned-password",
        ),
        (
            properties(env=[{"name": "DB_PASSWORD", "value": PASSWORD}]),
            "properties.env[0].value",
            "assigned-password",
        ),
        (
            properties(tokens={"api_token": ["", samples("assigned-secret")[0].split()[-1]]}),
            "properties.tokens.api_token[1]",
            "assigned-secret",
        ),
        (
            properties(notes=["fine", f"line 1\nsee {KEY}"]),
            "properties.notes[1] line 2",
            "github-token",
        ),
        (properties(**{KEY: {"a": 1}}), "a name in properties", "github-token"),
    ],
)
def test_tags_and_properties_are_scanned_with_their_names(kb, item, place, rule):
    with pytest.raises(Invalid, match=r"^item 'a': ") as caught:
        kb.add(item)
    assert f": {place} contains" in str(caught.value) and f"{rule!r}" in str(caught.value)
    assert KEY not in str(caught.value) and PASSWORD not in str(caught.value)


def test_properties_that_only_mention_secrets_are_stored(kb):
    kb.add(
        properties(
            password="required",
            token_limit=512,
            max_token="512",
            password_policy="12-characters",
            api_key="<YOUR_API_KEY>",
            secret=None,
        )
    )


def test_an_id_that_is_a_secret_is_not_quoted(kb):
    with pytest.raises(Invalid) as caught:
        kb.add(Item(KEY, "s", text="x"))
    report = kb.load({"items": [{"id": KEY, "text": "x"}]}, space="s")
    assert str(caught.value).startswith("an item: id contains") and report.skipped[0].what == ""
    assert KEY not in str(caught.value) + repr(report)


def test_edges_are_scanned(kb):
    kb.add([Item("a", "s", text="x"), Item("b", "s", text="y")])
    with pytest.raises(Invalid, match=r"edge 'a' -> 'b': properties\.password contains") as caught:
        kb.add([], [Edge("a", "b", space="s", properties={"password": PASSWORD})])
    assert caught.value.code == "secret"
    report = kb.load(
        {
            "edges": [
                {"source": "a", "target": "b", "properties": {"note": KEY}},
                {"source": "b", "target": "a"},
            ]
        },
        space="s",
    )
    assert (
        report.edges == 1 and "'github-token'" in report.skipped[0].why and KEY not in repr(report)
    )


def test_the_line_of_a_long_text_is_reported(kb):
    with pytest.raises(Invalid, match="text line 3 contains"):
        kb.add(Item("a", "s", text=f"one\ntwo\nthree {KEY}"))


def test_a_secret_does_not_span_two_fields(kb):
    half = len(KEY) // 2
    kb.add(Item("a", "s", title="password:", text=PASSWORD, summary=KEY[:half], tags=(KEY[half:],)))


def test_a_secret_in_any_item_refuses_the_whole_write(kb):
    with pytest.raises(Invalid):
        kb.add([Item("a", "s", text="fine"), Item("b", "s", text=KEY)])
    assert kb.maintenance.stats().spaces == ()


def test_a_load_skips_the_row_with_its_place_and_stores_the_rest(kb, tmp_path):
    file = tmp_path / "rows.jsonl"
    file.write_text(
        "\n".join(
            json.dumps(row)
            for row in (
                {"id": "a", "text": "fine"},
                {"id": "b", "text": KEY},
                {"id": "c", "text": "fine too"},
            )
        )
    )
    report = kb.load(file, space="s")
    assert report.added == 2 and [
        (omission.where, omission.what) for omission in report.skipped
    ] == [(f"{file}:2", "b")]
    assert "rule 'github-token'" in report.skipped[0].why and KEY not in repr(report)


# Shell, service and client


def shell(tmp_path, *arguments, **environment):
    variables = {
        **os.environ,
        "KNOWLOOM_STORE": str(tmp_path / "k.db"),
        "KNOWLOOM_EMBEDDER": "none",
        "PYTHONPATH": str(Path(knowloom.__file__).parents[1]),
        **environment,
    }
    return subprocess.run(
        [sys.executable, "-m", "knowloom", *arguments],
        env=variables,
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )


def test_the_shell_refuses_a_secret(tmp_path):
    done = shell(tmp_path, "add", "--space", "s", "--id", "a", "--text", f"see {KEY}", "--json")
    assert (
        done.returncode == 1
        and json.loads(done.stdout)["error"]["code"] == "secret"
        and KEY not in done.stdout + done.stderr
    )
    file = tmp_path / "rows.json"
    file.write_text(json.dumps([{"id": "a", "text": KEY}, {"id": "b", "text": "fine"}]))
    done = shell(tmp_path, "load", str(file), "--space", "s", "--json")
    assert (
        json.loads(done.stdout)["added"] == 1
        and "github-token" in done.stdout
        and KEY not in done.stdout + done.stderr
    )


def test_the_shell_takes_its_rules_from_the_settings(tmp_path):
    (tmp_path / "own.toml").write_text("[[rules]]\nname = 'badge'\nregex = 'HB-[0-9]{6}'\n")
    add = ("add", "--space", "s", "--id", "a", "--text")
    assert "'badge'" in shell(tmp_path, *add, "HB-123456", KNOWLOOM_SECRET_RULES="own.toml").stderr
    assert shell(tmp_path, *add, KEY, KNOWLOOM_SECRETS="allow").returncode == 0
    assert (
        "unknown secrets policy 'perhaps'; available: allow, auto, flag, redact, refuse"
        in shell(tmp_path, *add, "x", KNOWLOOM_SECRETS="perhaps").stderr
    )


def test_the_service_refuses_a_secret(kb):
    from fastapi.testclient import TestClient

    from knowloom.server.app import create_app

    with TestClient(create_app(kb), base_url="http://localhost") as client:
        bad, fine = {"id": "a", "text": f"see {KEY}"}, {"id": "b", "text": "fine"}
        answers = [
            client.post("/api/spaces/s/items", json=bad),
            client.put("/api/spaces/s/items/a", json=bad),
        ]
        bulk = client.post("/api/spaces/s/bulk", json={"items": [bad, fine]})
        lines = client.post(
            "/api/spaces/s/bulk",
            content=json.dumps(bad),
            headers={"content-type": "application/x-ndjson"},
        )
        link = client.post(
            "/api/spaces/s/edges",
            json={"source": "b", "target": "b", "properties": {"password": PASSWORD}},
        )
    assert [(answer.status_code, answer.json()["code"]) for answer in (*answers, link)] == [
        (422, "secret")
    ] * 3
    assert (
        bulk.json()["added"] == 1
        and "github-token" in bulk.json()["skipped"][0]["why"]
        and lines.json()["skipped"][0]["where"] == "line 1"
    )
    assert not [
        answer
        for answer in (*answers, bulk, lines, link)
        if KEY in answer.text or PASSWORD in answer.text
    ]


# User-defined rules


def test_a_file_adds_rules_disables_others_and_allows_more(tmp_path):
    file = tmp_path / "own.toml"
    file.write_text(
        "disable = ['jwt']\nallow = ['^gh[p]_']\n[[rules]]\nname = 'badge'\nabout = 'a"
        " badge'\nkeywords = ['HB-']\nregex = 'HB-([0-9]{6})'\nentropy = 2\n"
    )
    with knowloom.open("memory:", embedder=None, secret_rules=file) as kb:
        with pytest.raises(
            Invalid, match=r"text contains what looks like a badge \(rule 'badge'\)"
        ):
            kb.add(Item("a", "s", text="badge HB-482913"))
        with pytest.raises(Invalid, match="npm-token"):
            kb.add(Item("a", "s", text=samples("npm-token")[0]))
        kb.add(
            [
                Item("a", "s", text="HB-111111"),
                Item("b", "s", text=KEY),
                Item("c", "s", text=samples("jwt")[0]),
            ]
        )


def test_secrets_can_be_allowed(tmp_path):
    with knowloom.open("memory:", embedder=None, secrets="allow") as kb:
        assert kb.add(Item("a", "s", text=KEY)).added == 1
    with pytest.raises(Invalid, match="unknown secrets policy 'off'; available: allow, auto, flag"):
        knowloom.open("memory:", embedder=None, secrets="off")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[[rules]]\nname='a'\nregex='b'\ncolour='red'",
            "rule 'a': unknown field 'colour'; available: about, allow",
        ),
        ("[[rules]]\nname='a'\nregex='(?=b)'", "rule 'a': '(?=b)' must be an RE2 regex"),
        (
            "[[rules]]\nname='a'\nregex='b'\nallow=['(']",
            "rule 'a': '(' must be an RE2 regex",
        ),
        (
            "[[rules]]\nname='a'\nregex='b'\n[[rules]]\nname='a'\nregex='c'",
            "duplicate rule 'a'",
        ),
        ("[[rules]]\nname='jwt'\nregex='b'", "duplicate rule 'jwt'"),
        ("[[rules]]\nregex='b'", "rule 1: name is missing"),
        ("[[rules]]\nname='a'", "rule 'a': regex is missing"),
        (
            "[[rules]]\nname='a'\nregex='b'\nentropy='high'",
            "rule 'a': entropy must be a number from 0 to 8, got 'high'",
        ),
        ("[[rules]]\nname='a'\nregex=7", "rule 'a': regex must be text, got 7"),
        (
            "[[rules]]\nname='a'\nregex='b'\nkeywords='b'",
            "rule 'a': keywords must be a list of texts, got 'b'",
        ),
        ("rules = 3", "rules must be tables"),
        ("disable = ['jwd']", "disable: unknown rule 'jwd'; available: adobe-client-secret"),
        ("allow = ['[']", "allow: '[' must be an RE2 regex"),
        ("rule = []", "unknown field 'rule'; available: allow, disable, rules"),
        ("rules = [", "not TOML"),
    ],
)
def test_an_invalid_rules_file_is_refused_with_its_path(tmp_path, text, message):
    file = tmp_path / "own.toml"
    file.write_text(text)
    with pytest.raises(Invalid) as caught:
        knowloom.open("memory:", embedder=None, secret_rules=str(file))
    assert str(caught.value).startswith(f"{file}: ") and message in str(caught.value)


def test_a_missing_rules_file_is_reported():
    with pytest.raises(Invalid, match=r"no file 'nowhere\.toml'"):
        knowloom.open("memory:", embedder=None, secret_rules="nowhere.toml")


def test_every_built_in_rule_compiles_with_re2_and_has_a_description():
    for number, rule in enumerate(SCANNER.rules):
        assert SCANNER._patterns(number) and rule.about and rule.entropy > 0
        assert rule.keywords == tuple(word.lower() for word in rule.keywords)
    assert len({rule.name for rule in SCANNER.rules}) == len(SCANNER.rules) > 60


def test_a_text_with_the_keywords_of_every_rule_is_scanned_completely():
    near = " ".join(word for rule in SCANNER.rules for word in rule.keywords)
    assert SCANNER.find(near.encode()) is None
    assert (
        SCANNER.find(f"{near} {KEY[:-1]} {' '.join(HEX * 3 + ALNUM)} {KEY} {near}".encode())
        is not None
    )
    assert SecretScanner(()).find(KEY.encode()) is None


def test_the_client_raises_the_same_secret_error_as_the_engine(kb):
    from live_server import serving

    with serving(kb) as url, knowloom.Client(url) as client:
        with pytest.raises(Invalid) as caught:
            client.add(Item("a", "s", text=f"see {KEY}"))
        report = client.load(
            {"items": [{"id": "a", "text": KEY}, {"id": "b", "text": "fine"}]}, space="s"
        )
    assert caught.value.code == "secret" and "'github-token'" in str(caught.value)
    assert (
        report.added == 1
        and "'github-token'" in report.skipped[0].why
        and KEY not in str(caught.value) + repr(report)
    )
