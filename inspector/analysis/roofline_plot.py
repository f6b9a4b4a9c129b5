"""A roofline as a figure: the roofs, the kernels under them and the whole program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from inspector.analysis.peaks import Peak
from inspector.analysis.roofline import Point, Roofline
from inspector.errors import Unavailable
from inspector.units import format_count, format_seconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from inspector.analysis.picture import Picture


def roofline_plot(roof: Roofline) -> Picture:
    """The figure of `Roofline.plot`."""
    from inspector.analysis.picture import Picture

    figure = Picture(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    shown, whole = _intensities(roof.points), _intensities([roof.total])
    intensities = [*shown, *whole] or [1.0]
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("arithmetic intensity (flop a byte)")
    top = roof.flops_per_s
    if isinstance(roof.peak, Unavailable) or isinstance(top, Unavailable):
        drawn = [p for p in roof.points if p.intensity]
        axes.scatter(shown, [float(p.flops) for p in drawn if not isinstance(p.flops, Unavailable)], s=14, alpha=0.6)
        axes.set_ylabel("flop")
        axes.set_title(f"{roof.total.name}: no roof: {top}", fontsize=8, loc="left", wrap=True)
        return figure
    _draw_roofs(axes, roof, roof.peak, top, intensities)
    for at, size, label in ((shown, 14, "kernels"), (whole, 60, "the whole program")):
        axes.scatter(
            at, [min(top, x * roof.peak.memory_bytes_per_s) for x in at], s=size, alpha=0.7, label=label, zorder=3
        )
    axes.legend(fontsize=8, loc="lower right")
    return figure


def _draw_roofs(axes: Axes, roof: Roofline, peak: Peak, top: float, intensities: list[float]) -> None:
    ridge = top / peak.memory_bytes_per_s
    left, right = min(*intensities, ridge) / 3, max(*intensities, ridge) * 3
    axes.plot([left, ridge, right], [left * peak.memory_bytes_per_s, top, top], color="0.3", linewidth=1.5)
    axes.axvline(ridge, color="0.8", linewidth=0.8, linestyle="--")
    axes.set_ylabel("attainable flop/s")
    axes.set_title(
        f"{roof.total.name} on {peak.chip}: {format_count(top, 'flop/s')} in {roof.peak_name}, memory"
        f" {format_count(peak.memory_bytes_per_s, 'B/s')}\nat least {_least(roof)}, bound by"
        f" {roof.total.bound_by}; peaks: {peak.source}",
        fontsize=8,
        loc="left",
    )


def _intensities(points: Sequence[Point]) -> list[float]:
    """Those that are known, and not 0, which a logarithmic axis does not have."""
    return [each for each in (p.intensity for p in points) if not isinstance(each, Unavailable) and each]


def _least(roof: Roofline) -> str:
    least = roof.total.least_s
    return str(least) if isinstance(least, Unavailable) else format_seconds(float(least))
