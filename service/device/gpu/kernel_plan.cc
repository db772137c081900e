#include "service/device/gpu/kernel_plan.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "kernels/program.h"
#include "kernels/words.h"
#include "service/device/gpu/program_image.h"

namespace mccs {
namespace {

using kernels::LoadWord;
using kernels::StoreWord;

// The words of different lanes, and those of both sides, share no cache line.
constexpr uint64_t kLayoutBytes = 128;

constexpr uint32_t BindingBytes(uint64_t ranks) {
  return kernels::CopiedBytes(sizeof(kernels::Binding) + ranks * sizeof(kernels::RankBuffers));
}

// A position in memory that is laid out piece by piece.
class LayoutBuilder {
 public:
  uint64_t Take(uint64_t bytes) {
    const uint64_t at = next_;
    next_ += (bytes + kLayoutBytes - 1) / kLayoutBytes * kLayoutBytes;
    return at;
  }
  uint64_t bytes() const { return next_; }

 private:
  uint64_t next_ = 0;
};

// For the kernels of the process; 0: no memory. Clears `all` if the process has not mapped it yet.
absl::StatusOr<uint64_t> AddressFor(GpuAddressSpace& process, const RegionSpan& span, bool* all) {
  if (span.region == nullptr) return 0;
  MCCS_ASSIGN_OR_RETURN(const uint64_t address, AddressOf(process, span));
  *all &= address != 0;
  return address;
}

}  // namespace

absl::StatusOr<std::unique_ptr<DevicePlan>> KernelPlan::Make(PlanToLoad plan,
                                                             const Allocate& allocate) {
  std::vector<ProgramFacts> facts;
  uint64_t bytes = 0;
  for (const mccs::Program& program : plan.plan->programs) {
    bytes += MostImageBytes(program);
    if (bytes > plan.most_bytes) return PlanTooLarge(plan);
    facts.push_back(FactsOf(*plan.plan, program));
  }
  std::unique_ptr<KernelPlan> result(new KernelPlan(std::move(plan), std::move(facts)));
  bytes = result->LayOut();
  if (bytes > result->loaded_.most_bytes) return PlanTooLarge(result->loaded_);
  MCCS_ASSIGN_OR_RETURN(result->memory_, allocate(bytes));
  result->WritePrograms();
  return result;
}

KernelPlan::KernelPlan(PlanToLoad plan, std::vector<ProgramFacts> facts)
    : loaded_(std::move(plan)), facts_(std::move(facts)) {
  const Plan& source_plan = *loaded_.plan;
  MCCS_CHECK(loaded_.ports.size() == source_plan.programs.size());
  for (size_t p = 0; p < source_plan.programs.size(); ++p) {
    const mccs::Program& source = source_plan.programs[p];
    images_.push_back(
        MakeProgramImage(source_plan, source, facts_[p], loaded_.shape, loaded_.skew));
    Program& program = programs_.emplace_back();
    program.runner = source.home;
    program.channel = source.channel;
    const ProgramPorts& ports = loaded_.ports[p];
    for (size_t i = 0; i < ports.sends.size(); ++i) {
      program.sends.push_back({.port = ports.sends[i],
                               .steps = facts_[p].lanes.sends[i].steps.size(),
                               .buffers = facts_[p].send_sources[i].buffers});
    }
    for (size_t i = 0; i < ports.receives.size(); ++i) {
      program.receives.push_back(
          {.port = ports.receives[i], .steps = facts_[p].lanes.receives[i].steps.size()});
    }
    if (source.steps.empty()) continue;
    auto runner = std::ranges::find(runners_, program.runner, &Runner::rank);
    if (runner == runners_.end()) {
      runner = runners_.emplace(runners_.end());
      runner->rank = program.runner;
    }
    runner->programs.push_back(p);
  }
}

uint64_t KernelPlan::LayOut() {
  LayoutBuilder layout;
  const uint64_t slots = loaded_.shape.slots;
  for (size_t p = 0; p < programs_.size(); ++p) {
    Program& program = programs_[p];
    const size_t sends = program.sends.size(), receives = program.receives.size();
    program.send_runs.resize(sends);
    program.receive_runs.resize(receives);
    program.sends_at = kernels::CopiedBytes(images_[p].size());
    program.receives_at = program.sends_at + sends * sizeof(kernels::SendRun);
    program.bytes = program.receives_at + receives * sizeof(kernels::ReceiveRun);
    program.image = layout.Take(program.bytes);
    program.send_words = layout.Take(sends * sizeof(kernels::SendWords));
    program.receive_words = layout.Take(receives * sizeof(kernels::ReceiveWords));
    program.in_slot = layout.Take(receives * slots);
    kernels::ProgramImage header;
    std::memcpy(&header, images_[p].data(), sizeof(header));
    program.state = layout.Take(header.state_bytes);
  }
  for (Runner& runner : runners_) {
    runner.runs = layout.Take(runner.programs.size() * sizeof(kernels::ProgramRun));
    runner.binding = layout.Take(BindingBytes(kMaxLocalRanks));
  }
  return std::max<uint64_t>(layout.bytes(), 1);
}

void KernelPlan::WritePrograms() {
  for (size_t p = 0; p < programs_.size(); ++p) {
    Program& program = programs_[p];
    std::memcpy(memory_->address() + program.image, images_[p].data(), images_[p].size());
    if (program.bytes <= kernels::kMostShortBytes) {
      program.image_copy = std::move(images_[p]);
      program.image_copy.resize(program.sends_at);
    }
    for (size_t i = 0; i < program.sends.size(); ++i) {
      program.sends[i].words = At<kernels::SendWords>(program.send_words) + i;
    }
    for (size_t i = 0; i < program.receives.size(); ++i) {
      program.receives[i].words = At<kernels::ReceiveWords>(program.receive_words) + i;
      program.receives[i].in_slot = At<uint8_t>(program.in_slot) + i * loaded_.shape.slots;
    }
  }
  images_ = {};
}

uint64_t KernelPlan::memory_bytes() const { return memory_->bytes(); }

// ---- Starting -----------------------------------------------------------------------------------

void KernelPlan::Start(const OperationBinding& binding) {
  MCCS_CHECK(done());
  MCCS_CHECK(binding.ranks.size() <= static_cast<size_t>(kMaxLocalRanks));
  binding_ = &binding;
  for (Runner& runner : runners_) {
    runner.active.clear();
    for (const size_t p : runner.programs) {
      if (binding.geometry->rounds(programs_[p].channel) > 0) runner.active.push_back(p);
    }
    runner.kernel = binding.kernels[static_cast<size_t>(runner.rank.value())];
    MCCS_CHECK(runner.kernel.runs());
    if (!runner.active.empty()) runner.command = runner.kernel.queue->Reserve();
  }
  BeginLanes();
  state_ = State::kMapping;
}

void KernelPlan::BeginLanes() {
  for (Program& program : programs_) {
    const uint64_t rounds = binding_->geometry->rounds(program.channel);
    for (size_t i = 0; i < program.sends.size(); ++i) {
      Send& send = program.sends[i];
      const uint64_t first = send.port.counters->posted.Load();
      send.end = first + rounds * send.steps;
      send.freed = send.port.counters->source_free.Load();
      send.acknowledged = send.port.counters->acknowledged.Load();
      program.send_runs[i].first = first;
      StoreWord(&send.words->posted, first);
      StoreWord(&send.words->source_free, send.freed);
      StoreWord(&send.words->acknowledged, send.acknowledged);
    }
    for (size_t i = 0; i < program.receives.size(); ++i) {
      Receive& receive = program.receives[i];
      const uint64_t first = receive.port.counters->released.Load();
      receive.end = first + rounds * receive.steps;
      receive.landed = first;
      program.receive_runs[i].first = first;
      StoreWord(&receive.words->writable, first);
      StoreWord(&receive.words->released, first);
      StoreWord(&receive.words->landed, first);
    }
  }
}

absl::StatusOr<bool> KernelPlan::TryPublish() {
  bool bound = true;
  for (Runner& runner : runners_) {
    if (runner.active.empty()) continue;
    MCCS_ASSIGN_OR_RETURN(const bool is_bound, Bind(runner));
    bound &= is_bound && runner.kernel.queue->MayPublish(runner.command);
  }
  if (!bound) return false;
  for (Runner& runner : runners_) {
    if (runner.active.empty()) continue;
    MCCS_ASSIGN_OR_RETURN(const uint64_t base, runner.kernel.queue->process().AddressOf(*memory_));
    kernels::Command command{};
    command.done_value = runner.kernel.done_value;
    command.binding = base + runner.binding;
    command.runs = base + runner.runs;
    command.binding_bytes = static_cast<uint32_t>(runner.binding_copy.size());
    command.programs = static_cast<uint32_t>(runner.active.size());
    runner.kernel.queue->Publish(runner.command, command, ShortForm(runner));
    runner.published = true;
  }
  return true;
}

std::span<const std::byte> KernelPlan::ShortForm(const Runner& runner) {
  if (runner.active.size() != 1 || binding_->bytes > kernels::kShortCallBytes) return {};
  const Program& program = programs_[runner.active[0]];
  const uint64_t bytes = sizeof(kernels::ShortCommand) + runner.binding_copy.size() + program.bytes;
  if (program.image_copy.empty() || bytes > short_form_.size()) return {};
  const kernels::ShortCommand head{
      .bytes = static_cast<uint32_t>(bytes),
      .binding_bytes = static_cast<uint32_t>(runner.binding_copy.size()),
      .done_value = runner.kernel.done_value,
      .run = runner.run_copies[0]};
  std::byte* to = short_form_.data();
  const auto add = [&to](const auto& values) {
    to = std::ranges::copy(std::as_bytes(std::span(values)), to).out;
  };
  add(std::span(&head, 1));
  add(runner.binding_copy);
  add(program.image_copy);
  add(program.send_runs);
  add(program.receive_runs);
  return {short_form_.data(), to};
}

absl::StatusOr<bool> KernelPlan::Bind(Runner& runner) {
  GpuAddressSpace& process = runner.kernel.queue->process();
  MCCS_ASSIGN_OR_RETURN(const uint64_t base, process.AddressOf(*memory_));
  MCCS_ASSIGN_OR_RETURN(bool all, BindBuffers(process, runner.binding_copy));
  std::ranges::copy(runner.binding_copy, memory_->address() + runner.binding);
  runner.run_copies.clear();
  for (const size_t p : runner.active) {
    Program& program = programs_[p];
    MCCS_ASSIGN_OR_RETURN(const bool lanes, BindLanes(process, program));
    all &= lanes;
    const uint64_t image = base + program.image;
    runner.run_copies.push_back({.image = image,
                                 .sends = image + program.sends_at,
                                 .receives = image + program.receives_at,
                                 .bytes = program.bytes,
                                 .state = base + program.state,
                                 .send_words = base + program.send_words,
                                 .receive_words = base + program.receive_words,
                                 .in_slot = base + program.in_slot});
  }
  std::ranges::copy(runner.run_copies, At<kernels::ProgramRun>(runner.runs));
  return all && base != 0;
}

absl::StatusOr<bool> KernelPlan::BindLanes(GpuAddressSpace& process, Program& program) {
  bool all = true;
  for (size_t i = 0; i < program.sends.size(); ++i) {
    MCCS_ASSIGN_OR_RETURN(program.send_runs[i].staging,
                          AddressFor(process, program.sends[i].port.staging, &all));
  }
  for (size_t i = 0; i < program.receives.size(); ++i) {
    MCCS_ASSIGN_OR_RETURN(program.receive_runs[i].slots,
                          AddressFor(process, program.receives[i].port.slots, &all));
  }
  std::ranges::copy(program.send_runs, At<kernels::SendRun>(program.image + program.sends_at));
  std::ranges::copy(program.receive_runs,
                    At<kernels::ReceiveRun>(program.image + program.receives_at));
  return all;
}

absl::StatusOr<bool> KernelPlan::BindBuffers(GpuAddressSpace& process,
                                             std::vector<std::byte>& binding) {
  bool all = true;
  binding.resize(BindingBytes(binding_->ranks.size()));
  auto* values = reinterpret_cast<kernels::Binding*>(binding.data());
  *values = {.division = binding_->geometry->division(),
             .divisor = binding_->divisor,
             .element_bytes = static_cast<uint32_t>(SizeOf(binding_->type)),
             .type = binding_->type,
             .op = binding_->op,
             .divides = binding_->finish == Finish::kDivide,
             .reserved = 0};
  auto* buffers = reinterpret_cast<kernels::RankBuffers*>(values + 1);
  for (size_t r = 0; r < binding_->ranks.size(); ++r) {
    const RankMemory& rank = binding_->ranks[r];
    MCCS_ASSIGN_OR_RETURN(buffers[r].input, AddressFor(process, rank.input, &all));
    MCCS_ASSIGN_OR_RETURN(buffers[r].output, AddressFor(process, rank.output, &all));
    MCCS_ASSIGN_OR_RETURN(buffers[r].scale_address, AddressFor(process, rank.scale_memory, &all));
    buffers[r].scale_bits = rank.scale_bits;
    buffers[r].scaled = rank.scaled;
  }
  return all;
}

// ---- Running ------------------------------------------------------------------------------------

absl::StatusOr<bool> KernelPlan::Poll() {
  if (state_ == State::kFailed) return status_;
  bool moved = false;
  if (state_ == State::kMapping) {
    const absl::StatusOr<bool> published = TryPublish();
    if (!published.ok()) {
      state_ = State::kFailed;
      return status_ = published.status();
    }
    if (!*published) return false;
    state_ = State::kRunning;
    moved = true;
  }
  if (state_ != State::kRunning) return moved;
  // Before the counters: those of a finished kernel are final.
  const bool finished = KernelsFinished();
  for (const Runner& runner : runners_) {
    for (const size_t program : runner.programs)
      moved |= CopyCounters(programs_[program], *runner.kernel.queue);
  }
  // The communicator ends with the process, and the frontend knows why.
  if (!finished || !ProcessesAlive()) return moved;
  for (Runner& runner : runners_) runner.published = false;
  if (absl::Status end = CheckEnd(); !end.ok()) {
    state_ = State::kFailed;
    return status_ = std::move(end);
  }
  if (!BuffersFree()) return moved;  // the kernel has waited for this, if it is ours
  state_ = State::kIdle;
  return true;
}

bool KernelPlan::CopyCounters(Program& program, KernelQueue& queue) {
  bool moved = false, ring = false;
  for (Send& send : program.sends) moved |= CopyCounters(send, &ring);
  for (Receive& receive : program.receives) moved |= CopyCounters(receive, &ring);
  if (ring) queue.Ring();
  return moved || ring;
}

bool KernelPlan::CopyCounters(Send& send, bool* ring) {
  SendCounters& own = *send.port.counters;
  const uint64_t posted = std::min(LoadWord(&send.words->posted), send.end);
  const bool moved = posted > own.posted.Load();
  if (moved) own.posted.Store(posted);
  if (const uint64_t freed = own.source_free.Load(); freed != send.freed) {
    StoreWord(&send.words->source_free, send.freed = freed);
    *ring = true;
  }
  if (const uint64_t acknowledged = own.acknowledged.Load(); acknowledged != send.acknowledged) {
    StoreWord(&send.words->acknowledged, send.acknowledged = acknowledged);
    *ring = true;
  }
  return moved;
}

bool KernelPlan::CopyCounters(Receive& receive, bool* ring) {
  ReceiveCounters& own = *receive.port.counters;
  const uint64_t landed = std::min(own.landed.Load(), receive.end);
  if (landed > receive.landed) {
    for (uint64_t n = receive.landed; n < landed; ++n) {
      const uint64_t slot = n % loaded_.shape.slots;
      receive.in_slot[slot] = own.in_slot[slot];
    }
    StoreWord(&receive.words->landed, receive.landed = landed);
    *ring = true;
  }
  bool moved = false;
  const uint64_t writable = std::min(LoadWord(&receive.words->writable), receive.end);
  if (writable > own.writable.Load()) {
    own.writable.Store(writable);
    moved = true;
  }
  const uint64_t released = std::min(LoadWord(&receive.words->released), receive.landed);
  if (released > own.released.Load()) {
    own.released.Store(released);
    moved = true;
  }
  return moved;
}

bool KernelPlan::KernelsFinished() const {
  return std::ranges::all_of(runners_, [](const Runner& runner) {
    return !runner.published || runner.kernel.queue->Finished(runner.command);
  });
}

bool KernelPlan::ProcessesAlive() const {
  return std::ranges::all_of(runners_, [](const Runner& runner) {
    return !runner.published || runner.kernel.queue->RunsCommand(runner.command);
  });
}

bool KernelPlan::BuffersFree() const {
  return std::ranges::all_of(programs_, [](const Program& program) {
    return std::ranges::all_of(program.sends, [](const Send& send) {
      return !send.buffers || send.port.counters->source_free.Load() >= send.end;
    });
  });
}

absl::Status KernelPlan::CheckEnd() const {
  for (const Runner& runner : runners_) {
    for (const size_t p : runner.programs) {
      const Program& program = programs_[p];
      const bool sent = std::ranges::all_of(program.sends, [](const Send& send) {
        return send.port.counters->posted.Load() == send.end;
      });
      const bool received = std::ranges::all_of(program.receives, [](const Receive& receive) {
        return receive.port.counters->released.Load() == receive.end;
      });
      if (sent && received) continue;
      return absl::InternalError(absl::StrCat("the kernel of the rank with local index ",
                                              runner.rank.value(),
                                              " ended before its part of the operation on channel ",
                                              program.channel.value(), " was complete"));
    }
  }
  return absl::OkStatus();
}

bool KernelPlan::quiescent() const { return KernelsFinished(); }

void KernelPlan::Stop() {
  if (state_ == State::kMapping) state_ = State::kFailed;
  for (const Runner& runner : runners_) {
    if (runner.published) runner.kernel.queue->Stop();
  }
}

}  // namespace mccs
