// A planner that is updated decides the same as a new one.
#include <gtest/gtest.h>

#include <iterator>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "controller/planning/planner.h"
#include "controller/state/recovered_strategies.h"
#include "controller/state/registry.h"
#include "controller/state/resolved_view.h"
#include "proto/stored.pb.h"
#include "tests/unit/controller/agent_messages.h"
#include "tests/unit/objects/documents.h"

namespace mccs {
namespace planner_cache_test {

constexpr int kHosts = 12;
constexpr int kTenants = 3;

std::string HostName(int host) { return absl::StrCat("h", host); }

// Two racks, two spines; the second has hosts from `second_from` on, without the last `missing`.
std::string Fabric(int second_from, int missing, const std::string& mapping) {
  const auto rack = [](int number, int first, int last) {
    return absl::StrCat("    - {name: \"h[", first, "-", last, "]\", rack: r", number,
                        ", gpus: 1, nics: [{name: nic0, switch: leaf", number,
                        ", capacity: 100Gbit/s, address: \"10.0.0.[", first + 1, "-", last + 1,
                        "]\"}]}\n");
  };
  return Document(
      "Topology", "fabric",
      absl::StrCat("  racks: [{name: \"r[0-1]\"}]\n"
                   "  switches: [{name: \"leaf[0-1],spine[0-1]\"}]\n"
                   "  hosts:\n",
                   rack(0, 0, second_from - 1), rack(1, second_from, kHosts - 1 - missing),
                   "  links: [{ends: [\"leaf[0-1]\", \"spine[0-1]\"], "
                   "capacity: 100Gbit/s}]\n"
                   "  source_ports: {mapping: ",
                   mapping, "}\n"));
}

const char kRules[] =
    "rules, rules: [{ports: 61000-61099, via: spine0}, {ports: 61100-61199, via: spine1}]";

std::string TextOf(const CommunicatorView& each) {
  std::string text = absl::StrCat(
      FormatCommId(each.id), " ", each.tenant, " ", each.owner.name, " ", each.owner.weight, " ",
      each.owner.priority, " ", each.owner.cap_bps.value_or(0), " ", absl::StrJoin(each.hosts, ","),
      " ", absl::StrJoin(each.first_ranks, ","), "\n", each.strategy.DebugString());
  for (const auto& gpus : each.gpus) absl::StrAppend(&text, " ", absl::StrJoin(gpus, ","));
  for (const auto& gpus : each.gpu_of_rank) absl::StrAppend(&text, " ", absl::StrJoin(gpus, ","));
  return text;
}

std::string TextOf(const ClusterView& view) {
  std::string text;
  for (const HostView& host : view.hosts) {
    absl::StrAppend(&text, host.position.host, " ", host.position.rack, " ", host.ready, " ",
                    host.drained, " ", host.mismatched, " ", host.nics.size(), "\n");
  }
  for (const CommunicatorView& each : view.communicators)
    absl::StrAppend(&text, TextOf(each), "\n");
  for (const auto& topology : view.topologies) absl::StrAppend(&text, topology->name(), " ");
  return absl::StrCat(text, absl::StrJoin(view.links_drained, ","));
}

std::string TextOf(const Decisions& decisions) {
  std::string text;
  for (const Decision& each : decisions.changed) {
    absl::StrAppend(&text, FormatCommId(each.id), " ", each.change, "\n",
                    each.strategy.DebugString());
  }
  for (const absl::Status& trouble : decisions.trouble)
    absl::StrAppend(&text, trouble.ToString(), "\n");
  return text;
}

std::string TextOf(const absl::StatusOr<strategy::Strategy>& strategy) {
  return strategy.ok() ? strategy->DebugString() : strategy.status().ToString();
}

// A registry with random events.
class World {
 public:
  explicit World(unsigned seed) : random_(seed) {
    ChangeObjects();
    memory_.Load({Stored(77, {0, 7}), Stored(501, {1, 2, 8})});
    for (int host = 0; host < kHosts; ++host) Register(host);
  }

