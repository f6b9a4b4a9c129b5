"""Texts that are nearly alike, held once."""

from __future__ import annotations

import random

from inspector.compilation.records.texts import Texts, TextsBuilder

RANDOM = random.Random(0)
LINES = [f"line {n}: " + "".join(RANDOM.choices("abcdefgh", k=60)) for n in range(2000)]
STAGES = ["\n".join([*LINES[n:], f"stage {n}"]) for n in range(40)]


def test_each_text_comes_back() -> None:
    texts = Texts.of([*STAGES, "", "\n\n", "ü\n", STAGES[0]])
    assert len(texts) == 44
    assert [texts[i] for i in range(44)] == [*STAGES, "", "\n\n", "ü\n", STAGES[0]]


def test_a_line_is_stored_once_for_all_texts() -> None:
    together, alone = Texts.of(STAGES), Texts.of(STAGES[:1])
    assert sum(map(len, STAGES)) > 30 * len(STAGES[0])
    assert together.byte_size < 1.5 * alone.byte_size


def test_equal_texts_have_one_index_and_equal_lines_are_one_object() -> None:
    builder = TextsBuilder()
    assert [builder.add(text) for text in (b"a\nb", b"b\na", b"a\nb")] == [0, 1, 0]
    first, second = builder.build().lines_of(0, 1)
    assert (first, second) == (["a", "b"], ["b", "a"])
    assert first[0] is second[1]


def test_invalid_utf_8_is_shown_with_replacement_characters() -> None:
    builder = TextsBuilder()
    builder.add(b"a\xffb")
    assert builder.build()[0] == "a\ufffdb"
