"""Casts at the ends of f32, compared with docs/numerics.md, section 4.5, in exact fractions."""

import unittest
from fractions import Fraction

import altgrad
import numpy as np

LARGEST = Fraction((2**24 - 1) * 2**104)
LEAST_DECODE = Fraction(1, 2**128)
INFINITE = Fraction(2**128)


def exponent(x):
    """floor(log2 x) of a fraction above 0."""
    e = x.numerator.bit_length() - x.denominator.bit_length()
    return e if Fraction(2) ** e <= x else e - 1


def nearest(x, digits, least):
    """The nearest multiple of a step with that many binary digits, ties to even; steps are at least 2^least."""
    if x == 0:
        return x
    step = Fraction(2) ** max(exponent(abs(x)) - digits + 1, least)
    return round(x / step) * step


def fl(x):
    """Rounded to f32; 2^128 stands for infinity."""
    rounded = nearest(x, 24, -149)
    return min(max(rounded, -INFINITE), INFINITE)


def quotient(a, b):
    return INFINITE if b == 0 else fl(a / b)


def finite(x):
    return min(x, LARGEST)


def e4m3(x):
    return min(nearest(x, 4, -9), Fraction(448))


class Oracle:
    """The values of a minifloat, and scales by the definitions."""

    def __init__(self, name):
        info = altgrad.Format(name).info
        self.largest = Fraction(info["largest"])
        self.digits = info["significand_bits"] + 1
        self.least = exponent(Fraction(info["smallest"]))
        # By trial: the least encode scale by which the largest value stays finite.
        e = np.float32(float(max(self.largest / LARGEST, LEAST_DECODE)))
        while True:
            scale = Fraction(float(e))
            inverse = quotient(Fraction(1), scale)
            if max(fl(self.largest * min(inverse, INFINITE)), fl(self.largest / scale)) < INFINITE and inverse < INFINITE:
                self.least_encode = scale
                break
            e = np.nextafter(e, np.float32(np.inf))

    def rounded(self, s):
        return max(min(nearest(s, self.digits, self.least), self.largest), -self.largest)

    def within(self, encode, decode):
        if encode < self.least_encode:
            return self.least_encode, fl(1 / self.least_encode)
        return finite(encode), max(finite(decode), LEAST_DECODE)

    def plain(self, amax, order, limit):
        def limited(scale):
            return min(max(scale, Fraction(1, 2**126)), Fraction(2**126)) if limit == "normal" else scale

        if order == "encode":
            encode = limited(finite(quotient(self.largest, amax)))
            return self.within(encode, quotient(Fraction(1), encode))
        decode = limited(finite(fl(amax / self.largest)))
        return self.within(quotient(Fraction(1), decode), decode)

    def two_levels(self, most, amax, order):
        """The scales of a block with the largest magnitude `amax` in a tensor whose largest is `most`."""
        top = fl(448 * self.largest)
        most = max(most, fl(top / LARGEST))

        def limited(scale):
            return min(max(scale, LEAST_DECODE), LARGEST)

        if order == "encode":
            encode_all = limited(quotient(top, most))
            decode_all = limited(quotient(Fraction(1), encode_all))
            ratio = fl(amax * fl(encode_all * fl(1 / self.largest)))
        else:
            decode_all = limited(quotient(most, top))
            encode_all = limited(quotient(Fraction(1), decode_all))
            ratio = quotient(fl(amax / self.largest), decode_all)
        power = LEAST_DECODE / decode_all
        power = Fraction(2) ** (exponent(power) + (Fraction(2) ** exponent(power) < power))
        stored = e4m3(max(ratio, power))
        if stored == 0:
            return LARGEST, Fraction(0)
        if order == "encode":
            # The first product has no largest exponent.
            product = nearest(stored * most, 24, -1000)
            return self.within(quotient(Fraction(1), fl(stored * decode_all)), fl(product * fl(1 / top)))
        return self.within(fl(encode_all / stored), fl(decode_all * stored))

    def value(self, x, scales):
        encode, decode = scales
        return fl(self.rounded(fl(x * encode)) * decode)


def numbers(random, count):
    """Finite f32 of all exponents, the ends more often."""
    exponents = random.choice([random.integers(-149, 128), random.integers(-149, -110), random.integers(110, 128)])
    steps = random.integers(-6, 1, size=count) + exponents
    values = np.ldexp(random.uniform(1, 2, size=count), steps) * random.choice([-1, 1], size=count)
    return np.clip(values, -3.4028234663852886e38, 3.4028234663852886e38).astype(np.float32)


