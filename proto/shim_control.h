// Messages between shim and daemon on the Unix socket (SOCK_SEQPACKET: one message, one packet).
//
// Requests carry a number that the reply repeats; a reply may come late and out of order (CommInit
// answers when all ranks have joined). Everything is fixed-size and plain: both ends are on one
// machine. The daemon checks the length, the kind and every field.
//
//   shim                          daemon
//   Hello            ───────────►
//                    ◄─────────── HelloReply        + fds: session region, doorbell eventfd
//   GetUniqueId      ───────────►
//                    ◄─────────── UniqueIdReply
//   RegisterBuffer   ───────────►                   (+ fd when the export is a descriptor)
//                    ◄─────────── RegisterReply
//   ReserveRange     ───────────►                   a buffer of several chunks, none mapped yet
//                    ◄─────────── RegisterReply
//   MapChunk         ───────────►                   + fd
//                    ◄─────────── Done
//   UnmapChunks      ───────────►
//                    ◄─────────── Done              after the daemon's last access to them
//   ReleaseBuffer    ───────────►                   either kind of buffer
//                    ◄─────────── Done              after the daemon's last access
//   CommInit         ───────────►
//                    ◄─────────── CommInitReply     + fd: communicator region
//   CommSplit        ───────────►                   of a communicator that this process has
//                    ◄─────────── CommInitReply     once every rank of it has called (no fd: the
//                                                   rank has no color)
//   CommShrink       ───────────►
//                    ◄─────────── CommInitReply     once all that are not excluded have called
//   CommGrow         ───────────►
//                    ◄─────────── CommInitReply     once old and new ranks have joined
//   CommUniqueId     ───────────►                   the id that the new ranks join a CommGrow with
//                    ◄─────────── UniqueIdReply
//   CommRevoke       ───────────►
//                    ◄─────────── Done              after the daemon's last access for work
//   CommSuspend      ───────────►                   the rank will post nothing for a while
//                    ◄─────────── Done              the lanes' memory is given back, if it was the
//                                                   last rank here to say so and nothing is going
//                                                   on
//   CaptureWork      ───────────►                   a call that is captured into a CUDA graph
//                    ◄─────────── Done              after the last one of its group
//   ReleaseCapture   ───────────►                   its graphs are gone; not answered
//   RegisterWindow   ───────────►                   memory that other ranks may put into
//                    ◄─────────── Done
//   DeregisterWindow ───────────►
//                    ◄─────────── Done
//   CommAbort        ───────────►
//                    ◄─────────── Done              after the daemon's last access
//   CommDestroy      ───────────►
//                    ◄─────────── Done              after all posted work and the last access
//   Estimate         ───────────►                   how long a call would take; nothing is posted
//                    ◄─────────── EstimateReply
#ifndef MCCS_PROTO_SHIM_CONTROL_H_
#define MCCS_PROTO_SHIM_CONTROL_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "proto/shim_wire.h"

