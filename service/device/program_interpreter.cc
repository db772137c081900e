#include "service/device/program_interpreter.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace mccs {
namespace {

// IssueOrder takes rounds in groups of skew + 1; two groups in flight keep the lanes busy.
constexpr uint32_t kGroupsInFlight = 2;
// Outputs of this size, over all local ranks, exceed a core's caches.
constexpr uint64_t kLargeBytes = 8 << 20;

// Combines are merged as long as they have no more bytes: then their fixed cost matters.
constexpr uint64_t kMaxMergedBytes = 16 << 10;

uint32_t RowsFor(uint32_t skew) { return std::bit_ceil(kGroupsInFlight * (skew + 1)); }

}  // namespace

uint64_t ProgramInterpreter::MemoryBytes(const Program& program, const ProgramFacts& facts,
                                         uint32_t skew) {
  const uint64_t row = program.steps.size() * (sizeof(Cell) + 2 * sizeof(StepRef)) +
                       facts.sources * sizeof(MemSource) + facts.destinations * sizeof(std::byte*);
  return RowsFor(skew) * row;
}

ProgramInterpreter::ProgramInterpreter(Device& device, const PlanToLoad& loaded, size_t program,
                                       ProgramFacts facts, MemOpOwner& mem_ops)
    : device_(device),
      plan_(*loaded.plan),
      program_(plan_.programs[program]),
      shape_(loaded.shape),
      skew_(loaded.skew),
      rows_(RowsFor(skew_)),
      mem_ops_(mem_ops),
      facts_(std::move(facts)),
      cells_(rows_ * program_.steps.size()),
      row_rounds_(rows_),
      row_pending_(rows_),
      sources_(size_t{rows_} * facts_.sources),
      destinations_(size_t{rows_} * facts_.destinations),
      ready_(cells_.size()) {
  submitted_.reserve(cells_.size());
  const ProgramPorts& ports = loaded.ports[program];
  MCCS_CHECK(ports.sends.size() == facts_.lanes.sends.size());
  MCCS_CHECK(ports.receives.size() == facts_.lanes.receives.size());
  for (size_t i = 0; i < ports.sends.size(); ++i) {
    Sends& sends = sends_.emplace_back();
    sends.port = ports.sends[i];
    sends.lane = &facts_.lanes.sends[i];
    sends.sources = facts_.send_sources[i];
    MCCS_CHECK(!sends.sources.staging || sends.port.staging.bytes > 0);
  }
  for (size_t i = 0; i < ports.receives.size(); ++i) {
    Receives& receives = receives_.emplace_back();
    receives.port = ports.receives[i];
    receives.lane = &facts_.lanes.receives[i];
    receives.released_early.resize(shape_.slots);
  }
}

void ProgramInterpreter::Start(const OperationBinding& binding) {
  MCCS_CHECK(done());
  binding_ = &binding;
  memory_ = SliceMemory(plan_, program_, binding);
  large_ = binding.bytes * binding.ranks.size() >= kLargeBytes;
  oldest_round_ = open_rounds_ = 0;
  rounds_ = program_.steps.empty() ? 0 : binding.geometry->rounds(program_.channel);
  if (rounds_ == 0) return;
  for (Sends& sends : sends_) {
    sends.posting = IssueOrder(program_, sends.lane->steps, rounds_, skew_);
    if (sends.sources.buffers) sends.freeing = sends.posting;
    if (sends.sources.staging) sends.staging = sends.posting;
    sends.first = sends.posted = sends.freed = sends.staged = sends.port.counters->posted.Load();
  }
  for (Receives& receives : receives_) {
    receives.opening = receives.landing =
        IssueOrder(program_, receives.lane->steps, rounds_, skew_);
    receives.first = receives.writable = receives.landed = receives.released =
        receives.port.counters->released.Load();
  }
}

bool ProgramInterpreter::Poll() {
  if (done()) return false;
  bool moved = false;
  for (Sends& sends : sends_) {
    if (sends.sources.buffers) moved |= TakeFreed(sends);
    if (sends.sources.staging) moved |= TakeAcknowledged(sends);
  }
  for (Receives& receives : receives_) moved |= TakeLanded(receives);
  moved |= CollectFinished();
  moved |= OpenRounds();
  moved |= SubmitReady();
  for (Sends& sends : sends_) moved |= Post(sends);
  for (Receives& receives : receives_) moved |= OpenOutputs(receives);
  moved |= RetireRounds();
  return moved;
}

// ---- Conditions ---------------------------------------------------------------------------------

bool ProgramInterpreter::OpenRounds() {
  bool moved = false;
  while (open_rounds_ < rounds_ && open_rounds_ < oldest_round_ + rows_) {
    const uint64_t round = open_rounds_++;
    PrepareRow(static_cast<uint32_t>(round & (rows_ - 1)), round);
    moved = true;
  }
  return moved;
}

