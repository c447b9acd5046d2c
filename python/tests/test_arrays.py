"""Arrays of other shapes, layouts, types and libraries: correct, or a clear exception."""

import unittest

import altgrad
import numpy as np

from tests import package, values

E4M3 = altgrad.Format("E4M3")


class Arrays(unittest.TestCase):
    def check(self, x):
        """The results for `x` are those for a plain copy."""
        plain = np.array(x, dtype=np.float32, order="C")
        before = plain.copy()
        found = E4M3.fake_quant(x)
        np.testing.assert_array_equal(found, E4M3.fake_quant(plain.reshape(-1)).reshape(plain.shape))
        self.assertEqual(found.shape, plain.shape)
        np.testing.assert_array_equal(np.asarray(x, dtype=np.float32), before)
        np.testing.assert_array_equal(E4M3.dequantize(E4M3.quantize(x)), found)

    def test_layouts(self):
        x = values(4000)[:4000].reshape(10, 20, 20)
        read_only = x.copy()
        read_only.flags.writeable = False
        unaligned = np.frombuffer(b"x" + x.tobytes(), dtype=np.uint8)[1:].view(np.float32)
        views = [x, x[::2, ::-1], x.T, np.asfortranarray(x), x[:, 3, :], read_only, x.astype(">f4"), unaligned]
        for view in views + [x[:0], np.zeros((3, 0, 2), np.float32), np.float32(1.7), np.array(1.7, np.float32)]:
            with self.subTest(shape=np.shape(view)):
                self.check(view)

    def test_buffers_and_other_types(self):
        x = values(1000)
        expected = E4M3.fake_quant(x)
        np.testing.assert_array_equal(E4M3.fake_quant(memoryview(x)), expected)
        import array

        np.testing.assert_array_equal(E4M3.fake_quant(array.array("f", x.tolist())), expected)
        self.check(np.linspace(-3, 3, 100).astype(np.float16))
        for wrong in (x.astype(np.float64), np.arange(4), [1.0, 2.0], "text", None, x.astype(np.complex64), b"1234"):
            with self.assertRaises(TypeError, msg=repr(type(wrong))):
                E4M3.fake_quant(wrong)
        for wrong in (x, np.arange(4), [1], np.arange(4, dtype=np.uint16)):
            with self.assertRaises(TypeError):
                E4M3.dequantize(wrong)

    def test_dlpack(self):
        class OnlyDlpack:
            def __init__(self, array):
                self.array = array

            def __dlpack__(self, **arguments):
                return self.array.__dlpack__(**arguments)

            def __dlpack_device__(self):
                return self.array.__dlpack_device__()

        x = values(1000)
        np.testing.assert_array_equal(E4M3.fake_quant(OnlyDlpack(x)), E4M3.fake_quant(x))

    def test_bfloat16_through_dlpack(self):
        """NumPy does not read it, and a library may offer nothing else."""
        torch = package("torch")

        class OnlyDlpack:
            def __init__(self, tensor):
                self.tensor = tensor

            def __dlpack__(self, **arguments):
                return self.tensor.__dlpack__(**arguments)

            def __dlpack_device__(self):
                return self.tensor.__dlpack_device__()

        x = torch.from_numpy(values(1000)[:960]).bfloat16().reshape(4, 12, 20)
        for tensor in (x, x[1:, ::2, 3:], x.transpose(0, 2), x[:0], x[0, 0, 0]):
            expected = E4M3.fake_quant(tensor.float().contiguous().numpy())
            np.testing.assert_array_equal(E4M3.fake_quant(OnlyDlpack(tensor)), expected)
        with self.assertRaisesRegex(TypeError, "read on the CPU|int8"):
            E4M3.fake_quant(OnlyDlpack(torch.zeros(2, dtype=torch.int8)))

    def test_jax(self):
        jax = package("jax.numpy")
        x = values(1000)
        np.testing.assert_array_equal(E4M3.fake_quant(jax.asarray(x)), E4M3.fake_quant(x))

    def test_small_floats_of_ml_dtypes(self):
        """Scales may have each type that data may have; the bytes of float8 are codes."""
        ml_dtypes = package("ml_dtypes")
        x, scales = values(1000), np.float32([2.0, 0.5]).astype(ml_dtypes.bfloat16)
        x = x[:1000].reshape(2, 500)
        found = E4M3.fake_quant(x, scale=scales.reshape(2, 1), block="row")
        np.testing.assert_array_equal(found, E4M3.fake_quant(x, scale=np.float32([[2.0], [0.5]]), block="row"))
        every = np.arange(256, dtype=np.uint8)
        for name, other in (("E4M3", ml_dtypes.float8_e4m3fn), ("E5M2", ml_dtypes.float8_e5m2)):
            form = altgrad.Format(name)
            np.testing.assert_array_equal(form.dequantize(every.view(other)), form.table)
            with self.assertRaises(TypeError):
                altgrad.Format("E3M4").dequantize(every.view(other))
            with self.assertRaisesRegex(TypeError, rf'hint: .*Format\("{name}"\).dequantize'):
                E4M3.fake_quant(every.view(other))

    def test_wrong_arguments(self):
        x = np.ones((4, 6), np.float32)
        wrong = [
            {"rounding": "up"},
            {"scale": 0.0},
            {"scale": -1.0},
            {"scale": np.inf},
            {"scale": 1e-45},
            {"scale": np.ones(5)},
            {"scale": "amax"},
            {"scale": np.ones(6), "block": 4},
            {"block": 0},
            {"block": "column"},
            {"block": 2, "axis": 2},
            {"block": (2, 2, 2)},
            {"key": -1},
            {"key": (1, 1 << 32, 0)},
        ]
        for arguments in wrong:
            with self.subTest(**arguments), self.assertRaises(ValueError):
                E4M3.fake_quant(x, **arguments)
        other_types = [
            {"block": 2, "axis": None},
            {"block": 2, "axis": 1.0},
            {"block": (2.5, 2)},
            {"block": ("2", 2)},
            {"key": 1.5},
            {"key": "123"},
            {"key": (1, 2.0, 3)},
        ]
        for arguments in other_types:
            with self.subTest(**arguments), self.assertRaisesRegex(TypeError, "must be an integer"):
                E4M3.fake_quant(x, **arguments)
        with self.assertRaisesRegex(TypeError, "must be a string, found 3"):
            altgrad.Format(3)
        with self.assertRaises(TypeError):
            E4M3.fake_quant(x, scale=None)
        with self.assertRaisesRegex(ValueError, "did you mean `E3M4`"):
            altgrad.Format("E4M4")
        with self.assertRaisesRegex(ValueError, "variant"):
            altgrad.Format("E4M3", variant="none")
        with self.assertRaisesRegex(ValueError, "beyond the last"):
            altgrad.Format("E2M1").dequantize(np.uint8([16]))

    def test_blocks_are_those_of_each_slice(self):
        """Each block alone, rounded with its own scale."""
        x = np.random.default_rng(1).normal(size=(3, 5, 7)).astype(np.float32)
        for axis in range(3):
            for extent in (1, 2, 3, 7, "row"):
                blocks = E4M3.fake_quant(x, scale="max", axis=axis, block=extent)
                moved, found = np.moveaxis(x, axis, -1), np.moveaxis(blocks, axis, -1)
                length = moved.shape[-1] if extent == "row" else extent
                for index in np.ndindex(moved.shape[:-1]):
                    for first in range(0, moved.shape[-1], length):
                        part = moved[index][first : first + length].copy()
                        alone = E4M3.fake_quant(part, scale=E4M3.scales(part))
                        np.testing.assert_array_equal(found[index][first : first + length], alone)
        tiles = E4M3.fake_quant(x, scale="max", block=(2, 4))
        tile = x[1, 2:4, 4:].copy()
        np.testing.assert_array_equal(tiles[1, 2:4, 4:], E4M3.fake_quant(tile, scale="max"))

    def test_scales_of_a_single_number(self):
        for x in (np.array(1.7, np.float32), np.float32(-0.3)):
            np.testing.assert_array_equal(E4M3.scales(x), np.float32(448) / np.abs(x))
            np.testing.assert_allclose(E4M3.fake_quant(x, scale="max"), x, rtol=1e-6)
        self.assertEqual([E4M3.scales(np.float32(x)) for x in (0, np.nan, np.inf)], [1, 1, 1])
        # The largest value stays finite: 448 * fl(1 / scale).
        largest = np.float32(3.4028235e38)
        for form in map(altgrad.Format, altgrad.formats()):
            self.assertTrue(np.isfinite(form.fake_quant(np.float32([largest, -largest]), scale="max")).all(), form.name)

    def test_statistics(self):
        x = np.float32([0.0, 1e-9, 3.0, 1e9, np.nan])
        _, stats = E4M3.fake_quant(x, stats=True)
        found = [stats[name] for name in ("elements", "overflow", "underflow", "nan", "nonzero")]
        self.assertEqual(found, [5, 1, 1, 1, 4])


if __name__ == "__main__":
    unittest.main()
