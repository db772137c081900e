#include "service/messages/local_exchange.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "service/device/gpu/kernel_queue.h"

namespace mccs {

namespace {

// A kernel of the source's rank, if it has one: writes to another GPU are faster than reads.
KernelQueue* QueueOf(const OpenMessage& send, const OpenMessage& receive) {
  return send.call->queue != nullptr ? send.call->queue : receive.call->queue;
}

}  // namespace

absl::Status NotMapped(const OpenMessage& call) {
  return absl::InvalidArgumentError(absl::StrCat(
      Describe(call),
      " names memory on a GPU, which mccsd does not map; use the libnccl.so.2 of mccsd's release, "
      "which copies it to memory of the host"));
}

DeviceCopy::DeviceCopy(const Device& device, const Job& job, MemOpOwner* owner)
    : job_(job),
      mapped_(job.bytes == 0 || (IsMapped(device, job.from) && IsMapped(device, job.to))) {
  // In-place: nothing to copy.
  if (job_.from.region == job_.to.region && job_.from.offset == job_.to.offset)
    submitted_ = job_.bytes;
  for (Part& part : parts_) part.mem_ops.owner = owner;
}

bool DeviceCopy::IsPossible(const Device& device, const Job& job) {
  if (job.bytes == 0 || job.queue != nullptr) return true;
  return IsMapped(device, job.from) && (IsMapped(device, job.to) || job.process != nullptr);
}

bool DeviceCopy::Advance(Device& device, bool* moved) {
  return mapped_ ? AdvanceMapped(device, moved) : AdvanceUnmapped(device, moved);
}

bool DeviceCopy::AdvanceUnmapped(Device& device, bool* moved) {
  PendingMemOps& whole = parts_[0].mem_ops;
  if (submitted_ < job_.bytes) {
    whole.Submit(device, RegionCopy{.from = job_.from.Part(0, job_.bytes),
                                    .to = job_.to.Part(0, job_.bytes),
                                    .queue = job_.queue,
                                    .process = job_.process});
    submitted_ = job_.bytes;
    *moved = true;
  }
  return whole.outstanding == 0;
}

void DeviceCopy::Stop() {
  if (parts_[0].mem_ops.outstanding > 0 && job_.queue != nullptr) job_.queue->Stop();
}

bool DeviceCopy::AdvanceMapped(Device& device, bool* moved) {
  bool idle = true;
  for (Part& part : parts_) {
    if (part.mem_ops.outstanding == 0 && submitted_ < job_.bytes) {
      const uint64_t bytes = std::min(kPartBytes, job_.bytes - submitted_);
      part.source = {.address = job_.from.address() + submitted_};
      part.destination = job_.to.address() + submitted_;
      const MemOp op{.sources = {&part.source, 1},
                     .destinations = {&part.destination, 1},
                     .elements = bytes,
                     .type = DataType::kInt8,
                     .stream = job_.bytes >= kLargeBytes};
      if (!part.mem_ops.Submit(device, op)) return false;
      submitted_ += bytes;
      *moved = true;
    }
    idle &= part.mem_ops.outstanding == 0;
  }
  return idle && submitted_ == job_.bytes;
}

absl::Status LocalExchange::Add(const OpenMessage& message) {
  Waiting& waiting = waiting_[message.pair];
  const bool sends = message.call->kind == OpKind::kSend;
  std::deque<OpenMessage>& ours = sends ? waiting.sends : waiting.receives;
  std::deque<OpenMessage>& theirs = sends ? waiting.receives : waiting.sends;
  if (theirs.empty()) {
    ours.push_back(message);
    return absl::OkStatus();
  }
  const OpenMessage other = theirs.front();
  theirs.pop_front();
  MCCS_RETURN_IF_ERROR(CheckMatch(message, {.type = other.call->type, .count = other.call->count}));
  return Start(sends ? message : other, sends ? other : message);
}

absl::Status LocalExchange::Start(const OpenMessage& send, const OpenMessage& receive) {
  const DeviceCopy::Job job{.from = send.memory(),
                            .to = receive.memory(),
                            .bytes = send.bytes(),
                            .queue = QueueOf(send, receive)};
  if (!DeviceCopy::IsPossible(device_, job))
    return NotMapped(IsMapped(device_, job.from) ? receive : send);
  copies_.push_back(std::make_unique<Copy>(
      Copy{.send = send, .receive = receive, .copy = {device_, job, &mem_ops_}}));
  return absl::OkStatus();
}

absl::StatusOr<bool> LocalExchange::Poll(std::vector<OpenMessage>& done) {
  if (!mem_ops_.status.ok()) return mem_ops_.status;
  bool moved = false;
  const PollLimit limit(device_);
  for (size_t i = std::min(copies_.size(), PollLimit::kCopies); i > 0 && limit.left(); --i) {
    std::unique_ptr<Copy> copy = std::move(copies_.front());
    copies_.pop_front();
    if (copy->copy.Advance(device_, &moved)) {
      done.push_back(copy->send);
      done.push_back(copy->receive);
      moved = true;
    } else {
      copies_.push_back(std::move(copy));
    }
  }
  return moved;
}

void LocalExchange::Stop() {
  for (const std::unique_ptr<Copy>& copy : copies_) copy->copy.Stop();
}

void LocalExchange::AddUnmatched(std::vector<OpenMessage>& unmatched) const {
  for (const auto& [pair, waiting] : waiting_) {
    if (!waiting.sends.empty()) unmatched.push_back(waiting.sends.front());
    if (!waiting.receives.empty()) unmatched.push_back(waiting.receives.front());
  }
}

const OpenMessage* LocalExchange::WaitingFor(Rank rank) const {
  for (const auto& [pair, waiting] : waiting_) {
    if (pair.destination == rank && !waiting.sends.empty()) return &waiting.sends.front();
    if (pair.source == rank && !waiting.receives.empty()) return &waiting.receives.front();
  }
  return nullptr;
}

void LocalPuts::Add(const OpenMessage& call) {
  std::unique_ptr<Pair>& pair = pairs_[call.pair];
  if (pair == nullptr) pair = std::make_unique<Pair>();
  if (pair->calls.empty()) busy_.push_back(pair.get());
  pair->calls.push_back(call);
}

void LocalPuts::WindowsChanged() {
  busy_.insert(busy_.end(), waiting_.begin(), waiting_.end());
  waiting_.clear();
}

absl::StatusOr<bool> LocalPuts::Poll(std::vector<OpenMessage>& done) {
  if (!mem_ops_.status.ok()) return mem_ops_.status;
  bool moved = false;
  const PollLimit limit(*parts_.device);
  size_t calls_left = PollLimit::kCopies;
  for (size_t i = busy_.size(); i > 0 && calls_left > 0 && limit.left(); --i) {
    Pair& pair = *busy_.front();
    Progress progress = Progress::kUnderWay;
    while (!pair.calls.empty() && calls_left > 0 && limit.left()) {
      --calls_left;
      MCCS_ASSIGN_OR_RETURN(progress, Advance(pair, &moved));
      if (progress != Progress::kComplete) break;
      const OpenMessage call = pair.calls.front();
      pair.calls.pop_front();
      pair.copy.reset();
      MCCS_RETURN_IF_ERROR(parts_.signals->Count(call.pair, call.call->signal));
      done.push_back(call);
      moved = true;
    }
    busy_.pop_front();
    if (pair.calls.empty()) continue;
    if (progress == Progress::kWaits) {
      waiting_.push_back(&pair);
    } else {
      busy_.push_back(&pair);
    }
  }
  return moved;
}

absl::StatusOr<LocalPuts::Progress> LocalPuts::Advance(Pair& pair, bool* moved) {
  const OpenMessage& call = pair.calls.front();
  if (pair.copy == nullptr) {
    const WindowPort* const port = parts_.port_of(call.pair.destination);
    if (port == nullptr) return Progress::kWaits;
    if (call.bytes() == 0) return Progress::kComplete;
    const PostedMessage& put = *call.call;
    if (port->GetWindow(put.window).state == WindowView::State::kNotYet) {
      return Progress::kWaits;
    }
    MCCS_ASSIGN_OR_RETURN(WindowMemory window, port->FindInWindow({.number = put.window,
                                                                   .offset = put.window_offset,
                                                                   .bytes = call.bytes()}));
    if (call.bytes() > window.memory.bytes) {
      return absl::InvalidArgumentError(
          absl::StrCat(Describe(call), ": window #", put.window, " has only ", window.memory.bytes,
                       " bytes from offset ", put.window_offset, " on"));
    }
    const DeviceCopy::Job job{.from = call.memory(),
                              .to = window.memory,
                              .bytes = call.bytes(),
                              .queue = put.queue,
                              .process = window.process};
    if (!DeviceCopy::IsPossible(*parts_.device, job)) return NotMapped(call);
    pair.copy = std::make_unique<Copy>(
        Copy{.window = std::move(window.hold), .copy = {*parts_.device, job, &mem_ops_}});
  }
  return pair.copy->copy.Advance(*parts_.device, moved) ? Progress::kComplete : Progress::kUnderWay;
}

void LocalPuts::Stop() {
  for (const Pair* pair : busy_) {
    if (pair->copy != nullptr) pair->copy->copy.Stop();
  }
}

bool LocalPuts::WritesInto(Rank rank, uint64_t window) const {
  return std::any_of(busy_.begin(), busy_.end(), [&](const Pair* pair) {
    if (pair->copy == nullptr) return false;
    const OpenMessage& call = pair->calls.front();
    return call.pair.destination == rank && (window == 0 || call.call->window == window);
  });
}

void LocalPuts::AddUnmatched(std::vector<OpenMessage>& unmatched) const {
  for (const Pair* pair : waiting_) unmatched.push_back(pair->calls.front());
}

const OpenMessage* LocalPuts::WaitingFor(Rank rank) const {
  for (const Pair* pair : waiting_) {
    const OpenMessage& call = pair->calls.front();
    if (call.pair.destination == rank) return &call;
  }
  return nullptr;
}

}  // namespace mccs
