# All dependencies of the project, each found once. tools/quickstart installs those that are missing.

find_package(LLVM 19.1 REQUIRED CONFIG)
add_library(kiln_llvm INTERFACE)
target_include_directories(kiln_llvm SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS})
target_link_libraries(kiln_llvm INTERFACE LLVMSupport)

find_package(Threads REQUIRED)

# Static: programs then run on machines without this library.
set(Boost_USE_STATIC_LIBS ON)
find_package(Boost 1.74 REQUIRED COMPONENTS context)
find_package(Eigen3 3.4 REQUIRED NO_MODULE)

# The tokenizer's Unicode classes. Debian's package has no CMake file; pkg-config is not needed for one header
# and one library.
find_path(UTF8PROC_INCLUDE_DIR utf8proc.h REQUIRED)
# The static library if there is one: programs then run on machines without it.
find_library(UTF8PROC_LIBRARY NAMES libutf8proc.a utf8proc REQUIRED)
add_library(kiln_utf8proc INTERFACE)
target_include_directories(kiln_utf8proc SYSTEM INTERFACE ${UTF8PROC_INCLUDE_DIR})
target_link_libraries(kiln_utf8proc INTERFACE ${UTF8PROC_LIBRARY})

# Header-only; the command lines of the programs.
find_package(CLI11 REQUIRED)
add_library(kiln_cli11 INTERFACE)
target_link_libraries(kiln_cli11 INTERFACE CLI11::CLI11)

# The folder into which tools/quickstart and tools/test unpack NVIDIA's wheels (tools/lib/dependencies.sh).
if(DEFINED ENV{XDG_DATA_HOME})
  set(KILN_WHEELS "$ENV{XDG_DATA_HOME}/kiln")
else()
  set(KILN_WHEELS "$ENV{HOME}/.local/share/kiln")
endif()

# CUDA: an installed toolkit, else NVIDIA's wheels.
find_package(CUDAToolkit 13 QUIET)
if(NOT CUDAToolkit_FOUND)
  set(CUDAToolkit_ROOT "${KILN_WHEELS}/cuda-13.0")
  unset(CUDAToolkit_BIN_DIR CACHE) # of a toolkit that is too old
  unset(CUDAToolkit_NVCC_EXECUTABLE CACHE)
  find_package(CUDAToolkit 13 REQUIRED)
endif()

# NVRTC: its header at build time. Programs load the library when they need it, from here or the library path.
get_filename_component(KILN_NVRTC_FOLDER ${CUDA_nvrtc_LIBRARY} DIRECTORY)
add_library(kiln_nvrtc INTERFACE)
target_include_directories(kiln_nvrtc SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS})
target_compile_definitions(kiln_nvrtc INTERFACE
  KILN_NVRTC_MAJOR=${CUDAToolkit_VERSION_MAJOR} KILN_NVRTC_FOLDER="${KILN_NVRTC_FOLDER}")
target_link_libraries(kiln_nvrtc INTERFACE ${CMAKE_DL_LIBS})

# cuBLASLt: its header at build time, if there is one (NVIDIA's compiler wheels have none). Programs load the library
# when a plan needs it.
add_library(kiln_cublaslt INTERFACE)
find_file(KILN_CUBLASLT_HEADER cublasLt.h PATHS ${CUDAToolkit_INCLUDE_DIRS} NO_DEFAULT_PATH)
if(KILN_CUBLASLT_HEADER)
  target_compile_definitions(kiln_cublaslt INTERFACE KILN_CUBLASLT_FOLDER="${KILN_NVRTC_FOLDER}")
endif()

# NVTX, ranges for profilers: header-only, if it is there (NVIDIA's compiler wheels have none).
add_library(kiln_nvtx INTERFACE)
find_file(KILN_NVTX_HEADER nvtx3/nvToolsExt.h PATHS ${CUDAToolkit_INCLUDE_DIRS} NO_DEFAULT_PATH)
if(KILN_NVTX_HEADER)
  target_include_directories(kiln_nvtx SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS})
  target_compile_definitions(kiln_nvtx INTERFACE KILN_HAS_NVTX)
  target_link_libraries(kiln_nvtx INTERFACE ${CMAKE_DL_LIBS})
endif()

# The CUDA runtime, statically.
add_library(kiln_cudart INTERFACE)
target_include_directories(kiln_cudart SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS})
target_link_libraries(kiln_cudart INTERFACE CUDA::cudart_static)
