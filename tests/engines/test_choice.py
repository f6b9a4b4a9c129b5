"""The engine that a user means."""

from __future__ import annotations

from typing import Any, cast

import pytest

from inspector.compilation.options.options import Options
from inspector.compilation.program import Program
from inspector.compilation.target import Target
from inspector.engines import choice
from inspector.engines.choice import chosen_engine, engine_for
from inspector.engines.inline import InlineEngine
from inspector.errors import ParameterError


@pytest.fixture(autouse=True)
def engines(monkeypatch: pytest.MonkeyPatch) -> None:
    """By what they are called."""
    for name in ("worker_engine", "inline_engine"):
        monkeypatch.setattr(choice, name, lambda name=name: name)
    monkeypatch.setattr(choice, "default_engine", lambda *asked: ("default", *asked))


def test_engines_by_name_or_object() -> None:
    given = InlineEngine()
    assert chosen_engine(None) is None
    assert cast(Any, chosen_engine("worker")) == "worker_engine"
    assert cast(Any, chosen_engine("inline")) == "inline_engine"
    assert chosen_engine(given) is given


def test_without_one_it_is_the_one_that_suits() -> None:
    program, target = Program("f", b"", (), (), Options(), None, "cpu"), Target.parse("cpu")
    assert cast(Any, engine_for(None, program, target)) == ("default", program, target)
    assert cast(Any, engine_for("inline", program, target)) == "inline_engine"


def test_a_dask_client_is_known_by_where_it_comes_from(monkeypatch: pytest.MonkeyPatch) -> None:
    from inspector.engines import dask

    client = type("Client", (), {"__module__": "distributed.client"})()
    monkeypatch.setattr(dask, "DaskEngine", lambda client: ("dask", client))
    assert cast(Any, chosen_engine("dask")) == ("dask", None)
    assert cast(Any, chosen_engine(client)) == ("dask", client)


@pytest.mark.parametrize("given", ["workers", 3, InlineEngine, object(), True])
def test_an_unknown_engine_is_refused(given: object) -> None:
    with pytest.raises(
        ParameterError, match="engine must be 'worker', 'inline', 'dask', a Dask client, an engine or None"
    ):
        chosen_engine(given)
