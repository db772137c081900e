#include "tests/unit/algorithms/plan_cases.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace mccs {

Layout BlockLayout(const std::vector<int>& ranks_per_host) {
  Layout layout;
  int32_t next = 0;
  for (int ranks : ranks_per_host) {
    layout.hosts.emplace_back();
    for (int i = 0; i < ranks; ++i) layout.hosts.back().push_back(Rank(next++));
  }
  return layout;
}

Layout InterleavedLayout(const std::vector<int>& ranks_per_host) {
  Layout layout;
  layout.hosts.resize(ranks_per_host.size());
  const int total = std::accumulate(ranks_per_host.begin(), ranks_per_host.end(), 0);
  size_t host = 0;
  for (int32_t rank = 0; rank < total; ++rank) {
    while (layout.hosts[host].size() == static_cast<size_t>(ranks_per_host[host])) {
      host = (host + 1) % layout.hosts.size();
    }
    layout.hosts[host].push_back(Rank(rank));
    host = (host + 1) % layout.hosts.size();
  }
  return layout;
}

ChannelOrders VariedOrders(int hosts, int channels) {
  ChannelOrders orders;
  for (int c = 0; c < channels; ++c) {
    std::vector<HostIndex> ring;
    for (int h = 0; h < hosts; ++h) ring.push_back(HostIndex((h + c) % hosts));
    if (c % 2 == 1) std::reverse(ring.begin(), ring.end());
    if (c % 4 >= 2 && hosts > 2) std::swap(ring[1], ring[2]);
    orders.rings.push_back(std::move(ring));
  }
  return orders;
}

std::vector<Plan> BuildAll(const PlanKey& key, const Layout& layout, const ChannelOrders& orders) {
  std::vector<Plan> plans;
  for (int h = 0; h < layout.host_count(); ++h) {
    auto plan = BuildPlan(key, layout, orders, HostIndex(h));
    MCCS_CHECK(plan.ok());
    plans.push_back(*std::move(plan));
  }
  return plans;
}

namespace {

// The length of the chain that ends with each step, for all hosts.
class Chains {
 public:
  explicit Chains(const std::vector<Plan>& plans) : plans_(plans) {
    for (size_t host = 0; host < plans.size(); ++host) {
      const std::vector<Step>& steps = plans[host].programs[0].steps;
      lengths_.emplace_back(steps.size(), -1);
      for (size_t s = 0; s < steps.size(); ++s) {
        if (steps[s].kind != StepKind::kSend) continue;
        const auto peer = static_cast<size_t>(steps[s].peer.value());
        sends_[{host, peer}].push_back(s);
      }
    }
    // The k-th receive of a lane is of its k-th send.
    for (size_t host = 0; host < plans.size(); ++host) {
      std::map<size_t, size_t> next;
      const std::vector<Step>& steps = plans[host].programs[0].steps;
      for (size_t s = 0; s < steps.size(); ++s) {
        if (steps[s].kind != StepKind::kReceive) continue;
        const auto peer = static_cast<size_t>(steps[s].peer.value());
        matches_[{host, s}] = {peer, sends_.at({peer, host}).at(next[peer]++)};
      }
    }
  }

  int Longest() {
    int longest = 0;
    for (size_t host = 0; host < plans_.size(); ++host) {
      for (size_t s = 0; s < lengths_[host].size(); ++s) {
        longest = std::max(longest, Length(host, s));
      }
    }
    return longest;
  }

 private:
  int Length(size_t host, size_t s) {
    int& length = lengths_[host][s];
    if (length >= 0) return length;
    const Step& step = plans_[host].programs[0].steps[s];
    int before = 0;
    for (uint16_t earlier : step.after) before = std::max(before, Length(host, earlier));
    if (step.kind == StepKind::kReceive) {
      const auto [peer, send] = matches_.at({host, s});
      before = std::max(before, Length(peer, send));
    }
    return length = before + (step.kind == StepKind::kSend ? 1 : 0);
  }

  const std::vector<Plan>& plans_;
  std::vector<std::vector<int>> lengths_;                                   // -1: not known
  std::map<std::pair<size_t, size_t>, std::vector<size_t>> sends_;          // by lane
  std::map<std::pair<size_t, size_t>, std::pair<size_t, size_t>> matches_;  // host and step
};

}  // namespace

int LongestChain(const std::vector<Plan>& plans) { return Chains(plans).Longest(); }

std::string Describe(const PlanKey& key, const Layout& layout) {
  std::string text = absl::StrCat(
      std::string(Name(key.kind)), " by ", std::string(Name(key.algorithm)), " root ",
      key.root.value(), key.scaled ? " scaled" : "", key.packed ? " packed" : "", ", hosts");
  for (const auto& host : layout.hosts) {
    absl::StrAppend(&text, " {");
    for (size_t i = 0; i < host.size(); ++i) absl::StrAppend(&text, i ? " " : "", host[i].value());
    absl::StrAppend(&text, "}");
  }
  return text;
}

}  // namespace mccs
