"""Platforms of targets, and targets with enough devices for a program."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from inspector.compilation.target import Target
    from inspector.stages.lowered import Lowered


def platform_of(target: Target) -> str:
    """Returns the platform that programs for a target are lowered for."""
    from inspector._jax.compiling.attached_devices import attached_platform

    return target.platform or attached_platform()


def suitable_target(lowered: Lowered, target: str | Target) -> Target:
    """Returns the target, or virtual CPU devices if too few devices are attached for the program."""
    import jax

    from inspector.compilation.target import Target

    parsed, device_count = Target.parse(target), lowered.program.device_count
    if parsed.kind == "attached" and platform_of(parsed) == "cpu" and device_count > jax.local_device_count():
        return Target(f"cpu:{device_count}").by(parsed.jax)
    return parsed
