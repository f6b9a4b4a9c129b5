"""A roofline as a figure: the roofs, the kernels under them and the whole program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from inspector.analysis.cost.roofline_point import Point
from inspector.errors import Unavailable
from inspector.platforms import Peak
from inspector.support.units import format_count, format_seconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from inspector.analysis.figures import Picture


def roofline_plot(
    points: Sequence[Point],
    total: Point,
    peak: Peak | Unavailable,
    flops_per_s: float | Unavailable,
    peak_name: str | Unavailable,
) -> Picture:
    """Plots kernels and total by arithmetic intensity and FLOPs per second, both on logarithmic axes.

    Args:
      points: the kernels.
      total: the whole program.
      peak: the chip's figures.
      flops_per_s: the flat roof.
      peak_name: name of the flat roof.
    """
    from inspector.analysis.figures import Picture

    figure = Picture(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    shown, whole = _intensities(points), _intensities([total])
    intensities = [*shown, *whole] or [1.0]
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("arithmetic intensity (flop/byte)")
    if isinstance(peak, Unavailable) or isinstance(flops_per_s, Unavailable):
        drawn = [p for p in points if p.intensity]
        axes.scatter(shown, [float(p.flops) for p in drawn if not isinstance(p.flops, Unavailable)], s=14, alpha=0.6)
        axes.set_ylabel("flop")
        axes.set_title(f"{total.name}: no roof: {flops_per_s}", fontsize=8, loc="left", wrap=True)
        return figure
    _draw_roofs(axes, peak, flops_per_s, intensities)
    axes.set_title(
        f"{total.name} on {peak.chip}: {format_count(flops_per_s, 'flop/s')} in {peak_name}, memory"
        f" {format_count(peak.memory_bytes_per_s, 'B/s')}\nabout {_least(total)} at the roof, bound by"
        f" {total.bound_by}; peaks: {peak.source}",
        fontsize=8,
        loc="left",
    )
    for at, size, label in ((shown, 14, "kernels"), (whole, 60, "the whole program")):
        axes.scatter(
            at, [min(flops_per_s, x * peak.memory_bytes_per_s) for x in at], s=size, alpha=0.7, label=label, zorder=3
        )
    axes.legend(fontsize=8, loc="lower right")
    return figure


def _draw_roofs(axes: Axes, peak: Peak, top: float, intensities: list[float]) -> None:
    ridge = top / peak.memory_bytes_per_s
    left, right = min(*intensities, ridge) / 3, max(*intensities, ridge) * 3
    axes.plot([left, ridge, right], [left * peak.memory_bytes_per_s, top, top], color="0.3", linewidth=1.5)
    axes.axvline(ridge, color="0.8", linewidth=0.8, linestyle="--")
    axes.set_ylabel("attainable flop/s")


def _intensities(points: Sequence[Point]) -> list[float]:
    """Returns the known intensities, without 0, which a logarithmic axis cannot show."""
    return [each for each in (p.intensity for p in points) if not isinstance(each, Unavailable) and each]


def _least(total: Point) -> str:
    least = total.least_s
    return str(least) if isinstance(least, Unavailable) else format_seconds(float(least))
