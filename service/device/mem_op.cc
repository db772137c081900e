#include "service/device/mem_op.h"

#include <algorithm>

#include "base/check.h"

namespace mccs {
namespace {

// A part consists of whole vectors of the widest registers, for any type.
constexpr uint64_t kElementsAtOnce = 64;

}  // namespace

void MemOpParts::Begin(const MemOp& op) {
  MCCS_CHECK(done());
  op_ = op;
  begun_ = 0;
}

MemOp MemOpParts::Next() {
  const size_t width = SizeOf(op_.type);
  const size_t per_element = width * (op_.sources.size() + op_.destinations.size());
  const uint64_t at_once =
      std::max(kPartBytes / per_element / kElementsAtOnce, uint64_t{1}) * kElementsAtOnce;
  sources_.assign(op_.sources.begin(), op_.sources.end());
  destinations_.assign(op_.destinations.begin(), op_.destinations.end());
  for (MemSource& source : sources_) source.address += begun_ * width;
  for (std::byte*& destination : destinations_) destination += begun_ * width;
  MemOp part = op_;
  part.sources = sources_;
  part.destinations = destinations_;
  part.elements = std::min(at_once, op_.elements - begun_);
  begun_ += part.elements;
  return part;
}

}  // namespace mccs