class Extremes(unittest.TestCase):
    def check(self, cast, x, scales, oracle):
        found = altgrad.Cast(cast).apply(x.reshape(1, -1)).values.reshape(-1)
        self.assertTrue(np.isfinite(found).all(), (cast, x, found))
        expected = [float(oracle.value(Fraction(float(value)), scales)) for value in x]
        np.testing.assert_array_equal(found, np.float32(expected), err_msg=f"{cast} {x!r}")

    def test_scales_of_tensors(self):
        random = np.random.default_rng(0)
        for name in ("E4M3", "E5M2", "E2M1", "E7M0", "E3M4", "E5M10", "E8M7"):
            oracle = Oracle(name)
            for order in ("encode", "decode"):
                for limit in ("normal", "f32"):
                    cast = f'format = "{name}", scaling = {{ order = "{order}", limit = "{limit}" }}'
                    for _ in range(60):
                        x = numbers(random, 4)
                        amax = Fraction(float(np.abs(x).max()))
                        if amax:
                            self.check(cast, x, oracle.plain(amax, order, limit), oracle)

    def test_scales_of_blocks_and_of_the_tensor(self):
        random = np.random.default_rng(1)
        for name in ("E2M1", "E4M3", "E5M2", "E2M3"):
            oracle = Oracle(name)
            for order in ("encode", "decode"):
                scaling = f'scaling = {{ type = "e4m3", tensor = "f32", order = "{order}" }}'
                cast = f'format = "{name}", block = 16, {scaling}'
                for _ in range(60):
                    x = numbers(random, 4)
                    amax = Fraction(float(np.abs(x).max()))
                    if amax:
                        self.check(cast, x, oracle.two_levels(amax, amax, order), oracle)

    def test_numbers_that_became_infinite_or_shrank(self):
        """Within half a step of E2M1 and of the block's scale."""
        for order in ("encode", "decode"):
            cast = altgrad.Cast(f'format = "E2M1", block = 16, scaling = {{ type = "e4m3", tensor = "f32", order = "{order}" }}')
            for x in (3.4028235e38, 8e35, 1e-35, 1e-36, 5e-37, 1e-37, 1.2e-38):
                found = cast.apply(np.float32([[x]])).values.item()
                self.assertLess(abs(found / x - 1), 0.17, f"{order} {x} {found}")
            three = np.float32([[1e-36, 5e-37, 1e-37]])
            self.assertEqual(len(set(cast.apply(three).values.reshape(-1).tolist())), 3)
        for name, x in (("E7M0", 1e-30), ("E5M2", 1e-35)):
            cast = altgrad.Cast(f'format = "{name}", scaling = {{ order = "decode", limit = "f32" }}')
            found = cast.apply(np.float32([[x]])).values.item()
            self.assertLess(abs(found / x - 1), 0.34, f"{name} {found}")

    def test_powers_of_two(self):
        """The largest f32 saturates and counts, unless infinities are those of torchao."""
        for rule in ("rceil", "ceil", "even", "floor"):
            text = f'format = "E4M3", block = 32, scaling = {{ type = "e8m0", rule = "{rule}"'
            applied = altgrad.Cast(text + " }").apply(np.float32([[3.4e38, -1.0]]))
            self.assertEqual(applied.values.tolist(), [[448 * 2.0**119, -0.0]])
            self.assertEqual((applied.overflow, applied.scale_codes.item()), (1, 246))
            if rule in ("rceil", "ceil"):
                poisoned = altgrad.Cast(text + ', nonfinite = "poison" }').apply(np.float32([[3.4e38, -1.0]]))
                self.assertEqual((poisoned.values[0, 0], poisoned.scale_codes.item()), (np.inf, 247))

    def test_an_infinity_among_zeros(self):
        """It saturates at scale 1, by every path."""
        x = np.float32([[0.0, np.inf, -np.inf, np.nan]])
        for scaling in ("", 'type = "e8m0", rule = "floor"', 'type = "e8m0", rule = "rceil"', 'zero = "smallest"', 'type = "e4m3"'):
            values = altgrad.Cast(f'format = "E4M3", block = 4, scaling = {{ {scaling} }}').apply(x).values[0]
            self.assertEqual(values[:3].tolist(), [0.0, 448.0, -448.0], scaling)

    def test_blocks_of_equal_values_are_reported(self):
        cast = altgrad.Cast('format = "E2M1", scaling = { rule = "rms" }')
        with self.assertWarnsRegex(UserWarning, "equal values"):
            applied = cast.apply(np.ones((2, 2), np.float32))
        self.assertEqual(applied.overflow, 4)

    def test_casts_that_contradict_their_scales(self):
        x = np.ones((4, 32), np.float32)
        for text, why in (
            ('format = "E4M3", rounding = "toward-zero", scaling = { rule = "even" }', "even"),
            ('format = "E4M3", block = "row", scaling = { amax = "static", static_amax = 2.0 }', "one scale"),
            ('format = "E4M3", scaling = { amax = "static", static_amax = 1e39 }', "must fit 32 bits"),
        ):
            with self.assertRaisesRegex(ValueError, why):
                altgrad.Cast(text).apply(x)
        with self.assertRaisesRegex(ValueError, "one scale"):
            altgrad.Cast('format = "E4M3", block = 32').apply(x, amax=3.0)
        with self.assertWarnsRegex(UserWarning, "has no effect"):
            altgrad.Cast('format = "E4M3", scaling = { type = "e8m0", rule = "floor", order = "decode" }').apply(x)

    def test_ties_of_torchaos_optimizers(self):
        """Halves between neighbours go up, for both signs."""
        table = np.sort(altgrad.Format("DYNAMIC8").table)
        low, high = table[:-1], table[1:]
        middle = ((low.astype(np.float64) + high) / 2).astype(np.float32)
        exact = middle.astype(np.float64) * 2 == low.astype(np.float64) + high
        self.assertGreater(exact.sum(), 20)
        cast = altgrad.Cast('format = "DYNAMIC8", rounding = "nearest-up", block = "none"')
        found = cast.apply(middle[exact].reshape(1, -1)).values.reshape(-1)
        np.testing.assert_array_equal(found, high[exact])


if __name__ == "__main__":
    unittest.main()
