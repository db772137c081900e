// The stream engine: runs enqueued work in CUDA's order, without blocking the enqueuing thread.
//
// A stream is a sequence of numbered pieces of work in one of its GPU's hardware queues (assigned
// round robin among those of its priority). A queue is strictly first in, first out: work that
// cannot run yet blocks all work behind it, of every stream, as on a GPU. Work may also depend on
// points of other streams (events, the legacy default stream's rule). A kernel that watches a word
// (WaitWord::detached) leaves its queue when it starts. The work behind it runs, except later work
// of its own stream. So does a resumable kernel: it runs piece by piece, and between the pieces
// waits for words that change from wait to wait. Any number of such kernels run at once.
//
// Threads that run work:
//   enqueuing thread   runs work that takes no time and is ready (writing a word, a record, a
//                      satisfied wait), as a GPU does within microseconds, also what was enqueued
//                      earlier
//   waiting thread     runs everything that it waits for, except work that shares a queue with a
//                      detached kernel, and all work that takes no time; if there is none, pieces
//                      of the other kernels; then spins for 20 µs,
//                      soon yielding its processor at each poll (the thread that signals may need
//                      it); then sleeps on the words that streams wait for
//   query              (cuStreamQuery) does the same once, without the program's code, and at most
//                      one piece
//   background thread  one thread, started when work is first left over: runs work that is ready
//                      for 50 µs, and pieces at once; when no other thread watches the words, it
//                      spins for 20 µs after progress, then sleeps on them. A waiting thread with
//                      two pieces to run wakes it for the second. An enqueuing thread wakes it for
//                      a kernel's first piece if the program has left the last kernels to it
//   callback thread    runs host functions and kernels that no thread waits for, which may block;
//                      started at the first of them
//
// One lock guards all of it, since the critical sections are short. Copies, fills, pieces and the
// program's code run without the lock.
//
// At process exit kernels stop where they are: no piece runs once OnProcessExit has returned.
//
// THREAD: any. LIFETIME: never destroyed, because its threads never end; a process may exit at any
// time.
#ifndef MCCS_EMULATION_CORE_ENGINE_H_
#define MCCS_EMULATION_CORE_ENGINE_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "emulation/core/work.h"

namespace mccs::emulation {

enum class StreamKind { kLegacy, kPerThread, kCreated };

struct StreamOptions {
  int gpu = 0;
  StreamKind kind = StreamKind::kCreated;
  bool blocking = true;   // the legacy default stream's rule applies to it
  int priority = 0;       // each has its own queues, and no priority over others
  bool internal = false;  // the emulation's own: has its own queue; synchronization ignores it
};

struct HardwareQueue {
  struct Entry {
    Work work;
    std::vector<Point> after;  // points to reach first; erased as they are reached
    std::shared_ptr<Stream> stream;
    uint64_t number = 0;
  };
  std::deque<Entry> entries;
  uint64_t finished = 0;  // entries so far; identifies the current head
  bool running = false;   // a thread runs the head without the lock
  bool assigned = false;  // the head is assigned to the callback thread
  bool active = false;    // has entries, and is in the engine's list
  // `finished` when the background thread found the head ready.
  uint64_t seen_by_background = ~uint64_t{0};
  uint64_t served = 0;  // number of the last piece of its kernel
  uint64_t mark = 0;    // of the last search for needed queues that visited it
};

// THREAD: the engine's lock guards every member that is not const.
class Stream {
 public:
  Stream(uint64_t id, const StreamOptions& options, HardwareQueue* queue)
      : id(id), options(options), queue(queue) {}
  const uint64_t id;
  const StreamOptions options;
  HardwareQueue* const queue;

 private:
  friend class Engine;
  uint64_t enqueued_ = 0;
  uint64_t completed_ = 0;
  HardwareQueue* detached_queue_ = nullptr;  // holds its oldest work if that has left `queue`
};

// One of several pieces of work that are enqueued together.
struct EnqueueItem {
  std::shared_ptr<Stream> stream;
  Work work;
  std::vector<Point> after;
  std::vector<size_t> after_items;  // positions of earlier pieces
};

class Engine {
 public:
  Engine(int gpus, int connections);

  std::shared_ptr<Stream> CreateStream(const StreamOptions& options);
  const std::shared_ptr<Stream>& legacy_stream(int gpu) const { return gpus_[gpu].legacy; }

  // Appends work to a stream. `after`: further points that must be reached first. `caller_waits`:
  // the caller calls Wait at once, so the background thread is not notified.
  // ENSURES: the returned point is reached once the work is done.
  Point Enqueue(const std::shared_ptr<Stream>& stream, Work work, std::vector<Point> after = {},
                bool caller_waits = false);
  // Appends all items in this order, atomically with respect to other threads.
  // ENSURES: returns one point for each item.
  std::vector<Point> EnqueueAll(std::vector<EnqueueItem> items);
  std::shared_ptr<Record> EnqueueRecord(const std::shared_ptr<Stream>& stream);

  // Returns the points that a synchronization with a stream, or with a whole GPU, waits for.
  std::vector<Point> PendingOf(const std::shared_ptr<Stream>& stream);
  std::vector<Point> PendingOfGpu(int gpu);

