// Messages between shim and daemon on the Unix socket (SOCK_SEQPACKET: one message, one packet).
//
// Each request has a number, which the reply repeats. A reply may be late and out of order
// (CommInit is answered when all ranks have joined). All messages have fixed size and no pointers:
// both ends are on one machine. The daemon checks length, kind and all fields.
//
// clang-format off
//   shim                          daemon
//   Hello            ───────────►
//                    ◄─────────── HelloReply        + fds: session region, doorbell eventfd, and the
//                                                   image of kernels if it has one
//   GetUniqueId      ───────────►
//                    ◄─────────── UniqueIdReply
//   RegisterBuffer   ───────────►                   (+ fd when the export is a descriptor, + fd of its
//                                                   dma-buf)
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
//                    ◄─────────── CommInitReply     after the call of each of its ranks (no fd: the
//                                                   rank has no color)
//   CommShrink       ───────────►
//                    ◄─────────── CommInitReply     after the call of each rank not excluded
//   CommGrow         ───────────►
//                    ◄─────────── CommInitReply     after old and new ranks have joined
//   CommUniqueId     ───────────►                   the id by which new ranks join a CommGrow
//                    ◄─────────── UniqueIdReply
//   CommRevoke       ───────────►
//                    ◄─────────── Done              after the daemon's last access for operations
//   CommSuspend      ───────────►                   the rank will post nothing for a while
//                    ◄─────────── Done              releases the lanes' memory, if all ranks of this
//                                                   host are suspended and no operation runs
//   CaptureWork      ───────────►                   a call that is captured into a CUDA graph
//                    ◄─────────── Done              after the last one of its group
//   ReleaseCapture   ───────────►                   its graphs are destroyed; no reply
//   RegisterWindow   ───────────►                   an RMA window: other ranks may put into it
//                    ◄─────────── Done
//   DeregisterWindow ───────────►
//                    ◄─────────── Done
//   CommAbort        ───────────►
//                    ◄─────────── Done              after the daemon's last access
//   CommDestroy      ───────────►
//                    ◄─────────── Done              after all posted work and the last access
//   GpuFailed        ───────────►                   the rank's GPU or context failed: its work ends;
//                                                   no reply
//   Estimate         ───────────►                   how long a call would take; nothing is posted
//                    ◄─────────── EstimateReply
//
// If kernels of the process run plans (kernels/commands.h), the daemon asks for their memory:
//
//                    ◄─────────── MapMemory         + fd when it is a descriptor
//   MemoryMapped     ───────────►
//                    ◄─────────── UnmapMemory       no kernel uses it any more
//   MemoryUnmapped   ───────────►
//
// It asks the process to copy a put into its window on a GPU: from another host, or from a rank of
// this host that runs no kernels:
//
//                    ◄─────────── CopyMemory
//                    ◄─────────── DropCopy          its communicator or window has ended
//   MemoryCopied     ───────────►
// clang-format on
#ifndef MCCS_PROTO_SHIM_CONTROL_H_
#define MCCS_PROTO_SHIM_CONTROL_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "proto/shim_wire.h"

namespace mccs::wire {

inline constexpr uint64_t kControlMagic = 0x314c5443'5343434dull;  // "MCCSCTL1"
inline constexpr size_t kUniqueIdBytes = 128;
inline constexpr size_t kIpcHandleBytes = 64;
inline constexpr size_t kReplyMessageBytes = 512;

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
  kMapMemory = 28,
  kMemoryMapped = 29,
  kUnmapMemory = 30,
  kMemoryUnmapped = 31,
  kGpuFailed = 32,
  kCopyMemory = 33,
  kMemoryCopied = 34,
  kDropCopy = 35,
};
inline constexpr uint32_t kMessageKinds = 35;  // from 1

// The others are the shim's.
constexpr bool IsFromDaemon(MessageKind kind) {
  switch (kind) {
    case MessageKind::kHelloReply:
    case MessageKind::kUniqueIdReply:
    case MessageKind::kRegisterReply:
    case MessageKind::kCommInitReply:
    case MessageKind::kDone:
    case MessageKind::kEstimateReply:
    case MessageKind::kMapMemory:
    case MessageKind::kUnmapMemory:
    case MessageKind::kCopyMemory:
    case MessageKind::kDropCopy:
      return true;
    default:
      return false;
  }
}

struct MessageHeader {
  MessageKind kind;
  uint32_t bytes;    // of the whole message
  uint64_t request;  // chosen by the shim; a reply repeats it
};
static_assert(sizeof(MessageHeader) == 16);

