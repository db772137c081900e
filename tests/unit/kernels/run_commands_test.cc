// The control flow of the kernel for GPUs, with threads of this process as its blocks: the results
// are those of the kernel of the emulation, bit for bit.
#include "kernels/run_commands.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "algorithms/geometry.h"
#include "algorithms/plan.h"
#include "gtest/gtest.h"
#include "kernels/host_kernel.h"
#include "kernels/words.h"
#include "service/device/cpu_device.h"
#include "service/device/gpu/kernel_plan.h"
#include "service/device/gpu/kernel_queue.h"
#include "tests/unit/device/local_importer.h"
#include "tests/unit/kernels/host_grid.h"

namespace mccs {
namespace run_commands_test {

constexpr LaneShape kShape{.slots = 6, .slot_bytes = 128 << 10};
constexpr HostIndex kPeer{1};
constexpr int kRanks = 2;

// Both ranks' inputs are summed and sent; what comes back is added to an input, into both outputs.
std::vector<Step> Steps() {
  const Place inputs[] = {{Space::kInput, 0, 0, 0}, {Space::kInput, 1, 0, 0}};
  const Place outputs[] = {{Space::kOutput, 0, 0, 0}, {Space::kOutput, 1, 0, 0}};
  const Place staged{Space::kStaged, 1, 0, 0}, received{Space::kReceived, 2, 0, 0};
  return {
      {.kind = StepKind::kCombine,
       .combines = {{{inputs[0], inputs[1]}, {staged}}},
       .pieces = {},
       .after = {}},
      {.kind = StepKind::kSend, .combines = {}, .pieces = {staged}, .peer = kPeer, .after = {0}},
      {.kind = StepKind::kReceive,
       .combines = {},
       .pieces = {received},
       .peer = kPeer,
       .after = {}},
      {.kind = StepKind::kCombine,
       .combines = {{{received, inputs[1]}, {outputs[0], outputs[1]}, true}},
       .pieces = {},
       .after = {2}},
  };
}

std::shared_ptr<const Plan> MakePlan(int channels) {
  auto plan = std::make_shared<Plan>();
  plan->key.kind = OpKind::kAllReduce;
  plan->crosses_hosts = true;
  for (int c = 0; c < channels; ++c)
    plan->programs.push_back({.channel = ChannelId(c), .steps = Steps()});
  return plan;
}

// This process, whose memory every kernel reaches.
class ThisProcess final : public GpuAddressSpace {
 public:
  const KernelPlace& place() const override { return place_; }
  const Region* probe() const override { return nullptr; }
  absl::StatusOr<uint64_t> AddressOf(const Region& region) override {
    if (overwrites_) std::memset(region.address(), 0xff, region.bytes());
    return reinterpret_cast<uint64_t>(region.address());
  }
  uint64_t StartCopy(uint64_t, uint64_t, uint64_t) override { return 0; }
  void ForgetCopy(uint64_t) override {}
  absl::StatusOr<bool> TakeCopied(uint64_t) override { return true; }
  bool alive() const override { return true; }
  // All memory that the daemon shares with it, while the daemon prepares a command.
  void Overwrite() { overwrites_ = true; }

 private:
  bool overwrites_ = false;
  const KernelPlace place_;
};

struct Call {
  DataType type = DataType::kFloat32;
  uint64_t count = 0;
  Finish finish = Finish::kNone;
};

// The daemon's end: a plan, its lanes to a peer that sends back what it receives, and a queue.
class World {
 public:
  explicit World(int channels) : plan_(MakePlan(channels)) {
    std::vector<ProgramPorts> ports;
    for (int c = 0; c < channels; ++c) {
      Lane& lane = lanes_.emplace_back();
      lane.staging = Allocate(kShape.staging_bytes());
      lane.slots = Allocate(kShape.receive_bytes());
      ports.push_back({.sends = {{.counters = &lane.send, .staging = WholeOf(*lane.staging)}},
                       .receives = {{.counters = &lane.receive, .slots = WholeOf(*lane.slots)}}});
    }
    absl::StatusOr<std::unique_ptr<DevicePlan>> loaded =
        KernelPlan::Make({.plan = plan_, .ports = std::move(ports), .shape = kShape, .skew = 1},
                         [this](uint64_t bytes) { return device_.Allocate(bytes); });
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    loaded_ = *std::move(loaded);
  }

