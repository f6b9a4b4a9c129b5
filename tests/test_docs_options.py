"""docs/options.md: the numbers are those of the installed jaxlib."""

from __future__ import annotations

import re
from importlib import metadata

import pytest

import inspector
from inspector.toolchain.flags.types import libtpu_flags, xla_flag_names
from inspector.toolchain.xla import debug_options_type, descriptions
from tests.absent import needs_tpu
from tests.conftest import ROOT

TEXT = (ROOT / "docs" / "options.md").read_text(encoding="utf-8")


def test_columns() -> None:
    documented = re.findall(r"^\| `(\w+)` \| (?!Py)", TEXT.partition("## Giving")[0], re.MULTILINE)
    assert documented == list(inspector.option_catalog().columns)


@pytest.mark.parametrize("row", ["flags of XLA", "fields of the two messages", "descriptions found"])
def test_numbers(row: str) -> None:
    version = metadata.version("jaxlib")
    column = {"0.10.2": 0, "0.12.0": 1}.get(".".join(version.split(".")[:3]))
    if column is None:
        pytest.skip(f"the document has no numbers for jaxlib {version}")
    (numbers,) = re.findall(rf"^\| {row}[^|]*\| (\d+) \| (\d+) \|$", TEXT, re.MULTILINE)
    flags, found = len(debug_options_type().fields), descriptions()
    actual = {
        "flags of XLA": flags,
        "fields of the two messages": len(xla_flag_names()) - flags,
        "descriptions found": len(found) if isinstance(found, dict) else 0,
    }
    assert int(numbers[column]) == actual[row]


@needs_tpu
@pytest.mark.parametrize("row", ["options per compile", "flags of LIBTPU_INIT_ARGS alone", "of both, with topics"])
def test_numbers_of_libtpu(row: str) -> None:
    version = metadata.version("libtpu")
    column = {"0.0.42.1": 0, "0.0.50.1": 1}.get(version)
    if column is None:
        pytest.skip(f"the document has no numbers for libtpu {version}")
    (numbers,) = re.findall(rf"^\| {row}[^|]*\| (\d+) \| (\d+) \|$", TEXT, re.MULTILINE)
    table = inspector.option_catalog().set_index("name").loc[list(libtpu_flags())]
    actual = {
        "options per compile": (table["channel"] == "per compile").sum(),
        "flags of LIBTPU_INIT_ARGS alone": (table["channel"] == "LIBTPU_INIT_ARGS").sum(),
        "of both, with topics": sum(isinstance(text, str) for text in table["description"]),
    }
    assert int(numbers[column]) == actual[row]
