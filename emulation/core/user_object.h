// Objects of the program that live as long as graphs refer to them (cuUserObjectCreate).
//
// A destructor is code of the program. It never runs inside a CUDA call, so that the caller may
// hold any lock. A thread of the emulation runs it (GraphState::Release).
#ifndef MCCS_EMULATION_CORE_USER_OBJECT_H_
#define MCCS_EMULATION_CORE_USER_OBJECT_H_

#include <cuda.h>

#include <atomic>
#include <map>
#include <memory>
#include <vector>

namespace mccs::emulation {

struct UserObject {
  void* pointer = nullptr;
  CUhostFn destroy = nullptr;
  std::atomic<uint64_t> references{0};
};

// References that one graph or executable graph holds. Copying this object does not count them.
class UserReferences {
 public:
  void Add(const std::shared_ptr<UserObject>& object, uint64_t count);
  // Returns false if fewer are held.
  bool Remove(const std::shared_ptr<UserObject>& object, uint64_t count);
  // Adds the same references for another holder.
  UserReferences Duplicate() const;
  bool empty() const { return counts_.empty(); }
  // Releases all references and returns the objects without remaining references.
  std::vector<std::shared_ptr<UserObject>> ReleaseAll();

 private:
  std::map<std::shared_ptr<UserObject>, uint64_t> counts_;
};

}  // namespace mccs::emulation

#endif  // MCCS_EMULATION_CORE_USER_OBJECT_H_
