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
    from inspector._jax.caches.compile_events import CompileEvent as CompileEvent
    from inspector._jax.caches.compile_events import watch_compiles as watch_compiles
    from inspector._jax.caches.shared_compiles import share_compiles as share_compiles
    from inspector.analysis.collectives.exchanges.links import Links as Links
    from inspector.analysis.collectives.exchanges.switch import Switch as Switch
    from inspector.analysis.collectives.exchanges.torus import Torus as Torus
    from inspector.analysis.cost.measured_peak import measured_peak as measured_peak
    from inspector.api.bisection import Bisection as Bisection
    from inspector.api.bisection import BisectJob as BisectJob
    from inspector.api.bisection import bisect as bisect
    from inspector.api.bisection.compile_time import CompileTime as CompileTime
    from inspector.api.bisection.compile_time import CompileTimeJob as CompileTimeJob
    from inspector.api.bisection.compile_time import compile_time as compile_time
    from inspector.api.cache_status import CacheStatus as CacheStatus
    from inspector.api.cache_status import cache_status as cache_status
    from inspector.api.exploration import Exploration as Exploration
    from inspector.api.explore import explore as explore
    from inspector.api.flag_effects import ScanJob as ScanJob
    from inspector.api.flag_effects import flag_effect as flag_effect
    from inspector.api.flag_effects import scan as scan
    from inspector.api.load import load as load
    from inspector.api.sharding import sharding as sharding
    from inspector.api.sweep import sweep as sweep
    from inspector.compilation.options.options import Options as Options
    from inspector.compilation.target import Target as Target
    from inspector.course.checking import check as check
    from inspector.course.drill import Drill as Drill
    from inspector.course.drill import drill as drill
    from inspector.course.explorables.mesh_bench import mesh_bench as mesh_bench
    from inspector.course.explorables.player import player as player
    from inspector.course.explorables.race import race as race
    from inspector.course.explorables.sharding_game import sharding_game as sharding_game
    from inspector.engines.executable import LoadedExecutable as LoadedExecutable
    from inspector.engines.executable import load_executable as load_executable
    from inspector.engines.executable import save_executable as save_executable
    from inspector.engines.get_compile_options import get_compile_options as get_compile_options
    from inspector.engines.targets import targets as targets
    from inspector.errors import InspectorError as InspectorError
    from inspector.errors import Unavailable as Unavailable
    from inspector.expectations.expectation import Expectation as Expectation
    from inspector.expectations.expectation import expect as expect
    from inspector.lowering.lower import lower as lower
    from inspector.lowering.xla_computation import xla_computation as xla_computation
    from inspector.platforms import Peak as Peak
    from inspector.stages.accuracy import accuracy as accuracy
    from inspector.stages.accuracy_result import Accuracy as Accuracy
    from inspector.stages.compared_runs import compare_runs as compare_runs
    from inspector.stages.compiled import Compiled as Compiled
    from inspector.stages.estimates import compare as compare
    from inspector.stages.lowered import Lowered as Lowered
    from inspector.stages.retraces import watch_retraces as watch_retraces
    from inspector.toolchain.flags.catalog import option_catalog as option_catalog
    from inspector.widgets.saving.report import report as report

    __version__: str | Unavailable

_DISTRIBUTION = "jax-inspector"

_HOMES = {
    "Accuracy": "inspector.stages.accuracy_result",
    "accuracy": "inspector.stages.accuracy",
    "bisect": "inspector.api.bisection",
    "Bisection": "inspector.api.bisection",
    "BisectJob": "inspector.api.bisection",
    "CacheStatus": "inspector.api.cache_status",
    "check": "inspector.course.checking",
    "cache_status": "inspector.api.cache_status",
    "compare": "inspector.stages.estimates",
    "compare_runs": "inspector.stages.compared_runs",
    "compile_time": "inspector.api.bisection.compile_time",
    "CompileTime": "inspector.api.bisection.compile_time",
    "CompileTimeJob": "inspector.api.bisection.compile_time",
    "CompileEvent": "inspector._jax.caches.compile_events",
    "Compiled": "inspector.stages.compiled",
    "drill": "inspector.course.drill",
    "Drill": "inspector.course.drill",
    "Exploration": "inspector.api.exploration",
    "InspectorError": "inspector.errors",
    "LoadedExecutable": "inspector.engines.executable",
    "Links": "inspector.analysis.collectives.exchanges.links",
    "Lowered": "inspector.stages.lowered",
    "Options": "inspector.compilation.options.options",
    "Peak": "inspector.platforms",
    "Target": "inspector.compilation.target",
    "Switch": "inspector.analysis.collectives.exchanges.switch",
    "Torus": "inspector.analysis.collectives.exchanges.torus",
    "Unavailable": "inspector.errors",
    "ScanJob": "inspector.api.flag_effects",
    "Expectation": "inspector.expectations.expectation",
    "expect": "inspector.expectations.expectation",
    "explore": "inspector.api.explore",
    "flag_effect": "inspector.api.flag_effects",
    "get_compile_options": "inspector.engines.get_compile_options",
    "load": "inspector.api.load",
    "load_executable": "inspector.engines.executable",
    "lower": "inspector.lowering.lower",
    "measured_peak": "inspector.analysis.cost.measured_peak",
    "option_catalog": "inspector.toolchain.flags.catalog",
    "mesh_bench": "inspector.course.explorables.mesh_bench",
    "player": "inspector.course.explorables.player",
    "race": "inspector.course.explorables.race",
    "sharding_game": "inspector.course.explorables.sharding_game",
    "report": "inspector.widgets.saving.report",
    "save_executable": "inspector.engines.executable",
    "scan": "inspector.api.flag_effects",
    "sharding": "inspector.api.sharding",
    "share_compiles": "inspector._jax.caches.shared_compiles",
    "sweep": "inspector.api.sweep",
    "targets": "inspector.engines.targets",
    "watch_compiles": "inspector._jax.caches.compile_events",
    "watch_retraces": "inspector.stages.retraces",
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
        raise AttributeError(f"module 'inspector' has no attribute {name!r}. It has: {', '.join(sorted(__all__))}")
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
        from inspector.support.install_commands import install_command

        return Unavailable(f"the distribution {_DISTRIBUTION} is not installed", install_command(_DISTRIBUTION))


def __dir__() -> list[str]:
    return sorted(__all__)


def load_ipython_extension(ipython: Any) -> None:
    """`%load_ext inspector`: registers `%explore`."""
    from inspector.api.magics import load_ipython_extension as load

    load(ipython)
