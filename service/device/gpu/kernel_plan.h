// A plan whose programs run in kernels of the tenant's processes
// (docs/decisions/0066-kernels-of-tenants.md).
//
//   Start ─► all addresses known ─► commands published ─► kernels run ─► finished ─► done
//                                         │    ▲
//                    counters of lanes ◄──┴────┘ copied at each Poll, and checked
//
// The counters that the feeds use stay in the daemon. Poll copies those of the kernel here, bounded
// by what the operation allows, and those of the lanes to the kernel. It reads nothing else there,
// but writes copies of what it keeps. So a tenant that writes anything there harms only its own
// operations.
//
// OWNER and THREAD: as for DevicePlan.
#ifndef MCCS_SERVICE_DEVICE_GPU_KERNEL_PLAN_H_
#define MCCS_SERVICE_DEVICE_GPU_KERNEL_PLAN_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/commands.h"
#include "service/device/device_plan.h"
#include "service/device/gpu/kernel_call.h"
#include "service/device/gpu/kernel_queue.h"
#include "service/device/program_facts.h"

namespace mccs {

class KernelPlan final : public DevicePlan {
 public:
  // Memory of the daemon that processes can map.
  using Allocate = std::function<absl::StatusOr<std::unique_ptr<Region>>(uint64_t bytes)>;

  // As Device::Load. LIFETIME: `allocate`, until this returns.
  static absl::StatusOr<std::unique_ptr<DevicePlan>> Make(PlanToLoad plan,
                                                          const Allocate& allocate);

  // REQUIRES: `binding.kernels` has a kernel for each rank that runs a program.
  void Start(const OperationBinding& binding) override;
  // Errors: those of GpuAddressSpace; kInternal: a kernel ended early.
  absl::StatusOr<bool> Poll() override;
  bool done() const override { return state_ == State::kIdle; }
  bool quiescent() const override;
  void Stop() override;
  uint64_t memory_bytes() const override;

 private:
  enum class State : uint8_t {
    kIdle,
    kMapping,  // some processes have not mapped all memory yet
    kRunning,  // some kernels run
    kFailed,
  };
  struct Send {
    SendPort port;
    kernels::SendWords* words = nullptr;
    uint64_t steps = 0;
    bool buffers = false;  // some slices are read from the tenant's buffers
    uint64_t end = 0;      // of the operation's slices
    uint64_t freed = 0;    // as the kernel knows
    uint64_t acknowledged = 0;
  };
  struct Receive {
    ReceivePort port;
    kernels::ReceiveWords* words = nullptr;
    uint8_t* in_slot = nullptr;
    uint64_t steps = 0;
    uint64_t end = 0;
    uint64_t landed = 0;
  };
  struct Program {
    LocalIndex runner;
    ChannelId channel;
    std::vector<Send> sends;
    std::vector<Receive> receives;
    // The daemon's copies of what the kernel reads.
    std::vector<kernels::SendRun> send_runs;        // by lane
    std::vector<kernels::ReceiveRun> receive_runs;  // by lane
    std::vector<std::byte> image_copy;              // empty: too large for a short command
    // Offsets in memory_.
    uint64_t image = 0, send_words = 0, receive_words = 0, in_slot = 0, state = 0;
    // Offsets from `image`, and the bytes of all three.
    uint64_t sends_at = 0, receives_at = 0, bytes = 0;
  };
  // A rank that runs programs.
  struct Runner {
    LocalIndex rank;
    std::vector<size_t> programs;
    std::vector<size_t> active;                   // those with rounds in this operation
    uint64_t runs = 0;                            // offset of its ProgramRun[]
    uint64_t binding = 0;                         // offset of its Binding
    KernelCall kernel = {};                       // of the operation
    std::vector<kernels::ProgramRun> run_copies;  // of `active`
    std::vector<std::byte> binding_copy;
    uint64_t command = 0;
    bool published = false;  // and not known to be finished
  };

  KernelPlan(PlanToLoad plan, std::vector<ProgramFacts> facts);
  // Lays out the memory, and returns its size.
  uint64_t LayOut();
  void WritePrograms();
  template <typename T>
  T* At(uint64_t offset) const {
    return reinterpret_cast<T*>(memory_->address() + offset);
  }

  // Writes what this rank's kernel needs; false: some memory is not mapped yet.
  absl::StatusOr<bool> Bind(Runner& runner);
  absl::StatusOr<bool> BindLanes(GpuAddressSpace& process, Program& program);
  absl::StatusOr<bool> BindBuffers(GpuAddressSpace& process, std::vector<std::byte>& binding);
  absl::StatusOr<bool> TryPublish();
  // The command of this rank as a ShortCommand; empty: it is none. LIFETIME: until the next call.
  std::span<const std::byte> ShortForm(const Runner& runner);
  void BeginLanes();
  bool CopyCounters(Program& program, KernelQueue& queue);
  bool CopyCounters(Send& send, bool* ring);
  bool CopyCounters(Receive& receive, bool* ring);
  bool KernelsFinished() const;
  bool ProcessesAlive() const;
  // After all kernels have finished: OK, or one ended early.
  absl::Status CheckEnd() const;
  // No lane reads the tenant's buffers.
  bool BuffersFree() const;

  const PlanToLoad loaded_;
  const std::vector<ProgramFacts> facts_;
  std::vector<std::vector<std::byte>> images_;  // by program, until they are written
  std::vector<Program> programs_;
  std::vector<Runner> runners_;
  std::unique_ptr<Region> memory_;
  State state_ = State::kIdle;
  absl::Status status_;
  const OperationBinding* binding_ = nullptr;
  alignas(8) std::array<std::byte, kernels::kMostShortBytes> short_form_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_DEVICE_GPU_KERNEL_PLAN_H_
