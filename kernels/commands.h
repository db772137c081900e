// Commands of the daemon to the kernels of one rank, in memory that the daemon has made and the
// rank's process has mapped for its GPU. Addresses are those of the process that runs the kernel.
//
//   daemon                                          kernel on the tenant's stream
//   writes a Command  ── published, bell ────────►  runs its programs
//   or a ShortCommand ── flags in its lines ─────►
//                     ◄─ finished ────────────────
//   lanes ─ SendWords, ReceiveWords, bell ───────►  meets them while it runs (lane_ports.h)
//         ◄─ SendWords, ReceiveWords ─────────────
//   the operation is complete ── done fence ─────►  ends
//
// A queue belongs to one stream of the rank at a time, and at most one kernel runs there. The
// daemon does not trust what it reads: it bounds every counter by what the operation allows.
//
// A GPU polls the words. The emulation sleeps until the bell has changed.
#ifndef MCCS_KERNELS_COMMANDS_H_
#define MCCS_KERNELS_COMMANDS_H_

#include <cstddef>
#include <cstdint>

#include "algorithms/division.h"
#include "base/portable.h"
#include "kernels/low_latency.h"
#include "proto/operation.h"

namespace mccs::kernels {

// The counters of lane_ports.h. One writer each.
struct alignas(64) SendWords {
  uint64_t posted;                   // by the kernel
  alignas(64) uint64_t source_free;  // by the daemon
  uint64_t acknowledged;
};
struct alignas(64) ReceiveWords {
  uint64_t writable;  // by the kernel
  uint64_t released;
  alignas(64) uint64_t landed;  // by the daemon
};
static_assert(sizeof(SendWords) == 128 && sizeof(ReceiveWords) == 128);

// The buffers of one local rank.
struct RankBuffers {
  uint64_t input;
  uint64_t output;
  uint64_t scale_bits;
  uint64_t scale_address;  // 0: scale_bits
  uint64_t scaled;         // 1: multiply the rank's input by its scale
};

// The values of one call; RankBuffers of all local ranks follow it.
struct Binding {
  Division division;
  uint64_t divisor;
  uint32_t element_bytes;
  DataType type;
  ReduceOp op;
  uint8_t divides;  // 1: the operator's last part is a division by `divisor`
  uint8_t reserved;
};

// One direction of a lane in one operation.
struct SendRun {
  uint64_t first;    // number of the operation's first slice
  uint64_t staging;  // address of staging memory; 0: none
};
struct ReceiveRun {
  uint64_t first;
  uint64_t slots;  // address of the receive slots
};

// The copies that a kernel makes before it runs a program are multiples of this and aligned to it.
inline constexpr uint32_t kCopyBytes = 16;
constexpr MCCS_HOST_DEVICE uint32_t CopiedBytes(uint64_t bytes) {
  return static_cast<uint32_t>((bytes + kCopyBytes - 1) / kCopyBytes * kCopyBytes);
}

// One program of a command. Arrays are by lane. Only the daemon writes what is in the first
// `bytes` bytes, and not while the command runs: a kernel may copy it.
struct ProgramRun {
  uint64_t image;          // ProgramImage, followed by the next two
  uint64_t sends;          // SendRun[]
  uint64_t receives;       // ReceiveRun[]
  uint64_t bytes;          // of these three
  uint64_t state;          // ProgramImage::state_bytes of scratch memory
  uint64_t send_words;     // SendWords[]
  uint64_t receive_words;  // ReceiveWords[]
  uint64_t in_slot;        // uint8_t[lanes × slots]: as ReceiveCounters::in_slot
};
static_assert(sizeof(ProgramRun) % kCopyBytes == 0);

// A copy between buffers of two local ranks, which do not overlap.
struct CopyRun {
  uint64_t from;
  uint64_t to;
  uint64_t bytes;
};
inline constexpr uint32_t kMostCopies = 16;  // of a command

// Runs programs, or copies.
struct alignas(64) Command {
  // The kernel that waits for this value of the done word, or a later one, takes the command. The
  // library gives the queue to another stream when the first stream's kernel has to end, and this
  // kernel may see commands of the next one.
  uint64_t done_value;
  uint64_t binding;
  uint64_t runs;           // ProgramRun[programs]
  uint32_t binding_bytes;  // with the RankBuffers; a multiple of kCopyBytes
  uint32_t programs;
  uint32_t copies;
  CopyRun copy[kMostCopies];
};

// Whether a kernel that waits for `target` takes a command with this done value.
constexpr MCCS_HOST_DEVICE bool TakesCommand(uint64_t target, uint64_t done_value) {
  return static_cast<int64_t>(done_value - target) <= 0;
}

// A command that runs one program, with all that the kernel has to read. It is published as lines
// (low_latency.h) beside the Command of the same number, so that a waiting kernel reads it by the
// access that finds it. A kernel may use either.
//
//   ShortCommand | Binding, RankBuffers | ProgramImage, SendRun[], ReceiveRun[]
struct ShortCommand {
  uint32_t bytes;          // of everything; in the first line
  uint32_t binding_bytes;  // as in Command
  uint64_t done_value;     // as in Command
  ProgramRun run;          // as for a kernel that reads the Command
};
static_assert(sizeof(ShortCommand) % kCopyBytes == 0);
inline constexpr uint32_t kMostShortBytes = 1 << 10;
// Calls of more data take so long that the accesses do not matter.
inline constexpr uint64_t kShortCallBytes = 32 << 10;

// The flag of a command's lines. 0: it has no lines.
constexpr MCCS_HOST_DEVICE uint32_t ShortFlag(uint64_t number) {
  return static_cast<uint32_t>(number + 1);
}

inline constexpr uint32_t kQueueCommands = 4;  // a power of two

struct CommandQueue {
  // A FenceLine (proto/fence_page.h): grows with everything that the daemon writes for the kernel,
  // also with the done fence.
  alignas(64) uint64_t bell;
  uint32_t bell_sleepers;
  // Commands so far. Command n is at commands[n % kQueueCommands].
  alignas(64) uint64_t published;
  // 1: stop running commands; they count as finished. Their results are undefined.
  uint64_t stopped;
  alignas(64) uint64_t finished;  // by the kernel
  Command commands[kQueueCommands];
  // Of the last short command. The daemon writes one when all commands before are finished.
  LowLatencyLine short_command[LowLatencyLines(kMostShortBytes)];
};
static_assert(offsetof(CommandQueue, bell_sleepers) == 8);

}  // namespace mccs::kernels

#endif  // MCCS_KERNELS_COMMANDS_H_
