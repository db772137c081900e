# Compiler settings, and functions that declare libraries, programs and tests.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${MCCS_OUTPUT_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${MCCS_OUTPUT_DIR}/lib")
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo)
endif()
# Sanitized code is compiled in two thirds of the time at -O1, and only tests run it.
set(MCCS_OPTIMIZATION "-O2")
if(MCCS_SANITIZE)
  set(MCCS_OPTIMIZATION "-O1")
endif()
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "${MCCS_OPTIMIZATION} -g1")
set(CMAKE_C_FLAGS_RELWITHDEBINFO "${MCCS_OPTIMIZATION} -g1")

# MCCS_TEST_OPTIONS: for the sources of tests. They skip the three checks that take half of their compile time: these guard
# each access to a member, here in code that no user runs.
# MCCS_NOT_HOT_OPTIONS: for code that runs once per command or request (mccs_not_hot). With sanitizers it also skips these
# checks, and is not optimized: half of the compile time.
set(MCCS_TEST_OPTIONS -g0)
set(MCCS_NOT_HOT_OPTIONS -O1)
if(MCCS_SANITIZE)
  set(MCCS_TEST_OPTIONS "")
  set(MCCS_NOT_HOT_OPTIONS -O0)
endif()
if(MCCS_SANITIZE MATCHES undefined)
  list(APPEND MCCS_TEST_OPTIONS -fno-sanitize=null,vptr,alignment)
  list(APPEND MCCS_NOT_HOT_OPTIONS -fno-sanitize=null,vptr,alignment)
endif()

# -Wno-psabi: no notes about the ABI of GCC 4.5; all of MCCS is compiled by one compiler.
add_compile_options(-fno-omit-frame-pointer)
if(NOT MCCS_FUZZ)
  add_compile_options(-Wall -Wextra -Werror -Wno-psabi)
endif()
if(MCCS_SANITIZE)
  add_compile_options(-fsanitize=${MCCS_SANITIZE} -fno-sanitize-recover=all)
  add_compile_definitions(MCCS_SANITIZED)
  add_link_options(-fsanitize=${MCCS_SANITIZE})
endif()

if(MCCS_FUZZ)
  # Warnings are GCC's task. All code is optimized: inputs per second count. The last two options: for the coverage in
  # lines, since libFuzzer's edges include the branches of the sanitizers.
  add_compile_options(-w -fsanitize=fuzzer-no-link -fprofile-instr-generate -fcoverage-mapping)
  add_link_options(-fprofile-instr-generate)
  set(MCCS_NOT_HOT_OPTIONS -O1)
  set(MCCS_TEST_OPTIONS -O1)
endif()

# Unity builds: most of the compile time goes into headers that the sources of a target share. OFF checks that each file
# includes what it needs.
option(MCCS_UNITY "Compile several source files of a target together" ON)
set(CMAKE_UNITY_BUILD ${MCCS_UNITY})
set(CMAKE_UNITY_BUILD_BATCH_SIZE 16)
if(MCCS_UNITY AND NOT MCCS_FUZZ)
  # False alarm in unity builds: GCC mistakes the anonymous namespace of an included source for one of a header.
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
endif()

find_program(CCACHE ccache)
if(CCACHE)
  # Paths relative to the tree, so that all clones share the cache.
  set(MCCS_LAUNCHER "${CMAKE_COMMAND}" -E env "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" CCACHE_NOHASHDIR=1 "${CCACHE}")
  set(CMAKE_C_COMPILER_LAUNCHER "${MCCS_LAUNCHER}")
  set(CMAKE_CXX_COMPILER_LAUNCHER "${MCCS_LAUNCHER}")
endif()

