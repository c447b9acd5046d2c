"""The build backend: puts the format plugins into the package, and lets maturin build the rest.

Two variables name libraries that are built already, so that nothing is built twice: `ALTGRAD_PLUGINS` a folder of plugins, such as
`target/altgrad/plugins`, and `ALTGRAD_CORE` the compiled half, such as `target/release/lib_core.so`. Relative paths start at the root of
the repository. Without the first, cargo builds the plugins; without the second, maturin builds the compiled half.
"""

import base64
import hashlib
import json
import os
import shutil
import subprocess
import tomllib
import zipfile
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
_PACKAGE = _ROOT / "python" / "altgrad"
_PLUGINS = _PACKAGE / "plugins"
_TAG = "cp311-abi3-linux_x86_64"


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
    libraries = {name: _ROOT / folder / f"{name}.so" for name in _names()} if folder else _built()
    missing = [str(library) for library in libraries.values() if not Path(library).is_file()]
    if missing:
        raise FileNotFoundError(f"ALTGRAD_PLUGINS lacks {', '.join(missing)}")
    shutil.rmtree(_PLUGINS, ignore_errors=True)
    _PLUGINS.mkdir()
    for name, library in libraries.items():
        shutil.copyfile(library, _PLUGINS / f"{name}.so")


def _wheel(folder, core):
    """Writes the wheel with a compiled half that is built already; returns its name."""
    project = tomllib.loads((_ROOT / "python" / "pyproject.toml").read_text())["project"]
    name, version = project["name"], project["version"]
    info = f"{name}-{version}.dist-info"
    metadata = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    metadata += [f"Summary: {project['description']}", f"Requires-Python: {project['requires-python']}"]
    metadata += [f"Requires-Dist: {dependency}" for dependency in project["dependencies"]]
    for extra, dependencies in project["optional-dependencies"].items():
        metadata += [f"Provides-Extra: {extra}"]
        metadata += [f"Requires-Dist: {dependency}; extra == '{extra}'" for dependency in dependencies]
    sources = [path for pattern in ("*.py", "*.pyi", "py.typed", "plugins/*.so") for path in sorted(_PACKAGE.glob(pattern))]
    files = {f"{name}/{path.relative_to(_PACKAGE)}": path.read_bytes() for path in sources}
    files[f"{name}/_core.abi3.so"] = (_ROOT / core).read_bytes()
    files[f"{info}/METADATA"] = ("\n".join(metadata) + "\n").encode()
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: altgrad_build\nRoot-Is-Purelib: false\nTag: {_TAG}\n".encode()
    record = ""
    for path, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
        record += f"{path},sha256={digest},{len(data)}\n"
    files[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()
    wheel = f"{name}-{version}-{_TAG}.whl"
    with zipfile.ZipFile(Path(folder) / wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for path, data in files.items():
            archive.writestr(path, data)
    return wheel


def _maturin():
    # Imported late: pip installs it only where it is needed.
    import maturin

    return maturin


def get_requires_for_build_wheel(config_settings=None):
    return [] if os.environ.get("ALTGRAD_CORE") else ["maturin>=1.9,<2"]


def get_requires_for_build_editable(config_settings=None):
    return ["maturin>=1.9,<2"]


get_requires_for_build_sdist = get_requires_for_build_editable


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    _stage()
    core = os.environ.get("ALTGRAD_CORE")
    if core:
        return _wheel(wheel_directory, core)
    return _maturin().build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    _stage()
    return _maturin().build_editable(wheel_directory, config_settings, metadata_directory)


def build_sdist(sdist_directory, config_settings=None):
    return _maturin().build_sdist(sdist_directory, config_settings)
