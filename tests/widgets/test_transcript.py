"""What an Explorer said, packed for a page: all of it, or what fits."""

from __future__ import annotations

import dataclasses
import gzip
import random
from typing import Any

from inspector.widgets import messages
from inspector.widgets.transcript import Said, Transcript
from tests.widgets.transcripts import read


def document(pane: str, size: int) -> Said:
    message = messages.Document(
        type="document", pane=pane, variant=0, language="hlo", title="", line_count=7
    )  # fmt: skip
    return Said(message, [gzip.compress(random.Random(pane).randbytes(size))])


def told(**fields: Any) -> Said:
    return Said({"type": "stats", "variant": 0, **fields})


def transcript(*said: Said) -> Transcript:
    return Transcript("Recorded today", {"version": 2}, said)


def test_what_was_said_is_read_as_it_was_said() -> None:
    reply = Said(
        {"type": "roofline", "id": -3, "variant": 0}, [b"one", b""], {"variant": 0, "type": "roofline", "by": "kernel"}
    )
    table = read(transcript(reply, told(title="ä <b>"), document("hlo", 10)).to_bytes())
    assert (table["about"], table["arrangement"]) == ("Recorded today", {"version": 2})
    assert [entry["message"]["type"] for entry in table["kept"]] == ["stats", "document"]
    assert table["kept"][0]["message"]["title"] == "ä <b>"
    assert table["replies"][0]["buffers"] == [b"one", b""]
    assert list(table["replies"][0]["request"]) == ["by", "type", "variant"], "the browser looks it up in this order"


def test_all_is_kept_where_there_is_room() -> None:
    whole = transcript(told(), document("hlo", 1000))
    assert whole.within(10_000, "Run the cell.") == whole


def test_the_largest_go_first_and_texts_last_and_say_so() -> None:
    small = Said({"type": "graph", "variant": 0}, [random.Random(0).randbytes(2_000)])
    large = Said({"type": "graph", "variant": 1}, [random.Random(1).randbytes(9_000)])
    whole = transcript(told(), document("hlo", 5_000), document("optimized", 20_000), large, small)
    kept = whole.within(30_000, "Run the cell.")
    assert [s.message["type"] for s in kept.said] == ["stats", "document", "document", "graph"]
    kept = whole.within(10_000, "Run the cell.")
    assert [s.message["type"] for s in kept.said] == ["stats", "document", "unavailable"]
    gone = kept.said[-1].message
    assert (gone["pane"], gone["variant"], gone["remedy"]) == ("optimized", 0, "Run the cell.")
    assert gone["reason"].startswith("It has 7 lines, 19.7 KiB packed")
    assert len(kept.to_bytes()) <= 10_000


def test_texts_of_variants_go_before_a_larger_one_of_the_baseline() -> None:
    of_variant = document("optimized", 10_000)
    of_variant = dataclasses.replace(of_variant, message={**of_variant.message, "variant": 1})
    kept = transcript(document("source", 1_000), document("optimized", 20_000), of_variant).within(25_000, "")
    assert [(s.message["type"], s.message["variant"]) for s in kept.said[1:]] == [("document", 0), ("unavailable", 1)]


def test_what_has_no_buffers_is_kept_whatever_the_limit() -> None:
    assert transcript(told()).within(0, "").said == (told(),)
