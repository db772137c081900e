// Calls of verbs that may block, apart from the engine.
//
//   Run ──► work (a thread) ──► done (the engine, in Poll)
//
// Jobs of one tenant and kind run in their order; tenants take turns.
//
// OWNER: the RdmaTransport. THREAD: the owning engine, except for `work`. Never blocks.
#ifndef MCCS_SERVICE_TRANSPORT_RDMA_VERBS_JOBS_H_
#define MCCS_SERVICE_TRANSPORT_RDMA_VERBS_JOBS_H_

#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "service/device/mapping_runner.h"

namespace mccs {

class VerbsJobs {
 public:
  enum class Kind : uint8_t {
    kConnect,   // queue pairs, windows, the daemon's own memory: milliseconds
    kRegister,  // tenants' memory: up to seconds
    kEnd,       // the end of an object
  };
  using Call = absl::AnyInvocable<void()>;

  // `runner` null: `work` runs within Run. Without Poll nothing is `done`.
  explicit VerbsJobs(std::unique_ptr<MappingRunner> runner = nullptr)
      : runner_(std::move(runner)) {}
  // Jobs that have not begun are dropped, and what is not done yet.
  ~VerbsJobs();
  VerbsJobs(const VerbsJobs&) = delete;

  void Run(Kind kind, const std::string& tenant, Call work, Call done = nullptr);
  // Destroys the object, then `tokens`.
  template <typename T>
  void Destroy(const std::string& tenant, std::unique_ptr<T> object,
               std::vector<std::shared_ptr<void>> tokens = {}) {
    if (object == nullptr) return;
    Run(
        Kind::kEnd, tenant, [ended = std::move(object)]() mutable { ended.reset(); },
        [kept = std::move(tokens)]() mutable { kept.clear(); });
  }

  // Returns true if anything was done.
  bool Poll();

 private:
  class Job;

  std::unique_ptr<MappingRunner> runner_;
  std::deque<Call> done_;  // without a runner
};

}  // namespace mccs

#endif  // MCCS_SERVICE_TRANSPORT_RDMA_VERBS_JOBS_H_
