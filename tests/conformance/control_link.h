// One rank's connection to the coordinator.
//
// THREAD: the rank's own.
#ifndef TESTS_CONFORMANCE_CONTROL_LINK_H_
#define TESTS_CONFORMANCE_CONTROL_LINK_H_

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "conformance/control_frame.h"
#include "conformance/outcome.h"
#include "rendezvous.h"

namespace conformance {

// A socket that listens where the job's ranks look for rank 0; where no address is agreed on
// (one process), at a free port of the loopback, which is written into `place`.
// Ends the program with a text when that cannot be.
int ListenForRanks(JobPlace* place);

class ControlLink {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  // Blocks until the coordinator is there, for a minute at most; ends the program with a text then.
  ControlLink(const JobPlace& place, int rank);
  ~ControlLink();
  ControlLink(const ControlLink&) = delete;
  ControlLink& operator=(const ControlLink&) = delete;

  void BeginTest(size_t test);

  // What each of the `participants` has brought, in the order of ranks. Nothing when that will not
  // come about: `trouble` says why.
  std::optional<std::vector<std::string>> Exchange(const std::string& own, int participants,
                                                   Deadline deadline, std::string* trouble);

  // Why another rank has failed the test; empty as long as none is known to. Never blocks.
  const std::string& PeerFailure();

  // Waits until all ranks are through with the test. False when the run has ended.
  bool Finish(Outcome outcome, const std::string& text, Outcome* of_all);

 private:
  std::optional<Frame> Await(Deadline deadline);
  void Note(const Frame& frame);

  int fd_;
  FrameReader reader_;
  bool open_ = true;
  uint32_t test_ = 0;
  std::string peer_failure_;
};

}  // namespace conformance

#endif  // TESTS_CONFORMANCE_CONTROL_LINK_H_
