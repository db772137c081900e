#include "controller/api/change_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/unit/eventually.h"

namespace mccs {
namespace change_queue_test {

using testing::ElementsAre;
using testing::HasSubstr;

// A queue whose thread waits in a change of "first" until Release.
class ChangeQueueTest : public testing::Test {
 protected:
  ChangeQueueTest() {
    std::promise<void> runs;
    EXPECT_TRUE(queue_
                    .Add("first",
                         [&](bool) {
                           runs.set_value();
                           release_.get_future().wait();
                         })
                    .ok());
    runs.get_future().wait();
  }
  ~ChangeQueueTest() override { Release(); }

  void Release() {
    if (!std::exchange(released_, true)) release_.set_value();
  }
  // The changes note in order what they are, and whether they ran.
  absl::Status Add(const std::string& user, const std::string& name) {
    return queue_.Add(user, [this, name](bool runs) {
      const std::lock_guard lock(mutex_);
      done_.push_back(name + (runs ? "" : " ended"));
    });
  }
  std::vector<std::string> done() {
    const std::lock_guard lock(mutex_);
    return done_;
  }

  std::promise<void> release_;
  bool released_ = false;
  std::mutex mutex_;
  std::vector<std::string> done_;
  ChangeQueue queue_;
};

TEST_F(ChangeQueueTest, OperatorsTakeTurns) {
  for (const char* name : {"a1", "a2", "a3"}) EXPECT_TRUE(Add("ann", name).ok());
  for (const char* name : {"b1", "b2"}) EXPECT_TRUE(Add("bob", name).ok());
  Release();
  EXPECT_TRUE(Eventually([&] { return done().size() == 5; }));
  EXPECT_THAT(done(), ElementsAre("a1", "b1", "a2", "b2", "a3"));
}

TEST_F(ChangeQueueTest, RefusesTheChangesOfAnOperatorWhoHasMany) {
  for (size_t i = 0; i < ChangeQueue::kMaxOfOneOperator; ++i) EXPECT_TRUE(Add("ann", "a").ok());
  EXPECT_THAT(std::string(Add("ann", "a").message()), HasSubstr("8 changes of ann wait already"));
  EXPECT_TRUE(Add("bob", "b").ok());
}

TEST_F(ChangeQueueTest, RefusesMoreThanItHolds) {
  for (size_t i = 0; i < ChangeQueue::kMaxWaiting; ++i)
    EXPECT_TRUE(Add(std::to_string(i), "x").ok());
  EXPECT_THAT(std::string(Add("ann", "a").message()), HasSubstr("256 changes of operators wait"));
}

TEST_F(ChangeQueueTest, EndsThoseThatWaitWhenItStops) {
  EXPECT_TRUE(Add("ann", "a").ok());
  std::thread stop([&] { queue_.Stop(); });
  EXPECT_TRUE(Eventually([&] { return absl::IsUnavailable(Add("bob", "b")); }));
  Release();
  stop.join();
  EXPECT_THAT(done().front(), HasSubstr("ended"));
}

}  // namespace change_queue_test
}  // namespace mccs
