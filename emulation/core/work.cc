#include "emulation/core/work.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <type_traits>

#include "emulation/core/kernel_run.h"
#include "proto/fence_page.h"

namespace mccs::emulation {
namespace {

uint64_t Load(const Word& word) {
  // Acquire: pairs with the release (or stronger) store of the signaling thread. Data written
  // before the signal is visible to the work behind the wait.
  if (word.wide) {
    return std::atomic_ref(*static_cast<uint64_t*>(word.address)).load(std::memory_order_acquire);
  }
  return std::atomic_ref(*static_cast<uint32_t*>(word.address)).load(std::memory_order_acquire);
}

// Compares the difference as a signed number, as a GPU does, so that counters may wrap.
template <typename Unsigned>
bool Compare(Unsigned seen, Unsigned value, Comparison comparison) {
  switch (comparison) {
    case Comparison::kGreaterOrEqual:
      return static_cast<std::make_signed_t<Unsigned>>(seen - value) >= 0;
    case Comparison::kEqual:
      return seen == value;
    case Comparison::kAnd:
      return (seen & value) != 0;
    case Comparison::kNor:
      return static_cast<Unsigned>(~(seen | value)) != 0;
  }
  return false;
}

void Do(const WriteWord& write) {
  if (write.word.fence) {
    wire::SignalFence(*static_cast<wire::FenceLine*>(write.word.address), write.value);
    return;
  }
  // Release: pairs with the reader's acquire; earlier work of the stream is visible with the word.
  if (write.word.wide) {
    std::atomic_ref(*static_cast<uint64_t*>(write.word.address))
        .store(write.value, std::memory_order_release);
  } else {
    std::atomic_ref(*static_cast<uint32_t*>(write.word.address))
        .store(static_cast<uint32_t>(write.value), std::memory_order_release);
  }
}

void Do(const CopyRows& copy) {
  auto* to = static_cast<std::byte*>(copy.to);
  const auto* from = static_cast<const std::byte*>(copy.from);
  for (size_t row = 0; row < copy.rows; ++row) {
    // Overlap is undefined in CUDA; memmove keeps it defined here.
    memmove(to + row * copy.to_pitch, from + row * copy.from_pitch, copy.row_bytes);
  }
}

void Do(const FillRows& fill) {
  for (size_t row = 0; row < fill.rows; ++row) {
    auto* to = static_cast<std::byte*>(fill.to) + row * fill.pitch;
    if (fill.element_bytes == 1) memset(to, static_cast<int>(fill.value & 0xff), fill.row_elements);
    if (fill.element_bytes == 2) {
      std::fill_n(reinterpret_cast<uint16_t*>(to), fill.row_elements,
                  static_cast<uint16_t>(fill.value));
    }
    if (fill.element_bytes == 4) {
      std::fill_n(reinterpret_cast<uint32_t*>(to), fill.row_elements, fill.value);
    }
  }
}

void Do(const ProgramCode& code) { code.run(); }
void Do(const InternalCode& code) { code.run(); }
void Do(const ReachRecord& reach) { reach.record->reached = std::chrono::steady_clock::now(); }
void Do(const WaitWord&) {}
void Do(const Join&) {}
void Do(const ResumableKernel&) {}

}  // namespace

Cost CostOf(const Work& work) {
  if (std::holds_alternative<ProgramCode>(work)) return Cost::kUnbounded;
  if (std::holds_alternative<CopyRows>(work) || std::holds_alternative<FillRows>(work) ||
      std::holds_alternative<InternalCode>(work) || IsResumable(work)) {
    return Cost::kBounded;
  }
  return Cost::kInstant;
}

size_t BytesOf(const Work& work) {
  if (const auto* copy = std::get_if<CopyRows>(&work)) return copy->row_bytes * copy->rows;
  if (const auto* fill = std::get_if<FillRows>(&work)) {
    return fill->row_elements * fill->element_bytes * fill->rows;
  }
  return 0;
}

bool IsSatisfied(const WaitWord& wait) {
  const uint64_t seen = Load(wait.word);
  if (wait.word.wide) return Compare<uint64_t>(seen, wait.value, wait.comparison);
  return Compare<uint32_t>(static_cast<uint32_t>(seen), static_cast<uint32_t>(wait.value),
                           wait.comparison);
}

WaitWord* CurrentWait(Work& work) {
  if (auto* wait = std::get_if<WaitWord>(&work)) return wait;
  const auto* kernel = std::get_if<ResumableKernel>(&work);
  return kernel == nullptr || kernel->run == nullptr ? nullptr : kernel->run->wait();
}

// Sequentially consistent, as the sleeper's second read of the value: pairs with WakeSleepers.
void Announce(WaitWord& wait) {
  if (wait.announced) return;
  static_cast<wire::FenceLine*>(wait.word.address)->sleepers.fetch_add(1);
  wait.announced = true;
}

void Withdraw(WaitWord& wait) {
  if (!wait.announced) return;
  static_cast<wire::FenceLine*>(wait.word.address)->sleepers.fetch_sub(1);
  wait.announced = false;
}

void Perform(const Work& work) {
  std::visit([](const auto& kind) { Do(kind); }, work);
}

}  // namespace mccs::emulation
