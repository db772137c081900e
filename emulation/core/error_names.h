// Names and messages of CUDA's errors. Driver and runtime have one list each, which
// names/generate.py generates from CUDA's headers.
#ifndef MCCS_EMULATION_CORE_ERROR_NAMES_H_
#define MCCS_EMULATION_CORE_ERROR_NAMES_H_

#include <span>

namespace mccs::emulation {

struct ErrorName {
  int value;
  const char* name;
  const char* text;
};

// Returns null if `value` is not an error code.
inline const ErrorName* FindError(std::span<const ErrorName> errors, int value) {
  for (const ErrorName& error : errors) {
    if (error.value == value) return &error;
  }
  return nullptr;
}

}  // namespace mccs::emulation

#endif  // MCCS_EMULATION_CORE_ERROR_NAMES_H_
