"""docs/recording.md: its code runs, and shows what it says."""

from __future__ import annotations

import re
from typing import Any

from tests.conftest import ROOT

TEXT = (ROOT / "docs" / "recording.md").read_text(encoding="utf-8")


def test_code_runs() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    assembly, kernel = names["compiled"].assembly, names["kernel"]
    assert f"@{kernel}" in assembly.code("LLVM IR", kernel).text
    assert [code.stage for code in assembly.of(kernel)] == list(assembly.stages)
    change = names["compiled"].passes.changed[0]
    assert change.before != change.after
