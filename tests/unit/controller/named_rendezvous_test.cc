#include "controller/coordinator/named_rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace mccs {
namespace named_rendezvous_test {

using testing::ElementsAre;
using testing::IsEmpty;

class NamedRendezvousTableTest : public testing::Test {
 protected:
  void Set(const std::string& host, const std::vector<uint64_t>& open,
           const std::vector<uint64_t>& sought = {}) {
    agent::v1::NamedRendezvous all;
    for (const uint64_t id : open) all.add_open(id);
    for (const uint64_t id : sought) all.add_sought(id);
    table_.Set(host, all);
  }
  // "h1: 7 at h0".
  std::vector<std::string> Answers() {
    std::vector<std::string> texts;
    for (const NamedRendezvousTable::Answer& answer : table_.TakeAnswers())
      texts.push_back(absl::StrCat(answer.to, ": ", answer.id, " at ", answer.host));
    return texts;
  }

  NamedRendezvousTable table_;
};

TEST_F(NamedRendezvousTableTest, AnswersInEitherOrder) {
  Set("h1", {}, {7});
  EXPECT_THAT(Answers(), IsEmpty());
  Set("h0", {7});
  EXPECT_THAT(Answers(), ElementsAre("h1: 7 at h0"));
  Set("h2", {}, {7, 8});
  EXPECT_THAT(Answers(), ElementsAre("h2: 7 at h0"));
  EXPECT_THAT(Answers(), IsEmpty());
}

TEST_F(NamedRendezvousTableTest, AnswersAgainIfItMoves) {
  Set("h0", {7});
  Set("h1", {}, {7});
  EXPECT_THAT(Answers(), ElementsAre("h1: 7 at h0"));
  Set("h0", {});
  EXPECT_THAT(Answers(), IsEmpty());
  Set("h2", {7});
  EXPECT_THAT(Answers(), ElementsAre("h1: 7 at h2"));
}

TEST_F(NamedRendezvousTableTest, OfSeveralTheLastOneCounts) {
  Set("h0", {7});
  Set("h2", {7});
  Set("h0", {7, 9});
  Set("h1", {}, {7});
  EXPECT_THAT(Answers(), ElementsAre("h1: 7 at h2"));
  Set("h2", {});
  EXPECT_THAT(Answers(), ElementsAre("h1: 7 at h0"));
}

TEST_F(NamedRendezvousTableTest, AHostThatReturnsIsAnsweredAgain) {
  Set("h0", {7});
  Set("h1", {}, {7});
  EXPECT_THAT(Answers(), ElementsAre("h1: 7 at h0"));
  table_.Remove("h1");
  EXPECT_THAT(Answers(), IsEmpty());
  Set("h1", {}, {7});
  EXPECT_THAT(Answers(), ElementsAre("h1: 7 at h0"));
}

TEST_F(NamedRendezvousTableTest, ForgetsWhatNoHostSeeks) {
  Set("h0", {7});
  Set("h1", {}, {7, 8});
  Answers();
  table_.Remove("h0");
  Set("h1", {}, {8});
  EXPECT_THAT(Answers(), IsEmpty());
  Set("h1", {}, {7, 8});
  EXPECT_THAT(Answers(), IsEmpty());
}

}  // namespace named_rendezvous_test
}  // namespace mccs
