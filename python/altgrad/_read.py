"""Files of a run folder as frames of pandas or polars: the rows that altgrad-host reads too (host/run-folder/src/rows.rs)."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from types import NoneType
from typing import Any

# Characters of the longest cell, as in the host: histograms of 16-bit codes exceed Python's default.
csv.field_size_limit(max(csv.field_size_limit(), 16 << 20))

# Keys of an event, and the types of their values.
_EVENT = {
    "step": (int,),
    "level": (str,),
    "kind": (str,),
    "text": (str,),
    "place": (str, NoneType),
    "value": (int, float, NoneType),
}


def _whole_lines(path: str) -> bytes:
    """The file up to its last line break: a run may be writing the next line. Empty without a file."""
    try:
        text = Path(path).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return b""
    return text[: text.rfind(b"\n") + 1]


def _step(cell: str) -> int | None:
    """A step, an integer of 64 bits; None of another cell."""
    cell = cell.strip()
    if not (cell.isascii() and cell.isdigit() and len(cell) <= 20):
        return None
    return int(cell) if int(cell) < 1 << 64 else None


def _by_step(rows: Iterator[list[str]]) -> Iterator[list[str]]:
    """The header, and the rows that the host reads too: those of the header's length whose step is an integer and does not fall.
    Nothing if the first column is not `step`."""
    header = next(rows, [])
    if header[:1] != ["step"]:
        return
    yield header
    last = 0
    for row in rows:
        step = _step(row[0]) if len(row) == len(header) else None
        if step is not None and step >= last:
            last = step
            row[0] = str(step)
            yield row


def csv_file(path: str, frames: str, names: tuple[str, ...], texts: tuple[str, ...] = ()) -> Any:
    """A CSV file as a frame, without damaged rows; without rows and with the columns `names` if no line is valid. Missing cells are
    null, and so are those that should be numbers and are none; NaN stays NaN in polars, which tells the two apart."""
    lines = io.StringIO(_whole_lines(path).decode(errors="replace"), newline="")
    valid = io.StringIO()
    csv.writer(valid, lineterminator="\n").writerows(_by_step(csv.reader(lines)))
    text = valid.getvalue() or ",".join(names)
    if frames == "pandas":
        import pandas

        frame = pandas.read_csv(io.StringIO(text), dtype=dict.fromkeys(texts, str), low_memory=False)
        for name in frame.columns.difference(texts):
            if not pandas.api.types.is_numeric_dtype(frame[name]):
                frame[name] = pandas.to_numeric(frame[name], errors="coerce")
        return frame
    import polars

    frame = polars.read_csv(io.BytesIO(text.encode()), infer_schema=False)
    types = {"step": polars.UInt64} | {name: polars.String for name in texts}
    numbers = [polars.col(name).cast(types.get(name, polars.Float64), strict=False) for name in frame.columns]
    return frame.with_columns(numbers)


def _edges(frame: Any, frames: str) -> Any:
    """Writes the edges of histograms into every row: a row without has those of the row above with its name."""
    if "edges" not in frame.columns:
        return frame
    if frames == "pandas":
        frame["edges"] = frame.groupby("name")["edges"].ffill()
        return frame
    import polars

    return frame.with_columns(polars.col("edges").forward_fill().over("name"))


def _numbers(cell: Any) -> list[float] | None:
    """Numbers between blanks; None of a missing cell, or if one is none."""
    try:
        return [float(number) for number in cell.split()] if isinstance(cell, str) else None
    except ValueError:
        return None


def _lists(frame: Any, frames: str) -> Any:
    """Edges and counts of histograms as lists."""
    for name in ("edges", "counts"):
        if name not in frame.columns:
            continue
        lists = [_numbers(cell) for cell in frame[name]]
        if frames == "pandas":
            frame[name] = lists
            continue
        import polars

        frame = frame.with_columns(polars.Series(name, lists, dtype=polars.List(polars.Float64)))
    return frame


def histograms(path: str, frames: str) -> Any:
    """Histograms, every row with its edges; edges and counts as lists."""
    texts = ("layer", "name", "edges", "counts")
    return _lists(_edges(csv_file(path, frames, ("step", *texts), texts), frames), frames)


def events(path: str, frames: str) -> Any:
    """The events among lines of JSON."""
    rows = []
    for line in _whole_lines(path).splitlines():
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict) and all(type(event.get(key)) in types for key, types in _EVENT.items()):
            rows.append(event)
    return frame_of(rows, tuple(_EVENT), frames)


def frame_of(rows: list[dict[str, Any]], names: tuple[str, ...], frames: str) -> Any:
    """Rows as a frame, which has the columns `names` even if no row has them."""
    columns = list(dict.fromkeys([*(name for row in rows for name in row), *names]))
    if frames == "pandas":
        import pandas

        return pandas.DataFrame(rows, columns=columns)
    import polars

    return polars.DataFrame(rows, schema=columns, infer_schema_length=None)


def concat(parts: list[Any], frames: str) -> Any:
    """Frames one below the other. Those without rows add nothing, unless all are."""
    parts = [part for part in parts if len(part)] or parts
    if frames == "pandas":
        import pandas

        return pandas.concat(parts, ignore_index=True)
    import polars

    return polars.concat(parts, how="diagonal_relaxed")
