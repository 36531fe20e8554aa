# The dependencies of the project, and their installation. Sourced after common.sh.
#
# KILN_CUDA chooses the CUDA to build with:
#   auto (default)   an installed toolkit, 13 or later; else NVIDIA's wheels
#   wheels           NVIDIA's wheels, even if a toolkit is installed
#   a folder         the toolkit in it

# Debian 12 has all of these, and so do later Debians and Ubuntu 24.04.
buildPackages=(
  cmake ninja-build g++
  llvm-19-dev zlib1g-dev libzstd-dev # LLVM's support library, and what it links to
  libtomlplusplus-dev libcli11-dev   # model files, command lines
  libeigen3-dev                      # the reference executor's matrix products
  libutf8proc-dev                    # the tokenizer's Unicode classes
  libboost-context-dev               # the emulator's threads
  libgtest-dev
)
testPackages=(
  llvm-19-tools python3 # lit, FileCheck
  pkg-config            # how C programs find the installed library
  clang-format-19 clang-tidy-19 # names and format of the code
  python3-dev python3-pip python3-venv # the Python package, built and installed
)

# NVIDIA's wheels, unpacked; CMake searches here, too.
wheels=${XDG_DATA_HOME:-${HOME:-/root}/.local/share}/kiln
wheelToolkit=$wheels/cuda-13.0
wheelDisassembler=$wheels/nvdisasm-13.2
# The wheels with which the Python package is built and tested.
pythonWheels=$wheels/python-wheels

# Further arguments of `cmake --preset`; findCuda sets them.
cmakeOptions=()

