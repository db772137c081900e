#include "shim/submit/staging.h"

#include <algorithm>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "shim/cuda/driver_api.h"
#include "shim/submit/communicator.h"

namespace mccs::shim {
namespace {

// The alignment of pieces: sufficient for every element, and for a GPU's widest access.
constexpr uint64_t kPieceAlignment = 256;

// The next piece of a group.
uint64_t AllocatePiece(uint64_t* used, uint64_t bytes) {
  const uint64_t at = *used;
  *used += (bytes + kPieceAlignment - 1) / kPieceAlignment * kPieceAlignment;
  return at;
}

void Layout(StagedSides& sides, uint64_t* used) {
  if (sides.send.bytes > 0) sides.send.at = AllocatePiece(used, sides.send.bytes);
  if (sides.recv.bytes > 0) {
    sides.recv.at = sides.in_place ? sides.send.at : AllocatePiece(used, sides.recv.bytes);
  }
  if (sides.scalar.bytes > 0) sides.scalar.at = AllocatePiece(used, sides.scalar.bytes);
}

// Of a graph's branch, not of the captured stream: the graph may run on any stream, concurrently
// with that stream. Stream and capture numbers are small, so keys do not collide.
uint64_t KeyOf(const StagedGroup::Call& call) {
  const uint64_t stream = StreamKey(call.comm->driver(), call.stream);
  return call.capture == 0 ? stream : stream ^ (~uint64_t{call.capture} << 32);
}

std::shared_ptr<CaptureLease> GraphOf(const StagedGroup::Call& call) {
  return call.capture == 0 ? nullptr : call.comm->submission_state().captures.Find(call.capture);
}

}  // namespace

// ---- Blocks of a communicator ----------------------------------------------------------------

absl::StatusOr<StagingBlock*> StagingMemory::Reserve(const Need& need,
                                                     std::span<StagingBlock* const> taken) {
  for (const auto& block : blocks_) {
    if (block->key == need.key && block->bytes >= need.bytes) return block.get();
  }
  for (const auto& block : blocks_) {
    const bool is_taken = std::ranges::find(taken, block.get()) != taken.end();
    if (is_taken || block->bytes < need.bytes || !IsFree(*block)) continue;
    block->key = need.key;
    block->graph = need.graph;
    return block.get();
  }
  MCCS_ASSIGN_OR_RETURN(std::unique_ptr<StagingBlock> fresh, pool_.Take(device_, need.bytes));
  fresh->key = need.key;
  fresh->graph = need.graph;
  blocks_.push_back(std::move(fresh));
  return blocks_.back().get();
}

bool StagingMemory::IsFree(const StagingBlock& block) const {
  return block.graph.expired() && pool_.IsIdle(block);
}

absl::Status StagingMemory::OrderAfterCopies(CUstream stream, uint64_t key) {
  for (const auto& block : blocks_) {
    if (block->key == key) continue;
    MCCS_RETURN_IF_ERROR(pool_.OrderAfter(*block, stream));
  }
  return absl::OkStatus();
}

void StagingMemory::ReturnIdleBlocks() {
  std::erase_if(blocks_, [&](std::unique_ptr<StagingBlock>& block) {
    if (!IsFree(*block)) return false;
    pool_.Return(std::move(block));
    return true;
  });
}

void StagingMemory::ReturnAllBlocks() {
  for (std::unique_ptr<StagingBlock>& block : blocks_) {
    if (const std::shared_ptr<CaptureLease> graph = block->graph.lock()) {
      graph->AdoptBlock(std::move(block));
    } else {
      pool_.Return(std::move(block));
    }
  }
  blocks_.clear();
}

uint64_t StagingMemory::bytes() const {
  uint64_t sum = 0;
  for (const auto& block : blocks_) sum += block->bytes;
  return sum;
}

// ---- The calls of a group --------------------------------------------------------------------

void StagedGroup::Clear() {
  calls_.clear();
  uses_.clear();
}

uint32_t StagedGroup::UseOf(const Call& call) {
  // By the key, which identifies the block: one stream may have two handles (0 and
  // cudaStreamLegacy).
  const uint64_t key = KeyOf(call);
  for (uint32_t i = 0; i < uses_.size(); ++i) {
    if (uses_[i].comm == call.comm && uses_[i].need.key == key) return i;
  }
  uses_.push_back({.comm = call.comm,
                   .stream = call.stream,
                   .need = {.key = key, .bytes = 0, .graph = GraphOf(call)},
                   .block = nullptr,
                   .ref = {}});
  return static_cast<uint32_t>(uses_.size() - 1);
}

absl::Status StagedGroup::Place() {
  uses_.clear();
  for (Call& call : calls_) {
    call.use = UseOf(call);
    Layout(call.sides, &uses_[call.use].need.bytes);
    uses_[call.use].copies_in |= (call.sides.send.bytes | call.sides.scalar.bytes) != 0;
  }
  absl::InlinedVector<StagingBlock*, 4> taken;
  for (Use& use : uses_) {
    SubmissionState& side = use.comm->submission_state();
    const ScopedContext context(use.comm->driver(), use.comm->context());
    MCCS_ASSIGN_OR_RETURN(use.block, side.staging.Reserve(use.need, taken));
    taken.push_back(use.block);
    if (use.block->host.has_value()) {
      use.ref.id = use.block->host->buffer;
      continue;
    }
    MCCS_ASSIGN_OR_RETURN(
        const BufferPlace place,
        side.buffers.Resolve({.function = "staging",
                              .argument = "its memory",
                              .address = reinterpret_cast<const void*>(use.block->address),
                              .bytes = use.need.bytes}));
    if (place.staged) {
      return absl::UnknownError(
          "cannot stage the buffer: this CUDA device cannot share memory with the MCCS daemon "
          "(cuIpcGetMemHandle failed for memory of cuMemAlloc); enable CUDA IPC, or use "
          "ncclMemAlloc");
    }
    use.ref = place.ref;
  }
  return absl::OkStatus();
}

void StagedGroup::WritePlaces(const Call& call, wire::WorkRecord& record) const {
  const auto place = [&](const StagedSides::Side& side, wire::BufferRef& ref) {
    if (side.bytes == 0) return;
    ref = uses_[call.use].ref;
    ref.offset += side.at;
  };
  place(call.sides.send, record.send);
  place(call.sides.recv, record.recv);
  place(call.sides.scalar, record.scalar_buffer);
}

absl::Status StagedGroup::Copy(const Call& call, CUdeviceptr to, CUdeviceptr from,
                               uint64_t bytes) const {
  const DriverApi& driver = call.comm->driver();
  const CUresult error = driver.MemcpyAsync(to, from, bytes, call.stream);
  if (error == CUDA_SUCCESS) return absl::OkStatus();
  return CudaError(driver, error,
                   absl::StrCat("cannot copy ", bytes, " bytes between a buffer and its staging"));
}

bool StagedGroup::CopiesIn(const Communicator& comm) const {
  return std::ranges::any_of(uses_,
                             [&](const Use& use) { return use.comm == &comm && use.copies_in; });
}

absl::Status StagedGroup::CopyIn(const Communicator& comm) const {
  for (const Call& call : calls_) {
    if (call.comm != &comm) continue;
    const CUdeviceptr staging = uses_[call.use].block->address;
    for (const StagedSides::Side& side : {call.sides.send, call.sides.scalar}) {
      if (side.bytes == 0) continue;
      MCCS_RETURN_IF_ERROR(Copy(call, staging + side.at, side.user, side.bytes));
    }
  }
  // Until CopyOut, or for good if the group fails before.
  for (const Use& use : uses_) {
    if (use.comm == &comm && use.copies_in) MCCS_RETURN_IF_ERROR(RecordIdle(use));
  }
  return absl::OkStatus();
}

absl::Status StagedGroup::CopyOut(const Communicator& comm) const {
  for (const Call& call : calls_) {
    const StagedSides::Side& side = call.sides.recv;
    if (call.comm != &comm || side.bytes == 0 || call.sides.recv_prefilled) continue;
    const CUdeviceptr staging = uses_[call.use].block->address;
    MCCS_RETURN_IF_ERROR(Copy(call, side.user, staging + side.at, side.bytes));
    uses_[call.use].block->copies_out = true;
  }
  for (const Use& use : uses_) {
    if (use.comm == &comm) MCCS_RETURN_IF_ERROR(RecordIdle(use));
  }
  return absl::OkStatus();
}

// A graph's block is idle when the graph has gone.
absl::Status StagedGroup::RecordIdle(const Use& use) {
  if (use.need.graph != nullptr) return absl::OkStatus();
  const DriverApi& driver = use.comm->driver();
  return CheckCuda(driver, driver.EventRecord(use.block->idle, use.stream), "cuEventRecord");
}

}  // namespace mccs::shim
