// Runs work apart from the engine that takes time or waits for the kernel.
#ifndef MCCS_SERVICE_DEVICE_MAPPING_RUNNER_H_
#define MCCS_SERVICE_DEVICE_MAPPING_RUNNER_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace mccs {

// The process for which a job runs. Tenants take turns, and the processes of each tenant do.
struct MappingOwner {
  std::string tenant = {};
  pid_t process = 0;
};

class MappingJob {
 public:
  enum class Progress {
    kMore,  // call again, after other owners' jobs
    kLong,  // the next call may take seconds: call it on the thread for long jobs
    kDone,
  };

  explicit MappingJob(MappingOwner owner) : owner_(std::move(owner)) {}
  virtual ~MappingJob() = default;
  MappingJob(const MappingJob&) = delete;
  MappingJob& operator=(const MappingJob&) = delete;

  // Runs one piece, about a millisecond of work unless the last call returned kLong.
  // THREAD: the runner's, one at a time. May block.
  virtual Progress Step() = 0;
  // Delivers the result. REQUIRES: Step has returned kDone. THREAD: the owning engine.
  virtual void Finish() = 0;

  const MappingOwner& owner() const { return owner_; }

 private:
  friend class JobMailbox;
  const MappingOwner owner_;
  MappingJob* next_ = nullptr;  // in a JobMailbox
};

// Runs work on tenants' mappings: map, populate page tables, unmap, close memory files. The time of
// each is proportional to the size of the memory, so the engine starts it and does not wait.
// Threads (mapping_threads.h) or the simulator run it in pieces.
//
//   Start ──► Step, Step, … kDone ──► TakeFinished ──► Finish
//   (engine)  (the runner's thread)   (engine)         (engine)
//
// THREAD: the owning engine. Never blocks. Jobs of one process and lane run in order. The
// destructor destroys unfinished jobs without Finish.
class MappingRunner {
 public:
  enum class Lane { kMap, kUnmap };

  virtual ~MappingRunner() = default;
  virtual void Start(Lane lane, std::unique_ptr<MappingJob> job) = 0;
  // A job that has returned kDone; null: none. The runner wakes the engine before there is one.
  virtual std::unique_ptr<MappingJob> TakeFinished() = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_DEVICE_MAPPING_RUNNER_H_
