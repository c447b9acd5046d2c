"""The build backend: puts the format plugins into the package, and lets maturin build the rest.

`cargo xtask wheel` also puts the host into the wheel: `ALTGRAD_HOST` names a folder with its programs (`bin`) and all plugins (`lib`),
which lie in the folders of that name of an environment. Two more variables name libraries that are built already, so that nothing is built twice: `ALTGRAD_PLUGINS` a folder of plugins, such as
`target/altgrad/plugins`, and `ALTGRAD_CORE` the compiled half, such as `target/release/lib_core.so`. Relative paths start at the root of
the repository. Without the first, cargo builds the plugins; without the second, maturin builds the compiled half.
"""

import base64
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import tomllib
import zipfile
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
_PACKAGE = _ROOT / "python" / "altgrad"
_PLUGINS = _PACKAGE / "plugins"


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


def _name():
    """Name and version of the package."""
    project = tomllib.loads((_ROOT / "python" / "pyproject.toml").read_text())["project"]
    return project, f"{project['name']}-{project['version']}"


def _package(core):
    """The files of the package, with a compiled half that is built already."""
    project, full = _name()
    name = project["name"]
    metadata = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {project['version']}"]
    metadata += [f"Summary: {project['description']}", f"Requires-Python: {project['requires-python']}"]
    metadata += [f"Requires-Dist: {dependency}" for dependency in project["dependencies"]]
    for extra, dependencies in project["optional-dependencies"].items():
        metadata += [f"Provides-Extra: {extra}"]
        metadata += [f"Requires-Dist: {dependency}; extra == '{extra}'" for dependency in dependencies]
    sources = [path for pattern in ("*.py", "*.pyi", "py.typed", "plugins/*.so") for path in sorted(_PACKAGE.glob(pattern))]
    files = {f"{name}/{path.relative_to(_PACKAGE)}": path.read_bytes() for path in sources}
    files[f"{name}/_core.abi3.so"] = (_ROOT / core).read_bytes()
    files[f"{full}.dist-info/METADATA"] = ("\n".join(metadata) + "\n").encode()
    return files


def _host(folder):
    """The files of the host: programs are a wheel's scripts, the rest is its data."""
    files = {}
    for path in sorted(path for path in Path(folder).rglob("*") if path.is_file()):
        top, *rest = path.relative_to(folder).parts
        kind = ["scripts"] if top == "bin" else ["data", top]
        files["/".join([f"{_name()[1]}.data", *kind, *rest])] = path.read_bytes()
    return files


def _write(folder, files):
    """Writes a wheel for the oldest glibc that all of its files can use; returns its name."""
    full = _name()[1]
    libraries = [data for data in files.values() if data.startswith(b"\x7fELF")]
    minors = [int(minor) for data in libraries for minor in re.findall(rb"\0GLIBC_2\.(\d+)", data)]
    tag = f"cp311-abi3-manylinux_2_{max(minors, default=17)}_{platform.machine()}"
    info = f"{full}.dist-info"
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: altgrad_build\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    record = ""
    for path, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
        record += f"{path},sha256={digest},{len(data)}\n"
    files[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()
    with zipfile.ZipFile(Path(folder) / f"{full}-{tag}.whl", "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for path, data in files.items():
            # Equal contents make equal wheels: no file has a time.
            entry = zipfile.ZipInfo(path)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if "/scripts/" in path else 0o100644) << 16
            archive.writestr(entry, data)
    return f"{full}-{tag}.whl"


def _read(wheel):
    """The files of a wheel; its record is written anew."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if not name.endswith("/RECORD")}


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
    core, host = os.environ.get("ALTGRAD_CORE"), os.environ.get("ALTGRAD_HOST")
    if core:
        files = _package(core)
    else:
        name = _maturin().build_wheel(wheel_directory, config_settings, metadata_directory)
        if not host:
            return name
        wheel = Path(wheel_directory) / name
        files = _read(wheel)
        wheel.unlink()
    return _write(wheel_directory, files | (_host(host) if host else {}))


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    _stage()
    return _maturin().build_editable(wheel_directory, config_settings, metadata_directory)


def build_sdist(sdist_directory, config_settings=None):
    return _maturin().build_sdist(sdist_directory, config_settings)