namespace mccs::wire {

inline constexpr uint64_t kControlMagic = 0x314c5443'5343434dull;  // "MCCSCTL1"
inline constexpr size_t kUniqueIdBytes = 128;
inline constexpr size_t kIpcHandleBytes = 64;
inline constexpr size_t kReplyTextBytes = 512;

enum class MessageKind : uint32_t {
  kHello = 1,
  kHelloReply = 2,
  kGetUniqueId = 3,
  kUniqueIdReply = 4,
  kRegisterBuffer = 5,
  kRegisterReply = 6,
  kReleaseBuffer = 7,
  kCommInit = 8,
  kCommInitReply = 9,
  kCommAbort = 10,
  kCommDestroy = 11,
  kDone = 12,
  kCommSplit = 13,
  kCommShrink = 14,
  kCommGrow = 15,
  kCommUniqueId = 16,
  kCommRevoke = 17,
  kEstimate = 18,
  kEstimateReply = 19,
  kCaptureWork = 20,
  kReleaseCapture = 21,
  kReserveRange = 22,
  kMapChunk = 23,
  kUnmapChunks = 24,
  kCommSuspend = 25,
  kRegisterWindow = 26,
  kDeregisterWindow = 27,
};

struct MessageHeader {
  MessageKind kind;
  uint32_t bytes;    // of the whole message
  uint64_t request;  // chosen by the shim; a reply repeats it
};
static_assert(sizeof(MessageHeader) == 16);

// How a reply says that it failed. `error` kNone: it did not.
struct ReplyStatus {
  ErrorClass error;
  uint32_t reserved;
  char text[kReplyTextBytes];  // zero-terminated: what failed, and what to do
};

struct Hello {
  static constexpr MessageKind kKind = MessageKind::kHello;
  MessageHeader header;
  uint64_t magic;           // kControlMagic
  uint32_t oldest_version;  // wire versions that this shim speaks
  uint32_t newest_version;
  char build[64];  // text for logs: "mccs 0.1.0"
};

struct HelloReply {
  static constexpr MessageKind kKind = MessageKind::kHelloReply;
  MessageHeader header;
  ReplyStatus status;
  uint32_t version;  // the one that both will speak
  uint32_t reserved;
  char build[64];
};

struct GetUniqueId {
  static constexpr MessageKind kKind = MessageKind::kGetUniqueId;
  MessageHeader header;
};

struct UniqueIdReply {
  static constexpr MessageKind kKind = MessageKind::kUniqueIdReply;
  MessageHeader header;
  ReplyStatus status;
  uint8_t unique_id[kUniqueIdBytes];
};

enum class ExportKind : uint32_t {
  kCudaIpc = 1,         // cudaIpcMemHandle_t of the allocation's base
  kFileDescriptor = 2,  // a VMM allocation as a POSIX descriptor, sent along
};

struct RegisterBuffer {
  static constexpr MessageKind kKind = MessageKind::kRegisterBuffer;
  MessageHeader header;
  ExportKind kind;
  int32_t device;  // CUDA ordinal in the tenant's process, for texts only
  uint8_t device_uuid[16];
  uint64_t bytes;  // length of the allocation
  uint8_t handle[kIpcHandleBytes];
};

struct RegisterReply {
  static constexpr MessageKind kKind = MessageKind::kRegisterReply;
  MessageHeader header;
  ReplyStatus status;
  uint32_t buffer_id;
  uint32_t reserved;
};

// A buffer for a range of the tenant's virtual memory, which is made of allocations that come and
// go. Its chunks are mapped side by side, where they lie in the range; records may name what is
// mapped.
struct ReserveRange {
  static constexpr MessageKind kKind = MessageKind::kReserveRange;
  MessageHeader header;
  uint64_t bytes;
  int32_t device;  // as in RegisterBuffer
  uint32_t reserved;
  uint8_t device_uuid[16];
};

struct MapChunk {
  static constexpr MessageKind kKind = MessageKind::kMapChunk;
  MessageHeader header;
  uint32_t buffer_id;
  uint32_t reserved;
  uint64_t offset;  // in the range
  uint64_t bytes;   // of the allocation that the descriptor stands for, from its beginning
};

// Every chunk that reaches into the span.
struct UnmapChunks {
  static constexpr MessageKind kKind = MessageKind::kUnmapChunks;
  MessageHeader header;
  uint32_t buffer_id;
  uint32_t reserved;
  uint64_t offset;
  uint64_t bytes;
};

struct ReleaseBuffer {
  static constexpr MessageKind kKind = MessageKind::kReleaseBuffer;
  MessageHeader header;
  uint32_t buffer_id;
  uint32_t reserved;
};

enum CommInitFlags : uint32_t {
  kMultiRankGpu = 1,      // several ranks on one GPU are allowed
  kIdFromEnvironment = 2  // the id was derived from NCCL_COMM_ID and can be guessed
};

// What config and environment say of a communicator that is asked for.
struct CommOptions {
  uint32_t init_timeout_ms;  // MCCS_INIT_TIMEOUT; 0: wait on
  uint32_t warn_after_ms;    // MCCS_WARN_AFTER; 0: the daemon's own
  char name[64];             // config.commName, for logs and mccsctl
  // Hints: the operator's policy decides.
  uint32_t min_channels;  // 0: none
  uint32_t max_channels;
  int32_t traffic_class;  // -1: none
  int32_t service_level;
  uint64_t buffer_bytes;  // 0: none
  char algorithms[64];    // as NCCL_ALGO has them; cut where longer
  char protocols[32];
};

struct CommInit {
  static constexpr MessageKind kKind = MessageKind::kCommInit;
  MessageHeader header;
  uint8_t unique_id[kUniqueIdBytes];
  int32_t ranks;
  int32_t rank;
  int32_t device;  // CUDA ordinal in the tenant's process
  uint32_t flags;  // CommInitFlags
  uint8_t device_uuid[16];
  char device_bus_id[32];
  CommOptions options;
};

inline constexpr uint32_t kNoCommHandle = 0xffffffff;
inline constexpr int32_t kNoColor = -1;

// A rank of `comm_handle` asks for a communicator of all ranks that give its color, ordered by key,
// then by rank. It has the device of the rank that asks.
struct CommSplit {
  static constexpr MessageKind kKind = MessageKind::kCommSplit;
  MessageHeader header;
  uint32_t comm_handle;
  int32_t color;  // 0 and up, or kNoColor: takes part and gets nothing
  int32_t key;
  uint32_t reserved;
  CommOptions options;
};

enum CommShrinkFlags : uint32_t {
  kShrinkAbort = 1,  // ends the parent's work first
  kShrinkMore = 2    // further ranks follow in the next message; this one is answered with Done
};
inline constexpr uint32_t kExcludedPerMessage = 128;

struct CommShrink {
  static constexpr MessageKind kKind = MessageKind::kCommShrink;
  MessageHeader header;
  uint32_t comm_handle;
  uint32_t flags;  // CommShrinkFlags
  uint32_t count;  // of `excluded`
  uint32_t reserved;
  int32_t excluded[kExcludedPerMessage];
  CommOptions options;
};

// A rank of `comm_handle` goes on in a larger communicator under its old number; new ranks join
// with CommInit and the id that CommUniqueId gave.
struct CommGrow {
  static constexpr MessageKind kKind = MessageKind::kCommGrow;
  MessageHeader header;
  uint32_t comm_handle;
  int32_t ranks;
  uint8_t unique_id[kUniqueIdBytes];  // zero: this rank was not given it
  CommOptions options;
};

struct CommUniqueId {
  static constexpr MessageKind kKind = MessageKind::kCommUniqueId;
  MessageHeader header;
  uint32_t comm_handle;
  uint32_t reserved;
};

// Ends the communicator's work on all its ranks; other communicators can still be made of it.
struct CommRevoke {
  static constexpr MessageKind kKind = MessageKind::kCommRevoke;
  MessageHeader header;
  uint32_t comm_handle;
  uint32_t reserved;
};

// ncclCommSuspend and ncclCommResume.
struct CommSuspend {
  static constexpr MessageKind kKind = MessageKind::kCommSuspend;
  MessageHeader header;
  uint32_t comm_handle;
  uint32_t suspended;  // 1; 0: resumed
};

// One record of a group that a capture takes up, in the order and with the meaning of the work
// ring's, but: `ready_slot` is a captured slot, `ready_value` the number of the group within that
// slot, counted from 1, and `sequence` counts the calls of the group from 1. The record without
// kMoreInGroup ends the group.
struct CaptureWork {
  static constexpr MessageKind kKind = MessageKind::kCaptureWork;
  MessageHeader header;
  uint64_t capture;  // chosen by the shim: what ReleaseCapture names; never used twice in a session
  uint32_t comm_handle;
  uint32_t reserved;
  WorkRecord record;
};

// No replay of what the capture took up will come.
struct ReleaseCapture {
  static constexpr MessageKind kKind = MessageKind::kReleaseCapture;
  MessageHeader header;
  uint64_t capture;
  uint32_t comm_handle;
  uint32_t reserved;
};

// The next window of this rank: its n-th registration has number n, as on all other ranks of the
// communicator, whose calls are in the same order; one that fails has its number, too. The memory
// is looked up at each put, so whoever takes the buffer back is not held up by the window.
struct RegisterWindow {
  static constexpr MessageKind kKind = MessageKind::kRegisterWindow;
  MessageHeader header;
  uint32_t comm_handle;
  uint32_t reserved;
  uint64_t number;  // from 1
  uint64_t bytes;    // 0: the rank could not register it
  BufferRef memory;  // id 0: the daemon cannot map it, so puts into it fail
};
static_assert(sizeof(RegisterWindow) == 56);

struct DeregisterWindow {
  static constexpr MessageKind kKind = MessageKind::kDeregisterWindow;
  MessageHeader header;
  uint32_t comm_handle;
  uint32_t reserved;
  uint64_t number;
};

struct CommInitReply {
  static constexpr MessageKind kKind = MessageKind::kCommInitReply;
  MessageHeader header;
  ReplyStatus status;
  uint32_t comm_handle;  // CommHandle: index of the dirty bit, name in later messages;
                         // kNoCommHandle: a rank without a color
  int32_t rank;          // within the communicator
  int32_t ranks;         // its size
  uint32_t reserved;
  uint64_t comm_id;
};

// Ends the communicator, or the init, whose join was request `init_request`; 0: `comm_handle`.
struct CommAbort {
  static constexpr MessageKind kKind = MessageKind::kCommAbort;
  MessageHeader header;
  uint32_t comm_handle;
  uint32_t reserved;
  uint64_t init_request;
};

struct CommDestroy {
  static constexpr MessageKind kKind = MessageKind::kCommDestroy;
  MessageHeader header;
  uint32_t comm_handle;
  uint32_t reserved;
};

struct Estimate {
  static constexpr MessageKind kKind = MessageKind::kEstimate;
  MessageHeader header;
  uint32_t comm_handle;
  OpKind op;
  DataType type;
  uint8_t reserved[2];
  int32_t root_or_peer;
  uint32_t reserved1;
  uint64_t count;  // elements, as the NCCL call counts them
};
static_assert(sizeof(Estimate) == 40);

struct EstimateReply {
  static constexpr MessageKind kKind = MessageKind::kEstimateReply;
  MessageHeader header;
  ReplyStatus status;
  double microseconds;
};

struct Done {
  static constexpr MessageKind kKind = MessageKind::kDone;
  MessageHeader header;
  ReplyStatus status;
};

inline constexpr size_t kMaxMessageBytes = 1024;
inline constexpr int kMaxMessageFds = 2;

static_assert(sizeof(UniqueIdReply) <= kMaxMessageBytes && sizeof(CommInit) <= kMaxMessageBytes &&
              sizeof(CommShrink) <= kMaxMessageBytes);
static_assert(std::is_trivially_copyable_v<CommInit> && std::is_trivially_copyable_v<Hello>);

}  // namespace mccs::wire

#endif  // MCCS_PROTO_SHIM_CONTROL_H_
