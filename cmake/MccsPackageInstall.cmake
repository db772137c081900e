# cmake --install build/package --component package --strip: the content of the package, in its directories.
#
#   bin/            programs; each NCCL program finds libnccl.so.2 in lib/, unless LD_LIBRARY_PATH names another one
#   lib/            what tenants preload: nothing else, since this directory may be in their LD_LIBRARY_PATH
#   lib/private/    libraries of mccsd
#   lib/emulation/  CUDA and NVML on host memory; no program has this run path

set(_package COMPONENT package EXCLUDE_FROM_ALL)
set(_programs mccsd mccs-controller mccsctl mccs-lab)
set(_nccl_programs call_latency collective_perf communicator_init conformance dead_peer graph_replays one_process_all_gpus
    one_rank_per_process steady_job)

# All targets of the package.
add_custom_target(package_content DEPENDS ${_programs} ${_nccl_programs} cuda_probe mccs_nccl mccs_free_hooks
  mccs_emulated_cuda mccs_emulated_cudart mccs_emulated_nvml)

# DT_RPATH, because libhwloc finds its libudev by the run path of the program.
set_target_properties(mccsd PROPERTIES INSTALL_RPATH "$ORIGIN/../lib/private")
target_link_options(mccsd PRIVATE "LINKER:--disable-new-dtags")
set_target_properties(${_nccl_programs} PROPERTIES INSTALL_RPATH "$ORIGIN/../lib")
install(TARGETS ${_programs} ${_nccl_programs} cuda_probe RUNTIME DESTINATION bin ${_package})
install(TARGETS mccs_nccl mccs_free_hooks LIBRARY DESTINATION lib NAMELINK_SKIP ${_package})
install(TARGETS mccs_emulated_cuda mccs_emulated_cudart mccs_emulated_nvml LIBRARY DESTINATION lib/emulation ${_package})

foreach(_name libhwloc.so.15 libudev.so.1)
  find_file(_library ${_name} PATHS /usr/lib /lib PATH_SUFFIXES ${CMAKE_LIBRARY_ARCHITECTURE} NO_CACHE REQUIRED)
  file(REAL_PATH "${_library}" _file)
  install(PROGRAMS "${_file}" DESTINATION lib/private RENAME ${_name} ${_package})
  unset(_library)
endforeach()

install(DIRECTORY shim/include/ DESTINATION include ${_package})
install(DIRECTORY deploy DESTINATION . USE_SOURCE_PERMISSIONS ${_package})
install(DIRECTORY examples DESTINATION . USE_SOURCE_PERMISSIONS ${_package} PATTERN CMakeLists.txt EXCLUDE PATTERN __pycache__ EXCLUDE)
install(DIRECTORY "${MCCS_OUTPUT_DIR}/share/rdma_vms" DESTINATION share USE_SOURCE_PERMISSIONS ${_package} PATTERN __pycache__ EXCLUDE)
install(PROGRAMS scripts/gpu-check DESTINATION bin ${_package})
install(DIRECTORY tools/gpu_check DESTINATION share USE_SOURCE_PERMISSIONS ${_package} PATTERN __pycache__ EXCLUDE)
install(FILES LICENSE DESTINATION . ${_package})
install(FILES tools/package/README.md DESTINATION . ${_package})
