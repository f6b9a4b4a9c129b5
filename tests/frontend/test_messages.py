"""Message types are written once and checked on both sides."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from inspector.widgets import messages
from inspector.widgets.panes.registry import FromBrowser, ToBrowser

ROOT = Path(__file__).resolve().parent.parent.parent
STATS_ROW = {
    "key": "temp_bytes",
    "label": "temporaries",
    "unit": "bytes",
    "group": "memory",
    "value": 8,
    "word": "",
    "reason": None,
    "less_is_better": True,
}


def test_typescript_is_generated_from_these_types() -> None:
    generated = runpy.run_path(str(ROOT / "frontend" / "generate_messages.py"))["files"]()
    for path, text in generated.items():
        assert path.read_text() == text, "run: python frontend/generate_messages.py"
    text = generated[ROOT / "frontend" / "src" / "messages.ts"]
    for name in ("Session", "Document", "OriginTable", "CollectiveMessage", "RunResult", "GraphRequest", "CodeTable"):
        assert f"export interface {name} {{" in text


def test_a_right_message_has_no_problem() -> None:
    assert messages.problem({"type": "stats", "variant": 0, "rows": [STATS_ROW]}, ToBrowser) is None
    assert messages.problem({"type": "run", "variant": 1, "repeat": 20}, FromBrowser) is None
    assert messages.problem({"type": "graph", "variant": 0}, FromBrowser) is None


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (
            {"type": "stats", "variant": 0, "rows": [{"key": "x"}]},
            r"message.rows\[0\] is not StatsRow: missing \['group', 'label'",
        ),
        ({"type": "stats", "variant": "0", "rows": []}, "message.variant is '0', expected int"),
        ({"type": "stats", "variant": True, "rows": []}, "message.variant is True, expected int"),
        ({"type": "stats", "variant": 0, "rows": [], "extra": 1}, r"unknown \['extra'\]"),
        ({"type": "stats", "variant": 0, "rows": None}, "message.rows is None, expected a list"),
        ({"type": "stats", "variant": 0, "rows": [{**STATS_ROW, "unit": "miles"}]}, "unit is 'miles', expected one of"),
        (
            {
                "type": "diff",
                "baseline": 0,
                "variant": 1,
                "hunks": [[1, 2, 3]],
                "following": [],
                "summary": "",
                "changes": [],
                "count": 0,
            },
            "expected 4 values",
        ),
        ({"type": "nonsense"}, "message has type 'nonsense', expected one of"),
        ("text", "message has type None, expected one of"),
    ],
)
def test_a_wrong_message_is_described(message: object, said: str) -> None:
    problem = messages.problem(message, ToBrowser)
    assert problem is not None
    assert re.search(said, problem), problem
