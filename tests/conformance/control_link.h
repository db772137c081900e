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

// Opens the socket on which rank 0 accepts the other ranks. Without an agreed address (one process)
// it listens on a free port of the loopback interface and writes that into `place`. Exits with an
// error message on failure.
int ListenForRanks(JobPlace* place);

class ControlLink {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  // Connects to the coordinator, for a minute at most; exits with an error message if that fails.
  ControlLink(const JobPlace& place, int rank);
  ~ControlLink();
  ControlLink(const ControlLink&) = delete;
  ControlLink& operator=(const ControlLink&) = delete;

  void BeginTest(size_t test);

  // Returns the contributions of all `participants`, in the order of ranks. Returns nothing and
  // sets `trouble` to the reason if the exchange cannot complete.
  std::optional<std::vector<std::string>> Exchange(const std::string& own, int participants,
                                                   Deadline deadline, std::string* trouble);

  // Returns why another rank has failed the test, or empty if no failure is known. Never blocks.
  const std::string& PeerFailure();

  // Waits until all ranks have finished the test. Returns false if the run has ended.
  bool Finish(Outcome outcome, const std::string& text, Outcome* of_all);

 private:
  std::optional<Frame> Await(Deadline deadline);
  void HandleFrame(const Frame& frame);

  int fd_;
  FrameReader reader_;
  bool open_ = true;
  uint32_t test_ = 0;
  std::string peer_failure_;
};

}  // namespace conformance

#endif  // TESTS_CONFORMANCE_CONTROL_LINK_H_
