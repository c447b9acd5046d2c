"""Run folders as data frames, finished or not."""

from __future__ import annotations

import io
import json
import operator
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Iterator

from . import _core


def _whole_lines(path: str) -> bytes:
    """The file up to its last line break: a run may be writing the next line. Empty without a file."""
    try:
        text = Path(path).read_bytes()
    except FileNotFoundError:
        return b""
    return text[: text.rfind(b"\n") + 1]


def _csv(path: str, frames: str, names: tuple[str, ...], texts: tuple[str, ...] = ()) -> Any:
    """A CSV file as a frame, without rows and with the columns `names` if the file has no line. Missing cells are null; NaN stays
    NaN in polars, which tells the two apart."""
    text = _whole_lines(path) or ",".join(names).encode()
    if frames == "pandas":
        import pandas

        return pandas.read_csv(io.BytesIO(text))
    import polars

    frame = polars.read_csv(io.BytesIO(text), infer_schema=False)
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


def _lists(frame: Any, frames: str) -> Any:
    """Edges and counts of histograms, numbers between blanks, as lists."""
    if frames == "pandas":
        for name in {"edges", "counts"} & set(frame.columns):
            frame[name] = [[float(cell) for cell in str(cells).split()] for cells in frame[name]]
        return frame
    import polars

    names = [name for name in ("edges", "counts") if name in frame.columns]
    split = [polars.col(name).str.split(" ").cast(polars.List(polars.Float64)) for name in names]
    return frame.with_columns(split)


def _rows(rows: list[dict[str, Any]], names: tuple[str, ...], frames: str) -> Any:
    """Rows as a frame, which has the columns `names` even if no row has them."""
    columns = list(dict.fromkeys([*(name for row in rows for name in row), *names]))
    if frames == "pandas":
        import pandas

        return pandas.DataFrame(rows, columns=columns)
    import polars

    return polars.DataFrame(rows, schema=columns, infer_schema_length=None)


def _concat(parts: list[Any], frames: str) -> Any:
    """Frames one below the other. Those without rows add nothing, unless all are."""
    parts = [part for part in parts if len(part)] or parts
    if frames == "pandas":
        import pandas

        return pandas.concat(parts, ignore_index=True)
    import polars

    return polars.concat(parts, how="diagonal_relaxed")


@dataclass(frozen=True)
class Run:
    """One run. Frames are read from its files when they are asked for, up to the last whole row."""

    name: str
    path: Path
    state: str
    """completed, running, interrupted, failed, ..."""
    steps: int | None
    seed: str | None
    format: str
    loss: float | None
    """The last held-out loss, nats per token; None of a failed run."""
    notes: list[str] = field(repr=False)
    _files: dict[str, str] = field(repr=False)
    _frames: str = field(repr=False)

    @property
    def metrics(self) -> Any:
        """A row per step: `step`, then a column per metric."""
        return _csv(self._files["metrics"], self._frames, ("step",))

    @property
    def layers(self) -> Any:
        """A row per value: `step`, `layer`, `metric`, `value`. Runs of earlier versions: `step`, `layer`, then a column per
        metric."""
        return _csv(self._files["layers"], self._frames, ("step", "layer", "metric", "value"), ("layer", "metric"))

    @property
    def timings(self) -> Any:
        """A row per step: `step`, then times and rates."""
        return _csv(self._files["timings"], self._frames, ("step",))

    @property
    def histograms(self) -> Any:
        """A row per distribution and step: `step`, `layer`, `name`, `edges`, `counts`, the last two as lists of numbers. In runs
        of earlier versions `name` ends in the layer."""
        texts = ("layer", "name", "edges", "counts")
        frame = _csv(self._files["histograms"], self._frames, ("step", *texts), texts)
        return _lists(_edges(frame, self._frames), self._frames)

    @property
    def events(self) -> Any:
        """A row per event: `step`, `level`, `kind`, `text`, and `place` and `value` where there is one."""
        rows = []
        for line in _whole_lines(self._files["events"]).splitlines():
            try:
                rows.append(json.loads(line))
            except ValueError:
                continue
        return _rows(rows, ("step", "level", "kind", "text", "place", "value"), self._frames)