// The result of a request. `error` kNone: success.
struct ReplyStatus {
  ErrorClass error;
  uint32_t reserved;
  char text[kReplyMessageBytes];  // zero-terminated error message: what failed, and the remedy
};

struct Hello {
  static constexpr MessageKind kKind = MessageKind::kHello;
  MessageHeader header;
  uint64_t magic;           // kControlMagic
  uint32_t oldest_version;  // wire versions that this shim supports
  uint32_t newest_version;
  char build[64];  // for logs: "mccs 0.1.0"
};

struct HelloReply {
  static constexpr MessageKind kKind = MessageKind::kHelloReply;
  MessageHeader header;
  ReplyStatus status;
  uint32_t version;       // the wire version to use
  uint32_t uses_kernels;  // 1: the daemon maps no GPU memory: kernels run the calls, and messages
                          // to and from other hosts are kHostMemory
  char build[64];
  // The image of kRunCommandsKernel, a file sealed against all changes (base/sealed_file.h), for
  // cuLibraryLoadData. 0: calls need no kernels.
  uint64_t kernel_image_bytes;
  char kernel_architectures[64];  // of the image, for error messages
  uint32_t wants_dma_bufs;        // 1: NICs of this host can register memory on GPUs by dma-bufs
  uint32_t reserved;
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
  kFileDescriptor = 2,  // a VMM allocation as a POSIX descriptor, sent with the message
  kHostMemory = 3,      // a sealed memfd, sent with the message
};

inline constexpr size_t kNoDmaBufBytes = 256;

struct RegisterBuffer {
  static constexpr MessageKind kKind = MessageKind::kRegisterBuffer;
  MessageHeader header;
  ExportKind kind;
  int32_t device;  // CUDA ordinal in the tenant's process, for its own kernels and messages only
  uint8_t device_uuid[16];
  uint64_t bytes;    // length of the allocation
  uint64_t address;  // in the tenant's process, for its own kernels only
  uint8_t handle[kIpcHandleBytes];
  uint32_t has_dma_buf;  // 1: the message's last descriptor is a dma-buf of the allocation
  uint32_t reserved;
  uint64_t dma_buf_offset;  // of the allocation's first byte in it
  // Why the allocation has no dma-buf although the daemon wants one, and the remedy,
  // zero-terminated; empty: no reason.
  char no_dma_buf[kNoDmaBufBytes];
};

struct RegisterReply {
  static constexpr MessageKind kKind = MessageKind::kRegisterReply;
  MessageHeader header;
  ReplyStatus status;
  uint32_t buffer_id;
  uint32_t reserved;
};

// A buffer for a range of the tenant's virtual memory whose allocations are mapped and unmapped
// over time. Its chunks are mapped at their offsets in the range; records may use what is mapped.
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
  uint64_t bytes;   // of the descriptor's allocation, from its start
};

// All chunks that overlap the span.
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
  kMultiRankGpu = 1,      // several ranks may share one GPU
  kIdFromEnvironment = 2  // the id was derived from NCCL_COMM_ID and can be guessed
};

// Options of a requested communicator, from config and environment.
struct CommOptions {
  uint32_t init_timeout_ms;  // MCCS_INIT_TIMEOUT; 0: no timeout
  uint32_t warn_after_ms;    // MCCS_WARN_AFTER; 0: the daemon's default
  char name[64];             // config.commName, for logs and mccsctl
  // Hints; the operator's policy decides.
  uint32_t min_channels;  // 0: none
  uint32_t max_channels;
  int32_t traffic_class;  // -1: none
  int32_t service_level;
  uint64_t buffer_bytes;  // 0: none
  char algorithms[64];    // the value of NCCL_ALGO; truncated if longer
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
  // A small buffer of this device, by which the daemon finds out which other processes can map its
  // memory for their kernels; 0: none.
  uint32_t probe_buffer;
  uint32_t reserved;
  CommOptions options;
};

inline constexpr size_t kStagedTextBytes = 768;
inline constexpr uint32_t kNoCommHandle = 0xffffffff;
inline constexpr int32_t kNoColor = -1;

// A rank of `comm_handle` requests a communicator of all ranks with its color, ordered by key, then
// by rank. The new rank uses the device of the requesting rank.
struct CommSplit {
  static constexpr MessageKind kKind = MessageKind::kCommSplit;
  MessageHeader header;
  uint32_t comm_handle;
  int32_t color;  // 0 and up, or kNoColor: takes part and gets no communicator
  int32_t key;
  uint32_t reserved;
  CommOptions options;
};

