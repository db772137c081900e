#include "tests/unit/transport/rdma/fake_verbs.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace mccs {
namespace {

// Consumed receive entries are refilled when there are so many.
constexpr uint32_t kRefillAtOnce = 8;

// Without an address, of this number.
Gid GidOf(size_t number, const std::string& address) {
  Gid gid{};
  gid[14] = static_cast<uint8_t>(number >> 8);
  gid[15] = static_cast<uint8_t>(number);
  if (address.empty()) return gid;
  gid[10] = gid[11] = 0xff;
  MCCS_CHECK(inet_pton(AF_INET, address.c_str(), &gid[12]) == 1);
  return gid;
}

}  // namespace

// ---- Memory -------------------------------------------------------------------------------------

class FakeRegion final : public MemoryRegion {
 public:
  FakeRegion(FakeFabric& fabric, FakeFabric::Access access, bool dma_buf)
      : fabric_(fabric), dma_buf_(dma_buf) {
    access.local = true;
    local_ = ++fabric_.last_key_;
    fabric_.access_[local_] = access;
    bound_ = access;
    bound_.local = false;
    if (!dma_buf_) return;
    // As in Linux, peers have a key, and no window can be bound.
    remote_ = ++fabric_.last_key_;
    fabric_.access_[remote_] = bound_;
    bound_ = {};
  }
  ~FakeRegion() override {
    fabric_.access_.erase(local_);
    if (dma_buf_) fabric_.access_.erase(remote_);
  }
  RegistrationMeans means() const override {
    return dma_buf_ ? RegistrationMeans::kDmaBuf : RegistrationMeans::kPinned;
  }
  uint32_t local_key() const override { return local_; }
  std::optional<uint32_t> remote_key() const override {
    return dma_buf_ ? std::optional(remote_) : std::nullopt;
  }
  const FakeFabric::Access& bound() const { return bound_; }

 private:
  FakeFabric& fabric_;
  const bool dma_buf_;
  uint32_t local_ = 0;
  uint32_t remote_ = 0;
  FakeFabric::Access bound_;  // what windows may be bound to
};

class FakeWindow final : public MemoryWindow {
 public:
  explicit FakeWindow(FakeFabric& fabric) : fabric_(fabric) {}
  ~FakeWindow() override { fabric_.access_.erase(key_); }
  uint32_t NextRemoteKey() override { return key_ = ++fabric_.last_key_; }

 private:
  FakeFabric& fabric_;
  uint32_t key_ = 0;
};

class FakeDomain final : public ProtectionDomain {
 public:
  FakeDomain(FakeFabric& fabric, const FakeNic& nic)
      : fabric_(fabric), nic_(nic), id_(++fabric.last_domain_) {}

  absl::StatusOr<std::unique_ptr<MemoryRegion>> Register(const MemoryToRegister& memory) override {
    fabric_.last_registered = memory;
    if (!fabric_.registration_failure.ok() && fabric_.registration_failures-- > 0) {
      return fabric_.registration_failure;
    }
    const bool dma_buf = memory.dma_buf >= 0;
    if (dma_buf && !nic_.attributes().no_dma_bufs.empty()) {
      return absl::UnimplementedError("cannot register the dma-buf");
    }
    if (dma_buf && !fabric_.dma_buf_failure.ok()) return fabric_.dma_buf_failure;
    MCCS_CHECK(memory.address != 0);
    return std::make_unique<FakeRegion>(fabric_,
                                        FakeFabric::Access{.nic = &nic_,
                                                           .domain = id_,
                                                           .address = memory.address,
                                                           .bytes = memory.bytes,
                                                           .queue_pair = {}},
                                        dma_buf);
  }
  absl::StatusOr<std::unique_ptr<MemoryWindow>> MakeWindow() override {
    if (!fabric_.window_failure.ok()) return fabric_.window_failure;
    return std::make_unique<FakeWindow>(fabric_);
  }
  uint64_t id() const { return id_; }

 private:
  FakeFabric& fabric_;
  const FakeNic& nic_;
  const uint64_t id_;
};

// ---- Queue pairs --------------------------------------------------------------------------------

class FakeQueuePair final : public QueuePair {
 public:
  FakeQueuePair(FakeFabric& fabric, FakeNic& nic, uint64_t domain, const QueuePairOptions& options)
      : fabric_(fabric),
        nic_(nic),
        domain_(domain),
        options_(options),
        number_(QueuePairNumber(++fabric.last_number_)) {
    nic_.queue_pairs_[number_] = this;
    nic_.entries_ += options.receives;
  }
  ~FakeQueuePair() override {
    SetIdle();
    nic_.queue_pairs_.erase(number_);
    nic_.entries_ -= options_.receives;
    for (const auto& [key, access] : fabric_.access_) {
      MCCS_CHECK(access.queue_pair != number_);  // some devices would wait for the window's end
    }
    // A NIC gives what it has consumed for a queue pair back with its completions only.
    nic_.lost_ += std::ranges::count(nic_.completions_, number_, &Completion::queue_pair);
  }

