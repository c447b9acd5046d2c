"""The machine: its GPU, a Python with PyTorch, and the files of CUDA that the host needs.

The host compiles kernels with libnvrtc, which the loader must find, and with the headers in `$CUDA_PATH/include`. Both come from a
toolkit or from the wheels that PyTorch requires. The driver refuses kernels that a newer libnvrtc compiled.
"""

import ctypes
import json
import os
import re
import shutil
import sys
from datetime import datetime, timezone
from pathlib import Path

from processes import said

# The major version of the bundle's CUDA, if it was built where there is no `nvcc`.
CUDA_MAJOR = 13
# Headers of the kernels that multiply bf16, and of the version.
HEADERS = ["cuda.h", "cuda_bf16.h", "mma.h", "crt/mma.h"]
LIBRARIES = ["lib64", "lib", "targets/x86_64-linux/lib"]
GPU = "name,driver_version,memory.total,clocks.sm,clocks.max.sm,clocks.mem,clocks.max.mem,power.limit,temperature.gpu"
FIND_TORCH = """
import importlib.metadata, json, sys
try: torch = importlib.metadata.version("torch")
except importlib.metadata.PackageNotFoundError: torch = None
print(json.dumps({"torch": torch, "folders": sys.path}))
"""


def python():
    """A Python with PyTorch, else this one: its path, PyTorch's version or None, and its folders of packages."""
    found = []
    for path in filter(None, [sys.executable, shutil.which("python3"), shutil.which("python")]):
        answer = said([path, "-c", FIND_TORCH])
        if answer is not None:
            found.append({"path": path, **json.loads(answer)})
    return next((python for python in found if python["torch"]), found[0] if found else {"path": None, "torch": None, "folders": []})


def toolkits(packages):
    """Folders that may have CUDA: the environment's, that of `nvcc`, those installed, those of wheels."""
    nvcc = shutil.which("nvcc")
    wheels = [Path(folder) / "nvidia" for folder in packages]
    names = ["cu13", "cuda_nvrtc", "cuda_runtime"]
    folders = [
        *map(Path, filter(None, [os.environ.get("CUDA_PATH")])),
        *([Path(nvcc).resolve().parent.parent] if nvcc else []),
        *sorted(Path("/usr/local").glob("cuda*"), reverse=True),
        *sorted(Path("/opt").glob("cuda*"), reverse=True),
        *(wheel / name for wheel in wheels for name in names),
    ]
    return [folder for folder in folders if folder.is_dir()]


def nvrtc_version(library):
    """The version of a libnvrtc, or None if it cannot be loaded."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    try:
        failed = ctypes.CDLL(str(library)).nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    except (OSError, AttributeError):
        return None
    return None if failed else [major.value, minor.value]


def driver_version():
    """The version of CUDA of the driver, or None without a driver."""
    number = ctypes.c_int()
    try:
        failed = ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(number))
    except (OSError, AttributeError):
        return None
    return None if failed or not number.value else major_minor(number.value)


def major_minor(number):
    """The version of a number such as 13010, which is 13.1."""
    return [number // 1000, number % 1000 // 10]


def find_cuda(packages, driver):
    """The library and the headers; None where there is none. Libraries that are not newer than the driver, and headers of the
    library's version, precede others."""
    folders = toolkits(packages)
    loaded = [Path(folder) for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
    places = [*loaded, *(folder / name for folder in folders for name in LIBRARIES)]
    libraries = [(file, nvrtc_version(file)) for place in places for file in sorted(place.glob("libnvrtc.so*"))]
    libraries = [(file, version) for file, version in libraries if version]
    headers = [(folder, headers_version(folder)) for folder in folders]
    headers = [(folder, version) for folder, version in headers if version]
    library = best([one for one in libraries if driver and one[1] <= driver] or libraries)
    return library, best([one for one in headers if one[1] == library[1]] or headers)


def headers_version(folder):
    """The version of a toolkit's headers, or None if some are missing."""
    include = folder / "include"
    if not all((include / name).is_file() for name in HEADERS):
        return None
    found = re.search(r"#define\s+CUDA_VERSION\s+(\d+)", (include / "cuda.h").read_text(errors="replace"))
    return major_minor(int(found[1])) if found else None


def best(found):
    """The first file of the right major version, else the first one."""
    return next((one for one in found if one[1][0] == CUDA_MAJOR), found[0] if found else (None, None))


def use_cuda(packages, links, variables):
    """Sets the variables with which a process finds CUDA: what is used, with its version."""
    driver = driver_version()
    (library, library_version), (headers, headers_version) = find_cuda(packages, driver)
    if library:
        # A folder without other libraries: those of a toolkit would replace the ones that PyTorch was built with.
        shutil.rmtree(links, ignore_errors=True)
        links.mkdir(parents=True)
        for file in library.parent.glob("libnvrtc*"):
            (links / file.name).symlink_to(file.resolve())
        # The name that the host tries first.
        (links / "libnvrtc.so").unlink(missing_ok=True)
        (links / "libnvrtc.so").symlink_to(library.resolve())
        old = variables.get("LD_LIBRARY_PATH")
        variables["LD_LIBRARY_PATH"] = f"{links}:{old}" if old else str(links)
    if headers:
        variables["CUDA_PATH"] = str(headers)
    return {
        "driver_cuda_version": driver,
        "nvrtc": str(library.resolve()) if library else None,
        "nvrtc_version": library_version,
        "headers_version": headers_version,
        "CUDA_PATH": variables.get("CUDA_PATH"),
        "LD_LIBRARY_PATH": variables.get("LD_LIBRARY_PATH"),
    }


def gpu():
    """The GPUs and their clocks, a line each."""
    lines = said(["nvidia-smi", f"--query-gpu={GPU}", "--format=csv,noheader"])
    return lines and [dict(zip(GPU.split(","), line.split(", "))) for line in lines.splitlines()]


def environment(bundle, device, cuda, torch):
    """Bundle, device, driver, versions and date of a call."""
    build = bundle / "build.json"
    return {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "build": json.loads(build.read_text()) if build.exists() else None,
        "device": device,
        "host": said([bundle / "altgrad-host", "--version"]),
        "gpu": gpu(),
        "cpus": os.cpu_count(),
        "python": torch["path"],
        "torch": torch["torch"],
        **cuda,
    }
