"""One HTML file of an exploration, opened from the disk with the network off."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from playwright.sync_api import Browser, Page, expect

from inspector import explore
from inspector.errors import CompilationError
from tests.frontend.behind import OpenDemo, behind, until
from tests.lines import expect_in_view
from tests.widgets.fakes import FakeWork, finished

Open = Callable[[Path], Page]
BUSY = re.compile("insp-busy")
HOSTILE = '</script><img src=x onerror="window.ran=1"><script>window.ran=1</script>'


@pytest.fixture
def opened(chromium: Browser) -> Iterator[Open]:
    context = chromium.new_context(viewport={"width": 1360, "height": 760}, reduced_motion="reduce", offline=True)
    page = context.new_page()
    said: list[str] = []
    asked: list[str] = []
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None)
    page.on("request", lambda r: None if r.url.startswith(("file:", "data:", "blob:")) else asked.append(r.url))

    def open_(path: Path) -> Page:
        page.goto(path.as_uri())
        page.wait_for_selector("[data-pane=optimized] .cm-line", timeout=30_000)
        return page

    yield open_
    context.close()
    assert (said, asked) == ([], [])


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def step(x: object) -> object:
        return jnp.tanh(x @ x).sum()  # type: ignore[operator]

    path = tmp_path_factory.mktemp("report") / "step.html"
    explorer = explore(step, jnp.ones((64, 64)), target="cpu")
    explorer.add({"xla_cpu_enable_fast_math": True})
    explorer.save_html(path)
    explorer.close()
    return path


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("failed") / "failed.html"
    explorer = explore(lambda x: x + 1, jnp.ones(8), target="tpu")  # of which this process has none
    explorer.wait()
    explorer.save_html(path)
    explorer.close()
    return path


def test_texts_numbers_and_links_are_there(written: Path, opened: Open) -> None:
    page = opened(written)
    expect(page.locator(".insp-headline")).to_contain_text("peak")
    expect(page.locator(".insp-notice")).to_have_count(0)
    expect(page.get_by_role("tabpanel", name="Findings", exact=True)).to_contain_text("No findings")
    page.get_by_role("tab", name="Stats").click()
    expect(page.get_by_role("tabpanel", name="Stats", exact=True)).to_contain_text("peak memory")
    page.locator("[data-pane=optimized] .cm-line", has_text="ENTRY %main").wait_for()
    page.locator("[data-pane=source] .cm-line", has_text="return jnp.tanh(x @ x)").first.click()
    expect(page.locator("[data-pane=optimized] .insp-strong, [data-pane=optimized] .insp-weak").first).to_be_visible()
    expect(page.locator(".insp-chip-main")).to_have_count(2)
    page.locator(".insp-chip-main").nth(1).click()
    page.get_by_role("button", name="Compare with baseline").click()


def test_a_failed_compile_is_not_lost_data(failed: Path, chromium: Browser) -> None:
    page = chromium.new_page(viewport={"width": 1360, "height": 760}, reduced_motion="reduce")
    page.goto(failed.as_uri())
    for pane in ("Optimized HLO", "Stats", "Instructions", "Memory", "Roofline", "Graph", "Passes", "Code"):
        page.get_by_role("tab", name=pane, exact=True).click()
        shown = page.get_by_role("tabpanel", name=pane, exact=True)
        expect(shown).to_contain_text("this variant failed")
        expect(shown).to_contain_text("This process has no tpu device")
        expect(shown).not_to_contain_text("received")
    page.close()


def test_replies_of_python_are_recorded(written: Path, opened: Open) -> None:
    page = opened(written)
    page.get_by_role("tab", name="Instructions").click()
    expect(page.get_by_role("tabpanel", name="Instructions", exact=True)).to_contain_text("f32[64,64]")
    page.get_by_role("tab", name="Graph").click()
    expect(page.get_by_role("treeitem").first).to_be_visible()
    page.get_by_role("tab", name="Outline").click()
    expect(page.get_by_role("tabpanel", name="Outline", exact=True)).to_contain_text("ENTRY")


@pytest.mark.browser
@pytest.mark.slow
def test_a_long_text_begins_at_its_entry_each_time(tmp_path: Path, opened: Open) -> None:
    """Lines of a new editor turn out to have another height than it took them to have, in one frame or the other."""

    def long(x: Any) -> Any:
        return jax.scipy.special.gammaln(jax.nn.softmax(x @ x.T)).sum() + jax.random.normal(jax.random.key(0), (64,))[0]

    explorer = explore(jax.grad(long), jnp.ones((64, 64)), target="cpu")
    explorer.save_html(tmp_path / "x.html")
    explorer.close()
    page = opened(tmp_path / "x.html")
    page.context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": 3})
    for _ in range(5):
        page = opened(tmp_path / "x.html")
        page.wait_for_timeout(500)
        expect_in_view(page.locator("[data-pane=optimized] .cm-line", has_text=re.compile("^ENTRY")))


@pytest.mark.browser
@pytest.mark.slow
def test_a_text_whose_entry_is_near_its_end_begins_there(tmp_path: Path, opened: Open) -> None:
    """Higher than the editor took them to be, all lines above have no room yet when it is put there."""

    def chain(x: Any) -> Any:
        for i in range(40):
            x = jax.jit(lambda y, i=i: jnp.sin(y) * i + jnp.cos(y))(x)
        return x

    explorer = explore(chain, jnp.ones(8), target="cpu")
    explorer.save_html(tmp_path / "x.html")
    explorer.close()
    page = opened(tmp_path / "x.html")
    page.get_by_role("tab", name="HLO", exact=True).click()
    page.wait_for_timeout(500)
    expect_in_view(page.locator("[data-pane=hlo] .cm-line", has_text=re.compile("^ENTRY")))


def test_collectives_are_priced(tmp_path: Path, opened: Open) -> None:
    explorer = explore(lambda x: jax.lax.psum(x, "i"), jnp.ones((64, 64)), axis_env=[("i", 8)])
    explorer.save_html(tmp_path / "x.html")
    explorer.close()
    page = opened(tmp_path / "x.html")
    page.get_by_role("tab", name="Collectives").click()
    seen = page.get_by_role("region", name="Link cost")
    expect(seen.locator("dl")).to_contain_text("8 hops × 1 µs + 14 KiB / 50 GB/s")
    seen.get_by_label("Latency in µs").fill("2")
    expect(seen.locator("dl")).to_contain_text("8 hops × 2 µs")
    seen.get_by_label("Algorithm").select_option("ring")
    expect(seen.locator("dl")).to_contain_text("hops × 2 µs + 28 KiB")
    seen.get_by_label("Slice or host").select_option("gpu:b200:8")
    expect(seen).to_contain_text("Cost not recorded")


def test_unrecorded_contents_state_what_to_do(written: Path, opened: Open) -> None:
    page = opened(written)
    page.get_by_role("tab", name="Passes").click()
    expect(page.get_by_role("tabpanel", name="Passes", exact=True)).to_contain_text("Passes not recorded")
    expect(page.get_by_role("tabpanel", name="Passes", exact=True)).to_contain_text("inspector.explore")
    expect(page.locator(".insp-spinner")).to_have_count(0)
    expect(page.get_by_role("button", name="Add variant")).to_have_count(0)
    expect(page.locator(".insp-hint")).to_contain_text("Recorded 20")


def test_a_failed_compile_reads_as_one(tmp_path: Path, chromium: Browser) -> None:
    """Also in the panes of what is recorded on request, and of texts that there is no preview of."""
    work = FakeWork()
    explorer = work.explorer()
    work.jobs[0].fail(CompilationError("XLA refused the program: no such layout"))
    explorer.save_html(tmp_path / "x.html")
    explorer.close()
    page = chromium.new_page(viewport={"width": 1360, "height": 760})
    page.goto((tmp_path / "x.html").as_uri())
    for name in (
        "Optimized HLO",
        "Stats",
        "Memory",
        "Passes",
        "Code",
        "Instructions",
        "Roofline",
        "Collectives",
        "Graph",
    ):
        page.get_by_role("tab", name=name, exact=True).click()
        panel = page.get_by_role("tabpanel", name=name, exact=True)
        expect(panel).to_contain_text("this variant failed")
        expect(panel).to_contain_text("XLA refused the program: no such layout")
        expect(panel).not_to_contain_text(re.compile("not recorded|not received"))
    expect(page.locator(".insp-chip-failed")).to_have_count(1)
    page.close()


GAPS = """cells => cells.map(cell => {
  const parts = [...cell.children].filter(part => part.textContent && part.getClientRects().length);
  const gaps = parts.slice(1).map((part, i) => {
    const range = document.createRange();
    range.selectNodeContents(parts[i]);
    return part.getBoundingClientRect().left - range.getBoundingClientRect().right;
  });
  return [cell.textContent, Math.min(...gaps)];
})"""


@pytest.mark.parametrize("width", [1360, 700])
def test_a_number_and_its_note_are_separate(tmp_path: Path, opened: Open, width: int) -> None:
    def step(x: Any) -> Any:
        grow = lambda c: (c[0] + 1, jnp.tanh(c[1] @ x))  # noqa: E731
        return jax.lax.while_loop(lambda c: c[0] < jnp.sum(x), grow, (0.0, x))[1]

    explorer = explore(step, jnp.ones((64, 64)), target="cpu", compare=[{"xla_cpu_enable_fast_math": True}])
    explorer.save_html(tmp_path / "x.html")
    explorer.close()
    page = opened(tmp_path / "x.html")
    page.set_viewport_size({"width": width, "height": 760})
    page.get_by_role("tab", name="Stats").click()
    cells = page.locator(".insp-stats .insp-stat:has(.insp-reason)").evaluate_all(GAPS)
    assert len(cells) >= 6
    for text, gap in cells:
        assert re.fullmatch(r"at least [\d.]+ ?\w* +\d+ loops? of .*", text.strip()), text
        assert gap >= 6, text
    heading = page.locator(".insp-stats thead th").nth(1)
    assert (heading.text_content() or "").startswith("baseline cpu")


def test_the_button_saves_the_page_of_save_html(demo: OpenDemo, opened: Open, tmp_path: Path) -> None:
    page = demo("waiting", until=".insp")
    explorer = finished()
    exchange = behind(page, explorer)
    button = page.get_by_role("button", name="Save as HTML file")
    until(page, exchange, button)
    with page.expect_download() as download:
        button.click()
        expect(button).to_have_class(BUSY)
        until(page, exchange, page.locator("button:not(.insp-busy)[aria-label^='Save as HTML file']"))
    assert download.value.suggested_filename == "jit_step.html"
    download.value.save_as(tmp_path / "x.html")
    again = opened(tmp_path / "x.html")
    expect(again.locator(".insp-title")).to_have_text("jit_step")
    expect(again.get_by_role("button", name="Save as HTML file")).to_have_count(0)


@pytest.mark.browser
@pytest.mark.slow
def test_the_page_keeps_selection_and_note_and_links_lead_to_lines(tmp_path: Path, opened: Open) -> None:
    def step(x: Any) -> Any:
        return jnp.tanh(x @ x).sum()

    path = tmp_path / "x.html"
    explorer = explore(step, jnp.ones((64, 64)), target="cpu", compare={"xla_cpu_enable_fast_math": True}).wait(120)
    root = re.search(r"ROOT %(\S+)", explorer.baseline.compiled.hlo.partition("ENTRY")[2])
    assert root is not None
    explorer._on_request(
        {"type": "select", "selection": {
            "pane": "optimized", "variant": 1, "file": None, "line": 2, "origin": None, "instruction": root[1]}}
    )  # fmt: skip
    explorer.save_html(path, note="<b>Look</b> at the root.")
    explorer.close()
    page = opened(path)
    chosen = page.locator("[data-pane=optimized] .insp-chosen")
    expect(chosen).to_contain_text(root[1])
    expect_in_view(page.locator("[data-pane=source] .insp-strong").first)
    expect(page.locator(".insp-chip-main[aria-pressed=true]")).to_contain_text("fast_math")
    expect(page.locator(".insp-notice", has_text="<b>Look</b> at the root.")).to_be_visible()
    page.locator("[data-pane=source] .cm-line", has_text="return jnp.tanh(x @ x)").first.click()
    page.get_by_role("button", name="Copy a link to this line").click()
    link = page.url
    assert "#pane=source&line=" in link
    page.locator("[data-pane=source] .cm-line", has_text="def step").first.click()
    page.goto("about:blank")
    page.goto(link)
    expect(page.locator("[data-pane=source] .insp-chosen")).to_contain_text("tanh")
    page.goto("about:blank")
    page.goto(f"{path.as_uri()}#pane=optimized&variant=0&instruction={root[1]}")
    expect(chosen).to_contain_text(root[1])
    expect(page.locator(".insp-chip-main[aria-pressed=true]")).to_contain_text("baseline")
    page.evaluate("location.hash = '#pane=memory'")
    expect(page.get_by_role("tab", name="Memory")).to_have_attribute("aria-selected", "true")
    page.evaluate("location.hash = '#pane=nothing'")


@pytest.mark.browser
@pytest.mark.slow
def test_a_note_is_written_in_the_explorer(demo: OpenDemo, opened: Open, tmp_path: Path) -> None:
    page = demo("waiting", until=".insp")
    exchange = behind(page, finished())
    until(page, exchange, page.locator(".insp-chip-done"))
    page.locator("[data-pane=optimized] .cm-line").first.click()
    page.keyboard.press("/")
    page.keyboard.type("with a note")
    page.keyboard.press("Enter")
    form = page.get_by_role("dialog", name="Save as HTML file with a note")
    form.get_by_label("Note for readers").fill("Only an example.")
    with page.expect_download() as download:
        form.get_by_role("button", name="Save").click()
        until(page, exchange, page.locator("button:not(.insp-busy)[aria-label^='Save as HTML file']"))
    download.value.save_as(tmp_path / "x.html")
    again = opened(tmp_path / "x.html")
    expect(again.locator(".insp-notice", has_text="Only an example.")).to_be_visible()


def test_names_that_are_markup_do_not_run(tmp_path: Path, opened: Open) -> None:
    namespace: dict[str, object] = {"jax": jax, "HOSTILE": HOSTILE, "__name__": HOSTILE}
    body = "def f(x):\n    with jax.named_scope(HOSTILE):\n        return jax.lax.psum(jax.numpy.sin(x), HOSTILE)\n"
    exec(compile(body, HOSTILE, "exec"), namespace)
    fun = namespace["f"]
    fun.__name__ = fun.__qualname__ = HOSTILE  # type: ignore[attr-defined]
    explorer = explore(fun, jnp.ones(4), target="cpu:2", axis_env=[(HOSTILE, 2)])  # type: ignore[arg-type]
    explorer.save_html(tmp_path / "x.html")
    assert HOSTILE not in (tmp_path / "x.html").read_text()
    page = opened(tmp_path / "x.html")
    for name in ("Collectives", "Outline", "Graph", "Instructions"):
        page.get_by_role("tab", name=name, exact=True).click()
        expect(page.get_by_role("tabpanel", name=name, exact=True)).not_to_be_empty()
    assert page.evaluate("() => window.ran") is None
    expect(page.locator("img[src=x]")).to_have_count(0)


def test_without_scripts_it_is_read_all_the_same(written: Path, chromium: Browser) -> None:
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(written.as_uri())
    expect(page.locator(".inspector-form")).to_contain_text("peak memory")
    context.close()
