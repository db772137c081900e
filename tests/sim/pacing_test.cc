// Rates, send windows and classes with production daemons over a simulated clock and network: in
// simulated time a host sends only what it may.
#include <gtest/gtest.h>

#include <vector>

#include "tests/sim/sim_job.h"

namespace mccs {
namespace pacing_test {

constexpr uint64_t kElements = 100'000;
constexpr uint64_t kMbit = 1'000'000;

// One communicator over hosts 0 and 1 that always has work.
class Load {
 public:
  Load(SimWorld& world, int hosts = 2)
      : world_(world), hosts_(hosts), job_(world, Ranks(hosts), kElements * sizeof(float)) {
    EXPECT_TRUE(job_.Form());
    id_ = world.host(0).controller().announced.back();
    job_.Fill(kElements);
  }
  SimJob& job() { return job_; }

  // Sends the limits to every host; `rate_bps`: rate limit of each lane.
  void SetRateLimits(RateLimits limits, uint64_t rate_bps = 0) {
    limits.revision = ++revision_;
    for (int h = 0; h < hosts_ && rate_bps > 0; ++h) {
      limits.lanes.push_back({ChannelId(0), HostIndex(h), HostIndex((h + 1) % hosts_), rate_bps});
    }
    for (int h = 0; h < hosts_; ++h)
      world_.host(h).controller().rate_updates.push_back({id_, limits});
  }
  // Posts operations when all posted ones are done.
  void KeepBusy() {
    if (!job_.Done()) return;
    for (int i = 0; i < 20; ++i) job_.PostAll(OpKind::kAllReduce, kElements);
  }
  const agent::v1::Lane& lane(int host) {
    return world_.host(host).controller().reports.at(id_).lanes(0);
  }
  int lanes(int host) { return world_.host(host).controller().reports.at(id_).lanes_size(); }
  // Acknowledged payload bytes of the lane, as of the last report.
  uint64_t bytes(int host) { return lane(host).payload_bytes(); }

 private:
  static std::vector<int> Ranks(int hosts) {
    std::vector<int> ranks;
    for (int h = 0; h < hosts; ++h) ranks.push_back(h);
    return ranks;
  }

  SimWorld& world_;
  const int hosts_;
  SimJob job_;
  CommId id_;
  uint64_t revision_ = 0;
};

class SimPacing : public testing::Test {
 protected:
  // Keeps all loads busy for `ns`.
  void RunBusy(const std::vector<Load*>& loads, int64_t ns) {
    const MonotonicNs end = world_.clock().Now() + ns;
    while (world_.clock().Now() < end) {
      for (Load* load : loads) load->KeepBusy();
      world_.RunFor(std::min<int64_t>(5 * kNsPerMs, end - world_.clock().Now()));
    }
  }
  // Bytes per second of a lane, over some seconds that start and end with a report.
  double RateOf(const std::vector<Load*>& loads, Load& load, int host, int seconds = 4) {
    NextReport(loads, load, host);
    const uint64_t before = load.bytes(host);
    const MonotonicNs begun = world_.clock().Now();
    RunBusy(loads, seconds * kNsPerSec - 100 * kNsPerMs);
    NextReport(loads, load, host);
    return static_cast<double>(load.bytes(host) - before) * 1e9 /
           static_cast<double>(world_.clock().Now() - begun);
  }
  void NextReport(const std::vector<Load*>& loads, Load& load, int host) {
    const uint64_t before = load.bytes(host);
    for (int i = 0; i < 2000 && load.bytes(host) == before; ++i) RunBusy(loads, kNsPerMs);
    ASSERT_NE(load.bytes(host), before) << "no report";
  }

  explicit SimPacing(const SimWorldOptions& options = {.seed = 1, .hosts = 2}) : world_(options) {}

