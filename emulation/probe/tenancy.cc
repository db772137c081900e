// Several processes on one GPU: time slices, and killed processes.

#include <unistd.h>

#include "emulation/probe/figures.h"
#include "emulation/probe/probe_kernels.h"

namespace mccs::probe {
namespace {

constexpr size_t kTenancyWords = 512;
// Places in the shared words.
constexpr size_t kRelease = 0;
constexpr size_t kStarted = 1 * kWordStride;
constexpr size_t kBeat = 2 * kWordStride;
constexpr size_t kResults = 3 * kWordStride;

constexpr double kWorkMs = 15;
constexpr int kWorkLimitMs = 15'000;
constexpr uint64_t kWatchedNs = 200'000'000;

// The second process: a kernel that spins until `words[kRelease]` is written, from the byte on.
Outcome SpinOnRequest(Peer& self, uint64_t* words) {
  PROBE_PASSES(RegisterWords(words, kTenancyWords));
  PROBE_STREAM(stream, cudaStreamNonBlocking);
  PROBE_CALL(kMark.Launch(stream, {}, words + kStarted, 0));  // loads the kernels
  PROBE_EXPECT(Finishes(stream), "a kernel did not end");
  char go = 0;
  PROBE_EXPECT(self.Receive(&go, 1), "no request to start received");
  PROBE_CALL(kSpin.Launch(stream, {}, words + kRelease, 1, words + kStarted, words + kBeat));
  PROBE_EXPECT(Finishes(stream, 2 * kWorkLimitMs), "the spinning kernel was not released");
  return Pass();
}

// A kernel with a fixed amount of arithmetic.
class TimedWork {
 public:
  // Chooses an amount that takes at least kWorkMs when nothing else runs.
  Outcome Prepare(uint64_t* result) {
    result_ = result;
    PROBE_CALL(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    for (double ms = 0; ms < kWorkMs; steps_ *= 2) PROBE_PASSES(Run(&ms));
    return Pass();
  }
  Outcome Run(double* ms) {
    const Stopwatch stopwatch;
    PROBE_CALL(kWork.Launch(stream_, {}, steps_, result_));
    PROBE_EXPECT(Finishes(stream_, kWorkLimitMs),
                 "the kernel did not proceed while another process's kernel spins");
    *ms = stopwatch.ms();
    return Pass();
  }
  Outcome RunThrice(double* median_ms) {
    std::vector<double> times(3);
    for (double& ms : times) PROBE_PASSES(Run(&ms));
    *median_ms = Median(times);
    return Pass();
  }
  cudaStream_t stream() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
  uint64_t* result_ = nullptr;
  uint64_t steps_ = uint64_t{1} << 14;
};

Outcome StartOther(Peer& peer, const uint64_t* words) {
  const char go = 1;
  PROBE_EXPECT(peer.Send(&go, 1), "the second process does not respond");
  PROBE_EXPECT(WordBecomes(words + kStarted, 1, kWorkLimitMs),
               "the second process's kernel did not start");
  return Pass();
}

PROBE_CHECK(processes_share_gpu,
            "a kernel proceeds, in time slices, while a kernel of another process spins") {
  uint64_t* const words = SharedWords(kTenancyWords);
  PROBE_EXPECT(words != nullptr, "cannot create shared words");
  Peer peer([=](Peer& self) { return SpinOnRequest(self, words); });
  PROBE_PASSES(RegisterWords(words, kTenancyWords));
  uint64_t* const results = words + kResults;
  TimedWork work;
  PROBE_PASSES(work.Prepare(results));
  double alone = 0;
  double beside = 0;
  PROBE_PASSES(work.RunThrice(&alone));
  PROBE_PASSES(StartOther(peer, words));
  const uint64_t beat = LoadWord(words + kBeat);
  PROBE_PASSES(work.RunThrice(&beside));
  PROBE_CALL(kPauses.Launch(work.stream(), {}, kWatchedNs, results, results + 1, results + 2));
  PROBE_EXPECT(Finishes(work.stream(), kWorkLimitMs), "the kernel that watches the clock stopped");
  PROBE_EXPECT(LoadWord(words + kBeat) != beat, "the spinning kernel did not proceed");
  StoreWord(words + kRelease, 1);
  PROBE_PASSES(peer.Join());
  return Pass(
      Text("%.1f ms alone, %.1f ms beside the other kernel (%.2f times); in %.0f ms the "
           "longest pause is %.2f ms, and %.0f pauses over 0.1 ms are %.1f ms together",
           alone, beside, beside / alone, static_cast<double>(kWatchedNs) / 1e6,
           static_cast<double>(LoadWord(results)) / 1e6, static_cast<double>(LoadWord(results + 1)),
           static_cast<double>(LoadWord(results + 2)) / 1e6));
}

// Returns when the word changed last, in ms since the call, or empty if it has not been constant
// for kQuietMs at the end of the limit.
std::optional<double> LastChange(const uint64_t* word, double limit_ms) {
  constexpr double kQuietMs = 200;
  const Stopwatch stopwatch;
  double changed = 0;
  for (uint64_t seen = LoadWord(word); stopwatch.ms() < limit_ms + kQuietMs;) {
    const uint64_t now = LoadWord(word);
    if (now != seen) changed = stopwatch.ms();
    seen = now;
    if (stopwatch.ms() - changed > kQuietMs) return changed;
    usleep(1000);
  }
  return std::nullopt;
}

PROBE_CHECK(killed_process_leaves_no_kernel,
            "SIGKILL of a process whose kernel spins ends the kernel within a second") {
  constexpr double kLimitMs = 1000;
  uint64_t* const words = SharedWords(kTenancyWords);
  PROBE_EXPECT(words != nullptr, "cannot create shared words");
  Peer peer([=](Peer& self) { return SpinOnRequest(self, words); });
  PROBE_PASSES(RegisterWords(words, kTenancyWords));
  TimedWork work;
  double alone = 0;
  double after = 0;
  PROBE_PASSES(work.Prepare(words + kResults));
  PROBE_PASSES(work.RunThrice(&alone));
  PROBE_PASSES(StartOther(peer, words));
  const uint64_t beat = LoadWord(words + kBeat);
  PROBE_EXPECT(SpinUntil(words + kBeat, beat + 1), "the second process's kernel does not run");
  const Stopwatch stopwatch;
  peer.Kill();
  const double ended = stopwatch.ms();
  PROBE_PASSES(work.Run(&after));
  const double proceeded = stopwatch.ms();
  const std::optional<double> changed = LastChange(words + kBeat, kLimitMs);
  PROBE_EXPECT(changed.has_value(), "the kernel of the killed process still runs after a second");
  PROBE_EXPECT(proceeded - ended < kLimitMs + alone,
               Text("another process's kernel took %.0f ms after the kill, %.0f ms alone",
                    proceeded - ended, alone));
  return Pass(
      Text("the process ended %.1f ms after the signal; a kernel of %.1f ms then took "
           "%.1f ms",
           ended, alone, after));
}

}  // namespace
}  // namespace mccs::probe
