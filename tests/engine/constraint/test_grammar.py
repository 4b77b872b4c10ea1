"""JSON grammars (reference, `response_format`)."""

from __future__ import annotations

import json
import random
import re
import time
from dataclasses import replace
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pantheon.engine.constraint import Grammar, GrammarCompiler, JsonGrammars, UnsupportedSchema
from pantheon.engine.constraint.mask import mask_from_bytes, mask_of
from pantheon.engine.tokenizer import Tokenizer
from tests.engine.pieces import END, Pieces, pieces_tokenizer
from tests.engine.tokenizer.vocabularies import golden_tokenizer

PIECES = Pieces([b'{"', b'":', b'"}', b"}}", b"  ", b"\n\n", b"\n    ", b"tru", b"e}", b'{"a":1}'])
TOKENIZER = pieces_tokenizer(PIECES)
GRAMMARS = JsonGrammars(GrammarCompiler(TOKENIZER))


def allowed(grammar: Grammar) -> list[int]:
    """Tokens of a mask."""
    bits = np.unpackbits(grammar.mask.view(np.uint8), bitorder="little")
    return [int(token) for token in np.flatnonzero(bits)]


def feed(grammar: Grammar, data: bytes) -> None:
    for byte in data:
        grammar.accept(PIECES.id(bytes([byte])))


def after(data: bytes, schema: dict[str, Any] | None = None) -> Grammar:
    grammar = GRAMMARS.start(schema)
    feed(grammar, data)
    return grammar


def test_only_an_object_may_begin_and_nothing_before_it() -> None:
    pieces = {TOKENIZER.token_bytes.get(token) for token in allowed(GRAMMARS.start(None))}
    assert pieces == {b"{", b'{"', b'{"a":1}'}


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        '{"a": [1, 2.5e-3, true, null, "x\\n\\u001f é 🦜"], "b": {"c": {}}}',
        '{\n    "a": 1\n}',
    ],
)
def test_an_object_is_complete_with_its_last_brace(text: str) -> None:
    """Nothing may follow: neither whitespace nor, from the model, anything else."""
    data = text.encode()
    grammar = GRAMMARS.start(None)
    for byte in data:
        assert not grammar.complete
        assert PIECES.id(bytes([byte])) in allowed(grammar)
        assert END not in allowed(grammar), "the end is refused while the object is open"
        grammar.accept(PIECES.id(bytes([byte])))
    assert grammar.complete and not grammar.dead


def test_one_token_may_be_the_whole_object() -> None:
    grammar = GRAMMARS.start(None)
    grammar.accept(PIECES.id(b'{"a":1}'))
    assert grammar.complete


@pytest.mark.parametrize("place", ["{", '{"a"', '{"a":', '{"a":1', '{"a":[', '{"a":[1,'])
def test_whitespace_is_bounded_everywhere(place: str) -> None:
    """Between tokens a space, or a line break and 16 characters of indentation."""
    grammar = after(place.encode() + b" ")
    assert not {PIECES.id(b) for b in (b" ", b"  ", b"\n", b"\t", b"\n\n")} & set(allowed(grammar))
    grammar = after(place.encode() + b"\n" + b" " * 16)
    assert not {PIECES.id(b) for b in (b" ", b"  ", b"\n", b"\t", b"\n\n")} & set(allowed(grammar))


@pytest.mark.parametrize("data", [b"}", b" {", b"[", b'{"a" 1', b"{}{", b"{} ", b'{"a":nul}'])
def test_what_leaves_the_grammar_is_dead(data: bytes) -> None:
    grammar = after(data)
    assert grammar.dead and not grammar.complete
    assert allowed(grammar) == []


@pytest.mark.parametrize("token", [END, -1, 10**9, len(TOKENIZER.vocabulary)])
def test_any_token_is_taken_without_an_error(token: int) -> None:
    """An end token inside the object too."""
    grammar = after(b'{"a":')
    grammar.accept(token)
    assert grammar.dead
    grammar.accept(token)
    grammar.accept_text("{}")
    assert grammar.dead and not grammar.complete


def test_an_empty_mask_is_noticed() -> None:
    """A vocabulary without `}`: nothing can follow a number that may not grow."""
    texts = [bytes([byte]) for byte in b'{"a:']
    tokenizer = golden_tokenizer("smollm")
    vocabulary = tokenizer.vocabulary
    kept = [i for i, t in enumerate(vocabulary.tokens) if t.encode() in texts]
    assert len(kept) == len(texts)
    small = Tokenizer(_only(vocabulary, kept))
    grammar = JsonGrammars(GrammarCompiler(small)).start(
        {"properties": {"a": {"enum": ["a"]}}, "required": ["a"]}
    )
    for token in map(small.vocabulary.tokens.index, '{"a":"a"'):
        assert not grammar.dead
        grammar.accept(token)
    assert grammar.dead and not grammar.complete


def test_a_vocabulary_that_cannot_begin_is_refused() -> None:
    vocabulary = golden_tokenizer("smollm").vocabulary
    small = Tokenizer(_only(vocabulary, [vocabulary.tokens.index("a")]))
    with pytest.raises(UnsupportedSchema, match="can begin"):
        JsonGrammars(GrammarCompiler(small)).start(None)


