// What the ranks of the suite tell each other beside NCCL: frames over TCP sockets.
//
//   0        4        8        12       16
//   | kind   | test   | number | bytes  | payload ...
//
// All in the machine's own byte order: the processes of one run are of one build.
#ifndef TESTS_CONFORMANCE_CONTROL_FRAME_H_
#define TESTS_CONFORMANCE_CONTROL_FRAME_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace conformance {

enum class FrameKind : uint32_t {
  kHello,       // rank -> coordinator: number = rank
  kContribute,  // rank -> coordinator: its part of an exchange; number = how many take part
  kFinish,      // rank -> coordinator: its outcome of the test; number = Outcome
  kEverybody,   // coordinator -> rank: all parts of an exchange (see PackParts)
  kPeerLeft,    // coordinator -> rank: somebody is through; no exchange can complete any more
  kPeerFailed,  // coordinator -> rank: somebody has failed the test; payload says who and why
  kVerdict,     // coordinator -> rank: all have finished; number = Outcome of the test
};

struct Frame {
  FrameKind kind = FrameKind::kHello;
  uint32_t test = 0;
  uint32_t number = 0;
  std::string payload;
};

// False when the connection is broken. Blocks while the peer does not read.
bool SendFrame(int fd, const Frame& frame);

// Puts frames together from what has come.
class FrameReader {
 public:
  explicit FrameReader(int fd) : fd_(fd) {}

  // Takes what lies in the socket, without waiting. False when the connection is broken.
  bool Read();
  // The next whole frame, if there is one.
  std::optional<Frame> Next();

 private:
  int fd_;
  std::string bytes_;
};

// The parts of an exchange in one payload, each behind its length.
std::string PackParts(const std::vector<std::string>& parts);
std::vector<std::string> UnpackParts(const std::string& packed);

}  // namespace conformance

#endif  // TESTS_CONFORMANCE_CONTROL_FRAME_H_
