#include "shim/daemon/fence.h"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "shim/cuda/driver_api.h"
#include "shim/cuda/host_memory.h"

namespace mccs::shim {
namespace {

// Two threads (the reader that detects the daemon's death, a caller that aborts) may fail one
// region at the same time.
std::mutex fail_mutex;

constexpr char kWhat[] = "the communicator's fence page";

}  // namespace

absl::StatusOr<std::unique_ptr<FencePage>> FencePage::Open(const DriverApi& driver,
                                                           SharedRegion region,
                                                           SharedRegion kernels,
                                                           BlockWordsLease block_words) {
  if (region.bytes() < sizeof(wire::CommRegion)) {
    return absl::InternalError(
        absl::StrCat("invalid communicator region from the daemon: ", region.bytes(),
                     " bytes; expected ", sizeof(wire::CommRegion)));
  }
  std::unique_ptr<FencePage> page(new FencePage(driver, std::move(region)));
  if (page->region().header.magic != wire::kFencePageMagic) {
    return absl::InternalError("invalid communicator region from the daemon: its header is wrong");
  }
  MCCS_ASSIGN_OR_RETURN(page->device_base_, RegisterHostMemory(driver, page->memory_, kWhat));
  driver.CtxGetCurrent(&page->context_);
  if (kernels.data() == nullptr) return page;
  if (kernels.bytes() < sizeof(kernels::KernelRegion)) {  // whole pages
    return absl::InternalError(absl::StrCat(
        "invalid kernel region from the daemon: ", kernels.bytes(), " bytes; expected at least ",
        sizeof(kernels::KernelRegion), "; install mccsd and libnccl.so.2 from the same release"));
  }
  page->kernel_memory_ = std::move(kernels);
  page->block_words_ = std::move(block_words);
  MCCS_ASSIGN_OR_RETURN(page->kernel_base_,
                        RegisterHostMemory(driver, page->kernel_memory_, kWhat));
  return page;
}

FencePage::~FencePage() {
  if (context_ == nullptr) return;
  const ScopedContext context(driver_, context_);
  const RelaxedCapture relaxed(driver_);
  driver_.MemHostUnregister(memory_.data());
  if (kernel_base_ != 0) driver_.MemHostUnregister(kernel_memory_.data());
}

void FailLocally(wire::CommRegion& region, wire::ErrorClass error, std::string_view text) {
  std::lock_guard lock(fail_mutex);
  if (region.failure.error.load(std::memory_order_acquire) == 0) {
    const size_t bytes = std::min(text.size(), sizeof(region.failure.text) - 1);
    std::memcpy(region.failure.text, text.data(), bytes);
    region.failure.text[bytes] = '\0';
    // Pairs with the acquire load in FailureOf.
    region.failure.error.store(static_cast<uint32_t>(error), std::memory_order_release);
  }
  // If the departure of a rank was reported before. Pairs with the acquire load in WorkFailureOf.
  region.failure.accepts_calls.store(0, std::memory_order_release);
}

void ReleaseStreams(wire::CommRegion& region, bool captured) {
  std::lock_guard lock(fail_mutex);
  const uint64_t done = region.done.value.load(std::memory_order_acquire);
  if (done != wire::kFencePoison) {
    region.failure.done_before_poison = done;
    // Makes done_before_poison visible to LastDone.
    wire::SignalFence(region.done, wire::kFencePoison);
  }
  if (captured) wire::PoisonCaptured(region);
}

void WakeKernels(kernels::KernelRegion& region, bool captured) {
  for (kernels::CommandQueue& queue : region.posted)
    wire::SignalFence(kernels::BellOf(queue), wire::kFencePoison);
  if (!captured) return;
  for (kernels::CommandQueue& queue : region.captured)
    wire::SignalFence(kernels::BellOf(queue), wire::kFencePoison);
}

uint64_t LastDone(const wire::CommRegion& region) {
  const uint64_t done = region.done.value.load(std::memory_order_acquire);
  return done == wire::kFencePoison ? region.failure.done_before_poison : done;
}

void RetiredFencePages::RetirePage(std::unique_ptr<FencePage> page, bool ended_well,
                                   MonotonicNs now) {
  std::vector<RetiredPage> cleared;  // unmapped after the lock is released
  std::lock_guard lock(mutex_);
  if (!ended_well) {
    permanent_.push_back(std::move(page));
    return;
  }
  retired_.push_back({std::move(page), now});
  while (retired_.size() > kMinRetiredPages && now - retired_.front().since >= kRetireNs) {
    cleared.push_back(std::move(retired_.front()));
    retired_.erase(retired_.begin());
  }
}

void BackoffWait::Pause() {
  constexpr int kSpins = 200;
  constexpr int kYields = 1000;
  constexpr long kSleepNs = 50'000;
  ++rounds_;
  if (rounds_ <= kSpins) {
    __builtin_ia32_pause();
  } else if (rounds_ <= kYields) {
    sched_yield();
  } else {
    const timespec nap{0, kSleepNs};
    nanosleep(&nap, nullptr);
  }
}

}  // namespace mccs::shim