void ProgramInterpreter::PrepareRow(uint32_t row, uint64_t round) {
  const auto steps = static_cast<uint16_t>(program_.steps.size());
  const RoundGroup group = GroupOf(round, rounds_, skew_);
  row_rounds_[row] = round;
  row_pending_[row] = steps;
  for (uint16_t s = 0; s < steps; ++s) {
    Cell& cell = At(row, s);
    cell = Cell{};
    cell.mem_ops.owner = &mem_ops_;
    cell.conditions = facts_.steps[s].conditions;
    cell.readers = facts_.steps[s].readers;
  }
  for (uint16_t s = 0; s < steps; ++s) {
    if (program_.steps[s].kind != StepKind::kCombine) NumberSlice(row, s, group);
  }
  for (uint16_t s = 0; s < steps; ++s) {
    Cell& cell = At(row, s);
    if (cell.landed && facts_.steps[s].in_slot) {
      OnLanded({row, s});
    } else if (cell.conditions == 0 && cell.state == State::kBlocked) {
      MakeReady({row, s});
    }
  }
}

// Its lane may have moved beyond the slice before its round opened.
void ProgramInterpreter::NumberSlice(uint32_t row, uint16_t step, const RoundGroup& group) {
  Cell& cell = At(row, step);
  const ProgramLanes::Position& position = facts_.lanes.positions[step];
  if (program_.steps[step].kind == StepKind::kSend) {
    const Sends& sends = sends_[position.lane];
    cell.slice = sends.first + SliceIndex(position, sends.lane->steps.size(), group, RoundOf(row));
    if (cell.slice >= sends.staged) return;
    for (uint16_t composer : facts_.steps[step].composers) --At(row, composer).conditions;
  } else {
    const Receives& receives = receives_[position.lane];
    cell.slice =
        receives.first + SliceIndex(position, receives.lane->steps.size(), group, RoundOf(row));
    cell.landed = cell.slice < receives.landed;
  }
}

void ProgramInterpreter::Meet(uint32_t row, uint16_t step) {
  Cell& cell = At(row, step);
  if (--cell.conditions == 0 && cell.state == State::kBlocked) MakeReady({row, step});
}

void ProgramInterpreter::MakeReady(StepRef ref) {
  Cell& cell = At(ref);
  cell.state = State::kReady;
  const StepKind kind = StepOf(ref).kind;
  // A receive whose slice came before its output was free has a copy to do.
  if (kind == StepKind::kCombine || (kind == StepKind::kReceive && cell.landed)) ready_.push(ref);
}

void ProgramInterpreter::Done(StepRef ref) {
  At(ref).state = State::kDone;
  --row_pending_[ref.row];
  for (uint16_t successor : FactsFor(ref).successors) Meet(ref.row, successor);
}

bool ProgramInterpreter::RetireRounds() {
  bool moved = false;
  while (oldest_round_ < open_rounds_ && row_pending_[oldest_round_ & (rows_ - 1)] == 0) {
    ++oldest_round_;
    moved = true;
  }
  return moved;
}

// ---- Lanes --------------------------------------------------------------------------------------

bool ProgramInterpreter::TakeFreed(Sends& sends) {
  const uint64_t free = sends.port.counters->source_free.Load();
  bool moved = false;
  for (; sends.freed < free && sends.freed < sends.posted; ++sends.freed) {
    const StepRef ref = RefOf(sends.freeing.current());
    sends.freeing.Advance();
    if (FactsFor(ref).staged) continue;  // done since it was posted
    Done(ref);
    moved = true;
  }
  return moved;
}

bool ProgramInterpreter::TakeAcknowledged(Sends& sends) {
  const uint64_t free = sends.port.counters->acknowledged.Load() + shape_.staging_slots();
  bool moved = false;
  for (; sends.staged < free && !sends.staging.done(); ++sends.staged) {
    const StepInstance instance = sends.staging.current();
    sends.staging.Advance();
    if (!IsOpen(instance.round)) continue;  // NumberSlice will see it
    const StepRef ref = RefOf(instance);
    for (uint16_t composer : FactsFor(ref).composers) Meet(ref.row, composer);
    moved = true;
  }
  return moved;
}

bool ProgramInterpreter::TakeLanded(Receives& receives) {
  const uint64_t landed = receives.port.counters->landed.Load();
  bool moved = false;
  while (receives.landed < landed) {
    const StepInstance instance = receives.landing.current();
    receives.landing.Advance();
    ++receives.landed;
    moved = true;
    if (IsOpen(instance.round)) OnLanded(RefOf(instance));  // else NumberSlice will see it
  }
  return moved;
}

