#include "controller/planning/decisions.h"

#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "controller/policy/rings.h"
#include "controller/view/flow.h"

namespace mccs {
namespace {

// Whether some host sends from another NIC, at any place in the ring.
bool HasOtherNics(const strategy::ChannelStrategy& before, const strategy::ChannelStrategy& after) {
  return std::any_of(after.ring().begin(), after.ring().end(), [&](int host) {
    return AddressOfHost(before, host) != AddressOfHost(after, host);
  });
}

// The differences in one line; empty: none.
std::string Difference(const CommunicatorView& communicator, const strategy::Strategy& before,
                       const strategy::Strategy& after) {
  if (IsSameStrategy(before, after)) return "";
  std::vector<std::string> rings, ports, nics;
  if (before.channels_size() != after.channels_size()) {
    rings.push_back(
        absl::StrCat(after.channels_size(), " channels instead of ", before.channels_size()));
  }
  for (int c = 0; c < after.channels_size() && c < before.channels_size(); ++c) {
    const std::string was = RingText(communicator, before.channels(c));
    const std::string will = RingText(communicator, after.channels(c));
    const auto& old_ports = before.channels(c).source_ports();
    const auto& new_ports = after.channels(c).source_ports();
    if (was != will) {
      rings.push_back(absl::StrCat("channel ", c, ": ", will, " instead of ", was));
    } else if (!std::equal(old_ports.begin(), old_ports.end(), new_ports.begin(),
                           new_ports.end())) {
      ports.push_back(absl::StrCat(c));
    }
    if (HasOtherNics(before.channels(c), after.channels(c))) nics.push_back(absl::StrCat(c));
  }
  const auto add = [&](const std::vector<std::string>& channels, const char* what) {
    if (channels.empty()) return;
    rings.push_back(absl::StrCat(channels.size() == 1 ? "channel " : "channels ",
                                 absl::StrJoin(channels, ", "), ": other ", what));
  };
  add(nics, "NICs");
  add(ports, "source ports");
  if (!google::protobuf::util::MessageDifferencer::Equals(before.algorithms(), after.algorithms()))
    rings.push_back("other algorithm rules or costs");
  return rings.empty() ? "other parameters" : absl::StrJoin(rings, "; ");
}

}  // namespace

void AddDecision(const CommunicatorView& communicator, const std::string& policy,
                 absl::StatusOr<strategy::Strategy> strategy, Decisions* decisions) {
  if (!strategy.ok()) {
    decisions->trouble.push_back(strategy.status());
    return;
  }
  std::string change = Difference(communicator, communicator.strategy, *strategy);
  if (change.empty()) return;
  decisions->changed.push_back(
      {communicator.id, communicator.tenant, policy, *std::move(strategy), std::move(change)});
}

void PutStrategies(const Decisions& decisions, ClusterView* view) {
  auto communicator = view->communicators.begin();
  for (const Decision& decision : decisions.changed) {
    while (communicator->id != decision.id) ++communicator;
    communicator->strategy = decision.strategy;
  }
}

}  // namespace mccs
