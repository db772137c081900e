// A daemon for the shim's unit tests: implements proto/shim_control.h on a real socket and serves
// the rings, in one thread, for ranks in the test's own process. It computes collectives of int32
// and float. Tests can make it slow, silent, faulty or dead.
#ifndef MCCS_TESTS_UNIT_SHIM_FAKE_DAEMON_H_
#define MCCS_TESTS_UNIT_SHIM_FAKE_DAEMON_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/shared_region.h"
#include "base/unique_fd.h"
#include "proto/shim_control.h"
#include "proto/unique_id.h"
#include "tests/unit/temporary_directory.h"

namespace mccs {

class FakeDaemon {
 public:
  FakeDaemon();   // listens at socket_path()
  ~FakeDaemon();  // dies

  const std::string& socket_path() const { return socket_path_; }

  // Closes every connection and the socket, as if killed.
  void Die();
  // While held, takes no records.
  void HoldRings(bool held) { hold_rings_ = held; }
  // Reads no message from now on, as if stopped.
  void StopReading() { reading_stopped_ = true; }
  // While set, does not reply to messages of this kind.
  void IgnoreMessages(wire::MessageKind kind) { ignored_kind_ = kind; }
  // From the next session on its greetings bring this image, and communicators use kernels. `file`
  // may be invalid.
  void GiveKernelImage(UniqueFd file, uint64_t bytes, const std::string& architectures);
  // From the next session on it maps no GPU memory.
  void MapNoGpuMemory() { maps_gpu_memory_ = false; }
  // From the next session on it wants dma-bufs of GPU memory.
  void WantDmaBufs() { wants_dma_bufs_ = true; }
  // The ranks of the next communicators have this role, and stage their collectives for this
  // reason; empty: they do not.
  void SetKernelUse(wire::KernelRole role, const std::string& staged = "");
  // These ranks of the next communicators are on one host.
  void PutOnOneHost(std::vector<int> ranks);
  // Asks the newest process to map memory for its kernels, and waits for the answer.
  wire::MemoryMapped AskToMap(const wire::MapMemory& request, int fd = -1);
  // Asks it to copy host memory into its own, and waits for the answer.
  wire::MemoryCopied AskToCopy(const wire::CopyMemory& request);
  // The same without waiting. CopiedBy: the answers so far, in their order.
  template <typename Message>
  void SendMessage(const Message& message);
  std::vector<wire::MemoryCopied> CopyAnswers();
  // The next replies to GetUniqueId, CommInit and RegisterBuffer contain this error.
  void FailRequestsWith(wire::ErrorClass error) { request_error_ = error; }
  // The next replies to RegisterWindow contain this error.
  void FailWindowsWith(wire::ErrorClass error) { window_error_ = error; }
  // The next replies to MapChunk contain this error message.
  void FailChunks(const std::string& why);
  // Fails a rank's communicator as the daemon does when a peer dies.
  void FailRank(int rank, wire::ErrorClass error, const std::string& text,
                bool accepts_calls = false);
  // The same for a death that no call has run into yet.
  void ReportDeath(int rank, const std::string& text) {
    FailRank(rank, wire::ErrorClass::kRemote, text, /*accepts_calls=*/true);
  }

  // Observations so far.
  std::vector<wire::WorkRecord> RecordsOf(int rank);
  size_t CapturedGroupsOf(int rank);  // of the newest communicator, without released ones
  int CountOf(wire::MessageKind kind);
  std::vector<wire::RegisterWindow> Windows();
  struct RegisteredBuffer {
    wire::RegisterBuffer message;
    std::vector<uint64_t>
        files;  // inodes of the message's descriptors that the daemon has not used
  };
  std::vector<RegisteredBuffer> Registered();
  std::vector<wire::GpuFailed> GpuFailures();
  wire::CommInit LastInit();
  wire::CommSplit LastSplit();
  std::vector<int> LastExcluded();  // of a CommShrink, all its messages

 private:
  // Sends the newest process a request that is not a reply, and waits for the answer.
  template <typename Request, typename Reply>
  Reply Ask(const Request& request, std::optional<Reply>& reply, std::vector<int> fds = {});
  struct Session;
  struct KernelImageOffer {
    UniqueFd file;
    uint64_t bytes = 0;
    std::string architectures;
  };
  // Records of a captured group, including fences.
  struct CapturedGroup {
    uint64_t capture = 0;
    std::vector<wire::WorkRecord> records;
  };
  struct Member {
    Session* session;
    uint32_t handle;
    int rank;
    SharedRegion memory;
    SharedRegion kernels;
    uint64_t head = 0;
    std::deque<std::pair<uint32_t, uint64_t>>
        fences;  // slot, value: to be reached before the next record
    std::deque<wire::WorkRecord> posted;
    CapturedGroup coming;
    std::vector<CapturedGroup> captured;
    uint64_t destroy_request = 0;
    bool gone = false;
    wire::CommRegion& region() { return *reinterpret_cast<wire::CommRegion*>(memory.data()); }
  };
  struct Join {
    Session* session;
    uint64_t request;
    int rank;
    int ranks;
  };
  struct Comm {
    std::map<int, std::unique_ptr<Member>> members;  // all members, by rank
    // Calls of ncclCommSplit that wait for the other ranks: by number, then by rank.
    std::map<int, std::map<int, wire::CommSplit>> splits;
    std::map<int, int> split_calls;  // by rank
    // Ranks that wait in CommShrink, by the ranks that they exclude.
    std::map<std::vector<int>, std::map<int, Join>> shrinks;
  };
  struct Session {
    UniqueFd socket;
    UniqueFd doorbell;
    SharedRegion memory;
    std::map<uint32_t, std::shared_ptr<std::byte>> buffers;  // unmapped with the last owner
    std::map<uint32_t, size_t> ranges;       // bytes of the buffers that consist of chunks
    std::vector<UniqueFd> received;          // from the current message
    std::map<uint32_t, uint64_t> releasing;  // requests to release buffers, by buffer
    uint32_t next_buffer = 1;
    uint32_t next_comm = 0;
    bool gone = false;
  };

