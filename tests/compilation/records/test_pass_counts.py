"""Contents of a module, counted from its lines."""

from __future__ import annotations

from inspector.compilation.records.pass_counts import Counts, count_texts
from inspector.compilation.records.texts import Texts

BEFORE = """HloModule jit_f

%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %s = f32[] add(%a, %b)
}

ENTRY %main (x: f32[8]) -> f32[8] {
  %x = f32[8]{0} parameter(0)
  %mul = f32[8]{0} multiply(%x, %x)
  %add = f32[8]{0} add(%mul, %x)
  ROOT %r = f32[8]{0} all-reduce(%add), to_apply=%sum
}
"""
AFTER = """HloModule jit_f, is_scheduled=true

%fused (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  %mul = f32[8]{0} multiply(%p, %p)
  ROOT %add = f32[8]{0} add(%mul, %p)
}

ENTRY %main (x: f32[8]) -> f32[8] {
  %x = f32[8]{0} parameter(0)
  %fusion = f32[8]{0} fusion(%x), kind=kLoop, calls=%fused
  %start = f32[8]{0} all-reduce-start(%fusion)
  ROOT %done = f32[8]{0} all-reduce-done(%start)
}
"""


def counts(*modules: str) -> tuple[Counts, ...]:
    texts = Texts.of(modules)
    return count_texts(texts.distinct(), map(texts.order, range(len(texts))))


def test_each_module_is_counted_by_its_own_fusions() -> None:
    """A line may stand in a fusion of one module and outside of one in the other."""
    assert counts(BEFORE, AFTER) == (Counts(7, 0, 4 + 3 * 32, 1), Counts(7, 1, 2 * 32, 1))


def test_other_texts_than_modules_have_no_instructions() -> None:
    assert counts("", 'HloModule f\n\n1 "a = b.py"') == (Counts(0, 0, 0, 0),) * 2
