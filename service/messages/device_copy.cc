#include "service/messages/device_copy.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "service/device/gpu/kernel_queue.h"

namespace mccs {

absl::Status NotMapped(const OpenMessage& call) {
  return absl::InvalidArgumentError(absl::StrCat(
      Describe(call),
      " names memory on a GPU, which mccsd does not map; use the libnccl.so.2 of mccsd's release, "
      "which copies it to host memory"));
}

DeviceCopy::DeviceCopy(const Device& device, const Job& job, MemOpOwner* owner)
    : job_(job),
      mapped_(job.bytes == 0 || (IsMapped(device, job.from) && IsMapped(device, job.to))) {
  // In-place: nothing to copy.
  if (job_.from.region == job_.to.region && job_.from.offset == job_.to.offset)
    submitted_ = job_.bytes;
  for (Part& part : parts_) part.mem_ops.owner = owner;
}

bool DeviceCopy::IsPossible(const Device& device, const Job& job) {
  if (job.bytes == 0 || job.kernel.runs()) return true;
  return IsMapped(device, job.from) && (IsMapped(device, job.to) || job.process != nullptr);
}

bool DeviceCopy::Advance(Device& device, bool* moved) {
  return mapped_ ? AdvanceMapped(device, moved) : AdvanceUnmapped(device, moved);
}

bool DeviceCopy::AdvanceUnmapped(Device& device, bool* moved) {
  PendingMemOps& whole = parts_[0].mem_ops;
  if (submitted_ < job_.bytes) {
    whole.Submit(device, RegionCopy{.from = job_.from.Part(0, job_.bytes),
                                    .to = job_.to.Part(0, job_.bytes),
                                    .kernel = job_.kernel,
                                    .process = job_.process});
    submitted_ = job_.bytes;
    *moved = true;
  }
  return whole.outstanding == 0;
}

void DeviceCopy::Stop() {
  if (parts_[0].mem_ops.outstanding > 0 && job_.kernel.runs()) job_.kernel.queue->Stop();
}

bool DeviceCopy::AdvanceMapped(Device& device, bool* moved) {
  bool idle = true;
  for (Part& part : parts_) {
    if (part.mem_ops.outstanding == 0 && submitted_ < job_.bytes) {
      const uint64_t bytes = std::min(kPartBytes, job_.bytes - submitted_);
      part.source = {.address = job_.from.address() + submitted_};
      part.destination = job_.to.address() + submitted_;
      const MemOp op{.sources = {&part.source, 1},
                     .destinations = {&part.destination, 1},
                     .elements = bytes,
                     .type = DataType::kInt8,
                     .stream = job_.bytes >= kLargeBytes};
      if (!part.mem_ops.Submit(device, op)) return false;
      submitted_ += bytes;
      *moved = true;
    }
    idle &= part.mem_ops.outstanding == 0;
  }
  return idle && submitted_ == job_.bytes;
}

}  // namespace mccs
