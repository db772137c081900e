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
  std::string Refusal(const std::string& host, MonotonicNs now = 0) {
    const auto asked = dumps_.Add(registry_, host, now);
    return asked.ok() ? "asked" : std::string(asked.status().message());
  }

  Registry registry_;
  PendingDumps dumps_;
};

TEST_F(PendingDumpsTest, AcceptsOneAnswerFromTheRightHost) {
  const auto asked = dumps_.Add(registry_, "h0", 0);
  ASSERT_TRUE(asked.ok()) << asked.status();
  state::Daemon state;
  state.set_host("h0");
  dumps_.Handle("h1", *asked, state);
  EXPECT_TRUE(dumps_.TakeAnswers().empty());
  dumps_.Handle("h0", *asked, state);
  dumps_.Handle("h0", *asked, state);
  const std::vector<StateAnswer> answers = dumps_.TakeAnswers();
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].request_id, *asked);
  EXPECT_EQ(answers[0].state->host(), "h0");
  EXPECT_TRUE(dumps_.TakeAnswers().empty());
}

TEST_F(PendingDumpsTest, RejectsUnknownAndLostHosts) {
  EXPECT_EQ(Refusal("h9"), "unknown host 'h9'; there are h0, h1");
  registry_.MarkLost("h1", "its connection closed", kNsPerSec);
  EXPECT_THAT(Refusal("h1", 3 * kNsPerSec),
              HasSubstr("host h1 is lost since 2 s: its connection closed"));
  const absl::Status why = dumps_.Add(Registry(), "h0", 0).status();
  EXPECT_TRUE(absl::IsNotFound(why));
  EXPECT_THAT(std::string(why.message()), HasSubstr("none has registered"));
}

TEST_F(PendingDumpsTest, LostHostFailsItsRequests) {
  ASSERT_TRUE(dumps_.Add(registry_, "h0", 0).ok());
  const auto other = dumps_.Add(registry_, "h1", 0);
  dumps_.OnHostLost("h1", "silent for more than 3000 ms");
  const std::vector<StateAnswer> answers = dumps_.TakeAnswers();
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].request_id, *other);
  EXPECT_THAT(std::string(answers[0].state.status().message()),
              HasSubstr("host h1 was lost before it answered: silent"));
}

TEST_F(PendingDumpsTest, RequestWithoutAnswerExpires) {
  const auto asked = dumps_.Add(registry_, "h0", 0);
  dumps_.Expire(PendingDumps::kTimeoutNs - 1);
  EXPECT_TRUE(dumps_.TakeAnswers().empty());
  dumps_.Expire(PendingDumps::kTimeoutNs);
  const std::vector<StateAnswer> answers = dumps_.TakeAnswers();
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_TRUE(absl::IsAborted(answers[0].state.status()));
  dumps_.Handle("h0", *asked, {});
  EXPECT_TRUE(dumps_.TakeAnswers().empty()) << "too late";
}

TEST_F(PendingDumpsTest, LimitsOpenRequestsPerDaemon) {
  for (size_t i = 0; i < PendingDumps::kMaxOpenPerHost; ++i) EXPECT_EQ(Refusal("h0"), "asked");
  EXPECT_THAT(Refusal("h0"), HasSubstr("already has 4 open requests"));
  EXPECT_EQ(Refusal("h1"), "asked");
  dumps_.Expire(PendingDumps::kTimeoutNs);
  EXPECT_EQ(Refusal("h0"), "asked");
}

}  // namespace questions_test
}  // namespace mccs
