"""The JAX settings that affect compiled programs, copied to processes that compile for this one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jax._src import config

# The settings that JAX reads when it makes compile options. Names that this JAX version does not have are left out.
CONFIG_NAMES = (
    "jax_exec_time_optimization_effort",
    "jax_memory_fitting_effort",
    "jax_optimization_level",
    "jax_memory_fitting_level",
    "jax_compiler_enable_remat_pass",
    "jax_disable_most_optimizations",
    "jax_use_shardy_partitioner",
    "jax_xla_profile_version",
    "jax_compiler_detailed_logging_min_ops",
)


Setting = bool | int | float | str | None
"""Value of a JAX setting."""


def read_config() -> dict[str, Setting]:
    """Returns the JAX settings of this process that affect compiled programs; JSON-serializable."""
    values: Mapping[str, Any] = config.config.values
    return {name: values[name] for name in CONFIG_NAMES if name in values}


def apply_config(values: Mapping[str, Setting]) -> None:
    """Applies the result of `read_config()` from another process."""
    for name, value in values.items():
        if config.config.values.get(name) != value:
            config.update(name, value)


def uses_shardy() -> bool:
    """Reports whether JAX in this process lowers for Shardy."""
    return bool(config.use_shardy_partitioner.value)
