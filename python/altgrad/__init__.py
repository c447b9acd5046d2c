"""Number formats of altgrad on arrays, casts of published recipes, and runs as data frames.

    import numpy as np, altgrad
    altgrad.Format("E4M3").fake_quant(np.float32([0.3, 1000.0]))

`altgrad.torch` has straight-through estimators and a quantized linear layer; it needs PyTorch.
"""

from ._casts import Applied, Cast, Recipe
from ._core import Error, PluginError, set_threads, threads
from ._formats import Format, formats, load
from ._runs import Run, Runs, runs

__version__ = "0.1.0"
__all__ = [
    "Applied",
    "Cast",
    "Error",
    "Format",
    "PluginError",
    "Recipe",
    "Run",
    "Runs",
    "formats",
    "load",
    "runs",
    "set_threads",
    "threads",
]
