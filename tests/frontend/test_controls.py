"""The controls in Chromium, on messages that Python made: find a flag, turn it, see what is wrong with it."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from inspector.widgets.controls import find_flags
from inspector.widgets.messages import ControlsMessage
from tests.frontend.conftest import OpenDemo
from tests.frontend.menus import show_fields

pytestmark = [pytest.mark.browser, pytest.mark.slow]

FAST_MATH, SCHEDULER = "xla_cpu_enable_fast_math", "xla_cpu_scheduler_type"
OFFER = ControlsMessage(
    type="controls",
    targets=["attached", "cpu", "tpu:v5e:2x4", "gpu:h100:8"],
    target="cpu",
    axes="i=4",
    can_lower=True,
    no_compile="",
)


class Row:
    """The controls of a page, and Python's side of them."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.flag = page.get_by_role("combobox", name="Flag: search")
        self.value = page.get_by_role("combobox", name="Flag value")
        self.target = page.get_by_role("combobox", name="Target: ")
        self.active = page.locator(".insp-suggestion[aria-selected=true]")

    def emit(self, message: Any) -> None:
        self.page.evaluate("message => demo.emit(message)", message)

    def sent(self, kind: str) -> list[dict[str, Any]]:
        self.page.wait_for_timeout(50)
        found: list[dict[str, Any]] = self.page.evaluate("kind => demo.sent.filter(m => m.type === kind)", kind)
        return found

    def answer(self, compiler: str = "cpu") -> None:
        """Replies as Python does, to the latest search."""
        request: Any = self.sent("flags")[-1]
        self.emit(find_flags(request, compiler))

    def search(self, text: str) -> Locator:
        """Types letters and gives the suggestions for them."""
        self.flag.click()
        self.page.keyboard.type(text)
        self.answer()
        return self.suggestions

    @property
    def suggestions(self) -> Locator:
        return self.page.locator(".insp-suggestion:visible")

    @property
    def detail(self) -> Locator:
        return self.page.locator(".insp-suggestion-detail:visible")


@pytest.fixture
def row(demo: OpenDemo) -> Row:
    row = Row(demo("mlp"))
    row.emit(OFFER)
    return row


def test_a_search_highlights_matches_and_describes_flags(row: Row) -> None:
    found = row.search("cpu_enable_fast")
    expect(found.first.locator(".insp-flag-name")).to_have_text(FAST_MATH)
    expect(found.first.locator("mark")).to_have_text(["cpu", "enable", "fast"])
    expect(found.first.locator(".insp-flag-type")).to_have_text("bool = false")
    expect(found.first.locator(".insp-badge:visible")).to_have_text(["cpu"])
    expect(row.detail).to_contain_text(f"{FAST_MATH} bool · default false · per compile · for cpu")
    expect(row.detail).to_contain_text("Enable unsafe fast-math")
    expect(row.flag).to_be_focused()


def test_suggestions_that_come_after_escape_are_not_shown(row: Row) -> None:
    row.flag.click()
    row.page.keyboard.type("cpu_enable_fast")
    row.page.keyboard.press("Escape")
    row.answer()
    row.page.wait_for_timeout(200)
    expect(row.suggestions).to_have_count(0)
    row.page.keyboard.type("_")
    row.answer()
    expect(row.suggestions.first).to_be_visible()


def test_a_flag_is_turned_without_the_mouse(row: Row) -> None:
    row.search("cpu_enable_fast")
    row.page.keyboard.press("Enter")
    expect(row.flag).to_have_value(FAST_MATH)
    expect(row.value).to_be_focused()
    expect(row.value).to_have_value("true")  # its default is false
    row.page.keyboard.press("Enter")
    expect(row.suggestions).to_have_count(0)
    assert row.sent("add") == [{"type": "add", "flag": FAST_MATH, "value": "true", "target": ""}]


def test_values_are_chosen_from_a_list(row: Row) -> None:
    row.search("scheduler_type")
    row.suggestions.first.click()
    expect(row.flag).to_have_value(SCHEDULER)
    expect(row.value).to_be_focused()
    expect(row.value).to_have_value("")
    expect(row.suggestions.first).to_have_text("CPU_SCHEDULER_TYPE_DEFAULTdefault")
    row.page.keyboard.press("ArrowDown")
    row.page.keyboard.press("ArrowDown")
    chosen = row.active.inner_text()
    row.page.keyboard.press("Enter")
    expect(row.value).to_have_value(chosen)
    row.page.keyboard.press("Enter")
    assert [m["value"] for m in row.sent("add")] == [chosen]


