#include "service/transport/rdma/peer_pair.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace mccs {
namespace {

// At least one request in so many is signaled, so that room is freed in time.
constexpr uint32_t kSignalEvery = 16;
constexpr size_t kMaxLanes = size_t{1} << 16;
// A request's id: the serial of its pair, and its number. A completion of a pair that has ended may
// be polled when another one has its queue pair's number.
constexpr int kSerialShift = 40;

}  // namespace

PeerPair::PeerPair(std::shared_ptr<PairDomain> domain, std::unique_ptr<QueuePair> queue_pair,
                   const Options& options)
    : domain_(std::move(domain)),
      queue_pair_(std::move(queue_pair)),
      number_(queue_pair_->address().number),
      options_(options),
      completed_(uint64_t{options.serial} << kSerialShift) {
  MCCS_CHECK(options.receives >= kLeastReceives);
  domain_->granted += options.receives;
}

PeerPair::~PeerPair() { domain_->granted -= options_.receives; }

absl::Status PeerPair::Connect(const QueuePairAddress& peer, uint32_t receives) {
  MCCS_CHECK(!connected());
  if (receives < kLeastReceives || receives > std::numeric_limits<uint8_t>::max()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the peer grants ", receives, " receives; expected ", kLeastReceives, " to 255"));
  }
  const absl::Status status = queue_pair_->Connect(peer);
  if (!status.ok()) return status;
  peer_number_ = peer.number;
  peer_receives_ = receives;
  return absl::OkStatus();
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
  } while (!users_.try_emplace(last_number_, &user).second);
  return last_number_;
}

void PeerPair::Leave(LaneNumber number) { users_.erase(number); }

PeerPair::User* PeerPair::Find(LaneNumber number) {
  const auto found = users_.find(number);
  return found == users_.end() ? nullptr : found->second;
}

// ---- Sending ------------------------------------------------------------------------------------

void PeerPair::Write(LaneNumber user, WorkRequest request, wire::ImmediateFields immediate,
                     uint64_t cookie) {
  MCCS_CHECK(HasRoomFor(1));
  --peer_receives_;
  immediate.returned = TakeReturns();
  request.kind = WorkRequest::Kind::kWrite;
  request.immediate = wire::PackImmediate(immediate);
  Queue(user, request, cookie, /*reports=*/true, /*signaled=*/false);
}

void PeerPair::Send(LaneNumber user, wire::PairMessage message) {
  MCCS_CHECK(HasRoomFor(1));
  QueueMessage(user, message);
}

void PeerPair::QueueMessage(LaneNumber user, wire::PairMessage message) {
  --peer_receives_;
  message.returned = TakeReturns();
  WorkRequest request;
  request.kind = WorkRequest::Kind::kMessage;
  request.message = std::bit_cast<VerbsMessage>(message);
  Queue(user, request, 0, /*reports=*/false, /*signaled=*/false);
}

void PeerPair::PostLocal(LaneNumber user, const WorkRequest& request, uint64_t cookie) {
  MCCS_CHECK(HasRoomForLocal(1));
  Queue(user, request, cookie, /*reports=*/request.signaled, request.signaled);
}

void PeerPair::Queue(LaneNumber user, const WorkRequest& request, uint64_t cookie, bool reports,
                     bool signaled) {
  WorkRequest& queued = batch_.emplace_back(request);
  queued.id = completed_ + outstanding_.size();
  queued.signaled = signaled || ++unsignaled_ >= kSignalEvery;
  if (queued.signaled) unsignaled_ = 0;
  outstanding_.push_back({.user = user, .cookie = cookie, .reports = reports});
  batch_reports_ |= reports;
}

uint8_t PeerPair::TakeReturns() {
  const uint32_t returned = std::min<uint32_t>(owed_, std::numeric_limits<uint8_t>::max());
  owed_ -= returned;
  return static_cast<uint8_t>(returned);
}

