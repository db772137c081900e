#include "algorithms/cost.h"

#include <algorithm>
#include <map>
#include <utility>

#include "algorithms/geometry.h"

namespace mccs {
namespace {

// What one run of the plan moves on one host.
struct Traffic {
  double largest_lane_bytes = 0;
  double local_bytes = 0;
  double first_slice_bytes = 0;
  int hops = 0;
};

class Counter {
 public:
  Counter(const Plan& plan, const PlannedCall& call)
      : plan_(plan),
        geometry_(plan, call.type, call.count, call.slot_bytes),
        element_bytes_(static_cast<double>(SizeOf(call.type))) {}

  Traffic Count() {
    for (const Program& program : plan_.programs) CountProgram(program);
    return traffic_;
  }

 private:
  void CountProgram(const Program& program) {
    if (geometry_.rounds(program.channel) == 0) return;
    std::map<std::pair<StepKind, HostIndex>, double> lanes;
    for (const Step& step : program.steps) {
      if (step.kind == StepKind::kCombine) {
        for (const Combine& combine : step.combines) CountCombine(combine);
        continue;
      }
      double& lane = lanes[{step.kind, step.peer}];
      double slice = 0;
      for (const Place& piece : step.pieces) {
        lane += Share(piece.block);
        slice += FirstSlice(program.channel, piece.block);
      }
      // A step of stage n has n hops behind it; a send makes one more.
      traffic_.hops = std::max(traffic_.hops, step.stage + (step.kind == StepKind::kSend ? 1 : 0));
      traffic_.largest_lane_bytes = std::max(traffic_.largest_lane_bytes, lane);
      traffic_.first_slice_bytes = std::max(traffic_.first_slice_bytes, slice);
    }
  }

  void CountCombine(const Combine& combine) {
    const auto operands = combine.sources.size() + combine.destinations.size();
    traffic_.local_bytes +=
        static_cast<double>(operands) * Share(combine.destinations.front().block);
  }

  // A channel's bytes of a block, over all rounds.
  double Share(int32_t block) const {
    return static_cast<double>(geometry_.BlockLength(block)) * element_bytes_ /
           static_cast<double>(plan_.programs.size());
  }

  double FirstSlice(ChannelId channel, int32_t block) const {
    return static_cast<double>(geometry_.Slice(channel, 0, block).count) * element_bytes_;
  }

  const Plan& plan_;
  const Geometry geometry_;
  const double element_bytes_;
  Traffic traffic_;
};

}  // namespace

double EstimateUs(const Plan& plan, const PlannedCall& call, const CostParameters& parameters) {
  const Traffic traffic = Counter(plan, call).Count();
  const double fill =
      traffic.hops * (parameters.hop_us + traffic.first_slice_bytes / parameters.lane_bytes_per_us);
  return parameters.operation_us + fill +
         std::max(traffic.largest_lane_bytes / parameters.lane_bytes_per_us,
                  traffic.local_bytes / parameters.local_bytes_per_us);
}

double EstimateMessageUs(uint64_t bytes, bool crosses_hosts, const CostParameters& parameters) {
  const auto amount = static_cast<double>(bytes);
  if (!crosses_hosts) {
    return parameters.operation_us + 2 * amount / parameters.local_bytes_per_us;
  }
  return parameters.operation_us + parameters.hop_us + amount / parameters.lane_bytes_per_us;
}

}  // namespace mccs
