"""The build backend: builds the format plugins with cargo, puts them into the package, and lets maturin build the rest.

`ALTGRAD_PLUGINS` may name a folder of plugins that are built already, such as `target/altgrad/plugins`.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

import maturin

_ROOT = Path(__file__).resolve().parents[2]
_PLUGINS = _ROOT / "python" / "altgrad" / "plugins"

get_requires_for_build_wheel = maturin.get_requires_for_build_wheel
get_requires_for_build_sdist = maturin.get_requires_for_build_sdist
build_sdist = maturin.build_sdist


def _names():
    """The folders of format plugins: `e4m3` holds the package `altgrad-format-e4m3`."""
    return sorted(path.parent.name for path in _ROOT.glob("plugins/formats/*/Cargo.toml"))


def _built():
    """The plugin libraries by name, built by cargo."""
    command = ["cargo", "build", "--release", "--locked", "--message-format", "json-render-diagnostics"]
    command += [word for name in _names() for word in ("--package", f"altgrad-format-{name}")]
    done = subprocess.run(command, cwd=_ROOT, stdout=subprocess.PIPE, check=True)
    libraries = {}
    for line in done.stdout.splitlines():
        message = json.loads(line)
        target = message.get("target", {})
        prefix = "altgrad_format_"
        if message.get("reason") == "compiler-artifact" and target["name"].startswith(prefix):
            name = target["name"][len(prefix) :].replace("_", "-")
            libraries |= {name: file for file in message["filenames"] if file.endswith(".so")}
    return libraries


def _stage():
    """Copies the plugins into the package."""
    folder = os.environ.get("ALTGRAD_PLUGINS")
    libraries = {name: Path(folder) / f"{name}.so" for name in _names()} if folder else _built()
    shutil.rmtree(_PLUGINS, ignore_errors=True)
    _PLUGINS.mkdir()
    for name, library in libraries.items():
        shutil.copyfile(library, _PLUGINS / f"{name}.so")


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    _stage()
    return maturin.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    _stage()
    return maturin.build_editable(wheel_directory, config_settings, metadata_directory)


get_requires_for_build_editable = maturin.get_requires_for_build_editable
prepare_metadata_for_build_wheel = maturin.prepare_metadata_for_build_wheel
prepare_metadata_for_build_editable = maturin.prepare_metadata_for_build_editable
