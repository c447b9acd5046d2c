"""The picture of the README, from the records of where/: results/tables.py writes it, and its `--check` compares it."""

import hashlib
import math
import pathlib

CELL, HEIGHT, LEFT, TOP, GAP = 44, 26, 124, 62, 14
SHORT = {"weight": "W", "activation": "A", "grad": "G"}


def digest(record):
    return hashlib.sha256(pathlib.Path(record).read_bytes()).hexdigest()


def colour(difference):
    """White up to 0.003 nats, dark red from 1 nat on, by the logarithm in between."""
    share = min(max(math.log10(max(difference, 1e-9) / 0.003) / math.log10(1 / 0.003), 0), 1)
    red, green, blue = (round(255 + share * (end - 255)) for end in (165, 15, 21))
    return f"#{red:02x}{green:02x}{blue:02x}", "#fff" if share > 0.6 else "#16191d"


def sensitivity(found, formats, roles, sites, record):
    """A panel per format, a row per layer type, a column per role: the difference from fp32, bold where it is significant."""
    panel = CELL * len(roles) + GAP
    width, height = LEFT + panel * len(formats), TOP + HEIGHT * len(sites) + 34
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" font-family="system-ui, sans-serif" font-size="12">',
        f"<desc>results/where/losses.csv, sha256 {digest(record)}</desc>",
        '<rect width="100%" height="100%" fill="#fff"/>',
    ]

    def label(x, y, words, anchor="middle", more=""):
        parts.append(f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="#16191d"{more}>{words}</text>')

    label(8, 18, "Increase of the held-out loss over fp32, nats per byte, when one tensor is rounded", "start", ' font-weight="600"')
    for row, name in enumerate(sites.values()):
        label(LEFT - 8, TOP + HEIGHT * row + 17, name, "end")
    for column, form in enumerate(formats):
        left = LEFT + panel * column
        label(left + CELL * len(roles) / 2, 40, form, more=' font-weight="600"')
        for at, role in enumerate(roles):
            x = left + CELL * at
            label(x + CELL / 2, TOP - 5, SHORT[role], more=' font-size="10"')
            for row, site in enumerate(sites):
                of, y = found[form, role, site], TOP + HEIGHT * row
                fill, ink = colour(of.mean)
                bold = ' font-weight="700"' if of.significant else ""
                parts.append(f'<rect x="{x}" y="{y}" width="{CELL - 1}" height="{HEIGHT - 1}" fill="{fill}" stroke="#d0d5da" stroke-width="0.5"/>')
                shown = f"{of.mean:+.3f}".replace("-", "−")
                parts.append(f'<text x="{x + CELL / 2}" y="{y + 17}" text-anchor="middle" font-size="10" fill="{ink}"{bold}>{shown}</text>')
    note = "W weights, A activations, G gradients of outputs. Mean of five paired seeds; bold: significant after Holm’s correction over all cells."
    label(8, height - 12, note, "start", ' font-size="11"')
    return "\n".join([*parts, "</svg>", ""])
