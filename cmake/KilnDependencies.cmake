# Everything the project takes from outside, found once. tools/quickstart installs what is missing.

find_package(LLVM 19.1 REQUIRED CONFIG)
add_library(kiln_llvm INTERFACE)
target_include_directories(kiln_llvm SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS})
target_link_libraries(kiln_llvm INTERFACE LLVMSupport)

find_package(Threads REQUIRED)

find_package(Boost 1.74 REQUIRED COMPONENTS context)
find_package(Eigen3 3.4 REQUIRED NO_MODULE)
