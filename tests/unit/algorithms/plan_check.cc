#include "tests/unit/algorithms/plan_check.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "algorithms/geometry.h"
#include "base/status_macros.h"
#include "tests/unit/algorithms/check/channel_events.h"
#include "tests/unit/algorithms/check/contract.h"
#include "tests/unit/algorithms/check/memory.h"
#include "tests/unit/algorithms/check/shape.h"
#include "tests/unit/algorithms/check/values.h"

namespace mccs {
namespace {

absl::Status CheckQuestion(std::span<const Plan> plans, const Layout& layout,
                           const CheckOptions& options) {
  if (plans.empty() || plans.size() != layout.hosts.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(plans.size(), " plans for ", layout.hosts.size(), " hosts"));
  }
  const Plan& plan = plans[0];
  if (!check::HasContract(plan.key.kind)) {
    return absl::InvalidArgumentError(
        absl::StrCat(std::string(Name(plan.key.kind)), ": it has no contract to check"));
  }
  if (options.in_place && !check::HasInPlaceForm(plan.key.kind)) {
    return absl::InvalidArgumentError(
        absl::StrCat(std::string(Name(plan.key.kind)), " has no in-place form"));
  }
  if (plan.blocks < 1 || plan.max_pieces < 1 || plan.parts < 1 || options.slots < 1 ||
      options.slot_bytes < kAlignmentBytes * static_cast<uint64_t>(plan.max_pieces)) {
    return absl::InvalidArgumentError(
        absl::StrCat(plan.blocks, " blocks, ", plan.max_pieces, " pieces, ", options.slots,
                     " slots of ", options.slot_bytes, " bytes: too few or too small"));
  }
  return absl::OkStatus();
}

absl::Status TooLong(ChannelId channel, const Geometry& geometry) {
  return absl::InvalidArgumentError(absl::StrCat("channel ", channel.value(), ": ",
                                                 geometry.rounds(channel),
                                                 " rounds are too many to check; lower the count"));
}

// Checks that the rounds of a channel take all parts in turn, in slices that fit their slots.
absl::Status CheckParts(const Plan& plan, const Geometry& geometry, ChannelId channel,
                        const CheckOptions& options) {
  if (geometry.rounds(channel) > kMaxCheckedEvents) return TooLong(channel, geometry);
  size_t next = 0;
  for (uint64_t round = 0; round < geometry.rounds(channel); ++round) {
    const IndexRange parts = geometry.Parts(round);
    const uint64_t pieces = parts.size() * static_cast<uint64_t>(plan.max_pieces);
    const uint64_t bytes = geometry.Slice(channel, round, 0).count * SizeOf(options.type);
    const bool follows = parts.begin == next && parts.size() > 0 &&
                         geometry.SliceOf(round) < geometry.slices(channel);
    if (!follows || pieces * bytes > options.slot_bytes) {
      return absl::FailedPreconditionError(absl::StrCat(
          "channel ", channel.value(), ", round ", round, ": parts ", parts.begin, " to ",
          parts.end, " of ", plan.parts, ", in slices of ", pieces * bytes, " bytes"));
    }
    next = parts.end == static_cast<size_t>(plan.parts) ? 0 : parts.end;
  }
  if (next == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "channel ", channel.value(), ": the last rounds take ", next, " parts of ", plan.parts));
}

// Checks that channels and rounds cover each block without gap or overlap, slices fit their slots,
// and blocks fill the buffer.
absl::Status CheckCut(const Plan& plan, const Geometry& geometry, const CheckOptions& options) {
  for (const Program& program : plan.programs) {
    MCCS_RETURN_IF_ERROR(CheckParts(plan, geometry, program.channel, options));
  }
  uint64_t total = 0;
  for (int32_t block = 0; block < plan.blocks; ++block) {
    uint64_t covered = 0;
    for (const Program& program : plan.programs) {
      for (uint64_t round = 0; round < geometry.rounds(program.channel); ++round) {
        if (geometry.Parts(round).begin > 0) continue;  // the same slice again
        const Extent slice = geometry.Slice(program.channel, round, block);
        if (slice.count > 0 && slice.begin != covered) {
          return absl::FailedPreconditionError(
              absl::StrCat("channel ", program.channel.value(), ", round ", round, ", block ",
                           block, ": slice of ", slice.count, " elements from ", slice.begin,
                           " on; ", covered, " are covered"));
        }
        covered += slice.count;
      }
    }
    if (covered != geometry.BlockLength(block) ||
        (covered > 0 && geometry.BlockOffset(block) != total)) {
      return absl::FailedPreconditionError(absl::StrCat("block ", block, ": ", covered,
                                                        " elements of ",
                                                        geometry.BlockLength(block), " covered"));
    }
    total += covered;
  }
  const uint64_t expected =
      plan.count_spans_blocks ? options.count : options.count * static_cast<uint64_t>(plan.blocks);
  if (total != expected) {
    return absl::FailedPreconditionError(
        absl::StrCat(total, " of ", expected, " elements covered"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckPlans(std::span<const Plan> plans, const Layout& layout,
                        const CheckOptions& options) {
  MCCS_RETURN_IF_ERROR(CheckQuestion(plans, layout, options));
  MCCS_RETURN_IF_ERROR(check::CheckShape(plans, layout));
  const Geometry geometry(plans[0], options.type, options.count, options.slot_bytes);
  MCCS_RETURN_IF_ERROR(CheckCut(plans[0], geometry, options));
  const check::ProofInput proof{plans, layout, geometry, options};
  for (const Program& program : plans[0].programs) {
    MCCS_ASSIGN_OR_RETURN(check::ChannelEvents events,
                          check::ChannelEvents::Build(proof, program.channel));
    MCCS_RETURN_IF_ERROR(events.CheckProgress());
    const check::Memory memory(proof, events);
    MCCS_RETURN_IF_ERROR(memory.CheckRaces());
    MCCS_RETURN_IF_ERROR(check::CheckValues(proof, events, memory));
  }
  return absl::OkStatus();
}

}  // namespace mccs
