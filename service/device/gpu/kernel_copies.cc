#include "service/device/gpu/kernel_copies.h"

#include <algorithm>
#include <utility>

namespace mccs {
namespace {

// Queues, and copies by processes, that one Poll visits.
constexpr size_t kQueuesPerTurn = 64;
constexpr size_t kByProcessPerTurn = 64;
// Copies of one queue that one Poll ends because the queue has.
constexpr size_t kFailedPerTurn = 16;

// `runs`: a kernel runs the command. OK: it has run it, or will.
absl::Status WhyEnded(const KernelQueue& queue, bool runs) {
  if (!runs)
    return absl::UnavailableError(
        "no kernel copies a message: its process has ended or lost the GPU, or could not launch "
        "the kernel");
  if (queue.stopped())
    return absl::CancelledError("the communicator of a message that a kernel copies has failed");
  return absl::OkStatus();
}

}  // namespace

void KernelCopies::Add(const RegionCopy& copy, MemToken token) {
  if (!copy.kernel.runs()) {
    by_process_.push_back({ProcessCopy(copy), token});
    return;
  }
  const auto [entry, is_new] = queues_.try_emplace(copy.kernel.queue);
  if (is_new) turns_.push_back(copy.kernel.queue);
  entry->second.waiting.push_back({copy.from, copy.to, copy.kernel.done_value, token});
}

Device::Polled KernelCopies::Poll(std::span<Device::Finished> finished) {
  Device::Polled polled;
  for (size_t i = std::min(turns_.size(), kQueuesPerTurn); i > 0; --i) {
    KernelQueue* const queue = turns_.front();
    turns_.pop_front();
    const auto entry = queues_.find(queue);
    polled.worked |= TakeFinished(*queue, entry->second);
    polled.worked |= Publish(*queue, entry->second);
    if (entry->second.waiting.empty() && entry->second.running.empty()) {
      queues_.erase(entry);
    } else {
      turns_.push_back(queue);
    }
  }
  polled.worked |= PollProcesses();
  reported_.clear();
  while (reported_.size() < finished.size() && !done_.empty()) {
    reported_.push_back(std::move(done_.front()));
    done_.pop_front();
  }
  for (const Done& done : reported_) {
    finished[polled.finished++] = {.token = done.token,
                                   .error = done.status.ok() ? nullptr : &done.status};
  }
  return polled;
}

bool KernelCopies::PollProcesses() {
  bool any = false;
  for (size_t i = std::min(by_process_.size(), kByProcessPerTurn); i > 0; --i) {
    ByProcess next = std::move(by_process_.front());
    by_process_.pop_front();
    const absl::StatusOr<bool> copied = next.copy.Advance();
    if (copied.ok() && !*copied) {
      by_process_.push_back(std::move(next));
      continue;
    }
    done_.push_back({next.token, copied.status()});
    any = true;
  }
  return any;
}

bool KernelCopies::TakeFinished(KernelQueue& queue, Queue& its) {
  bool any = false;
  while (!its.running.empty() && queue.Finished(its.running.front().command)) {
    // A kernel that was stopped, or has died, may have left it out.
    const absl::Status status = WhyEnded(queue, queue.RunsCommand(its.running.front().command));
    for (const MemToken token : its.running.front().tokens) done_.push_back({token, status});
    its.running.pop_front();
    any = true;
  }
  return any;
}

bool KernelCopies::Publish(KernelQueue& queue, Queue& its) {
  const auto fail_first = [&](const absl::Status& why) {
    done_.push_back({its.waiting.front().token, why});
    its.waiting.pop_front();
  };
  if (its.waiting.empty()) return false;
  if (const absl::Status why = WhyEnded(queue, queue.Runs(its.waiting.front().done_value));
      !why.ok()) {
    for (size_t i = 0; i < kFailedPerTurn && !its.waiting.empty(); ++i) fail_first(why);
    return true;
  }
  if (!queue.MayPublishNext()) return false;
  kernels::Command command{};
  Running running;
  while (!its.waiting.empty() && command.copies < kernels::kMostCopies) {
    const Waiting& next = its.waiting.front();
    const absl::StatusOr<uint64_t> from = AddressOf(queue.process(), next.from);
    const absl::StatusOr<uint64_t> to = AddressOf(queue.process(), next.to);
    if (!from.ok() || !to.ok()) {
      fail_first(from.ok() ? to.status() : from.status());
      continue;
    }
    if (*from == 0 || *to == 0) break;
    // All are of one group, whose kernel waits for the last call.
    command.done_value = next.done_value;
    command.copy[command.copies++] = {.from = *from, .to = *to, .bytes = next.to.bytes};
    running.tokens.push_back(next.token);
    its.waiting.pop_front();
  }
  if (command.copies == 0) return false;
  running.command = queue.Reserve();
  queue.Publish(running.command, command);
  its.running.push_back(std::move(running));
  return true;
}

}  // namespace mccs
