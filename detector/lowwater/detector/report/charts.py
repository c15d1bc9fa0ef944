"""Charts as SVG, without script: who holds the tokens over turns, the room for working memory, and pools."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from lowwater.detector.operators.fanout import PoolReport
from lowwater.detector.report.series import Point
from lowwater.detector.wording import tokens

__all__ = ["held_chart", "pool_chart", "room_chart"]

_WIDTH, _LEFT, _RIGHT = 760, 54, 8
_LEAST_COLUMNS = 24
"""Few calls are drawn as narrow columns from the left, not as walls."""
_FAR = 8
_PARTS = ("system", "tools", "retrieval", "scratchpad", "working")


def _scale(value: float, top: float, height: float) -> float:
    return round(height - height * max(0.0, min(value, top)) / top, 1)


def _step(count: int) -> float:
    return (_WIDTH - _LEFT - _RIGHT) / max(_LEAST_COLUMNS, count)


def _axis(top: float, height: float, margin: float) -> str:
    lines = []
    for part in (0.0, 0.5, 1.0):
        y = round(margin + height * (1 - part), 1)
        lines.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y}" y2="{y}"/>')
        lines.append(f'<text class="tick" x="{_LEFT - 6}" y="{y + 4}" text-anchor="end">{tokens(top * part)}</text>')
    return "".join(lines)


def _turns(points: Sequence[Point], y: float) -> str:
    step = _step(len(points))
    marks = sorted({0, len(points) // 2, len(points) - 1})
    return "".join(
        f'<text class="tick" x="{_LEFT + step * (index + 0.5):.1f}" y="{y}" text-anchor="middle">{points[index].turn}</text>'
        for index in marks
    )


def held_chart(points: Sequence[Point], title: str) -> str:
    """Stacked columns of what each consumer holds at each call, below the ceiling and what is reserved of it."""
    height, margin = 170.0, 14.0
    ceiling = max((p.ceiling for p in points if p.ceiling is not None), default=0)
    held = max(((p.input_tokens or 0) + p.outside for p in points), default=0)
    # A prompt that is small in its window would be a flat line: then the ceiling is named, not drawn.
    far = ceiling > _FAR * held > 0
    top = float((1.2 * held if far else max(ceiling, held)) or 1)
    step = _step(len(points))
    body = [_axis(top, height, margin)]
    if far:
        body.append(
            f'<text class="tick" x="{_WIDTH - _RIGHT}" y="{margin + 12}" text-anchor="end">'
            f"ceiling {tokens(ceiling)}, far above</text>"
        )
    for index, point in enumerate(points):
        x, width = _LEFT + step * index, max(0.6, step * 0.84)
        if point.regime == "silent_starvation":
            body.append(f'<rect class="bad" x="{x:.1f}" y="{margin}" width="{step:.1f}" height="{height}"/>')
        level = 0
        parts = [(name, getattr(point, name)) for name in _PARTS]
        if all(value is None for _, value in parts) and point.input_tokens is not None:
            parts = [("unknown", point.input_tokens)]
        for name, value in parts:
            if value:
                y = margin + _scale(level + value, top, height)
                size = margin + _scale(level, top, height) - y
                body.append(f'<rect class="{name}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{size:.1f}"/>')
                level += value
        if point.failed:
            mark = f'x="{x + width / 2:.1f}" y="{margin + height - 4}" text-anchor="middle"'
            body.append(f'<text class="failed" {mark}>×</text>')
        if point.ceiling is not None and point.outside and not far:
            y = margin + _scale(point.ceiling, top, height)
            size = height * point.outside / top
            body.append(f'<rect class="reserved" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{size:.1f}"/>')
        if point.compacted:
            body.append(f'<path class="compaction" d="M{x + width / 2 - 4:.1f} 2h8l-4 8z"/>')
    if far:
        return _svg(title, "".join(body) + _turns(points, margin + height + 14), margin + height + 18)
    body.append(_line([(p.ceiling, "ceiling") for p in points], top, height, margin, step, "ceiling"))
    marks = [
        (p.trigger_ratio * p.ceiling if p.trigger_ratio is not None and p.ceiling is not None else None, "trigger")
        for p in points
    ]
    body.append(_line(marks, top, height, margin, step, "trigger"))
    body.append(_turns(points, margin + height + 14))
    return _svg(title, "".join(body), margin + height + 18)


def room_chart(points: Sequence[Point], title: str) -> str:
    """The most that working memory may be, against what the task needs; what is missing is filled."""
    height, margin = 96.0, 8.0
    known = [value for p in points for value in (p.residual, p.requirement) if value is not None]
    top = float(max(known, default=0) or 1)
    need = max((p.requirement for p in points if p.requirement is not None), default=None)
    if need is not None:
        top = min(top, 3.0 * need) or 1.0
    step = _step(len(points))
    body = [_axis(top, height, margin)]
    for index, point in enumerate(points):
        if point.residual is None:
            continue
        x, width = _LEFT + step * index, max(0.6, step * 0.84)
        y = margin + _scale(point.residual, top, height)
        short = point.requirement is not None and point.residual < point.requirement
        kind = "short" if short else "room"
        body.append(
            f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{margin + height - y:.1f}"/>'
        )
        if short and point.requirement is not None:
            up = margin + _scale(point.requirement, top, height)
            body.append(
                f'<rect class="missing" x="{x:.1f}" y="{up:.1f}" width="{width:.1f}" height="{max(0.0, y - up):.1f}"/>'
            )
    body.append(_line([(p.requirement, "") for p in points], top, height, margin, step, "need"))
    body.append(_turns(points, margin + height + 14))
    return _svg(title, "".join(body), margin + height + 18)


def _line(
    values: Sequence[tuple[float | None, str]], top: float, height: float, margin: float, step: float, kind: str
) -> str:
    """A stepped line with gaps where a value is unknown."""
    path, open_ = [], False
    for index, (value, _) in enumerate(values):
        if value is None:
            open_ = False
            continue
        x, y = _LEFT + step * index, margin + _scale(value, top, height)
        path.append(f"{'L' if open_ else 'M'}{x:.1f} {y:.1f}H{x + step:.1f}")
        open_ = True
    return f'<path class="{kind}" d="{"".join(path)}"/>' if path else ""


def pool_chart(pool: PoolReport, reserved_tokens: int, title: str) -> str:
    """What the members held at the peak of their sum, side by side, and what is reserved, against the pool's ceiling."""
    height, margin = 34.0, 4.0
    total = max(sum(pool.peak_input_tokens), pool.peak_tokens) + reserved_tokens
    top = float(max(pool.ceiling_tokens or 0, total) * 1.04 or 1)
    wide = _WIDTH - _LEFT - _RIGHT
    body, x = [], float(_LEFT)
    for index, value in enumerate(pool.peak_input_tokens):
        width = wide * value / top
        body.append(
            f'<rect class="member{index % 2}" x="{x:.1f}" y="{margin}" width="{max(0.6, width - 1):.1f}" height="{height}"/>'
        )
        x += width
    if reserved_tokens:
        width = wide * reserved_tokens / top
        body.append(f'<rect class="reserved" x="{x:.1f}" y="{margin}" width="{width:.1f}" height="{height}"/>')
    if pool.ceiling_tokens is not None:
        mark = _LEFT + wide * pool.ceiling_tokens / top
        body.append(f'<line class="ceiling" x1="{mark:.1f}" x2="{mark:.1f}" y1="0" y2="{height + 8}"/>')
        body.append(
            f'<text class="tick" x="{min(mark, _WIDTH - 40):.1f}" y="{height + 22}" text-anchor="middle">'
            f"ceiling {tokens(pool.ceiling_tokens)}</text>"
        )
    return _svg(title, "".join(body), height + 26)


def _svg(title: str, body: str, height: float) -> str:
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height:.0f}" role="img" aria-label="{escape(title)}" preserveAspectRatio="none">'
        f"{body}</svg>"
    )
