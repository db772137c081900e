// The real libnccl.so.2 of this machine, opened beside ourselves: its names bind to itself first
// and are seen by nobody else.
#ifndef MCCS_SHIM_REAL_LIBRARY_H_
#define MCCS_SHIM_REAL_LIBRARY_H_

#include <string>

#include "absl/status/statusor.h"

namespace mccs::shim {

class RealLibrary {
 public:
  // MCCS_NCCL_PATH where it is set; else the next libnccl.so.2 after ourselves in the folders where
  // the dynamic linker looks on behalf of the program and of every library that it has loaded.
  // kNotFound with the reason. The library stays open for the process's life.
  static absl::StatusOr<RealLibrary> Open();

  // Null: the library has no such function.
  void (*Find(const char* name) const)();
  const std::string& path() const { return path_; }

 private:
  RealLibrary(void* handle, std::string path) : handle_(handle), path_(std::move(path)) {}
  static absl::StatusOr<RealLibrary> OpenAt(const std::string& path);

  void* handle_;
  std::string path_;
};

}  // namespace mccs::shim

#endif  // MCCS_SHIM_REAL_LIBRARY_H_