  QueuePairAddress address() const override {
    return {.number = number_,
            .first_packet = options_.first_packet,
            .gid = nic_.attributes_.gid,
            .mtu_bytes = 4096};
  }
  absl::Status Connect(const QueuePairAddress& peer) override {
    MCCS_CHECK(!peer_.has_value());
    peer_ = peer;
    return absl::OkStatus();
  }
  absl::Status Post(std::span<const WorkRequest> requests) override {
    MCCS_CHECK(peer_.has_value());
    for (const WorkRequest& request : requests) {
      Pending& pending = pending_.emplace_back();
      pending.request = request;
      MCCS_CHECK(request.id < kIdLimit);
      ++nic_.counters_.requests;
      if (request.inlined) {
        MCCS_CHECK(request.bytes <= fabric_.options_.inline_bytes);
        pending.copy.assign(request.local, request.local + request.bytes);
      }
    }
    MCCS_CHECK(pending_.size() <= options_.requests);
    if (failed_) {
      Flush();
    } else if (!busy_ && !pending_.empty()) {
      Begin();
    }
    return absl::OkStatus();
  }
  void Stop() override {
    failed_ = true;
    Flush();
    nic_.AddEvent({.kind = VerbsEvent::Kind::kDrained, .queue_pair = number_, .text = "drained"});
  }
  void LimitRate(uint64_t bps) override { nic_.last_rate_ = bps; }
  uint16_t source_port() const override { return options_.source_port; }

  bool busy() const { return busy_; }
  MonotonicNs due() const { return due_; }

  // Moves one portion of the first request. REQUIRES: busy.
  void Step() {
    Pending& head = pending_.front();
    if (fabric_.next_failure.has_value()) {
      return Fail(*std::exchange(fabric_.next_failure, std::nullopt));
    }
    if (head.request.kind == WorkRequest::Kind::kBind) return Bind(head.request);
    if (head.request.kind == WorkRequest::Kind::kInvalidate) {
      fabric_.access_.erase(head.request.remote_key);
      return Finish();
    }
    FakeQueuePair* const peer = Peer();
    if (peer == nullptr) {
      if (fabric_.clock_.Now() >= retries_until_) return Fail(CompletionStatus::kRetriesExceeded);
      return SetDue(
          std::min(fabric_.LaterBy(kNsPerUs, fabric_.options_.retry_ns / 4), retries_until_));
    }
    retries_until_ = fabric_.clock_.Now() + fabric_.options_.retry_ns;
    if (head.request.kind == WorkRequest::Kind::kWrite && !Move(head, *peer)) return;
    if (!peer->nic_.TakeEntry()) return Fail(CompletionStatus::kNotReady);
    const bool message = head.request.kind == WorkRequest::Kind::kMessage;
    Completion arrival;
    arrival.kind = message ? Completion::Kind::kMessage : Completion::Kind::kWritten;
    arrival.queue_pair = peer->number_;
    arrival.message = head.request.message;
    arrival.bytes = message ? kMessageBytes : static_cast<uint32_t>(head.request.bytes);
    arrival.immediate = head.request.immediate;
    peer->nic_.Add(arrival);
    Finish();
  }

  void Break(const std::string& text) {
    if (failed_) return;
    failed_ = true;
    Flush();
    nic_.AddEvent({.kind = VerbsEvent::Kind::kQueuePair, .queue_pair = number_, .text = text});
  }

 private:
  struct Pending {
    WorkRequest request;
    std::vector<std::byte> copy;  // if it is inlined
    uint64_t moved = 0;
  };

  FakeQueuePair* Peer() const {
    const auto found = fabric_.nics_by_gid_.find(peer_->gid);
    if (found == fabric_.nics_by_gid_.end()) return nullptr;
    FakeNic& nic = *found->second;
    if (!nic_.port_up_ || !nic.port_up_) return nullptr;
    if (fabric_.reachable && !fabric_.reachable(nic_, nic)) return nullptr;
    FakeQueuePair* const peer = nic.Find(peer_->number);
    const bool answers = peer != nullptr && !peer->failed_ && peer->peer_.has_value() &&
                         peer->peer_->number == number_;
    return answers ? peer : nullptr;
  }

