// Puts with one other host, which the test plays.
#include "service/messages/peer_puts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "service/device/cpu_device.h"
#include "service/device/gpu/kernel_device.h"
#include "tests/unit/device/local_importer.h"
#include "tests/unit/device/local_kernel.h"
#include "tests/unit/device/process_memory.h"

namespace mccs {
namespace peer_puts_test {

using testing::HasSubstr;

constexpr Rank kOurs{0}, kTheirs{5};
constexpr uint64_t kWindowBytes = 64;

// A rank with one window, open or closed.
class OneWindow final : public WindowPort {
 public:
  uint64_t WindowChanges() const override { return 0; }
  WindowView GetWindow(uint64_t number) const override {
    if (number != 1) return {};
    return view;
  }
  absl::StatusOr<WindowMemory> FindInWindow(const WindowPart& part) const override {
    if (part.number != 1 || view.state != WindowView::State::kOpen) {
      return absl::FailedPreconditionError("no such window");
    }
    if (part.offset > kWindowBytes || part.bytes > kWindowBytes - part.offset) {
      return absl::InvalidArgumentError("leaves the window");
    }
    const RegionSpan whole =
        region == nullptr ? SpanAt(memory.data(), kWindowBytes) : WholeOf(*region);
    return WindowMemory{.memory = whole.Part(part.offset, std::min(part.bytes, room)),
                        .process = process,
                        .hold = held};
  }
  WindowView view{.state = WindowView::State::kOpen, .bytes = kWindowBytes};
  uint64_t room = kWindowBytes;
  const Region* region = nullptr;  // instead of `memory`
  GpuAddressSpace* process = nullptr;
  mutable std::array<std::byte, kWindowBytes> memory{};
  std::shared_ptr<const void> held = std::make_shared<int>(0);
};

class PeerPutsTest : public testing::Test {
 protected:
  absl::Status Put(uint64_t count, uint64_t window, uint64_t offset = 0) {
    PostedMessage& call = calls_.emplace_back();
    call.kind = OpKind::kPut;
    call.count = count;
    call.window = window;
    call.window_offset = offset;
    return puts_.Add({.call = &call, .pair = {kOurs, kTheirs}, .number = calls_.size()});
  }
  absl::Status OnWindowReply(uint64_t number, uint64_t bytes) {
    return puts_.OnSlice({.tag = {.kind = MessageTag::Kind::kWindowReply,
                                  .pair = {kOurs, kTheirs},
                                  .number = number,
                                  .amount = bytes}});
  }
  static PeerPuts::Slice Coming(uint64_t offset, uint32_t bytes) {
    return {.number = 3,
            .tag = {.kind = MessageTag::Kind::kSignal,
                    .pair = {kTheirs, kOurs},
                    .number = 1,
                    .amount = offset},
            .bytes = bytes,
            .landing = Landing::kInSlot};
  }

