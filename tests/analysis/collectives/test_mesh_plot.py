"""Pictures of groups: every id once, one style a group, nothing through pyplot."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pytest

from inspector.analysis.collectives.mesh_plot import plot_groups
from inspector.errors import ModuleError
from inspector.hlo.devices.mesh import Mesh
from inspector.hlo.devices.replica_groups import parse
from tests.groups import to_lists

SIZES = [(2,), (8,), (1, 4), (4, 2), (2, 1, 4), (2, 2, 2), (4, 4, 4), (2, 2, 2, 2), (8, 8)]


def mesh_of(sizes: tuple[int, ...], ids: tuple[int, ...] | None = None) -> Mesh:
    return Mesh(tuple("ijkl"[: len(sizes)]), sizes, "partition", ids)


@pytest.mark.parametrize("sizes", SIZES)
def test_every_id_is_drawn_once_in_the_style_of_its_group(sizes: tuple[int, ...]) -> None:
    mesh = mesh_of(sizes, tuple(reversed(range(math.prod(sizes)))))
    names = ",".join(f"'{n}'={s}" for n, s in zip(mesh.axis_names, sizes, strict=True))
    groups = to_lists(parse(f"mesh[{names}] {{'{mesh.axis_names[0]}'}}"))
    figure = plot_groups(mesh, groups, title="t")
    figure.draw_without_rendering()
    group_of = {member: number for number, group in enumerate(groups) for member in group}
    style_of: dict[int, object] = {}
    drawn = []
    for panel in figure.axes:
        cells = {patch.get_xy(): (patch.get_facecolor(), patch.get_hatch()) for patch in panel.patches}
        for text in panel.texts:
            member, (x, y) = int(text.get_text()), text.get_position()
            drawn.append(member)
            style = cells[(x - 0.5, y - 0.5)]
            assert style_of.setdefault(group_of[member], style) == style
    assert sorted(drawn) == list(range(mesh.size))
    assert len(set(style_of.values())) == len(groups)


def test_rows_and_columns_are_the_last_two_large_axes() -> None:
    (panel,) = plot_groups(mesh_of((2, 1, 4)), [[0]]).axes
    assert (panel.get_ylabel(), panel.get_xlabel()) == ("i", "k")
    places = {text.get_text(): text.get_position() for text in panel.texts}
    assert places["6"] == (2.5, 1.5)  # i = 1, k = 2
    titles = [panel.get_title() for panel in plot_groups(mesh_of((2, 2, 2)), [[0]]).axes]
    assert titles == ["i = 0", "i = 1"]


def test_pairs_are_arrows() -> None:
    figure = plot_groups(mesh_of((2, 2, 2)), [(0, 1), (1, 0), (2, 7)], pairs=True)
    assert len(figure.artists) == 3


def test_members_of_pairs_have_no_groups_color() -> None:
    mesh = mesh_of((2, 2))
    colors = [
        {
            patch.get_facecolor()
            for panel in plot_groups(mesh, [(0, 1), (2, 3)], pairs=pairs).axes
            for patch in panel.patches
        }
        for pairs in (True, False)
    ]
    assert [len(each) for each in colors] == [1, 2]
    assert not colors[0] & colors[1]


@pytest.mark.parametrize(("sizes", "rows", "labels"), [((2, 4), 2, ["0", "1"]), ((1, 4), 1, [""])])
def test_the_indices_stand_beside_rows_and_columns(sizes: tuple[int, ...], rows: int, labels: list[str]) -> None:
    (panel,) = plot_groups(mesh_of(sizes), [[0]]).axes
    assert (panel.get_xlim(), panel.get_ylim()) == ((0, 4), (rows, 0))
    assert [(*panel.get_xticks(),), (*panel.get_yticks(),)] == [(0.5, 1.5, 2.5, 3.5), (0.5, 1.5)[:rows]]
    assert [text.get_text() for text in panel.get_xticklabels()] == ["0", "1", "2", "3"]
    assert [text.get_text() for text in panel.get_yticklabels()] == labels
    assert {tick.tick1line.get_markersize() for tick in panel.xaxis.get_major_ticks()} == {0}


@pytest.mark.parametrize(
    ("groups", "pairs", "labels"),
    [
        ([[0, 1, 2, 3, 4, 5, 6], [7]], False, ["{0, 1, 2, 3, 4, 5, …}", "{7}"]),
        ([[0, 1], [2, 3]], False, ["{0, 1}", "{2, 3}"]),
        ([[0, 1], [2, 3]], True, []),
        ([[0, 1, 2, 3]], False, []),
        ([[0], [1], [2]], False, []),
    ],
)
def test_groups_have_a_legend_where_there_are_several(groups: list[list[int]], pairs: bool, labels: list[str]) -> None:
    figure = plot_groups(mesh_of((2, 4)), groups, pairs=pairs)
    assert [text.get_text() for legend in figure.legends for text in legend.get_texts()] == labels


def test_more_groups_than_anybody_reads_have_no_legend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inspector.analysis.collectives.mesh_plot._LONGEST_LEGEND", 2)
    for count, legends in ((2, 1), (3, 0)):
        groups = [[2 * n, 2 * n + 1] for n in range(count)]
        assert len(plot_groups(mesh_of((2, 4)), groups).legends) == legends


def test_coordinates() -> None:
    (panel,) = plot_groups(mesh_of((2, 2), (3, 1, 2, 0)), [[0, 1]], coordinates=True).axes
    assert {text.get_text() for text in panel.texts} == {"3\n(0,0)", "1\n(0,1)", "2\n(1,0)", "0\n(1,1)"}


def test_an_id_that_the_mesh_does_not_have() -> None:
    with pytest.raises(ModuleError, match=r"Cannot draw groups on the partition mesh \(i=4\): it has no id 4"):
        plot_groups(mesh_of((4,)), [[3, 4]])


def test_pyplot_is_not_imported() -> None:
    script = """
import sys
from inspector.analysis.collectives.mesh_plot import plot_groups
from inspector.hlo.devices.mesh import Mesh
assert "matplotlib" not in sys.modules
plot_groups(Mesh(("i",), (4,), "replica"), [[0, 1], [2, 3]]).savefig("/dev/null", format="png")
assert "matplotlib.pyplot" not in sys.modules
"""
    root = str(Path(__file__).parents[3])
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=root, check=False)
    assert process.returncode == 0, process.stderr
