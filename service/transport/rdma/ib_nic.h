// The objects of libibverbs behind the verbs interface (ib_verbs.h).
//
// OWNER: the user of the verbs. THREAD: as verbs.h; a mutex guards what jobs and the engine share.
#ifndef MCCS_SERVICE_TRANSPORT_RDMA_IB_NIC_H_
#define MCCS_SERVICE_TRANSPORT_RDMA_IB_NIC_H_

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/reactor.h"
#include "service/transport/rdma/ib_library.h"
#include "service/transport/rdma/ib_registration.h"
#include "service/transport/rdma/ib_verbs.h"
#include "service/transport/rdma/verbs.h"

namespace mccs {

// A failed call with this errno. kResourceExhausted: a limit of the device or of memory.
absl::Status ErrnoStatus(const std::string& what, int error);
// A failed registration. kResourceExhausted: probably the limit of locked memory.
absl::Status RegisterStatus(const std::string& device, uint64_t bytes, int error);

// Frees with a function of the library.
template <typename T>
using Owned = std::unique_ptr<T, int (*)(T*)>;

// ---- Memory -------------------------------------------------------------------------------------

class IbRegion final : public MemoryRegion {
 public:
  IbRegion(Owned<ibv_mr> region, RegistrationMeans means)
      : region_(std::move(region)), means_(means) {}
  RegistrationMeans means() const override { return means_; }
  uint32_t local_key() const override { return region_->lkey; }
  std::optional<uint32_t> remote_key() const override {
    if (means_ != RegistrationMeans::kDmaBuf) return std::nullopt;
    return region_->rkey;
  }
  ibv_mr* get() const { return region_.get(); }

 private:
  const Owned<ibv_mr> region_;
  const RegistrationMeans means_;
};

class IbWindow final : public MemoryWindow {
 public:
  explicit IbWindow(Owned<ibv_mw> window) : window_(std::move(window)) {}
  uint32_t NextRemoteKey() override { return ibv_inc_rkey(window_->rkey); }
  ibv_mw* get() const { return window_.get(); }

 private:
  const Owned<ibv_mw> window_;
};

// A shared receive queue of a domain. Some devices (rdma_rxe) require that receive entries are in
// the domain of the queue pair. So peers of one tenant cannot use up the entries of another.
//
// THREAD: the owning engine, once it has queue pairs.
class IbReceiveQueue {
 public:
  static absl::StatusOr<std::unique_ptr<IbReceiveQueue>> Make(const IbLibrary& library,
                                                              ibv_pd* domain, uint64_t id,
                                                              uint32_t entries,
                                                              const std::string& device);

  uint32_t entries() const { return static_cast<uint32_t>(messages_.size()); }
  uint64_t id() const { return id_; }
  ibv_srq* get() const { return queue_.get(); }
  // The message in a consumed entry. The entry is refilled later.
  void Take(uint32_t entry, size_t bytes, VerbsMessage* message) {
    std::memcpy(message->data(), messages_[entry].data(), std::min(bytes, message->size()));
    used_.push_back(entry);
  }
  // Refills the consumed entries if there are enough; returns their number. An error: the device
  // has failed.
  absl::StatusOr<size_t> Refill(size_t at_least);

  uint32_t granted = 0;  // entries that belong to queue pairs; guarded by the NIC's mutex

 private:
  IbReceiveQueue(uint64_t id, uint32_t entries) : id_(id), messages_(entries) {
    for (uint32_t i = 0; i < entries; ++i) used_.push_back(i);
  }

  const uint64_t id_;  // in wr_id
  std::vector<VerbsMessage> messages_;
  Owned<ibv_mr> region_{nullptr, nullptr};
  Owned<ibv_srq> queue_{nullptr, nullptr};
  std::vector<uint32_t> used_;
  std::vector<ibv_recv_wr> requests_;
  std::vector<ibv_sge> pieces_;
};

class IbNic;

class IbDomain final : public ProtectionDomain {
 public:
  IbDomain(IbNic& nic, Owned<ibv_pd> domain);
  ~IbDomain() override;

  absl::StatusOr<std::unique_ptr<MemoryRegion>> Register(const MemoryToRegister& memory) override {
    const IbRegistration made = RegisterMemory(library_, domain_.get(), memory);
    if (made.region == nullptr) return RegisterStatus(attributes_.device, memory.bytes, made.error);
    return std::make_unique<IbRegion>(Owned<ibv_mr>(made.region, library_.dereg_mr), made.means);
  }
  absl::StatusOr<std::unique_ptr<MemoryWindow>> MakeWindow() override {
    Owned<ibv_mw> window(ibv_alloc_mw(domain_.get(), IBV_MW_TYPE_2), ibv_dealloc_mw);
    if (window == nullptr) {
      return ErrnoStatus(
          absl::StrCat("RDMA device ", attributes_.device, ": cannot make a memory window"), errno);
    }
    return std::make_unique<IbWindow>(std::move(window));
  }
  ibv_pd* get() const { return domain_.get(); }
  // A receive queue with so many free entries, which then belong to the caller.
  absl::StatusOr<IbReceiveQueue*> Grant(uint32_t receives);

