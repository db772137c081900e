// Runs the program of one channel on a device that executes MemOps. Starts each step when its
// conditions hold, and meets the lanes at their counters (lane_ports.h).
//
//                        rounds open in order
//                ┌─────────────────┼─────────────────┐
//                ▼                 ▼                 ▼
//              sends           receives          combines      each counts its open conditions
//                │ posted          │ landed          │ ready queue
//                ▼                 ▼                 ▼
//           source_free      in its output       MemOps finished ──► step done ──► successors
//
// A step costs the same whatever the number of hosts and of steps in flight: a finished step
// decrements the conditions of its successors, and no list of waiting steps is scanned.
//
// Slice n uses staging slot n mod s of s (LaneShape::staging_slots). The slot is free when slice
// n − s has been acknowledged. A receive slot is released when the last combine that reads it is
// done.
//
// OWNER: an InterpretedPlan. THREAD: the owning engine. Never blocks; allocates only when it is
// made.
#ifndef MCCS_SERVICE_DEVICE_PROGRAM_INTERPRETER_H_
#define MCCS_SERVICE_DEVICE_PROGRAM_INTERPRETER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "algorithms/issue_order.h"
#include "algorithms/program_lanes.h"
#include "service/device/device.h"
#include "service/device/device_plan.h"
#include "service/device/program_facts.h"
#include "service/device/slice_memory.h"
#include "service/device/step_queue.h"

namespace mccs {

class ProgramInterpreter {
 public:
  // LIFETIME: everything outlives the interpreter. `facts`: of the program. `mem_ops` counts its
  // MemOps in the device.
  ProgramInterpreter(Device& device, const PlanToLoad& loaded, size_t program, ProgramFacts facts,
                     MemOpOwner& mem_ops);
  ProgramInterpreter(const ProgramInterpreter&) = delete;
  ProgramInterpreter& operator=(const ProgramInterpreter&) = delete;

  // As in DevicePlan.
  void Start(const OperationBinding& binding);
  // Returns true if anything moved. REQUIRES: no MemOp has failed.
  bool Poll();
  bool done() const { return oldest_round_ == rounds_; }

  // The memory of an interpreter of `program`, apart from its facts.
  static uint64_t MemoryBytes(const Program& program, const ProgramFacts& facts, uint32_t skew);

 private:
  enum class State : uint8_t {
    kBlocked,  // some conditions are open
    kReady,    // queued, or a send or receive that its lane may take
    kDone,
  };

  // One step of one round.
  struct Cell {
    PendingMemOps mem_ops;
    uint64_t slice = 0;  // sends and receives: number in the lane
    uint32_t conditions = 0;
    uint32_t readers = 0;    // receives into a slot: combines that have not read it yet
    uint16_t submitted = 0;  // combines of this step in the round whose MemOps are submitted
    State state = State::kBlocked;
    bool landed = false;  // receives
  };

  struct Sends {
    SendPort port;
    const ProgramLanes::Lane* lane = nullptr;
    ProgramFacts::Sources sources;
    uint64_t first = 0;  // number of the run's first slice
    // Cursors over the run's slices, and the numbers at which they are. `freeing` only for sends
    // from buffers, `staging` only for those from staging slots.
    IssueOrder posting, freeing, staging;
    uint64_t posted = 0, freed = 0, staged = 0;
  };
  struct Receives {
    ReceivePort port;
    const ProgramLanes::Lane* lane = nullptr;
    uint64_t first = 0;
    IssueOrder opening, landing;
    uint64_t writable = 0, landed = 0;
    uint64_t released = 0;
    std::vector<bool> released_early;  // by number modulo slots: slices after `released`
  };

  Cell& At(StepRef ref) { return cells_[ref.row * program_.steps.size() + ref.step]; }
  Cell& At(uint32_t row, uint16_t step) { return At(StepRef{row, step}); }
  const Step& StepOf(StepRef ref) const { return program_.steps[ref.step]; }
  const StepFacts& FactsFor(StepRef ref) const { return facts_.steps[ref.step]; }
  uint64_t RoundOf(uint32_t row) const { return row_rounds_[row]; }
  bool IsOpen(uint64_t round) const { return round >= oldest_round_ && round < open_rounds_; }
  StepRef RefOf(const StepInstance& instance) const {
    return {static_cast<uint32_t>(instance.round & (rows_ - 1)), instance.step};
  }

  // ---- Conditions ----
  bool OpenRounds();
  void PrepareRow(uint32_t row, uint64_t round);
  void NumberSlice(uint32_t row, uint16_t step, const RoundGroup& group);
  void Meet(uint32_t row, uint16_t step);  // one condition of the step
  void MakeReady(StepRef ref);
  void Done(StepRef ref);
  bool RetireRounds();

  // ---- Lanes ----
  bool TakeFreed(Sends& sends);
  bool TakeAcknowledged(Sends& sends);
  bool TakeLanded(Receives& receives);
  void OnLanded(StepRef ref);
  bool Post(Sends& sends);
  bool OpenOutputs(Receives& receives);
  void Release(StepRef ref);

  // ---- MemOps ----
  bool CollectFinished();
  bool SubmitReady();
  // Submits the remaining MemOps of the step. False: the device is full.
  bool Submit(StepRef ref);
  bool SubmitCombines(StepRef ref);
  bool SubmitCombine(StepRef ref, const Combine& combine, const Extent& slice, uint64_t blocks,
                     MemSource* sources, std::byte** destinations);
  bool SubmitCopy(StepRef ref);
  void FinishStep(StepRef ref);
  bool MayStream(std::span<const MemSource> sources,
                 std::span<std::byte* const> destinations) const;
  std::byte* Address(StepRef ref, const Place& place, const Extent& slice);

  Device& device_;
  const Plan& plan_;
  const Program& program_;
  const LaneShape shape_;
  const uint32_t skew_;
  const uint32_t rows_;  // maximum rounds in flight; a power of two
  MemOpOwner& mem_ops_;
  const ProgramFacts facts_;

  const OperationBinding* binding_ = nullptr;
  SliceMemory memory_;
  bool large_ = false;
  uint64_t rounds_ = 0;
  uint64_t oldest_round_ = 0;  // all earlier ones are done
  uint64_t open_rounds_ = 0;   // all earlier ones are open or done

  std::vector<Cell> cells_;            // rows × steps
  std::vector<uint64_t> row_rounds_;   // by row
  std::vector<uint32_t> row_pending_;  // steps not done yet
  std::vector<MemSource> sources_;     // rows × sources of all steps
  std::vector<std::byte*> destinations_;

  std::vector<Sends> sends_;
  std::vector<Receives> receives_;
  StepQueue ready_;                 // steps whose MemOps can be submitted
  std::vector<StepRef> submitted_;  // steps whose MemOps are in the device
};

}  // namespace mccs

#endif  // MCCS_SERVICE_DEVICE_PROGRAM_INTERPRETER_H_
