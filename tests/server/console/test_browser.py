"""The console in a real browser: the main path of each view, failures, and hostile texts."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

import knowloom
from knowloom import Item
from knowloom.server.auth import Keyring
from live_server import serving

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = os.environ.get("KNOWLOOM_CHROMIUM") or shutil.which("chromium")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="NO BROWSER: the console is not tested; apt install chromium"
)
NOW = datetime(2026, 6, 1, tzinfo=UTC)
TIMEOUT_MS = 60_000
VIEWS = ("playground", "graph", "knowledge", "memory", "evaluate", "health")
EXECUTED = "window.executed = (window.executed || 0) + 1"
TEMPLATES = (
    "<script>{}</script>",
    "<img src=x onerror='{}'>",
    "<svg onload='{}'>",
    "<svg><script>{}</script></svg>",
    "\"><img src=x onerror='{}'>",
    "'-({})-'",
    "</textarea><script>{}</script>",
    "</title><script>{}</script>",
    "<iframe srcdoc='<script>parent.{}</script>'></iframe>",
    "<a href='javascript:{}'>x</a>",
    "[x](javascript:{})",
    "<style>@import 'javascript:{}';</style>",
    "<body onload='{}'>",
    "<details open ontoggle='{}'>x</details>",
    "<input autofocus onfocus='{}'>",
    "<math><mtext><script>{}</script></mtext></math>",
    "${{{}}}",
    "{{{{{}}}}}",
    "<object data='javascript:{}'></object>",
    "<template><script>{}</script></template>",
)
PREFIXES = ("", "\u202e", "\u00a0", "%3C", "&lt;", "]]>", "-->", "\\u003c", "a'\"`", "<!--")
HOSTILE = [f"{prefix}{text.format(EXECUTED)}" for prefix in PREFIXES for text in TEMPLATES]


@pytest.fixture(scope="module")
def browser() -> Iterator[sync_api.Browser]:
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser: sync_api.Browser) -> Iterator[sync_api.Page]:
    """A page that fails the test if a script fails or the policy refuses anything."""
    context = browser.new_context()
    context.set_default_timeout(TIMEOUT_MS)
    page, failures = context.new_page(), []
    page.on("pageerror", lambda error: failures.append(str(error)))
    page.on(
        "console",
        lambda message: "Security Policy" in message.text and failures.append(message.text),
    )
    yield page
    context.close()
    assert failures == []


@pytest.fixture
def base(store_file: Path) -> Iterator[str]:
    with knowloom.open(str(store_file), embedder=None) as kb, serving(kb) as url:
        yield url


def ask(page: sync_api.Page, base: str, question: str = "How do I process a refund?") -> None:
    page.goto(f"{base}/#/playground")
    page.get_by_label("Question").fill(question)
    page.wait_for_selector(".context-text .block")


def test_the_playground_shows_reasons_and_brings_in_what_was_left_out(page, base) -> None:
    ask(page, base)
    page.locator(".block").nth(1).focus()
    details = page.get_by_label("Why this block")
    sync_api.expect(details).to_contain_text("tokens")
    sync_api.expect(details).to_contain_text("bm25")
    before = page.locator(".block").count()
    page.get_by_label("Left out").get_by_role("button", name="Budget").first.click()
    page.wait_for_function("n => document.querySelectorAll('.block').length > n", arg=before)


def test_two_settings_are_compared(page, base) -> None:
    ask(page, base)
    page.get_by_role("button", name="Compare two settings").click()
    page.wait_for_selector(".compare")
    sync_api.expect(page.locator(".compare")).to_contain_text("byte for byte")


def test_the_graph_draws_the_links_of_an_item(page, base) -> None:
    page.goto(f"{base}/#/graph?space=support&id=process-a-refund")
    drawing = page.locator(".cy[data-settled=true]")
    drawing.wait_for()
    assert int(drawing.get_attribute("data-nodes")) > 5
    sync_api.expect(page.get_by_label("Selected item")).to_contain_text("How to process a refund")


def test_an_item_is_edited_and_its_old_state_restored(page, base) -> None:
    page.goto(f"{base}/#/knowledge?space=support&id=process-a-refund")
    page.get_by_role("tab", name="Edit").click()
    page.get_by_label("Title").fill("Refunds, rewritten")
    page.get_by_role("button", name="Save").click()
    page.get_by_role("heading", name="Refunds, rewritten").wait_for()
    page.get_by_role("tab", name="History").click()
    page.get_by_role("button", name="Restore").first.click()
    page.get_by_role("heading", name="How to process a refund").wait_for()


def test_a_memory_is_remembered_and_recalled(page, base) -> None:
    page.goto(f"{base}/#/memory")
    page.get_by_role("button", name="Remember").first.click()
    page.get_by_role("dialog").get_by_label("Memory").fill("Ada drinks green tea")
    page.get_by_role("dialog").get_by_role("button", name="Remember").click()
    page.get_by_role("dialog").wait_for(state="hidden")  # it takes the keys while it is open
    page.locator(".moment").first.wait_for()
    page.get_by_label("Question").fill("What does Ada drink?")
    preview = page.get_by_label("Preview of a recall")
    sync_api.expect(preview.locator("pre")).to_contain_text("green tea", timeout=TIMEOUT_MS)


def test_marked_answers_are_evaluated(page, base) -> None:
    ask(page, base)
    page.get_by_label("Why this block").get_by_role("button", name="Right answer").click()
    page.goto(f"{base}/#/evaluate")
    page.get_by_role("button", name="Use 1 marked question").click()
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_label("Measures").locator(".chart").wait_for()


def test_the_budget_is_refused_at_its_field(page, base) -> None:
    ask(page, base)
    page.get_by_label("Token budget").first.fill("-5")
    page.locator(".field-error:visible").wait_for()


def test_a_stopped_server_is_reported_and_the_question_kept(page, store_file: Path) -> None:
    with knowloom.open(str(store_file), embedder=None) as kb:
        with serving(kb) as base:
            ask(page, base)
        page.get_by_label("Question").fill("Is anybody there?")
        sync_api.expect(page.locator("#banner")).to_contain_text(
            "does not answer", timeout=TIMEOUT_MS
        )
    assert page.get_by_label("Question").input_value() == "Is anybody there?"


def test_a_revoked_key_is_asked_for_again_and_nothing_is_lost(
    page, store_file: Path, keyring: Keyring
) -> None:
    rights = {"reads": ["support"], "writes": [], "role": "viewer", "tier": "teams", "where": ()}
    key, secret = keyring.add("old", now=NOW, **rights)
    _, successor = keyring.add("new", now=NOW, **rights)
    with knowloom.open(str(store_file), embedder=None) as kb, serving(kb, keyring) as base:
        page.goto(base)
        page.get_by_label("API key").fill(secret)
        page.get_by_role("button", name="Continue").click()
        page.get_by_label("Question").fill("refund")
        page.wait_for_selector(".context-text .block")
        assert page.get_by_role("link", name="Health").count() == 0
        keyring.revoke(key.id, NOW)
        page.get_by_label("Question").fill("refund after the key was revoked")
        page.get_by_role("dialog").get_by_text("revoked").wait_for()
        page.get_by_label("API key").fill(successor)
        page.get_by_role("button", name="Continue").click()
        page.get_by_role("dialog").wait_for(state="detached")
        assert page.get_by_label("Question").input_value().endswith("revoked")


def test_a_deleted_space_is_reported_in_words(page, store_file: Path) -> None:
    with knowloom.open(str(store_file), embedder=None) as kb, serving(kb) as base:
        ask(page, base)
        kb.delete([item.id for item in kb.items(spaces=["finance"])], space="finance")
        page.get_by_label("Question").fill("refund of a deposit")
        page.wait_for_selector(".context-text .block, .notice")
        assert page.get_by_label("Question").input_value() == "refund of a deposit"


def test_no_stored_text_is_executed(page, tmp_path: Path) -> None:
    items = [
        Item(f"h{number:03}", "s", type=text, title=text, text=text, summary=text, tags=(text,))
        for number, text in enumerate(HOSTILE)
    ]
    assert len(items) == 200
    with knowloom.open(str(tmp_path / "hostile.db"), embedder=None) as kb:
        kb.add(items)
        with serving(kb) as base:
            ask(page, base, "script onerror executed window")
            for view in ("knowledge", "knowledge?space=s&id=h001", "graph?space=s&id=h000"):
                page.goto(f"{base}/#/{view}")
                page.wait_for_selector(".list-row, .cy[data-settled=true]")
            page.goto(f"{base}/#/evaluate")
            rows = [json.dumps({"question": text, "expected": ["h000"]}) for text in HOSTILE[:5]]
            page.get_by_label("One object per line").fill("\n".join(rows))
            page.get_by_role("button", name="Run", exact=True).click()
            page.get_by_label("Measures").locator(".chart").wait_for()
            assert page.evaluate("window.executed ?? 0") == 0


def test_ten_thousand_items_scroll_in_one_list(page, tmp_path: Path) -> None:
    with knowloom.open(str(tmp_path / "many.db"), embedder=None) as kb:
        kb.add(
            [Item(f"{n:05}", "s", title=f"Item {n:05}", text=f"text {n}") for n in range(10_000)]
        )
        with serving(kb) as base:
            page.goto(f"{base}/#/knowledge")
            page.wait_for_selector(".list-row")
            assert page.locator(".list-row").count() < 200
            scroll = "() => { const box = document.querySelector('.list-box');"
            scroll += " box.scrollTop = box.scrollHeight;"
            scroll += " return document.body.textContent.includes('Item 09999'); }"
            page.wait_for_function(scroll, timeout=TIMEOUT_MS)
            assert page.locator(".list-row").count() < 200


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_view_has_a_serious_accessibility_problem(browser, base, scheme) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is missing")
    context = browser.new_context(
        color_scheme=scheme, bypass_csp=True, viewport={"width": 360, "height": 780}
    )
    context.set_default_timeout(TIMEOUT_MS)
    page, findings = context.new_page(), []
    for view in VIEWS:
        if view == "playground":
            ask(page, base)
        else:
            suffix = "?space=support&id=process-a-refund" if view in ("graph", "knowledge") else ""
            page.goto(f"{base}/#/{view}{suffix}")
            page.get_by_role("heading", level=1).wait_for()
            page.wait_for_load_state("networkidle")
        findings += [
            (view, rule["id"], rule["nodes"][0]["html"][:200])
            for rule in axe.Axe().run(page).response["violations"]
            if rule["impact"] in ("serious", "critical")
        ]
        wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, f"{view} is wider than 360 pixels"
    context.close()
    assert findings == []
