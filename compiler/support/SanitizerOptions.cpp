// How the sanitizers run in programs that are built with them (KILN_SANITIZE); ASAN_OPTIONS and UBSAN_OPTIONS come on
// top.

/// Asked for by KilnTargets.cmake, so that the linker takes this file out of its archive.
extern "C" const char kilnSanitizerOptions = 0;

/// use_sigaltstack=0: LLVM's support library gives the thread that first writes a file a stack for signals from the
/// heap, and AddressSanitizer would unmap that in the place of its own when the thread ends.
/// intercept_tls_get_addr=0: the leak check takes a thread-local block that lies 16 bytes behind the start of a page
/// for one of a C library of 2014, whose size stands in front of it. Every emulated kernel's library has a block, and
/// one of them lies there soon.
/// detect_stack_use_after_return=0, which is GCC's default and not Clang's: threads of emulated kernels hand each other
/// addresses of local variables, which are to be on the stacks that the emulator gives them.
// NOLINTNEXTLINE(readability-identifier-naming): the sanitizer's name
extern "C" const char *__asan_default_options() {
  return "use_sigaltstack=0:intercept_tls_get_addr=0:detect_stack_use_after_return=0";
}

/// print_stacktrace=1: which kernel called the template that is at fault.
// NOLINTNEXTLINE(readability-identifier-naming): the sanitizer's name
extern "C" const char *__ubsan_default_options() { return "print_stacktrace=1"; }
