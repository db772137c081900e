// Verbs without a NIC: queue pairs that copy between addresses of this process, on a simulated
// clock. Checks keys, domains and windows as a NIC does, and injects failures.
//
//   FakeFabric ── FakeNic (one per address) ── domains, regions, windows, queue pairs
//
// Each queue pair works on its requests in order; a write moves in portions, each at a time of its
// own. The same seed gives the same order.
//
// THREAD: one.
#ifndef MCCS_TESTS_UNIT_TRANSPORT_RDMA_FAKE_VERBS_H_
#define MCCS_TESTS_UNIT_TRANSPORT_RDMA_FAKE_VERBS_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "service/transport/rdma/verbs.h"
#include "tests/sim/sim_network.h"

namespace mccs {

struct FakeVerbsOptions {
  int64_t shortest_step_ns = 1'000;  // of one portion
  int64_t longest_step_ns = 20'000;
  uint64_t portion_bytes = 1 << 20;
  int64_t retry_ns = 5 * kNsPerMs;  // until "retries exceeded"
  uint32_t inline_bytes = 64;
  bool rate_limits = false;
  std::string no_dma_bufs = "";  // NicAttributes::no_dma_bufs
  int event_copies = 1;          // of each event
  int64_t event_delay_ns = 0;    // the longest; events keep their order
};

class FakeNic;
class FakeQueuePair;

class FakeFabric {
 public:
  FakeFabric(SimClock& clock, uint64_t seed, const FakeVerbsOptions& options = {})
      : clock_(clock), random_(seed), options_(options) {}
  ~FakeFabric();

  // `host`: for `reachable`. `address`: that its GID maps, as with RoCE; empty: none. LIFETIME: of
  // the fabric.
  FakeNic& AddNic(const std::string& name, const std::string& host = "",
                  const std::string& address = "");

  // When the next portion moves; nothing: all queue pairs are idle.
  std::optional<MonotonicNs> NextEventTime() const;
  // Moves what is due at the clock's time.
  void Step();

  // Whether packets pass from one NIC to another; null: always.
  std::function<bool(const FakeNic&, const FakeNic&)> reachable;
  // The next request of any queue pair fails with this status.
  std::optional<CompletionStatus> next_failure;
  // Queue pairs do nothing and report nothing, as a faulty NIC might.
  bool hangs = false;
  // So many registrations that start now fail with it.
  absl::Status registration_failure;
  MemoryToRegister last_registered;
  int registration_failures = std::numeric_limits<int>::max();
  // The same for each registration of a dma-buf.
  absl::Status dma_buf_failure;
  // Dma-bufs that are registered with this NIC, in any domain.
  size_t dma_bufs(const FakeNic& nic) const {
    return static_cast<size_t>(std::ranges::count_if(access_, [&](const auto& entry) {
      const Access& access = entry.second;
      return access.nic == &nic && !access.local && access.queue_pair == QueuePairNumber();
    }));
  }
  // No window can be made.
  absl::Status window_failure;
  // Windows that are bound.
  size_t windows() const {
    return static_cast<size_t>(std::ranges::count_if(
        access_, [](const auto& entry) { return entry.second.queue_pair != QueuePairNumber(); }));
  }

 private:
  friend class FakeNic;
  friend class FakeQueuePair;
  friend class FakeDomain;
  friend class FakeRegion;
  friend class FakeWindow;

  // The memory that a key gives access to.
  struct Access {
    const FakeNic* nic = nullptr;
    uint64_t domain = 0;
    uint64_t address = 0;
    uint64_t bytes = 0;
    bool local = false;          // for sources
    QueuePairNumber queue_pair;  // a window's; 0: any of the domain
  };

  MonotonicNs LaterBy(int64_t shortest, int64_t longest) {
    return clock_.Now() + std::uniform_int_distribution<int64_t>(shortest, longest)(random_);
  }
  const Access* Find(uint32_t key) const;
  static bool Covers(const Access& access, uint64_t address, uint64_t bytes);

  SimClock& clock_;
  std::mt19937_64 random_;
  const FakeVerbsOptions options_;
  std::deque<std::unique_ptr<FakeNic>> nics_;
  std::map<Gid, FakeNic*> nics_by_gid_;
  std::map<std::pair<MonotonicNs, QueuePairNumber>, FakeQueuePair*> busy_;  // by due time
  std::map<uint32_t, Access> access_;
  uint32_t last_key_ = 100;
  uint32_t last_number_ = 0;
  uint64_t last_domain_ = 0;
};

class FakeNic final : public VerbsNic {
 public:
  FakeNic(FakeFabric& fabric, const std::string& name, const std::string& host, const Gid& gid);

  const NicAttributes& attributes() const override { return attributes_; }
  absl::StatusOr<std::unique_ptr<ProtectionDomain>> MakeDomain() override;
  absl::StatusOr<std::unique_ptr<QueuePair>> MakeQueuePair(
      ProtectionDomain& domain, const QueuePairOptions& options) override;
  size_t Poll(std::span<Completion> completions) override;
  uint32_t completion_entries() const override {
    return static_cast<uint32_t>(completions_.size());
  }
  std::optional<VerbsEvent> TakeEvent() override;
  void Arm() override { armed_ = true; }
  Counters counters() const override { return counters_; }

  const std::string& host() const { return host_; }
  size_t queue_pairs() const { return queue_pairs_.size(); }
  // Of the receive entries, not refilled yet.
  uint32_t used_entries() const { return used_entries_; }
  // Arrivals that found no receive entry.
  uint64_t not_ready() const { return not_ready_; }
  uint64_t access_errors() const { return access_errors_; }
  // Completions of queue pairs that ended before they were polled.
  // Of the last queue pair whose rate was set; nothing: none was.
  std::optional<uint64_t> last_rate() const { return last_rate_; }
  int64_t lost() const { return lost_; }
  // Delivers a completion that belongs to no request, as a faulty NIC might.
  void Inject(const Completion& completion) { Add(completion); }
  // With an event. Nothing passes a port that is down.
  void SetPort(bool up);
  // The device fails: nothing works any more.
  void FailDevice();
  // It was armed, and a completion or event has come since.
  bool woken() const { return woken_; }

 private:
  friend class FakeFabric;
  friend class FakeQueuePair;

  void Add(const Completion& completion);
  void AddEvent(const VerbsEvent& event);
  // Takes a receive entry; false: there is none.
  bool TakeEntry();
  FakeQueuePair* Find(QueuePairNumber number);

  FakeFabric& fabric_;
  const std::string host_;
  NicAttributes attributes_;
  std::map<QueuePairNumber, FakeQueuePair*> queue_pairs_;
  std::deque<Completion> completions_;
  struct PendingEvent {
    MonotonicNs due = 0;
    VerbsEvent event;
  };
  std::deque<PendingEvent> events_;
  uint32_t entries_ = 0;         // of all receive queues
  uint32_t used_entries_ = 0;    // by messages and slices, not refilled yet
  uint32_t polled_entries_ = 0;  // of these, polled
  bool armed_ = false;
  bool woken_ = false;
  bool port_up_ = true;
  std::optional<uint64_t> last_rate_;
  bool failed_ = false;
  Counters counters_;
  uint64_t not_ready_ = 0;
  int64_t lost_ = 0;
  uint64_t access_errors_ = 0;
};

}  // namespace mccs

#endif  // MCCS_TESTS_UNIT_TRANSPORT_RDMA_FAKE_VERBS_H_