bool PeerPair::Flush() {
  const bool room = usable() && peer_receives_ > 0 && outstanding() < options_.requests;
  if (room && owed_ >= options_.receives / 2u) {
    wire::PairMessage message{};
    message.kind = wire::PairMessageKind::kReturn;
    QueueMessage(LaneNumber(), message);
  }
  if (batch_.empty()) return false;
  // A user's last request completes without further ones.
  if (std::exchange(batch_reports_, false)) {
    batch_.back().signaled = true;
    unsignaled_ = 0;
  }
  const absl::Status posted = queue_pair_->Post(batch_);
  batch_.clear();
  if (!posted.ok()) Break(posted);
  return true;
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
      if (User* const user = Find(LaneNumber(message.lane))) {
        user->OnMessage(message);
      } else {
        ++unknown_;
      }
      break;
    }
    case Completion::Kind::kWritten: {
      const wire::ImmediateFields immediate = wire::UnpackImmediate(completion.immediate);
      if (!OnArrival(immediate.returned)) break;
      if (User* const user = Find(LaneNumber(immediate.lane))) {
        user->OnWritten(immediate, completion.bytes);
      } else {
        ++unknown_;
      }
      break;
    }
  }
  WakeWaiting();
}

bool PeerPair::OnArrival(uint8_t returned) {
  if (++owed_ > options_.receives) {
    Break(absl::UnavailableError("the peer uses more receives than it was granted"));
    return false;
  }
  AddReturned(returned);
  return true;
}

void PeerPair::WakeWaiting() {
  if (waiting_.empty() || !HasRoomFor(1)) return;
  for (const LaneNumber number : std::exchange(waiting_, {})) {
    if (User* const user = Find(number)) user->OnRoom();
  }
}

void PeerPair::SetSettled() {
  settled_ = true;
  const auto users = users_;  // they may leave
  for (const auto& [number, user] : users) {
    if (users_.contains(number)) user->OnPairLost(status_);
  }
}

void PeerPair::OnRequest(const Completion& completion) {
  if (completion.id < completed_ || completion.id - completed_ >= outstanding_.size()) {
    ++unknown_;
    return;
  }
  if (completion.status == CompletionStatus::kSuccess) return Complete(completion.id);
  if (completion.status == CompletionStatus::kFlushed) {
    return Break(absl::UnavailableError("the queue pair has failed"));
  }
  if (completion.id > completed_) Complete(completion.id - 1);
  const Outstanding failed = outstanding_.front();
  if (completion.status == CompletionStatus::kRemoteAccess && failed.reports) {
    if (User* const user = Find(failed.user)) user->OnWriteFault(failed.cookie);
  }
  Break(absl::UnavailableError(
      absl::StrCat("RDMA request failed: ", std::string(Name(completion.status)), " (vendor error ",
                   completion.vendor_error, ")")));
}

void PeerPair::AddReturned(uint8_t count) {
  // A peer cannot return more than this end has used: it would only make its own queue overflow.
  peer_receives_ = std::min<uint32_t>(peer_receives_ + count, std::numeric_limits<uint8_t>::max());
}

// All requests up to this one have taken effect.
void PeerPair::Complete(uint64_t through) {
  while (completed_ <= through && !outstanding_.empty()) {
    const Outstanding done = outstanding_.front();
    outstanding_.pop_front();
    ++completed_;
    if (!done.reports) continue;
    if (User* const user = Find(done.user)) user->OnSent(done.cookie);
  }
}

void PeerPair::Break(const absl::Status& why) {
  if (!status_.ok()) return;
  status_ = why;
  queue_pair_->Stop();
  batch_.clear();
  if (options_.on_break) options_.on_break(*this);
  const auto users = users_;  // they may leave
  for (const auto& [number, user] : users) {
    if (users_.contains(number)) user->OnPairLost(why);
  }
}

}  // namespace mccs
