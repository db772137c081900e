# The build for the package (preset `package`, scripts/package): programs and libraries that need nothing but glibc 2.34.
#
# Dependencies come from Debian's static archives. Those without an archive are compiled from the sources in
# MCCS_PACKAGE_SOURCES (tools/package/fetch_sources), or lie beside the programs in lib/private/ if they are written in
# C: hwloc and its libudev. Code is compiled with the options of the release build and stripped at installation.

set(MCCS_PACKAGE_SOURCES "${CMAKE_BINARY_DIR}/sources" CACHE PATH "Directory with the unpacked third-party sources")

# Replaces an imported target's shared library by its static archive, if there is one.
function(mccs_use_archive target)
  get_target_property(configurations ${target} IMPORTED_CONFIGURATIONS)
  set(properties IMPORTED_LOCATION)
  foreach(configuration ${configurations})
    list(APPEND properties IMPORTED_LOCATION_${configuration})
  endforeach()
  foreach(property ${properties})
    get_target_property(location ${target} ${property})
    string(REGEX REPLACE "\\.so[.0-9]*$" ".a" archive "${location}")
    if(NOT archive STREQUAL location AND EXISTS "${archive}")
      set_target_properties(${target} PROPERTIES ${property} "${archive}")
    endif()
  endforeach()
endfunction()

get_directory_property(_imported IMPORTED_TARGETS)
foreach(_target ${_imported})
  get_target_property(_type ${_target} TYPE)
  if(_type MATCHES "^(SHARED|UNKNOWN)_LIBRARY$" AND NOT _target MATCHES "^(GTest|benchmark)::")
    mccs_use_archive(${_target})
  endif()
endforeach()

set_target_properties(re2::re2 PROPERTIES INTERFACE_LINK_LIBRARIES "")  # -lre2, which prefers the shared library
find_library(_cjose NAMES libcjose.a NO_CACHE REQUIRED)
find_library(_jansson NAMES libjansson.a NO_CACHE REQUIRED)
set_target_properties(PkgConfig::CJOSE PROPERTIES INTERFACE_LINK_LIBRARIES "${_cjose};${_jansson}")

# Debian's targets describe shared libraries: their dependencies are neither complete nor in the order of archives.
# So each link ends with all archives as a group. The linker takes from it what is still undefined.
set(_archives "")
foreach(_name grpc++ grpc gpr address_sorting upb re2 cares ssl crypto protobuf z)
  find_library(_archive NAMES lib${_name}.a NO_CACHE REQUIRED)
  list(APPEND _archives "${_archive}")
  unset(_archive)
endforeach()
get_filename_component(_directory "${_archives}" DIRECTORY)
file(GLOB _absl "${_directory}/libabsl_*.a")
list(JOIN _archives " " _archives)
list(JOIN _absl " " _absl)
string(APPEND CMAKE_CXX_STANDARD_LIBRARIES " -Wl,--start-group ${_archives} ${_absl} -Wl,--end-group")

# Compiled here, because Debian has only shared libraries of them.
add_library(mccs_package_highway STATIC "${MCCS_PACKAGE_SOURCES}/highway-1.0.3/hwy/targets.cc")
set_target_properties(PkgConfig::HWY PROPERTIES INTERFACE_LINK_LIBRARIES mccs_package_highway)

# prometheus-cpp needs neither TLS, nor CGI, nor files of the server.
set(_civetweb "${MCCS_PACKAGE_SOURCES}/civetweb-1.15")
set(_prometheus "${MCCS_PACKAGE_SOURCES}/prometheus-cpp-1.0.1")
file(GLOB _prometheus_sources CONFIGURE_DEPENDS
  "${_prometheus}/core/src/*.cc" "${_prometheus}/core/src/detail/*.cc" "${_prometheus}/pull/src/*.cc")
add_library(mccs_package_prometheus STATIC
  ${_prometheus_sources} "${_civetweb}/src/civetweb.c" "${_civetweb}/src/CivetServer.cpp")
target_include_directories(mccs_package_prometheus SYSTEM BEFORE PRIVATE "${_civetweb}/include" "${_prometheus}/pull/src")
target_include_directories(mccs_package_prometheus PRIVATE "${_prometheus}/core/src")
target_compile_definitions(mccs_package_prometheus PRIVATE HAVE_ZLIB NO_SSL NO_CGI NO_FILES NO_CACHING)
set_target_properties(PkgConfig::PROMETHEUS PROPERTIES INTERFACE_LINK_LIBRARIES mccs_package_prometheus)

foreach(_library mccs_package_highway mccs_package_prometheus)
  set_target_properties(${_library} PROPERTIES UNITY_BUILD OFF)
  target_compile_options(${_library} PRIVATE -w)
endforeach()

# spdlog and fmt as headers alone.
add_library(mccs_package_spdlog INTERFACE)
target_compile_definitions(mccs_package_spdlog INTERFACE SPDLOG_FMT_EXTERNAL FMT_HEADER_ONLY)
set(MCCS_SPDLOG mccs_package_spdlog)

# Functions of glibc that are newer than 2.34, and options of every program and shared library.
add_library(mccs_glibc_compat OBJECT "${PROJECT_SOURCE_DIR}/tools/package/glibc_compat.c")
set_target_properties(mccs_glibc_compat PROPERTIES UNITY_BUILD OFF)
add_library(mccs_package_link INTERFACE)
foreach(_type EXECUTABLE SHARED_LIBRARY)
  target_sources(mccs_package_link INTERFACE
    $<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,${_type}>:$<TARGET_OBJECTS:mccs_glibc_compat>>)
endforeach()
target_link_options(mccs_package_link INTERFACE -static-libstdc++ -static-libgcc "LINKER:--gc-sections")
link_libraries(mccs_package_link)
