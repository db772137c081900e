// What a stream can be asked to do.
#ifndef MCCS_EMULATION_CORE_WORK_H_
#define MCCS_EMULATION_CORE_WORK_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <variant>
#include <vector>

namespace mccs::emulation {

class Stream;

// "The stream has done its work up to `number`."
struct Point {
  std::shared_ptr<Stream> stream;
  uint64_t number = 0;
};

// A word of 32 or 64 bits in memory that the host sees too. `fence`: it is the value of a
// FenceLine.
struct Word {
  void* address = nullptr;
  bool wide = false;
  bool fence = false;
};

// Stores a value that others, also other processes, wait for.
struct WriteWord {
  Word word;
  uint64_t value = 0;
};

enum class Comparison { kGreaterOrEqual, kEqual, kAnd, kNor };

// Holds the stream (and its hardware queue) until the word compares.
// `beside`: it is a kernel that watches the word, so that the queue goes on once it has begun.
struct WaitWord {
  Word word;
  uint64_t value = 0;
  Comparison comparison = Comparison::kEqual;
  bool announced = false;  // counted in the line's `sleepers`, until this wait is over
  bool beside = false;
};

// Rows of bytes from one place to another. A plain copy is one row.
struct CopyRows {
  void* to = nullptr;
  const void* from = nullptr;
  size_t row_bytes = 0;
  size_t rows = 1;
  size_t to_pitch = 0;
  size_t from_pitch = 0;
  std::shared_ptr<std::vector<std::byte>> staged;  // keeps `from` alive where it is a copy
};

// Rows of equal elements of 1, 2 or 4 bytes.
struct FillRows {
  void* to = nullptr;
  uint32_t value = 0;
  uint32_t element_bytes = 1;
  size_t row_elements = 0;
  size_t rows = 1;
  size_t pitch = 0;
};

// Code of the program (a host function, a kernel's host version): may take any time, may block.
struct ProgramCode {
  std::function<void()> run;
};

// Short work of our own, such as giving memory back to a pool.
struct OwnCode {
  std::function<void()> run;
};

// One cuEventRecord: where in its stream, and when it was reached.
struct Record {
  Point point;
  std::chrono::steady_clock::time_point reached{};  // valid once `point` is
};

struct ReachRecord {
  std::shared_ptr<Record> record;
};

// Nothing but the dependencies that it was enqueued with.
struct Join {};

using Work =
    std::variant<WriteWord, WaitWord, CopyRows, FillRows, ProgramCode, OwnCode, ReachRecord, Join>;

// How long a piece of work may take, which decides who may do it.
enum class Cost {
  kInstant,    // done at once by whoever comes by, also while enqueueing
  kBounded,    // moves memory: by a thread that waits or asks, else by the background thread
  kUnbounded,  // the program's code: by a thread that waits for it, else by the callback thread
};
Cost CostOf(const Work& work);

// Bytes that the work moves; what a mere question (cuStreamQuery) may do on the way is limited by
// it.
size_t BytesOf(const Work& work);

bool IsSatisfied(const WaitWord& wait);

// Does the work. Not for WaitWord. THREAD: any; for kBounded and kUnbounded no lock is held.
void Perform(const Work& work);

}  // namespace mccs::emulation

#endif  // MCCS_EMULATION_CORE_WORK_H_
