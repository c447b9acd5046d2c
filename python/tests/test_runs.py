"""Run folders as frames, of the folders that the repository holds for damaged-input tests."""

import json
import os
import shutil
import tempfile
import unittest
from pathlib import Path

import altgrad
import numpy as np

from tests import host, package

SOUND = Path(__file__).resolve().parents[2] / "tests/fuzz/corpus/run-folder/sound"


class Runs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        shutil.copytree(SOUND, self.folder / "one")

    def test_frames(self):
        for frames in ("pandas", "polars"):
            package(frames)
            runs = altgrad.runs(self.folder, frames=frames)
            self.assertEqual(len(runs), 1)
            run = runs[0]
            self.assertIs(runs[run.name], run)
            lines = (self.folder / "one/metrics.csv").read_text().splitlines()
            self.assertEqual(list(run.metrics.columns), lines[0].split(","))
            self.assertEqual(len(run.metrics), len(lines) - 1)
            self.assertIn("layer", run.layers.columns)
            for frame in (run.timings, run.histograms, run.events, runs.table(), runs.metrics(), runs.compare()):
                self.assertIsNotNone(frame.columns)
            histograms = run.histograms
            if len(histograms):
                edges, counts = histograms["edges"][0], histograms["counts"][0]
                self.assertIn(len(edges) - len(counts), (0, 1))

    def test_edges_of_the_row_above_with_the_same_name(self):
        rows = ["0,a.w,g,0.0 1.0 2.0,1 2", "0,a.w,h,5.0 6.0,3", "0,b.w,g,,4 5", "1,a.w,g,0.0 2.0,6", "1,a.w,h,,7"]
        text = "\n".join(["step,layer,name,edges,counts", *rows]) + "\n"
        (self.folder / "one/histograms.csv").write_text(text)
        (self.folder / "one/layers.csv").write_text("step,layer,metric,value\n0,a.w,grad_snr,NaN\n0,b.w,grad_snr,2\n")
        for frames in ("pandas", "polars"):
            package(frames)
            run = altgrad.runs(self.folder, frames=frames)[0]
            edges = [list(cell) for cell in run.histograms["edges"]]
            self.assertEqual(edges, [[0, 1, 2], [5, 6], [0, 1, 2], [0, 2], [5, 6]])
            np.testing.assert_array_equal(np.asarray(run.layers["value"], float), [np.nan, 2])
            self.assertEqual(list(run.layers["metric"]), ["grad_snr"] * 2)

    def test_a_line_that_is_being_written_is_left_out(self):
        package("pandas")
        before = len(altgrad.runs(self.folder)[0].metrics)
        with open(self.folder / "one/metrics.csv", "a") as file:
            file.write("99999,1.")
        with open(self.folder / "one/events.jsonl", "a") as file:
            file.write('{"step": 1, "lev')
        run = altgrad.runs(self.folder)[0]
        self.assertEqual(len(run.metrics), before)
        self.assertIsNotNone(run.events)

    def test_damaged_rows_are_left_out(self):
        """Frames have the rows that the host reads."""
        rows = ["0,1.5,2", "garbage,1,2", "1,1,2,3", "2", "3,text,\xff", "2,1,1", "4,NaN,", "-5,1,1", "5.0,1,1", '6,"1",3']
        metrics = "\n".join(["step,a,b", *rows]) + "\n"
        (self.folder / "one/metrics.csv").write_bytes(metrics.encode("latin-1"))
        histograms = ["0,w,g,0.0 x,1 2", "1,w,g,,3", "2,w,g,0.0 1.0,4"]
        (self.folder / "one/histograms.csv").write_text("\n".join(["step,layer,name,edges,counts", *histograms]) + "\n")
        event = {"step": 1, "level": "info", "kind": "best", "text": "t"}
        events = [event, 5, None, {}, event | {"step": "x"}, event | {"value": "x"}, event | {"value": 2}]
        lines = [json.dumps(event).encode() for event in events] + [b"{", b"\xff", b"[" * 100_000]
        (self.folder / "one/events.jsonl").write_bytes(b"\n".join(lines) + b"\n")
        (self.folder / "one/timings.csv").write_text("time,step\n1,2\n")
        for frames in ("pandas", "polars"):
            package(frames)
            run = altgrad.runs(self.folder, frames=frames)[0]
            np.testing.assert_array_equal(np.asarray(run.metrics["step"], int), [0, 3, 4, 6])
            np.testing.assert_array_equal(np.asarray(run.metrics["a"], float), [1.5, np.nan, np.nan, 1])
            np.testing.assert_array_equal(np.asarray(run.metrics["b"], float), [2, np.nan, np.nan, 3])
            edges, counts = run.histograms["edges"], run.histograms["counts"]
            self.assertEqual([cell if cell is None else list(cell) for cell in edges], [None, None, [0, 1]])
            self.assertEqual([list(cell) for cell in counts], [[1, 2], [3], [4]])
            self.assertEqual(list(run.events["step"]), [1, 1])
            self.assertEqual(list(run.timings["step"]), [])
            self.assertTrue(any("damaged lines of `metrics.csv`" in note for note in run.notes), run.notes)

    def test_paths_do_not_depend_on_the_working_directory(self):
        package("pandas")
        self.addCleanup(os.chdir, os.getcwd())
        shutil.copy(self.folder / "one/metrics.csv", self.folder / "alone.csv")
        os.chdir(self.folder)
        runs, alone = altgrad.runs("one"), altgrad.runs("alone.csv")[0]
        rows = len(runs[0].metrics)
        os.chdir("/")
        self.assertEqual((len(runs[0].metrics), len(alone.metrics), len(runs.compare())), (rows, rows, 1))
        self.assertGreater(rows, 0)
        for frame in (alone.layers, alone.timings, alone.histograms, alone.events):
            self.assertEqual(len(frame), 0)

    def test_a_path_that_is_not_utf_8_is_left_out(self):
        os.rename(self.folder / "one", os.fsencode(self.folder) + b"/\xff")
        runs = altgrad.runs(self.folder)
        self.assertEqual(len(runs), 0)
        self.assertEqual([left["reason"] for left in runs.left_out], ["its path is not valid UTF-8"])

    def test_a_baseline_of_the_sweep_that_has_not_begun(self):
        package("pandas")
        request = {"compare": {"baseline": "bf16", "margin": 1.5}, "runs": []}
        (self.folder / "sweep.json").write_text(json.dumps(request))
        runs = altgrad.runs(self.folder)
        self.assertEqual((len(runs.compare()), runs.left_out), (1, []))
        self.assertIsNotNone(runs.differences())
        baseline, margin = runs.remarks()[-2:]
        self.assertRegex(baseline, "`bf16`, is no single configuration")
        self.assertRegex(margin, "1.5, does not lie between 0 and 1")
        for wrong in ({"baseline": "bf16"}, {"margin": 1.5}):
            with self.assertRaises(ValueError):
                runs.compare(**wrong)

    def test_what_is_no_run(self):
        with self.assertRaises(FileNotFoundError):
            altgrad.runs(self.folder / "none")
        with self.assertRaises(ValueError):
            altgrad.runs(self.folder, frames="lists")
        with self.assertRaises(KeyError):
            altgrad.runs(self.folder)["none"]
        with self.assertRaisesRegex(ValueError, "no run or configuration"):
            altgrad.runs(self.folder).compare(baseline="none")

    def test_frames_of_nothing_have_columns(self):
        for name in ("layers.csv", "timings.csv", "histograms.csv", "events.jsonl"):
            (self.folder / "one" / name).unlink()
        (self.folder / "empty").mkdir()
        for frames in ("pandas", "polars"):
            package(frames)
            run = altgrad.runs(self.folder, frames=frames)[0]
            self.assertEqual(list(run.layers["value"]), [])
            self.assertEqual(list(run.timings["step"]), [])
            self.assertEqual(list(run.histograms["edges"]), [])
            self.assertEqual(list(run.events["place"]), [])
            none = altgrad.runs(self.folder / "empty", frames=frames)
            for frame, name in (
                (none.table(), "loss"),
                (none.metrics(), "run"),
                (none.compare(), "difference_mean"),
                (none.differences(), "seed"),
            ):
                self.assertEqual(list(frame[name]), [])

    def test_runs_of_one_name(self):
        shutil.copytree(self.folder / "one", self.folder / "other/one")
        for frames in ("pandas", "polars"):
            package(frames)
            alone, both = (altgrad.runs(self.folder / part, frames=frames) for part in ("one", "."))
            self.assertNotIn("path", alone.metrics().columns)
            metrics = both.metrics()
            self.assertEqual(set(metrics["path"]), {str(run.path) for run in both})
            self.assertEqual(len(metrics), 2 * len(alone.metrics()))
            self.assertEqual((both[0:2], both[np.int64(1)]), (list(both), both[-1]))
            with self.assertRaisesRegex(KeyError, "2 runs are called"):
                both[both[0].name]
            with self.assertRaises(TypeError):
                both[0.5]

    def test_differences_are_those_of_compare(self):
        package("pandas")
        comparison = json.loads(host("compare", "--json", self.folder / "one"))["comparison"]
        expected, runs = comparison["rows"], altgrad.runs(self.folder / "one")
        self.assertEqual(runs.remarks(), comparison["ranking"] + comparison["notes"])
        found = runs.compare()
        self.assertEqual(list(found["label"]), [row["label"] for row in expected])
        losses = [(row["loss"] or {}).get("mean", np.nan) for row in expected]
        np.testing.assert_array_equal(found["loss_mean"].astype(float), losses)


if __name__ == "__main__":
    unittest.main()
