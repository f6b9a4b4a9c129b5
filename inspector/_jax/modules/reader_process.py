"""The expendable process started by `isolated_reading.py`: reads one module from stdin, and may crash.

Writes to stdout one line of JSON (`{"facts": {..}, "sizes": [..]}` or `{"error": ..}`), followed by the bytes of the
MLIR bytecode, its text with locations, the HLO text and proto, and the proto of the original HLO module; or by the whole
text, the proto alone, or the proto and text of the original HLO module. "listing" leaves out what may have crashed another
reader: the conversion to HLO, and dialects that are not registered. The time, memory and output of the process are limited in
proportion to the size of the module, so that a small module cannot cost the caller much, whatever it represents.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sys
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from inspector._jax.compiling import child_process
from inspector.errors import ModuleError
from inspector.support.units import format_bytes

if TYPE_CHECKING:
    from inspector._jax.modules.isolated_reading import Language, Wanted

_QUOTED = 2000  # characters from each end

# A constant, and an amount for each byte of the module: written out, groups of 8192 devices become 600 times as long.
_WRITTEN_BYTES, _WRITTEN_BYTES_EACH = 40 << 20, 600
_MEMORY_BYTES, _MEMORY_BYTES_EACH = 4 << 30, 500
_CPU_S, _CPU_S_EACH = 60, 60e-6


def main(parent: str, language: Language, form: Literal["text", "bytes"], wanted: Wanted, entry: str = "") -> None:
    """Reads the module for the process with the id `parent`."""
    child_process.die_with(int(parent))
    child_process.leave_no_core_file()
    child_process.go_first()
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # prints go to stderr
    data = sys.stdin.buffer.read()
    size = len(data)
    child_process.need_less(_MEMORY_BYTES + _MEMORY_BYTES_EACH * size, _CPU_S + int(_CPU_S_EACH * size))
    if wanted == "crash":
        _convert_each(data, answer)
        os._exit(0)
    module = data.decode(errors="surrogatepass") if form == "text" else data
    head, blobs = _answered(module, language, wanted, size, entry)
    answer.write(json.dumps({**head, "sizes": [len(blob) for blob in blobs]}).encode() + b"\n")
    answer.writelines(blobs)
    answer.flush()
    os._exit(0)  # skips freeing the memory, which can be slow; the answer is written


def _convert_each(data: bytes, answer: BinaryIO) -> None:
    """Converts HLO modules one by one, and writes a line before each, so that a crash shows its module."""
    end = data.index(b"\n")
    place = end + 1
    for size in json.loads(data[:end]):
        answer.write(b"\n")
        answer.flush()
        with contextlib.suppress(Exception):  # an error is no crash
            _read(data[place : place + size], "HLO", size)
        place += size


def _answered(
    module: bytes | str, language: Language, wanted: Wanted, size: int, entry: str = ""
) -> tuple[dict[str, object], list[bytes]]:
    from inspector._jax.modules import hlo, stablehlo  # deferred: output of jaxlib's import must go to stderr

    try:
        if wanted == "text":
            assert isinstance(module, bytes), "bytecode"
            return {}, [stablehlo.full_text(module).encode()]
        if wanted == "proto":
            assert isinstance(module, str), "HLO"
            return {}, [hlo.hlo_to_proto(module)]
        if wanted == "hlo":
            opened = hlo.read_hlo(module)
            return {"header": opened.source.header}, [opened.source.proto, opened.text.encode()]
        return _read(module, language, size, entry, has_hlo=wanted == "forms")
    except ModuleError as e:
        return {"error": _cut(str(e))}, []
    except Exception as e:
        error = _cut(f"{type(e).__name__}: {e}")
        return {"error": f"Cannot read the {language} module: {error}\n{stablehlo.EXPECTED[language]}"}, []


def _read(
    module: bytes | str, language: Language, size: int, entry: str = "", *, has_hlo: bool = True
) -> tuple[dict[str, object], list[bytes]]:
    from inspector._jax.modules import (
        entry_functions,
        foreign_dialects,
        hlo,
        hlo_conversion,
        module_contents,
        stablehlo,
    )

    source, hlo_source = module, hlo.SourceHlo("", b"")
    if language == "HLO":
        opened = hlo.read_hlo(module)
        source, hlo_source = hlo_conversion.hlo_to_stablehlo(opened), opened.source
    given, no_hlo = _parsed(source) if has_hlo else (stablehlo.parse_stablehlo(source), "")
    if language == "StableHLO":
        given = entry_functions.chosen(given, entry_functions.Entry(**json.loads(entry or "{}")))
    bytecode = stablehlo.to_bytecode(given)
    # Parsed again, because later readers get the bytecode.
    parsed = stablehlo.parse_stablehlo(bytecode, allow_unregistered=bool(no_hlo))
    facts, forms = stablehlo.module_facts(parsed), module_contents.forms(bytecode)
    uses_shardy = facts.uses_shardy or stablehlo.carries_shardy(parsed)
    texts: tuple[str, bytes] = "", b""
    try:
        if has_hlo and not no_hlo:
            texts = forms.hlo, forms.hlo_proto
    except ModuleError as e:
        no_hlo = _cut(foreign_dialects.conversion_error(str(e)))
    blobs = [bytecode, stablehlo.located_text(parsed).encode(), texts[0].encode(), texts[1], hlo_source.proto]
    written = sum(map(len, blobs)) + len(stablehlo.full_text(bytecode))
    if written > (most := _WRITTEN_BYTES + _WRITTEN_BYTES_EACH * size):
        raise ModuleError(
            f"The {language} module has {format_bytes(size)} and becomes {format_bytes(written)} when written out."
            f" Expected at most {format_bytes(most)} for a module of this size."
        )
    facts = dataclasses.replace(facts, uses_shardy=uses_shardy)
    return {"facts": dataclasses.asdict(facts), "header": hlo_source.header, "no_hlo": no_hlo}, blobs


def _parsed(module: bytes | str) -> tuple[Any, str]:
    """Returns a module, and the reason why it is only text; "" for a module that JAX's dialects describe."""
    from inspector._jax.modules import foreign_dialects, stablehlo

    try:
        return stablehlo.parse_stablehlo(module), ""
    except ModuleError as e:
        reason = foreign_dialects.explanation(module, str(e))
        if not reason:
            raise
        try:
            return stablehlo.parse_stablehlo(module, allow_unregistered=True), reason
        except ModuleError:
            raise e from None


def _cut(text: str) -> str:
    """Shortens a message that quotes most of a module."""
    return text if len(text) <= 2 * _QUOTED else f"{text[:_QUOTED]} ... {text[-_QUOTED:]}"