def test_arrows_go_through_the_list_and_it_follows(row: Row) -> None:
    found = row.search("fusion")
    count = found.count()
    assert count > 20
    names = [name.inner_text() for name in found.locator(".insp-flag-name").all()]
    for key, index in (("ArrowDown", 1), ("PageDown", 9), ("ArrowUp", 8), ("PageUp", 0), ("ArrowUp", count - 1)):
        row.page.keyboard.press(key)
        expect(row.active.locator(".insp-flag-name")).to_have_text(names[index])
        expect(row.active).to_be_in_viewport()
        expect(row.detail).to_contain_text(names[index])
        active = row.flag.get_attribute("aria-activedescendant")
        assert active == row.active.get_attribute("id")
    row.page.keyboard.press("Escape")
    expect(row.suggestions).to_have_count(0)
    expect(row.flag).to_be_focused()
    expect(row.flag).to_have_value("fusion")


def test_the_list_stays_inside_and_moves_nothing(demo: OpenDemo) -> None:
    for width in (500, 1300):
        page = demo("mlp", width=width, until=".insp-group")
        row = Row(page)
        row.emit(OFFER)
        show_fields(page)
        before = page.locator(".insp-toolbar").bounding_box()
        row.search("dump")
        assert page.locator(".insp-toolbar").bounding_box() == before
        frame, popup = page.locator(".insp").bounding_box(), page.locator(".insp-popup:visible").bounding_box()
        assert frame is not None
        assert popup is not None
        assert frame["x"] <= popup["x"]
        assert popup["x"] + popup["width"] <= frame["x"] + frame["width"]
        assert popup["y"] + popup["height"] <= frame["y"] + frame["height"]


def test_a_search_without_matches_is_reported(row: Row) -> None:
    row.search("zzzzqqqq")
    expect(row.suggestions).to_have_count(0)
    nothing = "No flag of the installed compilers matches “zzzzqqqq”."
    expect(row.detail.locator("p").first).to_have_text(nothing)


def test_unsearched_flags_are_listed_with_and_without_matches(row: Row) -> None:
    note = "Flags of libtpu are not searched: libtpu is not installed."
    for text, first in (("zzzzqqqq", "No flag of the installed"), ("cpu_enable_fast", FAST_MATH)):
        row.flag.fill("")
        row.flag.click()
        row.page.keyboard.type(text)
        request: Any = row.sent("flags")[-1]
        row.emit({**find_flags(request, "cpu"), "note": note})
        expect(row.detail.locator("p").first).to_contain_text(first)
        expect(row.detail.locator("p").last).to_have_text(note)


def test_late_answers_and_single_letters_show_nothing(row: Row) -> None:
    row.flag.click()
    row.page.keyboard.type("x")
    count = len(row.sent("flags"))
    row.page.keyboard.type("la_")
    requests: list[Any] = row.sent("flags")
    assert len(requests) > count
    row.emit(find_flags(requests[-2], "cpu"))
    expect(row.suggestions).to_have_count(0)
    row.answer()
    expect(row.suggestions.first).to_be_visible()
    row.value.click()
    row.answer()
    expect(row.suggestions).to_have_count(0)  # the field was left meanwhile


def test_a_late_answer_does_not_replace_a_flag_with_a_value(row: Row) -> None:
    row.flag.click()
    row.page.keyboard.type("--xla_disable_hlo_passes=fusion")
    row.answer()
    expect(row.suggestions).to_have_count(0)
    row.page.keyboard.press("Enter")
    assert row.sent("add")[-1]["flag"] == "--xla_disable_hlo_passes=fusion"


def test_several_flags_are_not_a_search(row: Row) -> None:
    row.search("fast")
    row.flag.fill(f"--{FAST_MATH}=true --xla_dump_to=/tmp")
    expect(row.suggestions).to_have_count(0)
    row.page.keyboard.press("Enter")
    assert row.sent("add")[-1]["flag"] == f"--{FAST_MATH}=true --xla_dump_to=/tmp"


