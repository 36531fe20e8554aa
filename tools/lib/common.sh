# Helpers for tools/quickstart and tools/test: messages, configuring, building. Sourced; it changes into the root of the
# source tree, so that the scripts work from anywhere.

cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
root=$PWD
programName=$(basename "$0")

# step TEXT: announces the next step.
step() { printf '\n== %s\n' "$*"; }

# say TEXT...: prints one line for each.
say() { printf '%s\n' "$@"; }

# show COMMAND ARGUMENT...: prints a command as a user would type it, then runs it.
show() {
  printf '$'
  printf ' %q' "$@"
  printf '\n'
  "$@"
}

# fail TEXT HINT...: prints an error, with a line for each hint, and ends the script.
fail() {
  printf '%s: error: %s\n' "$programName" "$1" >&2
  shift
  (($# == 0)) || printf '  %s\n' "$@" >&2
  exit 1
}

# Reports the place of a command that fails unexpectedly, also within a function (-E). What fails in a subshell is reported
# by the command around it.
set -E
trap '((BASH_SUBSHELL)) || printf "%s: error: %s, line %s failed: %s\n" "$programName" "${BASH_SOURCE[0]}" "$LINENO" "$BASH_COMMAND" >&2' ERR

# build PRESET TARGET...: configures and builds the targets, or everything. Call findCuda (dependencies.sh) first.
build() {
  local preset=$1 targets=() quiet=()
  shift
  (($# == 0)) || targets=(--target "$@")
  # On a terminal, ninja uses one line; a log should not contain its progress.
  [[ -t 1 ]] || quiet=(-- --quiet)

  mkdir -p build
  local log=build/configure-$preset.log
  cmake --preset "$preset" "${cmakeOptions[@]}" >"$log" 2>&1 || {
    cat "$log" >&2
    fail "cannot configure preset $preset" "If the source tree has moved, remove $root/build/$preset and try again."
  }
  say "Building preset $preset into build/$preset, $(nproc) jobs; the first time takes minutes."
  local start=$SECONDS
  cmake --build "build/$preset" "${targets[@]}" "${quiet[@]}" || fail "the build failed; the compiler's messages are above"
  say "Built in $((SECONDS - start)) s."
}
