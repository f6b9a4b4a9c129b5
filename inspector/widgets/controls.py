"""The controls above the panes: target and options of a new variant, and the axis environment.

Plain ipywidgets. They read what the user typed, check it, and hand it on; what is wrong with it is
said next to them.
"""

from __future__ import annotations

import html
import threading
from collections.abc import Callable, Sequence

import ipywidgets as widgets

from inspector.compilation import flags
from inspector.compilation.options import Options
from inspector.errors import InspectorError, OptionError, ParameterError

AxisPairs = list[tuple[str, int]]


class Controls(widgets.VBox):  # type: ignore[misc]  # ipywidgets is untyped
    """One row of controls and a line for messages.

    Calls `on_add(options, target_text)` and `on_axis_env(pairs)` on the comm's thread; an
    InspectorError that they raise is shown in place.
    """

    def __init__(
        self,
        targets: Sequence[str],
        target: str,
        axis_env: AxisPairs | None,
        on_add: Callable[[Options, str], object],
        on_axis_env: Callable[[AxisPairs], object] | None,
    ) -> None:
        """`on_axis_env` is None where the program cannot be lowered again."""
        self._on_add, self._on_axis_env = on_add, on_axis_env
        self.target = _combobox(target, targets, "target", _fixed("6.5rem"), "Target: attached, cpu or cpu:N")
        wide = widgets.Layout(flex="1 1 12rem", width="auto", min_width="8rem", max_width="28rem")
        self.flag = _combobox(
            "", (), "flag: type to search, or --a=1 --b=2", wide, "An XLA flag, or several as in XLA_FLAGS"
        )
        self.value = _combobox("", (), "value", _fixed("8rem"), "The flag's value")
        self.add = widgets.Button(description="Add variant", icon="plus", button_style="primary", layout=_fixed("8rem"))
        self.add.tooltip = "Compile with these options for this target, next to the baseline"
        self.axes = widgets.Text(
            value=", ".join(f"{name}={size}" for name, size in axis_env or ()),
            placeholder="axes: i=4, j=2",
            continuous_update=False,
            disabled=on_axis_env is None,
            layout=_fixed("9.5rem"),
        )
        self.axes.tooltip = "Axis environment: names and sizes for collectives"
        self.apply = widgets.Button(
            description="Lower again", icon="refresh", disabled=on_axis_env is None, layout=_fixed("8rem")
        )
        self.message = widgets.HTML()
        row = widgets.HBox(
            [self.target, self.flag, self.value, self.add, self.axes, self.apply],
            layout=widgets.Layout(flex_flow="row wrap"),
        )
        super().__init__([row, self.message])
        self.add_class("inspector-controls")
        self.add.on_click(lambda _: self._guard(self._add))
        self.apply.on_click(lambda _: self._guard(self._apply))
        self.flag.observe(lambda _: self._offer_values(), "value")
        # The names come from the installed jaxlib, whose first reading takes most of a second.
        threading.Thread(target=self._load_flags, name="inspector-flags", daemon=True).start()

    def say(self, error: BaseException | str) -> None:
        """Shows an error below the row, or nothing for ""."""
        if not error:
            self.message.value = ""
            return
        kind = "" if isinstance(error, str) else f"<b>{type(error).__name__}</b> "
        self.message.value = (
            '<div style="color: var(--jp-error-color1, #b3261e); line-height: 1.35; white-space: pre-wrap;'
            f' overflow-wrap: anywhere; max-width: 100%" role="alert">{kind}{html.escape(str(error))}</div>'
        )

    def _load_flags(self) -> None:
        self.flag.options = flags.flag_names()

    def _offer_values(self) -> None:
        """Values that fit the flag just chosen."""
        name = self.flag.value.strip().removeprefix("--")
        if name not in self.flag.options:
            self.value.options, self.value.placeholder = (), "value"
            return
        kind = flags.flag_type(name)
        self.value.options = ("true", "false") if kind.kind == "bool" else tuple(choice for choice, _ in kind.choices)
        self.value.placeholder = str(kind)
        self.value.value = ""

    def _guard(self, act: Callable[[], None]) -> None:
        self.say("")
        try:
            act()
        except InspectorError as error:
            self.say(error)

    def _add(self) -> None:
        self._on_add(self._options(), self.target.value)

    def _options(self) -> Options:
        text, value = self.flag.value.strip(), self.value.value.strip()
        if not text and value:
            raise OptionError(f"The value {value!r} has no flag. Choose a flag beside it.")
        if not text:
            return Options()
        if "=" in text or len(text.split()) > 1:
            if value:
                raise OptionError(f"{text!r} holds its own values; clear {value!r} beside it, or name one flag only.")
            return Options.parse(text)
        if not value and flags.flag_type(text).kind != "bool":
            raise OptionError(
                f"{text} needs a value of type {flags.flag_type(text)}. Type it in the field beside the flag."
            )
        return Options(flags={text: flags.parse_value(text.removeprefix("--"), value or "true")})

    def _apply(self) -> None:
        if self._on_axis_env is not None:
            self._on_axis_env(parse_axes(self.axes.value))


def parse_axes(text: str) -> AxisPairs:
    """`i=4, j=2` as pairs; an empty text as none.

    Raises:
      ParameterError: not names and sizes.
    """
    pairs: AxisPairs = []
    for part in filter(None, (p.strip() for p in text.split(","))):
        name, equals, size = (p.strip() for p in part.partition("="))
        if not (name and equals and size.isascii() and size.isdigit()):
            raise ParameterError(
                f"Cannot read {part!r} as an axis: expected name=size, such as i=4, with commas between axes."
            )
        pairs.append((name, int(size)))
    return pairs


def _combobox(
    value: str, options: Sequence[str], placeholder: str, layout: widgets.Layout, tooltip: str
) -> widgets.Combobox:
    box = widgets.Combobox(
        value=value, options=tuple(options), placeholder=placeholder, ensure_option=False, layout=layout
    )
    box.tooltip = tooltip
    return box


def _fixed(width: str) -> widgets.Layout:
    return widgets.Layout(width=width, max_width="100%")
