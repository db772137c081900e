#include "service/probe/probe_run.h"

#include <algorithm>

#include "base/check.h"

namespace mccs {

ProbeRun::ProbeRun(const std::vector<ProbeTask>& tasks, Random* random)
    : tasks_(tasks), errors_(tasks.size()) {
  for (size_t task = 0; task < tasks_.size(); ++task) {
    MCCS_CHECK(tasks_[task].switches >= 1 && tasks_[task].switches <= kMaxSwitches);
    for (int ttl = 1; ttl <= tasks_[task].switches; ++ttl) {
      uint32_t token = 0;
      do {
        token = static_cast<uint32_t>(random->NextU64());
      } while (!IsToken(token) || !by_token_.try_emplace(token, slots_.size()).second);
      slots_.push_back({.task = task, .ttl = static_cast<uint8_t>(ttl), .token = token});
    }
  }
}

std::optional<ProbePacket> ProbeRun::Next(MonotonicNs now) {
  if (now < next_packet_) return std::nullopt;
  for (size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[(cursor_ + i) % slots_.size()];
    if (!slot.IsOpen() || slot.sent == kAttempts || slot.due > now) continue;
    cursor_ = (cursor_ + i + 1) % slots_.size();
    slot.due = now + (kFirstTimeoutNs << slot.sent);
    ++slot.sent;
    next_packet_ = now + kGapNs;
    return ProbePacket{.flow = tasks_[slot.task].flow, .ttl = slot.ttl, .token = slot.token};
  }
  return std::nullopt;
}

MonotonicNs ProbeRun::Deadline(MonotonicNs now) const {
  MonotonicNs deadline = kNever;
  for (const Slot& slot : slots_) {
    if (IsPending(slot, now)) deadline = std::min(deadline, slot.due);
  }
  return std::max(deadline, next_packet_);
}

void ProbeRun::OnAnswer(const ProbeAnswer& answer) {
  const auto known = by_token_.find(answer.token);
  if (known == by_token_.end() || answer.from == 0) return;
  Slot& slot = slots_[known->second];
  if (slot.sent == 0 || !slot.IsOpen() || tasks_[slot.task].flow != answer.flow) return;
  slot.answered_by = answer.from;
}

void ProbeRun::FailFlow(const FiveTuple& flow, const std::string& why) {
  for (Slot& slot : slots_) {
    if (tasks_[slot.task].flow != flow) continue;
    slot.failed = true;
    errors_[slot.task] = why;
  }
}

bool ProbeRun::IsDone(MonotonicNs now) const {
  return std::none_of(slots_.begin(), slots_.end(),
                      [&](const Slot& slot) { return IsPending(slot, now); });
}

std::vector<ProbeOutcome> ProbeRun::Outcomes() const {
  std::vector<ProbeOutcome> outcomes(tasks_.size());
  for (const Slot& slot : slots_) outcomes[slot.task].hops.push_back(slot.answered_by);
  for (size_t task = 0; task < tasks_.size(); ++task) {
    ProbeOutcome& outcome = outcomes[task];
    outcome.why_not = errors_[task];
    const bool silent = std::all_of(outcome.hops.begin(), outcome.hops.end(),
                                    [](uint32_t hop) { return hop == 0; });
    if (outcome.why_not.empty() && silent) {
      outcome.why_not = "no switch on the path to " +
                        FormatIpv4(tasks_[task].flow.destination_address) +
                        " answers with ICMP \"time exceeded\"; enable it on the switches";
    }
    if (!outcome.why_not.empty()) outcome.hops.clear();
  }
  return outcomes;
}

}  // namespace mccs
