// What ncclCommRegister and ncclCommWindowRegister gave out for one communicator.
//
// Buffers are exported when they are first used. A registration keeps their exports for as long as
// it lasts, however long nobody uses them, and its end takes them back. Its handle is an opaque
// number that is looked up and never followed.
#ifndef MCCS_SHIM_REGISTRATIONS_H_
#define MCCS_SHIM_REGISTRATIONS_H_

#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "shim/buffer_export.h"

namespace mccs::shim {

// THREAD: any.
class Registrations {
 public:
  enum class Kind { kBuffer, kWindow };

  // LIFETIME: `exports` outlives this.
  explicit Registrations(BufferExports& exports) : exports_(exports) {}
  // Those that are left end; their exports go when their leases end.
  ~Registrations();

  // A new handle, never null; the range is the caller's. `window`: its number among the windows of
  // the communicator, where it is one.
  void* Add(Kind kind, const AddressRange& range, uint64_t window = 0);
  // False for a handle that is not registered (any more), or as the other kind. Returns after the
  // daemon's last access to what nothing else keeps; bounded as BufferExports::LetGo.
  bool Remove(Kind kind, void* handle);
  struct Entry {
    Kind kind;
    AddressRange range;  // the caller's
    uint64_t window;
  };
  // Empty likewise.
  std::optional<Entry> Find(Kind kind, void* handle) const;

  // Held while a window gets its number and the daemon is told of it: the daemon hears of windows
  // in the order of their numbers.
  std::mutex& window_mutex() { return window_mutex_; }
  // The newest window's number, of those too whose registration failed; guarded by window_mutex().
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

#endif  // MCCS_SHIM_REGISTRATIONS_H_
