// What ncclCommRegister and ncclCommWindowRegister gave out for one communicator.
//
// A registration is a promise of the caller and costs nothing here, because buffers are exported
// when they are first used. Its handle is an opaque number that is looked up and never followed.
#ifndef MCCS_SHIM_REGISTRATIONS_H_
#define MCCS_SHIM_REGISTRATIONS_H_

#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>

namespace mccs::shim {

// THREAD: any.
class Registrations {
 public:
  enum class Kind { kBuffer, kWindow };

  // A new handle, never null; `address` is the caller's.
  void* Add(Kind kind, void* address);
  // False for a handle that is not registered (any more), or as the other kind.
  bool Remove(Kind kind, void* handle);
  // The caller's address; empty likewise.
  std::optional<void*> AddressOf(Kind kind, void* handle) const;

 private:
  struct Entry {
    Kind kind;
    void* address;
  };

  mutable std::mutex mutex_;
  std::unordered_map<uintptr_t, Entry> entries_;  // by handle
  uintptr_t last_ = 0;
};

}  // namespace mccs::shim

#endif  // MCCS_SHIM_REGISTRATIONS_H_
