#include "algorithms/cost.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "algorithms/geometry.h"
#include "algorithms/plan_size.h"

namespace mccs {
namespace {

// Combines that are weighed in the time in which a part of a plan is built.
constexpr uint64_t kCombinesPerPart = 8;

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

PlanWeighing::PlanWeighing(std::shared_ptr<const Plan> plan)
    : plan_(std::move(plan)),
      weight_{.frame = {.key = plan_->key,
                        .blocks = plan_->blocks,
                        .count_spans_blocks = plan_->count_spans_blocks,
                        .input_blocked = plan_->input_blocked,
                        .output_blocked = plan_->output_blocked,
                        .crosses_hosts = plan_->crosses_hosts,
                        .max_pieces = plan_->max_pieces,
                        .parts = plan_->parts,
                        .programs = std::vector<Program>(plan_->programs.size())},
              .programs = {}} {}

uint64_t PlanWeighing::WeighNext() {
  const Program& program = plan_->programs[weight_.programs.size()];
  uint64_t visited = 0;
  while (next_step_ < program.steps.size() && visited < kPartsAtOnce * kCombinesPerPart) {
    const Step& step = program.steps[next_step_++];
    visited += kCombinesPerPart + step.combines.size();
    Add(step);
  }
  if (next_step_ == program.steps.size()) {
    program_.hops = program.hops;
    weight_.programs.push_back(std::exchange(program_, {}));
    next_step_ = 0;
    sent_.clear();
    received_.clear();
  }
  return 1 + visited / kCombinesPerPart;
}

void PlanWeighing::Add(const Step& step) {
  if (step.kind == StepKind::kCombine) {
    for (const Combine& combine : step.combines) {
      program_.operands += static_cast<int>(combine.sources.size() + combine.destinations.size());
    }
    return;
  }
  const int pieces = static_cast<int>(step.pieces.size());
  const bool sends = step.kind == StepKind::kSend;
  std::vector<int>& lanes = sends ? sent_ : received_;
  const auto peer = static_cast<size_t>(step.peer.value());
  if (lanes.size() <= peer) lanes.resize(peer + 1);
  lanes[peer] += pieces;
  (sends ? program_.out_pieces : program_.in_pieces) += pieces;
  ++program_.slices;
  const auto of_part = PartEntries({0, 1}, step.pieces.size(), plan_->parts).size();
  program_.slice_pieces = std::max(program_.slice_pieces, static_cast<int>(of_part));
  program_.lane_pieces = std::max(program_.lane_pieces, lanes[peer]);
}

PlanWeight Weigh(const Plan& plan) {
  PlanWeighing weighing(std::shared_ptr<const Plan>(std::shared_ptr<void>(), &plan));
  while (!weighing.done()) weighing.WeighNext();
  return weighing.Take();
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
