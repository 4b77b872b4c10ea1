"""Calls in the MiniCPM dialect (reference, Tool calling; scenarios, section A)."""

import pytest

from pantheon.engine.tools import read_tools
from tests.engine.tools.parses import MINICPM, Parsed, function, parse

PING = '<function name="ping"></function>'


def test_cdata_entities_and_quotes() -> None:
    """Scenario 32."""
    text = (
        "<function name='write_file'><param name=\"path\">a</param>"
        '<param name="content"><![CDATA[<b>&</param>]]></param></function>'
    )
    assert parse(MINICPM, text) == Parsed(
        "", (("write_file", '{"path": "a", "content": "<b>&</param>"}'),)
    )


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("a &amp; b &lt;c&gt; &quot;&apos;", "a & b <c> \"'"),
        ("&#65;&#x41;&#X1F600;", "AA😀"),
        ("&amp;amp;", "&amp;"),
        ("&bogus; & &; &am", "&bogus; & &; &am"),
        ("&#0;&#xD800;&#9999999;", "&#0;&#xD800;&#9999999;"),
        ("<![CDATA[&amp;]]>", "&amp;"),
        ("<![CDATA[]]>", ""),
        ("<![CDATA[a]]]]><![CDATA[>b]]>", "a]]>b"),
        ("x<![CDATA[<y>]]>&lt;z", "x<y><z"),
        ("<![CDATA[ ]] ]> ]]>", " ]] ]> "),
        (" a\n b ", " a\n b "),
        ("a < b <![CDAT", "a < b <![CDAT"),
        ("Use </param> to close.", "Use </param> to close."),
        ("1 < 2 && 3", "1 < 2 && 3"),
    ],
)
def test_values(written: str, value: str) -> None:
    """Scenario 32: CDATA verbatim, entities outside of it only, whitespace as written."""
    text = f'<function name="read"><param name="filePath">{written}</param></function>'
    assert parse(MINICPM, text).arguments == {"filePath": value}


def test_python_literals() -> None:
    """MiniCPM5-1B.jinja writes objects as Python prints them."""
    tools = read_tools([function("f", {"o": {"type": "object"}, "b": {"type": "boolean"}})])
    text = (
        "<function name=\"f\"><param name=\"o\">{'lang': ['ja'], 'exact': True, 'x': None}</param>"
        '<param name="b">False</param></function>'
    )
    assert parse(MINICPM, text, tools).arguments == {
        "o": {"lang": ["ja"], "exact": True, "x": None},
        "b": False,
    }


def test_calls_and_text() -> None:
    """Line breaks between tags, several calls, attributes with spaces around them."""
    text = (
        f"Two calls.\n{PING}\n<function  name = 'read' >\n  <param name='filePath'>x</param>\n"
        "</function>\n"
    )
    assert parse(MINICPM, text) == Parsed(
        "Two calls.", (("ping", "{}"), ("read", '{"filePath": "x"}'))
    )


@pytest.mark.parametrize("call", ['<function name="ping"/>', "<function name='ping' />"])
def test_an_empty_element_is_a_call_without_arguments(call: str) -> None:
    """As XML may write it."""
    assert parse(MINICPM, f"A.\n{call}\n{call}{PING}") == Parsed("A.", (("ping", "{}"),) * 3)
    assert parse(MINICPM, list(f"{call}\nB.")) == Parsed("B.", (("ping", "{}"),))


def test_the_wrapper_of_another_dialect_belongs_to_the_call() -> None:
    """As models of the Qwen family write it."""
    text = f"A.\n<tool_call>\n{PING}\n</tool_call>\n<tool_call>{PING}</tool_call>"
    assert parse(MINICPM, text) == Parsed("A.", (("ping", "{}"),) * 2)
    prose = "a <tool_call> b </tool_call>"
    assert parse(MINICPM, prose) == Parsed(prose)


@pytest.mark.parametrize(
    "prose",
    [
        'Use `<function name="foo">` or <function name="read"> here.',
        "<functional> and <function foo and </param>",
        'It ends with <function name="rea',
        '<function name="unknown"><param name="a">1</param></function>',
        "<function name=read></function>",
    ],
)
def test_prose_stays_prose(prose: str) -> None:
    """Scenario 6, and a real call behind it."""
    assert parse(MINICPM, prose) == Parsed(prose)
    assert parse(MINICPM, f"{prose}\n{PING}") == Parsed(prose, (("ping", "{}"),))


@pytest.mark.parametrize(
    ("end", "error"),
    [
        ('<function name="rea', (None, None)),
        ('<function name="read">', ("read", None)),
        ('<function name="read"><param name="filePath">a', ("read", "filePath")),
        (
            '<function name="read"><param name="filePath"><![CDATA[a</param></function>',
            ("read", "filePath"),
        ),
    ],
)
def test_an_answer_that_ends_inside_a_call(end: str, error: tuple[str | None, ...]) -> None:
    """Scenario 4."""
    parsed = parse(MINICPM, "Sure.\n" + end)
    assert (parsed.content, parsed.calls) == ("Sure.", ())
    assert parsed.codes == (("unfinished_call", *error),)
