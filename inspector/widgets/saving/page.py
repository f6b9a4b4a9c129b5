"""Recordings as HTML: an element in a notebook's output, and a separate page that needs no network.

Readers first see a static form. Where scripts run, the app replaces it, starting from the transcript:
`frontend/src/page.ts`.
"""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Sequence

from inspector.widgets.saving.app_code import code, code_name, page_script
from inspector.widgets.saving.transcript import Transcript

_SCRIPT = "application/x-inspector"


def element(form: str, transcript: Transcript | None, remedy: str, *, name: str = "", has_code: bool) -> str:
    """Returns an element that starts the app on a page without a notebook kernel.

    Args:
      form: HTML for pages without scripts.
      transcript: messages that the app shows; None for the static form only.
      remedy: advice for readers about data that was not recorded.
      name: CSS class that identifies the element on the page.
      has_code: whether to include the app's code; one element of a page must have it.
    """
    data = f" data-code='{code_name()}' data-remedy='{html.escape(remedy)}'" + (" data-notebook" if name else "")
    parts = [f"<div class='inspector-stored {html.escape(name)}'{data}><div class='inspector-form'>{form}</div>"]
    if transcript is not None:
        parts.append(_block(f"type='{_SCRIPT}-transcript'", transcript.to_bytes()))
        if has_code:
            parts.append(_block(f"type='{_SCRIPT}-code' data-code='{code_name()}'", code()))
        parts.append(f"<script>{page_script()}</script>")
    return "".join((*parts, "</div>"))


def page(title: str, index: str, elements: Sequence[str]) -> str:
    """Returns a whole page around elements, of which the first has the code.

    The page sends no network requests, and runs only the app's scripts.

    Args:
      title: title as text.
      index: HTML before the elements.
      elements: elements created by `element`.
    """
    digest = base64.b64encode(hashlib.sha256(page_script().encode()).digest()).decode()
    # The app's code becomes a module from a blob, which only a running script can create.
    policy = f"default-src 'none'; script-src 'sha256-{digest}' blob:; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">'
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style></head><body>{index}{''.join(elements)}</body></html>\n"
    )


# Styles of a page's static form; the app has its own.
_STYLE = (
    "body{margin:0;font:14px system-ui,sans-serif;line-height:1.5}"
    ".inspector-form,.inspector-index{padding:16px}"
    "table{border-collapse:collapse}td,th{padding:3px 10px;border-bottom:1px solid #8884;text-align:left}"
    "pre{font:12px/1.4 ui-monospace,monospace}"
    ".inspector-stored .insp{height:100vh !important;border:0}"
)


def _block(attributes: str, data: bytes) -> str:
    return f"<script {attributes}>{base64.b64encode(data).decode()}</script>"
