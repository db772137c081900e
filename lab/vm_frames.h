// Messages between mccs-lab and the agent of a virtual machine, on one TCP connection per program:
//
//   type: 1 byte │ length of the payload: 4 bytes, little-endian │ payload
//
//   client ── kRequest, then kInput and kSignal ──▶ agent
//          ◀── kFailed, or kStarted, kOutput and kError, at last kEnded ──
//
// The end of the connection before kEnded ends the program.
#ifndef MCCS_LAB_VM_FRAMES_H_
#define MCCS_LAB_VM_FRAMES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lab/environment.h"

namespace mccs::lab {

inline constexpr size_t kMaxFrameBytes = 8 << 20;  // arguments and environment of a program

struct Frame {
  enum class Type : uint8_t {
    kRequest = 1,  // VmRequest
    kInput,        // bytes for the program's standard input; empty: its end
    kSignal,       // number of a signal for the program's process group
    kFailed,       // the program did not start: an errno value
    kStarted,      // empty
    kOutput,       // bytes of the program's standard output
    kError,        // bytes of its standard error
    kEnded,        // its wait status (waitpid)
  };

  Type type = Type::kRequest;
  std::string payload;

  // Of kSignal, kFailed and kEnded. Empty: not a number.
  std::optional<int> Number() const;
};

// Blocks. False: the connection has ended.
bool SendFrame(int connection, Frame::Type type, std::string_view payload);
bool SendFrame(int connection, Frame::Type type, int number);

// Blocks until the whole frame has arrived. Empty: the connection has ended, or the frame is
// invalid.
std::optional<Frame> ReceiveFrame(int connection);

// A program for the agent to execute.
struct VmRequest {
  std::string key;        // of the lab; the agent rejects others
  std::string directory;  // working directory
  std::string file;
  std::vector<std::string> argv;
  Environment environment;
};

std::string EncodeRequest(const VmRequest& request);
std::optional<VmRequest> DecodeRequest(std::string_view payload);

}  // namespace mccs::lab

#endif  // MCCS_LAB_VM_FRAMES_H_
