"""inspector: what did XLA make of my function, and what changes if I turn this knob?

Names load what they need when first used: importing this package starts no device and imports no
widget package.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from inspector import errors as errors
    from inspector import settings as settings
    from inspector._jax.compile_events import CompileEvent as CompileEvent
    from inspector._jax.compile_events import watch_compiles as watch_compiles
    from inspector._jax.retraces import watch_retraces as watch_retraces
    from inspector._jax.sharing import share_compiles as share_compiles
    from inspector.analysis.exchanges.links import Links as Links
    from inspector.analysis.exchanges.switch import Switch as Switch
    from inspector.analysis.exchanges.torus import Torus as Torus
    from inspector.analysis.peaks import measured_peak as measured_peak
    from inspector.analysis.stats import compare as compare
    from inspector.caching import CacheStatus as CacheStatus
    from inspector.caching import cache_status as cache_status
    from inspector.compilation.options import Options as Options
    from inspector.compilation.target import Target as Target
    from inspector.course.checking import check as check
    from inspector.effects import ScanJob as ScanJob
    from inspector.effects import flag_effect as flag_effect
    from inspector.effects import scan as scan
    from inspector.engines.executable import LoadedExecutable as LoadedExecutable
    from inspector.engines.executable import load_executable as load_executable
    from inspector.engines.executable import save_executable as save_executable
    from inspector.engines.get_compile_options import get_compile_options as get_compile_options
    from inspector.engines.targets import targets as targets
    from inspector.errors import InspectorError as InspectorError
    from inspector.errors import Unavailable as Unavailable
    from inspector.execution.comparison import compare_runs as compare_runs
    from inspector.expectations.expectation import Expectation as Expectation
    from inspector.expectations.expectation import expect as expect
    from inspector.exploration import Exploration as Exploration
    from inspector.exploration import load as load
    from inspector.exploring import explore as explore
    from inspector.lowering.lower import lower as lower
    from inspector.lowering.xla_computation import xla_computation as xla_computation
    from inspector.platforms import Peak as Peak
    from inspector.shardings import sharding as sharding
    from inspector.stages.compiled import Compiled as Compiled
    from inspector.stages.lowered import Lowered as Lowered
    from inspector.sweeps import sweep as sweep
    from inspector.toolchain.flags.catalogue import option_catalog as option_catalog
    from inspector.widgets.report import report as report

    __version__: str | Unavailable

_DISTRIBUTION = "jax-inspector"

_HOMES = {
    "CacheStatus": "inspector.caching",
    "check": "inspector.course.checking",
    "cache_status": "inspector.caching",
    "compare": "inspector.analysis.stats",
    "compare_runs": "inspector.execution.comparison",
    "CompileEvent": "inspector._jax.compile_events",
    "Compiled": "inspector.stages.compiled",
    "Exploration": "inspector.exploration",
    "InspectorError": "inspector.errors",
    "LoadedExecutable": "inspector.engines.executable",
    "Links": "inspector.analysis.exchanges.links",
    "Lowered": "inspector.stages.lowered",
    "Options": "inspector.compilation.options",
    "Peak": "inspector.platforms",
    "Target": "inspector.compilation.target",
    "Switch": "inspector.analysis.exchanges.switch",
    "Torus": "inspector.analysis.exchanges.torus",
    "Unavailable": "inspector.errors",
    "ScanJob": "inspector.effects",
    "Expectation": "inspector.expectations.expectation",
    "expect": "inspector.expectations.expectation",
    "explore": "inspector.exploring",
    "flag_effect": "inspector.effects",
    "get_compile_options": "inspector.engines.get_compile_options",
    "load": "inspector.exploration",
    "load_executable": "inspector.engines.executable",
    "lower": "inspector.lowering.lower",
    "measured_peak": "inspector.analysis.peaks",
    "option_catalog": "inspector.toolchain.flags.catalogue",
    "report": "inspector.widgets.report",
    "save_executable": "inspector.engines.executable",
    "scan": "inspector.effects",
    "sharding": "inspector.shardings",
    "share_compiles": "inspector._jax.sharing",
    "sweep": "inspector.sweeps",
    "targets": "inspector.engines.targets",
    "watch_compiles": "inspector._jax.compile_events",
    "watch_retraces": "inspector._jax.retraces",
    "xla_computation": "inspector.lowering.xla_computation",
}

_MODULES = ("errors", "settings")

__all__ = [*_HOMES, *_MODULES, "__version__", "load_ipython_extension"]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"inspector.{name}")
    if name == "__version__":
        return _version()
    if name not in _HOMES:
        raise AttributeError(f"module 'inspector' has no attribute {name!r}. It has: {', '.join(sorted(__all__))}.")
    try:
        value = getattr(importlib.import_module(_HOMES[name]), name)
    except ModuleNotFoundError as e:
        from inspector.errors import missing_jax

        raise (missing_jax(e, f"inspector.{name}") or e) from None
    globals()[name] = value
    return value


def _version() -> str | Unavailable:
    """The installed distribution's version, read when it is asked for: `importlib.metadata` takes as long as the rest."""
    from importlib import metadata

    try:
        return metadata.version(_DISTRIBUTION)
    except metadata.PackageNotFoundError:
        from inspector.errors import Unavailable
        from inspector.install_commands import install_command

        return Unavailable(f"the distribution {_DISTRIBUTION} is not installed", install_command(_DISTRIBUTION))


def __dir__() -> list[str]:
    return sorted(__all__)


def load_ipython_extension(ipython: Any) -> None:
    """`%load_ext inspector`: registers `%explore`."""
    from inspector.magics import load_ipython_extension as load

    load(ipython)
