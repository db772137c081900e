#include "controller/coordinator/named_rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace mccs {
namespace named_rendezvous_test {

using testing::ElementsAre;
using testing::IsEmpty;

class NamedRendezvousTableTest : public testing::Test {
 protected:
  absl::Status TrySet(const std::string& host, const std::vector<uint64_t>& open,
                      const std::vector<uint64_t>& sought = {}) {
    agent::v1::NamedRendezvous all;
    for (const uint64_t id : open) all.add_open(id);
    for (const uint64_t id : sought) all.add_sought(id);
    return table_.Set(host, all);
  }
  void Set(const std::string& host, const std::vector<uint64_t>& open,
           const std::vector<uint64_t>& sought = {}) {
    EXPECT_TRUE(TrySet(host, open, sought).ok());
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

// A lying daemon could compute the number of another host's rendezvous and open it as well.
TEST_F(NamedRendezvousTableTest, OfSeveralTheFirstOneCountsWhileItIsConnected) {
  Set("h0", {7});
  Set("h1", {}, {7});
  EXPECT_THAT(Answers(), ElementsAre("h1: 7 at h0"));
  Set("h2", {7});
  Set("h3", {}, {7});
  EXPECT_THAT(Answers(), ElementsAre("h3: 7 at h0"));
  Set("h0", {7, 9});
  EXPECT_THAT(Answers(), IsEmpty());
  table_.Remove("h0");
  EXPECT_THAT(Answers(), ElementsAre("h1: 7 at h2", "h3: 7 at h2"));
  Set("h0", {7});
  EXPECT_THAT(Answers(), IsEmpty());
  Set("h2", {});
  EXPECT_THAT(Answers(), ElementsAre("h1: 7 at h0", "h3: 7 at h0"));
}

TEST_F(NamedRendezvousTableTest, AHostHasAndSeeksABoundedNumber) {
  std::vector<uint64_t> ids(2 * NamedRendezvousTable::kMaxPerHost);
  std::iota(ids.begin(), ids.end(), 1);
  const std::vector<uint64_t> allowed(ids.begin(), ids.begin() + NamedRendezvousTable::kMaxPerHost);
  Set("h0", allowed, allowed);
  for (const absl::Status& status : {TrySet("h0", ids, allowed), TrySet("h1", allowed, ids)}) {
    EXPECT_TRUE(absl::IsResourceExhausted(status));
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("only the first 4096"));
  }
  EXPECT_EQ(Answers().size(), 2 * NamedRendezvousTable::kMaxPerHost);
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