  void Step() {
    switch (Draw(12)) {
      case 0:
      case 1:
      case 2:
      case 3:
        return Start();
      case 4:
      case 5:
        return End();
      case 6:
      case 7:
        return TakeUp();
      case 8:
        return RejectProposal();
      case 9:
        return LoseOrRegister();
      case 10:
        return ChangeObjects();
      case 11:
        if (Draw(20) == 0) memory_.DropUnannounced();
        return;
    }
  }

  // Compares cached with new results; proposes some of them.
  void Check() {
    const ClusterView raw = memory_.AddRecovered(registry_.View());
    const ClusterView& kept = view_cache_.Get(objects_, nullptr);
    const ClusterView resolved = ResolveView(raw, *objects_);
    ASSERT_EQ(TextOf(kept), TextOf(resolved));
    if (!raw.communicators.empty() && Draw(2) == 0) {
      const CommId id = raw.communicators[Draw(raw.communicators.size())].id;
      ASSERT_EQ(TextOf(planner_.DecideOne(*objects_, kept, id)),
                TextOf(Planner().DecideOne(*objects_, resolved, id)));
    }
    Decisions decisions = planner_.Decide(*objects_, kept);
    ASSERT_EQ(TextOf(decisions), TextOf(Planner().Decide(*objects_, resolved)));
    decided_ += decisions.changed.size();
    for (Decision& decision : decisions.changed) {
      if (Draw(4) == 0 || !registry_.communicators().contains(decision.id)) continue;
      registry_.Propose(decision.id, std::move(decision.strategy), 0);
    }
  }

  size_t decided() const { return decided_; }

 private:
  size_t Draw(size_t below) { return random_() % below; }
  std::string Tenant() { return absl::StrCat("uid ", 1 + Draw(kTenants)); }

  static StoredStrategy Stored(uint64_t id, const std::vector<int>& hosts) {
    std::vector<std::string> names;
    for (const int host : hosts) names.push_back(HostName(host));
    stored::CommunicatorStrategy record;
    record.set_comm_id(id);
    record.set_tenant("uid 1");
    for (const std::string& name : names) record.add_hosts(name);
    *record.mutable_strategy() = MakeAnnounce(id, names).strategy();
    return {CommId(id), record.SerializeAsString()};
  }

  void Register(int host) {
    const std::string address = absl::StrCat("10.0.0.", host + 1);
    agent::v1::Host message = MakeHost(HostName(host), "", address + ":7400");
    agent::v1::Nic* nic = message.add_nics();
    nic->set_name("nic0");
    nic->add_addresses(address);
    std::vector<agent::v1::Announce> led;
    for (const auto& [id, record] : registry_.communicators()) {
      if (record.leader != HostName(host) || Draw(4) == 0) continue;
      led.push_back(record.announced);
      led.back().set_newest_epoch(record.newest_epoch);
    }
    const agent::v1::FromAgent registration = Registration(message, led);
    EXPECT_TRUE(registry_.Register(AgentKey(++agents_), registration.registration(), 0).ok());
    for (const agent::v1::Announce& each : led) memory_.MarkChanged(CommId(each.comm_id()));
  }

  void LoseOrRegister() {
    const int host = static_cast<int>(Draw(kHosts));
    if (registry_.hosts().at(HostName(host)).state == HostState::kReady && Draw(2) == 0) {
      registry_.MarkLost(HostName(host), "gone", 0);
    } else {
      Register(host);
    }
  }

  void Start() {
    std::set<std::string> hosts;
    while (hosts.size() < 1 + Draw(5)) hosts.insert(HostName(static_cast<int>(Draw(kHosts))));
    const uint64_t id = 1 + Draw(600);
    agent::v1::Announce announce = MakeAnnounce(id, {hosts.begin(), hosts.end()});
    announce.set_tenant(Tenant());
    if (!registry_.Announce(*hosts.begin(), announce, 0).ok()) return;
    registry_.DropProposals(CommId(id));
    memory_.MarkChanged(CommId(id));
  }

  const CommunicatorRecord* Any(CommId* id) {
    const auto& all = registry_.communicators();
    if (all.empty()) return nullptr;
    const auto any = std::next(all.begin(), static_cast<std::ptrdiff_t>(Draw(all.size())));
    *id = any->first;
    return &any->second;
  }

