// The stream engine: what is enqueued runs in CUDA's order, without the host waiting for it.
//
// A stream is a sequence of numbered pieces of work in one of its GPU's hardware queues (round
// robin). A queue is strictly first in, first out: work that cannot run yet holds up everything
// behind it, of whatever stream, as on a GPU. Work may besides depend on points of other streams
// (events, the legacy default stream's rule). A kernel that watches a word (WaitWord::beside)
// leaves its queue when it starts: what is behind it goes on, but for its own stream's later work.
//
// Who moves things forward:
//   at the enqueueing   what takes no time and may run at once (writing a word, a record, a wait
//                       that is over already) is done there and then, as a GPU would within
//                       microseconds
//   a waiting thread    does everything that it waits for (but for what shares a queue with
//                       a kernel beside it), and whatever takes no time elsewhere;
//                       then spins for 20 µs, soon giving its processor away at each look (whoever
//                       signals may need it), then sleeps on the words that streams wait for
//   a question          (cuStreamQuery) does the same once and without the program's code
//   the background      one thread, made at the first work that is left over: does what nobody has
//   thread              taken up for 50 µs, and sleeps on the words when nobody else does
//   the callback thread runs host functions and kernels that nobody waits for, which may block;
//                       made at the first of them
//
// One lock guards all of it, since the work in it is short; moving memory and running the program's
// code happen without it.
//
// THREAD: any. LIFETIME: never ends, because its threads do not; a process may exit at any time.
#ifndef MCCS_EMULATION_CORE_ENGINE_H_
#define MCCS_EMULATION_CORE_ENGINE_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
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
  bool blocking = true;  // takes part in the legacy default stream's rule
  int priority = 0;      // kept for questions; queues are served alike
  bool apart = false;    // our own: has a queue for itself, and no synchronisation waits for it
};

struct HardwareQueue {
  struct Entry {
    Work work;
    std::vector<Point> after;  // shrinks as they are reached
    std::shared_ptr<Stream> stream;
    uint64_t number = 0;
  };
  std::deque<Entry> entries;
  uint64_t finished = 0;  // entries so far: names the present head
  bool running = false;   // somebody does the head's work without the lock
  bool offered = false;   // the head is left to the callback thread
  bool active = false;    // has entries, and is in the engine's list
  // `finished` when the background thread saw the head ready
  uint64_t seen_by_background = ~uint64_t{0};
  uint64_t mark = 0;  // of the search for needed queues
};

// THREAD: what is not const is guarded by the engine's lock.
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
  HardwareQueue* beside_ = nullptr;  // where its oldest work is, if that has left `queue`
};

// One of several pieces of work that are enqueued together.
struct Enqueueing {
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

  // Appends to a stream; `after` are further points to be reached first. `caller_waits`: a Wait
  // follows at once, so the background thread need not hear of it.
  // ENSURES: the returned point is reached once the work is done.
  Point Enqueue(const std::shared_ptr<Stream>& stream, Work work, std::vector<Point> after = {},
                bool caller_waits = false);
  // Appends all of them in this order, with nothing of other threads in between.
  // ENSURES: one point for each.
  std::vector<Point> EnqueueAll(std::vector<Enqueueing> items);
  std::shared_ptr<Record> EnqueueRecord(const std::shared_ptr<Stream>& stream);

  // What a synchronisation with a stream, or with a whole GPU, has to wait for.
  std::vector<Point> PendingOf(const std::shared_ptr<Stream>& stream);
  std::vector<Point> PendingOfGpu(int gpu);

  // Whether it is reached already; does nothing for it.
  bool IsReached(const Point& point);
  // Blocks until all points are reached. False: the process ends, and what is left will not be
  // done.
  bool Wait(std::span<const Point> points);
  // The process ends: from now on no thread waits for a word that nobody may ever write. Work
  // behind such a word is not done.
  void End();
  // Whether they are reached, after a push.
  bool Poll(std::span<const Point> points);

