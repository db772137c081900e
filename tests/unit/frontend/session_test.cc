// Messages of one tenant process, valid and invalid.
#include "service/frontend/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "absl/strings/ascii.h"
#include "base/sealed_file.h"
#include "tests/unit/frontend/raw_tenant.h"
#include "tests/unit/open_descriptors.h"

namespace mccs {
namespace session_test {

using testing::HasSubstr;

constexpr TenantIdentity kBlue{"blue", 500};

class SessionTest : public testing::Test {
 protected:
  SessionTest()
      : world_({.seed = 1, .hosts = 2, .network = {}}), tenant_(world_, 0, {"blue", 500}) {}

  Daemon& daemon() { return world_.host(0).daemon(); }
  bool Logged(std::string_view text) { return world_.host(0).log().Contains(text); }
  bool Ended() {
    return world_.RunUntil([&] { return daemon().sessions() == 0; }, kNsPerSec);
  }

  SimWorld world_;
  RawTenant tenant_;
};

// A process whose greeting was accepted, and an id.
class OpenSessionTest : public SessionTest {
 protected:
  void SetUp() override {
    ASSERT_TRUE(tenant_.Greet());
    const auto id = tenant_.GetUniqueId();
    ASSERT_TRUE(id.has_value());
    id_ = *id;
  }
  // Sends the message and returns its answer.
  template <typename Reply, typename Message>
  Reply Ask(const Message& message, int64_t limit_ns = kNsPerSec) {
    const std::optional<Reply> reply = tenant_.Await<Reply>(tenant_.Send(message), limit_ns);
    EXPECT_TRUE(reply.has_value());
    return reply.value_or(Reply{});
  }
  wire::CommInitReply Init(const wire::CommInit& init, int64_t limit_ns = kNsPerSec) {
    return Ask<wire::CommInitReply>(init, limit_ns);
  }
  wire::Done Destroy(uint32_t handle) {
    wire::CommDestroy destroy{};
    destroy.comm_handle = handle;
    return Ask<wire::Done>(destroy);
  }
  // Aborts the communicator that was requested by `init`.
  wire::Done AbortInit(uint64_t init) {
    wire::CommAbort abort{};
    abort.init_request = init;
    return Ask<wire::Done>(abort);
  }
  bool AllEnded() {
    return world_.RunUntil([&] { return daemon().communicators() == 0; }, kNsPerSec);
  }