enum CommShrinkFlags : uint32_t {
  kShrinkAbort = 1,  // ends the parent's work first
  kShrinkMore = 2    // the next message has further ranks; this one is answered with Done
};
inline constexpr uint32_t kExcludedPerMessage = 128;

struct CommShrink {
  static constexpr MessageKind kKind = MessageKind::kCommShrink;
  MessageHeader header;
  uint32_t comm_handle;
  uint32_t flags;  // CommShrinkFlags
  uint32_t count;  // number of entries in `excluded`
  uint32_t reserved;
  int32_t excluded[kExcludedPerMessage];
  CommOptions options;
};

// A rank of `comm_handle` joins a larger communicator under its old number; new ranks join with
// CommInit and the id from CommUniqueId.
struct CommGrow {
  static constexpr MessageKind kKind = MessageKind::kCommGrow;
  MessageHeader header;
  uint32_t comm_handle;
  int32_t ranks;
  uint8_t unique_id[kUniqueIdBytes];  // zero: this rank does not have it
  CommOptions options;
};

struct CommUniqueId {
  static constexpr MessageKind kKind = MessageKind::kCommUniqueId;
  MessageHeader header;
  uint32_t comm_handle;
  uint32_t reserved;
};

// Ends the communicator's work on all its ranks; communicators can still be derived from it.
struct CommRevoke {
  static constexpr MessageKind kKind = MessageKind::kCommRevoke;
  MessageHeader header;
  uint32_t comm_handle;
  uint32_t reserved;
};

// Kernels of a rank that finish no command any more.
enum class EndedKernels : uint8_t {
  kNone = 0,
  kFromCall = 1,  // those of one ready slot that were to wait for one call, or a later one
  kAll = 2,
};

// The GPU of the rank, or its process's context there, has failed: no kernel of the rank runs any
// more, and no call of the communicator can succeed. Or work of a posted call could not be
// enqueued: the streams do not wait for the call.
struct GpuFailed {
  static constexpr MessageKind kKind = MessageKind::kGpuFailed;
  MessageHeader header;
  uint32_t comm_handle;
  uint32_t ready_slot;  // kFromCall; else 0
  uint64_t first_call;  // kFromCall: sequence of the first call that has no kernel; else 0
  EndedKernels ended;
  uint8_t reserved[7];
  char text[kReplyMessageBytes];  // zero-terminated: which GPU, its error, the remedy
};

// ncclCommSuspend and ncclCommResume.
struct CommSuspend {
  static constexpr MessageKind kKind = MessageKind::kCommSuspend;
  MessageHeader header;
  uint32_t comm_handle;
  uint32_t suspended;  // 1; 0: resumed
};

// One record of a captured group, in the order and with the meaning of the work ring's, with these
// differences: `ready_slot` is a captured slot, `ready_value` the number of the group within that
// slot, from 1, and `sequence` counts the calls of the group from 1. The record without
// kMoreInGroup ends the group.
struct CaptureWork {
  static constexpr MessageKind kKind = MessageKind::kCaptureWork;
  MessageHeader header;
  uint64_t capture;  // id for ReleaseCapture, chosen by the shim; unique in a session
  uint32_t comm_handle;
  uint32_t reserved;
  WorkRecord record;
};

// The capture will not be replayed any more.
struct ReleaseCapture {
  static constexpr MessageKind kKind = MessageKind::kReleaseCapture;
  MessageHeader header;
  uint64_t capture;
  uint32_t comm_handle;
  uint32_t reserved;
};

