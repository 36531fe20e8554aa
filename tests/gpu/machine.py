"""Helpers that the scripts of this folder share: they find the programs and the CUDA libraries."""

import glob
import os
import site
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.normpath(os.path.join(HERE, "..", ".."))
SHAKESPEARE = os.path.join(SOURCE, "graphs", "shakespeare-5m")


def library_folders():
    """Folders with CUDA's libraries: those of a toolkit, or of NVIDIA's wheels beside PyTorch."""
    roots = [*site.getsitepackages(), *(path for path in sys.path if path.endswith("site-packages"))]
    patterns = [*(os.path.join(root, "nvidia", "*", "lib") for root in roots), "/usr/local/cuda*/lib64", "/usr/local/cuda*/lib",
                "/usr/local/cuda*/targets/x86_64-linux/lib"]
    folders = [folder for pattern in patterns for folder in sorted(glob.glob(pattern))]
    return [folder for folder in dict.fromkeys(folders) if glob.glob(os.path.join(folder, "lib*.so*"))]


def environment():
    """The environment of the programs under test, which load NVRTC and cuBLASLt by name."""
    known = os.environ.get("LD_LIBRARY_PATH")
    folders = [*([known] if known else []), *library_folders()]
    return {**os.environ, "LD_LIBRARY_PATH": ":".join(folders), "KILN_SOURCE": SOURCE}


def find_program(name, given=None):
    """`given`, else a program of a build or of the folder bin/. Ends the script if there is none."""
    places = [given] if given else [os.path.join(SOURCE, folder, name)
                                    for folder in ("build/release/bin", "build/dev/bin", "bin")]
    for place in places:
        if os.access(place, os.X_OK):
            return os.path.abspath(place)
    sys.exit(f"error: {name}: not found at {', '.join(places)}")
