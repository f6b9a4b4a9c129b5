"""What it takes to keep an exploration: bytes of a bundle and of an HTML file over the compressed texts in them; to open that.

    python -m benchmarks.keep [workload ...]

Each workload is explored on the CPU as it is and with another flag, saved, and loaded. Beside the file's bytes stand those of
the texts and protos alone, each packed by itself as well as the file packs: source, jaxpr and StableHLO as listed, the HLO and
its proto before and after the compiler, of every variant whatever they share. Of the HTML file the texts are those that the
panes show, as gzip packs them at best. It is opened in Chromium, from the disk and without a network: seconds from then to the
first frame with the optimized HLO, and CPU time of the page's thread until then.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import tempfile
import time
import zlib
from pathlib import Path

import inspector
from benchmarks.lab import EXPLORE_LIMIT_MS, PAINTED, VIEWPORT, chromium, thread_clock
from benchmarks.measuring import machine
from benchmarks.workloads import make
from inspector.api.exploration import Exploration
from inspector.errors import Unavailable
from inspector.hlo.text import display_text

AIM_RATIO = 1.5
OPEN_AIM_S = 3.0
PAGE_AIM = (1.5, 600_000)
"""Of an HTML file: times the packed texts, and bytes besides."""
_FLAG = {"xla_cpu_enable_fast_math": True}
_LEVEL = 1  # of the file's


@dataclasses.dataclass(frozen=True)
class Kept:
    """One workload's."""

    workload: str
    file_bytes: int
    packed_bytes: int
    save_s: float
    load_s: float
    page_bytes: int
    shown_bytes: int
    page_s: float
    open_s: float
    open_cpu_s: float

    @property
    def page_aim(self) -> float:
        """The bytes that an HTML file may have."""
        return PAGE_AIM[0] * self.shown_bytes + PAGE_AIM[1]

    def __str__(self) -> str:
        return (
            f"{self.workload:10} {self.file_bytes / 1e3:10,.1f} kB, texts and protos {self.packed_bytes / 1e3:10,.1f} kB,"
            f" ratio {self.file_bytes / self.packed_bytes:.2f}, saved in {self.save_s:.2f} s, loaded in {self.load_s:.2f} s;"
            f" HTML {self.page_bytes / 1e3:10,.1f} kB of at most {self.page_aim / 1e3:,.1f} in {self.page_s:.2f} s,"
            f" opened in {self.open_s:.2f} s, {self.open_cpu_s:.2f} s of its thread's CPU time"
        )


def kept(workload: str) -> Kept:
    """Explores, saves and loads one."""
    made = make(workload)
    explorer = inspector.explore(made.fun, *made.args, compare=[_FLAG]).wait()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.inspector"
        began = time.perf_counter()
        explorer.save(path)
        saved = time.perf_counter()
        loaded = inspector.load(path)
        done = time.perf_counter()
        assert isinstance(loaded, Exploration)
        size = path.stat().st_size
        page = Path(folder) / "x.html"
        explorer.save_html(page)
        page_s, page_size = time.perf_counter() - done, page.stat().st_size
        open_s, open_cpu_s = opened(page)
    explorer.close()
    shown = sum(len(zlib.compress(text.encode(), 9)) for text in shown_texts(loaded))
    return Kept(
        workload, size, packed_bytes(loaded), saved - began, done - saved, page_size, shown, page_s, open_s, open_cpu_s
    )


def opened(file: Path) -> tuple[float, float]:
    """Seconds until the optimized HLO of a page is on screen, and of CPU time until then."""
    with chromium() as browser:
        context = browser.new_context(offline=True, viewport=VIEWPORT)
        page = context.new_page()
        page.add_init_script(PAINTED)
        page.goto(file.as_uri(), wait_until="commit")
        page.wait_for_selector("body", state="attached")
        open_ms: float = page.evaluate(
            "limit => window.painted(() => window.optimized(document.querySelector('.insp')), limit)", EXPLORE_LIMIT_MS
        )
        return open_ms / 1e3, thread_clock(page)() / 1e3


def shown_texts(exploration: Exploration) -> list[str]:
    """What the panes show."""
    lowered = exploration.lowered
    listed = (lowered.source, lowered.jaxpr_listing, lowered.stablehlo_listing)
    texts = [each.text for each in listed if not isinstance(each, Unavailable)]
    hlo = [*_known(lowered.hlo), *(variant.compiled.hlo for variant in exploration.variants)]
    return texts + [display_text(text).text for text in hlo]


def _known(text: str | Unavailable) -> list[str]:
    return [] if isinstance(text, Unavailable) else [text]


def packed_bytes(exploration: Exploration) -> int:
    """The texts and protos of all variants, each packed by itself."""
    lowered = exploration.lowered
    listed = (lowered.source, lowered.jaxpr_listing, lowered.stablehlo_listing)
    parts = [each.text.encode() for each in listed if not isinstance(each, Unavailable)]
    parts += [lowered.program.module, *(hlo.encode() for hlo in _known(lowered.hlo)), lowered.hlo_proto]
    for variant in exploration.variants:
        parts += [variant.compiled.hlo.encode(), variant.compiled.hlo_proto]
    return sum(len(zlib.compress(part, _LEVEL)) for part in parts)


def main() -> int:
    """A line for each workload, and whether the aim is met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workloads", nargs="*", default=["mlp", "tf2", "tf6"])
    print(machine())
    found = [kept(name) for name in parser.parse_args().workloads]
    print(*found, sep="\n")
    ratio = max(each.file_bytes / each.packed_bytes for each in found)
    met = ratio <= AIM_RATIO
    print(f"at most {ratio:.2f} times the texts and protos; the aim is {AIM_RATIO}: {'met' if met else 'missed'}")
    pages_met = all(each.page_bytes <= each.page_aim for each in found)
    times, besides = PAGE_AIM
    print(f"HTML of at most {times} times the packed texts and {besides:,} bytes: {'met' if pages_met else 'missed'}")
    slowest = max(each.open_s for each in found)
    opens_met = slowest <= OPEN_AIM_S
    print(f"opened in at most {slowest:.2f} s; the aim is {OPEN_AIM_S:.0f}: {'met' if opens_met else 'missed'}")
    return not (met and pages_met and opens_met)


if __name__ == "__main__":
    sys.exit(main())
