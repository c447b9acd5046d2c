"""Recipes and casts: their texts, copies and pickles."""

import copy
import os
import pickle
import tempfile
import unittest
from pathlib import Path

import altgrad
import numpy as np

from tests import values

USES = ("weight", "activation", "grad", "weight_dgrad", "activation_wgrad", "grad_wgrad")
X = values(4000, special=False)[:4096].reshape(32, 128)


class Casts(unittest.TestCase):
    def check(self, cast, other):
        """Both casts have the same results."""
        for axis in ("rows", "columns"):
            one, two = cast.apply(X, axis=axis, key=(1, 2, 3)), other.apply(X, axis=axis, key=(1, 2, 3))
            np.testing.assert_array_equal(one.values.view(np.uint32), two.values.view(np.uint32))
            np.testing.assert_array_equal(one.scales, two.scales)

    def test_casts_are_pickled(self):
        cast = altgrad.Cast('format = "E4M3", block = 32, rounding = "stochastic"')
        self.assertIs(copy.deepcopy(cast), cast)
        self.check(cast, pickle.loads(pickle.dumps(cast)))
        self.check(cast._unscaled(), pickle.loads(pickle.dumps(cast._unscaled())))

    def test_recipes_are_pickled(self):
        for name in altgrad.Recipe.names():
            recipe = altgrad.Recipe(name)
            other = pickle.loads(pickle.dumps(recipe))
            for use in USES:
                with self.subTest(name, use=use):
                    (cast, *about), (again, *same) = recipe.cast(use, "h.0.x"), other.cast(use, "h.0.x")
                    self.assertEqual(about, same)
                    self.assertEqual(cast is None, again is None)
                    if cast is not None:
                        self.check(cast, again)
                        self.check(cast, pickle.loads(pickle.dumps(cast)))
                        self.assertEqual(cast._core.history, again._core.history)

    def test_paths_in_a_text_start_at_the_working_directory(self):
        self.addCleanup(os.chdir, os.getcwd())
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "own.toml").write_text('[quant]\nweight = "E3M4"\n')
            os.chdir(folder)
            recipe = altgrad.Recipe.from_toml('[quant]\nrecipe = "own.toml"\n')
            data = pickle.dumps(recipe)
            os.chdir("/")
        self.assertEqual(pickle.loads(data).cast("weight")[0].format.name, "E3M4")

    def test_errors_have_their_place_in_the_text(self):
        with self.assertRaisesRegex(ValueError, "the recipe:2:1"):
            altgrad.Recipe.from_toml('[quant]\nweigth = "E4M3"\n')
        with self.assertRaisesRegex(ValueError, "there is no recipe `a\"b`"):
            altgrad.Recipe('a"b')


if __name__ == "__main__":
    unittest.main()