  wire::UniqueId id_{};
};

TEST_F(SessionTest, AGreetingIsAnsweredWithARegion) {
  EXPECT_TRUE(tenant_.Greet());
  ASSERT_FALSE(tenant_.fds().empty());
  auto region = SharedRegion::Map(std::move(tenant_.fds().front()));
  ASSERT_TRUE(region.ok());
  EXPECT_GE(region->bytes(), sizeof(wire::SessionRegion));
}

TEST_F(SessionTest, AGreetingBringsTheImageIfKernelsRunPlans) {
  SimWorld world({.seed = 1, .hosts = 1, .network = {}, .kernels = true});
  for (const pid_t process : {500, 501}) {
    RawTenant tenant(world, 0, {"blue", process});
    const std::optional<wire::HelloReply> reply = tenant.Hello();
    ASSERT_TRUE(reply.has_value());
    EXPECT_STREQ(reply->kernel_architectures, kSimKernelArchitectures);
    ASSERT_EQ(tenant.fds().size(), 2u);  // The simulator has no doorbell.
    const auto image = SealedContents::Map(tenant.fds()[1].get(), reply->kernel_image_bytes);
    ASSERT_TRUE(image.ok()) << image.status();
    EXPECT_STREQ(reinterpret_cast<const char*>(image->data()), kSimKernelImage);
  }
}

TEST_F(SessionTest, DmaBufsAreWantedIfNicsCanRegisterThem) {
  const std::pair<SimWorldOptions, uint32_t> worlds[] = {
      {{.hosts = 1, .verbs = FakeVerbsOptions{}, .kernels = true}, 1},
      {{.hosts = 1, .verbs = FakeVerbsOptions{.no_dma_bufs = "it cannot"}, .kernels = true}, 0},
      {{.hosts = 1, .verbs = FakeVerbsOptions{}}, 0},
      {{.hosts = 1, .kernels = true}, 0}};
  for (const auto& [options, wanted] : worlds) {
    if (std::getenv("MCCS_SIM_DEVICE") != nullptr && !options.kernels) continue;
    if (std::getenv("MCCS_SIM_TRANSPORT") != nullptr && !options.verbs.has_value()) continue;
    SimWorld world(options);
    RawTenant tenant(world, 0, {"blue", 500});
    const std::optional<wire::HelloReply> reply = tenant.Hello();
    ASSERT_TRUE(reply.has_value());
    EXPECT_EQ(reply->wants_dma_bufs, wanted);
  }
}

TEST_F(SessionTest, RejectsADmaBufWithoutADescriptor) {
  SimWorld world({.hosts = 1, .verbs = FakeVerbsOptions{}, .kernels = true});
  RawTenant tenant(world, 0, {"blue", 500});
  ASSERT_TRUE(tenant.Greet());
  wire::RegisterBuffer message{};
  message.kind = wire::ExportKind::kCudaIpc;
  message.bytes = message.address = 4096;
  message.has_dma_buf = 1;
  const auto reply = tenant.Await<wire::RegisterReply>(tenant.Send(message));
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->status.error, wire::ErrorClass::kInvalidArgument);
  EXPECT_THAT(reply->status.text, HasSubstr("descriptor of the buffer's dma-buf"));
}

// Each begins and fails without other ranks: two lines of the log.
TEST_F(SessionTest, AFloodOfFailedCommunicatorsDoesNotFillTheLog) {
  SimTenant& red = world_.AddTenant(0, "red");
  ASSERT_TRUE(world_.RunUntil([&] { return red.connected(); }));
  for (int i = 0; i < 2 * kCommunicatorLinesPerMinute; ++i) {
    ASSERT_TRUE(world_.GetUniqueId(red));
    SimRank& rank = red.Init(red.unique_id(), 2, 0);
    world_.RunFor(kNsPerMs);
    red.Abort(rank);
    ASSERT_TRUE(world_.RunUntil([&] { return rank.answered; }));
  }
  EXPECT_TRUE(Logged("further lines for this tenant"));
  EXPECT_LE(world_.host(0).log().Count("communicator "),
            static_cast<size_t>(kCommunicatorLinesPerMinute + Rendezvous::kLinesPerMinute));
  SimTenant& blue = world_.AddTenant(0, "blue");
  ASSERT_TRUE(world_.RunUntil([&] { return blue.connected(); }));
  ASSERT_TRUE(world_.GetUniqueId(blue));
  SimRank& rank = blue.Init(blue.unique_id(), 2, 0);
  world_.RunFor(kNsPerMs);
  const size_t before = world_.host(0).log().Count("communicator ");
  blue.Abort(rank);
  ASSERT_TRUE(world_.RunUntil([&] { return rank.answered; }));
  EXPECT_GT(world_.host(0).log().Count("communicator "), before) << "of another tenant";
}

TEST_F(SessionTest, AGreetingBringsNoImageOtherwise) {
  if (std::getenv("MCCS_SIM_DEVICE") != nullptr) GTEST_SKIP() << "kernels run plans everywhere";
  const std::optional<wire::HelloReply> reply = tenant_.Hello();
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->kernel_image_bytes, 0u);
  EXPECT_EQ(tenant_.fds().size(), 1u);
}

TEST_F(SessionTest, AFloodOfBrokenSessionsDoesNotFillTheLog) {
  for (int i = 0; i < 3 * LimitedWarnings::kPerMinute; ++i) {
    RawTenant bad(world_, 0, {"red", 600 + i});
    bad.SendBytes("garbage", 7);
    ASSERT_TRUE(world_.RunUntil([&] { return daemon().sessions() == 1; }, kNsPerSec));
    world_.RunFor(kNsPerMs);
  }
  EXPECT_TRUE(Logged("(red): invalid message of 7 bytes"));
  EXPECT_TRUE(Logged("further lines for this tenant"));
  EXPECT_EQ(world_.host(0).log().Count("(red): "),
            static_cast<size_t>(LimitedWarnings::kPerMinute));
  tenant_.SendBytes("garbage", 7);
  EXPECT_TRUE(Ended());
  EXPECT_TRUE(Logged("(blue): ")) << "another tenant's warnings are logged";
}

