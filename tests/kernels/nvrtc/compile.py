"""Compiles CUDA texts with NVRTC, to a cubin: compile.py ARCHITECTURE FILE...

Needs the wheels nvidia-cuda-nvrtc, -runtime, -cccl and -crt (13.0), but no toolkit and no GPU. Exit status 77: they are
not there, and the last line of the output says so.
"""

import ctypes
import glob
import importlib.util
import os
import sys

MISSING = 77


def folder():
    """The wheels' common folder."""
    spec = importlib.util.find_spec("nvidia")
    for base in spec.submodule_search_locations if spec else []:
        path = os.path.join(base, "cu13")
        if glob.glob(os.path.join(path, "lib", "libnvrtc.so.*")):
            return path
    print("the wheel nvidia-cuda-nvrtc 13.0 is not installed for", sys.executable)
    sys.exit(MISSING)


def load(path):
    # NVRTC looks for its builtins by name; loaded first, they are found without LD_LIBRARY_PATH.
    for name in sorted(glob.glob(os.path.join(path, "lib", "libnvrtc-builtins.so.*"))):
        ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
    lib = ctypes.CDLL(sorted(glob.glob(os.path.join(path, "lib", "libnvrtc.so.*")))[0])
    text, handle = ctypes.c_char_p, ctypes.c_void_p
    lib.nvrtcCreateProgram.argtypes = [handle, text, text, ctypes.c_int, handle, handle]
    lib.nvrtcCompileProgram.argtypes = [handle, ctypes.c_int, handle]
    for name in ("nvrtcGetProgramLogSize", "nvrtcGetProgramLog", "nvrtcGetCUBINSize", "nvrtcGetCUBIN"):
        getattr(lib, name).argtypes = [handle, handle]
    lib.nvrtcDestroyProgram.argtypes = [handle]
    return lib


def get(lib, program, name):
    size = ctypes.c_size_t()
    getattr(lib, f"nvrtcGet{name}Size")(program, ctypes.byref(size))
    data = ctypes.create_string_buffer(size.value)
    getattr(lib, f"nvrtcGet{name}")(program, data)
    return data.raw


def compile_file(lib, path, file, architecture):
    """Whether it compiles. Options are the ones cubecl gives."""
    with open(file, "rb") as source:
        text = source.read()
    program = ctypes.c_void_p()
    assert lib.nvrtcCreateProgram(ctypes.byref(program), text, None, 0, None, None) == 0
    options = [f"--gpu-architecture={architecture}", "-lineinfo", f"--include-path={path}/include"]
    options += [f"--include-path={path}/include/cccl", "--ptxas-options=-v"]
    array = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
    status = lib.nvrtcCompileProgram(program, len(options), array)
    log = get(lib, program, "ProgramLog").rstrip(b"\0").decode().strip()
    size = len(get(lib, program, "CUBIN")) if status == 0 else 0
    print(os.path.basename(file), "status", status, "cubin bytes", size, log.replace("\n", " | "))
    lib.nvrtcDestroyProgram(ctypes.byref(program))
    return status == 0 and size > 0


def main():
    architecture, files = sys.argv[1], sys.argv[2:]
    path = folder()
    lib = load(path)
    results = [compile_file(lib, path, file, architecture) for file in files]
    sys.exit(0 if files and all(results) else 1)


main()
