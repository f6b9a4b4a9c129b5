"""Reads modules from outside in an expendable process, because malformed ones can crash it.

Malformed HLO aborts XLA's parser. Damaged MLIR bytecode crashes the process in nanobind if the
diagnostic quotes bytes that are not UTF-8. And one line of HLO can represent gigabytes. The reader returns everything
that a `Lowered` holds, so that this process reads nothing itself. The code of that process is in `reader_process.py`.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
from collections.abc import Sequence
from typing import Any, Literal

from inspector._jax.modules import stablehlo
from inspector._jax.modules.entry_functions import Entry
from inspector._jax.modules.hlo import ReadHlo, SourceHlo
from inspector._jax.modules.module_contents import Contents, ModuleForms
from inspector._jax.modules.stablehlo import EXPECTED, ModuleFacts
from inspector.errors import ModuleError, of_resources
from inspector.support import subprocesses


class ReaderDiedError(ModuleError):
    """The module ended the process that read it.

    Attributes:
      how: how the process ended, such as "was killed by SIGSEGV".
    """

    def __init__(self, message: str, how: str) -> None:
        super().__init__(message)
        self.how = how


Language = Literal["HLO", "StableHLO"]
Wanted = Literal["forms", "listing", "text", "proto", "hlo", "crash"]

_LIMIT_S = 600
_LARGE_BYTES = 4 << 20  # printing such a module takes about as long as starting a process
_MAIN = "from inspector._jax.modules.reader_process import main; main(*sys.argv[1:])"


def read(module: bytes | str, language: Language, entry: Entry | None = None, *, without_hlo: bool = False) -> Contents:
    """Reads a module in a separate process.

    Args:
      module: HLO as text or a serialized HloModuleProto; StableHLO as text, bytecode or portable artifact.
      language: language of the module.
      entry: the program in a StableHLO module; None for `main`, or the only public function.
      without_hlo: whether to return StableHLO that XLA cannot convert to HLO, with the reason in `Contents.no_hlo`.

    Raises:
      ModuleError: XLA or MLIR cannot read it, with its message; or the module is too large when written out.
    """
    choice = json.dumps(dataclasses.asdict(entry)) if entry else ""
    try:
        head, blobs = _ask(module, language, "forms", choice)
    except ReaderDiedError as e:
        if not without_hlo or language != "StableHLO":
            raise
        try:
            head, blobs = _ask(module, language, "listing", choice)
        except ReaderDiedError:
            raise e from None
        head["no_hlo"] = f"XLA crashes when it converts this StableHLO module to HLO (its process {e.how})"
    bytecode, located, hlo, hlo_proto, given_proto = blobs
    no_hlo = head["no_hlo"]
    if no_hlo and not (without_hlo and language == "StableHLO"):
        raise ModuleError(no_hlo)
    forms = ModuleForms(located.decode(), hlo.decode(), hlo_proto)
    source = SourceHlo(head["header"], given_proto) if language == "HLO" else None
    return Contents(bytecode, _facts(head["facts"]), forms, source, no_hlo)


def read_hlo(module: bytes | str) -> ReadHlo:
    """Reads an HLO module in a separate process, without converting it to StableHLO.

    Args:
      module: HLO as text or a serialized HloModuleProto.

    Raises:
      ModuleError: XLA cannot read it, with its message.
    """
    head, (proto, text) = _ask(module, "HLO", "hlo")
    return ReadHlo(SourceHlo(head["header"], proto), text.decode())


def find_crash(modules: Sequence[bytes]) -> int | None:
    """Returns the index of the first HLO module whose conversion to StableHLO and back ends its process; None if there is none.

    Args:
      modules: serialized HloModuleProtos, which XLA reads one by one in a separate process.
    """
    data = json.dumps([len(module) for module in modules]).encode() + b"\n" + b"".join(modules)
    child = _started(data, ("HLO", "bytes", "crash", ""))
    begun = child.stdout.count(b"\n")
    return begun - 1 if child.returncode != 0 and begun else None


def full_text(module: bytes) -> str:
    """Returns the full text of a module.

    Prints a large module in a separate process, because MLIR needs many times the memory of the text.

    Raises:
      ModuleError: that process failed.
    """
    if len(module) < _LARGE_BYTES:
        return stablehlo.full_text(module)
    _, (text,) = _ask(module, "StableHLO", "text")
    return text.decode()


def hlo_proto(text: str) -> bytes:
    """Converts HLO text to a serialized HloModuleProto in a separate process, since saved compiler output may come from another person.

    Raises:
      ModuleError: XLA cannot read it, for example an operation that only the compiler that wrote it knows; with XLA's message.
    """
    _, (proto,) = _ask(text, "HLO", "proto")
    return proto


def _ask(
    module: bytes | str, language: Language, wanted: Wanted, entry: str = ""
) -> tuple[dict[str, Any], list[bytes]]:
    form, data = ("text", module.encode(errors="surrogatepass")) if isinstance(module, str) else ("bytes", module)
    child = _started(data, (language, form, wanted, entry))
    if child.returncode != 0 or not child.stdout:
        how = _how(child.returncode)
        reason = _error_text(child.stderr.decode(errors="replace").strip()) or _likely_cause(child.returncode, data)
        raise ReaderDiedError(
            f"Cannot read the {language} module: its reader {how}: {reason}\n{EXPECTED[language]}", how
        )
    return _split_answer(child.stdout)


def _started(data: bytes, arguments: tuple[str, ...]) -> subprocess.CompletedProcess[bytes]:
    """Runs a reader until it ends."""
    language = arguments[0]
    try:
        return subprocess.run(
            subprocesses.python(_MAIN, str(os.getpid()), *arguments),
            env=subprocesses.environ(),
            input=data,
            capture_output=True,
            timeout=_LIMIT_S,
            check=False,
        )
    except (OSError, MemoryError) as e:
        raise of_resources(e, f"starting a reader of the {language} module") or e from e
    except subprocess.TimeoutExpired as e:
        raise ModuleError(f"The {language} module was not read within {_LIMIT_S} s, so its reader was stopped.") from e


def _split_answer(answer: bytes) -> tuple[dict[str, Any], list[bytes]]:
    end = answer.index(b"\n")
    head, blobs, place = json.loads(answer[:end]), list[bytes](), end + 1
    if "error" in head:
        raise ModuleError(head["error"])
    for size in head["sizes"]:
        blobs.append(answer[place : place + size])
        place += size
    return head, blobs


def _facts(fields: dict[str, Any]) -> ModuleFacts:
    return ModuleFacts(**{name: _as_tuples(value) for name, value in fields.items()})


def _as_tuples(value: Any) -> Any:
    return tuple(map(_as_tuples, value)) if isinstance(value, list) else value


def _likely_cause(status: int, data: bytes) -> str:
    """Returns the most likely cause of a crash for a process that wrote nothing."""
    segmentation_fault = -status == getattr(signal, "SIGSEGV", None)
    if not segmentation_fault:
        return "it wrote nothing"
    depth = _depth(data)
    levels = f" (its brackets are nested {depth:,} deep)" if depth > _DEEP else ""
    return (
        f"its stack overflowed, most likely because the module is nested too deeply{levels}: XLA and MLIR read nested"
        " tuples, regions and calls by recursion. Reduce the nesting"
    )


_DEEP = 100


def _depth(data: bytes) -> int:
    """Returns the nesting depth of brackets in a text; small for bytes, where it has no meaning."""
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
        return "was stopped: it took more processor time than a module of this size should"
    known = {int(number): number.name for number in signal.Signals}
    return f"was killed by {known.get(-status, f'signal {-status}')}"


def _error_text(stderr: str) -> str:
    """Returns XLA's own message, without Python's traceback before it or glog's stack after it."""
    for marker in ("Check failed: ", "terminate called"):
        if marker in stderr:
            return stderr[stderr.index(marker) :].split("\n*** ")[0][:2000]
    return stderr[-2000:]
