"""Modules that come from outside: read first in a process that may be lost, because they can end the one that reads them.

Malformed HLO aborts XLA's parser, and damaged MLIR bytecode ends a process in nanobind, when the
diagnostic quotes bytes that are not UTF-8. What comes back was read, converted and printed once
already, so this process can do the same. The other side is `reader.py`.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
from typing import Literal

from inspector import subprocesses
from inspector.errors import ModuleError

Language = Literal["HLO", "StableHLO"]

_LIMIT_S = 600
_MAIN = "from inspector._jax.reader import main; main(*sys.argv[1:])"
EXPECTED = {
    "HLO": "Expected an HLO module as text (`HloModule name ...`) or a serialized HloModuleProto.",
    "StableHLO": "Expected StableHLO as MLIR text, MLIR bytecode or a serialized portable artifact.",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Read:
    """A module that can be read, converted and printed.

    Attributes:
      stablehlo: MLIR bytecode.
      num_replicas, num_partitions: as the header of HLO says, 1 where it says none.
    """

    stablehlo: bytes
    num_replicas: int
    num_partitions: int


def read(module: bytes | str, language: Language) -> Read:
    """Reads a module in a process of its own, and does there all that a `Lowered` does with one.

    Args:
      module: HLO as text or a serialized HloModuleProto; StableHLO as text, bytecode or portable artifact.
      language: which of them.

    Raises:
      ModuleError: with XLA's or MLIR's message.
    """
    form, data = ("text", module.encode(errors="surrogatepass")) if isinstance(module, str) else ("bytes", module)
    try:
        child = subprocess.run(
            subprocesses.python(_MAIN, str(os.getpid()), language, form),
            env=subprocesses.environ(),
            input=data,
            capture_output=True,
            timeout=_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as e:
        raise ModuleError(f"The {language} module was not read within {_LIMIT_S} s, and its reader stopped.") from e
    head, _, stablehlo = child.stdout.partition(b"\n")
    if child.returncode != 0 or not head:
        how = _how(child.returncode)
        said = _last_words(child.stderr.decode(errors="replace").strip()) or "it said nothing"
        raise ModuleError(f"Cannot read the {language} module: its reader {how}: {said}\n{EXPECTED[language]}")
    answer = json.loads(head)
    if "error" in answer:
        raise ModuleError(answer["error"])
    return Read(stablehlo, answer["num_replicas"], answer["num_partitions"])


def _how(status: int) -> str:
    if status >= 0:
        return f"ended with exit status {status}"
    known = {int(number): number.name for number in signal.Signals}
    return f"was ended by {known.get(-status, f'signal {-status}')}"


def _last_words(said: str) -> str:
    """XLA's own message, without Python's traceback above it or glog's stack below."""
    for marker in ("Check failed: ", "terminate called"):
        if marker in said:
            return said[said.index(marker) :].split("\n*** ")[0][:2000]
    return said[-2000:]
