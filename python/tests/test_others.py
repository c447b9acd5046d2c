"""Values and codes have the bits of ml_dtypes and gfloat, for the formats that they have."""

import unittest

import altgrad
import numpy as np

from tests import package, values

# Of this package: of ml_dtypes, of gfloat.
FORMATS = {
    "E4M3": ("float8_e4m3fn", "format_info_ocp_e4m3"),
    "E5M2": ("float8_e5m2", "format_info_ocp_e5m2"),
    "E3M4:ieee": ("float8_e3m4", None),
    "E4M3:ieee": ("float8_e4m3", None),
    "E2M1": ("float4_e2m1fn", "format_info_ocp_e2m1"),
    "E3M2": ("float6_e3m2fn", "format_info_ocp_e3m2"),
    "E2M3": ("float6_e2m3fn", "format_info_ocp_e2m3"),
    "E8M7": ("bfloat16", "format_info_bfloat16"),
    "E5M10": ("float16", "format_info_binary16"),
}


def inside(form, x):
    """The values that no format saturates: libraries differ in what they do with the others."""
    return x[np.abs(x) <= form.info["largest"]]


class Others(unittest.TestCase):
    def test_ml_dtypes(self):
        ml_dtypes = package("ml_dtypes")
        for name, (other, _) in FORMATS.items():
            with self.subTest(name):
                form = altgrad.Format(name)
                dtype = np.dtype(getattr(ml_dtypes, other, np.float16))
                x = inside(form, values(special=False))
                expected = x.astype(dtype)
                np.testing.assert_array_equal(
                    form.fake_quant(x).view(np.uint32), expected.astype(np.float32).view(np.uint32)
                )
                codes = expected.view(np.uint8 if dtype.itemsize == 1 else np.uint16)
                np.testing.assert_array_equal(form.quantize(x), codes)
                all_codes = np.arange(1 << form.bits).astype(codes.dtype)
                np.testing.assert_array_equal(form.table, all_codes.view(dtype).astype(np.float32))

    def test_gfloat(self):
        gfloat, formats = package("gfloat"), package("gfloat.formats")
        modes = {
            "nearest-even": gfloat.RoundMode.TiesToEven,
            "nearest-away": gfloat.RoundMode.TiesToAway,
            "toward-zero": gfloat.RoundMode.TowardZero,
        }
        for name, (_, other) in FORMATS.items():
            if other is None:
                continue
            info, form = getattr(formats, other), altgrad.Format(name)
            x = inside(form, values(special=False))
            for rounding, mode in modes.items():
                with self.subTest(name, rounding=rounding):
                    rounded = gfloat.round_ndarray(info, x.astype(np.float64), mode)
                    found = form.fake_quant(x, rounding=rounding)
                    np.testing.assert_array_equal(found, rounded.astype(np.float32))
                    codes = gfloat.encode_ndarray(info, rounded)
                    np.testing.assert_array_equal(form.quantize(x, rounding=rounding), codes)


if __name__ == "__main__":
    unittest.main()