void ProgramInterpreter::OnLanded(StepRef ref) {
  Cell& cell = At(ref);
  const StepFacts& facts = FactsFor(ref);
  const Receives& receives = receives_[facts_.lanes.positions[ref.step].lane];
  cell.landed = true;
  if (facts.in_slot) {
    Done(ref);
    if (cell.readers == 0) Release(ref);
  } else if (receives.port.counters->in_slot[cell.slice % shape_.slots] == 0) {
    Done(ref);
    Release(ref);
  } else if (cell.state == State::kReady) {
    ready_.push(ref);
  }
}

bool ProgramInterpreter::Post(Sends& sends) {
  const uint64_t before = sends.posted;
  for (; !sends.posting.done(); sends.posting.Advance()) {
    const StepInstance instance = sends.posting.current();
    if (!IsOpen(instance.round)) break;
    const StepRef ref = RefOf(instance);
    if (At(ref).state != State::kReady) break;
    ++sends.posted;
    if (FactsFor(ref).staged) Done(ref);  // its number protects the staging slot
  }
  if (sends.posted == before) return false;
  sends.port.counters->posted.Store(sends.posted);
  return true;
}

bool ProgramInterpreter::OpenOutputs(Receives& receives) {
  const uint64_t before = receives.writable;
  for (; !receives.opening.done(); receives.opening.Advance()) {
    const StepInstance instance = receives.opening.current();
    if (!facts_.steps[instance.step].in_slot) {
      if (instance.round >= open_rounds_) break;
      const bool retired = instance.round < oldest_round_;
      if (!retired && At(RefOf(instance)).state == State::kBlocked) break;
    }
    ++receives.writable;
  }
  if (receives.writable == before) return false;
  receives.port.counters->writable.Store(receives.writable);
  return true;
}

void ProgramInterpreter::Release(StepRef ref) {
  Receives& receives = receives_[facts_.lanes.positions[ref.step].lane];
  receives.released_early[At(ref).slice % shape_.slots] = true;
  const uint64_t before = receives.released;
  while (receives.released_early[receives.released % shape_.slots]) {
    receives.released_early[receives.released++ % shape_.slots] = false;
  }
  if (receives.released != before) receives.port.counters->released.Store(receives.released);
}

// ---- MemOps -------------------------------------------------------------------------------------

bool ProgramInterpreter::CollectFinished() {
  size_t kept = 0;
  for (size_t i = 0; i < submitted_.size(); ++i) {
    const StepRef ref = submitted_[i];
    if (At(ref).mem_ops.outstanding == 0) {
      FinishStep(ref);
    } else {
      submitted_[kept++] = ref;
    }
  }
  const bool moved = kept < submitted_.size();
  submitted_.resize(kept);
  return moved;
}

bool ProgramInterpreter::SubmitReady() {
  bool moved = false;
  while (!ready_.empty()) {
    const StepRef ref = ready_.front();
    const uint16_t before = At(ref).submitted;
    if (!Submit(ref)) return moved || At(ref).submitted != before;
    ready_.pop();
    moved = true;
    if (At(ref).mem_ops.outstanding == 0) {
      FinishStep(ref);
    } else {
      submitted_.push_back(ref);
    }
  }
  return moved;
}

bool ProgramInterpreter::Submit(StepRef ref) {
  return StepOf(ref).kind == StepKind::kCombine ? SubmitCombines(ref) : SubmitCopy(ref);
}

bool ProgramInterpreter::SubmitCombines(StepRef ref) {
  Cell& cell = At(ref);
  MemSource* sources = &sources_[size_t{ref.row} * facts_.sources + FactsFor(ref).source_base];
  std::byte** destinations =
      &destinations_[size_t{ref.row} * facts_.destinations + FactsFor(ref).destination_base];
  const std::vector<Combine>& combines = StepOf(ref).combines;
  const std::vector<uint16_t>& runs = FactsFor(ref).runs;
  const IndexRange taken = memory_.Entries(RoundOf(ref.row), combines.size());
  const bool equal_blocks = plan_.parts > 1;
  Extent slice;
  uint64_t most_merged = 0;  // after the first
  for (size_t c = taken.begin; c < taken.end;) {
    const Combine& combine = combines[c];
    if (c == taken.begin || !equal_blocks) {
      const int32_t block = combine.destinations.front().block;
      slice = memory_.SliceOf(RoundOf(ref.row), block);
      const bool whole = memory_.IsWhole(slice, block);
      most_merged = whole && slice.count > 0 ? kMaxMergedBytes / memory_.Bytes(slice) : 0;
    }
    size_t merged = 1;
    if (runs[c] > 0) merged += std::min({most_merged, uint64_t{runs[c]}, taken.end - c - 1});
    if (c - taken.begin >= cell.submitted) {
      if (!SubmitCombine(ref, combine, slice, merged, sources, destinations)) return false;
      cell.submitted = static_cast<uint16_t>(c - taken.begin + merged);
    }
    sources += merged * combine.sources.size();
    destinations += merged * combine.destinations.size();
    c += merged;
  }
  return true;
}

