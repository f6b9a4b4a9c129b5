"""Counts operations of modules in a worker process: reading a module can abort XLA.

`count` is what others call. A worker that a module takes down costs the count of that module only.
"""

from __future__ import annotations

import collections
import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from inspector.engines.workers.wire import Blob, WireError
from inspector.errors import Unavailable, WorkerDiedError

if TYPE_CHECKING:
    from inspector.compilation.engine import Job

Counts = Mapping[str, float]
Count = Callable[[Sequence[bytes]], Sequence[Counts | Unavailable] | Unavailable]
"""XLA's cost analysis of each of some modules, or why there is none."""
Ask: TypeAlias = "Callable[[Sequence[bytes]], Job[Sequence[Counts | Unavailable]]]"
"""Starts counting in a worker, which what it counts may take down."""
Header = dict[str, Any]

_AT_ONCE = 256  # modules a request, so that a cancelled or dead worker loses little
_REMEMBERED = 100_000
_MOST_DEATHS = 32  # enough to find three deadly modules among so many

_lock = threading.Lock()
_memory: collections.OrderedDict[bytes, Counts] = collections.OrderedDict()


def count(modules: Sequence[bytes], ask: Ask) -> tuple[Counts | Unavailable, ...]:
    """XLA's cost analysis of each module, in order.

    Args:
      modules: serialized `xla.HloModuleProto`s.
      ask: starts counting in a worker (`WorkerEngine.count`).

    Returns:
      For each what `_jax.cost.count` gives, or why there is nothing.

    Raises:
      InspectorError: no worker can be started.
    """
    keys = [hashlib.sha256(module).digest() for module in modules]
    with _lock:
        known: dict[bytes, Counts | Unavailable] = {key: _memory[key] for key in keys if key in _memory}
    wanted = {key: module for key, module in zip(keys, modules, strict=True) if key not in known}
    deaths: list[WorkerDiedError] = []
    for part in _parts(list(wanted), _AT_ONCE):
        known |= zip(part, _ask([wanted[key] for key in part], ask, deaths), strict=True)
    with _lock:
        for key in keys:
            found = known[key]
            if not isinstance(found, Unavailable):  # a worker may die of other things too
                _memory[key] = found
                _memory.move_to_end(key)
        while len(_memory) > _REMEMBERED:
            _memory.popitem(last=False)
    return tuple(known[key] for key in keys)


def count_here(modules: Sequence[bytes]) -> tuple[Counts | Unavailable, ...]:
    """`count` in this process, which a malformed module can abort."""
    from inspector._jax.compiling.cost import count as count_one

    counted = (count_one(module) for module in modules)
    return tuple(c if isinstance(c, dict) else Unavailable(f"XLA does not count it: {c}") for c in counted)


def program_cost(hlo_proto: bytes, reported: Counts | Unavailable, count: Count) -> Mapping[str, Any] | Unavailable:
    """`compilation.cost.program_cost` for a message."""
    from inspector.compilation.cost import program_cost as cost_of
    from inspector.support import json_values

    cost = cost_of(hlo_proto, reported, count)
    return cost if isinstance(cost, Unavailable) else json_values.encode(cost)


def request(modules: Sequence[bytes]) -> tuple[Header, list[Blob]]:
    """The request as a message."""
    return {"do": "count"}, list(modules)


def serve(modules: Sequence[bytes]) -> tuple[Header, list[Blob]]:
    """For the worker: the reply to `request`."""
    from inspector._jax.compiling.cost import count as count_one

    return {"reply": "counted"}, [json.dumps([count_one(module) for module in modules]).encode()]


def read(header: Header, blobs: Sequence[bytes]) -> list[Counts | Unavailable]:
    """The inverse of `serve`.

    Raises:
      WireError: no such reply.
    """
    if header["reply"] != "counted":
        raise WireError(f"Counts were asked for, and {header['reply']!r} was answered.")
    return [c if isinstance(c, dict) else Unavailable(f"XLA does not count it: {c}") for c in json.loads(blobs[0])]


def _ask(modules: Sequence[bytes], ask: Ask, deaths: list[WorkerDiedError]) -> Sequence[Counts | Unavailable]:
    """Counts in a worker; halves what one died of until the deadly module is found. `deaths` are those so far."""
    from inspector.engines.workers.process import StartError

    if len(deaths) > _MOST_DEATHS:
        return [Unavailable(f"{len(deaths)} workers died of counting, the last so: {deaths[-1]}")] * len(modules)
    try:
        return ask(modules).result()
    except WorkerDiedError as e:
        if isinstance(e.__cause__, StartError):
            raise
        deaths.append(e)
        if len(modules) == 1:
            return [Unavailable(f"XLA cannot count it: {e}")]
        middle = len(modules) // 2
        return [*_ask(modules[:middle], ask, deaths), *_ask(modules[middle:], ask, deaths)]


def _parts(keys: Sequence[bytes], length: int) -> Iterator[Sequence[bytes]]:
    for start in range(0, len(keys), length):
        yield keys[start : start + length]