TEST_F(SessionTest, AcceptsAShimThatSupportsNewerVersionsToo) {
  EXPECT_TRUE(tenant_.Greet(wire::kWireVersion, wire::kWireVersion + 7));
}

TEST_F(SessionTest, RejectsShimsThatAreTooNewOrTooOld) {
  wire::Hello hello{};
  hello.magic = wire::kControlMagic;
  std::memset(hello.build, 'x', sizeof(hello.build));  // no terminator
  const std::pair<uint32_t, uint32_t> versions[] = {
      {wire::kWireVersion + 1, wire::kWireVersion + 1}, {0, wire::kOldestWireVersion - 1}};
  for (const auto& [oldest, newest] : versions) {
    hello.oldest_version = oldest;
    hello.newest_version = newest;
    const auto reply = tenant_.Await<wire::HelloReply>(tenant_.Send(hello));
    ASSERT_TRUE(reply.has_value()) << newest;
    EXPECT_EQ(reply->status.error, wire::ErrorClass::kInvalidUsage);
    EXPECT_THAT(reply->status.text, HasSubstr("from the same release"));
  }
}

TEST_F(SessionTest, HandlesNoRequestBeforeHello) {
  tenant_.Send(wire::GetUniqueId{});
  EXPECT_TRUE(Ended());
  EXPECT_TRUE(Logged("unexpected message"));
}

TEST_F(SessionTest, ASecondGreetingEndsTheSession) {
  ASSERT_TRUE(tenant_.Greet());
  EXPECT_FALSE(tenant_.Greet());
  EXPECT_TRUE(Ended());
}

TEST_F(SessionTest, AnUnknownKindEndsTheSession) {
  ASSERT_TRUE(tenant_.Greet());
  wire::MessageHeader header{
      .kind = static_cast<wire::MessageKind>(77), .bytes = sizeof(header), .request = 1};
  tenant_.SendBytes(&header, sizeof(header));
  EXPECT_TRUE(Ended());
  EXPECT_TRUE(Logged("kind 77"));
}

TEST_F(SessionTest, AMessageOfTheWrongLengthEndsTheSession) {
  for (const bool truncate : {true, false}) {
    RawTenant tenant(world_, 0, kBlue);
    ASSERT_TRUE(tenant.Greet());
    wire::ReleaseBuffer message{};
    message.header = {.kind = wire::ReleaseBuffer::kKind,
                      .bytes = truncate ? uint32_t{sizeof(message)} : 12345u,
                      .request = 1};
    tenant.SendBytes(&message, truncate ? sizeof(message) - 4 : sizeof(message));
    EXPECT_TRUE(world_.RunUntil([&] { return daemon().sessions() == 1; }, kNsPerSec));
  }
}

TEST_F(SessionTest, AShortMessageEndsTheSession) {
  ASSERT_TRUE(tenant_.Greet());
  tenant_.SendBytes("abc", 3);
  EXPECT_TRUE(Ended());
}

TEST_F(OpenSessionTest, RejectsInvalidRanks) {
  const std::pair<int, int> bad[] = {
      {0, 0}, {-1, 0}, {2, 2}, {2, -1}, {std::numeric_limits<int>::max(), 0}};
  for (const auto& [ranks, rank] : bad) {
    SCOPED_TRACE(testing::Message() << ranks << " ranks, rank " << rank);
    EXPECT_EQ(Init(MakeCommInit(id_, ranks, rank), 0).status.error,
              wire::ErrorClass::kInvalidArgument);
  }
  EXPECT_EQ(daemon().communicators(), 0u);
}

