# SPDX-License-Identifier: Apache-2.0
"""One more knob, or one more contention, is one more file: read, set and proved without a line changed elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from kernel import untouched

from experiments import contentions, knobs, proof
from experiments.errors import BadInputError
from experiments.families.control.cells import settable
from experiments.knobs import Service
from experiments.plan import of_scenario
from experiments.variables import Settings

OOM = '''
from experiments.knobs import Knob

class Oom(Knob):
    """How readily the kernel kills the service when memory runs out."""

    kind = "oom"
    field = "oom"

    def check(self):
        self.whole(-1000, 1000)

    def compose(self):
        return {"oom_score_adj": int(self.argument)}

    def expected(self):
        return int(self.argument)

    @classmethod
    def observed(cls, state):
        return state["oom"]

    @classmethod
    def untouched(cls, service):
        return 0
'''

FORKS = """
from experiments.contentions.stress import Stress

class Forks(Stress):
    kind = "forks"
    workers = 2
    words = ("--cpu", "2")
"""

Drop = Callable[[ModuleType, str, str], None]


@pytest.fixture
def drop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Drop]:
    """Drop a file into a package, as far as Python can tell; it is taken out again."""
    dropped: list[tuple[ModuleType, str]] = []

    def put(package: ModuleType, name: str, text: str) -> None:
        (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
        dropped.append((package, name))

    yield put
    for package, name in dropped:
        del package.REGISTRY._kinds[name]
        del sys.modules[f"{package.__name__}.{name}"]


def test_a_knob_is_one_file(drop: Drop) -> None:
    with pytest.raises(BadInputError):
        knobs.parse("broker=oom:500", settable())
    drop(knobs, "oom", OOM)
    (cell, *_) = of_scenario("1", Settings(priority="broker=nice:5+oom:500"), "0123abcd").cells
    asked = dict(cell.conditions.knobs)["broker"]
    assert cell.conditions.record()["broker"] == {"priority": "nice:5", "oom": "oom:500", "tcp": "nodelay"}
    with pytest.raises(BadInputError, match="from -1000 to 1000"):
        knobs.parse("broker=oom:2000", settable())
    state = untouched(oom=500)
    state["threads"][0]["nice"] = 5
    service = Service("broker", (0,))
    assert proof.problems(proof.of_service(service, state, asked)) == []
    (line,) = proof.problems(proof.of_service(service, state | {"oom": 0}, asked))
    assert line.startswith("broker: oom should be 500 (oom:500) but reads 0; ")
    assert len(proof.problems(proof.of_service(service, state, asked[:1] + asked[2:]))) == 1, "nobody asked for it now"


def test_a_contention_is_one_file(drop: Drop) -> None:
    drop(contentions, "forks", FORKS)
    (cell, *_) = of_scenario("1", Settings(contention="forks"), "0123abcd").cells
    assert "stressor" in cell.conditions.services()
    assert cell.record(0)["contention"] == "forks"
    assert cell.conditions.contention is not None
    assert cell.conditions.contention.arguments() == ["--cpu", "2"]
