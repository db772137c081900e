// The real libnccl.so.2 of this machine, opened next to this library: its names bind to itself
// first and are not visible to others.
#ifndef MCCS_SHIM_API_REAL_LIBRARY_H_
#define MCCS_SHIM_API_REAL_LIBRARY_H_

#include <string>

#include "absl/status/statusor.h"

namespace mccs::shim {

class RealLibrary {
 public:
  // MCCS_NCCL_PATH if it is set; else the next libnccl.so.2 in the directories that the dynamic
  // linker searches for the program and for every loaded library. Errors: kNotFound with the
  // reason. The library is never closed.
  static absl::StatusOr<RealLibrary> Open();

  // Null: the library lacks the function.
  void (*Find(const char* name) const)();
  const std::string& path() const { return path_; }

 private:
  RealLibrary(void* handle, std::string path) : handle_(handle), path_(std::move(path)) {}
  static absl::StatusOr<RealLibrary> OpenAt(const std::string& path);

  void* handle_;
  std::string path_;
};

}  // namespace mccs::shim

#endif  // MCCS_SHIM_API_REAL_LIBRARY_H_
