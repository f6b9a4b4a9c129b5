"""What the site has besides docs/: the notebooks as they are stored, and files of the repository's root."""

from __future__ import annotations

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent


@event_priority(100)  # before the plugin that renders notebooks
def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Called by mkdocs when it has found the files of docs/."""
    for path in (*ROOT.glob("notebooks/**/*.ipynb"), ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"):
        name = path.relative_to(ROOT).as_posix()
        files.append(File(name, str(ROOT), config.site_dir, config.use_directory_urls))
    return files
