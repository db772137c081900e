// Runs the program of one channel, for one operation at a time. Starts each step when its inputs
// are ready: MemOps go to the Device, slices to the channel's lanes.
//
//                       steps admitted in IssueOrder
//                ┌─────────────────┼─────────────────┐
//                ▼                 ▼                 ▼
//              sends           receives          combines
//         queue per lane    queue per lane     in any order
//                │ Post            │ Landed          │ Submit
//                ▼                 ▼                 ▼
//          acknowledged        in place          finished  ───► step done ───► dependent steps
//
// Slice n uses staging slot n mod `slots`. The slot is free when slice n − `slots` has been
// acknowledged. A receive slot is released when the last combine that reads it is done.
//
// OWNER: the Executor. THREAD: the owning engine. Never blocks; allocates only for a program that
// is larger than all before.
#ifndef MCCS_SERVICE_EXECUTOR_CHANNEL_RUNNER_H_
#define MCCS_SERVICE_EXECUTOR_CHANNEL_RUNNER_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "algorithms/issue_order.h"
#include "service/device/device.h"
#include "service/executor/channel_lanes.h"
#include "service/executor/operation_binding.h"

namespace mccs {

class ChannelRunner {
 public:
  // LIFETIME: `device` and `lanes` outlive the runner. `shape`: of all lanes.
  ChannelRunner(Device& device, LaneDirectory& lanes, const LaneShape& shape, ChannelId channel)
      : device_(device), shape_(shape), lanes_(lanes, channel) {}
  ChannelRunner(const ChannelRunner&) = delete;
  ChannelRunner& operator=(const ChannelRunner&) = delete;

  // Creates missing lanes; on an error (as for LaneDirectory) no run starts.
  // REQUIRES: done(). `binding` outlives the run, `program` the runner.
  absl::Status Start(const OperationBinding& binding, const Program& program);

  // Advances the run. Returns true if anything moved. Errors are permanent: kInvalidArgument if the
  // peer's slice belongs to another call (its tag is in mismatched_tag()), kDataLoss if its length
  // differs from the plan's.
  absl::StatusOr<bool> Poll();

  bool done() const { return oldest_round_ == rounds_; }
  // No MemOp of this runner is in the device: its memory may be freed.
  bool quiescent() const { return mem_ops_in_flight_ == 0; }
  const std::optional<SliceTag>& mismatched_tag() const { return mismatched_tag_; }

 private:
  enum class State : uint8_t { kNotAdmitted, kWaiting, kExpected, kRunning, kDone };

  // One step of one round.
  struct Cell {
    PendingMemOps mem_ops;
    State state = State::kNotAdmitted;
    uint16_t submitted = 0;            // MemOps of this step submitted so far
    uint32_t readers = 0;              // receives into a slot: combines that have not read it yet
    std::optional<SliceNumber> slice;  // sends and receives: position in the lane
  };

  Cell& At(StepRef ref) { return cells_[ref.row * program_->steps.size() + ref.step]; }
  Cell& At(uint32_t row, uint16_t step) { return At(StepRef{row, step}); }
  const Step& StepOf(StepRef ref) const { return program_->steps[ref.step]; }
  const StepFacts& FactsOf(StepRef ref) const { return facts_.steps[ref.step]; }

  absl::Status PrepareProgram(const Program& program);
  bool Admit();
  void PrepareRow(uint32_t row, uint64_t round);
  bool PollReceives(ReceiveQueue& queue);
  bool PollReceive(StepRef ref);
  bool PollCombines();
  bool PollCombine(StepRef ref);
  bool PollSends(SendQueue& queue);
  bool PollAcknowledgements(SendQueue& queue);
  bool RetireRounds();

  bool DependenciesDone(StepRef ref);
  bool StagingFree(StepRef ref);
  // Submits the step's MemOps to the device. False while some are not submitted or not finished.
  bool RunCombines(StepRef ref, std::span<const Combine> combines);
  bool SubmitCombine(StepRef ref, const Combine& combine, MemSource* sources,
                     std::byte** destinations);
  bool MayStream(std::span<const MemSource> sources,
                 std::span<std::byte* const> destinations) const;
  bool CopyFromSlot(StepRef ref);
  void FinishCombine(StepRef ref);

  uint64_t RoundOf(uint32_t row) const { return row_rounds_[row]; }
  uint64_t Elements(StepRef ref, const Place& place) const;
  std::byte* Address(StepRef ref, const Place& place);
  absl::Status CheckLength(StepRef ref) const;
  void Done(StepRef ref);
  uint64_t PieceOffset(StepRef ref, uint16_t step, uint16_t piece) const;

  Device& device_;
  const LaneShape shape_;
  ChannelLanes lanes_;
  const OperationBinding* binding_ = nullptr;
  const Program* program_ = nullptr;

  std::optional<IssueOrder> order_;
  std::optional<StepInstance> next_;  // peeked, not admitted yet
  uint32_t skew_ = 0;
  bool large_ = false;
  uint64_t rounds_ = 0;
  uint64_t oldest_round_ = 0;  // all earlier ones are done
  uint32_t rows_ = 0;          // maximum rounds in flight; a power of two

  ProgramFacts facts_;
  std::vector<Cell> cells_;            // rows × steps
  std::vector<uint64_t> row_rounds_;   // by row
  std::vector<uint32_t> row_pending_;  // steps not done yet
  std::vector<MemSource> sources_;     // rows × sources of all steps
  std::vector<std::byte*> destinations_;
  std::vector<ConstMemRef> send_pieces_;  // scratch memory of one Post or Expect
  std::vector<MemRef> receive_pieces_;

  std::vector<StepRef> combines_;  // admitted, not done
  uint32_t mem_ops_in_flight_ = 0;
  std::optional<SliceTag> mismatched_tag_;
  absl::Status wrong_length_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_EXECUTOR_CHANNEL_RUNNER_H_
