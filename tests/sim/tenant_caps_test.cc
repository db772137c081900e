// A Tenant's cap limits everything that the Tenant sends out of a NIC, in any operation and any
// job: production daemons over a simulated clock and network, with a controller's rate updates.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <vector>

#include "tests/sim/sim_job.h"

namespace mccs {
namespace tenant_caps_test {

constexpr int kHosts = 3;
constexpr uint64_t kElements = 50'000;
constexpr uint64_t kMbit = 1'000'000;
constexpr double kCapBytes = 5e6;  // bytes per second

// Bytes sent by a host, over all tenants.
uint64_t SentBy(SimWorld& world, int host) {
  uint64_t bytes = 0;
  for (const auto& [name, tenant] : world.host(host).daemon().counters()->Tenants()) {
    bytes += tenant->sent.bytes.value();
  }
  return bytes;
}

// Hosts with two NICs; all collectives use one algorithm.
class Caps {
 public:
  using Work = std::function<void()>;  // posts more calls if all are done

  explicit Caps(Algorithm algorithm = Algorithm::kRing)
      : world_({.seed = 1,
                .hosts = kHosts,
                .nics = 2,
                .algorithms = {.costs = {}, .rules = {{OpKind::kAllReduce, algorithm}}}}) {}

  SimWorld& world() { return world_; }
  // A job of tenant "a", or of a tenant without a cap.
  SimJob& Start(bool of_tenant = true) {
    SimJob& job = jobs_.emplace_back(world_, std::vector<int>{0, 1, 2}, kElements * sizeof(float));
    EXPECT_TRUE(job.Form());
    job.Fill(kElements);
    if (of_tenant) capped_.push_back(world_.host(0).controller().announced.back());
    return job;
  }
  // Sends a cap in bit/s to all jobs of tenant "a"; 0: no cap.
  void SetCap(uint64_t cap_bps) {
    ++revision_;
    for (const CommId id : capped_) {
      const RateLimits limits{
          .revision = revision_, .tenant_rate_bps = cap_bps, .tenant = cap_bps > 0 ? "a" : ""};
      for (int h = 0; h < kHosts; ++h)
        world_.host(h).controller().rate_updates.push_back({id, limits});
    }
  }

  // The controller sends this Tenant, to which all processes belong, to all hosts.
  void SetOwnTenant(TenantEntry tenant) {
    tenant.selector.uids = {1000};
    for (int h = 0; h < kHosts; ++h) world_.host(h).controller().tenants = {tenant};
    world_.RunFor(kNsPerMs);
  }

  static Work Collectives(SimJob& job) {
    return [&job] {
      if (!job.Done()) return;
      for (int i = 0; i < kAtOnce; ++i) job.PostAll(OpKind::kAllReduce, kElements);
    };
  }
  static Work Messages(SimJob& job) {
    return [&job] {
      if (!job.Done()) return;
      for (int i = 0; i < kAtOnce; ++i) {
        job.Post(0, SimJob::Message{.sends = true, .peer = 1, .count = kElements});
        job.Post(1, SimJob::Message{.sends = false, .peer = 0, .count = kElements});
      }
    };
  }
  // REQUIRES: all ranks have a window.
  static Work Puts(SimJob& job) {
    return [&job] {
      if (!job.Done()) return;
      for (int i = 0; i < kAtOnce; ++i) {
        job.Post(0, SimJob::Put{.peer = 1, .count = kElements});
        job.Post(1, SimJob::Wait{.peer = 0});
      }
    };
  }

  void Run(const std::vector<Work>& works, int64_t ns) {
    for (const MonotonicNs end = world_.clock().Now() + ns; world_.clock().Now() < end;) {
      for (const Work& work : works) work();
      world_.RunFor(std::min<int64_t>(2 * kNsPerMs, end - world_.clock().Now()));
    }
  }
  // Bytes that the host that sends most sends in `ns`.
  double BytesSent(const std::vector<Work>& works, int64_t ns) {
    std::vector<uint64_t> before;
    for (int h = 0; h < kHosts; ++h) before.push_back(SentBy(world_, h));
    Run(works, ns);
    uint64_t most = 0;
    for (int h = 0; h < kHosts; ++h) {
      most = std::max(most, SentBy(world_, h) - before[static_cast<size_t>(h)]);
    }
    return static_cast<double>(most);
  }
  void ExpectEachSecond(const std::vector<Work>& works, double bytes) {
    Run(works, kNsPerSec);
    for (int second = 0; second < 3; ++second)
      EXPECT_NEAR(BytesSent(works, kNsPerSec), bytes, 0.03 * bytes);
  }
  // In a tenth of a second: these are many more slices than those of capped seconds.
  void ExpectFarBeyondTheCap(const std::vector<Work>& works) {
    EXPECT_GT(BytesSent(works, kNsPerSec / 10), 3 * kCapBytes / 10);
  }

