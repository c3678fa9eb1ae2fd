"""Policies about secrets: refuse, redact or flag, by setting and by call."""

import json

import pytest
from click.testing import CliRunner
from fastapi.testclient import TestClient

import knowloom
from knowloom import Edge, Invalid, Item
from knowloom.cli.main import cli
from knowloom.secrets.rules import builtin_scanner
from knowloom.server.app import create_app
from live_server import serving
from secret_samples import samples

KEY = samples("github-token")[0]
PASSWORD = "hunter2" * 2
MARKER = "[redacted: github-token]"


@pytest.fixture
def kb():
    with knowloom.open("memory:", embedder=None) as kb:
        yield kb


@pytest.fixture
def pages(tmp_path):
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "deploy.md").write_text(f"# Deploy\n\nUse {KEY} here.\n\nThen see [next](next.md).\n")
    (folder / "next.md").write_text("# Next\n\nBack to [deploy](deploy.md).\n")
    return folder


@pytest.mark.parametrize("rule", [rule.name for rule in builtin_scanner().rules])
def test_redaction_leaves_no_secret_of_any_rule(rule):
    scanner = builtin_scanner()
    for sample in samples(rule):
        redacted = scanner.redact(f"before\n{sample}\nafter")
        assert redacted is not None and scanner.find(redacted.encode()) is None
        assert "[redacted: " in redacted and redacted.startswith("before\n")
        assert redacted.count("\n") == sample.count("\n") + 2


def test_a_private_key_is_redacted_to_its_end():
    (pem, *_) = samples("private-key")
    redacted = builtin_scanner().redact(f"one\n{pem}\ntwo")
    body = pem.splitlines()[1:-1]
    assert redacted is not None and not [line for line in body if line in redacted]
    assert redacted.endswith("-----END PRIVATE KEY-----\ntwo") and redacted.startswith("one\n-----")


def test_a_loaded_page_keeps_all_but_the_secret(kb, pages):
    report = kb.load(pages, space="s")
    (page,) = kb.get(["deploy"], space="s")
    assert report.added == 2 and not report.skipped
    assert page.text.count(MARKER) == 1 and KEY not in page.text and "Then see" in page.text
    (problem,) = report.problems
    assert "rule 'github-token'): it was redacted" in problem and KEY not in problem
    assert "deploy.md" in problem


def test_a_refused_page_does_not_report_its_links(kb, pages):
    report = kb.load(pages, space="s", secrets="refuse")
    assert report.added == 1 and [skipped.what for skipped in report.skipped] == ["deploy"]


def test_edges_of_refused_rows_are_one_entry(kb):
    rows = {
        "items": [{"id": "a", "text": KEY}, {"id": "b", "text": "fine"}],
        "edges": [{"source": "a", "target": "b"}, {"source": "b", "target": "a"}],
    }
    report = kb.load(rows, space="s")
    assert [(row.what, row.why.partition(":")[0]) for row in report.skipped] == [
        ("a", "item 'a'"),
        ("2 edges", "skipped with the items that contain secrets"),
    ]


def test_a_refusal_names_the_settings_and_how_to_allow_a_value(kb):
    with pytest.raises(Invalid, match=r"setting secret_rules.*secrets=\"redact\"") as caught:
        kb.add(Item("a", "s", text=KEY))
    assert "`allow`" in str(caught.value)


def test_add_redacts_every_text(kb):
    env = [{"name": "DB_PASSWORD", "value": PASSWORD}]
    item = Item(
        "a",
        "s",
        title=f"see {KEY}",
        text=f"one {KEY} two {KEY}",
        tags=(KEY, "fine"),
        properties={"password": PASSWORD, "env": env, "count": 3},
    )
    report = kb.add(item, [Edge("a", "a", "x", space="s", properties={"k": KEY})], secrets="redact")
    (stored,) = kb.get(["a"], space="s")
    assert stored.title == f"see {MARKER}" and stored.text == f"one {MARKER} two {MARKER}"
    assert stored.tags == (MARKER, "fine") and stored.properties["count"] == 3
    assert stored.properties["password"] == "[redacted: assigned-password]"
    assert stored.properties["env"][0]["value"] == "[redacted: assigned-password]"
    (edge,) = kb.edges(["s"])
    assert edge.properties == {"k": MARKER}
    assert len(report.problems) == 6 and KEY not in str(report.problems)


