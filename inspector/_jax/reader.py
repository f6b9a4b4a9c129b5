"""The process that `reading.py` starts: reads one module from stdin, and may die of it.

Answers on stdout: a line of JSON (`{"facts": {..}, "sizes": [..]}` or `{"error": ..}`), then as many bytes each of
MLIR bytecode, its text with locations, HLO text and proto, and the proto of the HLO module given; or of the whole text, or the proto, alone. The process may take time and memory, and answer with
as much, in proportion to the module only: so a small one costs whoever asked little, whatever it stands for.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from typing import TYPE_CHECKING, Literal

from inspector._jax import expendable
from inspector.errors import ModuleError
from inspector.units import format_bytes

if TYPE_CHECKING:
    from inspector._jax.reading import Language, Wanted

_QUOTED = 2000  # characters, from either end

# For every module, and for each of its bytes: written out, groups of 8192 devices become 600 times as long.
_WRITTEN_BYTES, _WRITTEN_BYTES_EACH = 40 << 20, 600
_MEMORY_BYTES, _MEMORY_BYTES_EACH = 4 << 30, 500
_CPU_S, _CPU_S_EACH = 60, 60e-6


def main(parent: str, language: Language, form: Literal["text", "bytes"], wanted: Wanted) -> None:
    """Reads the module for the process `parent`."""
    expendable.die_with(int(parent))
    expendable.leave_no_core_file()
    expendable.go_first()
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints, prints elsewhere
    data = sys.stdin.buffer.read()
    size = len(data)
    expendable.need_less(_MEMORY_BYTES + _MEMORY_BYTES_EACH * size, _CPU_S + int(_CPU_S_EACH * size))
    head, blobs = _answered(data.decode(errors="surrogatepass") if form == "text" else data, language, wanted, size)
    answer.write(json.dumps({**head, "sizes": [len(blob) for blob in blobs]}).encode() + b"\n")
    answer.writelines(blobs)
    answer.flush()
    os._exit(0)  # without freeing what may be large, and has been answered


def _answered(
    module: bytes | str, language: Language, wanted: Wanted, size: int
) -> tuple[dict[str, object], list[bytes]]:
    from inspector._jax import modules  # jaxlib, late: what it writes is to go where prints go

    try:
        if wanted == "text":
            assert isinstance(module, bytes), "bytecode"
            return {}, [modules.full_text(module).encode()]
        if wanted == "proto":
            assert isinstance(module, str), "HLO"
            return {}, [modules.hlo_to_proto(module)]
        return _read(module, language, size)
    except ModuleError as e:
        return {"error": _cut(str(e))}, []
    except Exception as e:
        said = _cut(f"{type(e).__name__}: {e}")
        return {"error": f"Cannot read the {language} module: {said}\n{modules.EXPECTED[language]}"}, []


def _read(module: bytes | str, language: Language, size: int) -> tuple[dict[str, object], list[bytes]]:
    from inspector._jax import modules

    stablehlo, given = module, modules.GivenHlo("", b"")
    if language == "HLO":
        stablehlo, given = modules.hlo_to_stablehlo(module)
    bytecode = modules.to_bytecode(modules.parse_stablehlo(stablehlo))
    parsed = modules.parse_stablehlo(bytecode)  # once more, as everyone will
    facts, forms = modules.module_facts(parsed), modules.forms(bytecode)
    uses_shardy = facts.uses_shardy or modules.carries_shardy(parsed)
    blobs = [bytecode, forms.located.encode(), forms.hlo.encode(), forms.hlo_proto, given.proto]
    written = sum(map(len, blobs)) + len(modules.full_text(bytecode))
    if written > (most := _WRITTEN_BYTES + _WRITTEN_BYTES_EACH * size):
        raise ModuleError(
            f"The {language} module has {format_bytes(size)} and becomes {format_bytes(written)}, written out."
            f" Expected at most {format_bytes(most)} of one of this size."
        )
    facts = dataclasses.replace(facts, uses_shardy=uses_shardy)
    return {"facts": dataclasses.asdict(facts), "header": given.header}, blobs


def _cut(text: str) -> str:
    """A message without most of the module that it quotes."""
    return text if len(text) <= 2 * _QUOTED else f"{text[:_QUOTED]} ... {text[-_QUOTED:]}"
