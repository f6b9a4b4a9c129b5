"""Collectives as HTML: every group is painted where its devices are, by letter as by color."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
from jax.sharding import AbstractMesh, AxisType
from jax.sharding import PartitionSpec as P

from inspector import lower
from inspector.hlo.devices.mesh import Mesh
from inspector.widgets.saving.fallback_collectives import _letters, _picture, collectives_html


def letters(table: str) -> dict[int, str]:
    return {int(number): letter for number, letter in re.findall(r"<td[^>]*>(\d+) <b>(\w+)</b>", table)}


def test_groups_are_painted_by_axes() -> None:
    def f(x: jax.Array) -> jax.Array:
        return jax.lax.psum(x, "i") + jax.lax.all_gather(x, "j").sum(0)

    text = collectives_html(lower(f, jnp.ones(4), axis_env=[("i", 4), ("j", 2)]).collectives())
    assert "2 collectives on the replica mesh (i=4, j=2)" in text
    pictures = text.split("<caption")[1:]
    assert len(pictures) == 2
    by_title = {re.match(r"[^>]*>([^:]*):", picture)[1]: letters(picture) for picture in pictures}  # type: ignore[index]
    assert by_title["all-reduce over i"] == {d: "AB"[d % 2] for d in range(8)}
    assert by_title["all-gather over j"] == {d: "ABCD"[d // 2] for d in range(8)}


def test_partitions_are_painted_too() -> None:
    mesh = AbstractMesh((2, 3), ("a", "b"), axis_types=(AxisType.Auto,) * 2)
    f = jax.shard_map(lambda x: jax.lax.psum(x, "b"), mesh=mesh, in_specs=P("a", "b"), out_specs=P("a"))
    text = collectives_html(lower(jax.jit(f), jnp.ones((4, 6))).collectives())
    assert letters(text.split("<caption")[1]) == {d: "AB"[d // 3] for d in range(6)}


def test_pairs_are_written_out() -> None:
    def f(x: jax.Array) -> jax.Array:
        return jax.lax.ppermute(x, "i", [(0, 1), (1, 2)])

    text = collectives_html(lower(f, jnp.ones(4), axis_env=[("i", 3)]).collectives())
    assert "0→1, 1→2" in text


def test_a_program_without_collectives_has_no_section() -> None:
    assert collectives_html(lower(jnp.sin, jnp.ones(4)).collectives()) == ""


def test_a_permuted_mesh_has_the_ids_where_they_are() -> None:
    mesh = Mesh(("<x>", "y"), (2, 2), "partition", (3, 1, 0, 2))
    picture = _picture("<b>", mesh, {3: 0, 1: 0, 0: 1, 2: 1})
    assert re.findall(r"<td[^>]*>(\d) <b>(\w)", picture) == [("3", "A"), ("1", "A"), ("0", "B"), ("2", "B")]
    assert "&lt;x&gt;=1" in picture
    assert "<x>" not in picture
    assert picture.startswith("<table><caption style='white-space:nowrap;text-align:left'>&lt;b&gt;:")


def test_letters_go_on_behind_z() -> None:
    assert [_letters(n) for n in (0, 25, 26, 27, 701, 702)] == ["A", "Z", "AA", "AB", "ZZ", "AAA"]
