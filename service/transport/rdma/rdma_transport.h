// The transport over RDMA: lanes on queue pairs that daemons share (rdma_lane.h, peer_pairs.h).
//
// OWNER: the daemon. THREAD: the owning engine only. Nothing blocks.
#ifndef MCCS_SERVICE_TRANSPORT_RDMA_RDMA_TRANSPORT_H_
#define MCCS_SERVICE_TRANSPORT_RDMA_RDMA_TRANSPORT_H_

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/transport/rdma/rdma_lane.h"
#include "service/transport/rdma/verbs_jobs.h"

namespace mccs {

struct RdmaTransportOptions {
  std::vector<RdmaNic> nics;
  // For calls that may block; null: they run within the engine's calls.
  std::unique_ptr<MappingRunner> runner = nullptr;
  std::function<void(const std::string&)> report = nullptr;  // PeerPairs::SetReport
  std::unique_ptr<MemoryTable> memory = std::make_unique<MemoryTable>(RegistrationLimits{});
};

class RdmaTransport final : public Transport {
 public:
  // LIFETIME: the NICs, `random` and `clock` outlive this.
  RdmaTransport(RdmaTransportOptions options, Random& random, const Clock& clock)
      : nics_(options.nics),
        jobs_(std::move(options.runner)),
        memory_(std::move(options.memory)),
        clock_(clock),
        pairs_(nics_, jobs_, random, clock) {
    pairs_.SetReport(std::move(options.report));
  }

  std::unique_ptr<SendLane> MakeSendLane(const LaneIdentity& identity,
                                         const LaneShape& shape) override {
    return std::make_unique<RdmaSendLane>(identity, shape, shared_);
  }
  std::unique_ptr<RecvLane> MakeRecvLane(const LaneIdentity& identity, const LaneShape& shape,
                                         const RegionSpan& slots) override {
    return std::make_unique<RdmaRecvLane>(identity, shape, slots, shared_);
  }
  bool works() const override { return pairs_.working_nics() > 0; }
  std::string WhyNotOnGpus() const override;
  void Forget(const Region& region, std::shared_ptr<void> token) override {
    memory_->Forget(region, std::move(token));
  }
  std::vector<std::string> Addresses() const override {
    std::vector<std::string> addresses;
    for (const RdmaNic& nic : nics_) addresses.push_back(nic.address.address);
    return addresses;
  }
  bool pins_memory() const override { return true; }
  bool Poll() override {
    const bool done = jobs_.Poll();
    RetryRefused();
    return pairs_.Poll() || done;
  }
  TransportCounters counters() const override;
  MonotonicNs NextDeadline() const override {
    const MonotonicNs next = pairs_.NextDeadline();
    return memory_->awaits_room() ? std::min(next, retry_at_.value_or(clock_.Now())) : next;
  }
  bool PrepareSleep() override { return pairs_.PrepareSleep(); }

  PeerPairs& pairs() { return pairs_; }
  MemoryTable& memory() { return *memory_; }

 private:
  // Users of registered memory leave without a notice.
  static constexpr int64_t kRetryNs = 10 * kNsPerMs;
  void RetryRefused() {
    if (!memory_->awaits_room()) {
      retry_at_.reset();
    } else if (!retry_at_.has_value()) {
      retry_at_ = clock_.Now() + kRetryNs;
    } else if (*retry_at_ <= clock_.Now()) {
      retry_at_.reset();
      memory_->RetryRefused();
    }
  }

  const std::vector<RdmaNic> nics_;
  VerbsJobs jobs_;  // outlives what is made by jobs
  const std::unique_ptr<MemoryTable> memory_;
  const Clock& clock_;
  std::optional<MonotonicNs> retry_at_;  // when lanes that wait for room try again
  PeerPairs pairs_;
  RdmaShared shared_{.pairs = pairs_, .memory = *memory_};
};

inline std::string RdmaTransport::WhyNotOnGpus() const {
  std::string why;
  for (const RdmaNic& nic : nics_) {
    const NicAttributes& attributes = nic.verbs->attributes();
    if (attributes.no_dma_bufs.empty()) return "";
    if (why.empty()) why = absl::StrCat(attributes.device, ": ", attributes.no_dma_bufs);
  }
  return why;
}

inline TransportCounters RdmaTransport::counters() const {
  TransportCounters sum{.devices = pairs_.working_nics(), .queue_pairs = pairs_.size()};
  for (const RdmaNic& nic : nics_) {
    const VerbsNic::Counters of_nic = nic.verbs->counters();
    const MemoryTable::Usage memory = memory_->UsageOf(*nic.verbs);
    sum.registered_regions += memory.regions;
    sum.registered_bytes += memory.bytes;
    sum.requests += of_nic.requests;
    sum.completions += of_nic.completions;
    sum.receives += of_nic.receives;
    sum.refills += of_nic.refills;
  }
  return sum;
}

}  // namespace mccs

#endif  // MCCS_SERVICE_TRANSPORT_RDMA_RDMA_TRANSPORT_H_
