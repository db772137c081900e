#include "controller/questions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/controller/announcements.h"

namespace mccs {
namespace questions_test {

using testing::HasSubstr;

class QuestionsTest : public testing::Test {
 protected:
  QuestionsTest() {
    for (int i = 0; i < 2; ++i) {
      const agent::FromAgent message = Registration(MakeHost(i == 0 ? "h0" : "h1"));
      EXPECT_TRUE(registry_.Register(AgentKey(i + 1), message.registration(), 0).ok());
    }
  }
  std::string Refusal(const std::string& host, MonotonicNs now = 0) {
    const auto asked = questions_.Ask(registry_, host, now);
    return asked.ok() ? "asked" : std::string(asked.status().message());
  }

  Registry registry_;
  Questions questions_;
};

TEST_F(QuestionsTest, AnAnswerComesOnceAndFromWhomItWasAsked) {
  const auto asked = questions_.Ask(registry_, "h0", 0);
  ASSERT_TRUE(asked.ok()) << asked.status();
  state::Daemon state;
  state.set_host("h0");
  questions_.Hear("h1", *asked, state);
  EXPECT_TRUE(questions_.TakeAnswers().empty());
  questions_.Hear("h0", *asked, state);
  questions_.Hear("h0", *asked, state);
  const std::vector<StateAnswer> answers = questions_.TakeAnswers();
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].question, *asked);
  EXPECT_EQ(answers[0].state->host(), "h0");
  EXPECT_TRUE(questions_.TakeAnswers().empty());
}

TEST_F(QuestionsTest, WhoCannotBeAskedIsSaid) {
  EXPECT_EQ(Refusal("h9"), "unknown host 'h9'; there are h0, h1");
  registry_.Lose("h1", "its connection closed", kNsPerSec);
  EXPECT_THAT(Refusal("h1", 3 * kNsPerSec),
              HasSubstr("host h1 is lost since 2 s: its connection closed"));
  const absl::Status why = questions_.Ask(Registry(), "h0", 0).status();
  EXPECT_TRUE(absl::IsNotFound(why));
  EXPECT_THAT(std::string(why.message()), HasSubstr("none has registered"));
}

TEST_F(QuestionsTest, AHostThatIsLostMeanwhileIsSaid) {
  ASSERT_TRUE(questions_.Ask(registry_, "h0", 0).ok());
  const auto other = questions_.Ask(registry_, "h1", 0);
  questions_.Lost("h1", "silent for more than 3000 ms");
  const std::vector<StateAnswer> answers = questions_.TakeAnswers();
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].question, *other);
  EXPECT_THAT(std::string(answers[0].state.status().message()),
              HasSubstr("host h1 was lost before it answered: silent"));
}

TEST_F(QuestionsTest, ADaemonThatSaysNothingIsGivenUp) {
  const auto asked = questions_.Ask(registry_, "h0", 0);
  questions_.Expire(Questions::kPatienceNs - 1);
  EXPECT_TRUE(questions_.TakeAnswers().empty());
  questions_.Expire(Questions::kPatienceNs);
  const std::vector<StateAnswer> answers = questions_.TakeAnswers();
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_TRUE(absl::IsAborted(answers[0].state.status()));
  questions_.Hear("h0", *asked, {});
  EXPECT_TRUE(questions_.TakeAnswers().empty()) << "too late";
}

TEST_F(QuestionsTest, OneDaemonIsNotAskedWithoutEnd) {
  for (size_t i = 0; i < Questions::kMaxOpenPerHost; ++i) EXPECT_EQ(Refusal("h0"), "asked");
  EXPECT_THAT(Refusal("h0"), HasSubstr("already has 4 open requests"));
  EXPECT_EQ(Refusal("h1"), "asked");
  questions_.Expire(Questions::kPatienceNs);
  EXPECT_EQ(Refusal("h0"), "asked");
}

}  // namespace questions_test
}  // namespace mccs
