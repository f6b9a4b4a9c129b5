"""What the site has besides docs/: the notebooks as they are stored, and files of the repository's root."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent


@event_priority(100)  # before the plugin that renders notebooks
def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Called by mkdocs when it has found the files of docs/."""
    for name in (*_notebooks(config.nav), "CONTRIBUTING.md", "CHANGELOG.md"):
        files.append(File(name, str(ROOT), config.site_dir, config.use_directory_urls))
    return files


def _notebooks(navigation: Any) -> Iterator[str]:
    """The notebooks in the navigation. Others beside them are a user's, or Jupyter's checkpoints."""
    if isinstance(navigation, str):
        if navigation.endswith(".ipynb"):
            yield navigation
        return
    for entry in navigation.values() if isinstance(navigation, dict) else navigation:
        yield from _notebooks(entry)
