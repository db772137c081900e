# What comes from Debian's packages (scripts/setup installs them) and from the CUDA toolkit.

find_package(Threads REQUIRED)
find_package(absl REQUIRED)
find_package(GTest REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(HWY REQUIRED IMPORTED_TARGET libhwy)
find_package(spdlog REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(CLI11 REQUIRED)
find_package(Protobuf REQUIRED)
if(MCCS_WITH_GRPC)
  find_package(gRPC CONFIG REQUIRED)
endif()

# CUDA: headers and the names that libcudart exports. Nothing of it is linked into our own programs.
set(_cuda_candidates "$ENV{CUDA_HOME}" /usr/local/cuda)
find_path(MCCS_CUDA_HOME include/cuda_runtime.h PATHS ${_cuda_candidates} NO_DEFAULT_PATH)
if(NOT MCCS_CUDA_HOME)
  message(FATAL_ERROR "no CUDA toolkit: looked for include/cuda_runtime.h under CUDA_HOME "
                      "('$ENV{CUDA_HOME}') and /usr/local/cuda; set CUDA_HOME to a toolkit of CUDA 13.0")
endif()
add_library(mccs_cuda_headers INTERFACE)
target_include_directories(mccs_cuda_headers SYSTEM INTERFACE "${MCCS_CUDA_HOME}/include")
