// The members of a large set that have work: each is the waker of its own link, so that a turn
// costs nothing for the others.
//
// OWNER: the component that has the links. THREAD: the owning engine.
#ifndef MCCS_BASE_READY_LIST_H_
#define MCCS_BASE_READY_LIST_H_

#include <cstddef>
#include <deque>
#include <utility>

#include "base/waker.h"

namespace mccs {

class ReadyList {
 public:
  // Wakes `owner` with each member; null: the owner polls anyway. LIFETIME: it outlives the list.
  explicit ReadyList(Waker* owner = nullptr) : owner_(owner) {}
  ReadyList(const ReadyList&) = delete;

  // LIFETIME: the list outlives its members.
  class Member : public Waker {
   public:
    explicit Member(ReadyList& list) : list_(list) {}
    ~Member() override {
      if (listed_) std::erase(list_.ready_, this);
    }
    Member(const Member&) = delete;

    void Wake() final {
      List();
      if (list_.owner_ != nullptr) list_.owner_->Wake();
    }
    // The same without waking the owner, whose turn it is.
    void List() {
      if (!std::exchange(listed_, true)) list_.ready_.push_back(this);
    }

   private:
    friend class ReadyList;
    ReadyList& list_;
    bool listed_ = false;
  };

  // Removes and returns the member that was woken first; null if there is none.
  Member* Next() {
    if (ready_.empty()) return nullptr;
    Member* const member = ready_.front();
    ready_.pop_front();
    member->listed_ = false;
    return member;
  }
  size_t size() const { return ready_.size(); }

 private:
  Waker* const owner_;
  std::deque<Member*> ready_;
};

}  // namespace mccs

#endif  // MCCS_BASE_READY_LIST_H_
