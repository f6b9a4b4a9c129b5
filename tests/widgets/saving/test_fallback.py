"""An Explorer where no kernel runs: text and HTML, safe and bounded."""

from __future__ import annotations

import dataclasses
from html.parser import HTMLParser

from inspector.compilation.cost import Cost
from inspector.compilation.memory import ASSIGNMENT, Memory, MemorySpace
from inspector.errors import CompilationError, TargetError, Unavailable
from inspector.hlo.listing import Listing
from inspector.widgets.explorer import Explorer
from inspector.widgets.panes.framework.pane import Excerpt
from inspector.widgets.saving.fallback import Details, html_form, text_form
from tests.widgets.fakes import FakeWork, lowered

EVIL = "</pre><script>alert('x')</script>&\"'"


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.words = ""
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.add(tag)
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data


def explorer(**changes: object) -> tuple[Explorer, FakeWork]:
    work = FakeWork()
    program = dataclasses.replace(lowered(name=f"jit_{EVIL}"), **changes)  # type: ignore[arg-type]
    return Explorer(program, work), work


def test_before_the_compile_ends() -> None:
    shown, _ = explorer()
    assert text_form(shown.lowered, shown.variants).endswith("baseline [attached]: queued")
    assert (
        "baseline: queued. Run the cell to compile and explore." in Tags(html_form(shown.lowered, shown.variants)).words
    )
    shown.close()


def test_numbers_of_every_variant_and_reasons_for_none() -> None:
    shown, work = explorer()
    shown.add({"xla_dump_to": EVIL})
    work.finish(0)
    none = Unavailable(f"not told {EVIL}")
    work.finish(1, memory=none, cost=Cost(none, 1.0, 2.0))
    shown.wait(10)
    text = text_form(shown.lowered, shown.variants)
    assert "peak memory 32 B, floating-point operations 2, compile time 500 ms" in text
    assert "peak memory unavailable, floating-point operations unavailable" in text
    assert "<span" not in text
    page = html_form(shown.lowered, shown.variants)
    parsed = Tags(page)
    assert parsed.seen <= {
        "div",
        "p",
        "b",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "small",
        "br",
        "span",
        "details",
        "summary",
        "pre",
    }
    assert EVIL in parsed.words
    assert "<script" not in page
    shown.close()


def test_differences_from_the_first_variant_for_the_target_and_host_memory_of_one() -> None:
    shown, work = explorer()
    shown.add({"xla_dump_to": "a"})
    shown.add(target="cpu:2")
    spaces = {"HBM": MemorySpace(8, 8, 0, 0, 40), "host": MemorySpace(4)}
    work.finish(0)
    work.finish(1, memory=Memory("HBM", spaces, ASSIGNMENT, {}, 0, 0))
    work.finish(2)
    shown.wait(10)
    rows = {row[0]: row[1:] for row in Cells(html_form(shown.lowered, shown.variants)).rows if row}
    assert rows["peak memory"] == ["32 B", "56 B +24 B (+75.0%)", "32 B"]
    assert rows["arguments"] == ["8 B", "8 B =", "8 B"]
    assert rows["peak memory in host memory"] == ["0 B", "4 B +4 B", "0 B"]
    shown.close()