 private:
  using Clock = std::chrono::steady_clock;
  using Lock = std::unique_lock<std::mutex>;
  struct Gpu {
    std::vector<std::unique_ptr<HardwareQueue>> queues;
    std::vector<std::unique_ptr<HardwareQueue>> queues_apart;
    std::shared_ptr<Stream> legacy;
    std::vector<std::weak_ptr<Stream>> streams;
    size_t next_queue = 0;
  };
  // What a caller may do on its way: a question moves little memory and runs no code.
  struct Allowance {
    Cost cost = Cost::kUnbounded;
    size_t bytes = ~size_t{0};
  };

  Lock Acquire();
  bool PollOnce(std::span<const Point> points);

  // All below: the lock is held, and held again on return.
  std::shared_ptr<Stream> AddStream(const StreamOptions& options);
  HardwareQueue* ChooseQueue(Gpu& gpu, bool apart);
  Point Append(const std::shared_ptr<Stream>& stream, Work work, std::vector<Point> after,
               bool caller_waits);
  void AddLegacyOrder(const Stream& stream, std::vector<Point>* after);
  static bool Reached(const Point& point) { return point.stream->completed_ >= point.number; }
  static bool AllReached(std::span<const Point> points);
  static bool MayBegin(HardwareQueue& queue);
  static bool HeadReady(HardwareQueue& queue);
  bool StartBeside(HardwareQueue& queue);
  HardwareQueue* TakeQueueBeside();
  static WaitWord* BlockedWait(HardwareQueue& queue);
  void FinishHead(HardwareQueue& queue);
  void DropHead(HardwareQueue& queue);
  bool AdvanceInstant();
  void RunHead(Lock& lock, HardwareQueue& queue);
  std::vector<HardwareQueue*> NeededFor(std::span<const Point> points);
  bool RunOneNeeded(Lock& lock, std::span<const Point> points, const Allowance& allowance,
                    bool watching);

  // engine_sleep.cc
  void Changed();
  void NudgeBackground();
  void Sleep(Lock& lock, std::atomic<uint32_t>& bell, bool watch_words, Clock::duration limit);
  void BackgroundLoop();
  bool RunOverdue(Lock& lock, bool* young);
  void OfferToCallbacks(HardwareQueue& queue);
  void CallbackLoop();

  std::mutex mutex_;
  std::vector<Gpu> gpus_;
  const int connections_;
  uint64_t next_stream_id_ = 1;
  std::vector<HardwareQueue*> active_;  // queues with entries
  // For one kernel each that watches a word, from when it starts.
  std::vector<std::unique_ptr<HardwareQueue>> queues_beside_;
  std::vector<HardwareQueue*> unused_beside_;
  uint64_t search_ = 0;       // current value of HardwareQueue::mark
  uint64_t activity_ = 0;     // grows with each enqueueing and each end of work
  int watching_ = 0;          // threads in Wait that look after all words
  bool ended_ = false;        // the process exits
  bool heavy_ready_ = false;  // AdvanceInstant left work that is ready and not instant

  // A futex: changes whenever a sleeping thread should look again. Sleepers read it under the lock.
  std::atomic<uint32_t> generation_{0};
  int sleeping_on_generation_ = 0;
  Clock::duration unfenced_poll_;  // grows while words without a bell stay as they are

  enum class Background { kAbsent, kAwake, kAsleep };
  Background background_ = Background::kAbsent;
  bool background_watches_ = false;  // asleep, but the words that streams wait for wake it
  uint64_t background_seen_ = 0;     // `activity_` when it went to sleep
  std::atomic<uint32_t> background_bell_{0};
  bool callbacks_started_ = false;
  std::condition_variable callbacks_offered_;
};

}  // namespace mccs::emulation

#endif  // MCCS_EMULATION_CORE_ENGINE_H_
