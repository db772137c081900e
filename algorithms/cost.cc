#include "algorithms/cost.h"

#include <algorithm>
#include <map>
#include <utility>

#include "algorithms/geometry.h"

namespace mccs {
namespace {

ProgramWeight WeighProgram(const Program& program, int32_t parts) {
  ProgramWeight weight;
  weight.hops = program.hops;
  std::map<std::pair<StepKind, HostIndex>, int> lanes;
  for (const Step& step : program.steps) {
    if (step.kind == StepKind::kCombine) {
      for (const Combine& combine : step.combines) {
        weight.operands += static_cast<int>(combine.sources.size() + combine.destinations.size());
      }
      continue;
    }
    const int pieces = static_cast<int>(step.pieces.size());
    int& lane = lanes[{step.kind, step.peer}];
    lane += pieces;
    const bool sends = step.kind == StepKind::kSend;
    (sends ? weight.out_pieces : weight.in_pieces) += pieces;
    ++weight.slices;
    const auto of_part = static_cast<int>(PartEntries({0, 1}, step.pieces.size(), parts).size());
    weight.slice_pieces = std::max(weight.slice_pieces, of_part);
    weight.lane_pieces = std::max(weight.lane_pieces, lane);
  }
  return weight;
}

// The bytes that one run of the plan moves on one host.
struct Traffic {
  double lane_bytes = 0;  // of the busiest lane
  double out_bytes = 0;
  double in_bytes = 0;
  double local_bytes = 0;
  double first_slice_bytes = 0;
  double slices = 0;
  int hops = 0;
};

Traffic TrafficOf(const PlanWeight& weight, const PlannedCall& call) {
  const Geometry geometry(weight.frame, call.type, call.count, call.slot_bytes);
  const auto element_bytes = static_cast<double>(SizeOf(call.type));
  const auto channels = static_cast<int32_t>(weight.programs.size());
  int active = 0;
  for (int32_t c = 0; c < channels; ++c) active += geometry.rounds(ChannelId(c)) > 0 ? 1 : 0;
  Traffic traffic;
  if (active == 0) return traffic;
  const double share = static_cast<double>(geometry.BlockLength(0)) * element_bytes / active;
  for (int32_t c = 0; c < active; ++c) {  // Later channels have no work.
    const ProgramWeight& program = weight.programs[static_cast<size_t>(c)];
    const double slice =
        static_cast<double>(geometry.Slice(ChannelId(c), 0, 0).count) * element_bytes;
    traffic.lane_bytes = std::max(traffic.lane_bytes, program.lane_pieces * share);
    traffic.out_bytes += program.out_pieces * share;
    traffic.in_bytes += program.in_pieces * share;
    traffic.local_bytes += program.operands * share;
    const auto parts = static_cast<double>(geometry.Parts(0).size());
    traffic.first_slice_bytes =
        std::max(traffic.first_slice_bytes, program.slice_pieces * parts * slice);
    traffic.slices += program.slices * static_cast<double>(geometry.rounds(ChannelId(c)));
    traffic.hops = std::max(traffic.hops, program.hops);
  }
  return traffic;
}

}  // namespace

PlanWeight Weigh(const Plan& plan) {
  PlanWeight weight{.frame = {.key = plan.key,
                              .blocks = plan.blocks,
                              .count_spans_blocks = plan.count_spans_blocks,
                              .input_blocked = plan.input_blocked,
                              .output_blocked = plan.output_blocked,
                              .crosses_hosts = plan.crosses_hosts,
                              .max_pieces = plan.max_pieces,
                              .parts = plan.parts,
                              .programs = std::vector<Program>(plan.programs.size())},
                    .programs = {}};
  for (const Program& program : plan.programs) {
    weight.programs.push_back(WeighProgram(program, plan.parts));
  }
  return weight;
}

double EstimateUs(const PlanWeight& weight, const PlannedCall& call,
                  const CostParameters& parameters) {
  const Traffic traffic = TrafficOf(weight, call);
  const double fill =
      traffic.hops * (parameters.hop_us + traffic.first_slice_bytes / parameters.lane_bytes_per_us);
  const double host_bytes = std::max(traffic.out_bytes, traffic.in_bytes);
  return parameters.operation_us + fill +
         std::max(traffic.lane_bytes / parameters.lane_bytes_per_us,
                  traffic.slices * parameters.slice_us + host_bytes / parameters.host_bytes_per_us +
                      traffic.local_bytes / parameters.local_bytes_per_us);
}

double EstimateUs(const Plan& plan, const PlannedCall& call, const CostParameters& parameters) {
  return EstimateUs(Weigh(plan), call, parameters);
}

double EstimateMessageUs(uint64_t bytes, bool crosses_hosts, const CostParameters& parameters) {
  const auto amount = static_cast<double>(bytes);
  if (!crosses_hosts) {
    return parameters.operation_us + 2 * amount / parameters.local_bytes_per_us;
  }
  return parameters.operation_us + parameters.hop_us + amount / parameters.lane_bytes_per_us;
}

}  // namespace mccs
