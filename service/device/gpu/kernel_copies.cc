#include "service/device/gpu/kernel_copies.h"

#include <algorithm>
#include <utility>

namespace mccs {
namespace {

// Queues, and processes that copy, that one Poll viscopies.
constexpr size_t kQueuesPerTurn = 64;
constexpr size_t kProcessesPerTurn = 16;
// Copies of one process that one Poll starts, and those that it checks for having been abandoned.
constexpr size_t kStartsPerTurn = 16;
constexpr size_t kChecksPerTurn = 64;
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
    const auto [process, is_new] = processes_.try_emplace(copy.process);
    if (is_new) process_turns_.push_back(copy.process);
    process->second.waiting.push_back({ProcessCopy(copy), token});
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
  for (size_t i = std::min(process_turns_.size(), kProcessesPerTurn); i > 0; --i) {
    GpuAddressSpace* const next = process_turns_.front();
    process_turns_.pop_front();
    const auto entry = processes_.find(next);
    any |= PollStarted(entry->second);
    any |= StartWaiting(entry->second);
    any |= DropAbandoned(entry->second);
    if (entry->second.started.empty() && entry->second.waiting.empty()) {
      processes_.erase(entry);
    } else {
      process_turns_.push_back(next);
    }
  }
  return any;
}

bool KernelCopies::Advance(ByProcess& copy) {
  const absl::StatusOr<bool> copied = copy.copy.Advance();
  if (copied.ok() && !*copied) return false;
  done_.push_back({copy.token, copied.status()});
  return true;
}

bool KernelCopies::PollStarted(Process& process) {
  return std::erase_if(process.started, [&](ByProcess& copy) { return Advance(copy); }) > 0;
}

bool KernelCopies::StartWaiting(Process& process) {
  bool any = false;
  for (size_t i = 0; i < kStartsPerTurn && !process.waiting.empty(); ++i) {
    ByProcess& next = process.waiting.front();
    const bool ended = Advance(next);
    if (!ended && !next.copy.started()) break;
    if (!ended) process.started.push_back(std::move(next));
    process.waiting.pop_front();
    any = true;
  }
  return any;
}

bool KernelCopies::DropAbandoned(Process& process) {
  bool any = false;
  for (size_t i = std::min(process.waiting.size(), kChecksPerTurn); i > 0; --i) {
    if (process.next_check >= process.waiting.size()) process.next_check = 0;
    const auto copy = process.waiting.begin() + static_cast<ptrdiff_t>(process.next_check);
    if (copy->copy.abandoned() && Advance(*copy)) {
      process.waiting.erase(copy);
      any = true;
    } else {
      ++process.next_check;
    }
  }
  return any;
}

bool KernelCopies::TakeFinished(KernelQueue& queue, Queue& copies) {
  bool any = false;
  while (!copies.running.empty() && queue.Finished(copies.running.front().command)) {
    // A kernel that was stopped, or has died, may have left it out.
    const absl::Status status = WhyEnded(queue, queue.RunsCommand(copies.running.front().command));
    for (const MemToken token : copies.running.front().tokens) done_.push_back({token, status});
    copies.running.pop_front();
    any = true;
  }
  return any;
}

bool KernelCopies::Publish(KernelQueue& queue, Queue& copies) {
  const auto fail_first = [&](const absl::Status& why) {
    done_.push_back({copies.waiting.front().token, why});
    copies.waiting.pop_front();
  };
  if (copies.waiting.empty()) return false;
  if (const absl::Status why = WhyEnded(queue, queue.Runs(copies.waiting.front().done_value));
      !why.ok()) {
    for (size_t i = 0; i < kFailedPerTurn && !copies.waiting.empty(); ++i) fail_first(why);
    return true;
  }
  if (!queue.MayPublishNext()) return false;
  kernels::Command command{};
  Running running;
  while (!copies.waiting.empty() && command.copies < kernels::kMostCopies) {
    const Waiting& next = copies.waiting.front();
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
    copies.waiting.pop_front();
  }
  if (command.copies == 0) return false;
  running.command = queue.Reserve();
  queue.Publish(running.command, command);
  copies.running.push_back(std::move(running));
  return true;
}

}  // namespace mccs
