#include "service/messages/device_copy.h"

#include <algorithm>

namespace mccs {

DeviceCopy::DeviceCopy(const Job& job, uint32_t* in_flight) : job_(job) {
  // In-place: nothing to copy.
  if (job_.from == job_.to) submitted_ = job_.bytes;
  for (Part& part : parts_) part.mem_ops.owner_outstanding = in_flight;
}

bool DeviceCopy::Advance(Device& device, bool* moved) {
  bool idle = true;
  for (Part& part : parts_) {
    if (part.mem_ops.outstanding == 0 && submitted_ < job_.bytes) {
      const uint64_t bytes = std::min(kPartBytes, job_.bytes - submitted_);
      part.source = {.address = job_.from + submitted_};
      part.destination = job_.to + submitted_;
      const MemOp op{.sources = {&part.source, 1},
                     .destinations = {&part.destination, 1},
                     .elements = bytes,
                     .type = DataType::kInt8};
      if (!part.mem_ops.Submit(device, op)) return false;
      submitted_ += bytes;
      *moved = true;
    }
    idle &= part.mem_ops.outstanding == 0;
  }
  return idle && submitted_ == job_.bytes;
}

}  // namespace mccs
