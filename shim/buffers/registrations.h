// The registrations of one communicator (ncclCommRegister, ncclCommWindowRegister).
//
// Buffers are exported at their first use. A registration keeps their exports, used or not, until
// it ends, and then releases them. Its handle is an opaque number that is looked up and never
// dereferenced.
#ifndef MCCS_SHIM_BUFFERS_REGISTRATIONS_H_
#define MCCS_SHIM_BUFFERS_REGISTRATIONS_H_

#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "shim/buffers/buffer_export.h"

namespace mccs::shim {

// THREAD: any.
class Registrations {
 public:
  enum class Kind { kBuffer, kWindow };

  // LIFETIME: `exports` outlives this.
  explicit Registrations(BufferExports& exports) : exports_(exports) {}
  // Ends the remaining registrations; their exports end with their leases.
  ~Registrations();

  // A new handle, never null; `range` is the caller's. `window`: its number among the
  // communicator's windows, if it is a window.
  void* Add(Kind kind, const AddressRange& range, uint64_t window = 0);
  // False for a handle that is not registered, or of the other kind. Returns after the daemon's
  // last access to memory that nothing else keeps; bounded as BufferExports::ReleaseRange.
  bool Remove(Kind kind, void* handle);
  struct Entry {
    Kind kind;
    AddressRange range;  // the caller's
    uint64_t window;
  };
  // Of the registered windows.
  std::vector<AddressRange> WindowRanges() const;
  // Empty for such a handle.
  std::optional<Entry> Find(Kind kind, void* handle) const;

  // Held from the assignment of a window's number until it is sent, so that the daemon gets windows
  // in the order of their numbers.
  std::mutex& window_mutex() { return window_mutex_; }
  // The newest window's number, including failed registrations; guarded by window_mutex().
  uint64_t& last_window() { return last_window_; }

 private:
  BufferExports& exports_;
  mutable std::mutex mutex_;
  std::unordered_map<uintptr_t, Entry> entries_;  // by handle
  uintptr_t last_ = 0;
  std::mutex window_mutex_;
  uint64_t last_window_ = 0;
};

}  // namespace mccs::shim

#endif  // MCCS_SHIM_BUFFERS_REGISTRATIONS_H_
