"""Error messages and exit status."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli_runs import run, run_json

UNKNOWN_SPACE = "unknown space 'suport'; available: analytics, finance, purchasing, shared, support"


class TestErrors:
    READING = (
        ("search", "x", "--space", "s"),
        ("context", "x", "--space", "s"),
        ("explain", "x", "--space", "s"),
        ("get", "x", "--space", "s"),
        ("stats",),
        ("verify",),
        ("export",),
        ("delete", "x", "--space", "s", "--yes"),
        ("reindex",),
    )

    @pytest.mark.parametrize("args", READING, ids=lambda args: args[0])
    @pytest.mark.parametrize("url", ["x.db", "sqlite:///x.db"])
    def test_a_missing_file_is_an_error_and_is_not_created(
        self, args: tuple[str, ...], url: str
    ) -> None:
        result = run(*args, "--db", url)
        assert (result.exit_code, result.stdout) == (1, "")
        reason = f"no file 'x.db' in {str(Path.cwd())!r}"
        advice = f"load some first: knowloom load PATH --db {url}"
        assert result.stderr == f"error: {reason}; {advice}\n"
        assert not Path("x.db").exists()

    @pytest.mark.parametrize("args", READING, ids=lambda args: args[0])
    def test_an_empty_file_is_an_error_and_stays_empty(self, args: tuple[str, ...]) -> None:
        Path("x.db").touch()
        result = run(*args, "--db", "x.db")
        reason = "no knowledge in 'x.db': the file is empty"
        error = f"error: {reason}; load some first: knowloom load PATH --db x.db\n"
        assert (result.exit_code, result.stderr) == (1, error)
        assert (
            run_json(*args, "--db", "x.db", db="x.db")["error"]["code"],
            Path("x.db").stat().st_size,
        ) == ("no_file", 0)

    def test_an_empty_file_can_be_loaded_into(self) -> None:
        Path("x.db").touch()
        assert run("add --space s --id a --text x --db x.db").exit_code == 0
        assert run("verify --db x.db").exit_code == 0

    @pytest.mark.parametrize(
        "args",
        [("stats",), ("add", "--space", "s", "--id", "a", "--text", "x")],
        ids=lambda args: args[0],
    )
    @pytest.mark.parametrize("cache", ["", "beside"])
    def test_a_url_without_a_file_is_an_error(
        self, args: tuple[str, ...], cache: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("KNOWLOOM_EMBEDDING_CACHE", cache)
        result = run(*args, "--db", "sqlite:///")
        assert (
            result.exit_code,
            result.stderr.startswith("error: a store must be a path or a URL such as"),
        ) == (1, True)

    def test_an_unknown_space_lists_the_available_ones(self, store: Path) -> None:
        result = run("search refund --space suport", db=store)
        assert (result.exit_code, result.stderr) == (
            1,
            f"error: {UNKNOWN_SPACE}\n",
        )

    def test_an_error_in_json_has_code_message_and_status(self, store: Path) -> None:
        error = run_json("search refund --space suport", db=store)["error"]
        assert error == {
            "code": "unknown_space",
            "message": UNKNOWN_SPACE,
            "status": 404,
        }

    def test_a_file_of_another_program_is_an_error(self, tmp_path: Path) -> None:
        (tmp_path / "text.db").write_text(
            "not a database, but long enough to look like a file" * 100
        )
        result = run("stats", db="text.db")
        assert (
            result.exit_code,
            result.stderr.startswith("error: 'text.db' is damaged or not an SQLite file"),
        ) == (1, True)

    def test_a_wrong_setting_is_an_error(self, tmp_path: Path) -> None:
        (tmp_path / "knowloom.toml").write_text("colour = 1")
        result = run("stats")
        assert (result.exit_code, "unknown setting 'colour'" in result.stderr) == (1, True)

    @pytest.mark.parametrize(
        "args",
        [
            ("nonsense",),
            ("search",),
            ("stats", "--nonsense"),
            ("search", "x", "--space", "s", "--mode", "magic"),
        ],
    )
    def test_a_usage_error_exits_with_2(self, args: tuple[str, ...]) -> None:
        result = run(*args)
        assert (result.exit_code, result.stdout) == (2, "")

    def test_a_store_in_memory_needs_no_file(self) -> None:
        assert run_json("stats --db memory:", db="")["spaces"] == []