// For the block and those after it: `blocks` of them.
bool ProgramInterpreter::SubmitCombine(StepRef ref, const Combine& combine, const Extent& slice,
                                       uint64_t blocks, MemSource* sources,
                                       std::byte** destinations) {
  if (slice.count == 0) return true;
  const bool reduces = Reduces(plan_.key.kind);
  for (size_t i = 0; i < combine.sources.size(); ++i) {
    const Place& place = combine.sources[i];
    sources[i] = {.address = Address(ref, place, slice)};
    if (reduces && place.space == Space::kInput) {
      const RankMemory& rank = binding_->ranks[place.index];
      sources[i].scaled = rank.scaled;
      sources[i].scale_bits = rank.scale_bits;
      sources[i].scale_address = rank.scale_memory.address();
    }
  }
  size_t count = 0;
  const bool copies = combine.sources.size() == 1 && !sources[0].scaled &&
                      !(combine.finish && binding_->finish != Finish::kNone);
  for (const Place& place : combine.destinations) {
    std::byte* address = Address(ref, place, slice);
    if (copies && address == sources[0].address) continue;  // in place: already there
    destinations[count++] = address;
  }
  if (count == 0) return true;
  const MemOp op{.sources = {sources, combine.sources.size()},
                 .destinations = {destinations, count},
                 .elements = slice.count * blocks,
                 .type = binding_->type,
                 .op = binding_->op,
                 .finish = combine.finish ? binding_->finish : Finish::kNone,
                 .divisor = binding_->divisor,
                 .stream = MayStream({sources, combine.sources.size()}, {destinations, count})};
  return At(ref).mem_ops.Submit(device_, op);
}

// The slice landed before its output was free.
bool ProgramInterpreter::SubmitCopy(StepRef ref) {
  Cell& cell = At(ref);
  MemSource& source = sources_[size_t{ref.row} * facts_.sources + FactsFor(ref).source_base];
  std::byte*& destination =
      destinations_[size_t{ref.row} * facts_.destinations + FactsFor(ref).destination_base];
  const ReceivePort& port = receives_[facts_.lanes.positions[ref.step].lane].port;
  const RegionSpan slice = memory_.InBuffer(RoundOf(ref.row), StepOf(ref));
  if (slice.bytes == 0) return true;
  source = {.address = port.slots.address() + (cell.slice % shape_.slots) * shape_.slot_bytes};
  destination = slice.address();
  return cell.mem_ops.Submit(device_, {.sources = {&source, 1},
                                       .destinations = {&destination, 1},
                                       .elements = slice.bytes / SizeOf(binding_->type),
                                       .type = binding_->type});
}

void ProgramInterpreter::FinishStep(StepRef ref) {
  Done(ref);
  if (StepOf(ref).kind == StepKind::kReceive) Release(ref);
  // Release the receive slots whose last reader was this step.
  for (uint16_t receive : FactsFor(ref).reads) {
    if (--At(ref.row, receive).readers == 0) Release({ref.row, receive});
  }
}

// On one host an output is final and not sent. A large operation's output is not read soon, and
// streaming stores avoid reading it first.
bool ProgramInterpreter::MayStream(std::span<const MemSource> sources,
                                   std::span<std::byte* const> destinations) const {
  if (!large_ || plan_.crosses_hosts) return false;
  return std::none_of(sources.begin(), sources.end(), [&](const MemSource& source) {
    return std::find(destinations.begin(), destinations.end(), source.address) !=
           destinations.end();
  });
}

// Slices of all places of a combine have the same length and begin.
std::byte* ProgramInterpreter::Address(StepRef ref, const Place& place, const Extent& slice) {
  if (place.space == Space::kInput || place.space == Space::kOutput) {
    return memory_.InBuffer(place, slice).address();
  }
  const ProgramLanes::Position& position = facts_.lanes.positions[place.index];
  const bool received = place.space == Space::kReceived;
  const RegionSpan& slots =
      received ? receives_[position.lane].port.slots : sends_[position.lane].port.staging;
  const uint64_t slot =
      At(ref.row, place.index).slice % (received ? shape_.slots : shape_.staging_slots());
  return slots.address() + slot * shape_.slot_bytes +
         memory_.PieceOffset(RoundOf(ref.row), program_.steps[place.index], place.piece, slice);
}

}  // namespace mccs
