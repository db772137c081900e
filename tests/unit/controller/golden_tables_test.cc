// The output of mccsctl for one cluster: the controller's replies, as mccsctl formats them.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/api/explanation.h"
#include "controller/api/object_view.h"
#include "controller/api/work_view.h"
#include "controller/rates/rate_changes.h"
#include "controller/state/catalog.h"
#include "controller/store/memory_store.h"
#include "tests/unit/controller/coordinator_fixture.h"
#include "tests/unit/golden.h"
#include "tools/mccsctl/render.h"
#include "tools/mccsctl/work_rates.h"

namespace mccs {
namespace golden_tables_test {

constexpr char kFirstCommunicator[] = "3f2a90c1d4e5b607";
constexpr int kHosts = 4;

// Four hosts in two racks, two tenants with a communicator each, a policy and a drained link.
class GoldenTables : public CoordinatorTest {
 protected:
  GoldenTables() {
    catalog_->Watch([this](Catalog::Objects objects) {
      coordinator_.SetObjects(std::move(objects));
      TakeProposals();
    });
    Apply(
        Together({TwoSpinesDocument("h[0-1]", "h[2-3]"),
                  TenantDocument("team-a", 1000, "  weight: 2\n  guarantee: 2Gbit/s\n"),
                  TenantDocument("team-b", 1001, "  cap: 1Gbit/s\n  quotas: {communicators: 16}\n"),
                  PolicyDocument("fair", "  type: fair_flow\n")}),
        false);
    for (int h = 0; h < kHosts; ++h) Register(h);
    Announce(0x3f2a90c1d4e5b607, {"h0", "h2"}, "uid 1000", "ddp");
    Announce(0x4000000000000008, {"h1", "h3"}, "uid 1001", "");
    Apply(Together({Document("Drain", "maintenance",
                             "  link: leaf0-spine1\n  reason: new transceiver\n")}),
          false);
    clock_.now += 185 * kNsPerSec;
    for (int h = 0; h < kHosts; ++h) Send(KeyOf(h), Beat());
  }

  static AgentKey KeyOf(int host) { return AgentKey(static_cast<uint64_t>(host) + 1); }
  static std::string Address(int host) { return absl::StrCat("10.0.0.", host + 1); }

