"""docs/caching.md: its tables name what there is."""

from __future__ import annotations

import dataclasses
import re

import jax
import jax.numpy as jnp

import inspector
from inspector.api.cache_status import CacheStatus
from inspector.compilation.caches.jax_cache_key import CacheKey
from tests.conftest import ROOT

TEXT = (ROOT / "docs" / "caching.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    return TEXT.partition(f"## {title}")[2].partition("\n## ")[0]


def test_fields() -> None:
    rows = re.findall(r"^\| (`.*?) \|", section("Would it be a hit"), re.MULTILINE)
    documented = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    fields = {field.name for field in dataclasses.fields(CacheStatus)} - {"name"}
    assert documented == fields | {"autotune_sharing"}


def test_ingredients() -> None:
    key = inspector.cache_status(jnp.sin, jnp.ones(3)).key
    assert isinstance(key, CacheKey)
    assert re.findall(r"^\| `(.*?)` \|", section("What changed?"), re.MULTILINE) == [i.name for i in key.ingredients]


def test_settings_are_jax_s() -> None:
    gone = {"jax_share_autotune_config_between_hosts"}
    named = set(re.findall(r"`(jax_\w+)`", TEXT))
    assert {name for name in named if name not in jax.config.values} == gone