  void Serve();
  void Accept();
  void Read(Session& session);
  void Handle(Session& session, const std::vector<unsigned char>& bytes);
  template <typename Message>
  void Answer(Session& session, uint64_t request, Message message, std::vector<int> fds = {});
  void OnRegister(Session& session, const wire::RegisterBuffer& message);
  void OnReserve(Session& session, const wire::ReserveRange& message);
  void OnMapChunk(Session& session, const wire::MapChunk& message);
  void OnUnmapChunks(Session& session, const wire::UnmapChunks& message);
  void OnRegisterWindow(Session& session, const wire::RegisterWindow& message);
  void OnInit(Session& session, const wire::CommInit& message);
  // The member with this handle in this session, and its communicator.
  std::pair<Comm*, Member*> Find(Session& session, uint32_t handle);
  void OnShrink(Session& session, const wire::CommShrink& message);
  void OnGrow(Session& session, const wire::CommGrow& message);
  void OnRevoke(Session& session, const wire::CommRevoke& message);
  void OnSplit(Session& session, const wire::CommSplit& message);
  void FinishSplit(Comm& comm, const std::map<int, wire::CommSplit>& calls);
  void OnAbort(Session& session, const wire::CommAbort& message);
  void OnDestroy(Session& session, const wire::CommDestroy& message);
  void OnCaptureWork(Session& session, const wire::CaptureWork& message);
  void OnReleaseCapture(Session& session, const wire::ReleaseCapture& message);
  void Admit(std::vector<Join>& joins);
  void ServeRings();
  void TakeRecords(Member& member);
  bool Ready(Member& member);
  // Runs the next operation that all ranks have posted and are ready for; false if there is none.
  bool RunOne(Comm& comm);
  // Replies to releases after the posted records are served.
  void AnswerReleases();
  bool IsNamed(const Session& session, uint32_t buffer);
  // The same for captured groups; the groups of all ranks are in one order.
  bool RunCaptured(Comm& comm);
  bool Reached(Member& member, size_t group);
  // Runs one operation: the matching calls of all ranks, by rank.
  void Compute(Comm& comm, const std::vector<wire::WorkRecord>& calls);
  std::byte* Address(Member& member, const wire::BufferRef& ref);

  const TemporaryDirectory directory_;
  const std::string socket_path_ = directory_.File("mccsd.sock");
  UniqueFd listener_;
  std::thread thread_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> die_{false};
  std::atomic<bool> hold_rings_{false};
  std::atomic<bool> reading_stopped_{false};
  std::atomic<bool> maps_gpu_memory_{true};
  std::atomic<bool> wants_dma_bufs_{false};
  std::atomic<wire::MessageKind> ignored_kind_{};
  std::atomic<wire::ErrorClass> request_error_{wire::ErrorClass::kNone};
  std::atomic<wire::ErrorClass> window_error_{wire::ErrorClass::kNone};

  std::mutex mutex_;  // held by the thread while it works
  std::string chunk_error_;
  bool uses_kernels_ = false;
  KernelImageOffer image_;
  wire::KernelRole role_ = wire::KernelRole::kNone;
  std::string staged_;
  std::vector<int> on_host_;
  std::optional<wire::MemoryMapped> mapped_;
  std::optional<wire::MemoryCopied> copied_;
  std::vector<wire::MemoryCopied> copy_answers_;
  std::vector<std::unique_ptr<Session>> sessions_;
  std::map<uint64_t, std::vector<Join>> joining_;  // by comm_id
  std::vector<std::unique_ptr<Comm>> comms_;
  std::map<int, std::vector<wire::WorkRecord>> records_;
  std::map<wire::MessageKind, int> counts_;
  std::vector<wire::RegisterWindow> windows_;
  std::vector<RegisteredBuffer> registered_;
  std::vector<wire::GpuFailed> gpu_failures_;
  wire::CommInit last_init_{};
  wire::CommSplit last_split_{};
  std::vector<int> excluded_;  // of the incomplete CommShrink
  std::vector<int> last_excluded_;
  uint64_t next_comm_id_ = 100;
};

}  // namespace mccs

#endif  // MCCS_TESTS_UNIT_SHIM_FAKE_DAEMON_H_