  void End() {
    CommId id;
    if (const CommunicatorRecord* record = Any(&id)) {
      const std::string leader = record->leader;
      registry_.OnCommunicatorEnded(leader, id);
    }
  }

  void TakeUp() {
    CommId id;
    const CommunicatorRecord* record = Any(&id);
    if (record == nullptr || record->proposed.empty()) return;
    agent::v1::Announce announce = record->announced;
    *announce.mutable_strategy() = record->proposed[Draw(record->proposed.size())];
    announce.set_running(true);
    const std::string leader = record->leader;
    EXPECT_TRUE(registry_.Announce(leader, announce, 0).ok());
  }

  void RejectProposal() {
    CommId id;
    const CommunicatorRecord* record = Any(&id);
    if (record == nullptr) return;
    if (Draw(2) == 0) return registry_.DropProposals(id);
    agent::v1::Report report;
    report.set_comm_id(id.value());
    report.set_epoch(record->Applied().epoch());
    report.set_rejected_epoch(record->newest_epoch);
    const std::string leader = record->leader;
    registry_.Report(leader, report);
  }

  void ChangeObjects() {
    const std::vector<std::string> mappings = {kRules,
                                               "hash, hash: {name: linux-multipath, seed: 7}"};
    std::vector<std::string> documents;
    // Rarely without some hosts: then no flows are cached.
    documents.push_back(Fabric(4 + static_cast<int>(Draw(4)), Draw(4) == 0 ? 2 : 0,
                               mappings[Draw(mappings.size())]));
    for (uint32_t t = 1; t <= kTenants; ++t) {
      if (Draw(3) == 0) continue;
      documents.push_back(
          TenantDocument(absl::StrCat("t", t), t, absl::StrCat("  priority: ", Draw(3), "\n")));
    }
    documents.push_back(TenantDocument("favoured", 9));
    const std::vector<std::string> policies = {
        "  type: fair_flow\n",
        "  type: fair_flow\n  parameters: {channels_per_nic: 2, source_ports: 61050-61130}\n",
        "  type: fair_flow\n  parameters: {avoid_links: [leaf0-spine0], order: [h3, h9]}\n",
        "  type: priority_flow\n"
        "  parameters: {favoured: [favoured], reserved_links: [leaf0-spine1, leaf1-spine1]}\n",
        "  type: shares\n",
        "  type: rank_order\n  parameters: {source_ports: 61000-61020}\n",
        "  type: locality_ring\n  parameters: {port_seed: 7, channels_per_nic: 2}\n"};
    documents.push_back(PolicyDocument("all", policies[Draw(policies.size())]));
    if (Draw(4) == 0) {
      documents.push_back(
          PolicyDocument("rings", "  type: locality_ring\n  selector: {tenants: [favoured]}\n"));
    }
    if (Draw(3) == 0) {
      documents.push_back(PolicyDocument(
          "trees",
          "  type: algorithm\n  parameters: {algorithm: tree}\n  selector: {sizes: {max_bytes: "
          "1MiB}}\n"));
    }
    if (Draw(3) == 0) documents.push_back(Document("Drain", "d", "  link: leaf1-spine0\n"));
    if (Draw(4) == 0) documents.push_back(Document("Drain", "e", "  host: h5\n"));
    objects_ = std::make_shared<const ObjectSet>(After({}, Together(documents)));
  }

  std::mt19937 random_;
  uint64_t agents_ = 0;
  Registry registry_;
  RecoveredStrategies memory_;
  std::shared_ptr<const ObjectSet> objects_;
  UnreachablePairs unreachable_;
  ViewCache view_cache_{&registry_, &memory_, &unreachable_};
  Planner planner_;
  size_t decided_ = 0;
};

TEST(PlannerCache, FindsTheSameAsANewPlanner) {
  size_t decided = 0;
  for (unsigned seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    World world(seed);
    for (int step = 0; step < 120; ++step) {
      world.Step();
      world.Check();
      if (testing::Test::HasFatalFailure()) return;
    }
    decided += world.decided();
  }
  EXPECT_GT(decided, 2000u) << "too little happened";
}

}  // namespace planner_cache_test
}  // namespace mccs
