// A priority queue of numbers, with the lowest level first and levels that can change: a binary
// heap that knows each number's place (source: the priority queue with DECREASE-KEY of Cormen et
// al., Introduction to Algorithms, chapter 6.5).
//
// Equal levels are sorted by number, so that results do not depend on history.
#ifndef MCCS_TOPOLOGY_LEVEL_HEAP_H_
#define MCCS_TOPOLOGY_LEVEL_HEAP_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mccs {

class LevelHeap {
 public:
  // For the numbers 0 … count − 1. Initially empty.
  explicit LevelHeap(size_t count) : places_(count, kNowhere) {}

  bool empty() const { return heap_.empty(); }

  // The lowest entry. REQUIRES: not empty.
  double level() const { return heap_.front().level; }
  int32_t number() const { return heap_.front().number; }

  // Adds `number`, or lowers its level; a level that is not lower changes nothing.
  void Lower(int32_t number, double level);
  // Raises the level of the lowest entry. REQUIRES: not empty, level ≥ level().
  void RaiseLowest(double level);
  // Removes the lowest entry. REQUIRES: not empty.
  void DropLowest();

 private:
  static constexpr int32_t kNowhere = -1;

  struct Entry {
    double level;
    int32_t number;

    bool Before(const Entry& other) const {
      return level < other.level || (level == other.level && number < other.number);
    }
  };

  void Put(size_t place, Entry entry) {
    heap_[place] = entry;
    places_[entry.number] = static_cast<int32_t>(place);
  }
  void Rise(size_t place, Entry entry);
  void Sink(size_t place, Entry entry);

  std::vector<Entry> heap_;
  std::vector<int32_t> places_;  // by number
};

}  // namespace mccs

#endif  // MCCS_TOPOLOGY_LEVEL_HEAP_H_
