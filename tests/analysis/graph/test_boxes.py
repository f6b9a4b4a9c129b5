"""Boxes while they are made: a table of what is put in them, with what is left when they are settled."""

from __future__ import annotations

import math

import numpy as np
import pytest

from inspector.analysis.graph.boxes import MOST_NODES, Box, Boxes


def settled(boxes: Boxes, positions: list[int] | None = None) -> dict[str, list[str]]:
    """Maps each box, by the titles around it, to its contents: rows as numbers, boxes by their titles."""
    rows = len(boxes.parents) - len(boxes.listed)
    boxes.settle(np.array(range(rows) if positions is None else positions))
    parents = boxes.parents.tolist()
    title = lambda node: str(node) if node < rows else boxes.listed[node - rows].title  # noqa: E731
    found: dict[str, list[str]] = {}
    for node in range(rows, len(parents)):
        path, above = title(node), parents[node]
        while above >= rows and parents[above] >= 0:
            path, above = f"{title(above)}/{path}", parents[above]
        found[path] = [title(each) for each, parent in enumerate(parents) if parent == node]
    return found


def made(count: int) -> tuple[Boxes, int]:
    boxes = Boxes(count)
    top = boxes.add(Box("module", "top"), -1)
    boxes.put(np.arange(count), np.full(count, top))
    return boxes, top


def put(boxes: Boxes, rows: range | list[int], node: int) -> None:
    boxes.put(np.array([*rows]), np.full(len(rows), node))


def test_a_box_of_a_name_is_made_once_in_each_node() -> None:
    boxes, top = made(4)
    a = boxes.within(top, Box("scope", "a"))
    assert boxes.within(top, Box("scope", "a")) == a == 5
    assert boxes.within(top, Box("scope", "a", "forward")) == 6
    assert boxes.within(a, Box("scope", "a")) == 7
    assert boxes.parents.tolist() == [4, 4, 4, 4, -1, 4, 4, 5]


def test_boxes_of_several_nodes_stay() -> None:
    boxes, top = made(6)
    a = boxes.within(top, Box("scope", "a"))
    put(boxes, range(3), a)
    put(boxes, range(3, 5), boxes.within(a, Box("scope", "b")))
    assert settled(boxes) == {"top": ["5", "a"], "a": ["0", "1", "2", "b"], "a/b": ["3", "4"]}


def test_boxes_of_nothing_are_dropped_with_those_that_hold_only_them() -> None:
    boxes, top = made(3)
    boxes.within(boxes.within(top, Box("scope", "a")), Box("scope", "b"))
    boxes.within(top, Box("computation", "c"))
    c = boxes.within(top, Box("scope", "d"))
    put(boxes, [0, 1], c)
    assert settled(boxes) == {"top": ["2", "d"], "d": ["0", "1"]}


@pytest.mark.parametrize(
    ("outer", "inner", "title", "phase"),
    [
        (Box("scope", "a"), Box("scope", "b"), "a/b", ""),
        (Box("scope", "forward", "forward"), Box("scope", "b", "forward"), "b", "forward"),
        (Box("scope", "a", "forward"), Box("scope", "b", "forward"), "a/b", "forward"),
        (Box("inputs", "inputs"), Box("inputs", "params"), "inputs/params", ""),
        (Box("scope", "a"), Box("inputs", "inputs"), "inputs", ""),
    ],
)
def test_a_box_with_one_box_in_it_is_joined_with_that(outer: Box, inner: Box, title: str, phase: str) -> None:
    boxes, top = made(5)
    put(boxes, range(3), boxes.within(boxes.within(top, outer), inner))
    assert settled(boxes) == {"top": ["3", "4", title], title: ["0", "1", "2"]}
    assert boxes.listed[1] == Box(inner.kind, title, phase)


def test_a_row_alone_in_boxes_stands_outside_of_them() -> None:
    boxes, top = made(3)
    node = top
    for title in "abc":
        node = boxes.within(node, Box("scope", title))
    put(boxes, [1], node)
    assert settled(boxes) == {"top": ["0", "1", "2"]}


def test_a_computation_is_a_box_though_one_node_is_in_it() -> None:
    boxes, top = made(3)
    put(boxes, [1], boxes.within(top, Box("computation", "c")))
    assert settled(boxes) == {"top": ["0", "2", "c"], "c": ["1"]}


