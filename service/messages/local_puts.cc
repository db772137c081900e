#include "service/messages/local_puts.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "service/device/gpu/gpu_address_space.h"
#include "service/messages/poll_limit.h"

namespace mccs {

void LocalPuts::Add(const OpenMessage& call) {
  std::unique_ptr<Pair>& pair = pairs_[call.pair];
  if (pair == nullptr) pair = std::make_unique<Pair>();
  if (pair->calls.empty()) busy_.push_back(pair.get());
  pair->calls.push_back(call);
}

void LocalPuts::WindowsChanged() {
  for (auto& [rank, pairs] : waiting_) {
    busy_.insert(busy_.end(), pairs.begin(), pairs.end());
    pairs.clear();
  }
}

absl::StatusOr<bool> LocalPuts::Poll(std::vector<OpenMessage>& done) {
  MCCS_RETURN_IF_ERROR(mem_ops_.status);
  for (const auto& [rank, copies] : process_copies_) MCCS_RETURN_IF_ERROR(copies.status);
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
      waiting_[pair.calls.front().pair.destination].push_back(&pair);
    } else {
      busy_.push_back(&pair);
    }
  }
  return moved;
}

absl::StatusOr<LocalPuts::Progress> LocalPuts::Advance(Pair& pair, bool* moved) {
  if (pair.copy == nullptr) {
    MCCS_ASSIGN_OR_RETURN(const Progress begun, Begin(pair));
    if (begun != Progress::kUnderWay) return begun;
  }
  return pair.copy->copy.Advance(*parts_.device, moved) ? Progress::kComplete : Progress::kUnderWay;
}

absl::StatusOr<LocalPuts::Progress> LocalPuts::Begin(Pair& pair) {
  const OpenMessage& call = pair.calls.front();
  const WindowPort* const port = parts_.port_of(call.pair.destination);
  if (port == nullptr) return Progress::kWaits;
  if (call.bytes() == 0) return Progress::kComplete;
  const PostedMessage& put = *call.call;
  if (port->GetWindow(put.window).state == WindowView::State::kNotYet) return Progress::kWaits;
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
                            .kernel = put.kernel,
                            .process = window.process};
  if (!DeviceCopy::IsPossible(*parts_.device, job)) return NotMapped(call);
  const bool by_process = !put.kernel.runs() && !IsMapped(*parts_.device, window.memory);
  pair.copy = std::make_unique<Copy>(
      Copy{.window = std::move(window.hold),
           .copy = {*parts_.device, job,
                    by_process ? &process_copies_[call.pair.destination] : &mem_ops_},
           .process = by_process ? window.process->place().process : 0});
  return Progress::kUnderWay;
}

bool LocalPuts::quiescent() const {
  return device_quiescent() && std::ranges::all_of(process_copies_, [](const auto& of) {
           return of.second.outstanding == 0;
         });
}

void LocalPuts::Abandon() {
  for (auto& [rank, copies] : process_copies_) copies.abandoned = true;
}

void LocalPuts::AbandonFor(Rank rank) {
  const auto copies = process_copies_.find(rank);
  if (copies != process_copies_.end()) copies->second.abandoned = true;
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

bool LocalPuts::ProcessReadsFrom(Rank rank) const {
  return std::ranges::any_of(busy_, [&](const Pair* pair) {
    return pair->copy != nullptr && pair->copy->process != 0 &&
           pair->calls.front().pair.source == rank;
  });
}

void LocalPuts::AddUncopied(WaitingCalls& waiting) const {
  for (const Pair* pair : busy_) {
    if (!waiting.Look()) return;
    if (pair->copy == nullptr || pair->copy->process == 0) continue;
    const OpenMessage& call = pair->calls.front();
    waiting.Add(UncopiedPut{.pair = call.pair,
                            .window = call.call->window,
                            .part = call.number,
                            .process = pair->copy->process});
  }
}

void LocalPuts::AddUnmatched(WaitingCalls& waiting) const {
  for (const auto& [rank, pairs] : waiting_) {
    for (const Pair* pair : pairs) {
      if (!waiting.Look()) return;
      waiting.Add(pair->calls.front());
    }
  }
}

const OpenMessage* LocalPuts::WaitingFor(Rank rank) const {
  const auto of_rank = waiting_.find(rank);
  return of_rank == waiting_.end() || of_rank->second.empty()
             ? nullptr
             : &of_rank->second.front()->calls.front();
}

}  // namespace mccs
