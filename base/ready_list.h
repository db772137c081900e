// The members of a large set that have work: each is the waker of its own link, so that a turn
// costs nothing for the others.
//
// OWNER: the component that has the links. THREAD: the owning engine.
#ifndef MCCS_BASE_READY_LIST_H_
#define MCCS_BASE_READY_LIST_H_

#include <cstddef>
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
      if (listed_) list_.Unlink(*this);
    }
    Member(const Member&) = delete;

    void Wake() final {
      List();
      if (list_.owner_ != nullptr) list_.owner_->Wake();
    }
    // The same without waking the owner, whose turn it is.
    void List() {
      if (!std::exchange(listed_, true)) list_.Append(*this);
    }

   private:
    friend class ReadyList;
    ReadyList& list_;
    bool listed_ = false;
    Member* before_ = nullptr;
    Member* after_ = nullptr;
  };

  // Removes and returns the member that was woken first; null if there is none.
  Member* Next() {
    if (first_ == nullptr) return nullptr;
    Member& member = *first_;
    Unlink(member);
    member.listed_ = false;
    return &member;
  }
  size_t size() const { return size_; }

 private:
  void Append(Member& member) {
    member.before_ = last_;
    member.after_ = nullptr;
    (last_ != nullptr ? last_->after_ : first_) = &member;
    last_ = &member;
    ++size_;
  }
  void Unlink(Member& member) {
    (member.before_ != nullptr ? member.before_->after_ : first_) = member.after_;
    (member.after_ != nullptr ? member.after_->before_ : last_) = member.before_;
    --size_;
  }

  Waker* const owner_;
  // A linked list through the members: many may end in one turn, each in constant time.
  Member* first_ = nullptr;
  Member* last_ = nullptr;
  size_t size_ = 0;
};

}  // namespace mccs

#endif  // MCCS_BASE_READY_LIST_H_