TEST_F(OpenSessionTest, AnAddressOfTheTenantsChoiceIsNotDialed) {
  world_.host(0).controller().id_key = std::string(32, 'k');
  ASSERT_TRUE(world_.RunUntil([&] { return !world_.host(0).controller().id_key; }, kNsPerSec));
  const wire::CommInitReply before = Init(MakeCommInit(id_, 2, 0), 0);
  EXPECT_EQ(before.status.error, wire::ErrorClass::kInvalidUsage) << "made without the key";
  wire::UniqueId id = *tenant_.GetUniqueId();
  std::strncpy(id.host, "10.9.9.9", sizeof(id.host));
  const wire::CommInitReply forged = Init(MakeCommInit(id, 2, 0), 0);
  EXPECT_EQ(forged.status.error, wire::ErrorClass::kInvalidUsage);
  EXPECT_THAT(forged.status.text, HasSubstr("no daemon of this cluster made the unique id"));
  EXPECT_THAT(forged.status.text, HasSubstr("10.9.9.9 port"));
  EXPECT_EQ(daemon().communicators(), 0u);
  const wire::CommInitReply right = Init(MakeCommInit(*tenant_.GetUniqueId(), 1, 0));
  EXPECT_EQ(right.status.error, wire::ErrorClass::kNone) << right.status.text;
}

// A tenant may have thousands of them, and the daemon has 65,536 descriptors for all tenants.
TEST_F(OpenSessionTest, ACommunicatorOfOneHostKeepsNoDescriptorOpen) {
  size_t before = 0;
  for (int i = 0; i < 50; ++i) {
    const auto id = tenant_.GetUniqueId();
    ASSERT_TRUE(id.has_value());
    const wire::CommInitReply joined = Init(MakeCommInit(*id, 1, 0));
    ASSERT_EQ(joined.status.error, wire::ErrorClass::kNone) << joined.status.text;
    ASSERT_EQ(tenant_.fds().size(), 1u);
    tenant_.fds().clear();
    if (i == 0) before = OpenDescriptors();
  }
  EXPECT_EQ(daemon().communicators(), 50u);
  EXPECT_EQ(OpenDescriptors(), before);
}

TEST_F(OpenSessionTest, RejectsAnIdWithAHostName) {
  std::strncpy(id_.host, "slow.example.org", sizeof(id_.host) - 1);
  EXPECT_THAT(Init(MakeCommInit(id_, 1, 0), 0).status.text, HasSubstr("numeric address"));
}

TEST_F(OpenSessionTest, RejectsAnIdOfAnotherLibrary) {
  std::memset(&id_, 0x5a, sizeof(id_));
  EXPECT_THAT(Init(MakeCommInit(id_, 1, 0)).status.text, HasSubstr("another NCCL"));
}

// Before the log itself replaces control characters.
TEST_F(OpenSessionTest, SanitizesTexts) {
  wire::CommInit init = MakeCommInit(id_, 2, 0);
  std::memset(init.options.name, '\n', sizeof(init.options.name));  // no terminator
  std::strncpy(init.device_bus_id, "0000:1b\nforged \x1b[31m\xff", sizeof(init.device_bus_id) - 1);
  tenant_.Send(init);
  init.rank = 1;  // on the same GPU
  const std::string text = "both use GPU 0000:1b?forged ?[31m?;";
  EXPECT_THAT(Init(init).status.text, HasSubstr(text));
  EXPECT_TRUE(Logged(text));

  const wire::CommInitReply reply = Init(MakeCommInit(*tenant_.GetUniqueId(), 1, 0));
  ASSERT_EQ(reply.status.error, wire::ErrorClass::kNone) << reply.status.text;
  wire::GpuFailed failed{};
  failed.comm_handle = reply.comm_handle;
  failed.ended = wire::EndedKernels::kAll;
  std::strncpy(failed.text, "GPU 7 has failed\nforged \x1b[31m", sizeof(failed.text) - 1);
  tenant_.Send(failed);
  EXPECT_TRUE(
      world_.RunUntil([&] { return Logged("rank 0: GPU 7 has failed?forged ?[31m"); }, kNsPerSec));
  for (const std::string& line : world_.host(0).log().lines) {
    EXPECT_TRUE(std::ranges::none_of(line, [](char c) {
      return absl::ascii_iscntrl(static_cast<unsigned char>(c));
    })) << line;
  }
}

