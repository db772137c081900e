// Host versions of the probe's kernels, for the emulation.

#include <dlfcn.h>
#include <sched.h>
#include <time.h>

#include <type_traits>
#include <utility>

#include "emulation/include/mccs_emulation_kernel.h"
#include "emulation/probe/probe_kernels.h"

namespace mccs::probe {
namespace {

// One thread runs the whole grid, which is one block.
struct Host {
  static uint64_t Load(const uint64_t* word) { return LoadWord(word); }
  // A reader that shares this processor runs at once, so that it can see a store that is too early.
  static void Store(uint64_t* word, uint64_t value) {
    StoreWord(word, value);
    sched_yield();
  }
  // The thread that writes the word may need this processor. With a yield at each look, both
  // threads would share one, and no order of their stores could be observed.
  static void Pause(uint64_t) {
    constexpr int kLooksPerYield = 50;
    thread_local int looks = 0;
    if (++looks % kLooksPerYield == 0) sched_yield();
  }
  static uint64_t NowNs() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
  }
  static unsigned Thread() { return 0; }
  static unsigned Threads() { return 1; }
  static unsigned Block() { return 0; }
  static unsigned Blocks() { return 1; }
  static void Barrier() {}
  static bool Any(bool value) { return value; }
  static unsigned Count(bool value) { return value ? 1 : 0; }
};

void Empty() {}
template <size_t kBytes>
void EmptyWith(ArgumentBytes<kBytes>) {}

// Unpacks the arguments of a launch for a body.
template <auto kBody>
struct Unpacked;
template <typename... Arguments, void (*kBody)(Arguments...)>
struct Unpacked<kBody> {
  static constexpr uint32_t kCount = sizeof...(Arguments);
  static constexpr uint32_t kBytes[kCount + 1] = {sizeof(Arguments)...};

  static void Run(const MccsEmulatedLaunch*, void* const* arguments) {
    RunWith(arguments, std::index_sequence_for<Arguments...>{});
  }
  template <size_t... kIndex>
  static void RunWith([[maybe_unused]] void* const* arguments, std::index_sequence<kIndex...>) {
    kBody(*static_cast<Arguments*>(arguments[kIndex])...);
  }
};

template <auto kBody, typename... Arguments>
MccsEmulatedKernel Describe(const Kernel<Arguments...>& kernel) {
  static_assert(std::is_same_v<decltype(kBody), void (*)(Arguments...)>);
  using Body = Unpacked<kBody>;
  MccsEmulatedKernel description{};
  description.struct_bytes = sizeof(description);
  description.name = kernel.name();
  description.run = &Body::Run;
  description.argument_count = Body::kCount;
  description.argument_bytes = Body::kBytes;
  return description;
}

}  // namespace

// kMeet has no host version: it needs all its blocks at the same time.
bool RegisterHostKernels() {
  auto* const add = reinterpret_cast<decltype(&mccsEmulationRegisterKernel)>(
      dlsym(RTLD_DEFAULT, "mccsEmulationRegisterKernel"));
  if (add == nullptr) return true;  // a GPU's driver
  const MccsEmulatedKernel kernels[] = {
      Describe<&Spin<Host>>(kSpin),
      Describe<&Copy<Host>>(kCopy),
      Describe<&Echo<Host>>(kEcho),
      Describe<&Step<Host>>(kStep),
      Describe<&Mark<Host>>(kMark),
      Describe<&Work<Host>>(kWork),
      Describe<&Pauses<Host>>(kPauses),
      Describe<&Stream<Host>>(kStream),
      Describe<&Empty>(kEmpty),
      Describe<&EmptyWith<64>>(kEmpty64),
      Describe<&EmptyWith<4000>>(kEmpty4000),
  };
  for (const MccsEmulatedKernel& kernel : kernels) {
    if (add(&kernel) != 0) return false;
  }
  return true;
}

}  // namespace mccs::probe
