"""The reference incidents: target, reproduced before, predicted after. Writes docs/incidents.md; `--fit` fits again first."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from lowwater.detector.simulation.incidents import INCIDENTS
from lowwater.detector.simulation.incidents.common import FITTING_SEEDS, REPORTED_SEEDS, Incident, Summary, summarize

OUT = Path(__file__).parents[2] / "docs" / "incidents.md"
# incident, quantity, before: least and most, after: least and most; None where the design names no figure.
# A single figure is widened by 10 % before and by 20 % after; a range is taken as it stands.
Range = tuple[float, float] | None


def near(value: float, part: float) -> Range:
    """A figure with its tolerance."""
    return value * (1 - part), value * (1 + part)


ROWS: tuple[tuple[str, str, Range, Range], ...] = (
    ("starvation", "utilization_ratio", (0.58, 0.64), (0.58, 0.64)),
    ("starvation", "scratchpad_tokens", near(9_000, 0.1), None),
    ("starvation", "working_tokens", (2_000, 3_000), None),
    ("starvation", "retrieval_tokens", (4_800, 7_200), None),
    ("starvation", "completed_ratio", (0, 0), (1, 1)),
    ("starvation", "repeated_calls", (1, 1e9), (0, 0)),
    ("fanout", "peak_tokens_1", near(19_000, 0.1), None),
    ("fanout", "peak_tokens_4", near(96_000, 0.1), None),
    ("fanout", "peak_tokens_8", (168_000, 214_000), (0, 200_000)),
    ("fanout", "overrun_ratio_8", near(0.20, 0.1), (0, 0)),
    ("fanout", "over_tokens_8", (2_000, 6_000), None),
    ("fanout", "over_children_8", (3, 5), None),
    ("fanout", "green_ratio_8", (1, 1), (1, 1)),
    ("fanout", "naive_overrun_ratio", None, None),
    ("fanout", "refused_ratio_8", (0, 0), (1, 1)),
    ("compaction", "deferred_ratio", (1, 1), None),
    ("compaction", "stalled_ratio", (1, 1), (0, 0)),
    ("compaction", "turns", (40.01, 1e9), (200, 200)),
    ("compaction", "period_turns", None, near(7, 0.2)),
    ("compaction", "start_occupancy_ratio", None, near(0.70, 0.2)),
    ("compaction", "compaction_seconds", None, near(0.360, 0.2)),
    ("compaction", "occupancy_low_ratio", None, (0.55, 0.72)),
    ("compaction", "occupancy_high_ratio", None, (0.55, 0.72)),
    ("debt", "recovery_seconds", near(47, 0.1), near(6, 0.2)),
    ("debt", "debt_share_ratio", near(0.71, 0.1), None),
    ("debt", "wasted_retries", None, None),
)


def cell(found: Summary | None) -> str:
    """A mean with its interval."""
    return "-" if found is None else f"{found.mean:.4g} [{found.low:.4g}, {found.high:.4g}]"


def target(wanted: Range) -> str:
    """A range in words."""
    if wanted is None:
        return "-"
    low, high = wanted
    return f"{low:.4g}" if low == high else f">= {low:.4g}" if high >= 1e9 else f"{low:.4g} to {high:.4g}"


def within(found: Summary | None, wanted: Range) -> str:
    """Whether mean and interval lie within."""
    if found is None or wanted is None:
        return "-"
    low, high = wanted
    if not low <= found.mean <= high:
        return "**no**"
    return "yes" if low <= found.low and found.high <= high else "mean only"


def outcomes(incident: Incident, parameters: object, rule: bool, seeds: range = REPORTED_SEEDS) -> dict[str, Summary]:
    """All quantities over the seeds."""
    return summarize([incident.run(parameters, seed, rule) for seed in seeds])


def _scaled(value: float, by: float) -> float:
    """A changed parameter of the same type; a small count changes by one."""
    if isinstance(value, int):
        return max(round(value * by), value + 1) if by > 1 else min(round(value * by), value - 1) if by < 1 else value
    return value * by


def main() -> None:
    """Run everything and write the document."""
    if "--fit" in sys.argv:
        for incident in INCIDENTS.values():
            print(incident.name, "as committed" if incident.fit() == incident.parameters else incident.fit())
    lines = [
        "# Reference incidents",
        "",
        "Written by `make incidents`. Parameters are fitted to what was seen before the rules were applied, on seeds "
        f"{FITTING_SEEDS.start} to {FITTING_SEEDS.stop - 1};",
        f"the figures are of seeds 0 to {REPORTED_SEEDS.stop - 1}. The",
        "only difference between before and after is that the project's rule is asked. Cells are mean [5th, 95th percentile]",
        "over runs. `mean only`: the mean is within the target (a single figure: 10 % before, 20 % after), the interval not.",
        "",
        "| incident | quantity | target before | reproduced | within | target after | predicted | within |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    seen = {(i.name, rule): outcomes(i, i.parameters, rule) for i in INCIDENTS.values() for rule in (False, True)}
    for name, quantity, before, after in ROWS:
        old, new = seen[name, False].get(quantity), seen[name, True].get(quantity)
        lines.append(
            f"| {name} | `{quantity}` | {target(before)} | {cell(old)} | {within(old, before)} "
            f"| {target(after)} | {cell(new)} | {within(new, after)} |"
        )
    gone = 1 - seen["debt", True]["wasted_retries"].mean / seen["debt", False]["wasted_retries"].mean
    debt = INCIDENTS["debt"]
    other = replace(debt.parameters, visits_are_recorded=False)
    variant, variant_before = outcomes(debt, other, True), outcomes(debt, other, False)
    variant_gone = 1 - variant["wasted_retries"].mean / variant_before["wasted_retries"].mean
    steady = INCIDENTS["compaction"]
    late = outcomes(steady, replace(steady.parameters, turn_seconds=1.65, turn_deviation=0.0), True, range(60))
    lines += [
        "",
        f"Wasted backoff cycles gone: target 0.94, predicted {gone:.3f}.",
        "",
        "## What is out of tolerance, and what is no prediction",
        "",
        "- Debt storm: what the governor writes down decides. The table assumes that it records a visit to a context too",
        f"  roomy to trim. If it does not, recovery is {cell(variant['recovery_seconds'])} s and {variant_gone:.3f} of the",
        "  cycles are gone: nearer to the target, but it was tried after the first figure was seen and so is no prediction. A",
        "  first model, whose sweep left wholly compacted contexts alone until they were full, gave 29 s: their records say",
        "  roomy, the rule takes debt for quota, and they back off. The rule is as good as its record: it judges what the last",
        "  compaction left, not what the context holds now.",
        "- Debt storm: that agents in debt had used less than 30 % of their quota is not modelled. The numbers of heavy agents",
        "  and of slots per tick are assumed.",
        "- Compaction: what a compaction leaves (0.55) is the low end of the target after; that end is no prediction. The",
        "  period follows from it and from the growth, fitted to the stall. That turns are mostly shorter than their p95 is",
        "  assumed, and matters:",
        "- Compaction: `occupancy_high_ratio` is the 95th percentile of a run's turns, not its highest, which is above 0.72.",
        f"  Asked with p95 at every turn, the rule defers for its patience: every {late['period_turns'].mean:.2f} turns, at "
        f"{late['start_occupancy_ratio'].mean:.2f}.",
        "- Compaction: the run stalls when the scratchpad's reservation is full and nothing more can be written; the staging",
        "  buffer that cannot be had is not what ends it here.",
        "- Fan-out: fitted on 300 seeds, the share of overruns was 0.169 on the reported ones, out of tolerance: the fit",
        "  itself was noisy (standard error 0.023). So it uses all fitting seeds; the others use fewer.",
        "- Starvation: retrieval's walk between 12 and 18 chunks makes working memory of single runs leave 2k to 3k; the mean",
        "  does not. The requirement after is held in whole notes. The walk, and sampling the last three turns in both",
        "  columns, came after a first model that gave 0.54 utilisation after: that figure is informed by the target.",
        "- Fan-out: parent and synthesis reserve are taken as 0, contexts as held until all are collected. What 4 hold beyond",
        "  4 times one is modelled as a brief. A subagent spends half of a budget moved to it (assumed). Only the naive move",
        "  of budget is simulated, not the rule `redistribute`; 0 overruns after follow from the plan's arithmetic.",
        "- Debt storm: retries wait by the incident's own 2, 4, 8, 16 s, not by the jittered wait of `enforce_retry_policy`, and",
        "  its limit of attempts never ends a call here.",
        "",
        "## Sensitivity",
        "",
        "Each fitted parameter, and some assumed, by -10 % and +10 % (at least one): mean after, over 60 seeds.",
        "",
        "| incident | parameter | quantity | -10 % | fitted | +10 % |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for incident in INCIDENTS.values():
        wanted = [q for n, q, _, after in ROWS if n == incident.name and after]
        assumed = {"debt": ("heavy_agents", "sweep_slots"), "compaction": ("turn_seconds", "conversation_tokens")}
        for parameter in (*incident.fitted, *assumed.get(incident.name, ())):
            value = getattr(incident.parameters, parameter)
            moved = [
                outcomes(incident, replace(incident.parameters, **{parameter: _scaled(value, by)}), True, range(60))
                for by in (0.9, 1.0, 1.1)
            ]
            lines += [
                f"| {incident.name} | `{parameter}` | `{quantity}` | "
                + " | ".join(f"{m[quantity].mean:.4g}" if quantity in m else "-" for m in moved)
                + " |"
                for quantity in wanted
            ]
    OUT.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(OUT)


if __name__ == "__main__":
    main()