def _only(vocabulary: Any, kept: list[int]) -> Any:
    """The vocabulary with only some of its tokens, and none that ends."""
    return replace(
        vocabulary,
        tokens=tuple(vocabulary.tokens[token] for token in kept),
        types=tuple(vocabulary.types[token] for token in kept),
        merges=(),
        bos=None,
        eos=None,
        unknown=None,
        padding=None,
        add_bos=False,
        end_ids=frozenset(),
    )


SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer"},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 3},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}


def random_walk(grammar: Grammar, seed: int, steps: int = 4000) -> str:
    """Text of allowed tokens, drawn at random but for a liking for what closes."""
    draw = random.Random(seed)
    data = b""
    for _ in range(steps):
        if grammar.complete:
            break
        tokens = allowed(grammar)
        closing = [t for t in tokens if TOKENIZER.token_bytes.get(t) in (b'"', b"}", b"]", b'"}')]
        token = draw.choice(closing if closing and draw.random() < 0.5 else tokens)
        data += TOKENIZER.token_bytes.get(token)
        grammar.accept(token)
    assert grammar.complete and not grammar.dead
    return data.decode()


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_any_walk_within_the_masks_is_one_object(seed: int) -> None:
    text = random_walk(GRAMMARS.start(None), seed)
    assert isinstance(json.loads(text), dict)
    assert text == text.strip()
    outside_strings = re.sub(r'"(\\.|[^"\\])*"', '""', text)
    assert max(map(len, re.findall(r"\s+", outside_strings)), default=0) <= 17


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_any_walk_within_the_masks_fits_the_schema(seed: int) -> None:
    jsonschema.validate(json.loads(random_walk(GRAMMARS.start(SCHEMA), seed)), SCHEMA)


@pytest.mark.parametrize(
    ("schema", "text", "fits"),
    [
        ({}, '{"x":[1]}', True),
        ({"properties": {"a": {"type": "integer"}}}, '{"a":"1"}', False),
        ({"type": ["object", "null"]}, "null", False),
        ({"$ref": "#/$defs/p", "$defs": {"p": SCHEMA}}, '{"name":"x","age":3}', True),
        ({"$ref": "#/$defs/p", "$defs": {"p": SCHEMA}}, '{"age":3}', False),
        ({"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, '{"a":1}', True),
        ({"properties": {"s": {"type": "string", "pattern": "^a+$"}}}, '{"s":"ab"}', False),
    ],
)
def test_schemas_are_enforced(schema: dict[str, Any], text: str, fits: bool) -> None:
    grammar = after(text.encode(), schema)
    assert grammar.complete == fits
    assert grammar.dead != fits


@pytest.mark.parametrize(
    "keyword",
    [{"not": {"type": "object"}}, {"uniqueItems": True}, {"if": {}, "then": {}}],
)
def test_unknown_keywords_are_left_out_with_a_log_line(
    keyword: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    schema = {"properties": {"v": {"type": "array", **keyword}}, "title": str(keyword)}
    grammar = after(b'{"v":[1,1]}', schema)
    assert grammar.complete and grammar.relaxed
    assert "enforced in part" in caplog.text


@pytest.mark.parametrize(
    ("value", "relaxed"),
    [
        ({"type": "integer"}, False),
        ({"type": "number", "exclusiveMinimum": 1}, False),
        ({"type": "number", "minimum": 1, "maximum": 2}, False),
        ({"type": "number", "exclusiveMinimum": 1, "maximum": 1.5}, True),
        ({"type": "number", "exclusiveMaximum": 2, "minimum": 1}, True),
        ({"type": "integer", "not": {"const": 1}}, True),
    ],
)
def test_a_grammar_says_whether_it_holds_the_whole_schema(
    value: dict[str, Any], relaxed: bool
) -> None:
    """`applied` must be true: a schema held in part is `schema_downgraded`."""
    schema = {"properties": {"x": value}, "required": ["x"], "additionalProperties": False}
    assert after(b"{", schema).relaxed is relaxed


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "array"}, "must have the type object, found 'array'"),
        ({"type": 5}, "must have the type object, found 5"),
        ({"type": ["string"]}, "must have the type object"),
        ({"properties": 5}, "cannot be enforced"),
        ({"properties": {"a": {"type": "objekt"}}}, "cannot be enforced"),
        ({"$ref": "http://example.com/x"}, "cannot be enforced"),
        ({"$ref": "#"}, "cannot be enforced"),
        ({"enum": [1, 2]}, "cannot be enforced"),
        ({"properties": {"a": {"type": "string", "pattern": "("}}}, "cannot be enforced"),
        ({"properties": {"a": {"type": "string", "pattern": "(?=x)"}}}, "cannot be enforced"),
        ({"properties": {"a": {"type": "string", "pattern": "(" * 9999}}}, "cannot be enforced"),
        ({"title": "x" * 70_000}, "at most 65536 characters"),
    ],
)
def test_what_no_grammar_can_be_made_of_is_refused(schema: dict[str, Any], message: str) -> None:
    with pytest.raises(UnsupportedSchema, match=message) as caught:
        GRAMMARS.start(schema)
    assert isinstance(caught.value, ValueError)
    assert len(str(caught.value)) < 400 and "\n" not in str(caught.value)