  void Start(const Call& call) {
    geometry_.emplace(*plan_, call.type, call.count, kShape.slot_bytes);
    const uint64_t bytes = call.count * SizeOf(call.type);
    std::minstd_rand random(7);
    for (int r = 0; r < kRanks; ++r) {
      inputs_[r] = Allocate(bytes);
      outputs_[r] = Allocate(bytes);
      // No NaNs in any of the types.
      for (uint64_t i = 0; i < bytes; ++i)
        inputs_[r]->address()[i] = static_cast<std::byte>(random() % 61);
      ranks_[r] = {.input = WholeOf(*inputs_[r]), .output = WholeOf(*outputs_[r])};
    }
    binding_ = {.geometry = &*geometry_,
                .ranks = ranks_,
                .kernels = kernels_,
                .bytes = bytes,
                .type = call.type,
                .finish = call.finish,
                .divisor = call.finish == Finish::kDivide ? 3u : 1u};
    loaded_->Start(binding_);
  }

  // One turn of the daemon and the peer.
  void Poll(bool echoes = true) {
    const absl::StatusOr<bool> moved = loaded_->Poll();
    ASSERT_TRUE(moved.ok()) << moved.status();
    if (!echoes) return;
    for (Lane& lane : lanes_) lane.Echo();
  }
  void PollUntilDone() {
    while (!loaded_->done()) {
      ASSERT_NO_FATAL_FAILURE(Poll());
      std::this_thread::yield();
    }
  }

  std::vector<std::byte> Results() const {
    std::vector<std::byte> all;
    for (const auto& output : outputs_)
      all.insert(all.end(), output->address(), output->address() + output->bytes());
    return all;
  }
  kernels::CommandQueue& queue() { return shared_; }
  ThisProcess& process() { return process_; }
  // The next calls are those of a kernel that waits for this value of the done word.
  void WaitFor(uint64_t done) { kernels_[0].done_value = done; }
  DevicePlan& plan() { return *loaded_; }
  // Slices that the operation sends.
  uint64_t slices() const { return lanes_.size() * geometry_->rounds(ChannelId(0)); }
  // Slices that the kernel has sent so far.
  uint64_t posted() const {
    uint64_t all = 0;
    for (const Lane& lane : lanes_) all += lane.send.posted.Load();
    return all;
  }

 private:
  struct Lane {
    SendCounters send;
    ReceiveCounters receive{kShape.slots};
    std::unique_ptr<Region> staging, slots;

    void Echo() {
      const uint64_t n = send.acknowledged.Load();
      if (n == send.posted.Load() || n == receive.released.Load() + kShape.slots) return;
      std::memcpy(slots->address() + n % kShape.slots * kShape.slot_bytes,
                  staging->address() + n % kShape.staging_slots() * kShape.slot_bytes,
                  kShape.slot_bytes);
      receive.in_slot[n % kShape.slots] = 1;
      receive.landed.Store(n + 1);
      send.source_free.Store(n + 1);
      send.acknowledged.Store(n + 1);
    }
  };

  std::unique_ptr<Region> Allocate(size_t bytes) {
    absl::StatusOr<std::unique_ptr<Region>> memory = device_.Allocate(bytes);
    EXPECT_TRUE(memory.ok()) << memory.status();
    return *std::move(memory);
  }