  void SetIdle() {
    if (busy_) fabric_.busy_.erase({due_, number_});
    busy_ = false;
  }
  void SetDue(MonotonicNs due) {
    SetIdle();
    busy_ = true;
    due_ = due;
    fabric_.busy_[{due_, number_}] = this;
  }
  MonotonicNs AfterAStep() {
    return fabric_.LaterBy(fabric_.options_.shortest_step_ns, fabric_.options_.longest_step_ns);
  }

  void Begin() {
    retries_until_ = fabric_.clock_.Now() + fabric_.options_.retry_ns;
    SetDue(AfterAStep());
  }

  // Returns true when all of the write has moved.
  bool Move(Pending& head, FakeQueuePair& peer) {
    const WorkRequest& request = head.request;
    if (request.bytes == 0) return true;
    if (!request.inlined) {
      const FakeFabric::Access* const source = fabric_.Find(request.local_key);
      if (source == nullptr || !source->local || source->domain != domain_ ||
          !FakeFabric::Covers(*source, reinterpret_cast<uintptr_t>(request.local), request.bytes)) {
        Fail(CompletionStatus::kLocalProtection);
        return false;
      }
    }
    const FakeFabric::Access* const target = fabric_.Find(request.remote_key);
    const bool allowed =
        target != nullptr && !target->local && target->nic == &peer.nic_ &&
        target->domain == peer.domain_ &&
        (target->queue_pair == QueuePairNumber() || target->queue_pair == peer.number_) &&
        FakeFabric::Covers(*target, request.remote_address, request.bytes);
    if (!allowed) {
      ++peer.nic_.access_errors_;
      peer.Break("a peer's write was not allowed");
      Fail(CompletionStatus::kRemoteAccess);
      return false;
    }
    const uint64_t portion = std::min(request.bytes - head.moved, fabric_.options_.portion_bytes);
    const std::byte* const source = request.inlined ? head.copy.data() : request.local;
    std::memcpy(reinterpret_cast<std::byte*>(request.remote_address) + head.moved,  // NOLINT
                source + head.moved, portion);
    head.moved += portion;
    if (head.moved == request.bytes) return true;
    SetDue(AfterAStep());
    return false;
  }

  void Bind(const WorkRequest& request) {
    const FakeFabric::Access& region = static_cast<const FakeRegion*>(request.region)->bound();
    const uint64_t address = reinterpret_cast<uintptr_t>(request.local);
    if (region.domain != domain_ || !FakeFabric::Covers(region, address, request.bytes)) {
      return Fail(CompletionStatus::kLocalError);
    }
    fabric_.access_[request.remote_key] = {.nic = &nic_,
                                           .domain = domain_,
                                           .address = address,
                                           .bytes = request.bytes,
                                           .queue_pair = number_};
    Finish();
  }

  void Finish() {
    const WorkRequest request = pending_.front().request;
    pending_.pop_front();
    SetIdle();
    if (!pending_.empty()) Begin();
    if (request.signaled) AddResult(request.id, CompletionStatus::kSuccess);
  }

  void Fail(CompletionStatus status) {
    const uint64_t id = pending_.front().request.id;
    pending_.pop_front();
    failed_ = true;
    AddResult(id, status);
    Flush();
  }

  void Flush() {
    SetIdle();
    while (!pending_.empty()) {
      AddResult(pending_.front().request.id, CompletionStatus::kFlushed);
      pending_.pop_front();
    }
  }

  void AddResult(uint64_t id, CompletionStatus status) {
    Completion result;
    result.kind = Completion::Kind::kRequest;
    result.status = status;
    result.queue_pair = number_;
    result.id = id;
    nic_.Add(result);
  }

  FakeFabric& fabric_;
  FakeNic& nic_;
  const uint64_t domain_;
  const QueuePairOptions options_;
  const QueuePairNumber number_;
  std::optional<QueuePairAddress> peer_;
  std::deque<Pending> pending_;
  bool busy_ = false;  // works on the first of pending_
  bool failed_ = false;
  MonotonicNs due_ = 0;
  MonotonicNs retries_until_ = 0;
};

// ---- NICs ---------------------------------------------------------------------------------------

FakeNic::FakeNic(FakeFabric& fabric, const std::string& name, const std::string& host,
                 const Gid& gid)
    : fabric_(fabric), host_(host) {
  attributes_.device = name;
  attributes_.gid = gid;
  attributes_.mtu_bytes = 4096;
  attributes_.inline_bytes = fabric.options_.inline_bytes;
  attributes_.rate_limits = fabric.options_.rate_limits;
  attributes_.no_dma_bufs = fabric.options_.no_dma_bufs;
  attributes_.source_port_means = SourcePortMeans::kModify;
}

