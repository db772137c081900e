#include "emulation/core/engine.h"

#include <sched.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "emulation/core/kernel_run.h"

namespace mccs::emulation {
namespace {

// How long every wait spins before it sleeps. After kSpinAlone each poll yields the processor: the
// thread that signals may need it.
constexpr std::chrono::microseconds kSpin{20};
constexpr std::chrono::microseconds kSpinAlone{1};
constexpr int kPausesPerLook = 8;
// The same for a program that polls instead of waiting.
constexpr int kPollsPerYield = 8;
// The lock is held for well under a microsecond; sleeping for it would cost many.
constexpr int kLockAttempts = 200;
// Limit on the bytes that a query moves on the caller's thread.
constexpr size_t kPollBytes = 256 * 1024;
constexpr int kPollSteps = 16;
constexpr std::chrono::milliseconds kLongestSleep{100};
constexpr std::chrono::microseconds kFirstUnfencedPoll{50};

inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

Engine::Engine(int gpus, int connections)
    : gpus_(static_cast<size_t>(gpus)),
      connections_(connections),
      unfenced_poll_(kFirstUnfencedPoll) {
  const Lock lock = Acquire();
  for (int gpu = 0; gpu < gpus; ++gpu) {
    gpus_[gpu].legacy = AddStream({.gpu = gpu, .kind = StreamKind::kLegacy});
  }
}

Engine::Lock Engine::Acquire() {
  Lock lock(mutex_, std::try_to_lock);
  for (int i = 0; !lock.owns_lock() && i < kLockAttempts; ++i) {
    Pause();
    static_cast<void>(lock.try_lock());
  }
  if (!lock.owns_lock()) lock.lock();
  return lock;
}

std::shared_ptr<Stream> Engine::CreateStream(const StreamOptions& options) {
  const Lock lock = Acquire();
  return AddStream(options);
}

std::shared_ptr<Stream> Engine::AddStream(const StreamOptions& options) {
  Gpu& gpu = gpus_[options.gpu];
  auto stream = std::make_shared<Stream>(next_stream_id_++, options, ChooseQueue(gpu, options));
  std::erase_if(gpu.streams, [](const std::weak_ptr<Stream>& old) { return old.expired(); });
  gpu.streams.push_back(stream);
  return stream;
}

HardwareQueue* Engine::ChooseQueue(Gpu& gpu, const StreamOptions& options) {
  if (options.internal) {
    gpu.internal_queues.push_back(std::make_unique<HardwareQueue>());
    return gpu.internal_queues.back().get();
  }
  Gpu::Level& level = gpu.levels[options.priority];
  const size_t slot = level.next_queue++ % static_cast<size_t>(connections_);
  if (slot == level.queues.size()) level.queues.push_back(std::make_unique<HardwareQueue>());
  return level.queues[slot].get();
}

Point Engine::Enqueue(const std::shared_ptr<Stream>& stream, Work work, std::vector<Point> after,
                      bool caller_waits) {
  const Lock lock = Acquire();
  return Append(stream, std::move(work), std::move(after), caller_waits);
}

std::vector<Point> Engine::EnqueueAll(std::vector<EnqueueItem> items) {
  const Lock lock = Acquire();
  std::vector<Point> points;
  points.reserve(items.size());
  for (EnqueueItem& item : items) {
    for (const size_t earlier : item.after_items) item.after.push_back(points[earlier]);
    points.push_back(Append(item.stream, std::move(item.work), std::move(item.after), false));
  }
  return points;
}

Point Engine::Append(const std::shared_ptr<Stream>& stream, Work work, std::vector<Point> after,
                     bool caller_waits) {
  ++activity_;
  const Point point{stream, ++stream->enqueued_};
  AddLegacyOrder(*stream, &after);
  std::erase_if(after, Reached);
  HardwareQueue& queue = *stream->queue;
  // A program that enqueues without a pause moves its streams by itself.
  if (HeadReady(queue)) AdvanceInstant();
  const auto* wait = std::get_if<WaitWord>(&work);
  if (queue.entries.empty() && stream->detached_queue_ == nullptr && after.empty() &&
      CostOf(work) == Cost::kInstant && (wait == nullptr || IsSatisfied(*wait))) {
    Perform(work);
    stream->completed_ = point.number;
    if (!active_.empty() && AdvanceInstant() && watching_ == 0 && !active_.empty()) {
      WakeBackground();
    }
    return point;
  }
  queue.entries.push_back({std::move(work), std::move(after), stream, point.number});
  if (queue.entries.size() == 1) {  // a new head: notify a thread
    if (!queue.active) active_.push_back(&queue);
    queue.active = true;
    StartDetached(queue);
    NotifySleepers();
    // A waiting thread watches words, but moves memory for its own streams only.
    const bool heavy = queue.active && CostOf(queue.entries.front().work) != Cost::kInstant;
    if (!caller_waits && (heavy || watching_ == 0)) WakeBackground();
  }
  return point;
}

std::shared_ptr<Record> Engine::EnqueueRecord(const std::shared_ptr<Stream>& stream) {
  auto record = std::make_shared<Record>();
  record->point = Enqueue(stream, ReachRecord{record});
  return record;
}

// The rule of the legacy default stream: its work begins after all work in the GPU's blocking
// streams, and their later work begins after it.
void Engine::AddLegacyOrder(const Stream& stream, std::vector<Point>* after) {
  if (!stream.options.blocking) return;
  Gpu& gpu = gpus_[stream.options.gpu];
  if (stream.options.kind != StreamKind::kLegacy) {
    const bool busy = gpu.legacy->completed_ < gpu.legacy->enqueued_;
    if (busy) after->push_back({gpu.legacy, gpu.legacy->enqueued_});
    return;
  }
  for (const std::weak_ptr<Stream>& weak : gpu.streams) {
    std::shared_ptr<Stream> other = weak.lock();
    if (other == nullptr || other == gpu.legacy || !other->options.blocking) continue;
    const uint64_t last = other->enqueued_;
    after->push_back({std::move(other), last});
  }
}

std::vector<Point> Engine::PendingOf(const std::shared_ptr<Stream>& stream) {
  const Lock lock = Acquire();
  std::vector<Point> points;
  if (stream->options.kind == StreamKind::kLegacy) AddLegacyOrder(*stream, &points);
  points.push_back({stream, stream->enqueued_});
  std::erase_if(points, Reached);
  return points;
}

std::vector<Point> Engine::PendingOfGpu(int gpu) {
  const Lock lock = Acquire();
  std::vector<Point> points;
  for (const std::weak_ptr<Stream>& weak : gpus_[gpu].streams) {
    std::shared_ptr<Stream> stream = weak.lock();
    if (stream == nullptr || stream->options.internal) continue;
    const uint64_t last = stream->enqueued_;
    points.push_back({std::move(stream), last});
  }
  std::erase_if(points, Reached);
  return points;
}

bool Engine::IsReached(const Point& point) {
  const Lock lock = Acquire();
  return Reached(point);
}

bool Engine::AllReached(std::span<const Point> points) {
  return std::all_of(points.begin(), points.end(), Reached);
}

// Whether everything that the queue's head depends on is done.
bool Engine::MayBegin(HardwareQueue& queue) {
  if (queue.running || queue.entries.empty()) return false;
  HardwareQueue::Entry& head = queue.entries.front();
  if (head.stream->completed_ + 1 != head.number)
    return false;  // the stream's previous work is detached
  while (!head.after.empty() && Reached(head.after.back())) head.after.pop_back();
  return head.after.empty();
}

bool Engine::HeadReady(HardwareQueue& queue) {
  if (!MayBegin(queue)) return false;
  Work& work = queue.entries.front().work;
  if (const auto* wait = std::get_if<WaitWord>(&work)) return IsSatisfied(*wait);
  return !IsResumable(work) || PieceReady(std::get<ResumableKernel>(work));
}

void Engine::FinishHead(HardwareQueue& queue) {
  HardwareQueue::Entry& head = queue.entries.front();
  if (auto* wait = std::get_if<WaitWord>(&head.work)) Withdraw(*wait);
  MCCS_CHECK(head.stream->completed_ + 1 == head.number);
  head.stream->completed_ = head.number;
  if (head.stream->detached_queue_ == &queue) {
    head.stream->detached_queue_ = nullptr;
    unused_detached_queues_.push_back(&queue);
  }
  DropHead(queue);
  unfenced_poll_ = kFirstUnfencedPoll;
  NotifySleepers();
}

// Removes the head: it is done, or continues in a detached queue.
void Engine::DropHead(HardwareQueue& queue) {
  queue.entries.pop_front();
  ++queue.finished;
  ++activity_;
  queue.assigned = false;
  if (queue.entries.empty()) {
    queue.active = false;
    std::erase(active_, &queue);
  }
}

// Runs all work in all queues that takes no time. Returns whether there was any. Sets
// `ready_pieces_`, and `heavy_ready_` if a queue still has other ready work that takes longer.
bool Engine::AdvanceInstant() {
  bool any = false;
  for (bool again = true; again;) {
    again = false;
    heavy_ready_ = false;
    ready_pieces_ = 0;
    for (size_t i = 0; i < active_.size();) {
      HardwareQueue& queue = *active_[i];
      for (;;) {
        if (HeadReady(queue) && CostOf(queue.entries.front().work) == Cost::kInstant) {
          Perform(queue.entries.front().work);
          FinishHead(queue);
        } else if (!StartDetached(queue)) {
          break;
        }
        any = again = true;
      }
      if (HeadReady(queue) && !queue.assigned) {
        const bool piece = IsResumable(queue.entries.front().work);
        ready_pieces_ += piece ? 1 : 0;
        heavy_ready_ |= !piece;
      }
      if (queue.active) ++i;  // otherwise erased: the next queue moved here
    }
  }
  return any;
}

// REQUIRES: HeadReady(queue). Releases the lock while the work runs; the entry stays in place.
void Engine::RunHead(Lock& lock, HardwareQueue& queue) {
  if (sleepers_outdated_) NotifySleepers();  // it may take long: another thread watches the words
  queue.running = true;
  const Work& work = queue.entries.front().work;
  lock.unlock();
  Perform(work);
  lock = Acquire();
  queue.running = false;
  FinishHead(queue);
}

// Returns the queues whose heads must run before `points` can be reached.
std::vector<HardwareQueue*> Engine::QueuesNeededFor(std::span<const Point> points) {
  std::vector<HardwareQueue*> needed;
  ++search_;
  const auto add = [&](const Stream& stream, uint64_t number) {
    HardwareQueue* queue =
        stream.detached_queue_ != nullptr ? stream.detached_queue_ : stream.queue;
    if (stream.completed_ >= number || queue->mark == search_) return;
    queue->mark = search_;
    needed.push_back(queue);
  };
  for (const Point& point : points) add(*point.stream, point.number);
  for (size_t i = 0; i < needed.size(); ++i) {
    const HardwareQueue::Entry& head = needed[i]->entries.front();
    add(*head.stream, head.number - 1);
    for (const Point& point : head.after) add(*point.stream, point.number);
  }
  return needed;
}

// Runs one head that `points` need, a kernel's piece only if there is no other. Returns whether
// there was one.
bool Engine::RunOneNeeded(Lock& lock, std::span<const Point> points, WorkLimit& allowance,
                          bool watching) {
  HardwareQueue* piece = nullptr;
  for (HardwareQueue* queue : QueuesNeededFor(points)) {
    if (!HeadReady(*queue)) continue;
    const Work& work = queue->entries.front().work;
    if (IsResumable(work)) {
      if (piece == nullptr || queue->served < piece->served) piece = queue;
      continue;
    }
    if (CostOf(work) > allowance.cost || BytesOf(work) > allowance.bytes) continue;
    // A thread that runs work does not watch the other queues' words.
    if (watching && --watching_ == 0 && active_.size() > 1) WakeBackground();
    RunHead(lock, *queue);
    if (watching) ++watching_;
    return true;
  }
  if (piece == nullptr || allowance.pieces == 0) return false;
  --allowance.pieces;
  kernels_awaited_ = true;
  RunPiece(lock, *piece);
  return true;
}

bool Engine::SomeRun(std::span<const Point> points) {
  return std::ranges::any_of(QueuesNeededFor(points),
                             [](const HardwareQueue* queue) { return queue->running; });
}

bool Engine::Wait(std::span<const Point> points) {
  Lock lock = Acquire();
  if (AllReached(points)) return true;
  bool reached = true;
  WorkLimit unlimited;
  ++watching_;
  Clock::time_point spin_until = Clock::now() + kSpin;
  for (;;) {
    bool progress = AdvanceInstant();
    if (AllReached(points)) break;
    if (ready_pieces_ > 1) WakeBackground();  // two threads advance two kernels
    const bool ran = RunOneNeeded(lock, points, unlimited, true);
    if (AllReached(points)) break;
    if (!ran && heavy_ready_) WakeBackground();  // another thread's work
    progress |= ran || RunOnePiece(lock);
    const Clock::time_point now = Clock::now();
    if (progress) {
      spin_until = now + kSpin;
    } else if (now < spin_until) {
      lock.unlock();
      if (now < spin_until - (kSpin - kSpinAlone)) {
        for (int i = 0; i < kPausesPerLook; ++i) Pause();
      } else {
        sched_yield();
      }
      lock = Acquire();
    } else if (ended_ && !SomeRun(points)) {
      reached = false;
      break;
    } else {
      Sleep(lock, generation_, true, kLongestSleep);
    }
  }
  --watching_;
  HandOver();
  return reached;
}

bool Engine::Poll(std::span<const Point> points) {
  thread_local int futile = 0;
  const bool reached = points.empty() || PollOnce(points);
  if (!reached && ++futile % kPollsPerYield == 0) sched_yield();
  return reached;
}

bool Engine::PollOnce(std::span<const Point> points) {
  Lock lock = Acquire();
  WorkLimit allowance{.cost = Cost::kBounded, .bytes = kPollBytes, .pieces = 1};
  for (int step = 0; step < kPollSteps; ++step) {
    AdvanceInstant();
    if (AllReached(points)) {
      if (ready_pieces_ > 0) HandOver();
      return true;
    }
    if (!RunOneNeeded(lock, points, allowance, false)) break;
  }
  AdvanceInstant();
  HandOver();
  return AllReached(points);
}

}  // namespace mccs::emulation
