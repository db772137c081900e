// The contract of Store, as tests. A program includes this file, defines a world and instantiates
// StoreContract with it.
#ifndef MCCS_TESTS_CONTRACT_STORE_CONTRACT_H_
#define MCCS_TESTS_CONTRACT_STORE_CONTRACT_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "controller/store/store.h"

namespace mccs {

// A store, and a restart of the program that uses it.
class StoreWorld {
 public:
  virtual ~StoreWorld() = default;
  virtual Store& store() = 0;
  virtual void Restart() = 0;
};

struct StoreWorldMaker {
  std::string name;
  std::function<std::unique_ptr<StoreWorld>()> make;
};

class StoreContract : public testing::TestWithParam<StoreWorldMaker> {
 protected:
  void Commit(const StoreChange& change) {
    const absl::Status status = store().Commit(change);
    ASSERT_TRUE(status.ok()) << status;
  }
  StoredState Load() {
    absl::StatusOr<StoredState> state = store().Load();
    EXPECT_TRUE(state.ok()) << state.status();
    return state.ok() ? *std::move(state) : StoredState();
  }
  std::vector<AuditEntry> Audit(size_t limit) {
    absl::StatusOr<std::vector<AuditEntry>> entries = store().Audit(limit);
    EXPECT_TRUE(entries.ok()) << entries.status();
    return entries.ok() ? *std::move(entries) : std::vector<AuditEntry>();
  }
  static StoreChange Putting(uint64_t revision, const StoredObject& object) {
    StoreChange change;
    change.revision = revision;
    change.put_objects.push_back(object);
    return change;
  }
  Store& store() { return world_->store(); }

  std::unique_ptr<StoreWorld> world_ = GetParam().make();
};

// Bytes that are not UTF-8, and quotes.
inline const std::string kOddBytes = std::string("\0\xff'\";--\n", 8);

TEST_P(StoreContract, ANewStoreIsEmpty) {
  const StoredState state = Load();
  EXPECT_EQ(state.revision, 0u);
  EXPECT_TRUE(state.objects.empty());
  EXPECT_TRUE(state.strategies.empty());
  EXPECT_TRUE(Audit(10).empty());
}

TEST_P(StoreContract, CommittedChangesSurviveARestart) {
  StoreChange change;
  change.revision = 1;
  change.put_objects = {{"Tenant", "b", 1, "text b\n"}, {"Policy", "p'; --", 1, "naïve\n"}};
  change.put_strategies = {{CommId(0xfedcba9876543210), kOddBytes}, {CommId(1), ""}};
  change.audit = {{0, 1234567890123456789, "ipv4:1.2.3.4:5", "ann", "apply", "x", "done", 1, true},
                  {0, 1234567890123456790, "ipv4:1.2.3.4:5", "ann", "apply", "x", "done", 1}};
  Commit(change);
  for (int restarts = 0; restarts < 2; ++restarts, world_->Restart()) {
    const StoredState state = Load();
    EXPECT_EQ(state.revision, 1u);
    EXPECT_THAT(state.objects, testing::ElementsAre(change.put_objects[1], change.put_objects[0]));
    EXPECT_THAT(state.strategies, testing::UnorderedElementsAreArray(change.put_strategies));
    AuditEntry proven = change.audit[0], claimed = change.audit[1];
    proven.number = 1;
    claimed.number = 2;
    EXPECT_THAT(Audit(10), testing::ElementsAre(claimed, proven));
  }
}

TEST_P(StoreContract, PutReplacesAndEraseRemoves) {
  Commit(Putting(1, {"Tenant", "a", 1, "one"}));
  Commit(Putting(2, {"Tenant", "a", 2, "two"}));
  Commit(Putting(3, {"Policy", "a", 3, "another kind"}));
  EXPECT_THAT(Load().objects, testing::ElementsAre(StoredObject{"Policy", "a", 3, "another kind"},
                                                   StoredObject{"Tenant", "a", 2, "two"}));
  StoreChange change;
  change.revision = 4;
  change.erase_objects = {{"Tenant", "a"}, {"Tenant", "never there"}};
  change.put_strategies = {{CommId(7), "x"}};
  Commit(change);
  change = {};
  change.put_strategies = {{CommId(7), "y"}, {CommId(8), "z"}};
  change.erase_strategies = {CommId(9)};
  Commit(change);
  change = {};
  change.erase_strategies = {CommId(8)};
  Commit(change);
  world_->Restart();
  EXPECT_EQ(Load().revision, 4u) << "strategies do not change the revision";
  EXPECT_THAT(Load().objects, testing::ElementsAre(StoredObject{"Policy", "a", 3, "another kind"}));
  EXPECT_THAT(Load().strategies, testing::ElementsAre(StoredStrategy{CommId(7), "y"}));
}

TEST_P(StoreContract, AnOutOfOrderRevisionChangesNothing) {
  Commit(Putting(1, {"Tenant", "a", 1, "one"}));
  for (const uint64_t revision : {0u, 3u, 100u}) {
    StoreChange change = Putting(revision, {"Tenant", "b", revision, "two"});
    change.erase_objects = {{"Tenant", "a"}};
    change.audit = {{0, 1, "", "", "apply", "", "done", revision}};
    EXPECT_EQ(store().Commit(change).code(), absl::StatusCode::kFailedPrecondition);
  }
  EXPECT_EQ(Load().objects.size(), 1u);
  EXPECT_TRUE(Audit(10).empty());
}

TEST_P(StoreContract, TheAuditLogIsReadFromTheNewestEntry) {
  for (int i = 1; i <= 5; ++i) {
    if (i == 4) world_->Restart();
    StoreChange change;
    change.audit = {{0, i, "peer", "user", "apply", "", absl::StrCat("outcome ", i), 0}};
    Commit(change);
  }
  const std::vector<AuditEntry> entries = Audit(3);
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[0].number, 5u);
  EXPECT_EQ(entries[0].outcome, "outcome 5");
  EXPECT_EQ(entries[2].number, 3u);
  EXPECT_EQ(Audit(100).size(), 5u);
}

TEST_P(StoreContract, TheAuditLogHasALimit) {
  StoreChange change;
  change.audit.resize(Store::kMaxAuditEntries + 3);
  Commit(change);
  const std::vector<AuditEntry> entries = Audit(2 * Store::kMaxAuditEntries);
  EXPECT_EQ(entries.size(), Store::kMaxAuditEntries);
  EXPECT_EQ(entries.back().number, 4u) << "the oldest entries were dropped";
}

}  // namespace mccs

#endif  // MCCS_TESTS_CONTRACT_STORE_CONTRACT_H_