# ensurePackages NAME...: installs the Debian packages that are missing.
ensurePackages() {
  if ! command -v dpkg-query >/dev/null; then
    say "Not a Debian system: expecting what these packages hold to be there: $*"
    return
  fi
  local package missing=()
  for package in "$@"; do
    [[ $(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || missing+=("$package")
  done
  if ((${#missing[@]} == 0)); then
    say "All $# packages are installed."
    return
  fi
  say "Installing ${missing[*]}"
  installPackages "${missing[@]}" || fail "apt-get could not install the packages" "Install by hand: ${missing[*]}"
}

installPackages() {
  local asRoot=()
  if ((EUID != 0)); then
    command -v sudo >/dev/null ||
      fail "packages are missing, and installing them needs root" "As root: apt-get install --no-install-recommends $*"
    asRoot=(sudo)
  fi
  "${asRoot[@]}" apt-get update -qq
  "${asRoot[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$@" >/dev/null
}

# findCuda: chooses a CUDA toolkit, fetches NVIDIA's wheels if there is none, and tells CMake.
findCuda() {
  local wanted=${KILN_CUDA:-auto} installed
  case $wanted in
  auto)
    if installed=$(installedToolkit); then
      say "CUDA toolkit: $installed"
      return
    fi
    fetchWheels
    ;;
  wheels)
    fetchWheels
    chooseToolkit "$wheelToolkit"
    ;;
  *)
    isToolkit "$wanted" || fail "KILN_CUDA: expected auto, wheels or the folder of a CUDA toolkit 13 or later, got $wanted"
    chooseToolkit "$wanted"
    ;;
  esac
}

# chooseToolkit FOLDER: makes the build use it, even if an earlier run has found another one.
chooseToolkit() {
  cmakeOptions+=(-U 'CUDA*' "-DCUDAToolkit_ROOT=$1")
  say "CUDA toolkit: $1"
}

# isToolkit FOLDER: whether it contains CUDA 13 or later.
isToolkit() {
  local release
  release=$("$1/bin/nvcc" --version 2>/dev/null | sed -n 's/.*release \([0-9]*\)\..*/\1/p') || return 1
  [[ -n $release ]] && ((release >= 13)) && [[ -e $1/include/nvrtc.h ]]
}

# installedToolkit: prints the folder of the toolkit that CMake will find.
installedToolkit() {
  local folder nvcc
  nvcc=$(command -v nvcc || true)
  for folder in "${CUDAToolkit_ROOT:-}" "${nvcc%/bin/nvcc}" "${CUDA_PATH:-}" /usr/local/cuda /usr/local/cuda-13*; do
    if [[ -n $folder ]] && isToolkit "$folder"; then
      say "$folder"
      return
    fi
  done
  return 1
}

# fetchWheels: makes a toolkit from NVIDIA's wheels, with the parts that this project needs.
fetchWheels() {
  if isToolkit "$wheelToolkit"; then
    say "CUDA toolkit from NVIDIA's wheels: $wheelToolkit"
    return
  fi
  say "No CUDA toolkit 13 found: fetching NVIDIA's wheels into $wheelToolkit (190 MB; licence: docs.nvidia.com/cuda/eula)"
  unpackWheels tools/lib/cuda-wheels.txt "$wheelToolkit" arrangeToolkit ||
    fail "cannot fetch NVIDIA's wheels from PyPI" "Or install the CUDA toolkit 13 from developer.nvidia.com/cuda-downloads."
  isToolkit "$wheelToolkit" || fail "NVIDIA's wheels do not make a toolkit in $wheelToolkit"
}

# ensureDisassembler: fetches NVIDIA's nvdisasm if there is none. One test reads machine code with it; without it, that
# test is skipped.
ensureDisassembler() {
  local toolkit
  toolkit=$(installedToolkit) || toolkit=$wheelToolkit
  if [[ -x $toolkit/bin/nvdisasm || -x $wheelDisassembler/bin/nvdisasm ]]; then
    return
  fi
  say "No nvdisasm found: fetching NVIDIA's wheel of it into $wheelDisassembler (5 MB)"
  unpackWheels tools/lib/test-wheels.txt "$wheelDisassembler" ||
    say "Cannot fetch it from PyPI: the test of machine code will be skipped."
}

# ensurePythonWheels: fetches what building and testing the Python package needs, for the interpreters that its test
# chooses. Without it, that test is skipped.
ensurePythonWheels() {
  local list=tools/lib/python-wheels.txt python version
  mkdir -p "$pythonWheels"
  for python in $(python3 tools/lib/pythons.py); do
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    # The copy of the list is written last: it says that all of it is there.
    if cmp -s "$list" "$pythonWheels/$version.txt"; then
      continue
    fi
    say "Fetching wheels for Python $version into $pythonWheels (35 MB)"
    "$python" -m pip --quiet --disable-pip-version-check download --dest "$pythonWheels" --no-deps \
      --only-binary :all: --require-hashes --requirement "$list" && cp "$list" "$pythonWheels/$version.txt" ||
      say "Cannot fetch them from PyPI: the test of the Python package will be skipped."
  done
}

# unpackWheels REQUIREMENTS FOLDER [ARRANGE]: unpacks wheels into FOLDER, which the function ARRANGE then arranges.
unpackWheels() {
  local parent stage
  python3 -m pip --version >/dev/null 2>&1 || ensurePackages python3-pip
  parent=$(dirname "$2")
  mkdir -p "$parent"
  stage=$(mktemp -d "$parent/fetch.XXXXXX")
  # An interrupted download must not leave something that looks complete.
  python3 -m pip --quiet --disable-pip-version-check install --target "$stage" --no-deps --no-compile \
    --only-binary :all: --require-hashes --requirement "$1" --root-user-action ignore || {
    rm -rf "$stage"
    return 1
  }
  [[ -z ${3:-} ]] || "$3" "$stage/nvidia/cu13"
  rm -rf "$2"
  mv "$stage/nvidia/cu13" "$2"
  rm -rf "$stage"
}

# arrangeToolkit FOLDER: adds the names by which compilers and CMake find libraries, which wheels lack.
arrangeToolkit() {
  local library
  ln -s lib "$1/lib64"
  for library in "$1"/lib/lib*.so.*; do
    ln -sf "$(basename "$library")" "${library%%.so.*}.so"
  done
}
