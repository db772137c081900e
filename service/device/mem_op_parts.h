// Splits one MemOp into parts of bounded size, so that the owner can do other work in between.
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
  // Bytes read and written by one part: some tens of microseconds on a processor.
  static constexpr size_t kPartBytes = 256 << 10;

  // REQUIRES: done().
  void Begin(const MemOp& op);
  // The next part, in the order of the elements. Valid until the next call. REQUIRES: !done().
  MemOp Next();
  // Whether Next has returned all elements.
  bool done() const { return begun_ == op_.elements; }

 private:
  MemOp op_;
  uint64_t begun_ = 0;  // elements that Next has returned
  std::vector<MemSource> sources_;
  std::vector<std::byte*> destinations_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_DEVICE_MEM_OP_PARTS_H_
