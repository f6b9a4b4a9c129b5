"""Times that lessons ask for are those of the model of the panes."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from inspector.analysis.collectives.exchanges.links import link_seconds
from inspector.analysis.collectives.exchanges.torus import Torus
from inspector.analysis.collectives.pricing.price import Pricing
from inspector.analysis.collectives.pricing.target_links import links_of
from inspector.analysis.collectives.pricing.torus_loads import all_links
from inspector.analysis.collectives.pricing.torus_members import Members
from inspector.course.lessons import sharding, training
from tests.analysis.collectives.pricing.hand_cases import program
from tests.peaks import PEAKS


def test_the_gather_of_the_lesson_on_sharding() -> None:
    found = program("all-gather", 1024 * 512 * 4, "[1,4]<=[4]", 4, 4)
    links = dataclasses.replace(links_of(PEAKS["v5e"], None, 4), network=Torus((4,), (True,), 90e9), doubt="")
    assert sharding._microseconds() == pytest.approx(1e6 * Pricing((), links).price(found[0]).known_s)


def test_the_reduction_of_the_lesson_on_training_uses_one_direction_of_a_ring() -> None:
    members = Members(Torus((8,), (True,)), np.arange(8)[None])
    load = all_links(members, np.array([2 * 7 / 8]), most_links=1)
    seconds = link_seconds(0, load.busiest * (2 << 20), 50e9, 0.0)
    assert isinstance(seconds, float)
    assert training._microseconds() == pytest.approx(1e6 * seconds)
