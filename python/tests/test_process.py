"""Threads, fork, and the end of the interpreter."""

import os
import signal
import subprocess
import sys
import threading
import unittest
from concurrent.futures import ThreadPoolExecutor

import altgrad
import numpy as np

from tests import values

X = values(600_000)
E5M2 = altgrad.Format("E5M2")


class Process(unittest.TestCase):
    def test_results_do_not_depend_on_the_number_of_threads(self):
        self.addCleanup(altgrad.set_threads, 0)
        options = {"rounding": "stochastic", "key": (5, 6, 7), "stats": True}
        altgrad.set_threads(1)
        one, stats = E5M2.fake_quant(X, **options)
        codes = E5M2.quantize(X)
        for threads in (2, 3, 8):
            altgrad.set_threads(threads)
            self.assertEqual(altgrad.threads(), threads)
            many, other = E5M2.fake_quant(X, **options)
            np.testing.assert_array_equal(many.view(np.uint32), one.view(np.uint32))
            self.assertEqual(other, stats)
            np.testing.assert_array_equal(E5M2.quantize(X), codes)

    def test_many_python_threads(self):
        expected = E5M2.fake_quant(X)
        with ThreadPoolExecutor(8) as pool:
            for found in pool.map(lambda _: altgrad.Format("E5M2").fake_quant(X), range(32)):
                np.testing.assert_array_equal(found, expected)

    def test_the_lock_is_released(self):
        """Another thread counts while one call rounds."""
        large, counted, done = np.tile(X, 20), [0], threading.Event()

        def count():
            while not done.is_set():
                counted[0] += 1

        thread = threading.Thread(target=count)
        thread.start()
        before = counted[0]
        E5M2._core.fake_quant(
            large,
            np.empty_like(large),
            np.ones(1, np.float32),
            {"slabs": 1, "columns": large.size, "block_rows": 1, "block_columns": large.size},
            "stochastic",
            (0, 0, 0),
        )
        during = counted[0] - before
        done.set()
        thread.join()
        self.assertGreater(during, 100)

    def test_fork(self):
        expected = E5M2.fake_quant(X)
        altgrad.runs(os.path.dirname(__file__))
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            same = np.array_equal(E5M2.fake_quant(X), expected)
            altgrad.runs(os.path.dirname(__file__))
            same &= np.array_equal(altgrad.Format("E4M3").fake_quant(X[:9]), altgrad.Format("E4M3").fake_quant(X)[:9])
            os._exit(0 if same else 1)
        _, status = os.waitpid(child, 0)
        self.assertEqual(status, 0)

    def test_threads_that_cannot_be_started_leave_their_parts_to_the_others(self):
        """The address space has no room for the stack of another thread."""
        program = """
import resource, numpy as np, altgrad
form = altgrad.Format("E5M2")
x = np.random.default_rng(0).normal(size=600_000).astype(np.float32)
values, scales = np.empty_like(x), np.ones(1, np.float32)
blocks = {"slabs": 1, "columns": x.size, "block_rows": 1, "block_columns": x.size}
altgrad.set_threads(4)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
limits = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 20), limits[1]))
form._core.fake_quant(x, values, scales, blocks, "nearest-even", (0, 0, 0))
resource.setrlimit(resource.RLIMIT_AS, limits)
print(np.array_equal(values, form.fake_quant(x)))
"""
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (0, "True\n"), done.stderr)

    def test_a_number_of_threads_is_not_negative(self):
        with self.assertRaisesRegex(ValueError, "0 or more, found -1"):
            altgrad.set_threads(-1)

    def test_the_interpreter_ends_while_a_thread_rounds(self):
        program = """
import threading, numpy as np, altgrad
form, x = altgrad.Format("E5M2"), np.ones(3_000_000, np.float32)
def work():
    while True:
        form.fake_quant(x, rounding="stochastic")
threading.Thread(target=work, daemon=True).start()
import time; time.sleep(0.3)
print("end")
"""
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
        self.assertEqual((done.returncode, done.stdout), (0, "end\n"), done.stderr)


if __name__ == "__main__":
    unittest.main()
