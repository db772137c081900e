#include "service/transport/rdma/peer_pair.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "service/transport/rdma/pair_proof.h"

namespace mccs {
namespace {

// At least one request in so many is signaled, so that room is freed in time.
constexpr uint32_t kSignalEvery = 16;
constexpr size_t kMaxLanes = size_t{1} << 16;
// A request's id. A completion of a pair that has ended may be polled when another one has its
// queue pair's number. Both parts wrap around.
//
//    63  62                    40 39             0
//   | 0 | serial of the pair     | request number |
constexpr int kSerialBits = 23;
constexpr int kNumberBits = 40;
constexpr uint64_t kNumberMask = (uint64_t{1} << kNumberBits) - 1;
static_assert(uint64_t{1} << (kSerialBits + kNumberBits) == kIdLimit);

uint64_t FirstId(uint32_t serial) {
  return uint64_t{serial & ((uint32_t{1} << kSerialBits) - 1)} << kNumberBits;
}

// A queue pair's rate is higher than its payload's by this part, for headers and messages.
constexpr uint64_t kOverheadPart = 16;

}  // namespace

PeerPair::PeerPair(std::shared_ptr<PairDomain> domain, Owner& owner, const Clock& clock,
                   const Options& options)
    : domain_(std::move(domain)),
      owner_(owner),
      clock_(clock),
      options_(options),
      id_(wire::IdOf(options.name)),
      first_id_(FirstId(options.serial)) {
  MCCS_CHECK(options.receives >= kLeastReceives);
}

// Some devices (rdma_rxe) end a queue pair only when no window is bound to it any more.
PeerPair::~PeerPair() {
  DropUses();
  UpdateWaiting();
  domain_->jobs().Destroy(domain_->tenant(), std::move(queue_pair_));
}

// ---- Its making ---------------------------------------------------------------------------------

void PeerPair::OnMade(absl::StatusOr<std::unique_ptr<QueuePair>> made) {
  was_made_ = true;
  if (made.ok()) {
    queue_pair_ = *std::move(made);
    number_ = queue_pair_->address().number;
  }
  if (!status_.ok()) {  // broken before
    End();
  } else if (!made.ok()) {
    Break(made.status());
  } else {
    Progress();
  }
}

absl::Status PeerPair::SetPeer(const QueuePairAddress& peer, uint32_t receives) {
  MCCS_CHECK(!has_peer());
  if (receives < kLeastReceives || receives > std::numeric_limits<uint8_t>::max()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the peer grants ", receives, " receives; expected ", kLeastReceives, " to 255"));
  }
  peer_ = peer;
  peer_receives_ = receives;
  UpdateWaiting();
  return absl::OkStatus();
}

bool PeerPair::Introduce(LaneNumber number) {
  if (introducer_.has_value() || has_peer()) return false;
  introducer_ = number;
  introduced_at_ = clock_.Now();
  UpdateWaiting();
  return true;
}

void PeerPair::Withdraw() {
  if (std::exchange(withdrawn_, true)) return;
  UpdateWaiting();
  owner_.OnWithdrawn(*this);
  Progress();
}

void PeerPair::Connect() {
  MCCS_CHECK(made() && has_peer());
  connects_ = true;
  auto result = std::make_shared<absl::Status>();
  domain_->jobs().Run(
      VerbsJobs::Kind::kConnect, domain_->tenant(),
      [queue_pair = queue_pair_.get(), peer = *peer_, abandoned = abandoned_, result] {
        if (!*abandoned) *result = queue_pair->Connect(peer);
      },
      [self = shared_from_this(), result] {
        if (!result->ok()) return self->Break(*result);
        self->connected_ = true;
        self->UpdateRate();
        self->Progress();
      });
}

// ---- Users --------------------------------------------------------------------------------------

absl::StatusOr<LaneNumber> PeerPair::Join(User& user) {
  if (users_.size() == kMaxLanes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a queue pair can have at most ", kMaxLanes, " lanes"));
  }
  // Numbers are not used again soon: what the peer sends to a lane that has ended is dropped.
  do {
    last_number_ = LaneNumber(static_cast<uint16_t>(last_number_.value() + 1));
  } while (!users_.try_emplace(last_number_, Member{.user = &user}).second);
  return last_number_;
}

void PeerPair::Leave(LaneNumber number) {
  const auto member = users_.find(number);
  if (member->second.waits) std::erase(waiting_, number);
  users_.erase(member);
  if (rates_.erase(number) > 0) UpdateRate();
  if (users_.empty()) return Break(absl::UnavailableError("no lane uses the queue pair"));
  if (introducer_ == number && !has_peer()) Withdraw();
}

void PeerPair::SetRate(LaneNumber user, uint64_t bps) {
  rates_[user] = bps;
  UpdateRate();
}

void PeerPair::UpdateRate() {
  if (!domain_->attributes().rate_limits || !connected_ || !status_.ok()) return;
  uint64_t sum = 0;
  bool limited = !rates_.empty();
  for (const auto& [user, bps] : rates_) {
    limited = limited && bps > 0;
    sum += bps;
  }
  // Headers and messages are not payload.
  const uint64_t bps = limited ? sum + sum / kOverheadPart : 0;
  if (std::exchange(rate_bps_, bps) == bps) return;
  domain_->jobs().Run(
      VerbsJobs::Kind::kConnect, domain_->tenant(),
      [queue_pair = queue_pair_.get(), bps] { queue_pair->LimitRate(bps); },
      [self = shared_from_this()] {});
}

PeerPair::User* PeerPair::Find(LaneNumber number) {
  const auto found = users_.find(number);
  return found == users_.end() ? nullptr : found->second.user;
}

void PeerPair::Await(LaneNumber number) {
  const auto member = users_.find(number);
  if (member == users_.end() || std::exchange(member->second.waits, true)) return;
  waiting_.push_back(number);
}

void PeerPair::Progress() {
  const auto users = users_;  // they may leave
  for (const auto& [number, member] : users) {
    if (users_.contains(number)) member.user->OnProgress();
  }
}

// ---- Sending ------------------------------------------------------------------------------------

void PeerPair::Write(LaneNumber user, WorkRequest request, wire::ImmediateFields immediate,
                     uint64_t cookie, std::shared_ptr<RegisteredMemory> source) {
  MCCS_CHECK(HasRoomFor(1));
  --peer_receives_;
  immediate.returned = TakeReturns();
  request.kind = WorkRequest::Kind::kWrite;
  request.immediate = wire::PackImmediate(immediate);
  Queue(request, {.user = user,
                  .cookie = cookie,
                  .reports = true,
                  .memory = std::move(source),
                  .window = nullptr});
}

void PeerPair::SendBytes(LaneNumber user, const VerbsMessage& message) {
  MCCS_CHECK(HasRoomFor(0, /*local=*/1) && peer_receives_ > 0);
  --peer_receives_;
  WorkRequest request;
  request.kind = WorkRequest::Kind::kMessage;
  request.message = message;
  request.message[offsetof(wire::PairMessage, returned)] = std::byte{TakeReturns()};
  Queue(request,
        {.user = user, .cookie = 0, .reports = false, .memory = nullptr, .window = nullptr});
}

absl::StatusOr<std::shared_ptr<WindowBinding>> PeerPair::Bind(
    LaneNumber user, const std::shared_ptr<RegisteredMemory>& memory) {
  if (const std::optional<uint32_t> key = memory->verbs().remote_key(); key.has_value()) {
    auto binding = std::make_shared<WindowBinding>(shared_from_this(), nullptr, *key, memory);
    memory->AddBinding(binding);
    return binding;
  }
  if (!HasRoomFor(/*messages=*/1, /*local=*/1)) {
    if (usable()) Await(user);
    return nullptr;
  }
  MCCS_ASSIGN_OR_RETURN(std::unique_ptr<MemoryWindow> window, domain_->TakeWindow());
  if (window == nullptr) {
    if (std::exchange(awaits_windows_, true)) return nullptr;
    domain_->AwaitWindows([known = weak_from_this()] {
      const auto pair = known.lock();
      if (pair == nullptr) return;
      pair->awaits_windows_ = false;
      pair->Progress();
    });
    return nullptr;
  }
  WorkRequest request;
  request.kind = WorkRequest::Kind::kBind;
  request.local = reinterpret_cast<const std::byte*>(memory->memory().base);  // NOLINT
  request.bytes = memory->memory().bytes;
  request.window = window.get();
  request.region = &memory->verbs();
  request.remote_key = window->NextRemoteKey();
  Queue(request,
        {.user = user, .cookie = 0, .reports = false, .memory = memory, .window = nullptr});
  auto binding = std::make_shared<WindowBinding>(shared_from_this(), std::move(window),
                                                 request.remote_key, memory);
  memory->AddBinding(binding);
  return binding;
}

void PeerPair::Unbind(Unbinding unbinding) {
  if (settled_) {
    domain_->jobs().Destroy(domain_->tenant(), std::move(unbinding.window));
    return;
  }
  unbinding_.push_back(std::move(unbinding));
  if (!status_.ok()) return;
  revoked_at_.push_back(clock_.Now());
  UpdateWaiting();
  owner_.OnQueued(*this);  // posted there: room that a user has claimed remains
}

void PeerPair::QueueUnbindings() {
  while (!unbinding_.empty() && HasRoomFor(0, /*local=*/1)) {
    Unbinding next = std::move(unbinding_.front());
    unbinding_.pop_front();
    WorkRequest request;
    request.kind = WorkRequest::Kind::kInvalidate;
    request.remote_key = next.key;
    Queue(request, {.user = {},
                    .cookie = 0,
                    .reports = false,
                    .memory = std::move(next.memory),
                    .window = std::move(next.window)});
  }
}

void PeerPair::Queue(const WorkRequest& request, Outstanding outstanding) {
  WorkRequest& queued = batch_.emplace_back(request);
  queued.id = first_id_ | ((completed_ + outstanding_.size()) & kNumberMask);
  queued.signaled = ++unsignaled_ >= kSignalEvery;
  if (queued.signaled) unsignaled_ = 0;
  batch_reports_ |=
      outstanding.reports || outstanding.memory != nullptr || outstanding.window != nullptr;
  outstanding_.push_back(std::move(outstanding));
}

uint8_t PeerPair::TakeReturns() {
  const uint32_t returned = std::min<uint32_t>(owed_, std::numeric_limits<uint8_t>::max());
  owed_ -= returned;
  return static_cast<uint8_t>(returned);
}

bool PeerPair::Flush() {
  QueueUnbindings();
  if (owed_ >= options_.receives / 2u && HasRoomFor(0, /*local=*/1) && peer_receives_ > 0) {
    wire::PairMessage message{};
    message.kind = wire::PairMessageKind::kReturn;
    Send(LaneNumber(), message);
  }
  if (batch_.empty()) return false;
  // A user's last request completes without further ones.
  if (std::exchange(batch_reports_, false)) {
    batch_.back().signaled = true;
    unsignaled_ = 0;
  }
  uint64_t end = completed_ + outstanding_.size() - batch_.size();
  for (const WorkRequest& request : batch_) {
    ++end;
    if (request.signaled) signaled_end_ = end;
  }
  const absl::Status posted = queue_pair_->Post(batch_);
  batch_.clear();
  if (!posted.ok()) Break(posted);
  UpdateWaiting();
  return true;
}

void PeerPair::UpdateWaiting() {
  const bool introducing = introducer_.has_value() && !has_peer() && !withdrawn_;
  const bool waits =
      status_.ok() && (completed_ < signaled_end_ || !revoked_at_.empty() || introducing);
  if (waits && !waits_) progress_at_ = clock_.Now();
  if (std::exchange(waits_, waits) != waits) owner_.OnWaiting(waits);
}

void PeerPair::CheckProgress() {
  const MonotonicNs now = clock_.Now();
  if (!revoked_at_.empty() && now >= revoked_at_.front() + kRevokeNs) {
    return Break(absl::UnavailableError(absl::StrCat(
        "the RDMA device has not ended an access to memory for ", kRevokeNs / kNsPerSec, " s")));
  }
  if (introducer_.has_value() && !has_peer() && now >= introduced_at_ + kIntroductionNs) {
    return Withdraw();
  }
  if (completed_ < signaled_end_ && now >= progress_at_ + kStuckNs) {
    Break(absl::UnavailableError(absl::StrCat("the RDMA device has not completed a request for ",
                                              kStuckNs / kNsPerSec, " s")));
  }
}

// ---- Completions --------------------------------------------------------------------------------

void PeerPair::OnCompletion(const Completion& completion) {
  switch (completion.kind) {
    case Completion::Kind::kRequest:
      OnRequest(completion);
      break;
    case Completion::Kind::kReceiveFailed:
      Break(absl::UnavailableError(absl::StrCat("a message of the peer was not received: ",
                                                std::string(Name(completion.status)))));
      break;
    case Completion::Kind::kMessage: {
      const auto message = std::bit_cast<wire::PairMessage>(completion.message);
      if (!OnArrival(message.returned) || message.kind == wire::PairMessageKind::kReturn) break;
      // Nobody: its lane has ended.
      if (User* const user = Find(LaneNumber(message.lane))) user->OnMessage(message);
      break;
    }
    case Completion::Kind::kWritten: {
      const wire::ImmediateFields immediate = wire::UnpackImmediate(completion.immediate);
      if (!OnArrival(immediate.returned)) break;
      if (User* const user = Find(LaneNumber(immediate.lane))) {
        user->OnWritten(immediate, completion.bytes);
      }
      break;
    }
  }
  WakeWaiting();
}

bool PeerPair::OnArrival(uint8_t returned) {
  works_ = true;
  if (++owed_ > options_.receives) {
    Break(absl::UnavailableError("the peer uses more receives than it was granted"));
    return false;
  }
  AddReturned(returned);
  return true;
}

void PeerPair::WakeWaiting() {
  if (waiting_.empty() || !HasRoomFor(1)) return;
  const std::vector<LaneNumber> woken = std::exchange(waiting_, {});
  for (const LaneNumber number : woken) users_.at(number).waits = false;
  for (const LaneNumber number : woken) {
    if (User* const user = Find(number)) user->OnProgress();
  }
}

void PeerPair::OnRequest(const Completion& completion) {
  // Otherwise it is of an earlier pair, or of a faulty NIC.
  const uint64_t ahead = (completion.id - completed_) & kNumberMask;
  const bool is_own = (completion.id & ~kNumberMask) == first_id_ && ahead < outstanding_.size();
  if (!is_own) return;
  const uint64_t number = completed_ + ahead;
  if (completion.status == CompletionStatus::kSuccess) return Complete(number);
  if (completion.status == CompletionStatus::kFlushed) {
    return Break(absl::UnavailableError("the queue pair has failed"));
  }
  if (ahead > 0) Complete(number - 1);
  Break(absl::UnavailableError(
      absl::StrCat("RDMA request failed: ", std::string(Name(completion.status)), " (vendor error ",
                   completion.vendor_error, ")")));
}

void PeerPair::AddReturned(uint8_t count) {
  // A hostile peer may return more than this end has used. Then its own receive queue is empty for
  // a request of this pair, which breaks it.
  peer_receives_ = std::min<uint32_t>(peer_receives_ + count, std::numeric_limits<uint8_t>::max());
}

// All requests up to this one have taken effect.
void PeerPair::Complete(uint64_t through) {
  while (completed_ <= through && !outstanding_.empty()) {
    Outstanding done = std::move(outstanding_.front());
    outstanding_.pop_front();
    ++completed_;
    if (done.window != nullptr) {
      domain_->ReturnWindow(std::move(done.window));
      if (!revoked_at_.empty()) revoked_at_.pop_front();  // empty: the pair is broken
    }
    if (!done.reports) continue;
    works_ = true;
    if (User* const user = Find(done.user)) user->OnSent(done.cookie);
  }
  progress_at_ = clock_.Now();
  UpdateWaiting();
}

// ---- Its end ------------------------------------------------------------------------------------

void PeerPair::Break(const absl::Status& why) {
  if (!status_.ok()) return;
  status_ = why;
  batch_.clear();
  revoked_at_.clear();
  UpdateWaiting();
  *abandoned_ = true;
  owner_.OnBroken(*this);
  if (was_made_) End();  // else OnMade does
  ReportLoss();
}

// Stops the queue pair, if it may have carried anything.
void PeerPair::End() {
  if (!made() || !connects_) {
    drained_ = true;
    return OnStop();
  }
  domain_->jobs().Run(
      VerbsJobs::Kind::kConnect, domain_->tenant(),
      [queue_pair = queue_pair_.get()] { queue_pair->Stop(); },
      [self = shared_from_this()] { self->OnStop(); });
}

void PeerPair::OnStop() {
  stopped_ = true;
  stopped_at_ = clock_.Now();
  owner_.OnStopped(*this);
}

void PeerPair::OnDrained() {
  if (std::exchange(drained_, true) || !stopped_ || settled_) return;
  owner_.OnStopped(*this);
}

void PeerPair::Settle() {
  if (std::exchange(settled_, true)) return;
  DropUses();
  ReportLoss();
}

// Windows first: memory to which one is bound cannot be deregistered.
void PeerPair::DropUses() {
  for (Outstanding& lost : outstanding_) {
    domain_->jobs().Destroy(domain_->tenant(), std::move(lost.window));
  }
  for (Unbinding& lost : unbinding_) {
    domain_->jobs().Destroy(domain_->tenant(), std::move(lost.window));
  }
  outstanding_.clear();
  unbinding_.clear();
}

void PeerPair::ReportLoss() {
  const auto users = users_;  // they may leave
  for (const auto& [number, member] : users) {
    if (users_.contains(number)) member.user->OnPairLost(status_);
  }
}

}  // namespace mccs
