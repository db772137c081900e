# Dependencies from Debian packages (scripts/setup installs them) and from the CUDA toolkit.

find_package(Threads REQUIRED)
find_package(absl REQUIRED)
find_package(GTest REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(HWY REQUIRED IMPORTED_TARGET libhwy)
find_package(spdlog REQUIRED)
set(MCCS_SPDLOG spdlog::spdlog)
find_package(yaml-cpp REQUIRED)
find_package(CLI11 REQUIRED)
find_package(Protobuf REQUIRED)
find_package(utf8cpp REQUIRED)
if(MCCS_WITH_GRPC)
  find_package(gRPC CONFIG REQUIRED)
  find_package(SQLite3 REQUIRED)
  pkg_check_modules(HWLOC REQUIRED IMPORTED_TARGET hwloc)
  find_path(DTL_INCLUDE_DIR dtl/dtl.hpp REQUIRED)  # libdtl-dev has no CMake or pkg-config file
  find_package(nlohmann_json REQUIRED)
  pkg_check_modules(CJOSE REQUIRED IMPORTED_TARGET cjose)
  pkg_check_modules(PROMETHEUS REQUIRED IMPORTED_TARGET prometheus-cpp-pull prometheus-cpp-core)
endif()

# CUDA: headers and the names that libcudart exports. MCCS programs do not link CUDA libraries. Runs at each
# configuration, so that a build directory follows CUDA_HOME.
execute_process(COMMAND "${PROJECT_SOURCE_DIR}/scripts/cuda_home"
  OUTPUT_VARIABLE MCCS_CUDA_HOME OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_VARIABLE _cuda_error RESULT_VARIABLE _cuda_result)
if(_cuda_result)
  message(FATAL_ERROR "${_cuda_error}")
endif()
unset(MCCS_CUDA_HOME CACHE)  # older build directories cached it
add_library(mccs_cuda_headers INTERFACE)
target_include_directories(mccs_cuda_headers SYSTEM INTERFACE "${MCCS_CUDA_HOME}/include")
