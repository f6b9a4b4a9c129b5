"""Modules that come from outside: read in a process that may be lost, because they can end the one that reads them.

Malformed HLO aborts XLA's parser, damaged MLIR bytecode ends a process in nanobind, when the
diagnostic quotes bytes that are not UTF-8, and a line of HLO can stand for gigabytes. What comes back is
all that a `Lowered` holds, so that this process reads nothing itself. The other side is `reader.py`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from typing import Any, Literal

from inspector._jax.modules import conversions
from inspector._jax.modules.conversions import EXPECTED
from inspector.errors import ModuleError, of_resources
from inspector.support import subprocesses

Language = Literal["HLO", "StableHLO"]
Wanted = Literal["forms", "text", "proto"]

_LIMIT_S = 600
_LARGE_BYTES = 4 << 20  # printed in about the time that a process takes to start
_MAIN = "from inspector._jax.modules.reader_process import main; main(*sys.argv[1:])"


def read(module: bytes | str, language: Language) -> conversions.Contents:
    """Reads a module in a process of its own.

    Args:
      module: HLO as text or a serialized HloModuleProto; StableHLO as text, bytecode or portable artifact.
      language: which of them.

    Raises:
      ModuleError: with XLA's or MLIR's message; also for one that becomes too much of what it is.
    """
    head, blobs = _ask(module, language, "forms")
    stablehlo, located, hlo, hlo_proto, given_proto = blobs
    forms = conversions.ModuleForms(located.decode(), hlo.decode(), hlo_proto)
    given = conversions.GivenHlo(head["header"], given_proto) if language == "HLO" else None
    return conversions.Contents(stablehlo, _facts(head["facts"]), forms, given)


def full_text(module: bytes) -> str:
    """`modules.full_text`; of a large module in a process of its own, because MLIR takes many times the text to print.

    Raises:
      ModuleError: that process did not succeed.
    """
    if len(module) < _LARGE_BYTES:
        return conversions.full_text(module)
    _, (text,) = _ask(module, "StableHLO", "text")
    return text.decode()


def hlo_proto(text: str) -> bytes:
    """`modules.hlo_to_proto` in a process of its own: what a compiler wrote may have been saved by somebody else.

    Raises:
      ModuleError: with XLA's message, such as of an operation that only the compiler that wrote it knows.
    """
    _, (proto,) = _ask(text, "HLO", "proto")
    return proto


def _ask(module: bytes | str, language: Language, wanted: Wanted) -> tuple[dict[str, Any], list[bytes]]:
    form, data = ("text", module.encode(errors="surrogatepass")) if isinstance(module, str) else ("bytes", module)
    try:
        child = subprocess.run(
            subprocesses.python(_MAIN, str(os.getpid()), language, form, wanted),
            env=subprocesses.environ(),
            input=data,
            capture_output=True,
            timeout=_LIMIT_S,
            check=False,
        )
    except (OSError, MemoryError) as e:
        raise of_resources(e, f"starting a reader of the {language} module") or e from e
    except subprocess.TimeoutExpired as e:
        raise ModuleError(f"The {language} module was not read within {_LIMIT_S} s, and its reader stopped.") from e
    if child.returncode != 0 or not child.stdout:
        how = _how(child.returncode)
        said = _last_words(child.stderr.decode(errors="replace").strip()) or _likely(child.returncode, data)
        raise ModuleError(f"Cannot read the {language} module: its reader {how}: {said}\n{EXPECTED[language]}")
    return _taken_apart(child.stdout)


def _taken_apart(answer: bytes) -> tuple[dict[str, Any], list[bytes]]:
    end = answer.index(b"\n")
    head, blobs, place = json.loads(answer[:end]), list[bytes](), end + 1
    if "error" in head:
        raise ModuleError(head["error"])
    for size in head["sizes"]:
        blobs.append(answer[place : place + size])
        place += size
    return head, blobs


def _facts(said: dict[str, Any]) -> conversions.ModuleFacts:
    return conversions.ModuleFacts(**{name: _as_tuples(value) for name, value in said.items()})


def _as_tuples(value: Any) -> Any:
    return tuple(map(_as_tuples, value)) if isinstance(value, list) else value


def _likely(status: int, data: bytes) -> str:
    """Names the most likely cause of death of a process that wrote nothing."""
    segmentation_fault = -status == getattr(signal, "SIGSEGV", None)
    if not segmentation_fault:
        return "it wrote nothing"
    depth = _depth(data)
    levels = f" (brackets in it are nested {depth:,} deep)" if depth > _DEEP else ""
    return (
        f"its stack overflowed, most likely because the module is nested too deep{levels}: XLA and MLIR read nested tuples,"
        " regions and calls by recursion. Nest fewer of them"
    )


_DEEP = 100


def _depth(data: bytes) -> int:
    """How deep brackets are nested in a text; small for bytes, where it means nothing."""
    depth = deepest = 0
    for character in data.translate(None, _NO_BRACKETS):
        depth = depth + 1 if character in b"([{" else max(0, depth - 1)
        deepest = max(deepest, depth)
    return deepest


_NO_BRACKETS = bytes(set(range(256)) - set(b"()[]{}"))


def _how(status: int) -> str:
    if status >= 0:
        return f"ended with exit status {status}"
    if -status == getattr(signal, "SIGXCPU", None):
        return "was ended: it took more processor time than a module of this size should"
    known = {int(number): number.name for number in signal.Signals}
    return f"was ended by {known.get(-status, f'signal {-status}')}"


def _last_words(said: str) -> str:
    """XLA's own message, without Python's traceback above it or glog's stack below."""
    for marker in ("Check failed: ", "terminate called"):
        if marker in said:
            return said[said.index(marker) :].split("\n*** ")[0][:2000]
    return said[-2000:]
