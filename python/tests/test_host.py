"""Values, codes and casts have the bits of altgrad-host."""

import json
import tempfile
import unittest
from pathlib import Path

import altgrad
import numpy as np

from tests import ROUNDINGS, host, values


def names():
    """Every format, with every variant."""
    for name in altgrad.formats():
        yield name
        for variant in altgrad.Format(name).info["variants"]:
            yield f"{name}:{variant}"


class Host(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def quantized(self, name, x, rounding, scale, seed):
        x.tofile(self.folder / "in.f32")
        options = ["--rounding", rounding, "--scale", str(scale), "--seed", str(seed)]
        files = ["--input", "in.f32", "--output", "out.f32"]
        host("formats", "quantize", name, *options, *files, folder=self.folder)
        return np.fromfile(self.folder / "out.f32", dtype=np.float32)

    def test_values_and_codes_of_every_format_and_rounding(self):
        x = values()
        for name in names():
            form = altgrad.Format(name)
            for rounding, scale in zip(ROUNDINGS, (1.0, 0.7, 3.0, 1.5)):
                with self.subTest(name, rounding=rounding):
                    expected = self.quantized(name, x, rounding, scale, 7)
                    options = {"rounding": rounding, "scale": scale, "key": 7}
                    found = form.fake_quant(x, **options)
                    np.testing.assert_array_equal(found.view(np.uint32), expected.view(np.uint32))
                    codes = form.quantize(x, **options)
                    decoded = form.dequantize(codes, scale=scale)
                    np.testing.assert_array_equal(decoded, expected)

    def test_nan_and_tables(self):
        x = np.float32([np.nan, 1.0])
        for name in names():
            with self.subTest(name):
                expected = self.quantized(name, x, "nearest-even", 1.0, 0)
                form = altgrad.Format(name)
                np.testing.assert_array_equal(form.fake_quant(x), expected)
                table = json.loads(host("formats", "table", name, "--json"))
                bits = [code["f32_bits"] for code in table["codes"]]
                np.testing.assert_array_equal(form.table.view(np.uint32), bits)

    def test_casts(self):
        x = values(2000, special=False)[:4032].reshape(64, 63)
        x.tofile(self.folder / "in.f32")
        casts = [
            "E4M3",
            'format = "E5M2", block = [16, 16]',
            'format = "E4M3", block = 32, scaling = { type = "e8m0", rule = "rceil" }',
            'format = "E2M1", block = 16, scaling = { type = "e4m3", tensor = "f32" }',
            'format = "E4M3", block = "row", rounding = "stochastic"',
        ]
        for text in casts:
            for axis in ("rows", "columns"):
                with self.subTest(text, axis=axis):
                    files = ["--input", "in.f32", "--output", "out.f32", "--scales", "scales.f32"]
                    options = ["--cast", text, "--shape", "64,63", "--axis", axis, "--seed", 3]
                    host("casts", "apply", *options, *files, folder=self.folder)
                    applied = altgrad.Cast(text).apply(x, axis=axis, key=3)
                    expected = np.fromfile(self.folder / "out.f32", dtype=np.uint32)
                    np.testing.assert_array_equal(applied.values.view(np.uint32).reshape(-1), expected)
                    scales = np.fromfile(self.folder / "scales.f32", dtype=np.float32)
                    np.testing.assert_array_equal(applied.scales.reshape(-1), scales)

    def test_scales_of_every_format(self):
        """Scales of rows of all magnitudes, subnormal numbers and zeros included, and the values at these scales."""
        sizes = np.float64([1, 1e-10, 1e-30, 1e-38, 1e-42, 0, 1e30, 5e37])
        x = (np.random.default_rng(0).normal(size=(8, 64)) * sizes[:, None]).astype(np.float32)
        x.tofile(self.folder / "in.f32")
        for name in names():
            with self.subTest(name):
                files = ["--input", "in.f32", "--output", "out.f32", "--scales", "scales.f32"]
                options = ["--cast", f'format = "{name}", block = "row"', "--shape", "8,64", "--axis", "rows"]
                host("casts", "apply", *options, *files, folder=self.folder)
                form = altgrad.Format(name)
                inverses = np.float32(1) / form.scales(x, block="row")
                np.testing.assert_array_equal(inverses[:, 0], np.fromfile(self.folder / "scales.f32", np.float32))
                values = form.fake_quant(x, scale="max", block="row").view(np.uint32)
                np.testing.assert_array_equal(values.reshape(-1), np.fromfile(self.folder / "out.f32", np.uint32))


if __name__ == "__main__":
    unittest.main()
