"""How often a measurement in turns finds a difference: between a program and itself, and to one with 1.3 times the work.

    python -m benchmarks.timing [--trials 20]

In each trial the two programs run in turns until one is known to be faster (`run_until_apart`), as for `inspector.compare_runs` of
two programs and for bisections, then with at least 20 executions, as *Run all* does it (`start_in_turns`). Last the same with one
`Compiled.run` after the other, for comparison.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

import inspector
from benchmarks.measuring import machine
from inspector.engines.shared_engines import close_engines, worker_engine
from inspector.errors import Unavailable
from inspector.execution.comparison import Speed, relative_speed, speed
from inspector.execution.in_turns import Runnable, start_in_turns
from inspector.execution.interleaved import run_until_apart, timers
from inspector.execution.outcome import Outcome
from inspector.execution.run import choose_inputs
from inspector.stages.compiled import Compiled

_LAYERS, _MORE_LAYERS = 10, 13
_SIDE = 256


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--trials", type=int, default=20)
    options = parser.parse_args(arguments)
    x = jax.ShapeDtypeStruct((_SIDE, _SIDE), jnp.float32)
    short, same, more = (
        inspector.lower(_network(layers), x, x).compile(target="cpu", engine=worker_engine())
        for layers in (_LAYERS, _LAYERS, _MORE_LAYERS)
    )
    try:
        for name, pair, expected in (
            ("itself", (short, same), "no difference"),
            ("1.3 times the work", (short, more), "slower"),
        ):
            for how, measure in (
                ("in turns", _in_turns),
                ("Run all", _run_all),
                ("in sequence", _in_sequence),
            ):
                outcomes = [_outcome(measure(pair)) for _ in range(options.trials)]
                print(
                    f"{name}, {how}: {outcomes.count(expected)} of {options.trials} as expected ({expected}) {machine()}",
                    flush=True,
                )
    finally:
        close_engines()


def _network(layers: int) -> Callable[[Any, Any], Any]:
    def network(x: Any, w: Any) -> Any:
        return jax.lax.fori_loop(0, layers, lambda _, x: jnp.tanh(x @ w), x)

    return network


def _in_turns(pair: tuple[Compiled, Compiled]) -> Speed | Unavailable:
    first, second = timers(pair, (worker_engine(), worker_engine()))
    found = run_until_apart((first, second))
    return found if isinstance(found, Unavailable) else found.speed


def _run_all(pair: tuple[Compiled, Compiled]) -> Speed | Unavailable:
    def ready(compiled: Compiled) -> Runnable:
        return Runnable(compiled, choose_inputs(compiled, (), {}), worker_engine())

    runs = start_in_turns([functools.partial(ready, each) for each in pair], 20)
    first, second = (Outcome.of(job.result()) for job in runs)
    return relative_speed(first, second)


def _in_sequence(pair: tuple[Compiled, Compiled]) -> Speed | Unavailable:
    return speed(*(each.run(repeat=20, engine=worker_engine()).durations_s for each in pair))


def _outcome(found: Speed | Unavailable) -> str:
    """Returns the outcome for the second program relative to the first one."""
    if isinstance(found, Unavailable):
        return "not measured"
    if not found.is_known:
        return "no difference"
    return "slower" if found.ratio > 1 else "faster"


if __name__ == "__main__":
    main()
