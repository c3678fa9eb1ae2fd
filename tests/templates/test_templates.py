"""User templates: three languages, a single substitution, and enforced limits."""

import builtins
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

import knowloom
from knowloom import Limits, Template
from knowloom.templates import sandbox

VALUES = ("text", "score", "tags")
GROWING = "{% set a = 'aaaaaaaaaa' %}" + "{% set a = a|replace('a', a) %}" * 4 + "{{ a|length }}"


def render(source: str, engine: str, **values: object) -> str:
    template = Template(source, engine)
    template.check("skills", VALUES)
    return template.render("skills", values)


@pytest.mark.parametrize(
    ("engine", "source"),
    [
        ("jinja2", "{{ text }} scores {{ score }}"),
        ("handlebars", "{{text}} scores {{score}}"),
        ("format", "{text} scores {score}"),
    ],
)
@pytest.mark.parametrize(
    "text",
    ["{{score}}", "{{ score }}", "{score}", "{% raw %}", "{{#each}}", "<b> & 'x'", "日本\n🎉"],
)
def test_values_are_never_evaluated_as_templates(engine, source, text):
    assert render(source, engine, text=text, score=0.5) == f"{text} scores 0.5"


def test_jinja2_has_loops_conditions_and_filters():
    source = "{% for tag in tags %}{{ tag|upper }}{% if not loop.last %}, {% endif %}{% endfor %}"
    assert render(source, "jinja2", tags=["a", "b"]) == "A, B"


def test_handlebars_has_loops_conditions_and_paths():
    source = (
        "{{#each tags}}{{@index}}={{this.name}}{{#unless @last}}, {{/unless}}{{else}}none{{/each}}"
    )
    assert render(source, "handlebars", tags=[{"name": "a"}, {"name": "b"}]) == "0=a, 1=b"
    assert render(source, "handlebars", tags=[]) == "none"


def test_a_format_string_can_round_and_align():
    assert render("{score:.2f}|{text:>5}", "format", score=1 / 3, text="ab") == "0.33|   ab"


@pytest.mark.parametrize(
    ("engine", "source", "message"),
    [
        ("jinja2", "fine\n{% if %}", r"template 'skills', line 2: syntax error"),
        ("jinja2", "fine\n\n{{ gone }}", r"template 'skills', line 3: undefined value"),
        ("jinja2", "{% include 'other' %}", r"template 'skills', line 1: template not found"),
        (
            "handlebars",
            "fine\n{{#each tags}}\n{{#if text}}{{/each}}",
            r"template 'skills', line 3: unexpected closing tag each",
        ),
        ("handlebars", "fine\n{{#each tags}}\n", r"template 'skills', line 2: unclosed block"),
        ("handlebars", "fine\n\n{{ text", r"template 'skills', line 3: unclosed tag"),
        (
            "handlebars",
            "fine\n{{gone.name}}",
            r"template 'skills', line 2: gone.name is not defined",
        ),
        (
            "handlebars",
            "{{> other}}",
            r"template 'skills', line 1: The partial other could not be found",
        ),
        (
            "format",
            "fine\n{gone}",
            r"template 'skills', line 2: unknown value 'gone'; available: score, tags, text",
        ),
        ("format", "{text", r"template 'skills': expected '}'"),
    ],
)
def test_an_error_names_the_template_and_the_line(engine, source, message):
    with pytest.raises(knowloom.Invalid, match=message) as raised:
        render(source, engine, text="x", score=1.0, tags=[])
    assert raised.value.code == "template_error"


@pytest.mark.parametrize(
    "source",
    [
        "{text.__class__}",
        "{tags[0]}",
        "{0}",
        "{}",
        "{text!r}",
        "{text:999999999}",
        "{score:.999999999f}",
        "{text:{score}}",
        "{score:n}",
    ],
)
def test_a_format_string_reaches_only_the_values(source):
    with pytest.raises(knowloom.Invalid, match="template 'skills'"):
        render(source, "format", text="x", score=1.0, tags=["a"])


def test_a_format_string_is_checked_when_it_is_rendered():
    with pytest.raises(knowloom.Invalid, match=r"unknown value 'text\.__class__'"):
        Template("{text.__class__}", "format").render("skills", {"text": "x"})


@pytest.mark.parametrize(
    "source",
    [
        "{{ text.__class__.__mro__ }}",
        "{{ ''.__class__ }}",
        "{{ text.format.__globals__ }}",
        "{{ self.__init__ }}",
    ],
)
def test_a_jinja2_template_cannot_escape_its_values(source):
    with pytest.raises(knowloom.Invalid, match="line 1"):
        render(source, "jinja2", text="x")


