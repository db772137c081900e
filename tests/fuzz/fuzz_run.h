// Duration and seed of a fuzz test: short in the test suite, a minute or longer with scripts/fuzz.
//
// MCCS_FUZZ_SEED      seed of a failed run; default: random. Always printed.
// MCCS_FUZZ_SECONDS   duration of the run
// MCCS_FUZZ_<WHAT>    number of rounds; default: a small number, or unlimited with a duration
//
// With one of the last two, the run prints its progress every few seconds, and Ctrl-C ends it
// cleanly.
#ifndef MCCS_TESTS_FUZZ_FUZZ_RUN_H_
#define MCCS_TESTS_FUZZ_FUZZ_RUN_H_

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>

namespace mccs {

class FuzzRun {
 public:
  // `what`: what the run counts, in the plural; `variable`: environment variable with the number of
  // rounds; `default_amount`: default number.
  FuzzRun(std::string what, const char* variable, int64_t default_amount) : what_(std::move(what)) {
    const char* seconds = std::getenv("MCCS_FUZZ_SECONDS");
    const char* amount = std::getenv(variable);
    limited_ = seconds != nullptr || amount != nullptr;
    if (seconds != nullptr) deadline_ = start_ + std::chrono::seconds(std::atoll(seconds));
    amount_ = amount != nullptr ? std::atoll(amount)
              : limited_        ? std::numeric_limits<int64_t>::max()
                                : default_amount;
    const char* seed = std::getenv("MCCS_FUZZ_SEED");
    seed_ = seed == nullptr ? std::random_device{}() : std::strtoull(seed, nullptr, 10);
    random_.seed(seed_);
    std::printf("MCCS_FUZZ_SEED=%llu\n", static_cast<unsigned long long>(seed_));
    std::fflush(stdout);
    if (!limited_) return;
    std::signal(SIGINT, [](int) { interrupted = 1; });
    std::signal(SIGTERM, [](int) { interrupted = 1; });
  }
  ~FuzzRun() {
    if (limited_) PrintProgress(interrupted ? "interrupted" : "done");
  }
  FuzzRun(const FuzzRun&) = delete;
  FuzzRun& operator=(const FuzzRun&) = delete;

  uint64_t seed() const { return seed_; }
  std::mt19937_64& random() { return random_; }
  // Returns a random number below `bound`, which is not 0.
  uint64_t Below(uint64_t bound) { return random_() % bound; }
  // Number of rounds so far.
  int64_t done() const { return done_; }

  // Returns whether there is another round, and counts it.
  bool Next() {
    const Clock::time_point now = Clock::now();
    if (done_ >= amount_ || now >= deadline_ || interrupted != 0) return false;
    if (limited_ && now >= next_line_) {
      PrintProgress("so far");
      next_line_ = now + kBetweenLines;
    }
    ++done_;
    return true;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kBetweenLines{10};
  static inline volatile std::sig_atomic_t interrupted = 0;

  void PrintProgress(const char* state) const {
    const std::chrono::duration<double> taken = Clock::now() - start_;
    std::printf("fuzz: %lld %s %s, %.0f s\n", static_cast<long long>(done_), what_.c_str(), state,
                taken.count());
    std::fflush(stdout);
  }

  const std::string what_;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point deadline_ = Clock::time_point::max();
  Clock::time_point next_line_ = start_ + kBetweenLines;
  bool limited_ = false;
  int64_t amount_ = 0;
  int64_t done_ = 0;
  uint64_t seed_ = 0;
  std::mt19937_64 random_;
};

}  // namespace mccs

#endif  // MCCS_TESTS_FUZZ_FUZZ_RUN_H_
