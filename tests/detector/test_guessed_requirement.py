"""A need that was only learned or assumed does not hold against a context that has room to spare."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lowwater.collectors.consumers import Provenance
from lowwater.detector.ledger import LedgerEntry, Reserved
from lowwater.detector.operators.starvation import _required

SIZES = st.integers(0, 40_000)


def entry(level: Provenance, required: int, residual: int, working: int, reserved: int = 2_000) -> LedgerEntry:
    return LedgerEntry(
        "t",
        "s",
        ceiling_tokens=16_000,
        reserved=Reserved(system=reserved),
        residual_tokens=residual,
        working_tokens=working,
        requirement_tokens=required,
        provenance={"requirement_tokens": level},
    )


def test_a_small_window_is_not_judged_by_the_need_of_a_large_one() -> None:
    # 4.0k used of the 11.6k that it may use, in a role where others, with larger windows, hold 15k
    assert _required(entry(Provenance.LEARNED, 15_544, 11_611, 3_963)) == 11_611
    assert _required(entry(Provenance.LEARNED, 19_024, 11_550, 4_756)) == 11_550
    assert _required(entry(Provenance.DECLARED, 15_544, 11_611, 3_963)) == 15_544


def test_a_squeezed_one_is() -> None:
    assert _required(entry(Provenance.LEARNED, 6_000, 2_500, 2_300)) == 6_000


@given(st.sampled_from(list(Provenance)), SIZES, st.integers(-5_000, 16_000), SIZES)
def test_it_never_asks_for_more(level: Provenance, required: int, residual: int, working: int) -> None:
    found = _required(entry(level, required, residual, working))
    assert found is not None
    assert found <= max(1, required)
    if level > Provenance.LEARNED:
        assert found == required