class Cells(HTMLParser):
    """The cells of tables as text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data


def test_why_a_variant_failed() -> None:
    shown, work = explorer()
    shown.add({"xla_dump_to": EVIL})
    work.jobs[0].fail(TargetError("libtpu is not\ninstalled"))
    work.jobs[1].fail(CompilationError(EVIL + "x" * 10_000))
    assert "baseline [attached]: failed, TargetError: libtpu is not installed" in text_form(
        shown.lowered, shown.variants
    )
    assert max(map(len, text_form(shown.lowered, shown.variants).split("\n"))) < 1000
    page = html_form(shown.lowered, shown.variants)
    assert "✗ baselineattached: TargetError: libtpu is not installed" in Tags(page).words
    assert f"CompilationError: {EVIL}" in Tags(page).words
    assert "<script" not in page
    shown.close()


def test_an_error_of_the_tpu_compiler_is_shown_with_its_numbers() -> None:
    shown, work = explorer()
    head = "Ran out of memory in memory space vmem while allocating on stack for %matmul.1 = f32[8]"
    work.jobs[0].fail(CompilationError(f"{head} Scoped allocation with size 18.00M and limit 16.00M exceeded"))
    said = "matmul.1 needs at least 18 MiB of vmem, at least 2 MiB more than the kernel limit of 16 MiB"
    assert f"baseline [attached]: failed, CompilationError: {said}" in text_form(shown.lowered, shown.variants)
    assert said in Tags(html_form(shown.lowered, shown.variants)).words
    shown.close()


def test_texts_are_escaped_and_cut() -> None:
    wide = EVIL + "x" * 1_000_000
    many = "\n".join([EVIL] * 100_000)
    shown, work = explorer(
        source=Listing.of(many, [()] * 100_000),
        jaxpr_listing=Listing.of(wide, [()]),
        stablehlo_listing=Listing.of(wide, [()]),
    )
    work.finish(0)
    shown.wait(10)
    page = html_form(shown.lowered, shown.variants)
    assert "<script" not in page
    assert len(page) < 60_000
    assert "99,880 more lines" in Tags(page).words
    shown.close()


def test_unknown_sources_are_reported() -> None:
    shown, _ = explorer(source=Unavailable(f"no file {EVIL}"))
    assert f"Source: unavailable: no file {EVIL}" in Tags(html_form(shown.lowered, shown.variants)).words
    shown.close()


def test_a_notebook_keeps_both_forms_beside_the_widget() -> None:
    shown, work = explorer()
    work.finish(0)
    shown.wait(10)
    bundle = shown._repr_mimebundle_()
    data = bundle[0] if isinstance(bundle, tuple) else bundle
    assert data["text/plain"] == text_form(shown.lowered, shown.variants)
    assert data["text/html"] == shown._recorder.html()
    assert "application/vnd.jupyter.widget-view+json" in data
    shown.close()


def test_recorded_contents_are_labeled_escaped_and_truncated() -> None:
    shown, work = explorer()
    work.finish(0)
    shown.wait(10)
    told = {0: Details(excerpts=[Excerpt(EVIL + "x" * 10_000), Excerpt(f"Code {EVIL}", f"{EVIL}\n" * 100_000)])}
    lines = text_form(shown.lowered, shown.variants, told).split("\n")
    assert [line.strip()[: len(EVIL)] for line in lines[-2:]] == [EVIL, f"Code {EVIL}"[: len(EVIL)]]
    assert max(map(len, lines)) < 1000
    page = html_form(shown.lowered, shown.variants, told)
    assert f"baseline: Code {EVIL} (100,001 lines)" in Tags(page).words
    assert "<script" not in page
    assert len(page) < 60_000
    shown.close()


def test_the_optimized_hlo_is_shown_from_its_entry_on_and_of_few_variants() -> None:
    shown, work = explorer()
    above = "\n".join(f"%fused_{i} (p: f32[]) -> f32[] {{" for i in range(1000))
    for size in range(1, 7):
        shown.add({"xla_cpu_multi_thread_eigen": True, "xla_cpu_prefer_vector_width": 64 * size})
    for index in range(7):
        work.finish(index, hlo=f"HloModule m\n\n{above}\nENTRY %main (p: f32[9]) -> f32[9] {{\n" + "  x\n" * 9_000)
    shown.wait(60)
    page = html_form(shown.lowered, shown.variants, {0: Details(f"1 fusion {EVIL}", "<b>groups</b>")})
    assert f"baseline, compared with the baseline: 1 fusion {EVIL}" in Tags(page).words
    assert "<b>groups</b>" in page
    assert "… 1,002 lines above\nENTRY %main (p: f32[9])" in page
    assert "%fused_" not in page
    assert page.count("Optimized HLO of") == 4
    assert "… and 3 more." in page
    assert len(page) < 100_000
    shown.close()
