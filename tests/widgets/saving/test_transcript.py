"""The messages of an Explorer, packed for a page: all of them, or those that fit."""

from __future__ import annotations

import dataclasses
import gzip
import random
from typing import Any

from inspector.widgets import messages
from inspector.widgets.saving.transcript import SentMessage, Transcript
from tests.widgets.transcripts import read


def document(pane: str, size: int) -> SentMessage:
    message = messages.Document(
        type="document", pane=pane, variant=0, language="hlo", title="", line_count=7
    )  # fmt: skip
    return SentMessage(message, [gzip.compress(random.Random(pane).randbytes(size))])


def told(**fields: Any) -> SentMessage:
    return SentMessage({"type": "stats", "variant": 0, **fields})


def transcript(*said: SentMessage) -> Transcript:
    return Transcript("Recorded today", {"version": 2}, said)


def test_replies_are_read_as_they_were_sent() -> None:
    reply = SentMessage(
        {"type": "roofline", "id": -3, "variant": 0}, [b"one", b""], {"variant": 0, "type": "roofline", "by": "kernel"}
    )
    table = read(transcript(reply, told(title="ä <b>"), document("hlo", 10)).to_bytes())
    assert (table["about"], table["arrangement"]) == ("Recorded today", {"version": 2})
    assert [entry["message"]["type"] for entry in table["kept"]] == ["stats", "document"]
    assert table["kept"][0]["message"]["title"] == "ä <b>"
    assert table["replies"][0]["buffers"] == [b"one", b""]
    assert list(table["replies"][0]["request"]) == ["by", "type", "variant"], "the browser looks it up in this order"


def test_everything_is_included_if_it_fits() -> None:
    whole = transcript(told(), document("hlo", 1000))
    assert whole.within(10_000, "Run the cell.") == whole.repacked()


def random_bytes(size: int) -> list[bytes]:
    return [gzip.compress(random.Random(size).randbytes(size))]


def kinds(kept: Transcript) -> list[tuple[str, str, int]]:
    return [(s.message["type"], s.message.get("pane", ""), s.message["variant"]) for s in kept.messages]


def test_the_first_texts_have_priority_and_omissions_are_stated() -> None:
    graph = SentMessage({"type": "graph", "variant": 0}, random_bytes(4_000))
    reply = SentMessage(
        {"type": "roofline", "id": -3, "variant": 0}, random_bytes(100), {"variant": 0, "type": "roofline"}
    )
    whole = transcript(told(), document("hlo", 5_000), reply, document("optimized", 20_000), graph)
    assert len(whole.within(30_000, "").messages) == 5
    kept = whole.within(25_500, "Run the cell.")
    assert kinds(kept) == [
        ("stats", "", 0), ("unavailable", "hlo", 0), ("roofline", "", 0), ("document", "optimized", 0), ("graph", "", 0),
    ]  # fmt: skip
    gone = kept.messages[1].message
    assert gone["remedy"] == "Run the cell."
    assert gone["reason"].startswith("It has 7 lines, 4.99 KiB compressed")
    assert len(kept.to_bytes()) <= 25_500
    assert kinds(whole.within(20_600, "")) == [
        ("stats", "", 0), ("unavailable", "hlo", 0), ("roofline", "", 0), ("document", "optimized", 0),
    ]  # fmt: skip
    assert ("unavailable", "optimized", 0) in kinds(whole.within(12_000, ""))
    assert ("document", "hlo", 0) in kinds(whole.within(12_000, "")), "it has the room that a larger one could not use"


def test_texts_of_variants_go_before_a_larger_one_of_the_baseline() -> None:
    of_variant = document("optimized", 10_000)
    of_variant = dataclasses.replace(of_variant, message={**of_variant.message, "variant": 1})
    kept = transcript(document("source", 1_000), document("optimized", 20_000), of_variant).within(25_000, "")
    assert [(s.message["type"], s.message["variant"]) for s in kept.messages[1:]] == [
        ("document", 0),
        ("unavailable", 1),
    ]


def test_texts_that_become_small_enough_are_included() -> None:
    draw = random.Random(0).randrange
    lines = "\n".join(f"  %add.{i} = f32[64] add(%add.{i - draw(9)}, %add.{draw(i + 1)})" for i in range(2_000))
    text = dataclasses.replace(document("optimized", 0), buffers=[gzip.compress(lines.encode(), 1)])
    small = transcript(text).repacked().messages[0].size
    assert 1.5 * small < text.size
    assert kinds(transcript(text).within(small, "")) == [("document", "optimized", 0)]
    assert kinds(transcript(text).within(small - 1, "")) == [("unavailable", "optimized", 0)]


def test_messages_without_buffers_are_always_included() -> None:
    assert transcript(told()).within(0, "").messages == (told(),)
