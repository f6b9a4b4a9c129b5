"""What was recorded as HTML: an element that a notebook keeps, and a page of its own that needs no network.

Whoever reads it sees a readable form of it. Where scripts run, the app comes to life from the transcript in its place:
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
    """An element that a page without a notebook kernel brings to life.

    Args:
      form: what is read where no script runs, HTML.
      transcript: what the app shows; None where there is only the form.
      remedy: what a reader can do about what was not recorded.
      name: a class by which the page finds it.
      has_code: whether the app's code is in it; one element of a page has it.
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
    """A whole page around elements of which the first has the code.

    Nothing in it asks a network for anything; scripts run only if they are the app's.

    Args:
      title: as text.
      index: what stands before the elements, HTML.
      elements: by `element`.
    """
    digest = base64.b64encode(hashlib.sha256(page_script().encode()).digest()).decode()
    # The app's code becomes a module from a blob, which only a script that runs already can make.
    policy = f"default-src 'none'; script-src 'sha256-{digest}' blob:; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">'
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style></head><body>{index}{''.join(elements)}</body></html>\n"
    )


# Of a page's readable form; the app brings its own.
_STYLE = (
    "body{margin:0;font:14px system-ui,sans-serif;line-height:1.5}"
    ".inspector-form,.inspector-index{padding:16px}"
    "table{border-collapse:collapse}td,th{padding:3px 10px;border-bottom:1px solid #8884;text-align:left}"
    "pre{font:12px/1.4 ui-monospace,monospace}"
    ".inspector-stored .insp{height:100vh !important;border:0}"
)


def _block(attributes: str, data: bytes) -> str:
    return f"<script {attributes}>{base64.b64encode(data).decode()}</script>"