  void Register(int host) {
    agent::v1::Host record = MakeHost(absl::StrCat("h", host), absl::StrCat("r", host / 2),
                                      absl::StrCat(Address(host), ":7400"));
    record.mutable_gpus()->RemoveLast();
    record.mutable_gpus(0)->set_bus_id("0000:1b:00.0");
    agent::v1::Nic* nic = record.add_nics();
    nic->set_name("nic0");
    nic->add_addresses(Address(host));
    nic->set_speed_bps(10'000'000'000);
    Send(KeyOf(host), Registration(record));
  }
  void Announce(uint64_t id, const std::vector<std::string>& hosts, const std::string& tenant,
                const std::string& name) {
    agent::v1::Announce announce = MakeAnnounce(id, hosts);
    announce.set_tenant(tenant);
    announce.set_name(name);
    for (cluster::Member& member : *announce.mutable_members()) {
      member.set_gpu("0000:1b:00.0");
      member.set_process(900 + member.rank());
    }
    coordinator_.Handle(KeyOf(hosts[0][1] - '0'), Announcement(announce));
    TakeProposals();
  }
  // The daemons apply all proposals, and report their lanes.
  void TakeProposals() {
    for (const Outgoing& out : coordinator_.TakeOutbox()) {
      if (!out.message || !out.message->has_propose()) continue;
      ApplyProposal(out);
      const agent::v1::Announce announce = RecordOf(out.message->propose().comm_id()).announced;
      for (int position = 0; position < announce.hosts_size(); ++position)
        Report(announce, position);
    }
  }
  void Report(const agent::v1::Announce& announce, int position) {
    const auto& channel = announce.strategy().channels(0);
    const int host = announce.hosts(position)[1] - '0';
    const int next = 1 - position;
    agent::v1::FromAgent message = Reporting(announce.comm_id(), announce.strategy().epoch());
    agent::v1::Report* report = ReportIn(&message);
    report->set_operations(1200);
    report->set_bytes(3ull << 29);
    report->set_measured_ns(1);
    agent::v1::Lane* lane = report->add_lanes();
    lane->set_from(position);
    lane->set_to(next);
    const int place = channel.ring(0) == position ? 0 : 1;
    lane->set_local(absl::StrCat(Address(host), ":", channel.source_ports(place)));
    lane->set_remote(absl::StrCat(Address(announce.hosts(next)[1] - '0'), ":7400"));
    lane->set_payload_bytes(3ull << 28);
    lane->set_state("up");
    Send(KeyOf(host), message);
  }
  control::v1::ChangeReply Apply(const std::string& text, bool dry_run) {
    const ClusterView before = coordinator_.View();
    const auto outcome =
        catalog_->Apply({{"a.yaml", text}}, {"ipv4:10.0.0.9:5000", "ann@login1", FirstOperator()}, dry_run);
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    if (!outcome.ok()) return {};
    const Decisions decisions = Decide(outcome->plan.next, before);
    ClusterView after = before;
    PutStrategies(decisions, &after);
    const auto rates = RateChanges({*outcome->before, before}, {outcome->plan.next, after});
    return ShowChange(*outcome, before, decisions, rates, dry_run);
  }
  control::v1::ListObjectsReply List(const std::string& kind) {
    control::v1::ListObjectsRequest request;
    request.set_kind(kind);
    const auto work = ShowWork(GatherWork(coordinator_.state(), nullptr), *catalog_->objects());
    const auto listed = ListObjects(*catalog_->objects(), coordinator_.View(), work, request);
    EXPECT_TRUE(listed.ok()) << listed.status();
    return listed.value_or(control::v1::ListObjectsReply());
  }
  // One command and its output.
  void Show(const std::string& command, const std::string& output) {
    absl::StrAppend(&text_, text_.empty() ? "" : "\n", "$ mccsctl ", command, "\n", output);
  }

  MemoryStore store_;
  std::unique_ptr<Catalog> catalog_ = *Catalog::Open(&store_, &wall_clock_, log_.get());
  std::string text_;
};

TEST_F(GoldenTables, Get) {
  Show("get hosts", RenderHosts(ListHosts(coordinator_.state(), clock_.now)));
  Show("get communicators",
       RenderCommunicators(ListCommunicators(coordinator_.state(), clock_.now)));
  for (const auto& [kind, many] : {std::pair{"Tenant", "tenants"},
                                   {"Policy", "policies"},
                                   {"Topology", "topologies"},
                                   {"Drain", "drains"}}) {
    Show(absl::StrCat("get ", many), RenderObjects(List(kind), many, /*wide=*/false));
    Show(absl::StrCat("get ", many, " -o wide"), RenderObjects(List(kind), many, /*wide=*/true));
  }
  ExpectGolden("mccsctl_get.txt", text_);
}

TEST_F(GoldenTables, Describe) {
  const auto detail = Describe(kFirstCommunicator);
  ASSERT_TRUE(detail.ok()) << detail.status();
  Show("describe communicator 3f2a", RenderCommunicator(*detail));
  Show("describe tenant team-b", RenderObject(List("Tenant").objects(1)));
  Show("describe policy fair", RenderObject(List("Policy").objects(0)));
  Show("describe drain maintenance", RenderObject(List("Drain").objects(0)));
  ExpectGolden("mccsctl_describe.txt", text_);
}

TEST_F(GoldenTables, Explain) {
  const auto input = GatherExplanation(coordinator_.state(), kFirstCommunicator, clock_.now);
  ASSERT_TRUE(input.ok()) << input.status();
  const control::v1::Explanation before = Explain(*input, *catalog_->objects());
  control::v1::Explanation after = before;
  for (control::v1::ExplainedFlow& flow : *after.mutable_flows()) {
    flow.set_payload_bytes(flow.payload_bytes() + 500'000'000);
    flow.set_measured_ns(flow.measured_ns() + kNsPerSec);
    flow.set_waited_for_rate_ns(flow.waited_for_rate_ns() + 120 * kNsPerMs);
  }
  Show("explain communicator 3f2a", RenderExplanation(WithRates(before, after, 1)));
  ExpectGolden("mccsctl_explain.txt", text_);
}

TEST_F(GoldenTables, Change) {
  const std::string file =
      Together({TenantDocument("team-b", 1001, "  weight: 3\n"), TenantDocument("team-c", 1002),
                PolicyDocument("fair",
                               "  type: locality_ring\n"
                               "  parameters: {order: [h2, h0, h3, h1]}\n")});
  const control::v1::ChangeReply reply = Apply(file, /*dry_run=*/true);
  Show("apply --dry-run -f a.yaml", RenderChange(reply));
  Show("diff -f a.yaml", RenderDifferences(reply));
  Show("apply -f a.yaml", RenderChange(Apply(TenantDocument("team-c", 1002), /*dry_run=*/false)));
  EXPECT_FALSE(catalog_
                   ->Delete({{ObjectKind::kTenant, "team-z"}}, {},
                            {"ipv4:10.0.0.9:5000", "ann@login1", FirstOperator()}, /*dry_run=*/false)
                   .ok());
  const auto audit = catalog_->Audit(10);
  ASSERT_TRUE(audit.ok()) << audit.status();
  Show("audit", RenderAudit(ShowAudit(*audit)));
  ExpectGolden("mccsctl_change.txt", text_);
}

}  // namespace golden_tables_test
}  // namespace mccs