absl::StatusOr<std::unique_ptr<ProtectionDomain>> FakeNic::MakeDomain() {
  if (failed_) return absl::UnavailableError("the device has failed");
  return std::make_unique<FakeDomain>(fabric_, *this);
}

absl::StatusOr<std::unique_ptr<QueuePair>> FakeNic::MakeQueuePair(ProtectionDomain& domain,
                                                                  const QueuePairOptions& options) {
  return std::make_unique<FakeQueuePair>(fabric_, *this, static_cast<FakeDomain&>(domain).id(),
                                         options);
}

size_t FakeNic::Poll(std::span<Completion> completions) {
  if (failed_) return 0;
  const size_t count = std::min(completions.size(), completions_.size());
  for (size_t i = 0; i < count; ++i) {
    completions[i] = completions_.front();
    if (completions[i].kind != Completion::Kind::kRequest) ++polled_entries_;
    completions_.pop_front();
  }
  counters_.completions += count;
  if (polled_entries_ >= kRefillAtOnce) {
    ++counters_.refills;
    counters_.receives += polled_entries_;
    used_entries_ -= std::exchange(polled_entries_, 0);
  }
  return count;
}

std::optional<VerbsEvent> FakeNic::TakeEvent() {
  if (events_.empty() || events_.front().due > fabric_.clock_.Now()) return std::nullopt;
  VerbsEvent event = std::move(events_.front().event);
  events_.pop_front();
  return event;
}

void FakeNic::SetPort(bool up) {
  port_up_ = up;
  AddEvent({.kind = up ? VerbsEvent::Kind::kPortUp : VerbsEvent::Kind::kPortDown,
            .queue_pair = {},
            .text = up ? "port active" : "port error"});
}

void FakeNic::FailDevice() {
  failed_ = true;
  const auto queue_pairs = queue_pairs_;
  for (const auto& [number, queue_pair] : queue_pairs) queue_pair->Break("device error");
  AddEvent({.kind = VerbsEvent::Kind::kDevice, .queue_pair = {}, .text = "device error"});
}

void FakeNic::Add(const Completion& completion) {
  completions_.push_back(completion);
  woken_ |= std::exchange(armed_, false);
}

void FakeNic::AddEvent(const VerbsEvent& event) {
  for (int i = 0; i < fabric_.options_.event_copies; ++i) {
    const MonotonicNs due = fabric_.options_.event_delay_ns == 0
                                ? fabric_.clock_.Now()
                                : fabric_.LaterBy(0, fabric_.options_.event_delay_ns);
    events_.push_back({events_.empty() ? due : std::max(due, events_.back().due), event});
  }
  woken_ |= std::exchange(armed_, false);
}

bool FakeNic::TakeEntry() {
  if (used_entries_ >= entries_ + kRefillAtOnce) {
    ++not_ready_;
    return false;
  }
  ++used_entries_;
  return true;
}

FakeQueuePair* FakeNic::Find(QueuePairNumber number) {
  const auto found = queue_pairs_.find(number);
  return found == queue_pairs_.end() ? nullptr : found->second;
}

// ---- The fabric ---------------------------------------------------------------------------------

FakeFabric::~FakeFabric() = default;

FakeNic& FakeFabric::AddNic(const std::string& name, const std::string& host,
                            const std::string& address) {
  nics_.push_back(std::make_unique<FakeNic>(*this, name, host, GidOf(nics_.size() + 1, address)));
  nics_by_gid_[nics_.back()->attributes().gid] = nics_.back().get();
  return *nics_.back();
}

std::optional<MonotonicNs> FakeFabric::NextEventTime() const {
  std::optional<MonotonicNs> next;
  if (!busy_.empty() && !hangs) next = busy_.begin()->first.first;
  for (const auto& nic : nics_) {
    if (nic->events_.empty() || nic->events_.front().due <= clock_.Now()) continue;
    next = std::min(next.value_or(nic->events_.front().due), nic->events_.front().due);
  }
  return next;
}

void FakeFabric::Step() {
  while (!hangs && !busy_.empty() && busy_.begin()->first.first <= clock_.Now()) {
    busy_.begin()->second->Step();
  }
}

const FakeFabric::Access* FakeFabric::Find(uint32_t key) const {
  const auto found = access_.find(key);
  return found == access_.end() ? nullptr : &found->second;
}

bool FakeFabric::Covers(const Access& access, uint64_t address, uint64_t bytes) {
  return address >= access.address && bytes <= access.bytes &&
         address - access.address <= access.bytes - bytes;
}

}  // namespace mccs
