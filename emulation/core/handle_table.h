// The live objects of one kind of CUDA handle. Invalid and destroyed handles are detected, never
// dereferenced.
#ifndef MCCS_EMULATION_CORE_HANDLE_TABLE_H_
#define MCCS_EMULATION_CORE_HANDLE_TABLE_H_

#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace mccs::emulation {

// THREAD: any; one lock inside.
template <typename Object>
class HandleTable {
 public:
  // Returns the handle, which is the object's address.
  void* Insert(std::shared_ptr<Object> object) {
    void* handle = object.get();
    std::lock_guard lock(mutex_);
    objects_.emplace(handle, std::move(object));
    return handle;
  }
  std::shared_ptr<Object> Find(const void* handle) const {
    std::lock_guard lock(mutex_);
    const auto found = objects_.find(handle);
    return found == objects_.end() ? nullptr : found->second;
  }
  std::shared_ptr<Object> Remove(const void* handle) {
    std::lock_guard lock(mutex_);
    const auto found = objects_.find(handle);
    if (found == objects_.end()) return nullptr;
    std::shared_ptr<Object> object = std::move(found->second);
    objects_.erase(found);
    return object;
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<const void*, std::shared_ptr<Object>> objects_;
};

}  // namespace mccs::emulation

#endif  // MCCS_EMULATION_CORE_HANDLE_TABLE_H_