  CpuDevice device_{{}, std::make_unique<LocalImporter>()};
  ThisProcess process_;
  kernels::CommandQueue shared_{};
  KernelQueue queue_{process_, shared_};
  KernelCall kernels_[1] = {{.queue = &queue_, .done_value = 1}};
  const std::shared_ptr<const Plan> plan_;
  std::deque<Lane> lanes_;  // addresses are stable
  std::optional<Geometry> geometry_;
  std::unique_ptr<Region> inputs_[kRanks], outputs_[kRanks];
  RankMemory ranks_[kRanks];
  OperationBinding binding_;
  std::unique_ptr<DevicePlan> loaded_;
};

// The words that end a kernel and by which its blocks meet.
struct Launch {
  kernels::BlockWords words{};
  uint64_t done = 0;
  void End() { kernels::StoreWord(&done, 1); }
};

std::vector<std::byte> Expected(int channels, const Call& call) {
  World world(channels);
  kernels::HostKernel kernel(world.queue());
  world.Start(call);
  while (!world.plan().done() && !testing::Test::HasFatalFailure()) {
    world.Poll();
    kernel.Advance();
  }
  return world.Results();
}

// Calls of some slices: large steps, a last slice that is small, and small ones.
constexpr Call kLarge{.type = DataType::kFloat32, .count = 150'001};
constexpr Call kSmall{.type = DataType::kBfloat16, .count = 1'000};
constexpr Call kDivided{.type = DataType::kInt32, .count = 120'000, .finish = Finish::kDivide};

void ExpectSameResults(int channels, const GridShape& shape) {
  World world(channels);
  Launch launch;
  HostGrid grid(shape, world.queue(), launch.words, launch.done, 1);
  grid.StartAll();
  for (const Call& call : {kLarge, kSmall, kDivided}) {
    world.Start(call);
    world.PollUntilDone();
    EXPECT_EQ(world.Results(), Expected(channels, call)) << call.count << " elements";
  }
  launch.End();
}

TEST(RunCommands, OneBlockRunsAProgram) { ExpectSameResults(1, {.blocks = 1}); }
TEST(RunCommands, HelpersShareLargeSteps) { ExpectSameResults(1, {.blocks = 4, .threads = 3}); }
TEST(RunCommands, EachProgramHasItsHelpers) { ExpectSameResults(3, {.blocks = 8}); }
TEST(RunCommands, BlocksRunSeveralProgramsEach) { ExpectSameResults(5, {.blocks = 2}); }
TEST(RunCommands, ABlockMayHaveOneThread) { ExpectSameResults(2, {.blocks = 5, .threads = 1}); }

TEST(RunCommands, UsesAProgramInPlaceThatDoesNotFit) {
  for (const uint32_t bytes : {0u, 192u, 1024u}) {
    ExpectSameResults(2, {.blocks = 4, .arena_bytes = bytes});
  }
}

// A large step, while one of three blocks has not begun.
struct TwoOfThreeBlocks {
  TwoOfThreeBlocks() {
    grid.StartBlock(0);
    grid.StartBlock(1);
    world.Start(kLarge);
  }
  World world{1};
  Launch launch;
  HostGrid grid{{.blocks = 3}, world.queue(), launch.words, launch.done, 1};
};

TEST(RunCommands, ALargeStepWaitsForItsHelpers) {
  TwoOfThreeBlocks running;
  auto& [world, launch, grid] = running;
  while (kernels::LoadBlockWord(&launch.words.programs[0].ended) == 0)
    ASSERT_NO_FATAL_FAILURE(world.Poll());
  for (int i = 0; i < 100; ++i) {
    ASSERT_NO_FATAL_FAILURE(world.Poll());
    std::this_thread::yield();
  }
  EXPECT_EQ(kernels::LoadBlockWord(&launch.words.programs[0].begun), 1u);
  EXPECT_EQ(world.posted(), 0u) << "sent before all helpers had done their share";
  grid.StartBlock(2);
  world.PollUntilDone();
  EXPECT_EQ(world.Results(), Expected(1, kLarge));
  launch.End();
}

TEST(RunCommands, ALaterKernelGoesOnWithTheQueue) {
  World world(2);
  kernels::BlockWords words{};
  uint64_t done = 0;
  for (uint64_t launch = 1; launch <= 2; ++launch) {
    HostGrid grid({.blocks = static_cast<uint32_t>(launch) + 2}, world.queue(), words, done,
                  launch);
    grid.StartAll();
    world.Start(kLarge);
    world.PollUntilDone();
    EXPECT_EQ(world.Results(), Expected(2, kLarge));
    kernels::StoreWord(&done, launch);
  }
}

// ---- Short commands ----

constexpr Call kShort{.type = DataType::kFloat32, .count = 1'000};

// A call of which the kernel sees only the short form of its command.
struct OnlyLines {
  OnlyLines(const Call& call, const GridShape& shape)
      : grid(shape, world.queue(), launch.words, launch.done, 1) {
    world.Start(call);
    while (kernels::LoadWord(&world.queue().published) == 0) world.Poll();
    kernels::StoreWord(&world.queue().published, 0);
    world.queue().commands[0] = {};
  }
  ~OnlyLines() { launch.End(); }

  World world{1};
  Launch launch;
  HostGrid grid;
};

TEST(RunCommands, AShortCommandNeedsNoOtherMemory) {
  for (const uint32_t threads : {1, 3}) {
    OnlyLines running(kShort, {.blocks = 1, .threads = threads});
    running.grid.StartAll();
    running.world.PollUntilDone();
    EXPECT_EQ(running.world.Results(), Expected(1, kShort));
  }
}

TEST(RunCommands, AShortCommandWaitsForAllItsLines) {
  for (const size_t missing : {0, 1, 40}) {
    OnlyLines running(kShort, {.blocks = 1});
    uint64_t& half = running.world.queue().short_command[missing].halves[1];
    const uint64_t whole = half;
    ASSERT_NE(whole, 0u);
    half = 0;
    running.grid.StopAfter(10);  // a kernel looks for short commands for a limited time
    running.grid.StartAll();
    while (running.grid.pauses() <= 10) std::this_thread::yield();
    EXPECT_EQ(running.world.posted(), 0u);
    kernels::StoreWord(&half, whole);
    running.grid.GoOn();
    running.world.PollUntilDone();
    EXPECT_EQ(running.world.Results(), Expected(1, kShort));
  }
}

kernels::ShortCommand ShortHead(World& world) {
  world.Start(kShort);
  while (kernels::LoadWord(&world.queue().published) == 0) world.Poll();
  kernels::ShortCommand head{};
  constexpr size_t kWords = sizeof(head) / sizeof(uint64_t);
  for (size_t i = 0; i < kWords; ++i) {
    uint64_t word = 0;
    EXPECT_TRUE(kernels::LoadLine(&world.queue().short_command[i], kernels::ShortFlag(0), word));
    std::memcpy(reinterpret_cast<std::byte*>(&head) + i * sizeof(word), &word, sizeof(word));
  }
  return head;
}

TEST(RunCommands, TheDaemonDoesNotReadAShortCommandFromTheProcess) {
  World honest(1), hostile(1);
  hostile.process().Overwrite();
  const kernels::ShortCommand expected = ShortHead(honest), head = ShortHead(hostile);
  EXPECT_EQ(head.bytes, expected.bytes);
  EXPECT_EQ(head.binding_bytes, expected.binding_bytes);
  EXPECT_EQ(head.run.bytes, expected.run.bytes);
}

void ExpectNoShortCommand(const Call& call, const GridShape& shape) {
  OnlyLines running(call, shape);
  running.grid.StartAll();
  while (running.grid.pauses() < 10) std::this_thread::yield();
  ASSERT_NO_FATAL_FAILURE(running.world.Poll());
  EXPECT_EQ(running.world.posted(), 0u);
}

TEST(RunCommands, CallsOfManyBytesHaveNoShortCommand) {
  ExpectNoShortCommand(kLarge, {.blocks = 1});
}
TEST(RunCommands, OnlyAKernelOfOneBlockLooksForShortCommands) {
  ExpectNoShortCommand(kShort, {.blocks = 2});
}
TEST(RunCommands, AShortCommandNeedsRoom) {
  ExpectNoShortCommand(kShort, {.blocks = 1, .arena_bytes = 512});
}

// A stream's queue may go to another stream when the first one's done word is reached, and before
// its kernel has seen that.
TEST(RunCommands, ACommandWaitsForItsOwnKernel) {
  for (const Call& call : {kShort, kLarge}) {
    World world(1);
    Launch launch;
    world.WaitFor(2);
    world.Start(call);
    while (kernels::LoadWord(&world.queue().published) == 0) ASSERT_NO_FATAL_FAILURE(world.Poll());
    {
      HostGrid earlier({.blocks = 1}, world.queue(), launch.words, launch.done, 1);
      earlier.StartAll();
      earlier.Join();  // the command is published, and not its own
    }
    launch.End();
    EXPECT_EQ(world.queue().finished, 0u);
    HostGrid grid({.blocks = 1}, world.queue(), launch.words, launch.done, 2);
    grid.StartAll();
    world.PollUntilDone();
    EXPECT_EQ(world.Results(), Expected(1, call));
    kernels::StoreWord(&launch.done, 2);
  }
}

// ---- Ends ----

// Runs until the kernel waits for a lane in the middle of the operation, with helpers that wait.
void RunToTheMiddle(World& world) {
  world.Start(kLarge);
  while (world.posted() == 0) {
    ASSERT_NO_FATAL_FAILURE(world.Poll(false));
    std::this_thread::yield();
  }
}

TEST(RunCommands, AStopEndsAllBlocksInTheMiddle) {
  for (const int channels : {1, 2, 9}) {
    World world(channels);
    Launch launch;
    HostGrid grid({.blocks = 5}, world.queue(), launch.words, launch.done, 1);
    grid.StartAll();
    RunToTheMiddle(world);
    EXPECT_FALSE(world.plan().quiescent());
    world.plan().Stop();
    while (!world.plan().quiescent()) std::this_thread::yield();
    launch.End();
  }
}

// Its stream goes on, although there is more to copy.
TEST(RunCommands, AKernelThatHasEndedLeavesItsRemainingCopies) {
  const std::vector<int> from(1000, 7);
  std::vector<int> first(1000), second(1000);
  auto queue = std::make_unique<kernels::CommandQueue>();
  kernels::Command& command = queue->commands[0];
  command.done_value = 1;
  command.copies = 2;
  for (std::vector<int>* to : {&first, &second}) {
    command.copy[to == &second ? 1 : 0] = {.from = reinterpret_cast<uint64_t>(from.data()),
                                           .to = reinterpret_cast<uint64_t>(to->data()),
                                           .bytes = from.size() * sizeof(int)};
  }
  queue->published = 1;
  Launch launch;
  launch.End();
  HostGrid grid({.blocks = 3}, *queue, launch.words, launch.done, 1);
  grid.StartAll();
  grid.Join();
  EXPECT_EQ(first, from);
  EXPECT_EQ(second, std::vector<int>(1000));
}

TEST(RunCommands, AStopEndsABlockThatWaitsForItsHelpers) {
  World world(1);
  Launch launch;
  HostGrid grid({.blocks = 2}, world.queue(), launch.words, launch.done, 1);
  grid.StartBlock(0);
  world.Start(kLarge);
  while (kernels::LoadBlockWord(&launch.words.programs[0].begun) == 0)
    ASSERT_NO_FATAL_FAILURE(world.Poll());
  world.plan().Stop();
  while (kernels::LoadBlockWord(&launch.words.arrived) == 0) std::this_thread::yield();
  EXPECT_FALSE(world.plan().quiescent()) << "a block may still use the memory";
  grid.StartBlock(1);
  while (!world.plan().quiescent()) std::this_thread::yield();
  launch.End();
}

// The daemon waits for the kernel, also if that begins when the program has released its stream.
TEST(RunCommands, AKernelThatBeginsAfterTheEndReportsStoppedCommands) {
  World world(2);
  Launch launch;
  world.Start(kLarge);
  while (kernels::LoadWord(&world.queue().published) == 0) ASSERT_NO_FATAL_FAILURE(world.Poll());
  world.plan().Stop();
  launch.End();
  EXPECT_FALSE(world.plan().quiescent());
  HostGrid grid({.blocks = 3}, world.queue(), launch.words, launch.done, 1);
  grid.StartAll();
  grid.Join();
  EXPECT_TRUE(world.plan().quiescent());
}

TEST(RunCommands, AStoppedCommandOfALaterKernelIsNotReported) {
  World world(1);
  Launch launch;
  world.WaitFor(2);
  world.Start(kShort);
  while (kernels::LoadWord(&world.queue().published) == 0) ASSERT_NO_FATAL_FAILURE(world.Poll());
  world.plan().Stop();
  launch.End();
  HostGrid earlier({.blocks = 2}, world.queue(), launch.words, launch.done, 1);
  earlier.StartAll();
  earlier.Join();
  EXPECT_FALSE(world.plan().quiescent()) << "its kernel may still use the memory";
  HostGrid own({.blocks = 2}, world.queue(), launch.words, launch.done, 2);
  own.StartAll();
  while (!world.plan().quiescent()) std::this_thread::yield();
  kernels::StoreWord(&launch.done, 2);
}

// The communicator is aborted: its streams are released, also if the daemon does nothing more.
TEST(RunCommands, TheDoneWordEndsAllBlocksInTheMiddle) {
  World world(2);
  Launch launch;
  HostGrid grid({.blocks = 5}, world.queue(), launch.words, launch.done, 1);
  grid.StartAll();
  RunToTheMiddle(world);
  launch.End();
  grid.Join();
}

TEST(RunCommands, ABlockThatBeginsAfterTheEndHoldsUpNoOther) {
  TwoOfThreeBlocks running;
  auto& [world, launch, grid] = running;
  while (kernels::LoadBlockWord(&launch.words.programs[0].begun) == 0)
    ASSERT_NO_FATAL_FAILURE(world.Poll());
  launch.End();
  grid.StartBlock(2);
  grid.Join();
  EXPECT_TRUE(world.plan().quiescent()) << "the last block reports that none uses the memory";
  EXPECT_LT(world.posted(), world.slices()) << "the operation is not complete";
}

TEST(RunCommands, AllBlocksButTheFirstOnesHelp) {
  EXPECT_EQ(kernels::Helpers(1, 1, 0), 0u);
  EXPECT_EQ(kernels::Helpers(16, 1, 0), 15u);
  EXPECT_EQ(kernels::Helpers(16, 3, 0), 5u);
  EXPECT_EQ(kernels::Helpers(16, 3, 1), 4u);
  EXPECT_EQ(kernels::Helpers(16, 16, 15), 0u);
  EXPECT_EQ(kernels::Helpers(2, 5, 4), 0u);
}

}  // namespace run_commands_test
}  // namespace mccs
