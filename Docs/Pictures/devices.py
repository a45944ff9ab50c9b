#!/usr/bin/env python3
"""Draws the table of devices in Performance.md as devices.svg, beside this file: commits a second, and the memory of a device."""

import math
from pathlib import Path

here = Path(__file__).parent
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 360, 80, 80, 48, 48


def rows():
    lines = iter((here.parent / "Performance.md").read_text().splitlines())
    for line in lines:
        if line.startswith("| devices |"):
            break
    next(lines)
    for line in lines:
        if not line.startswith("|"):
            return
        devices, commits, _, bytes_each, _ = (int(field) for field in line.strip("| ").split("|"))
        yield devices, commits, bytes_each


def nice(top):
    step = 10 ** math.floor(math.log10(top))
    return next(step * factor for factor in (1, 2, 2.5, 5, 10) if step * factor >= top)


table = list(rows())
least, most = math.log10(table[0][0]), math.log10(table[-1][0])
tops = [nice(max(row[column] for row in table)) for column in (1, 2)]


def x(devices):
    return LEFT + (math.log10(devices) - least) / (most - least) * (WIDTH - LEFT - RIGHT)


def y(value, top):
    return HEIGHT - BOTTOM - value / top * (HEIGHT - TOP - BOTTOM)


def text(left, top, content, anchor="middle", color="#444"):
    return f'<text x="{left:.0f}" y="{top:.0f}" text-anchor="{anchor}" fill="{color}">{content}</text>'


parts = [
    f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
    f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
]
for part in range(5):
    height = y(part, 4)
    parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{height:.1f}" y2="{height:.1f}" stroke="#ddd"/>')
    parts.append(text(LEFT - 8, height + 4, f"{tops[0] * part / 4 / 1000:,g},000" if part else "0", "end", "#1f5fa8"))
    parts.append(text(WIDTH - RIGHT + 8, height + 4, f"{tops[1] * part / 4 / 1000:g} KB", "start", "#b4501e"))
for devices, _, _ in table:
    parts.append(text(x(devices), HEIGHT - BOTTOM + 18, f"{devices:,}"))
parts.append(text(WIDTH / 2, HEIGHT - 8, "devices in one tree, each with a follower and a producer of its own"))
parts.append(text(LEFT - 64, 24, "commits a second, each delivered", "start", "#1f5fa8"))
parts.append(text(WIDTH - RIGHT + 64, 24, "memory of a device, its stream and its task", "end", "#b4501e"))
for column, color in ((1, "#1f5fa8"), (2, "#b4501e")):
    points = [(x(row[0]), y(row[column], tops[column - 1])) for row in table]
    line = " ".join(f"{left:.1f},{top:.1f}" for left, top in points)
    parts.append(f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="2"/>')
    parts += [f'<circle cx="{left:.1f}" cy="{top:.1f}" r="3.5" fill="{color}"/>' for left, top in points]
parts.append("</svg>")
(here / "devices.svg").write_text("\n".join(parts) + "\n")
