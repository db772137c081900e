// A rank with a list of collectives, some of which its streams have reached.
#ifndef MCCS_TESTS_UNIT_COMMUNICATOR_LISTED_CALLS_H_
#define MCCS_TESTS_UNIT_COMMUNICATOR_LISTED_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/unit/device/process_memory.h"
#include "tests/unit/messages/idle_port.h"

namespace mccs {

class ListedCalls final : public IdlePort {
 public:
  static constexpr uint64_t kCount = 16;

  absl::StatusOr<const PostedOperation*> Posted(size_t position) override {
    return complete + position < calls.size() ? &calls[complete + position] : nullptr;
  }
  bool IsReady(size_t position) override { return complete + position < ready; }
  void Complete() override { ++complete; }
  uint64_t NextCaptured(uint64_t after) const override {
    return has_captured && after == 0 ? 1 : 0;
  }

  // An all-reduce in place over the `at`-th part of the memory.
  void Post(uint64_t at, uint64_t count = kCount) {
    const RegionSpan part =
        SpanOf(memory).Part(at * kCount * sizeof(int32_t), count * sizeof(int32_t));
    calls.push_back({.kind = OpKind::kAllReduce,
                     .type = DataType::kInt32,
                     .root = Rank(0),
                     .count = count,
                     .input = part,
                     .output = part,
                     .options = {}});
  }

  std::vector<PostedOperation> calls;
  size_t complete = 0;
  size_t ready = 100;  // calls that the streams have reached
  bool has_captured = false;
  std::vector<int32_t> memory = std::vector<int32_t>(100 * kCount, 1);
};

}  // namespace mccs

#endif  // MCCS_TESTS_UNIT_COMMUNICATOR_LISTED_CALLS_H_
