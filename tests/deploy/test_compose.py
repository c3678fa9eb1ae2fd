"""The compose file: its syntax, and the settings and URLs that it gives to knowloom."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any

import pytest
import yaml

from knowloom.config import Settings
from knowloom.keyvalue.redis_address import parse_redis_address
from knowloom.stores.postgresql.address import parse_address
from paths import ROOT


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text("utf-8"))
    return document


def test_every_service_has_an_image_or_a_build_and_known_dependencies(
    compose: dict[str, Any],
) -> None:
    services = compose["services"]
    for service in services.values():
        assert ("image" in service) != ("build" in service)
        assert set(service.get("depends_on", ())) <= set(services)
        mounts = (volume.partition(":")[0] for volume in service.get("volumes", ()))
        assert {mount for mount in mounts if not mount.startswith(".")} <= set(compose["volumes"])


def test_the_settings_exist_and_their_urls_are_valid(compose: dict[str, Any]) -> None:
    environment = compose["services"]["knowloom"]["environment"]
    names = {f"KNOWLOOM_{field.name.upper()}" for field in fields(Settings)}
    assert environment.keys() <= names
    urls = {name: re.sub(r"\$\{\w+:[^}]*\}", "pw", url) for name, url in environment.items()}
    assert parse_address(urls.pop("KNOWLOOM_STORE").removeprefix("postgresql://")).password == "pw"
    addresses = {name: parse_redis_address(url) for name, url in urls.items()}
    assert {address.password for address in addresses.values()} == {"pw"}
    assert len(addresses["KNOWLOOM_METADATA"].hosts) == 3


def test_no_password_has_a_default(compose: dict[str, Any]) -> None:
    text = (ROOT / "deploy/compose.yaml").read_text("utf-8")
    variables = re.findall(r"\$\{([^}]*)\}", text)
    assert variables and all(":?" in variable for variable in variables)


def test_the_files_that_it_mounts_and_builds_exist(compose: dict[str, Any]) -> None:
    deploy = ROOT / "deploy"
    assert (ROOT / compose["services"]["knowloom"]["build"]["dockerfile"]).is_file()
    assert (deploy / "nginx.conf").is_file()
