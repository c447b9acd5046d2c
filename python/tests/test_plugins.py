"""Libraries of others: loaded, refused, and panicking."""

import copy
import pickle
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import altgrad
import numpy as np

from tests import library


class Plugins(unittest.TestCase):
    def test_a_format_of_another_library(self):
        names = altgrad.load(library("libaltgrad_example_posit8.so"))
        self.assertTrue(set(names) <= set(altgrad.formats()))
        form = altgrad.Format(names[0])
        x = np.float32([0.0, 1.0, -2.0])
        np.testing.assert_array_equal(form.fake_quant(x), x)
        np.testing.assert_array_equal(form.dequantize(form.quantize(x)), x)

    def test_a_panic_raises(self):
        program = """
import sys, numpy as np, altgrad
name = altgrad.load(sys.argv[1])[0]
form = altgrad.Format(name)
for call in (form.fake_quant, form.fake_quant):
    try:
        call(np.ones(3, np.float32))
    except altgrad.PluginError as error:
        print(error)
"""
        path = library("libaltgrad_fixture_panicker.so")
        command = [sys.executable, "-c", program, path]
        done = subprocess.run(command, env={"ALTGRAD_PANIC_IN": "format.fake_quant"}, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("asked to panic in format.fake_quant", done.stdout)
        self.assertIn("libaltgrad_fixture_panicker.so", done.stdout)

    def test_refused_libraries(self):
        with tempfile.TemporaryDirectory() as folder:
            damaged = Path(folder) / "damaged.so"
            damaged.write_bytes(b"\x7fELF" + bytes(100))
            for path in (damaged, Path(folder) / "missing.so", sys.executable):
                with self.subTest(path=path), self.assertRaises(altgrad.PluginError):
                    altgrad.load(path)

    def test_errors_of_plugins_have_their_message(self):
        with self.assertRaisesRegex(altgrad.PluginError, "NaN"):
            altgrad.Format("E2M1").quantize(np.float32([np.nan]))

    def test_a_pickled_format_keeps_its_library(self):
        form = altgrad.Format("E3M4:ieee")
        self.assertIs(copy.deepcopy(form), form)
        data = pickle.dumps(form)
        self.assertEqual(pickle.loads(data).info, form.info)
        sha256 = form.info["sha256"].encode()
        with self.assertRaisesRegex(ValueError, "another build"):
            pickle.loads(data.replace(sha256, sha256[::-1]))

    def test_a_library_is_not_taken_for_an_earlier_one(self):
        """A program closes descriptors that it did not open; the numbers are then those of other libraries."""
        program = """
import os, numpy as np, altgrad
found = []
for name in ("E4M3", "E5M2", "E2M1"):
    found.append(altgrad.Format(name))
    os.closerange(3, 100)
print([float(form.fake_quant(np.float32([1e9]))[0]) for form in found])
"""
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (0, "[448.0, 57344.0, 6.0]\n"), done.stderr)


if __name__ == "__main__":
    unittest.main()
