"""The process that `reading.py` starts: reads one module from stdin, and may die of it.

Answers on stdout: a line of JSON (`{"num_replicas": .., "num_partitions": ..}` or `{"error": ..}`), then
StableHLO as MLIR bytecode.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Literal

from inspector._jax import expendable
from inspector._jax.reading import EXPECTED, Language
from inspector.errors import ModuleError

_QUOTED = 2000  # characters, from either end


def main(parent: str, language: Language, form: Literal["text", "bytes"]) -> None:
    """Reads the module for the process `parent`."""
    expendable.die_with(int(parent))
    expendable.leave_no_core_file()
    expendable.go_first()
    expendable.need_less()
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints, prints elsewhere
    data = sys.stdin.buffer.read()
    head, stablehlo = _read(data.decode(errors="surrogatepass") if form == "text" else data, language)
    answer.write(json.dumps(head).encode() + b"\n" + stablehlo)
    answer.flush()
    os._exit(0)  # without freeing what may be large, and has been answered


def _read(module: bytes | str, language: Language) -> tuple[dict[str, object], bytes]:
    from inspector._jax import modules  # jaxlib, late: what it writes is to go where prints go

    stablehlo, num_replicas, num_partitions = module, 1, 1
    try:
        if language == "HLO":
            stablehlo, num_replicas, num_partitions = modules.hlo_to_stablehlo(module)
        bytecode = modules.to_bytecode(modules.parse_stablehlo(stablehlo))
        modules.rehearse(bytecode)
    except ModuleError as e:
        return {"error": _cut(str(e))}, b""
    except Exception as e:
        said = _cut(f"{type(e).__name__}: {e}")
        return {"error": f"Cannot read the {language} module: {said}\n{EXPECTED[language]}"}, b""
    return {"num_replicas": num_replicas, "num_partitions": num_partitions}, bytecode


def _cut(text: str) -> str:
    """A message without most of the module that it quotes."""
    return text if len(text) <= 2 * _QUOTED else f"{text[:_QUOTED]} ... {text[-_QUOTED:]}"