// The next RMA window of this rank. Its n-th registration has number n, as on all other ranks of
// the communicator, whose calls are in the same order; a failed registration also has a number. The
// memory is looked up at each put, so the window does not block the release of the buffer.
struct RegisterWindow {
  static constexpr MessageKind kKind = MessageKind::kRegisterWindow;
  MessageHeader header;
  uint32_t comm_handle;
  uint32_t reserved;
  uint64_t number;   // from 1
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

// Maximum number of ranks of one host.
inline constexpr size_t kMaxRanksOnHost = 128;

// How a rank's streams wait for its calls.
enum class KernelRole : uint32_t {
  kNone = 0,               // the daemon runs the calls itself
  kRunsPlans = 1,          // by a kernel that runs them
  kSharesWithProcess = 2,  // another rank of this process runs them on the same GPU
  // A rank of another process runs them on the same GPU: no kernel of this one may run meanwhile,
  // because kernels of two processes take turns in time slices.
  kSharesWithOther = 3,
};

struct CommInitReply {
  static constexpr MessageKind kKind = MessageKind::kCommInitReply;
  MessageHeader header;
  ReplyStatus status;
  uint32_t comm_handle;  // of the session: index of the dirty bit, used in later messages;
                         // kNoCommHandle: a rank without a color
  int32_t rank;          // within the communicator
  int32_t ranks;         // its size
  KernelRole role;       // kRunsPlans: a second descriptor is the KernelRegion
  uint64_t comm_id;
  // 1: the buffers of collectives are kHostMemory, because some processes of this host cannot map
  // each other's memory. `staged_text` has the reason and the remedy, zero-terminated.
  uint32_t stages_collectives;
  char staged_text[kStagedTextBytes];
  uint32_t local_ranks;  // number of entries in `on_host`
  uint32_t reserved;
  int32_t on_host[kMaxRanksOnHost];  // the ranks of this host, in ascending order
};

// Ends the communicator, or the init, that was requested by `init_request`; 0: `comm_handle`.
// So long the library waits for the answer. Then it keeps all memory that the communicator may use.
inline constexpr std::chrono::seconds kAbortTimeout{2};
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
  uint64_t count;  // elements, as in the NCCL call
};
static_assert(sizeof(Estimate) == 40);

struct EstimateReply {
  static constexpr MessageKind kKind = MessageKind::kEstimateReply;
  MessageHeader header;
  ReplyStatus status;
  double microseconds;
};

// Memory that this process's kernels on one GPU are going to use: of another rank of a
// communicator, of another GPU of this process, or the daemon's. The answer may come at any time.
struct MapMemory {
  static constexpr MessageKind kKind = MessageKind::kMapMemory;
  MessageHeader header;
  uint64_t memory;  // the daemon's number of it, unique in a session
  uint64_t bytes;
  ExportKind kind;
  int32_t device;                   // CUDA ordinal in this process: of the kernels' GPU
  uint64_t own_address;             // not 0: this process's own memory, at this address
  uint8_t handle[kIpcHandleBytes];  // kCudaIpc
};

struct MemoryMapped {
  static constexpr MessageKind kKind = MessageKind::kMemoryMapped;
  MessageHeader header;
  uint64_t memory;
  uint64_t address;  // for this process's kernels
  ReplyStatus status;
};

struct UnmapMemory {
  static constexpr MessageKind kKind = MessageKind::kUnmapMemory;
  MessageHeader header;
  uint64_t memory;
};

struct MemoryUnmapped {
  static constexpr MessageKind kKind = MessageKind::kMemoryUnmapped;
  MessageHeader header;
  uint64_t memory;
};

// Host memory, which this process has mapped, is to be copied into its own memory on a GPU.
struct CopyMemory {
  static constexpr MessageKind kKind = MessageKind::kCopyMemory;
  MessageHeader header;
  uint64_t copy;  // the daemon's number of it, unique in a session
  uint64_t to;    // as in RegisterBuffer
  uint64_t from;  // as in MemoryMapped
  uint64_t bytes;
  int32_t device;  // as in MapMemory
  uint32_t reserved;
};

// The copy is needed no more. The process need not make it if it has not begun, and answers its
// CopyMemory in any case.
struct DropCopy {
  static constexpr MessageKind kKind = MessageKind::kDropCopy;
  MessageHeader header;
  uint64_t copy;
};

struct MemoryCopied {
  static constexpr MessageKind kKind = MessageKind::kMemoryCopied;
  MessageHeader header;
  uint64_t copy;
  ReplyStatus status;
};

struct Done {
  static constexpr MessageKind kKind = MessageKind::kDone;
  MessageHeader header;
  ReplyStatus status;
};

inline constexpr size_t kMaxMessageBytes = 2048;
inline constexpr int kMaxMessageFds = 2;  // to the daemon
inline constexpr int kMaxReplyFds = 3;    // from the daemon

static_assert(sizeof(UniqueIdReply) <= kMaxMessageBytes && sizeof(CommInit) <= kMaxMessageBytes &&
              sizeof(CommShrink) <= kMaxMessageBytes && sizeof(CommInitReply) <= kMaxMessageBytes);
static_assert(std::is_trivially_copyable_v<CommInit> && std::is_trivially_copyable_v<Hello>);

}  // namespace mccs::wire

#endif  // MCCS_PROTO_SHIM_CONTROL_H_