def test_another_flag_does_not_inherit_the_value(row: Row) -> None:
    row.search("cpu_enable_fast")
    row.page.keyboard.press("Enter")
    expect(row.value).to_have_value("true")
    row.search("xla_cpu_max_i")  # a click in the field selects what is there
    expect(row.flag).to_have_value("xla_cpu_max_i")
    expect(row.value).to_have_value("")


def test_a_target_is_chosen_or_typed(row: Row) -> None:
    expect(row.target).to_have_attribute("placeholder", "Target: cpu")
    row.target.click()
    expect(row.suggestions).to_have_text(["attached", "cpu", "tpu:v5e:2x4", "gpu:h100:8"])
    row.page.keyboard.type("tpu")
    expect(row.suggestions).to_have_text(["tpu:v5e:2x4"])
    row.suggestions.click()
    expect(row.target).to_have_value("tpu:v5e:2x4")
    row.page.keyboard.type("xla_gpu")
    assert row.sent("flags")[-1]["target"] == "tpu:v5e:2x4"
    row.answer("tpu")
    expect(row.page.locator(".insp-suggestions .insp-menu-title")).to_have_text("Not available for tpu:v5e:2x4")
    row.page.get_by_role("button", name="Add variant").click()
    assert row.sent("add")[-1] == {"type": "add", "flag": "xla_gpu", "value": "", "target": "tpu:v5e:2x4"}


def test_a_flag_for_another_target_brings_that_of_a_variant(demo: OpenDemo) -> None:
    row = Row(demo("targets"))
    row.emit({**OFFER, "target": "cpu:8"})
    row.search("xla_gpu_autotune_level")
    row.page.keyboard.press("Enter")
    expect(row.target).to_have_value("gpu:h100:8")
    row.target.fill("gpu:b200:1")
    row.search("xla_cpu_enable_fast")
    row.page.keyboard.press("Enter")
    expect(row.target).to_have_value("gpu:b200:1")  # what was typed stays


def test_an_error_stays_below_until_it_is_dismissed(row: Row) -> None:
    said = row.page.locator(".insp-controls [role=alert]")
    error = {"kind": "UnknownFlagError", "message": "No flag 'xla_<b>'. Did you mean xla_b?"}
    row.emit({"type": "said", "error": error})
    expect(said).to_contain_text("UnknownFlagError No flag 'xla_<b>'. Did you mean xla_b?")
    said.get_by_label("Dismiss").click()
    expect(said).to_have_count(0)
    row.emit({"type": "said", "error": error})
    row.emit({"type": "said", "error": None})
    expect(said).to_have_count(0)


def test_axes_are_offered_where_they_apply(row: Row) -> None:
    axes = row.page.get_by_label("Axis environment")
    expect(axes).to_have_value("i=4")
    axes.fill("i=8")
    axes.press("Enter")
    row.page.get_by_role("button", name="Lower again").click()
    assert row.sent("lower") == [{"type": "lower", "axes": "i=8"}] * 2
    row.emit({**OFFER, "axes": ""})
    expect(axes).to_be_visible()  # to write them again
    row.emit({**OFFER, "can_lower": False})
    expect(axes).to_be_hidden()


def test_a_program_that_cannot_be_compiled_has_no_variants(row: Row) -> None:
    row.emit({**OFFER, "no_compile": "it is compiled already. Open the function"})
    expect(row.flag).to_be_disabled()
    expect(row.page.get_by_role("button", name="Add variant")).to_be_disabled()
    expect(row.page.locator(".insp-controls")).to_have_attribute(
        "title", "No variants: it is compiled already. Open the function"
    )


def test_a_program_without_axes_has_no_field_for_them(row: Row) -> None:
    row.page.reload()
    row.page.wait_for_selector(".insp-control-row")
    row.emit({**OFFER, "axes": ""})
    expect(row.page.get_by_label("Axis environment")).to_be_hidden()


def test_without_a_notebook_kernel_the_controls_are_disabled(row: Row) -> None:
    row.page.evaluate("() => { demo.model.send = () => { throw new Error('closed') } }")
    row.page.get_by_role("button", name="Add variant").click()
    expect(row.page.get_by_text("The notebook kernel is gone")).to_be_visible()
    for part in (row.flag, row.value, row.target, row.page.get_by_role("button", name="Add variant")):
        expect(part).to_be_disabled()
