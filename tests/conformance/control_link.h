// Messages between the ranks of the suite, independent of NCCL: frames over TCP sockets.
//
//   0        4        8        12       16
//   | kind   | test   | number | bytes  | payload ...
//
// All in the machine's byte order: all processes of a run use the same build.
#ifndef TESTS_CONFORMANCE_CONTROL_LINK_H_
#define TESTS_CONFORMANCE_CONTROL_LINK_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous.h"

namespace conformance {

// The result of a test, for one rank and for all of them.
enum class Outcome : uint32_t {
  kPassed,
  kIdle,     // this rank does not take part in the test
  kSkipped,  // with a reason
  kStopped,  // because another rank had failed
  kFailed,
};

struct Verdict {
  Outcome outcome = Outcome::kPassed;
  std::string text;  // why it failed or was skipped; one line
  double seconds = 0;
};

enum class FrameKind : uint32_t {
  kHello,       // rank -> coordinator: number = rank
  kContribute,  // rank -> coordinator: its part of an exchange; number = participants
  kFinish,      // rank -> coordinator: its outcome of the test; number = Outcome
  kAllParts,    // coordinator -> rank: all parts of an exchange (see PackParts)
  kPeerLeft,    // coordinator -> rank: a rank has finished; no exchange can complete any more
  kPeerFailed,  // coordinator -> rank: a rank has failed; payload = rank and reason
  kVerdict,     // coordinator -> rank: all have finished; number = Outcome of the test
};

struct Frame {
  FrameKind kind = FrameKind::kHello;
  uint32_t test = 0;
  uint32_t number = 0;
  std::string payload;
};

// Returns false if the connection is broken. Blocks while the peer does not read.
bool SendFrame(int fd, const Frame& frame);

// Assembles frames from received bytes.
class FrameReader {
 public:
  explicit FrameReader(int fd) : fd_(fd) {}

  // Reads the bytes in the socket without blocking. Returns false if the connection is broken.
  bool Read();
  // Returns the next complete frame, if there is one.
  std::optional<Frame> Next();

 private:
  int fd_;
  std::string bytes_;
};

// Packs the parts of an exchange into one payload, each with its length in front.
std::string PackParts(const std::vector<std::string>& parts);
std::vector<std::string> UnpackParts(const std::string& packed);

// Opens the socket on which rank 0 accepts the other ranks. Without an agreed address (one process)
// it listens on a free port of the loopback interface and writes that into `place`. Exits with an
// error message on failure.
int ListenForRanks(JobPlace* place);

// One rank's connection to the coordinator. THREAD: the rank's own.
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
