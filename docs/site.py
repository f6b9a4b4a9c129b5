"""Adds to the site the stored notebooks and files of the repository's root, which lie outside of docs/."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
ROOT_PAGES = ("CONTRIBUTING.md", "CHANGELOG.md")


@event_priority(100)  # before the plugin that renders notebooks
def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Called by mkdocs after it has listed the files of docs/."""
    for name in (*_notebooks(config.nav), *ROOT_PAGES):
        files.append(File(name, str(ROOT), config.site_dir, config.use_directory_urls))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Called by mkdocs with the text of each page. On the site, files of the root and pages of docs/ are in one folder."""
    return markdown.replace("](docs/", "](") if page.file.src_uri in ROOT_PAGES else markdown


def on_page_content(html: str, page: Page, **_: object) -> str:
    """Called by mkdocs with the HTML of each page. Notebooks link to files, and each file has a folder on the site."""
    if not page.file.src_uri.endswith(".ipynb"):
        return html
    root = "../" * page.url.count("/")
    return _NOTEBOOK.sub(r'href="../\1/\2"', _PAGE.sub(rf'href="{root}\1/\2"', html))


_PAGE = re.compile(r'href="(?:\.\./)+docs/([\w-]+)\.md(#[\w-]*)?"')
_NOTEBOOK = re.compile(r'href="(\w+)\.ipynb(#[\w-]*)?"')


def _notebooks(navigation: Any) -> Iterator[str]:
    """Yields the notebooks in the navigation. Other notebooks in these folders are a user's, or Jupyter's checkpoints."""
    if isinstance(navigation, str):
        if navigation.endswith(".ipynb"):
            yield navigation
        return
    for entry in navigation.values() if isinstance(navigation, dict) else navigation:
        yield from _notebooks(entry)
