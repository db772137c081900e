#include "base/ready_list.h"

#include <gtest/gtest.h>

#include <list>
#include <vector>

namespace mccs {
namespace ready_list_test {

TEST(ReadyList, ReturnsMembersInTheOrderOfTheirWakes) {
  ReadyList list;
  ReadyList::Member a(list), b(list), c(list);
  for (ReadyList::Member* member : {&b, &a, &b, &c}) member->Wake();
  EXPECT_EQ(list.size(), 3u);
  for (ReadyList::Member* member : {&b, &a, &c}) EXPECT_EQ(list.Next(), member);
  EXPECT_EQ(list.Next(), nullptr);
  a.Wake();
  EXPECT_EQ(list.Next(), &a);
}

TEST(ReadyList, ForgetsMembersThatEnd) {
  ReadyList list;
  std::list<ReadyList::Member> members;
  for (int i = 0; i < 4; ++i) members.emplace_back(list).Wake();
  ReadyList::Member* const second = &*std::next(members.begin());
  members.erase(std::next(members.begin(), 2));
  members.pop_front();
  members.pop_back();
  EXPECT_EQ(list.size(), 1u);
  EXPECT_EQ(list.Next(), second);
  EXPECT_EQ(list.size(), 0u);
}

class CountedWaker final : public Waker {
 public:
  void Wake() override { ++wakes; }
  int wakes = 0;
};

TEST(ReadyList, WakesItsOwnerUnlessAMemberIsOnlyListed) {
  CountedWaker owner;
  ReadyList list(&owner);
  ReadyList::Member member(list);
  member.List();
  EXPECT_EQ(owner.wakes, 0);
  member.Wake();
  member.Wake();
  EXPECT_EQ(owner.wakes, 2);
  EXPECT_EQ(list.size(), 1u);
}

}  // namespace ready_list_test
}  // namespace mccs
