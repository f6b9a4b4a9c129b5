"""The controls above the panes: target and options of a new variant, and the axis environment.

Plain ipywidgets. They read what the user typed, check it, and hand it on; what is wrong with it is
said next to them.
"""

from __future__ import annotations

import html
import threading
from collections.abc import Callable, Sequence

import ipywidgets as widgets

from inspector.compilation import flags, options_text
from inspector.compilation.flags import catalogue
from inspector.compilation.options import Options
from inspector.errors import InspectorError, OptionError, ParameterError

AxisPairs = list[tuple[str, int]]

_TARGET_TOOLTIP = (
    "For what to compile: attached, cpu:8, tpu:v5e:2x4 or gpu:h100:8, say; empty for the baseline's target."
    " inspector.targets() lists them"
)
_SEARCH_LETTERS = 3
_FOUND = 6


class Controls(widgets.VBox):  # type: ignore[misc]  # ipywidgets is untyped
    """One row of controls and a line for messages.

    Calls `on_add(options, target_text)`, the text empty for the baseline's target, and
    `on_axis_env(pairs)` on the comm's thread; an InspectorError that they raise is shown in place.
    """

    def __init__(
        self,
        targets: Sequence[str],
        target: str,
        axis_env: AxisPairs | None,
        on_add: Callable[[Options, str], object],
        on_axis_env: Callable[[AxisPairs], object] | None,
    ) -> None:
        """`target` is the baseline's; `on_axis_env` is None where the program cannot be lowered again."""
        self._on_add, self._on_axis_env = on_add, on_axis_env
        # Empty at first: a browser offers only what goes on from the text that a field has.
        self.target = _combobox("", targets, "", _fixed("10.5rem"), _TARGET_TOOLTIP)
        self.set_baseline(target)
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
        self.found = widgets.HBox(layout=widgets.Layout(flex_flow="row wrap", display="none"))
        # Made once: a widget that is dropped stays in the kernel and in the browser.
        self._chips, self._more = [self._chip() for _ in range(_FOUND)], widgets.Label()
        self.message = widgets.HTML()
        row = widgets.HBox(
            [self.target, self.flag, self.value, self.add, self.axes, self.apply],
            layout=widgets.Layout(flex_flow="row wrap"),
        )
        super().__init__([row, self.found, self.message])
        self.add_class("inspector-controls")
        self.add.on_click(lambda _: self._guard(self._add))
        self.apply.on_click(lambda _: self._guard(self._apply))
        self.flag.observe(lambda _: self._flag_typed(), "value")
        # The names come from the installed jaxlib, whose first reading takes most of a second.
        threading.Thread(target=self._load_flags, name="inspector-flags", daemon=True).start()

    def set_baseline(self, target: str) -> None:
        """Names the target that an empty field stands for."""
        self.target.placeholder = f"target: {target}"

    def say(self, error: BaseException | str) -> None:
        """Shows an error below the row, or nothing for ""."""
        if not error:
            self.message.value = ""
            return
        kind = "" if isinstance(error, str) else f"<b>{type(error).__name__}</b> "
        self.message.value = _line(f"{kind}{html.escape(str(error))}", "error-color1, #b3261e", "alert")

    def _load_flags(self) -> None:
        # Descriptions too: they are wanted as soon as a flag is chosen.
        self.flag.options = tuple(o.name for o in catalogue.options() if not flags.flag_type(o.name).is_opaque)

    def _flag_typed(self) -> None:
        """Says what the flag does, or offers those that match what is typed so far."""
        text = self.flag.value.strip()
        name = text.removeprefix("--").partition("=")[0]
        known = name in self.flag.options
        is_search = len(text) >= _SEARCH_LETTERS and not known and "=" not in text and bool(self.flag.options)
        self._offer_flags(catalogue.find_options(text) if is_search else ())
        if known:
            self._offer_values(catalogue.find_option(name))
            return
        self.value.options, self.value.placeholder = (), "value"
        self.message.value = ""

    def _offer_values(self, option: catalogue.Option) -> None:
        self.value.options = _offered_values(option)
        self.value.placeholder = option.type
        self.message.value = _line(_describe(option), "ui-font-color1, inherit", "status")

    def _offer_flags(self, found: Sequence[catalogue.Option]) -> None:
        """The best matches of a search, each a button that chooses it."""
        offered = [option for option in found if option.name in self.flag.options]
        for chip, option in zip(self._chips, offered, strict=False):
            chip.description, chip.tooltip = option.name, str(option.description)
        more = len(offered) - len(self._chips)
        self._more.value = f"and {more} more: type more letters"
        self.found.children = [*self._chips[: len(offered)], *([self._more] if more > 0 else [])]
        self.found.layout.display = "flex" if offered else "none"

    def _chip(self) -> widgets.Button:
        chip = widgets.Button(layout=widgets.Layout(width="auto", max_width="100%"))
        chip.on_click(lambda _: self._choose(chip.description))
        return chip

    def _choose(self, name: str) -> None:
        self.value.value = ""
        self.flag.value = name

    def _guard(self, act: Callable[[], None]) -> None:
        self.say("")
        try:
            act()
        except InspectorError as error:
            self.say(error)

    def _add(self) -> None:
        self._on_add(self._options(), self.target.value.strip())

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
        return Options.parse(options_text.write({text.removeprefix("--"): value or "true"}))

    def _apply(self) -> None:
        if self._on_axis_env is not None:
            self._on_axis_env(parse_axes(self.axes.value))


def _line(content: str, color: str, role: str) -> str:
    """HTML of the message line; `color` is a variable of JupyterLab's theme with its fallback."""
    return (
        f'<div style="color: var(--jp-{color}); line-height: 1.35; white-space: pre-wrap;'
        f' overflow-wrap: anywhere; max-width: 100%" role="{role}">{content}</div>'
    )


def _offered_values(option: catalogue.Option) -> tuple[str, ...]:
    """What can be chosen as a flag's value."""
    is_auto = option.type.startswith("auto or ")
    plain = ("true", "false") if option.type.removeprefix("auto or ") == "bool" else option.choices
    return ("auto", *(word for word in plain if word != "auto")) if is_auto else plain


def _describe(option: catalogue.Option) -> str:
    """One flag in a line of HTML: type, default, who reads it, what it does."""
    default = str(option.default).lower() if isinstance(option.default, bool) else str(option.default)
    facts = [option.type, f"default {default or '(empty)'}", option.group, str(option.channel)]
    if option.deprecated:
        facts.append("deprecated")
    if option.choices:
        facts.append("one of " + ", ".join(option.choices))
    said = option.description if isinstance(option.description, str) else f"{option.description.reason}."
    head = html.escape(" · ".join(facts))
    return f"<b>{html.escape(option.name)}</b> {head}<br>{html.escape(said)}"


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
