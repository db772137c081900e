#include "controller/coordinator/pending_dumps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/controller/agent_messages.h"

namespace mccs {
namespace questions_test {

using testing::HasSubstr;

class PendingDumpsTest : public testing::Test {
 protected:
  PendingDumpsTest() {
    for (int i = 0; i < 2; ++i) {
      const agent::v1::FromAgent message = Registration(MakeHost(i == 0 ? "h0" : "h1"));
      EXPECT_TRUE(registry_.Register(AgentKey(i + 1), message.registration(), 0).ok());
    }
  }
  absl::StatusOr<uint64_t> Add(const std::string& host, MonotonicNs now = 0) {
    return dumps_.Add(registry_, host, now, [this](const auto& state) { called_ = state.ok(); });
  }
  std::string Rejection(const std::string& host, MonotonicNs now = 0) {
    const auto asked = Add(host, now);
    return asked.ok() ? "asked" : std::string(asked.status().message());
  }
  // The error of the only answer.
  absl::Status TakeError() {
    const std::vector<StateAnswer> answers = dumps_.TakeAnswers();
    return answers.size() == 1 ? answers[0].state.status() : absl::OkStatus();
  }

  Registry registry_;
  PendingDumps dumps_{1};
  bool called_ = false;
};

TEST_F(PendingDumpsTest, AcceptsOneAnswerFromTheRightHost) {
  const auto asked = Add("h0");
  ASSERT_TRUE(asked.ok()) << asked.status();
  state::Daemon state;
  state.set_host("h0");
  dumps_.Handle("h1", *asked, state);
  EXPECT_TRUE(dumps_.TakeAnswers().empty());
  dumps_.Handle("h0", *asked, state);
  dumps_.Handle("h0", *asked, state);
  const std::vector<StateAnswer> answers = dumps_.TakeAnswers();
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].state->host(), "h0");
  answers[0].callback(answers[0].state);
  EXPECT_TRUE(called_);
  EXPECT_TRUE(dumps_.TakeAnswers().empty());
}

TEST_F(PendingDumpsTest, RejectsUnknownAndLostHosts) {
  EXPECT_EQ(Rejection("h9"), "unknown host 'h9'; registered hosts: h0, h1");
  registry_.MarkLost("h1", "its connection closed", kNsPerSec);
  EXPECT_THAT(Rejection("h1", 3 * kNsPerSec),
              HasSubstr("host h1 is lost since 2 s: its connection closed"));
  const absl::Status why = dumps_.Add(Registry(), "h0", 0, nullptr).status();
  EXPECT_TRUE(absl::IsNotFound(why));
  EXPECT_THAT(why.message(), HasSubstr("none has registered"));
}

TEST_F(PendingDumpsTest, LostHostFailsItsRequests) {
  ASSERT_TRUE(Add("h0").ok());
  ASSERT_TRUE(Add("h1").ok());
  dumps_.OnHostLost("h1", "silent for more than 3000 ms");
  EXPECT_THAT(TakeError().message(), HasSubstr("host h1 was lost before it answered: silent"));
}

TEST_F(PendingDumpsTest, RequestWithoutAnswerExpires) {
  const auto asked = Add("h0");
  dumps_.Expire(PendingDumps::kTimeoutNs - 1);
  EXPECT_TRUE(dumps_.TakeAnswers().empty());
  dumps_.Expire(PendingDumps::kTimeoutNs);
  EXPECT_TRUE(absl::IsAborted(TakeError()));
  dumps_.Handle("h0", *asked, {});
  EXPECT_TRUE(dumps_.TakeAnswers().empty()) << "too late";
}

TEST_F(PendingDumpsTest, LimitsOpenRequestsPerDaemon) {
  for (size_t i = 0; i < PendingDumps::kMaxOpenPerHost; ++i) EXPECT_EQ(Rejection("h0"), "asked");
  EXPECT_THAT(Rejection("h0"), HasSubstr("already has 4 open requests"));
  EXPECT_EQ(Rejection("h1"), "asked");
  dumps_.Expire(PendingDumps::kTimeoutNs);
  EXPECT_EQ(Rejection("h0"), "asked");
}

TEST_F(PendingDumpsTest, StopFailsOpenAndLaterRequests) {
  ASSERT_TRUE(Add("h0").ok());
  dumps_.Stop();
  EXPECT_EQ(TakeError().message(), "the controller is stopping");
  EXPECT_EQ(Rejection("h0"), "the controller is stopping");
}

}  // namespace questions_test
}  // namespace mccs
