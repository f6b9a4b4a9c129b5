"""Runs the notebooks and writes their outputs into them. Run as `python .ci/write_notebooks.py [notebook ...]`.

What is stored is at work without a kernel: Explorers wait for their compiles where cells run for their outputs, and
widget views, which need a kernel, are left out.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parent.parent
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
CELL_LIMIT_S = 300

START_OF_JAX = ("absl::InitializeLog()", "Could not find cuda drivers", "cuda_plugin_extension is not found")

# What scripts of a stored Explorer have as base64; the same texts stand beside it to be read.
PACKED = re.compile(r"<script type='application/x-inspector-[^<]*</script>")

# XLA's graph has the whole Python stack, Jupyter's own files included, in tooltips.
TOOLTIP = re.compile(r' xlink:title="[^"]*"')


def write(path: Path) -> None:
    """Runs one notebook and replaces its outputs.

    Raises:
      nbclient.exceptions.CellExecutionError: a cell failed; the file stays as it was.
      ValueError: an output names a path of this machine, or is a warning.
    """
    notebook: nbformat.NotebookNode = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    client = NotebookClient(
        notebook,
        timeout=CELL_LIMIT_S,
        resources={"metadata": {"path": str(path.parent)}},
    )
    client.execute()
    notebook.metadata.pop("widgets", None)
    notebook.metadata.language_info = {"name": "python"}  # the rest names this machine's Python
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if "outputs" in cell:
            cell.outputs = _joined([output for output in cell.outputs if not _is_left_out(output)])
        for output in cell.get("outputs", ()):
            _clean(output)
    text: str = nbformat.writes(notebook)  # type: ignore[no-untyped-call]
    shown = PACKED.sub("", text)
    for unwanted in (str(ROOT), str(Path.home()), "ipykernel_", '"stderr"'):
        if (at := shown.find(unwanted)) >= 0:
            where = shown[max(0, at - 200) : at + 200]
            raise ValueError(
                f"An output of {path.name} has {unwanted}, only this machine's, or a warning: ...{where}..."
            )
    path.write_text(text + "\n", encoding="utf-8")
    print(f"{path.relative_to(ROOT)}: {len(text) / 1e3:.0f} kB")


def _is_left_out(output: nbformat.NotebookNode) -> bool:
    """Whether it is a widget view, or what JAX says where its CUDA plugin is installed and there is no GPU."""
    if WIDGET_VIEW in output.get("data", {}):
        return True
    if output.get("name") != "stderr":
        return False
    return all(any(words in line for words in START_OF_JAX) for line in output.text.splitlines())


def _joined(outputs: list[nbformat.NotebookNode]) -> list[nbformat.NotebookNode]:
    """Returns the outputs with the text that one stream has in sequence as one: a kernel divides it by time."""
    joined: list[nbformat.NotebookNode] = []
    for output in outputs:
        if joined and output.get("name") and joined[-1].get("name") == output.name:
            joined[-1].text += output.text
        else:
            joined.append(output)
    return joined


def _clean(output: nbformat.NotebookNode) -> None:
    data = output.get("data", {})
    if "image/svg+xml" in data:
        data["image/svg+xml"] = TOOLTIP.sub("", data["image/svg+xml"])


if __name__ == "__main__":
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    for name in sys.argv[1:] or sorted(map(str, (ROOT / "notebooks").glob("*.ipynb"))):
        write(Path(name).resolve())