// As NVML, hwloc and the inventory of the host do.
TEST_F(OpenSessionTest, NamesGpusInLowerCase) {
  wire::CommInit init = MakeCommInit(id_, 2, 0);
  std::strncpy(init.device_bus_id, "0000:1B:00.0", sizeof(init.device_bus_id) - 1);
  tenant_.Send(init);
  init.rank = 1;  // on the same GPU
  EXPECT_THAT(Init(init).status.text, HasSubstr("both use GPU 0000:1b:00.0;"));
}

TEST_F(OpenSessionTest, AFailedGpuFailsTheCommunicatorOfItsRankOnAllRanks) {
  const uint64_t first = tenant_.Send(MakeCommInit(id_, 2, 0));
  const wire::CommInitReply second = Init(MakeCommInit(id_, 2, 1));
  ASSERT_EQ(second.status.error, wire::ErrorClass::kNone) << second.status.text;
  ASSERT_TRUE(tenant_.Await<wire::CommInitReply>(first).has_value());
  const auto memory = SharedRegion::Map(std::move(tenant_.fds().at(0)));
  ASSERT_TRUE(memory.ok());
  const auto& region = *reinterpret_cast<const wire::CommRegion*>(memory->data());
  wire::GpuFailed failed{};
  failed.comm_handle = second.comm_handle;
  failed.ended = wire::EndedKernels::kAll;
  std::strncpy(failed.text, "GPU 7 has failed:\nXid 79", sizeof(failed.text) - 1);
  tenant_.Send(failed);
  ASSERT_TRUE(world_.RunUntil([&] { return region.failure.error.load() != 0; }, kNsPerSec));
  EXPECT_EQ(region.failure.error.load(), static_cast<uint32_t>(wire::ErrorClass::kRemote));
  EXPECT_THAT(region.failure.text, HasSubstr("rank 1: GPU 7 has failed:?Xid 79"));
}

TEST_F(OpenSessionTest, AKernelThatCannotBeLaunchedFailsTheCommunicator) {
  for (const auto ended : {wire::EndedKernels::kFromCall, wire::EndedKernels::kNone}) {
    const wire::CommInitReply reply = Init(MakeCommInit(*tenant_.GetUniqueId(), 1, 0));
    ASSERT_EQ(reply.status.error, wire::ErrorClass::kNone) << reply.status.text;
    const auto memory = SharedRegion::Map(std::move(tenant_.fds().at(0)));
    ASSERT_TRUE(memory.ok());
    const auto& region = *reinterpret_cast<const wire::CommRegion*>(memory->data());
    wire::GpuFailed failed{};
    failed.comm_handle = reply.comm_handle;
    failed.ended = ended;
    std::strncpy(failed.text, "too few registers", sizeof(failed.text) - 1);
    tenant_.Send(failed);
    ASSERT_TRUE(world_.RunUntil([&] { return region.failure.error.load() != 0; }, kNsPerSec));
    EXPECT_THAT(region.failure.text, HasSubstr("rank 0: too few registers"));
  }
}

TEST_F(OpenSessionTest, AFailedGpuOfAnUnknownRankHasNoEffect) {
  wire::GpuFailed failed{};
  failed.comm_handle = 77;
  std::memset(failed.text, 'x', sizeof(failed.text));  // no terminator
  tenant_.Send(failed);
  EXPECT_EQ(Init(MakeCommInit(id_, 1, 0)).status.error, wire::ErrorClass::kNone);
}

TEST_F(OpenSessionTest, ADestroyedHandleCannotBeDestroyedAgain) {
  wire::CommDestroy destroy{};
  destroy.comm_handle = Init(MakeCommInit(id_, 1, 0)).comm_handle;
  const uint64_t first = tenant_.Send(destroy);
  EXPECT_THAT(Ask<wire::Done>(destroy).status.text, HasSubstr("not in use"));
  const auto done = tenant_.Await<wire::Done>(first);
  ASSERT_TRUE(done.has_value());
  EXPECT_EQ(done->status.error, wire::ErrorClass::kNone);
}

