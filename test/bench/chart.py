# SPDX-License-Identifier: GPL-2.0-or-later
"""The boots of scenarios as an SVG: for each variant a bar to the median, and a line from least to most."""

import statistics
from xml.sax.saxutils import escape

KEYS = (("first_disk", "first disk"), ("last_disk", "last disk"), ("last_input", "last input"), ("settle", "settle"))
COLOURS = ("#888888", "#2a6fbb", "#d08020", "#4a9a4a", "#a050a0", "#b04040", "#309090", "#909030", "#604080", "#303030")
LEFT, WIDTH, BAR, GAP = 190, 640, 13, 9


def bars(boots, variants, seconds, y):
    """The bars of one scenario from y down, and where they end."""
    svg = []
    for key, name in KEYS:
        svg.append(f'<text x="{LEFT - 8}" y="{y + 10}" text-anchor="end">{name}</text>')
        for i, variant in enumerate(variants):
            times = [float(b[key]) for b in boots if b["variant"] == variant and key in b]
            if not times:
                continue
            low, middle, high = (t / seconds * WIDTH for t in (min(times), statistics.median(times), max(times)))
            svg.append(f'<rect x="{LEFT}" y="{y}" width="{middle:.1f}" height="{BAR - 2}"'
                       f' fill="{COLOURS[i % len(COLOURS)]}"/>'
                       f'<path d="M{LEFT + low:.1f} {y + 5.5} H{LEFT + high:.1f} M{LEFT + low:.1f} {y + 2} v7'
                       f' M{LEFT + high:.1f} {y + 2} v7" stroke="black"/>'
                       f'<text x="{LEFT + high + 6:.1f}" y="{y + 10}">{statistics.median(times):.2f} s'
                       f' {escape(variant)}</text>')
            y += BAR
        y += GAP
    return svg, y


def write(path, scenarios):
    svg, y = [], 10
    for scenario, boots in scenarios.items():
        times = [float(b[key]) for b in boots for key, _ in KEYS if key in b]
        if not times:
            continue
        y += 20
        svg.append(f'<text x="{LEFT}" y="{y}" font-weight="bold">{escape(scenario)}: seconds after udevd was ready,'
                   ' median and least to most</text>')
        more, y = bars(boots, list(dict.fromkeys(b["variant"] for b in boots)), max(times), y + 10)
        svg += more
    with open(path, "w", encoding="utf-8") as file:
        print(f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 200}" height="{y + 10}"'
              ' font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="white"/>',
              *svg, "</svg>", sep="\n", file=file)