class Runs:
    """Runs in the order of their names: `runs[0]`, `runs[1:3]` (a list), `runs["name"]`, iteration."""

    def __init__(self, paths: list[str], frames: str) -> None:
        found = json.loads(_core.find_runs(paths))
        self._paths, self._frames = paths, frames
        self.left_out: list[dict[str, str]] = found["left_out"]
        """Paths that are no readable runs, with the reason."""
        self._runs = []
        for run in found["runs"]:
            files = run.pop("files")
            path = Path(run.pop("path"))
            self._runs.append(Run(path=path, _files=files, _frames=frames, **run))

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    def __getitem__(self, which: Any) -> Any:
        if isinstance(which, slice):
            return self._runs[which]
        if not isinstance(which, str):
            return self._runs[operator.index(which)]
        found = [run for run in self if run.name == which]
        if not found:
            raise KeyError(f"no run is called {which!r}; there are: {', '.join(run.name for run in self)}")
        if len(found) > 1:
            raise KeyError(f"{len(found)} runs are called {which!r}: {', '.join(str(run.path) for run in found)}")
        return found[0]

    def __repr__(self) -> str:
        return f"<altgrad.Runs: {', '.join(run.name for run in self)}>"

    def table(self) -> Any:
        """A row per run: name, state, steps, seed, format, loss, path."""
        names = ("name", "state", "steps", "seed", "format", "loss", "path")
        rows = [{name: getattr(run, name) for name in names} | {"path": str(run.path)} for run in self]
        return _rows(rows, names, self._frames)

    def metrics(self) -> Any:
        """The metrics of all runs, one below the other, with the name of the run in the column `run`. If two runs have one name,
        the column `path` has their folders."""
        has_paths = len({run.name for run in self}) < len(self)
        parts = [_rows([], ("step", "run"), self._frames)]
        for run in self:
            about = {"run": run.name} | ({"path": str(run.path)} if has_paths else {})
            if self._frames == "pandas":
                parts.append(run.metrics.assign(**about))
                continue
            import polars

            parts.append(run.metrics.with_columns(polars.lit(text).alias(name) for name, text in about.items()))
        return _concat(parts, self._frames)

    def compare(
        self, *, baseline: str | None = None, margin: float | None = None, all_pairs: bool = False
    ) -> Any:
        """The comparison of `altgrad-host compare`: a row per configuration with its losses and the differences from its
        baseline, paired by seed (`difference_mean`, `difference_half_width` of the 95 % interval, `p_holm`).
        The folders are read again.

        Raises ValueError for an unknown baseline or an impossible margin.
        """
        compared = json.loads(_core.compare_runs(self._paths, baseline, margin, all_pairs))
        return _rows([_flat(row) for row in compared["rows"]], _COMPARED, self._frames)

    def differences(self, *, baseline: str | None = None) -> Any:
        """The differences that `compare` summarizes, a row per configuration and seed: `label`, `baseline`, `seed`, `step`, `loss`,
        `baseline_loss` and `difference`, both losses being held-out losses at `step`. The folders are read again.

        Raises ValueError for an unknown baseline.
        """
        compared = json.loads(_core.compare_runs(self._paths, baseline, None, False))
        rows = []
        for row in compared["rows"]:
            for pair in row["pairs"]:
                difference = pair["loss"] - pair["baseline_loss"]
                rows.append({"label": row["label"], "baseline": row["baseline"], **pair, "difference": difference})
        names = ("label", "baseline", "seed", "step", "loss", "baseline_loss", "difference")
        return _rows([{name: row[name] for name in names} for row in rows], names, self._frames)


# Columns of a comparison, some of which may have no value.
_COMPARED = ("label", "loss_mean", "baseline", "difference_mean", "difference_half_width", "p_holm", "verdict")


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """A row of the comparison without nested values."""
    flat: dict[str, Any] = {}
    for name, value in row.items():
        if name in ("loss", "difference"):
            sample = value or {}
            flat |= {f"{name}_{part}": sample.get(part) for part in ("n", "mean", "sd", "half_width")}
        elif name == "seeds":
            flat["seeds"], flat["seeds_started"] = value
        elif name in ("steps", "compared_at", "ratio_interval"):
            flat[f"{name}_first"], flat[f"{name}_last"] = value or [None, None]
        elif name != "pairs":
            flat[name] = value
    return flat


def runs(path: str | os.PathLike[str] | list[Any], *, frames: str = "pandas") -> Runs:
    """The runs of a folder, of a sweep, or of a list of those. `frames` is "pandas" or "polars".

    Runs that are still training are read up to their last whole row. What is no run is listed in `left_out`.

    Raises FileNotFoundError if a path does not exist, and ValueError for another kind of frames.
    """
    if frames not in ("pandas", "polars"):
        raise ValueError(f"frames must be 'pandas' or 'polars', found {frames!r}")
    paths = [os.fspath(one) for one in (path if isinstance(path, (list, tuple)) else [path])]
    for one in paths:
        if not os.path.exists(one):
            raise FileNotFoundError(one)
    return Runs(paths, frames)