  OneWindow port_;
  bool here_ = true;
  SignalCounts signals_;
  Outbox outbox_;
  std::deque<PostedMessage> calls_;
  PeerPuts puts_{{.signals = &signals_,
                  .port_of = [this](Rank) { return here_ ? &port_ : nullptr; },
                  .may_receive =
                      [](const RankPair& pair) {
                        return pair == RankPair{kTheirs, kOurs};
                      },
                  .may_send =
                      [](const RankPair& pair) {
                        return pair == RankPair{kOurs, kTheirs};
                      },
                  .home_of = [](const RankPair&) { return 0; },
                  .outbox_of = [this](const RankPair&) -> Outbox& { return outbox_; },
                  .slice_bytes = kWindowBytes}};
};

TEST_F(PeerPutsTest, RequestsWindowOnceAndSendsPutsInOrder) {
  ASSERT_TRUE(Put(8, 1).ok());
  ASSERT_TRUE(Put(8, 1).ok());
  EXPECT_EQ(outbox_.announcements.size(), 1u);
  EXPECT_TRUE(outbox_.transfers.empty());
  ASSERT_TRUE(OnWindowReply(1, kWindowBytes).ok());
  ASSERT_EQ(outbox_.transfers.size(), 1u);
  const OpenMessage first = outbox_.transfers.front().message;
  outbox_.transfers.pop_front();
  ASSERT_TRUE(puts_.Posted(first).ok());
  ASSERT_EQ(outbox_.transfers.size(), 1u);
  EXPECT_EQ(outbox_.transfers.front().message.number, 2u);
  EXPECT_EQ(outbox_.announcements.size(), 1u);
}

TEST_F(PeerPutsTest, RejectsPutBeyondItsWindow) {
  ASSERT_TRUE(Put(9, 1, kWindowBytes - 8).ok());
  const absl::Status status = OnWindowReply(1, kWindowBytes);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("put #1 of rank 0 to rank 5"));
  EXPECT_TRUE(outbox_.transfers.empty());
}

// A put behind a waiting one sends neither a request nor data.
TEST_F(PeerPutsTest, RequestsEvictedWindowsAgain) {
  constexpr uint64_t kWindows = 10'000;
  for (uint64_t window = 1; window <= kWindows; ++window) ASSERT_TRUE(Put(8, window).ok());
  for (uint64_t window = 1; window <= kWindows; ++window) {
    ASSERT_EQ(outbox_.announcements.size(), window);
    ASSERT_EQ(outbox_.announcements.back().number, window);
    ASSERT_TRUE(OnWindowReply(window, kWindowBytes).ok());
    ASSERT_EQ(outbox_.transfers.size(), 1u);
    const OpenMessage sent = outbox_.transfers.front().message;
    outbox_.transfers.pop_front();
    ASSERT_TRUE(puts_.Posted(sent).ok());
  }
}

TEST_F(PeerPutsTest, LimitsWindowRequests) {
  const PeerPuts::Slice ask = {
      .tag = {.kind = MessageTag::Kind::kWindowRequest, .pair = {kTheirs, kOurs}, .number = 1}};
  absl::Status status;
  size_t asked = 0;
  for (; status.ok() && asked < 1'000'000; ++asked) status = puts_.OnSlice(ask);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_LT(asked, 100'000u);
  EXPECT_LT(outbox_.announcements.size(), 100'000u);
}

TEST_F(PeerPutsTest, HoldsWindowUntilPayloadLanded) {
  PeerPuts::Slice slice = Coming(16, 8);
  // Sent again after a reconnect.
  ASSERT_TRUE(puts_.FindDestination(slice).has_value());
  const std::optional<RegionSpan> again = puts_.FindDestination(slice);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->address(), port_.memory.data() + 16);
  EXPECT_EQ(port_.held.use_count(), 2);
  slice.landing = Landing::kDirect;
  EXPECT_TRUE(puts_.WritesInto(kOurs, 1));
  puts_.Landed(slice.lane, slice.number);
  EXPECT_TRUE(puts_.OnSlice(slice).ok());
  EXPECT_EQ(port_.held.use_count(), 1);
  EXPECT_FALSE(puts_.WritesInto(kOurs, 0));
}

// The peer breaks the connection in the middle of each put, and sends something else instead.
TEST_F(PeerPutsTest, ForgetsPutThatIsResentAsAnotherKind) {
  for (SliceNumber number = 0; number < 100; ++number) {
    PeerPuts::Slice slice = Coming(0, 8);
    slice.number = number;
    ASSERT_TRUE(puts_.FindDestination(slice).has_value());
    slice.tag.kind = MessageTag::Kind::kAnnouncement;
    EXPECT_FALSE(puts_.FindDestination(slice).has_value());
    EXPECT_EQ(port_.held.use_count(), 2);
    puts_.Landed(slice.lane, number);
    EXPECT_EQ(port_.held.use_count(), 1);
  }
}

TEST_F(PeerPutsTest, PlacesNothingOutsideTheHomeLane) {
  PeerPuts::Slice slice = Coming(0, 8);
  slice.lane = 1;
  EXPECT_FALSE(puts_.FindDestination(slice).has_value());
  EXPECT_EQ(port_.held.use_count(), 1);
}

TEST_F(PeerPutsTest, RejectsPayloadBeyondWindow) {
  for (const auto& [offset, bytes] : {std::pair<uint64_t, uint32_t>{kWindowBytes - 7, 8},
                                      {kWindowBytes + 1, 1},
                                      {~uint64_t{0}, 1}}) {
    EXPECT_FALSE(puts_.FindDestination(Coming(offset, bytes)).has_value());
    EXPECT_TRUE(absl::IsInvalidArgument(puts_.OnSlice(Coming(offset, bytes))));
  }
}

TEST_F(PeerPutsTest, RejectsPayloadBeyondWindowMemory) {
  port_.room = 7;
  EXPECT_FALSE(puts_.FindDestination(Coming(0, 8)).has_value());
}

TEST_F(PeerPutsTest, WindowRequestWaitsForRegistration) {
  port_.view = {};
  const MessageTag ask{
      .kind = MessageTag::Kind::kWindowRequest, .pair = {kTheirs, kOurs}, .number = 1};
  ASSERT_TRUE(puts_.OnSlice({.tag = ask}).ok());
  EXPECT_FALSE(puts_.SendWindowReplies());
  port_.view = {.state = WindowView::State::kOpen, .bytes = kWindowBytes};
  EXPECT_TRUE(puts_.SendWindowReplies());
  ASSERT_EQ(outbox_.announcements.size(), 1u);
  EXPECT_EQ(outbox_.announcements.front().amount, kWindowBytes);
  EXPECT_FALSE(puts_.SendWindowReplies());
}

TEST_F(PeerPutsTest, DropsPayloadForDepartedRank) {
  here_ = false;
  EXPECT_FALSE(puts_.FindDestination(Coming(0, 8)).has_value());
  EXPECT_TRUE(puts_.OnSlice(Coming(0, 8)).ok());
}

TEST_F(PeerPutsTest, RejectsInvalidSlices) {
  EXPECT_TRUE(absl::IsDataLoss(OnWindowReply(1, 8)));  // unexpected
  std::vector<MessageTag> lies(4, Coming(0, 0).tag);
  lies[0].signal = kSignals;
  lies[1].pair = {kOurs, kTheirs};
  lies[2].pair.source = Rank(77);
  lies[3].kind = static_cast<MessageTag::Kind>(200);
  for (const MessageTag& lie : lies) {
    EXPECT_TRUE(absl::IsDataLoss(puts_.OnSlice({.tag = lie})));
  }
  ASSERT_TRUE(Put(8, 1).ok());
  ASSERT_TRUE(OnWindowReply(1, kWindowBytes).ok());
  EXPECT_TRUE(absl::IsDataLoss(OnWindowReply(1, 8)));  // answered before
}

// ---- A window on a GPU --------------------------------------------------------------------------

class GpuWindow final : public Region {
 public:
  GpuWindow() : Region(RegionKind::kTenant, nullptr, kWindowBytes) {}
};

class PutsIntoGpuTest : public PeerPutsTest {
 protected:
  PutsIntoGpuTest() {
    kernel_.Place(window_, port_.memory.data());
    port_.region = &window_;
    port_.process = &kernel_;
  }
  // A slice of 8 bytes that arrives: its bytes are written where they land.
  PeerPuts::Slice Arrive(SliceNumber number, MessageTag::Kind kind, std::byte value) {
    PeerPuts::Slice slice = Coming(8 * (number - 3), 8);
    slice.number = number;
    slice.tag.kind = kind;
    const std::optional<RegionSpan> place = on_gpu_.FindDestination(slice);
    EXPECT_TRUE(place.has_value());
    std::fill_n(place->address(), 8, value);
    slice.landing = Landing::kDirect;
    EXPECT_TRUE(on_gpu_.OnSlice(slice, on_gpu_.Landed(0, number)).ok());
    return slice;
  }
  absl::Status Poll() {
    DispatchFinished(device_);
    return on_gpu_.PollCopies(0).status();
  }
  void PollUntilIdle() {
    for (int i = 0; i < 20 && on_gpu_.has_kept(0); ++i) ASSERT_TRUE(Poll().ok());
  }
  bool Signalled() {
    std::vector<OpenMessage> done;
    return signals_.TakeComplete(done);
  }

  static constexpr std::byte kImage[1] = {};
  CpuDevice host_{{.workers = 0}, std::make_unique<LocalImporter>()};
  KernelDevice device_{host_, *MakeKernelImage(kImage, "none")};
  LocalKernel kernel_;
  GpuWindow window_;
  bool room_ = true;
  std::vector<SliceNumber> released_;
  PeerPuts on_gpu_{
      {.signals = &signals_,
       .port_of = [this](Rank) { return here_ ? &port_ : nullptr; },
       .may_receive =
           [](const RankPair& pair) {
             return pair == RankPair{kTheirs, kOurs};
           },
       .may_send = [](const RankPair&) { return false; },
       .home_of = [](const RankPair&) { return 0; },
       .outbox_of = [this](const RankPair&) -> Outbox& { return outbox_; },
       .release = [this](int, SliceNumber number) { released_.push_back(number); },
       .copies = {.device = &device_,
                  .allocate = [this](uint64_t bytes) -> absl::StatusOr<std::shared_ptr<Region>> {
                    if (!room_) return absl::ResourceExhaustedError("no room for places");
                    return std::make_shared<OwnedMemory>(std::vector<std::byte>(bytes));
                  },
                  .slice_bytes = 8,
                  .slots = 4},
       .slice_bytes = 8}};
};

TEST_F(PutsIntoGpuTest, TheProcessCopiesASliceBeforeItIsReleased) {
  const PeerPuts::Slice slice = Arrive(3, MessageTag::Kind::kPut, std::byte{7});
  EXPECT_TRUE(on_gpu_.Keeps(slice));
  EXPECT_TRUE(on_gpu_.WritesInto(kOurs, 1));
  EXPECT_EQ(port_.memory[0], std::byte{0});
  EXPECT_TRUE(released_.empty());
  EXPECT_FALSE(on_gpu_.quiescent()) << "the process may still write";
  PollUntilIdle();
  EXPECT_TRUE(on_gpu_.quiescent());
  EXPECT_EQ(port_.memory[0], std::byte{7});
  EXPECT_EQ(released_, std::vector<SliceNumber>{3});
  EXPECT_FALSE(on_gpu_.WritesInto(kOurs, 1));
}

TEST_F(PutsIntoGpuTest, ASignalWaitsForTheDataBeforeIt) {
  PostedMessage wait;
  wait.kind = OpKind::kWaitSignal;
  wait.awaited = 1;
  signals_.Wait({.call = &wait, .pair = {kTheirs, kOurs}, .number = 1});
  Arrive(3, MessageTag::Kind::kPut, std::byte{7});
  PeerPuts::Slice signal = Coming(0, 0);
  signal.number = 4;
  ASSERT_TRUE(on_gpu_.OnSlice(signal).ok());
  EXPECT_TRUE(on_gpu_.Keeps(signal));
  EXPECT_FALSE(Signalled());
  PollUntilIdle();
  EXPECT_TRUE(Signalled());
  EXPECT_EQ(released_, (std::vector<SliceNumber>{3, 4}));
}

TEST_F(PutsIntoGpuTest, AProcessThatCannotCopyEndsTheCommunicator) {
  kernel_.Reject(window_, absl::UnavailableError("no such context"));
  Arrive(3, MessageTag::Kind::kSignal, std::byte{7});
  absl::Status status;
  for (int i = 0; i < 20 && status.ok(); ++i) status = Poll();
  EXPECT_THAT(status.message(), HasSubstr("no such context"));
  EXPECT_FALSE(Signalled());
}

TEST_F(PutsIntoGpuTest, WithoutMemoryForPlacesThePutIsRejected) {
  room_ = false;
  PeerPuts::Slice slice = Coming(0, 8);
  EXPECT_FALSE(on_gpu_.FindDestination(slice).has_value());
  slice.landing = Landing::kDiscarded;
  EXPECT_THAT(on_gpu_.OnSlice(slice, on_gpu_.Landed(0, slice.number)).message(),
              HasSubstr("no room for places"));
}

// It was sent again to another rank, after its connection broke.
TEST_F(PutsIntoGpuTest, AResentSliceForgetsItsFirstWindow) {
  PeerPuts::Slice slice = Coming(0, 8);
  ASSERT_TRUE(on_gpu_.FindDestination(slice).has_value());
  slice.bytes = 0;
  slice.landing = Landing::kInSlot;
  ASSERT_TRUE(on_gpu_.OnSlice(slice, on_gpu_.Landed(0, slice.number)).ok());
  EXPECT_FALSE(on_gpu_.has_kept(0));
}

}  // namespace peer_puts_test
}  // namespace mccs
