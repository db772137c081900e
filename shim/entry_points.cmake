# Generates from entry_points.txt: own_names.h (each function's number, and the names of our implementations) and
# entry_points.inc (MCCS_ENTRY(number, name) for each function).
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
  "${CMAKE_CURRENT_SOURCE_DIR}/entry_points.txt")
file(STRINGS entry_points.txt _names REGEX "^[A-Za-z]")
set(_number 0)
set(_enum "")
set(_renames "")
set(_entries "")
foreach(_name ${_names})
  string(APPEND _enum "  kEntry_nccl${_name} = ${_number},\n")
  string(APPEND _renames "#define pnccl${_name} mccs_own_${_name}\n")
  string(APPEND _entries "MCCS_ENTRY(${_number}, ${_name})\n")
  math(EXPR _number "${_number} + 1")
endforeach()
file(CONFIGURE OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/generated/shim/own_names.h" @ONLY CONTENT
"// Made from shim/entry_points.txt.
#ifndef MCCS_SHIM_OWN_NAMES_H_
#define MCCS_SHIM_OWN_NAMES_H_

namespace mccs::shim {
enum EntryNumber : unsigned {
@_enum@  kEntries = @_number@,
};
}  // namespace mccs::shim

@_renames@
#endif  // MCCS_SHIM_OWN_NAMES_H_
")
file(CONFIGURE OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/generated/shim/entry_points.inc" @ONLY
  CONTENT "@_entries@")