def test_a_secret_in_an_id_is_refused_even_with_redact(kb):
    for item in (Item(KEY, "s", text="x"), Item("a", "s", properties={KEY: 1})):
        with pytest.raises(Invalid) as caught:
            kb.add(item, secrets="redact")
        assert caught.value.code == "secret" and KEY not in str(caught.value)


def test_flagged_text_is_stored_and_reported(kb):
    report = kb.add(Item("a", "s", text=KEY), secrets="flag")
    assert kb.get(["a"], space="s")[0].text == KEY
    assert report.problems[0].endswith("(rule 'github-token'): it was stored")


def test_the_setting_is_the_default_of_every_write(tmp_path, pages):
    with knowloom.open("memory:", embedder=None, secrets="redact") as kb:
        kb.add(Item("a", "s", text=KEY))
        assert kb.get(["a"], space="s")[0].text == MARKER
    with knowloom.open("memory:", embedder=None, secrets="refuse") as kb:
        assert kb.load(pages, space="s").skipped


def test_an_unknown_policy_is_refused(kb):
    with pytest.raises(Invalid, match="unknown policy about secrets 'hide'; available: flag"):
        kb.add(Item("a", "s", text="x"), secrets="hide")


def test_the_server_redacts_on_request_but_does_not_flag_unless_the_setting_does(kb):
    body = {"id": "a", "text": f"see {KEY}"}
    with TestClient(create_app(kb), base_url="http://localhost") as client:
        flagged = client.post("/api/spaces/s/items?secrets=flag", json=body)
        created = client.post("/api/spaces/s/items?secrets=redact", json=body)
        replaced = client.put("/api/spaces/s/items/a?secrets=redact", json=body)
        bulk = client.post("/api/spaces/s/bulk?secrets=redact", json={"items": [body]})
        wrong = client.post("/api/spaces/s/items?secrets=hide", json=body)
    assert flagged.status_code == 422 and "KNOWLOOM_SECRETS=flag" in flagged.text
    assert created.status_code == 201 and replaced.status_code == 200 and wrong.status_code == 422
    assert bulk.json()["unchanged"] == 1 and KEY not in created.text + replaced.text + bulk.text
    assert kb.get(["a"], space="s")[0].text == f"see {MARKER}"


def test_the_client_redacts_documents_and_refuses_rows(kb, pages):
    with serving(kb) as url, knowloom.Client(url) as client:
        report = client.load(pages, space="s")
        refused = client.load({"items": [{"id": "r", "text": KEY}]}, space="s")
        client.add(Item("a", "s", text=KEY), secrets="redact")
    assert report.added == 2 and "redacted" in report.problems[0] and refused.skipped
    assert kb.get(["a"], space="s")[0].text == MARKER


def test_the_shell_takes_a_policy(tmp_path):
    def run(*arguments):
        settings = {"KNOWLOOM_STORE": str(tmp_path / "k.db"), "KNOWLOOM_EMBEDDER": "none"}
        return CliRunner().invoke(cli, [*arguments, "--json"], prog_name="knowloom", env=settings)

    added = run("add", "--space", "s", "--id", "a", "--text", KEY, "--secrets", "redact")
    file = tmp_path / "rows.json"
    file.write_text(json.dumps([{"id": "b", "text": KEY}]))
    loaded = run("load", str(file), "--space", "s", "--secrets", "redact")
    assert added.exit_code == 0 and loaded.exit_code == 0, added.output + loaded.output
    assert "redacted" in added.output + loaded.output and KEY not in added.output + loaded.output