  SimWorld world_;
};

TEST_F(SimPacing, TwoCommunicatorsObeyTheirRates) {
  Load slow(world_), fast(world_);
  const std::vector<Load*> both{&slow, &fast};
  slow.SetRateLimits({}, 16 * kMbit);
  fast.SetRateLimits({}, 48 * kMbit);
  RunBusy(both, kNsPerSec);
  for (int host : {0, 1}) {
    EXPECT_NEAR(RateOf(both, slow, host), 2e6, 0.03 * 2e6);
    EXPECT_NEAR(RateOf(both, fast, host), 6e6, 0.03 * 6e6);
  }
  EXPECT_GT(slow.lane(0).waited_for_rate_ns(), 5 * kNsPerSec);
  EXPECT_EQ(slow.lane(0).rate_bps(), 16 * kMbit);
  // Another rate acts at once; no rate removes the limit.
  slow.SetRateLimits({}, 80 * kMbit);
  EXPECT_NEAR(RateOf(both, slow, 0), 10e6, 0.03 * 10e6);
  slow.SetRateLimits({});
  EXPECT_GT(RateOf(both, slow, 0, 1), 20e6);
  EXPECT_EQ(slow.job().Wrong(OpKind::kAllReduce, kElements), 0u);
}

TEST_F(SimPacing, ReportsLanesDuringAnOperation) {
  Load load(world_);
  load.SetRateLimits({}, 400'000);  // an operation takes eight seconds
  RunBusy({&load}, 2 * kNsPerSec);
  const uint64_t begun = load.bytes(0);
  RunBusy({&load}, 2 * kNsPerSec);
  EXPECT_FALSE(load.job().Done());
  EXPECT_NEAR(static_cast<double>(load.bytes(0) - begun), 100'000, 25'000)
      << "lanes are not reported during the operation";
}

TEST_F(SimPacing, TenantRateCoversAllItsCommunicators) {
  Load one(world_), two(world_);
  const std::vector<Load*> both{&one, &two};
  const RateLimits limits{.tenant_rate_bps = 40 * kMbit, .tenant = "a"};
  one.SetRateLimits(limits);
  two.SetRateLimits(limits);
  RunBusy(both, kNsPerSec);
  const double first = RateOf(both, one, 0), second = RateOf(both, two, 0);
  EXPECT_NEAR(first + second, 5e6, 0.03 * 5e6);
  EXPECT_NEAR(first, 2.5e6, 0.05 * 2.5e6);
}

// The daemon has the Tenants, from the controller or its disk, and the controller is silent.
TEST_F(SimPacing, TheTenantsCapHoldsBeforeTheControllersFirstLimits) {
  const auto set_cap = [&](uint64_t cap_bps) {
    for (const int h : {0, 1}) {
      world_.host(h).controller().tenants = {
          {.name = "a",
           .selector = {.uids = {1000}, .sockets = {}, .cgroups = {}},
           .quotas = {},
           .cap_bps = cap_bps}};
    }
    world_.RunFor(kNsPerMs);
  };
  set_cap(40 * kMbit);
  Load one(world_), two(world_);
  const std::vector<Load*> both{&one, &two};
  const MonotonicNs begun = world_.clock().Now();
  RunBusy(both, 2 * kNsPerSec);
  // From the first byte: also without the time in which a limit could have arrived.
  const double seconds = static_cast<double>(world_.clock().Now() - begun) / 1e9;
  EXPECT_LT(static_cast<double>(one.bytes(0) + two.bytes(0)) / seconds, 1.05 * 5e6);
  EXPECT_NEAR(RateOf(both, one, 0) + RateOf(both, two, 0), 5e6, 0.03 * 5e6);
  set_cap(80 * kMbit);
  EXPECT_NEAR(RateOf(both, one, 0) + RateOf(both, two, 0), 10e6, 0.03 * 10e6);
  // The controller's limits precede, also after another change of the Tenant.
  const RateLimits limits{.tenant_rate_bps = 24 * kMbit, .tenant = "a"};
  one.SetRateLimits(limits);
  two.SetRateLimits(limits);
  RunBusy(both, kNsPerSec);
  set_cap(40 * kMbit);
  EXPECT_NEAR(RateOf(both, one, 0) + RateOf(both, two, 0), 3e6, 0.03 * 3e6);
}

// As under shares: the lanes' rates add up to the tenant's, and neither reduces the other.
TEST_F(SimPacing, LaneAndTenantRatesTogetherLoseNoBandwidth) {
  Load one(world_), two(world_);
  const std::vector<Load*> both{&one, &two};
  const RateLimits limits{.tenant_rate_bps = 48 * kMbit, .tenant = "a"};
  one.SetRateLimits(limits, 16 * kMbit);
  two.SetRateLimits(limits, 32 * kMbit);
  RunBusy(both, kNsPerSec);
  for (int host : {0, 1}) {
    EXPECT_NEAR(RateOf(both, one, host), 2e6, 0.01 * 2e6);
    EXPECT_NEAR(RateOf(both, two, host), 4e6, 0.01 * 4e6);
  }
}

// Two channels with one NIC each.
TEST(SimPacingOfNics, TenantRateIsPerNic) {
  SimWorld world({.seed = 1, .hosts = 2, .nics = 2});
  Load load(world);
  Strategy strategy = MakeRingStrategy(Epoch(2), {HostIndex(0), HostIndex(1)}, 2);
  for (int nic : {0, 1}) {
    strategy.channels[static_cast<size_t>(nic)].addresses = {SimAddress(0, nic),
                                                             SimAddress(1, nic)};
  }
  SimController& controller = world.host(0).controller();
  controller.proposals.push_back({controller.announced.back(), strategy});
  load.SetRateLimits({.tenant_rate_bps = 24 * kMbit, .tenant = "a"});
  const auto sent = world.host(0).daemon().counters()->Of("uid 1000");
  const auto work = [&](int64_t ns) {
    for (const MonotonicNs end = world.clock().Now() + ns; world.clock().Now() < end;) {
      load.KeepBusy();
      world.RunFor(5 * kNsPerMs);
    }
  };
  work(kNsPerSec);
  const uint64_t before = sent->sent.bytes.value();
  work(4 * kNsPerSec);
  ASSERT_EQ(load.lanes(0), 2);
  EXPECT_NEAR(static_cast<double>(sent->sent.bytes.value() - before), 4 * 6e6, 0.03 * 4 * 6e6);
}

TEST_F(SimPacing, SendsNothingOutsideSendWindows) {
  Load load(world_);
  const SendWindows windows{.period_ns = 200 * kNsPerMs,
                            .origin_ns = world_.clock().Now() + 50 * kNsPerMs,
                            .open_ns = 100 * kNsPerMs};
  load.SetRateLimits({.windows = windows});
  RunBusy({&load}, kNsPerSec);
  // Bytes in transit when the window closed arrive a moment later.
  while (windows.OpenAt(world_.clock().Now())) RunBusy({&load}, kNsPerMs);
  RunBusy({&load}, 10 * kNsPerMs);
  const uint64_t inside = world_.network().bytes_arrived();
  while (!windows.OpenAt(world_.clock().Now() + 2 * kNsPerMs)) RunBusy({&load}, kNsPerMs);
  EXPECT_LT(world_.network().bytes_arrived() - inside, 10'000u)
      << "only control messages, no payload";
  RunBusy({&load}, 50 * kNsPerMs);
  EXPECT_GT(world_.network().bytes_arrived() - inside, kMbit);
}

// The network is so slow that a job always has bytes in transit.
class SimClasses : public SimPacing {
 protected:
  SimClasses() : SimPacing({.seed = 1, .hosts = 2, .network = kSlowNetwork}) {}
};

TEST_F(SimClasses, HigherClassLeavesLowerClassASmallShare) {
  Load low(world_), high(world_);
  low.SetRateLimits({.priority = 1});
  high.SetRateLimits({.priority = 2});
  const double alone = RateOf({&low}, low, 0, 2);
  const double beside = RateOf({&low, &high}, low, 0, 2);
  EXPECT_LT(beside, 0.3 * alone);
  EXPECT_GT(beside, 0);
  EXPECT_GT(RateOf({&low, &high}, high, 0, 2), 0.8 * alone);
  // Without classes both run as if alone: in this network each stream has its own rate.
  high.SetRateLimits({.priority = 1});
  EXPECT_GT(RateOf({&low, &high}, low, 0, 2), 0.8 * alone);
}

// A lane without a class has the lowest class.
TEST_F(SimClasses, LanesWithoutClassYieldToHigherClass) {
  Load low(world_), high(world_);
  const double alone = RateOf({&low}, low, 0, 2);
  high.SetRateLimits({.priority = 1});
  EXPECT_LT(RateOf({&low, &high}, low, 0, 2), 0.3 * alone);
  EXPECT_GT(RateOf({&low, &high}, high, 0, 2), 0.8 * alone);
  Load late(world_);
  EXPECT_LT(RateOf({&late, &high}, late, 0, 2), 0.3 * alone);
}

TEST_F(SimPacing, IgnoresOlderRevision) {
  Load load(world_);
  load.SetRateLimits({}, 8 * kMbit);
  load.SetRateLimits({}, 16 * kMbit);
  world_.RunFor(kNsPerMs);
  RateLimits late;
  late.revision = 1;
  for (int h : {0, 1}) {
    world_.host(h).controller().rate_updates.push_back(
        {world_.host(0).controller().announced.back(), late});
  }
  RunBusy({&load}, kNsPerSec);
  EXPECT_NEAR(RateOf({&load}, load, 0), 2e6, 0.03 * 2e6);
}

// Rates survive a strategy change, and neither loses an operation.
TEST_F(SimPacing, RatesSurviveAStrategyChange) {
  Load load(world_);
  load.SetRateLimits({}, 16 * kMbit);
  for (uint64_t epoch = 2; epoch < 8; ++epoch) {
    Strategy strategy = MakeRingStrategy(Epoch(epoch), {HostIndex(0), HostIndex(1)});
    strategy.lanes.slots = 3 + static_cast<uint32_t>(epoch % 2);
    world_.host(0).controller().proposals.push_back(
        {world_.host(0).controller().announced.back(), strategy});
    RunBusy({&load}, 300 * kNsPerMs);
  }
  RunBusy({&load}, kNsPerSec);
  EXPECT_NEAR(RateOf({&load}, load, 0), 2e6, 0.03 * 2e6);
  ASSERT_TRUE(world_.RunUntil([&] { return load.job().Done(); }));
  EXPECT_EQ(load.job().Wrong(OpKind::kAllReduce, kElements), 0u);
}

// A lane that waits for its gate causes no turns.
TEST_F(SimPacing, DaemonSleepsWhileALaneWaitsForItsGate) {
  Load load(world_);
  load.SetRateLimits({}, 8 * kMbit);
  RunBusy({&load}, kNsPerSec);
  const CommId id = world_.host(0).controller().announced.back();
  const uint64_t before = world_.host(0).daemon().TurnsOf(id);
  RunBusy({&load}, kNsPerSec);
  EXPECT_LT(world_.host(0).daemon().TurnsOf(id) - before, 5'000u);
  EXPECT_EQ(world_.host(0).daemon().urgency(), Urgency::kSleep);
}

}  // namespace pacing_test
}  // namespace mccs
