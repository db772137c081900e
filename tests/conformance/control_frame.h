// Messages between the ranks of the suite, independent of NCCL: frames over TCP sockets.
//
//   0        4        8        12       16
//   | kind   | test   | number | bytes  | payload ...
//
// All in the machine's byte order: all processes of a run use the same build.
#ifndef TESTS_CONFORMANCE_CONTROL_FRAME_H_
#define TESTS_CONFORMANCE_CONTROL_FRAME_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace conformance {

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

}  // namespace conformance

#endif  // TESTS_CONFORMANCE_CONTROL_FRAME_H_
