#include "tests/unit/algorithms/check/shape.h"

#include "absl/strings/str_cat.h"
#include "tests/unit/algorithms/check/contract.h"

namespace mccs::check {
namespace {

std::string_view Name(StepKind kind) {
  switch (kind) {
    case StepKind::kCombine:
      return "combine";
    case StepKind::kSend:
      return "send";
    case StepKind::kReceive:
      return "receive";
  }
  return "unknown";
}

std::string Describe(int host, ChannelId channel, const std::string& round, uint16_t step,
                     StepKind kind) {
  const std::string_view name = Name(kind);
  return absl::StrCat("host ", host, ", channel ", channel.value(), round, ", step ", step, " (",
                      absl::string_view(name.data(), name.size()), ")");
}

// The checks of one step. Each returns the error, or an empty string.
class StepShape {
 public:
  StepShape(const Plan& plan, const Layout& layout, HostIndex host, const Program& program,
            uint16_t position)
      : plan_(plan),
        hosts_(layout.host_count()),
        host_(host),
        ranks_(layout.hosts[static_cast<size_t>(host.value())]),
        program_(program),
        position_(position),
        step_(program.steps[position]) {}

  std::string Check() const {
    for (uint16_t before : step_.after) {
      if (before >= position_) return absl::StrCat("must come after step ", before);
    }
    if (position_ > 0 && step_.stage < program_.steps[position_ - 1].stage)
      return "has a lower stage than the step before";
    switch (step_.kind) {
      case StepKind::kCombine:
        return CheckCombines();
      case StepKind::kSend:
        if (std::string bad = CheckPeer(); !bad.empty()) return bad;
        return CheckPieces(Space::kInput, Space::kOutput, Space::kStaged);
      case StepKind::kReceive:
        if (std::string bad = CheckPeer(); !bad.empty()) return bad;
        return CheckPieces(Space::kOutput, Space::kOutput, Space::kReceived);
    }
    return "has an unknown kind";
  }

 private:
  std::string CheckCombines() const {
    if (step_.combines.empty() || !step_.pieces.empty()) return "must have combines, and no pieces";
    for (size_t i = 0; i < step_.combines.size(); ++i) {
      const Combine& combine = step_.combines[i];
      if (combine.sources.empty() || combine.destinations.empty()) {
        return "has a combine without source or without destination";
      }
      for (const Place& p : combine.sources) {
        if (p.space == Space::kStaged) return "reads a staging slot, which only its send may read";
        if (std::string bad = CheckPlaceOf(i, p); !bad.empty()) return bad;
      }
      for (const Place& p : combine.destinations) {
        if (p.space != Space::kOutput && p.space != Space::kStaged) {
          return "writes neither an output nor a staging slot";
        }
        if (std::string bad = CheckPlaceOf(i, p); !bad.empty()) return bad;
      }
    }
    return "";
  }

  std::string CheckPeer() const {
    const int peer = step_.peer.value();
    if (peer >= 0 && peer < hosts_ && step_.peer != host_) return "";
    return absl::StrCat("has invalid peer host ", peer);
  }

  // Either all pieces are in this step's own slot, in order, or all in `buffer` or `other`.
  std::string CheckPieces(Space buffer, Space other, Space slot) const {
    if (step_.pieces.empty() || !step_.combines.empty()) return "must have pieces, and no combines";
    const size_t in_part = PartEntries({0, 1}, step_.pieces.size(), plan_.parts).size();
    if (in_part > static_cast<size_t>(plan_.max_pieces)) {
      return absl::StrCat("has ", in_part, " pieces in a part; max_pieces is ", plan_.max_pieces);
    }
    if (step_.pieces.size() > 1 && plan_.count_spans_blocks)
      return "has several pieces, whose lengths differ";
    const bool in_slot = step_.pieces[0].space == slot;
    for (size_t i = 0; i < step_.pieces.size(); ++i) {
      const Place& p = step_.pieces[i];
      const bool allowed = in_slot ? p.space == slot && p.index == position_ && p.piece == i
                                   : p.space == buffer || p.space == other;
      if (!allowed) return absl::StrCat("has piece ", i, " in a place that is not allowed");
      if (std::string bad = CheckPlace(p); !bad.empty()) return bad;
    }
    return in_slot || IsContiguous() ? "" : "has a slice of pieces that are not contiguous";
  }

  // One piece per slice, or successive blocks of one buffer of which a slice has no part only.
  bool IsContiguous() const {
    if (step_.pieces.size() == 1) return true;
    if (!plan_.key.packed) return step_.pieces.size() <= static_cast<size_t>(plan_.parts);
    for (size_t i = 1; i < step_.pieces.size(); ++i) {
      Place next = step_.pieces[i - 1];
      ++next.block;
      if (step_.pieces[i] != next) return false;
    }
    return plan_.parts > 1;
  }

