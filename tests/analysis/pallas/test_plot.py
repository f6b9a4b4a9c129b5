"""The drawing of a kernel's blocks: rectangles where the block specification puts them."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

import inspector
from inspector.analysis.pallas.plot import plot_blocks
from inspector.errors import ParameterError
from tests.analysis.pallas.test_grid_walk import kernel, windows
from tests.kernels import matmul, struct

INPUT, OUTPUT, OVERLAP = "#0072b2", "#d55e00", "#cc79a7"
Box = tuple[float, float, float, float]


def rectangles(panel: Axes) -> list[Rectangle]:
    """The array itself first."""
    return [patch for patch in panel.patches if isinstance(patch, Rectangle)]


def box(patch: Rectangle, array: Rectangle, shape: tuple[int, int]) -> Box:
    """First row and column, and the number of both, in elements of the array."""
    rows, columns = shape[0] / array.get_height(), shape[1] / array.get_width()
    x, y = patch.get_xy()
    return tuple(round(v, 6) for v in (y * rows, x * columns, patch.get_height() * rows, patch.get_width() * columns))  # type: ignore[return-value]


def blocks(panel: Axes, shape: tuple[int, int]) -> dict[Box, Rectangle]:
    array, *others = rectangles(panel)
    return {box(patch, array, shape): patch for patch in others}


def is_filled(patch: Rectangle) -> bool:
    return bool(np.asarray(patch.get_facecolor())[3] > 0)


@pytest.mark.parametrize("step", [0, 3, 5])
def test_every_block_is_where_the_index_map_puts_it(step: int) -> None:
    walk = windows((16, 24), pl.BlockSpec((8, 8), lambda i, j: (i, j)), (2, 3))
    given, made = plot_blocks(walk, step).axes
    steps = [(8.0 * (n // 3), 8.0 * (n % 3), 8.0, 8.0) for n in range(6)]
    for panel, color in ((given, INPUT), (made, OUTPUT)):
        found = blocks(panel, (16, 24))
        assert found.keys() == set(steps)
        assert {place for place, patch in found.items() if is_filled(patch)} == set(steps[: step + 1])
        assert {to_hex(patch.get_edgecolor()) for patch in found.values()} == {color}
        (current,) = [place for place, patch in found.items() if patch.get_alpha() == 0.85]
        assert current == steps[step]
        assert list(found)[-1] == current  # on top of the others
        assert [found[place].get_alpha() for place in steps[:step]] == [0.22] * step
        assert found[current].get_linewidth() > 0.4
        assert {patch.get_linestyle() for patch in found.values()} == {"-"}
        assert {patch.get_hatch() or "" for patch in found.values()} == {""}


def test_revisited_blocks_are_hatched_except_the_current_one() -> None:
    back = windows((16, 24), pl.BlockSpec((8, 24), lambda i, j: (j, 0)), (2, 2))
    found = blocks(plot_blocks(back, 1).axes[0], (16, 24))
    assert {place: patch.get_hatch() or "" for place, patch in found.items()} == {
        (0, 0, 8, 24): "////", (8, 0, 8, 24): "",
    }  # fmt: skip


def test_blocks_that_overlap_are_dashed() -> None:
    spec = pl.BlockSpec((pl.Element(12), pl.Element(8)), lambda i, j: (i * 4, j * 8))
    found = blocks(plot_blocks(windows((16, 24), spec, (2, 2))).axes[0], (16, 24))
    assert len(found) == 4
    assert {(to_hex(patch.get_edgecolor()), patch.get_linestyle()) for patch in found.values()} == {(OVERLAP, "--")}


@pytest.mark.parametrize(("shape", "size"), [
    ((16, 32), (0.5, 1.0)), ((32, 16), (1.0, 0.5)), ((16, 16), (1.0, 1.0)), ((8, 8000), (0.12, 1.0)), ((8000, 8), (1.0, 0.12)),
])  # fmt: skip
def test_arrays_are_to_scale_except_very_long_ones(shape: tuple[int, int], size: tuple[float, float]) -> None:
    one = windows(shape, pl.BlockSpec(shape, lambda i: (0, 0)), (1,))
    array, block = rectangles(plot_blocks(one).axes[0])
    assert (array.get_height(), array.get_width()) == pytest.approx(size)
    assert (block.get_height(), block.get_width()) == pytest.approx(size)
    assert array.get_xy() == block.get_xy() == (0, 0)


def test_a_vector_is_one_row_and_more_dimensions_are_drawn_by_the_last_two() -> None:
    vector = windows((64,), pl.BlockSpec((16,), lambda i: (i,)), (4,))
    assert set(blocks(plot_blocks(vector).axes[0], (1, 64))) == {(0.0, 16.0 * i, 1.0, 16.0) for i in range(4)}
    deep = windows((2, 16, 24), pl.BlockSpec((1, 8, 24), lambda i, j: (i, j, 0)), (2, 2))
    figure = plot_blocks(deep, 2)
    # The blocks of the slice that the current one is in.
    assert set(blocks(figure.axes[0], (16, 24))) == {(0.0, 0.0, 8.0, 24.0), (8.0, 0.0, 8.0, 24.0)}
    assert [is_filled(patch) for patch in blocks(figure.axes[0], (16, 24)).values()] == [False, True]
    assert notes(figure)[0].startswith("at (1, 0, 0) (last two dimensions)\n")


def notes(figure: Figure) -> list[str]:
    return [panel.texts[-1].get_text() for panel in figure.axes]


def test_a_plot_states_the_current_step() -> None:
    some = kernel(matmul, struct(256, 256), struct(256, 128))
    figure = plot_blocks(some, 3)
    assert figure.get_suptitle() == "matmul: step 3 of 4, program id (1, 0, 1) of grid 2 x 1 x 2"
    assert [panel.get_title() for panel in figure.axes] == [
        "x_ref  float32[256, 256]\nblock (128, 128)", "y_ref  float32[256, 128]\nblock (128, 128)",
        "o_ref  float32[256, 128]\nblock (128, 128)",
    ]  # fmt: skip
    assert notes(figure) == [
        "at (128, 128)\n4 copies of 4 blocks", "at (128, 0)\n4 copies of 2 blocks", "at (128, 0)\n2 copies of 2 blocks",
    ]  # fmt: skip
    assert all(not panel.axison for panel in figure.axes)
    width, height = figure.get_size_inches()
    assert width / len(figure.axes) < height < 1.5 * width / len(figure.axes)  # panels are square, a title above them
    data, said = figure._repr_png_()  # type: ignore[attr-defined]
    assert data.startswith(b"\x89PNG")
    assert said == {"alt": figure.alternative_text} != {"alt": ""}  # type: ignore[attr-defined]


@pytest.mark.parametrize("step", [-1, 4])
def test_a_step_that_is_not_there_is_refused(step: int) -> None:
    with pytest.raises(ParameterError, match=rf"Cannot draw step {step} of matmul: its steps are 0 to 3\."):
        plot_blocks(kernel(matmul, struct(256, 256), struct(256, 128)), step)


def test_a_plot_marks_blocks_known_only_at_run_time() -> None:
    def fun(rows: Any, x: Any) -> Any:
        spec = pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1, grid=(4,),
            in_specs=[pl.BlockSpec((8, 128), lambda i, rows: (rows[i], 0))],
            out_specs=pl.BlockSpec((8, 128), lambda i, rows: (i, 0)),
        )  # fmt: skip
        return pl.pallas_call(lambda r, x, o: None, grid_spec=spec, out_shape=struct(32, 128))(rows, x)

    some = inspector.lower(fun, struct(4, dtype=jnp.int32), struct(64, 128), platform="tpu").kernels[0]
    unknown, known = plot_blocks(some).axes
    assert unknown.texts[0].get_text() == "known only\nat run time"
    assert len(rectangles(unknown)) == 1
    assert len(rectangles(known)) == 1 + 4