// The handle is freed only in the session's next turn, after its messages.
TEST_F(OpenSessionTest, AnAbortThatFollowsACompletedDestroyIsAnswered) {
  wire::CommAbort abort{};
  abort.comm_handle = Init(MakeCommInit(id_, 1, 0)).comm_handle;
  EXPECT_EQ(Destroy(abort.comm_handle).status.error, wire::ErrorClass::kNone);
  EXPECT_THAT(Ask<wire::Done>(abort).status.text, HasSubstr("not in use"));
}

TEST_F(OpenSessionTest, AnAbortWhileFormingAnswersInitAndAbortAndNothingElse) {
  const uint64_t init = tenant_.Send(MakeCommInit(id_, 2, 0));
  EXPECT_FALSE(tenant_.Await<wire::CommInitReply>(init, 100 * kNsPerMs).has_value());
  AbortInit(init);
  const auto reply = tenant_.Await<wire::CommInitReply>(init);
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->status.error, wire::ErrorClass::kAborted);
  EXPECT_TRUE(AllEnded());
  EXPECT_TRUE(tenant_.pipe().to_tenant.empty());
}

// The shim sends it while the reply is in transit, and ignores that reply.
TEST_F(OpenSessionTest, AnAbortThatCrossesTheInitReplyEndsTheRank) {
  const uint64_t init = tenant_.Send(MakeCommInit(id_, 1, 0));
  ASSERT_TRUE(tenant_.Await<wire::CommInitReply>(init).has_value());
  EXPECT_EQ(AbortInit(init).status.error, wire::ErrorClass::kNone);
  EXPECT_TRUE(AllEnded());
}

TEST_F(OpenSessionTest, ReportsTheEndOfAnAnnouncedCommunicator) {
  SimController& controller = world_.host(0).controller();
  controller.awaits_proposal = true;
  const uint64_t init = tenant_.Send(MakeCommInit(id_, 1, 0));
  ASSERT_TRUE(world_.RunUntil([&] { return !controller.announced.empty(); }, kNsPerSec));
  AbortInit(init);
  EXPECT_TRUE(AllEnded());
  EXPECT_EQ(controller.ended, controller.announced);
}

TEST_F(OpenSessionTest, DestroyingAHandleThatIsStillFormingAnswersOnce) {
  const uint64_t init = tenant_.Send(MakeCommInit(id_, 2, 0));
  Destroy(0);  // the handle that forms
  EXPECT_TRUE(tenant_.Take<wire::CommInitReply>(init).has_value());
  EXPECT_TRUE(tenant_.pipe().to_tenant.empty());
}

TEST_F(OpenSessionTest, EndsTheSessionOfAProcessThatDoesNotRead) {
  RawTenant other(world_, 1, kBlue);
  ASSERT_TRUE(other.Greet());
  tenant_.Send(MakeCommInit(id_, 2, 0));
  world_.RunFor(10 * kNsPerMs);
  tenant_.pipe().capacity = 0;
  other.Send(MakeCommInit(id_, 2, 1));  // the reply arrives while the tenant sends nothing
  EXPECT_TRUE(Ended());
  EXPECT_TRUE(Logged("does not read the replies"));
}

TEST_F(OpenSessionTest, HandlesHaveALimit) {
  wire::CommInitReply last{};
  for (uint32_t i = 0; i <= wire::kMaxCommsPerSession; ++i) {
    tenant_.Send(MakeCommInit(id_, 1 << 20, static_cast<int>(i)));
  }
  world_.RunUntil(
      [&] {
        for (const SimPipe::Answer& answer : tenant_.pipe().to_tenant) {
          if (answer.bytes.size() == sizeof(last))
            std::memcpy(&last, answer.bytes.data(), sizeof(last));
        }
        return last.header.request != 0;
      },
      kNsPerSec);
  EXPECT_THAT(last.status.text, HasSubstr("limit"));
}

}  // namespace session_test
}  // namespace mccs
