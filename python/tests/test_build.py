"""The build backend: the plugins that it puts into the package."""

import importlib.util
import os
import tempfile
import unittest
from pathlib import Path

BACKEND = Path(__file__).resolve().parents[1] / "build/altgrad_build.py"


class Build(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        for path in ("plugins/formats/e4m3/Cargo.toml", "target/plugins/e4m3.so", "python/altgrad/plugins/old.so"):
            (self.root / path).parent.mkdir(parents=True)
            (self.root / path).write_text(path)
        spec = importlib.util.spec_from_file_location("altgrad_build", BACKEND)
        self.backend = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.backend)
        self.backend._ROOT, self.backend._PLUGINS = self.root, self.root / "python/altgrad/plugins"
        self.addCleanup(os.environ.pop, "ALTGRAD_PLUGINS", None)

    def staged(self):
        return [path.name for path in self.backend._PLUGINS.iterdir()]

    def test_a_relative_folder_starts_at_the_root(self):
        os.environ["ALTGRAD_PLUGINS"] = "target/plugins"
        self.backend._stage()
        self.assertEqual(self.staged(), ["e4m3.so"])

    def test_plugins_stay_if_others_are_missing(self):
        os.environ["ALTGRAD_PLUGINS"] = "target"
        with self.assertRaisesRegex(FileNotFoundError, "e4m3.so"):
            self.backend._stage()
        self.assertEqual(self.staged(), ["old.so"])


if __name__ == "__main__":
    unittest.main()
