#include "topology/level_heap.h"

namespace mccs {

void LevelHeap::Lower(int32_t number, double level) {
  int32_t place = places_[number];
  if (place == kNowhere) {
    place = static_cast<int32_t>(heap_.size());
    heap_.push_back({});
  } else if (level >= heap_[place].level) {
    return;
  }
  Rise(static_cast<size_t>(place), {level, number});
}

void LevelHeap::RaiseLowest(double level) { Sink(0, {level, heap_.front().number}); }

void LevelHeap::DropLowest() {
  places_[heap_.front().number] = kNowhere;
  const Entry last = heap_.back();
  heap_.pop_back();
  if (!heap_.empty()) Sink(0, last);
}

void LevelHeap::Rise(size_t place, Entry entry) {
  while (place > 0 && entry.Before(heap_[(place - 1) / 2])) {
    Put(place, heap_[(place - 1) / 2]);
    place = (place - 1) / 2;
  }
  Put(place, entry);
}

void LevelHeap::Sink(size_t place, Entry entry) {
  for (size_t child = 2 * place + 1; child < heap_.size(); child = 2 * place + 1) {
    if (child + 1 < heap_.size() && heap_[child + 1].Before(heap_[child])) ++child;
    if (!heap_[child].Before(entry)) break;
    Put(place, heap_[child]);
    place = child;
  }
  Put(place, entry);
}

}  // namespace mccs