  // Whether the point is reached. Does not run any work.
  bool IsReached(const Point& point);
  // Blocks until all points are reached. Returns false if the process exits first; the remaining
  // work will not run.
  bool Wait(std::span<const Point> points);
  // Called when the process exits. From then on no thread waits for a word that may never be
  // written, and work behind such a word does not run. Nor do resumable kernels: blocks until the
  // pieces that run now have ended, for half a second at most.
  void OnProcessExit();
  // Runs some ready work, then returns whether the points are reached.
  bool Poll(std::span<const Point> points);

 private:
  using Clock = std::chrono::steady_clock;
  using Lock = std::unique_lock<std::mutex>;
  struct Gpu {
    struct Level {
      std::vector<std::unique_ptr<HardwareQueue>> queues;
      size_t next_queue = 0;
    };
    std::map<int, Level> levels;  // by priority
    std::vector<std::unique_ptr<HardwareQueue>> internal_queues;
    std::shared_ptr<Stream> legacy;
    std::vector<std::weak_ptr<Stream>> streams;
  };
  // Limits on the work that a caller runs: a query moves little memory and runs no code.
  struct WorkLimit {
    Cost cost = Cost::kUnbounded;
    size_t bytes = ~size_t{0};
    uint64_t pieces = ~uint64_t{0};  // of kernels; the rest of the allowance
  };

  Lock Acquire();
  bool PollOnce(std::span<const Point> points);

  // REQUIRES for all below: the lock is held. ENSURES: it is held on return.
  std::shared_ptr<Stream> AddStream(const StreamOptions& options);
  HardwareQueue* ChooseQueue(Gpu& gpu, const StreamOptions& options);
  Point Append(const std::shared_ptr<Stream>& stream, Work work, std::vector<Point> after,
               bool caller_waits);
  void AddLegacyOrder(const Stream& stream, std::vector<Point>* after);
  static bool Reached(const Point& point) { return point.stream->completed_ >= point.number; }
  static bool AllReached(std::span<const Point> points);
  static bool MayBegin(HardwareQueue& queue);
  bool HeadReady(HardwareQueue& queue);
  void FinishHead(HardwareQueue& queue);
  void DropHead(HardwareQueue& queue);
  bool AdvanceInstant();
  void RunHead(Lock& lock, HardwareQueue& queue);
  std::vector<HardwareQueue*> QueuesNeededFor(std::span<const Point> points);
  // Another thread runs work that `points` need.
  bool SomeRun(std::span<const Point> points);
  bool RunOneNeeded(Lock& lock, std::span<const Point> points, WorkLimit& allowance, bool watching);

  // engine_kernels.cc
  bool StartDetached(HardwareQueue& queue);
  HardwareQueue* TakeDetachedQueue();
  WaitWord* BlockedWait(HardwareQueue& queue);
  bool PieceReady(const ResumableKernel& kernel) const;
  void RunPiece(Lock& lock, HardwareQueue& queue);
  bool RunOnePiece(Lock& lock);
  void HandOver();

  // engine_sleep.cc
  void NotifySleepers();
  void WakeBackground();
  void Sleep(Lock& lock, std::atomic<uint32_t>& wakeup, bool watch_words, Clock::duration limit);
  void BackgroundLoop();
  bool RunOverdue(Lock& lock, bool* young);
  void AssignToCallbacks(HardwareQueue& queue);
  void CallbackLoop();

  std::mutex mutex_;
  std::vector<Gpu> gpus_;
  const int connections_;
  uint64_t next_stream_id_ = 1;
  std::vector<HardwareQueue*> active_;  // queues with entries
  // Each holds one kernel that watches a word or is resumable, from its start on.
  std::vector<std::unique_ptr<HardwareQueue>> detached_queues_;
  std::vector<HardwareQueue*> unused_detached_queues_;
  uint64_t search_ = 0;       // last value used for HardwareQueue::mark
  uint64_t pieces_ = 0;       // pieces of kernels that have begun
  uint64_t activity_ = 0;     // incremented when work is enqueued, and when work or a piece ends
  int watching_ = 0;          // threads in Wait that watch all words
  bool ended_ = false;        // the process exits
  bool heavy_ready_ = false;  // AdvanceInstant left work that is ready and takes time
  int ready_pieces_ = 0;      // pieces that it left
  // The last piece that was needed first ran in a thread that waits, not in the background thread.
  bool kernels_awaited_ = true;

  // A futex: incremented when sleeping threads must check again. Sleepers read it under the lock.
  std::atomic<uint32_t> generation_{0};
  int sleeping_on_generation_ = 0;
  bool sleepers_outdated_ = false;  // kernels have new waits, which these threads do not watch
  Clock::duration unfenced_poll_;   // grows while words outside fence pages do not change

  enum class Background { kAbsent, kAwake, kPolls, kAsleep };  // kPolls: sleeps for a short time
  Background background_ = Background::kAbsent;
  bool background_watches_ = false;  // it sleeps on the words that streams wait for, too
  uint64_t background_seen_ = 0;     // `activity_` when it fell asleep
  std::atomic<uint32_t> background_wakeup_{0};
  bool callbacks_started_ = false;
  std::condition_variable callbacks_assigned_;
};

}  // namespace mccs::emulation

#endif  // MCCS_EMULATION_CORE_ENGINE_H_