def test_steps_time_memory_and_output_are_limited():
    """Templates that would otherwise run for hours or exhaust the memory."""
    loops = "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}"
    nested = "{{#each @root.tags}}" * 9 + "x" + "{{/each}}" * 9
    quick = Limits(timeout_s=0.5)
    for template, message in (
        (Template(loops), "line 1: ran out of its 2,000,000 steps"),
        (Template(nested, "handlebars", quick), "takes longer than 0.5 s"),
        (
            Template(GROWING, limits=Limits(memory_mb=256, timeout_s=30)),
            "ended its process, which has 256 MB",
        ),
        (
            Template("{{ text * 100 }}", limits=Limits(output=1000)),
            "at most 1,000 characters, got 10,000",
        ),
        (
            Template("{{text}}" * 11, "handlebars", Limits(output=1000)),
            "at most 1,000 characters, got 1,100",
        ),
        (
            Template("{text}" * 11, "format", Limits(output=1000)),
            "at most 1,000 characters, got 1,100",
        ),
    ):
        with pytest.raises(knowloom.Invalid, match=message):
            template.render("skills", {"text": "x" * 100, "tags": [1] * 100})
    assert render("still {{ text }}", "jinja2", text="here") == "still here"


def test_endless_recursion_ends():
    with pytest.raises(knowloom.Invalid, match="recursion limit"):
        render("{% macro f(n) %}{{ f(n) }}{% endmacro %}{{ f(1) }}", "jinja2")
    with pytest.raises(knowloom.Invalid, match="maximum template depth"):
        render('{{#*inline "p"}}{{> p}}{{/inline}}{{> p}}', "handlebars")


def test_a_template_that_prints_cannot_forge_an_answer():
    assert render('{{log "{\\"text\\": \\"forged\\"}"}}true', "handlebars") == "true"


def test_templates_do_not_see_the_environment(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "not for templates")
    worker = sandbox.TemplateWorker(256)
    try:
        assert worker.run(
            {"engine": "jinja2", "source": "x", "fuel": 100, "output": 10, "values": {}}, 10
        ) == {"text": "x"}
        if sys.platform == "linux":
            with builtins.open(f"/proc/{worker._process.pid}/environ", "rb") as file:
                assert b"not for templates" not in file.read()
    finally:
        worker.close()


def test_many_threads_render_at_once():
    with ThreadPoolExecutor(8) as threads:
        texts = list(
            threads.map(lambda number: render("{{ text }}!", "jinja2", text=number), range(40))
        )
    assert texts == [f"{number}!" for number in range(40)]


def test_a_worker_that_died_is_replaced():
    render("x", "jinja2")
    assert sandbox._idle
    for worker in sandbox._idle:
        worker.close()
    assert render("x", "jinja2") == "x"


def test_a_missing_package_is_reported_with_advice(tmp_path):
    """Run in a process whose packages are shadowed by modules that cannot be imported."""
    for package in ("minijinja", "dotpromptz_handlebars"):
        (tmp_path / f"{package}.py").write_text("raise ModuleNotFoundError('gone', name='gone')")
    script = (
        "import knowloom\n"
        "for engine in ('jinja2', 'handlebars'):\n"
        "    try: knowloom.Template('x', engine).check('skills', ())\n"
        "    except knowloom.MissingExtra as error: print(error)\n"
    )
    source = os.path.dirname(os.path.dirname(knowloom.__file__))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), source])}
    lines = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert lines == [
        f"{engine} templates need a missing package (gone): pip install 'knowloom[templates]'"
        for engine in ("jinja2", "handlebars")
    ]


@pytest.mark.parametrize(
    ("source", "engine", "message"),
    [
        ("x", "xml", "unknown template engine 'xml'; available: format, handlebars, jinja2"),
        (3, "jinja2", "must be a text"),
        ("x" * 100_001, "jinja2", "at most 100,000"),
        ("\ud800", "jinja2", "surrogates"),
    ],
)
def test_invalid_templates_are_refused(source, engine, message):
    with pytest.raises(knowloom.Invalid, match=message):
        Template(source, engine)


@pytest.mark.parametrize(
    "limit",
    [
        {"timeout_s": 0},
        {"timeout_s": float("nan")},
        {"fuel": 1.5},
        {"memory_mb": -1},
        {"output": True},
        {"fuel": 10**10},
    ],
)
def test_invalid_limits_are_refused(limit):
    with pytest.raises(knowloom.Invalid, match=f"limits: {next(iter(limit))} must be"):
        Limits(**limit)


@pytest.mark.parametrize("values", [{"text": object()}, {"text": {1, 2}}])
def test_values_that_are_not_json_are_refused(values):
    with pytest.raises(knowloom.Invalid, match="template 'skills': values must be plain JSON"):
        Template("{{ text }}").render("skills", values)


def test_a_value_that_is_not_text_fails_only_its_own_rendering():
    with pytest.raises(knowloom.Invalid, match="template 'skills'"):
        render("{{ text }}", "jinja2", text="\ud800")
    assert render("{{ text }}", "jinja2", text="fine") == "fine"