@pytest.mark.parametrize("depth", [65, 1500, 100_000])
def test_depth_is_bounded(depth: int) -> None:
    schema: dict[str, Any] = {}
    for _ in range(depth):
        schema = {"properties": {"a": schema}}
    with pytest.raises(UnsupportedSchema, match="nest at most 64 deep"):
        GRAMMARS.start(schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"s": {"type": "string", "maxLength": 5000, "pattern": "\\S"}}},
        {"properties": {"s": {"type": "string", "pattern": "(a|aa)*" * 50 + "b{1000}"}}},
        {"properties": {"s": {"type": "string", "pattern": "((a{1,99}){1,99}){1,99}"}}},
        {"properties": {"s": {"type": "array", "minItems": 10**8}}},
        {"properties": {"s": {"enum": [f"value {n}" for n in range(4000)]}}},
        {
            "allOf": [
                {"anyOf": [{"properties": {f"k{i}_{j}": {}}} for j in range(6)]} for i in range(8)
            ]
        },
    ],
)
def test_costly_schemas_end_soon(schema: dict[str, Any]) -> None:
    """Compiled or refused, and walked, within bounds: fuel, grammar size, lexer states."""
    began = time.process_time()
    try:
        grammar = GRAMMARS.start({**schema, "required": ["s"]})
    except UnsupportedSchema:
        grammar = None
    if grammar is not None:
        feed(grammar, b'{"s":' + b'"a' + b"a" * 60)
    assert time.process_time() - began < 5


def test_compiled_grammars_are_kept_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    grammars = JsonGrammars(GrammarCompiler(TOKENIZER))
    compiled = []
    compile_source = GrammarCompiler.compile

    def counting(self: GrammarCompiler, source: str) -> Any:
        compiled.append(source)
        return compile_source(self, source)

    monkeypatch.setattr(GrammarCompiler, "compile", counting)
    for _ in range(3):
        grammars.start(None)
    assert len(compiled) == 1
    for number in range(100):
        grammars.start({"title": str(number)})
        grammars.start(None)
    assert len(compiled) == 101, "what is used stays"
    assert len(grammars._kept._compiled) == 32


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        (b'{"a":1e99', b"0123456789"),
        (b'{"a":1' + b"0" * 18, b"0123456789"),
        (b'{"a":0.' + b"3" * 20, b"0123456789"),
        (b'{"a":' + b"[" * 63, b"[{"),
        (b'{"a":' * 64, b"[{"),
        (b'{"a":"\\ud83d', b'"'),
    ],
)
def test_any_object_is_one_that_readers_take(text: bytes, refused: bytes) -> None:
    """No number beyond a double, no nesting without end, no half of a surrogate pair."""
    grammar = after(text)
    assert allowed(grammar) and not grammar.dead
    assert not {PIECES.id(bytes([byte])) for byte in refused} & set(allowed(grammar))


def test_grammars_of_one_schema_do_not_share_their_place() -> None:
    first, second = GRAMMARS.start(None), GRAMMARS.start(None)
    feed(first, b"{}")
    assert first.complete and not second.complete
    feed(second, b'{"a":1}')
    assert second.complete


def test_the_clients_compiler_options_are_ignored() -> None:
    grammar = after(b"{ ", {"x-guidance": {"whitespace_pattern": " *", "lenient": False}})
    assert PIECES.id(b" ") not in allowed(grammar)


def test_a_vocabulary_of_a_real_model() -> None:
    """Qwen3.5: 151,936 tokens, masks of 4,748 words, prepared within seconds."""
    tokenizer = golden_tokenizer("qwen35")
    began = time.process_time()
    grammar = JsonGrammars(GrammarCompiler(tokenizer)).start(None)
    assert time.process_time() - began < 10
    assert grammar.mask.shape == (4748,) and grammar.mask.dtype == np.uint32
    for token in tokenizer.encode('{"city": "Oslo 🦜", "days": [1, 2]}', special=False):
        assert token in allowed(grammar)
        grammar.accept(token)
    assert grammar.complete


@given(st.data(), st.integers(1, 200))
def test_masks_hold_one_bit_a_token(data: st.DataObject, vocabulary: int) -> None:
    """Bit i of word j is token 32 j + i; nothing beyond the vocabulary."""
    tokens = data.draw(st.sets(st.integers(0, vocabulary - 1)))
    words = mask_of(tokens, vocabulary)
    assert words.shape == (-(-vocabulary // 32),)
    assert {t for t in range(words.size * 32) if int(words[t // 32]) >> (t % 32) & 1} == tokens
    padded = words.astype("<u4").tobytes() + b"\xff" * 8
    assert (mask_from_bytes(padded, vocabulary) == words).all()
    full = mask_from_bytes(b"\xff" * (words.size * 4), vocabulary)
    assert (full == mask_of(range(vocabulary), vocabulary)).all()
