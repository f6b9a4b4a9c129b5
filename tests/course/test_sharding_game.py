"""The sharding game: what the compiler answers, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

import inspector
from inspector.course.explorables.sharding_game import Axes, _judge
from inspector.errors import ParameterError
from tests.course.test_explorables import content

MIB = 1 << 20


def judged(a: Axes, b: Axes, result: Axes) -> dict[str, Any]:
    game = content(inspector.sharding_game(), "sharding_game")
    return dict(_judge(game, {"operands": [a, b], "result": result}))  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shardings", "opcodes", "sent_mib"),
    [
        (([["x"], []], [[], ["y"]], [["x"], ["y"]]), [], 0),
        (([[], ["x"]], [["x"], []], [[], []]), ["all-reduce"], 6),
        (([["x"], []], [["x"], []], [["x"], []]), ["all-gather"], 12),
        (([["x"], ["y"]], [["y"], []], [["x"], []]), ["all-reduce"], 1),
    ],
)
def test_the_compiler_judges(shardings: tuple[Axes, Axes, Axes], opcodes: list[str], sent_mib: int) -> None:
    reply = judged(*shardings)
    assert reply["error"] is None
    assert [each["opcode"] for each in reply["collectives"]] == opcodes
    assert reply["sent_bytes"] == sent_mib * MIB
    game = content(inspector.sharding_game(), "sharding_game")
    fits = reply["memory_bytes"] <= game["memory_bytes"]
    assert fits == (sent_mib == 1), "the game has a solution, and not without messages"


@pytest.mark.parametrize("result", [[["x"], ["x"]], [["z"], []], [["x"]]])
def test_impossible_shardings_are_refused(result: Axes) -> None:
    reply = judged([[], []], [[], []], result)
    assert "expected each mesh axis once at most" in reply["error"]["message"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"einsum": "ij->i"}, "a product of two operands"),
        ({"einsum": "ii,ij->j"}, "a product of two operands"),
        ({"einsum": "ij,jk->iz"}, "must be in the operands"),
        ({"sizes": {"i": 8}}, "a size for each of i, j, k"),
        ({"sizes": {"i": 0, "j": 1, "k": 1}}, "1 or more"),
        ({"axes": {"x": 32}}, "2 to 16 devices"),
        ({"axes": 4}, "sizes by name"),
        ({"memory_bytes": 0}, "a number of bytes"),
    ],
)
def test_impossible_games_are_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        inspector.sharding_game(**arguments)