# mccs_library(NAME SOURCES ... [DEPS ...]): a static library; include paths start at the repository's root.
function(mccs_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  if(ARG_SOURCES)
    add_library(${name} STATIC ${ARG_SOURCES})
    target_include_directories(${name} PUBLIC "${PROJECT_SOURCE_DIR}")
    target_link_libraries(${name} PUBLIC ${ARG_DEPS})
  else()
    add_library(${name} INTERFACE)
    target_include_directories(${name} INTERFACE "${PROJECT_SOURCE_DIR}")
    target_link_libraries(${name} INTERFACE ${ARG_DEPS})
  endif()
endfunction()

# mccs_program(NAME SOURCES ... [DEPS ...]): an executable in bin/. What must be fast lies in libraries. With sanitizers its
# own sources are compiled as mccs_not_hot does; without, only if mccs_not_hot says so, since the linker may take an inline
# function of a library from here.
function(mccs_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_link_libraries(${name} PRIVATE ${ARG_DEPS})
  if(MCCS_SANITIZE)
    mccs_not_hot(${name})
  endif()
endfunction()

# mccs_not_hot(TARGET...): compiles these targets faster, with fewer optimizations: their code runs once, per command or per
# request of an operator.
function(mccs_not_hot)
  foreach(target ${ARGN})
    target_compile_options(${target} PRIVATE ${MCCS_NOT_HOT_OPTIONS})
  endforeach()
endfunction()

# mccs_tests(PROGRAM SOURCES x_test.cc ... [SUPPORT file.cc ...] [DEPS ...] [LABELS ...] [PREFIX p] [TIMEOUT seconds]
# [OPTIMIZE]): a GoogleTest program in bin/tests/ with all tests of a directory. Each x_test.cc gets a ctest entry
# <p>x_test, which runs the suites of this file in a separate process. SUPPORT files contain no tests. The sources are
# compiled together: each has its own namespace, and suite names are unique within a program. They are optimized only with
# OPTIMIZE, for tests whose own loops take long.
#
# Labels: unit, contract, sim; tests with the additional label `engine` also run under TSan. The target tests_<label>
# builds all tests of a label.
function(mccs_tests program)
  cmake_parse_arguments(ARG "OPTIMIZE" "TIMEOUT;PREFIX" "SOURCES;SUPPORT;DEPS;LABELS" ${ARGN})
  add_executable(${program} ${ARG_SOURCES} ${ARG_SUPPORT})
  set_target_properties(${program} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${MCCS_OUTPUT_DIR}/bin/tests")
  target_include_directories(${program} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_compile_options(${program} PRIVATE $<IF:$<BOOL:${ARG_OPTIMIZE}>,-O1,-O0>)
  target_link_libraries(${program} PRIVATE ${ARG_DEPS} GTest::gmock GTest::gtest GTest::gtest_main)
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  # Only for tests that hang: long enough for sanitizers and busy machines.
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
    if(MCCS_SANITIZE)
      set(ARG_TIMEOUT 600)
    endif()
  endif()
  set(known "")
  foreach(source ${ARG_SOURCES})
    mccs_test_suites(suites "${CMAKE_CURRENT_SOURCE_DIR}/${source}")
    foreach(suite ${suites})
      if(suite IN_LIST known)
        message(FATAL_ERROR "${program}: the test suite ${suite} of ${source} is in another file, too; rename one of them")
      endif()
    endforeach()
    list(APPEND known ${suites})
    list(JOIN suites ":" filter)
    get_filename_component(stem "${source}" NAME_WE)
    set(name ${ARG_PREFIX}${stem})
    add_test(NAME ${name} COMMAND ${program} --gtest_filter=${filter} WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
    set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT}
      ENVIRONMENT "XML_OUTPUT_FILE=${CMAKE_BINARY_DIR}/test-results/${name}.xml")
  endforeach()
  list(JOIN known ":" filter)
  add_test(NAME ${program}_run_every_suite COMMAND ${program} --gtest_filter=-${filter})
  set_tests_properties(${program}_run_every_suite PROPERTIES LABELS "${ARG_LABELS}" PASS_REGULAR_EXPRESSION "Running 0 tests ")
  mccs_test_needs("${ARG_LABELS}" ${program})
endfunction()

# mccs_test_suites(VARIABLE FILE): the suites of a source file as patterns for --gtest_filter.
function(mccs_test_suites variable file)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
  file(READ "${file}" text)
  set(found "")
  string(REGEX MATCHALL "\n(TEST|TEST_F)\\([A-Za-z0-9_]+," cases "${text}")
  foreach(case ${cases})
    string(REGEX REPLACE ".*\\(([A-Za-z0-9_]+),$" "\\1.*" suite "${case}")
    list(APPEND found "${suite}")
  endforeach()
  string(REGEX MATCHALL "\nINSTANTIATE_TEST_SUITE_P\\([ \n]*[A-Za-z0-9_]+,[ \n]*[A-Za-z0-9_]+," cases "${text}")
  foreach(case ${cases})
    string(REGEX REPLACE ".*\\([ \n]*([A-Za-z0-9_]+),[ \n]*([A-Za-z0-9_]+),$" "\\1/\\2.*" suite "${case}")
    list(APPEND found "${suite}")
  endforeach()
  list(REMOVE_DUPLICATES found)
  set(${variable} "${found}" PARENT_SCOPE)
endfunction()

# mccs_test_needs("LABEL;..." TARGET...): tests with these labels depend on these targets.
function(mccs_test_needs labels)
  foreach(label ${labels})
    if(NOT TARGET tests_${label})
      add_custom_target(tests_${label})
    endif()
    if(ARGN)
      add_dependencies(tests_${label} ${ARGN})
    endif()
  endforeach()
endfunction()