 private:
  IbNic& nic_;
  const IbLibrary& library_;
  const NicAttributes& attributes_;
  const Owned<ibv_pd> domain_;
  std::vector<std::unique_ptr<IbReceiveQueue>> receives_;  // one after the other is made
};

class IbQueuePair;

// ---- The NIC ------------------------------------------------------------------------------------

class IbNic final : public VerbsNic {
 public:
  IbNic(const IbLibrary& library, Reactor& reactor, const IbNicOptions& options)
      : library(library), options(options), reactor_(reactor) {}
  ~IbNic() override;

  absl::Status Open(const IbPort& port);

  const NicAttributes& attributes() const override { return attributes_; }
  absl::StatusOr<std::unique_ptr<ProtectionDomain>> MakeDomain() override;
  absl::StatusOr<std::unique_ptr<QueuePair>> MakeQueuePair(
      ProtectionDomain& domain, const QueuePairOptions& pair_options) override;
  size_t Poll(std::span<Completion> completions) override;
  uint32_t completion_entries() const override { return completion_entries_; }
  std::optional<VerbsEvent> TakeEvent() override;
  void Arm() override;
  Counters counters() const override { return counters_; }

  // ---- For jobs ----

  // Makes a receive queue for the domain. THREAD: any.
  absl::StatusOr<std::unique_ptr<IbReceiveQueue>> MakeReceives(ibv_pd* domain);
  void End(std::unique_ptr<IbReceiveQueue> queue);
  // Makes room in the completion queue for completions that may be there before it is polled.
  // THREAD: any.
  absl::Status ReserveCompletions(uint32_t count);
  void ReturnCompletions(uint32_t count);
  std::mutex& mutex() { return mutex_; }
  void CountRequests(size_t count) { counters_.requests += count; }

  const IbLibrary& library;
  const IbNicOptions options;

 private:
  absl::Status OpenDevice(const IbPort& port);
  Owned<ibv_qp> CreateQueuePair(ibv_pd* domain, ibv_srq* receives,
                                const QueuePairOptions& pair_options);
  absl::Status MakeQueues();
  absl::Status FindDmaBufs();
  absl::Status Error(const std::string& what) const {
    return ErrnoStatus(absl::StrCat("RDMA device ", attributes_.device, ": ", what), errno);
  }
  void Refill(IbReceiveQueue& queue, size_t at_least);
  Completion Convert(const ibv_wc& from);
  void FailDevice(const std::string& what);

  Reactor& reactor_;
  NicAttributes attributes_;
  uint32_t receive_entries_ = 0;  // of each receive queue
  Owned<ibv_context> device_{nullptr, nullptr};
  Owned<ibv_comp_channel> channel_{nullptr, nullptr};
  Owned<ibv_cq> completion_queue_{nullptr, nullptr};
  std::vector<ibv_wc> polled_;
  std::optional<std::string> failure_;  // of the device: not reported yet
  bool failed_ = false;
  std::atomic<uint32_t> completion_entries_ = 0;  // of completion_queue_
  // Held while a job waits for the device, never by the engine.
  std::mutex resize_mutex_;
  uint32_t reserved_completions_ = 0;             // guarded by resize_mutex_
  std::mutex mutex_;                              // held for a moment
  uint64_t last_queue_ = 0;                       // guarded by mutex_
  std::map<uint64_t, IbReceiveQueue*> receives_;  // guarded by mutex_
  Readiness completion_ready_;
  Readiness event_ready_;
  Counters counters_;
};

// ---- Queue pairs --------------------------------------------------------------------------------

class IbQueuePair final : public QueuePair {
 public:
  IbQueuePair(IbNic& nic, Owned<ibv_qp> pair, const QueuePairOptions& options,
              IbReceiveQueue& receives)
      : nic_(nic),
        pair_(std::move(pair)),
        options_(options),
        receives_(receives),
        number_(QueuePairNumber(pair_->qp_num)) {}
  ~IbQueuePair() override;

  absl::Status Initialize();

  QueuePairAddress address() const override {
    const NicAttributes& nic = nic_.attributes();
    return {.number = number_,
            .first_packet = options_.first_packet,
            .gid = nic.gid,
            .lid = nic.lid,
            .mtu_bytes = nic.mtu_bytes};
  }
  absl::Status Connect(const QueuePairAddress& peer) override;
  absl::Status Post(std::span<const WorkRequest> requests) override;
  void Stop() override {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_ERR;
    (nic_.library.modify_qp)(pair_.get(), &attributes, IBV_QP_STATE);
  }
  void LimitRate(uint64_t bps) override;
  uint16_t source_port() const override { return source_port_; }

 private:
  absl::Status Error(const char* what, int error) const {
    return ErrnoStatus(absl::StrCat("RDMA device ", nic_.attributes().device, ": ", what), error);
  }
  void Fill(const WorkRequest& from, ibv_send_wr* to, ibv_sge* piece) const;

  IbNic& nic_;
  Owned<ibv_qp> pair_;
  const QueuePairOptions options_;
  IbReceiveQueue& receives_;
  const QueuePairNumber number_;
  std::atomic<uint16_t> source_port_{0};  // set while it is connected
  std::vector<ibv_send_wr> requests_;
  std::vector<ibv_sge> pieces_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_TRANSPORT_RDMA_IB_NIC_H_
