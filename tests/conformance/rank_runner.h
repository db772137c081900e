// Runs the table of tests on one rank, synchronized with the others.
#ifndef TESTS_CONFORMANCE_RANK_RUNNER_H_
#define TESTS_CONFORMANCE_RANK_RUNNER_H_

#include <atomic>
#include <chrono>
#include <vector>

#include "conformance/control_link.h"
#include "conformance/resources.h"
#include "conformance/test_table.h"

namespace conformance {

class RankRunner {
 public:
  RankRunner(const Self& self, const TestTable& tests, std::chrono::seconds limit)
      : self_(self), tests_(tests), limit_(limit) {}

  // THREAD: the rank's own. Returns when all ranks have run all tests, or the run has ended.
  void Run(const JobPlace& place);

  // Aborts the communicators of a test that exceeds its limit and the grace period, which ends most
  // blocked calls. THREAD: the watchdog's.
  void AbortIfLate();

 private:
  using Clock = std::chrono::steady_clock;

  void RunOne(const TestCase& test, ControlLink* link);
  // Returns why this run cannot include the test; the same on every rank.
  std::string SkipReason(const TestCase& test, const std::vector<Self>& participants) const;
  std::vector<Self> Participants(ParticipantSet who) const;

  const Self self_;
  const TestTable& tests_;
  const std::chrono::seconds limit_;
  std::vector<Self> all_ranks_;
  Communicators comms_;
  // When the watchdog aborts, in the clock's ticks; 0 between tests.
  std::atomic<int64_t> late_at_{0};
};

}  // namespace conformance

#endif  // TESTS_CONFORMANCE_RANK_RUNNER_H_