def test_the_only_child_of_an_instruction_is_folded() -> None:
    boxes, _ = made(3)
    put(boxes, [1], boxes.within(0, Box("scope", "a")))
    assert settled(boxes) == {"top": ["0", "2"]}
    assert boxes.parents.tolist() == [3, 0, 3, -1]


@pytest.mark.parametrize(
    "count", [1, 2, 16, MOST_NODES, MOST_NODES + 1, 2 * MOST_NODES, 500, MOST_NODES**2, MOST_NODES**2 + 1]
)
def test_no_box_holds_too_many_and_parts_are_neighbors_in_the_schedule(count: int) -> None:
    boxes, _ = made(count)
    positions = np.random.default_rng(count).permutation(count).tolist()
    found = settled(boxes, positions)
    assert max(map(len, found.values())) <= MOST_NODES
    if count <= MOST_NODES:
        assert found == {"top": list(map(str, range(count)))}
        return
    parts = [rows for title, rows in found.items() if all(row.isdecimal() for row in rows)]
    assert sum(map(len, parts)) == count
    assert len(parts) == math.ceil(count / MOST_NODES)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    order = [sorted(positions[int(row)] for row in rows) for rows in parts]
    assert [place for part in order for place in part] == list(range(count))
    titles = [box.title for box in boxes.listed if box.title.endswith(f" of {len(parts)}")]
    assert titles == [f"part {n} of {len(parts)}" for n in range(1, len(parts) + 1)]


def test_parts_of_boxes_are_called_by_the_first_and_the_last() -> None:
    count = MOST_NODES + 2
    boxes, top = made(3 * count)
    for n in range(count):
        put(
            boxes,
            range(3 * n, 3 * n + 3),
            boxes.within(top, Box("scope", f"layer_{n}", "forward" if n < 40 else "backward")),
        )
    found = settled(boxes)
    assert found["top"] == [f"layer_0 … layer_{count // 2 - 1}", f"layer_{count // 2} … layer_{count - 1}"]
    parts = [box for box in boxes.listed if box.kind == "part"]
    assert [box.phase for box in parts] == ["forward", ""]
    assert found[f"layer_0 … layer_{count // 2 - 1}"] == [f"layer_{n}" for n in range(count // 2)]


def test_boxes_stand_where_the_first_of_their_instructions_runs() -> None:
    """Among rows that are too many, a box goes to the part of its first row, be that in a box in it."""
    count = MOST_NODES + 6
    boxes, top = made(count)
    outer = boxes.within(top, Box("scope", "outer"))
    put(boxes, [count - 1, 3], outer)
    put(boxes, [0, count - 2], boxes.within(outer, Box("scope", "inner")))
    found = settled(boxes)
    assert "outer" in found["part 1 of 2"]
    assert found["part 1 of 2/outer"] == ["3", str(count - 1), "inner"]
    assert found["part 2 of 2"] == [str(n) for n in range(int(found["part 2 of 2"][0]), count - 2)]


def test_inputs_stay_outside_of_parts_but_are_divided_themselves() -> None:
    count = 2 * MOST_NODES
    boxes, top = made(3 * count)
    put(boxes, range(count), boxes.within(top, Box("inputs", "inputs")))
    found = settled(boxes)
    assert "inputs" in found["top"]
    assert sorted(found["top"]) == sorted(["inputs", *(f"part {n} of 4" for n in range(1, 5))])
    assert found["inputs"] == ["part 1 of 2", "part 2 of 2"]
    assert found["inputs/part 1 of 2"] == [str(n) for n in range(MOST_NODES)]


def test_numbers_have_no_gaps_after_boxes_went() -> None:
    boxes, top = made(6)
    boxes.within(top, Box("scope", "gone"))
    a = boxes.within(top, Box("scope", "a"))
    boxes.within(a, Box("scope", "gone too"))
    put(boxes, [0, 1], boxes.within(a, Box("scope", "b")))
    put(boxes, [2, 3], a)
    boxes.settle(np.arange(6))
    assert boxes.parents.tolist() == [8, 8, 7, 7, 6, 6, -1, 6, 7]
    assert [box.title for box in boxes.listed] == ["top", "a", "b"]
    assert boxes.within(6, Box("scope", "a")) == 9  # what it knew by number is forgotten
