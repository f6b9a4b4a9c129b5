"""Counts the operations of modules in a worker process, because reading a module can abort XLA.

Other modules call `count`. If a module crashes a worker, only the count of that module is missing.
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
"""Starts counting in a worker. A module can crash the worker."""
Header = dict[str, Any]

_AT_ONCE = 256  # modules in a request, so that cancelling or a crash loses few counts
_REMEMBERED = 100_000
_MOST_DEATHS = 32  # enough to isolate three crashing modules among `_AT_ONCE`

_lock = threading.Lock()
_memory: collections.OrderedDict[bytes, Counts] = collections.OrderedDict()


def count(modules: Sequence[bytes], ask: Ask) -> tuple[Counts | Unavailable, ...]:
    """Returns XLA's cost analysis of each module, in order.

    Args:
      modules: serialized `xla.HloModuleProto`s.
      ask: starts counting in a worker (`WorkerEngine.count`).

    Returns:
      For each module, the result of `_jax.cost.count`, or why there is none.

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
            result = known[key]
            if not isinstance(result, Unavailable):  # a crash may have another cause, so failures are not remembered
                _memory[key] = result
                _memory.move_to_end(key)
        while len(_memory) > _REMEMBERED:
            _memory.popitem(last=False)
    return tuple(known[key] for key in keys)


def count_here(modules: Sequence[bytes]) -> tuple[Counts | Unavailable, ...]:
    """Counts in this process, which a malformed module can abort."""
    counted = map(_count_one, modules)
    return tuple(c if isinstance(c, dict) else Unavailable(f"XLA cannot count its operations: {c}") for c in counted)


def program_cost(hlo_proto: bytes, reported: Counts | Unavailable, count: Count) -> Mapping[str, Any] | Unavailable:
    """Computes `compilation.cost.program_cost` and encodes the result for a message."""
    from inspector.compilation.cost import program_cost as cost_of
    from inspector.support import json_values

    cost = cost_of(hlo_proto, reported, count)
    return cost if isinstance(cost, Unavailable) else json_values.encode(cost)


def request(modules: Sequence[bytes]) -> tuple[Header, list[Blob]]:
    """Returns the request as a message."""
    return {"do": "count"}, list(modules)


def serve(modules: Sequence[bytes]) -> tuple[Header, list[Blob]]:
    """Returns the reply to `request`. Called in the worker."""
    return {"reply": "counted"}, [json.dumps([_count_one(module) for module in modules]).encode()]


def read(header: Header, blobs: Sequence[bytes]) -> list[Counts | Unavailable]:
    """Reads the reply that `serve` wrote.

    Raises:
      WireError: it is another reply.
    """
    if header["reply"] != "counted":
        raise WireError(f"Expected counts, got a reply of type {header['reply']!r}.")
    return [
        c if isinstance(c, dict) else Unavailable(f"XLA cannot count its operations: {c}") for c in json.loads(blobs[0])
    ]


def _count_one(module: bytes) -> Counts | str:
    from inspector._jax.compiling.cost import count as count_by_xla
    from inspector._jax.modules.mosaic import read_kernel
    from inspector.compilation.kernels.costs import kernel_counts

    return kernel_counts(module, read_kernel) or count_by_xla(module)


def _ask(modules: Sequence[bytes], ask: Ask, deaths: list[WorkerDiedError]) -> Sequence[Counts | Unavailable]:
    """Counts in a worker. After a crash, halves the modules until the crashing one is isolated. Appends to `deaths`."""
    from inspector.engines.workers.process import StartError

    if len(deaths) > _MOST_DEATHS:
        return [Unavailable(f"counting crashed {len(deaths)} workers; the last error was: {deaths[-1]}")] * len(modules)
    try:
        return ask(modules).result()
    except WorkerDiedError as e:
        if isinstance(e.__cause__, StartError):
            raise
        deaths.append(e)
        if len(modules) == 1:
            return [Unavailable(f"XLA cannot count its operations: {e}")]
        middle = len(modules) // 2
        return [*_ask(modules[:middle], ask, deaths), *_ask(modules[middle:], ask, deaths)]


def _parts(keys: Sequence[bytes], length: int) -> Iterator[Sequence[bytes]]:
    for start in range(0, len(keys), length):
        yield keys[start : start + length]
