// One MemOp in parts of a bounded size, for an owner that has other things to do between them.
#ifndef MCCS_SERVICE_DEVICE_MEM_OP_PARTS_H_
#define MCCS_SERVICE_DEVICE_MEM_OP_PARTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "service/device/mem_op.h"

namespace mccs {

// THREAD: one at a time.
class MemOpParts {
 public:
  // Read and written by one part. A processor needs some tens of microseconds for them.
  static constexpr size_t kPartBytes = 256 << 10;

  // REQUIRES: done().
  void Begin(const MemOp& op);
  // The next part, in the order of the elements. Valid until the next call. REQUIRES: !done().
  MemOp Next();
  // Every element was part of what Next gave.
  bool done() const { return begun_ == op_.elements; }

 private:
  MemOp op_;
  uint64_t begun_ = 0;  // elements that Next gave
  std::vector<MemSource> sources_;
  std::vector<std::byte*> destinations_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_DEVICE_MEM_OP_PARTS_H_
