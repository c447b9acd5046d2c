"""Tests of the installed package: `python -m unittest discover -s python/tests -t python`.

`ALTGRAD_HOST` names an altgrad-host with its plugins, `ALTGRAD_LIBRARIES` a folder with libraries of examples and fixtures. Tests
that lack something are skipped by name.
"""

import importlib
import os
import subprocess
import unittest

import numpy as np

ROUNDINGS = ("nearest-even", "nearest-away", "toward-zero", "stochastic")


def package(name):
    """A package that the test needs, or a skip."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise unittest.SkipTest(f"{name} cannot be imported: {error}") from None


def host(*arguments, folder=None):
    """The output of altgrad-host."""
    program = os.environ.get("ALTGRAD_HOST")
    if not program:
        raise unittest.SkipTest("ALTGRAD_HOST names no altgrad-host")
    command = [program, *map(str, arguments)]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


def library(name):
    """The file of a library of the examples or fixtures."""
    path = os.path.join(os.environ.get("ALTGRAD_LIBRARIES", ""), name)
    if not os.path.isfile(path):
        raise unittest.SkipTest(f"ALTGRAD_LIBRARIES has no {name}")
    return path


def values(count=40_000, special=True):
    """Values of all magnitudes, halves between neighbouring values of small formats, zeros and infinities."""
    random = np.random.default_rng(0)
    wide = random.normal(size=count) * np.exp2(random.integers(-30, 30, size=count))
    ties = np.arange(-1024, 1024) / 64
    own = [0.0, -0.0, 1e-45, -1e-45, 3e38, -3e38] + ([np.inf, -np.inf] if special else [])
    return np.concatenate([wide, ties, own]).astype(np.float32)
