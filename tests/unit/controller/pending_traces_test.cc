#include "controller/coordinator/pending_traces.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/unit/controller/agent_messages.h"

namespace mccs {
namespace pending_traces_test {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr CommId kId{9};

class PendingTracesTest : public testing::Test {
 protected:
  PendingTracesTest() {
    for (int i = 0; i < 2; ++i) {
      const agent::v1::FromAgent message = Registration(MakeHost(absl::StrCat("h", i)));
      EXPECT_TRUE(registry_.Register(AgentKey(i + 1), message.registration(), 0).ok());
    }
    for (uint64_t id = 9; id < 9 + 2 * PendingTraces::kMaxOpen; ++id) Announce(id, 2);
  }
  void Announce(uint64_t id, int hosts) {
    std::vector<std::string> names;
    for (int h = 0; h < hosts; ++h) names.push_back(absl::StrCat("h", h));
    EXPECT_TRUE(registry_.Announce("h0", MakeAnnounce(id, names), 0).ok());
  }
  absl::StatusOr<PendingTraces::Started> Add(CommId id = kId, uint32_t operations = 100) {
    return traces_.Add(registry_, id, operations, 0, [](const auto&) {});
  }
  std::string Rejection(CommId id = kId, uint32_t operations = 100) {
    const auto added = Add(id, operations);
    return added.ok() ? "added" : std::string(added.status().message());
  }
  static trace::Host TraceOf(uint64_t number) {
    trace::Host trace;
    trace.add_operations()->set_number(number);
    return trace;
  }
  control::v1::TraceReply TakeReply() {
    const std::vector<TraceAnswer> answers = traces_.TakeAnswers();
    EXPECT_EQ(answers.size(), 1u);
    return answers.empty() || !answers[0].reply.ok() ? control::v1::TraceReply()
                                                     : *answers[0].reply;
  }

  Registry registry_;
  PendingTraces traces_{1};
};

TEST_F(PendingTracesTest, AnswersWhenEveryHostHasSentItsTrace) {
  const auto started = Add();
  ASSERT_TRUE(started.ok()) << started.status();
  EXPECT_THAT(started->agents, ElementsAre(AgentKey(1), AgentKey(2)));
  traces_.Handle("h1", started->request_id, TraceOf(7),
                 ClockReading{.offset_ns = 5, .error_ns = 2});
  traces_.Handle("h1", started->request_id, TraceOf(8), std::nullopt);
  traces_.Handle("h9", started->request_id, TraceOf(8), std::nullopt);
  EXPECT_TRUE(traces_.TakeAnswers().empty());
  traces_.Handle("h0", started->request_id, TraceOf(6), std::nullopt);
  const control::v1::TraceReply reply = TakeReply();
  EXPECT_EQ(reply.id(), FormatCommId(kId));
  ASSERT_EQ(reply.hosts_size(), 2);
  EXPECT_EQ(reply.hosts(0).host(), "h0");
  EXPECT_EQ(reply.hosts(0).operations(0).number(), 6u);
  EXPECT_FALSE(reply.hosts(0).has_clock_offset_ns());
  EXPECT_EQ(reply.hosts(1).host(), "h1");
  EXPECT_EQ(reply.hosts(1).requested(), 100u);
  EXPECT_EQ(reply.hosts(1).operations(0).number(), 7u);
  EXPECT_EQ(reply.hosts(1).clock_offset_ns(), 5);
  EXPECT_EQ(reply.hosts(1).clock_error_ns(), 2);
}

TEST_F(PendingTracesTest, LostHostsFailOnlyTheirPart) {
  registry_.MarkLost("h1", "its connection closed", 0);
  const auto started = Add();
  ASSERT_TRUE(started.ok()) << started.status();
  EXPECT_THAT(started->agents, ElementsAre(AgentKey(1)));
  traces_.OnHostLost("h0", "silent");
  const control::v1::TraceReply reply = TakeReply();
  EXPECT_EQ(reply.hosts(0).error(), "it was lost during the trace: silent");
  EXPECT_THAT(reply.hosts(1).error(), HasSubstr("it is lost since"));
  EXPECT_TRUE(Add().ok()) << "all hosts of the first one are known";
  EXPECT_EQ(traces_.TakeAnswers().size(), 0u);
}

TEST_F(PendingTracesTest, AnswersAtOnceIfAllHostsAreLost) {
  for (const char* host : {"h0", "h1"}) registry_.MarkLost(host, "its connection closed", 0);
  const auto started = Add();
  ASSERT_TRUE(started.ok()) << started.status();
  EXPECT_TRUE(started->agents.empty());
  EXPECT_THAT(TakeReply().hosts(0).error(), HasSubstr("it is lost since"));
}

TEST_F(PendingTracesTest, SilentHostExpires) {
  const auto started = Add();
  traces_.Handle("h0", started->request_id, TraceOf(6), std::nullopt);
  traces_.Expire(PendingTraces::kTimeoutNs - 1);
  EXPECT_TRUE(traces_.TakeAnswers().empty());
  traces_.Expire(PendingTraces::kTimeoutNs);
  const control::v1::TraceReply reply = TakeReply();
  EXPECT_EQ(reply.hosts(0).operations_size(), 1);
  EXPECT_THAT(reply.hosts(1).error(), HasSubstr("has not answered within 13 s"));
}

TEST_F(PendingTracesTest, RejectsASecondTraceOfACommunicator) {
  const auto started = Add();
  EXPECT_THAT(Rejection(),
              HasSubstr("a trace of communicator 0000000000000009 is already running"));
  for (const char* host : {"h0", "h1"})
    traces_.Handle(host, started->request_id, TraceOf(1), std::nullopt);
  EXPECT_EQ(Rejection(), "added");
}

TEST_F(PendingTracesTest, BoundsTracesAndOperations) {
  EXPECT_THAT(Rejection(kId, 0), HasSubstr("expected 1 to 1000"));
  EXPECT_THAT(Rejection(kId, 1001), HasSubstr("expected 1 to 1000"));
  Announce(1000, 300);
  EXPECT_THAT(Rejection(CommId(1000), 1000),
              HasSubstr("1000 operations on 300 hosts: the limit is 200000 together; "
                        "trace at most 666"));
  for (uint64_t i = 0; i < PendingTraces::kMaxOpen; ++i)
    EXPECT_EQ(Rejection(CommId(9 + i)), "added");
  EXPECT_THAT(Rejection(CommId(9 + PendingTraces::kMaxOpen)),
              HasSubstr("4 traces are already running"));
}

TEST_F(PendingTracesTest, CancelReturnsTheHostsThatStillTrace) {
  const auto started = Add();
  traces_.Handle("h0", started->request_id, TraceOf(1), std::nullopt);
  EXPECT_THAT(traces_.Cancel(started->request_id), ElementsAre(AgentKey(2)));
  const std::vector<TraceAnswer> answers = traces_.TakeAnswers();
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_TRUE(absl::IsCancelled(answers[0].reply.status()));
  EXPECT_TRUE(traces_.Cancel(started->request_id).empty());
  EXPECT_EQ(Rejection(), "added");
}

TEST_F(PendingTracesTest, StopFailsOpenAndLaterRequests) {
  ASSERT_TRUE(Add().ok());
  traces_.Stop();
  EXPECT_FALSE(traces_.TakeAnswers().at(0).reply.ok());
  EXPECT_EQ(Rejection(), "the controller is stopping");
}

}  // namespace pending_traces_test
}  // namespace mccs
