// A target of coverage-guided fuzzing. Each file has one:
//
//   namespace mccs {
//   namespace strategies_fuzz {
//   void Run(FuzzInput input) { … }
//   const FuzzTarget kTarget("strategies", Run);
//
// libFuzzer runs the only target of its program (libfuzzer_entry.cc). A program with all targets
// runs their kept inputs (run_corpus.cc).
//
// THREAD: one.
#ifndef MCCS_TESTS_FUZZ_TARGETS_FUZZ_TARGET_H_
#define MCCS_TESTS_FUZZ_TARGETS_FUZZ_TARGET_H_

#include <string_view>
#include <vector>

#include "base/check.h"
#include "tests/fuzz/targets/fuzz_input.h"

namespace mccs {

class FuzzTarget {
 public:
  // Adds it to All(). `run` handles one input; a finding ends the process.
  FuzzTarget(std::string_view name, void (*run)(FuzzInput input)) : name_(name), run_(run) {
    Targets().push_back(this);
  }
  FuzzTarget(const FuzzTarget&) = delete;
  FuzzTarget& operator=(const FuzzTarget&) = delete;

  std::string_view name() const { return name_; }
  void Run(FuzzInput input) const { run_(input); }

  static const std::vector<const FuzzTarget*>& All() { return Targets(); }

 private:
  static std::vector<const FuzzTarget*>& Targets() {
    static std::vector<const FuzzTarget*> targets;
    return targets;
  }

  const std::string_view name_;
  void (*const run_)(FuzzInput input);
};

}  // namespace mccs

#endif  // MCCS_TESTS_FUZZ_TARGETS_FUZZ_TARGET_H_
