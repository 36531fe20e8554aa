// Default options of the sanitizers for programs that are built with them (KILN_SANITIZE). ASAN_OPTIONS and
// UBSAN_OPTIONS override them.

/// KilnTargets.cmake refers to this symbol, so that the linker takes this file out of its archive.
extern "C" const char kilnSanitizerOptions = 0;

/// use_sigaltstack=0: LLVM's support library allocates a signal stack on the heap for the first thread that writes a
/// file. When that thread ends, AddressSanitizer would unmap it in place of its own.
/// intercept_tls_get_addr=0: the leak check takes a thread-local block 16 bytes after the start of a page for one of a
/// C library of 2014, and reads a size in front of it. Every emulated kernel's library has such a block, so one soon
/// lies there.
/// detect_stack_use_after_return=0 is GCC's default but not Clang's: threads of emulated kernels pass each other
/// addresses of local variables, which must lie on the emulator's stacks.
// NOLINTNEXTLINE(readability-identifier-naming): the sanitizer's name
extern "C" [[gnu::visibility("default")]] const char *__asan_default_options() {
  return "use_sigaltstack=0:intercept_tls_get_addr=0:detect_stack_use_after_return=0";
}

/// print_stacktrace=1 shows which kernel called the template with the error.
// NOLINTNEXTLINE(readability-identifier-naming): the sanitizer's name
extern "C" [[gnu::visibility("default")]] const char *__ubsan_default_options() { return "print_stacktrace=1"; }
