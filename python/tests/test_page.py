"""The examples of docs/python.md, in order, and the notebooks."""

import csv
import json
import os
import re
import shutil
import tempfile
import unittest
from pathlib import Path

from tests import package

ROOT = Path(__file__).resolve().parents[2]
NEEDS = {"torch": "torch", "frames": "pandas"}


def written_run(folder):
    """A run in the present form: that of the damaged-input tests has a column per metric of layers, as earlier versions wrote it."""
    shutil.copytree(ROOT / "tests/fuzz/corpus/run-folder/sound", folder)
    with open(folder / "layers.csv") as file:
        wide = list(csv.DictReader(file))
    rows = ["step,layer,metric,value"]
    for row in wide:
        step, layer = row.pop("step"), row.pop("layer")
        rows += [f"{step},{layer},{metric},{value}" for metric, value in row.items() if value]
    (folder / "layers.csv").write_text("\n".join(rows) + "\n")


class Page(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        written_run(Path(folder.name) / "runs/exp")
        os.chdir(folder.name)

    def test_examples_of_the_page(self):
        text = (ROOT / "docs/python.md").read_text()
        blocks = re.findall(r"^```python ?(\w*)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        self.assertGreater(len(blocks), 6)
        names = {"__name__": "page"}
        missing = []
        for needs, block in blocks:
            try:
                if needs:
                    package(NEEDS[needs])
            except unittest.SkipTest as skipped:
                missing.append(str(skipped))
                continue
            exec(compile(block, "docs/python.md", "exec"), names)
        if missing:
            self.skipTest("; ".join(missing))

    def test_notebooks(self):
        notebooks = sorted((ROOT / "python/notebooks").glob("*.ipynb"))
        self.assertEqual(len(notebooks), 3)
        for path in notebooks:
            with self.subTest(path.name):
                notebook = json.loads(path.read_text())
                for name in notebook["metadata"].get("needs", []):
                    package(name)
                names = {"__name__": "notebook"}
                for cell in notebook["cells"]:
                    if cell["cell_type"] == "code":
                        exec(compile("".join(cell["source"]), path.name, "exec"), names)
                if path.stem == "runs":
                    self.assertTrue({"grad_cos_sim", "quant/weight/sqnr_db"} <= set(names["layers"]["metric"]))
                    self.assertNotIn("value", set(names["layers"]["metric"]))


if __name__ == "__main__":
    unittest.main()