  // Of combine `i`: a piece of a slot is there in the same rounds.
  std::string CheckPlaceOf(size_t i, const Place& p) const {
    if (std::string bad = CheckPlace(p); !bad.empty()) return bad;
    if (p.space != Space::kReceived && p.space != Space::kStaged) return "";
    const size_t pieces = program_.steps[p.index].pieces.size();
    if (PartOf(i, step_.combines.size()) == PartOf(p.piece, pieces)) return "";
    return absl::StrCat("has combine ", i, " in another part than piece ", p.piece, " of step ",
                        p.index);
  }

  size_t PartOf(size_t entry, size_t size) const {
    return entry / PartEntries({0, 1}, size, plan_.parts).size();
  }

  std::string CheckPlace(const Place& p) const {
    if (p.block < 0 || p.block >= plan_.blocks)
      return absl::StrCat("names unknown block ", p.block);
    switch (p.space) {
      case Space::kInput:
        return CheckBuffer(p, plan_.input_blocked, "input");
      case Space::kOutput:
        return CheckBuffer(p, plan_.output_blocked, "output");
      case Space::kReceived:
        return CheckSlot(p, StepKind::kReceive);
      case Space::kStaged:
        return CheckSlot(p, StepKind::kSend);
    }
    return "names an unknown space";
  }

  std::string CheckBuffer(const Place& p, bool blocked, const char* name) const {
    if (p.index >= ranks_.size()) return absl::StrCat("names unknown local rank ", p.index);
    const Rank rank = ranks_[p.index];
    if (!blocked && plan_.blocks > 1 && p.block != rank.value()) {
      return absl::StrCat("names block ", p.block, " of the ", name, " of rank ", rank.value(),
                          ", which contains only its own block");
    }
    if (p.space == Space::kInput && !ProvidesInput(plan_, rank, p.block)) {
      return absl::StrCat("reads an input that rank ", rank.value(), " does not provide");
    }
    return "";
  }

  std::string CheckSlot(const Place& p, StepKind owner_kind) const {
    if (p.index >= program_.steps.size() || program_.steps[p.index].kind != owner_kind) {
      return absl::StrCat("names the slot of step ", p.index, ", which has none");
    }
    const Step& owner = program_.steps[p.index];
    if (p.piece >= owner.pieces.size() || owner.pieces[p.piece] != p) {
      return absl::StrCat("names piece ", p.piece, ", block ", p.block, " of step ", p.index,
                          ", which differs from that step's piece");
    }
    return "";
  }

  const Plan& plan_;
  const int hosts_;
  const HostIndex host_;
  const std::vector<Rank>& ranks_;
  const Program& program_;
  const uint16_t position_;
  const Step& step_;
};

bool SameFrame(const Plan& a, const Plan& b) {
  return a.key == b.key && a.blocks == b.blocks && a.count_spans_blocks == b.count_spans_blocks &&
         a.input_blocked == b.input_blocked && a.output_blocked == b.output_blocked &&
         a.crosses_hosts == b.crosses_hosts && a.max_pieces == b.max_pieces && a.parts == b.parts &&
         a.programs.size() == b.programs.size();
}

}  // namespace

std::string Where(int host, ChannelId channel, uint16_t step, StepKind kind) {
  return Describe(host, channel, "", step, kind);
}

std::string Where(int host, ChannelId channel, uint64_t round, uint16_t step, StepKind kind) {
  return Describe(host, channel, absl::StrCat(", round ", round), step, kind);
}

absl::Status CheckShape(std::span<const Plan> plans, const Layout& layout) {
  for (size_t host = 0; host < plans.size(); ++host) {
    const Plan& plan = plans[host];
    if (!SameFrame(plan, plans[0])) {
      return absl::FailedPreconditionError(
          absl::StrCat("host ", host, " has a plan of another kind than host 0"));
    }
    for (size_t c = 0; c < plan.programs.size(); ++c) {
      const Program& program = plan.programs[c];
      if (program.channel != ChannelId(static_cast<int32_t>(c)) ||
          program.steps.size() > UINT16_MAX) {
        return absl::FailedPreconditionError(absl::StrCat(
            "host ", host, ", channel ", c, ": program of another channel, or too long"));
      }
      for (size_t s = 0; s < program.steps.size(); ++s) {
        const uint16_t position = static_cast<uint16_t>(s);
        const HostIndex index(static_cast<int32_t>(host));
        const std::string bad = StepShape(plan, layout, index, program, position).Check();
        if (bad.empty()) continue;
        return absl::FailedPreconditionError(absl::StrCat(
            Where(static_cast<int>(host), program.channel, position, program.steps[s].kind), " ",
            bad));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace mccs::check
