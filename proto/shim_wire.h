// Shared memory between a tenant's process (shim) and its daemon.
//
// Two kinds of region, both created, sized and sealed by the daemon:
//   session region        one per process: which communicators have new records; daemon asleep?
//   communicator region   one per (process, communicator, rank): work ring and fences
//
// The daemon does not trust the contents: it has private copies of all indices and copies a record
// before it checks it. The shim trusts the daemon. Whatever a tenant writes to its regions affects
// only that tenant.
//
// Layout version: kWireVersion. A daemon supports shims of its own version and of the one before.
#ifndef MCCS_PROTO_SHIM_WIRE_H_
#define MCCS_PROTO_SHIM_WIRE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "proto/call_options.h"
#include "proto/fence_page.h"
#include "proto/operation.h"

namespace mccs::wire {

inline constexpr uint32_t kWireVersion = 1;
inline constexpr uint32_t kOldestWireVersion = 1;

// ---- Work records ----------------------------------------------------------------------------

enum class RecordKind : uint8_t {
  kOperation = 1,  // a collective or point-to-point call
  kFence = 2,      // later records of this ring wait for this ready fence too
};

enum RecordFlags : uint8_t {
  kNoFlags = 0,
  kMoreInGroup = 1,  // the next record belongs to the same group as this one
};

// Part of a registered buffer. `id` 0: none (a rank without that side, or no bytes).
struct BufferRef {
  uint32_t id;
  uint32_t reserved;
  uint64_t offset;  // bytes from the start of the registered allocation
};

// One call of one rank, two cache lines. `sequence` counts the kOperation records of a ring from 1;
// the done fence reaches it when the call is complete. A kFence record has the sequence of the
// operation that follows it.
//
//    0 | sequence                              |
//    8 | kind  type  redop  flags | root_or_peer |
//   16 | count                                 |
//   24 | send {id, -, offset}                  |
//   40 | recv {id, -, offset}                  |
//   56 | ready_slot | record                   |
//   64 | ready_value                           |
//   72 | scalar bits                           |
//   80 | scalar_buffer {id, -, offset}         |
//   96 | deadline_us | priority criticality - |
//  104 | signal | -                            |
//  112 | window                                |
//  120 | window_offset                         |
struct alignas(64) WorkRecord {
  uint64_t sequence;
  OpKind op;
  DataType type;
  ReduceOp redop;
  uint8_t flags;         // RecordFlags
  int32_t root_or_peer;  // root of a rooted collective, or the peer where HasPeer; else 0
  uint64_t count;        // elements, as in the NCCL call; kWaitSignal: signals
  BufferRef send;
  BufferRef recv;
  uint32_t ready_slot;  // index of a ready fence in the region; kNoReadySlot: no wait
  RecordKind record;
  uint8_t reserved0[3];
  uint64_t ready_value;     // the work may start when ready[ready_slot] ≥ ready_value
  uint64_t scalar;          // kPreMulSum: the factor's bits, in `type`
  BufferRef scalar_buffer;  // kPreMulSum with a device scalar: its location
  uint32_t deadline_us;     // CallOptions
  uint8_t priority;
  Criticality criticality;
  uint8_t reserved1[2];
  uint32_t signal;  // one-sided calls: SignalNumber
  uint32_t reserved2;
  uint64_t window;         // kPut: number of the peer's RMA window (RegisterWindow)
  uint64_t window_offset;  // bytes from its start
};
static_assert(sizeof(WorkRecord) == 128);
static_assert(offsetof(WorkRecord, count) == 16);
static_assert(offsetof(WorkRecord, ready_value) == 64);
static_assert(offsetof(WorkRecord, deadline_us) == 96);
static_assert(offsetof(WorkRecord, signal) == 104);
static_assert(offsetof(WorkRecord, window_offset) == 120);
static_assert(std::is_trivially_copyable_v<WorkRecord>);

inline constexpr uint32_t kNoReadySlot = 0xffffffff;

// ---- Communicator region ---------------------------------------------------------------------

inline constexpr uint32_t kRingRecords = 256;  // a power of two
inline constexpr uint32_t kReadySlots = 64;    // streams that one communicator may use at a time
// Maximum number of streams of live CUDA graphs, per communicator.
inline constexpr uint32_t kCapturedSlots = 1024;
// captured_done of a group that is complete. The high half is for the poison.
inline constexpr uint64_t kCapturedDone = 1;
inline constexpr size_t kErrorMessageBytes = 960;

// Why operations of a communicator cannot succeed any more. The shim maps it to ncclResult_t.
enum class ErrorClass : uint32_t {
  kNone = 0,
  kInvalidArgument = 1,  // of the caller
  kInvalidUsage = 2,     // mismatched calls
  kSystem = 3,           // this host: daemon, memory, descriptors
  kRemote = 4,           // another rank, host or link failed
  kInternal = 5,         // a bug in MCCS
  kAborted = 6,          // the communicator was aborted on this rank
};

// Written by the daemon, or by the shim after the daemon's death: `error` last (release); pairs
// with the shim's acquire load. Text and class are written once. A failure releases no stream:
// `done` does not change until the shim poisons it (ReleaseStreams, shim/daemon/fence.h).
struct alignas(64) ErrorLine {
  std::atomic<uint32_t> error;  // ErrorClass
  // 1: a rank has departed, and no call has needed it yet: calls are still accepted. The daemon
  // clears it (release) when the communicator's work fails.
  std::atomic<uint32_t> accepts_calls;
  uint64_t done_before_poison;         // value of `done` before the poison; written by the shim
  char text[kErrorMessageBytes - 16];  // zero-terminated
};

// A single-producer single-consumer ring. tail: records written (shim, release; pairs with the
// daemon's acquire). head: records taken (daemon, release; pairs with the shim's acquire).
// Record n (from 0) is at records[n % kRingRecords].
struct CommRegion {
  FencePageHeader header;
  FenceLine done;  // highest sequence up to which all calls are complete
  alignas(64) std::atomic<uint64_t> tail;
  alignas(64) std::atomic<uint64_t> head;
  ErrorLine failure;
  FenceLine ready[kReadySlots];
  WorkRecord records[kRingRecords];
  // Calls captured into a CUDA graph do not use the ring: CaptureWork describes them once, and a
  // replay writes only these words. A slot belongs to one stream of one capture, so one group at a
  // time uses it. Enqueued on the stream, for group g:
  //   low half of captured_done = 0;  captured_ready = g;  wait until captured_done ≥ kCapturedDone
  // The daemon runs the group, sets captured_ready to 0, then the lowest bit of captured_done.
  // The poison is in the high half, which no replay clears: after it no replay waits.
  FenceLine captured_done[kCapturedSlots];
  alignas(64) std::atomic<uint32_t> captured_ready[kCapturedSlots];
};
static_assert(offsetof(ErrorLine, done_before_poison) == 8);
static_assert(offsetof(ErrorLine, text) == 16);
static_assert(offsetof(CommRegion, done) == 64);
static_assert(offsetof(CommRegion, tail) == 128);
static_assert(offsetof(CommRegion, head) == 192);
static_assert(offsetof(CommRegion, failure) == 256);
static_assert(offsetof(CommRegion, ready) % 64 == 0);
static_assert(offsetof(CommRegion, captured_done) % 64 == 0);
static_assert(sizeof(CommRegion) < 128 * 1024);

// Releases streams that wait for captured work, now and at all later replays. THREAD: any of the
// shim's.
inline void PoisonCaptured(CommRegion& region) {
  for (FenceLine& line : region.captured_done) SignalFence(line, kFencePoison);
}

// ---- Session region --------------------------------------------------------------------------

inline constexpr uint32_t kMaxCommsPerSession = 4096;

// `dirty`: one bit per `comm_handle`. The shim sets it after advancing the tail (fetch_or, seq_cst)
// and then, if `daemon_asleep` is set (load, seq_cst), rings the doorbell eventfd. Before it
// sleeps, the daemon sets daemon_asleep (seq_cst) and reads `dirty` once more: one of the two sees
// the other.
struct SessionRegion {
  alignas(64) std::atomic<uint32_t> daemon_asleep;
  alignas(64) std::atomic<uint64_t> dirty[kMaxCommsPerSession / 64];
};
static_assert(offsetof(SessionRegion, dirty) == 64);

}  // namespace mccs::wire

#endif  // MCCS_PROTO_SHIM_WIRE_H_
