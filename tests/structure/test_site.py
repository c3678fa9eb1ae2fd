"""The site: its pages are in the navigation, anchors exist, and generated pages are current."""

import re
from pathlib import Path

import yaml

from paths import ROOT
from tools import settings_page
from tools.site_links import on_page_markdown

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
_LINK = re.compile(r"\]\(([^)\s]*?)#([^)\s]+)\)")
_CODE = re.compile(r"^```.*?^```$", re.M | re.S)


def list_pages(nav: object) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    entries = nav.values() if isinstance(nav, dict) else nav
    return [page for entry in entries for page in list_pages(entry)]


def list_anchors(page: Path) -> set[str]:
    """Return the anchors of the headings, as both the site and the repository name them."""
    headings = re.findall(r"^#+ (.+)$", _CODE.sub("", page.read_text("utf-8")), re.M)
    return {
        re.sub(r"[^\w\s-]", "", heading).strip().lower().replace(" ", "-") for heading in headings
    }


def test_every_page_is_in_the_navigation_once():
    pages = list_pages(yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))["nav"])
    assert len(pages) == len(set(pages))
    names = {page.relative_to(DOCS).as_posix() for page in PAGES}
    decisions = {name for name in names if re.match(r"decisions/\d", name)}
    assert set(pages) == names - decisions


def test_every_decision_is_listed():
    listed = re.findall(
        r"\]\((\d{3}-[\w-]+\.md)\)", (DOCS / "decisions/README.md").read_text("utf-8")
    )
    assert listed == [page.name for page in PAGES if page.parent.name == "decisions"][:-1]


def test_links_lead_to_headings_that_exist():
    for page in [ROOT / "README.md", *PAGES]:
        for target, anchor in _LINK.findall(_CODE.sub("", page.read_text("utf-8"))):
            if ":" in target:
                continue
            linked = page.parent / target if target else page
            assert anchor in list_anchors(linked), f"{page.name}: {target}#{anchor}"


def test_the_settings_page_is_current():
    page = settings_page.build_page()
    assert page == settings_page.PAGE.read_text("utf-8"), "run python -m tools.settings_page"


def test_every_setting_says_what_it_means():
    assert [row.name for row in settings_page.read_settings() if not row.meaning] == []


def test_links_out_of_the_docs_become_names_on_the_site():
    class Page:
        class file:
            src_uri = "decisions/001.md"

    text = "[walk](../walk.md), [code](../../src/knowloom/engine.py)"
    assert on_page_markdown(text, page=Page) == "[walk](../walk.md), code"
