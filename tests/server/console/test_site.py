"""GET / and the files of the console."""

from __future__ import annotations

import re

import pytest
from starlette.testclient import TestClient

from knowloom.server.console.site import STATIC
from paths import ROOT

BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
SCRIPTS = sorted(path for path in (STATIC / "js").rglob("*.js"))


@pytest.mark.parametrize("accept", ["application/json", "*/*"])
def test_programs_get_json_at_the_root(guarded_client: TestClient, accept: str) -> None:
    response = guarded_client.get("/", headers={"accept": accept})
    assert response.json()["documentation"] == "/docs" and response.headers["vary"] == "Accept"


def test_browsers_get_the_console_without_a_key(guarded_client: TestClient) -> None:
    response = guarded_client.get("/", headers=BROWSER)
    assert response.headers["content-type"].startswith("text/html")
    for address in re.findall(r'(?:src|href)="(/[^"]+)"', response.text):
        assert guarded_client.get(address).status_code == 200, address


def test_the_policy_allows_no_inline_code_and_no_other_host(client: TestClient) -> None:
    for path in ("/", "/console/js/main.js"):
        policy = client.get(path, headers=BROWSER).headers["content-security-policy"]
        assert "default-src 'none'" in policy and "trusted-types 'none'" in policy
        assert "unsafe" not in policy and "http" not in policy


def test_the_page_has_no_inline_code_or_style() -> None:
    page = (STATIC / "index.html").read_text("utf-8")
    assert re.findall(r"<script>|<style|\son\w+=|\sstyle=", page) == []


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_scripts_never_write_markup_and_name_no_host(script) -> None:
    code = script.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
    code = re.sub(r"http://\$\{|https?://127\.", "", code)
    assert re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", code) == []
    assert "https://" not in code and "http://" not in code


def test_vendored_files_have_their_licences() -> None:
    notice = (ROOT / "NOTICE").read_text("utf-8")
    for name in ("Cytoscape.js", "d3-dispatch", "d3-force", "d3-quadtree", "d3-timer"):
        assert name in notice
    assert {path.name for path in (STATIC / "vendor").glob("*.LICENSE")} == {
        "cytoscape.LICENSE",
        "d3.LICENSE",
    }


def test_writes_from_other_origins_are_refused(client: TestClient) -> None:
    for headers in ({"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}):
        response = client.post("/api/browse", json={}, headers=headers)
        assert response.status_code == 403 and response.json()["code"] == "cross_site"