 private:
  static constexpr int kAtOnce = 16;

  SimWorld world_;
  std::deque<SimJob> jobs_;
  std::vector<CommId> capped_;
  uint64_t revision_ = 0;
};

TEST(SimTenantCaps, ApplyToCollectivesOfEveryAlgorithm) {
  for (const Algorithm algorithm : {Algorithm::kRing, Algorithm::kTree, Algorithm::kDirect}) {
    SCOPED_TRACE(static_cast<int>(algorithm));
    Caps caps(algorithm);
    SimJob& job = caps.Start();
    caps.SetCap(40 * kMbit);
    caps.ExpectEachSecond({Caps::Collectives(job)}, kCapBytes);
    ASSERT_TRUE(caps.world().RunUntil([&] { return job.Done(); }, 60 * kNsPerSec));
    EXPECT_EQ(job.Wrong(OpKind::kAllReduce, kElements), 0u);
  }
}

TEST(SimTenantCaps, ApplyToMessagesAndPuts) {
  Caps caps;
  SimJob &messages = caps.Start(), &puts = caps.Start();
  caps.SetCap(40 * kMbit);
  caps.ExpectEachSecond({Caps::Messages(messages)}, kCapBytes);
  ASSERT_TRUE(caps.world().RunUntil([&] { return messages.Done(); }, 60 * kNsPerSec));
  for (int r = 0; r < kHosts; ++r) puts.OpenWindow(r, kElements);
  caps.ExpectEachSecond({Caps::Puts(puts)}, kCapBytes);
}

TEST(SimTenantCaps, ApplyToAllCommunicatorsOfOneTenantOnly) {
  Caps caps;
  SimJob &one = caps.Start(), &two = caps.Start(), &other = caps.Start(false);
  caps.SetCap(40 * kMbit);
  const std::vector<Caps::Work> both{Caps::Collectives(one), Caps::Messages(two)};
  caps.ExpectEachSecond(both, kCapBytes);
  caps.ExpectFarBeyondTheCap({both[0], both[1], Caps::Collectives(other)});
}

// The controller knows the Tenant that the leader's daemon announces, which may lie.
TEST(SimTenantCaps, AHostHoldsItsOwnTenantsCapWhateverIsAnnounced) {
  Caps caps;
  SimJob& job = caps.Start();
  const std::vector<Caps::Work> works{Caps::Collectives(job)};
  caps.SetOwnTenant({.name = "own", .selector = {}, .quotas = {}, .cap_bps = 40 * kMbit});
  caps.SetCap(0);
  caps.ExpectEachSecond(works, kCapBytes);
  caps.SetCap(400 * kMbit);
  caps.ExpectEachSecond(works, kCapBytes);
  caps.SetCap(20 * kMbit);
  caps.ExpectEachSecond(works, kCapBytes / 2);
  // A new cap of the Tenant applies to what the controller has sent before.
  caps.SetCap(0);
  caps.SetOwnTenant({.name = "own", .selector = {}, .quotas = {}, .cap_bps = 20 * kMbit});
  caps.ExpectEachSecond(works, kCapBytes / 2);
}

TEST(SimTenantCaps, ApplyAndEndAtOnce) {
  Caps caps;
  SimJob &job = caps.Start(), &beside = caps.Start();
  const std::vector<Caps::Work> works{Caps::Collectives(job), Caps::Messages(beside)};
  caps.ExpectFarBeyondTheCap(works);
  caps.SetCap(40 * kMbit);
  caps.ExpectEachSecond(works, kCapBytes);
  caps.SetCap(20 * kMbit);
  caps.ExpectEachSecond(works, kCapBytes / 2);
  caps.SetCap(0);
  caps.Run(works, 100 * kNsPerMs);
  caps.ExpectFarBeyondTheCap(works);
}

}  // namespace tenant_caps_test
}  // namespace mccs
