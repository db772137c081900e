// The kinds of work that a stream runs.
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

// A point in a stream: reached when the stream has done its work up to `number`.
struct Point {
  std::shared_ptr<Stream> stream;
  uint64_t number = 0;
};

// A word of 32 or 64 bits in memory that the host can access. `fence`: it is the value of a
// FenceLine.
struct Word {
  void* address = nullptr;
  bool wide = false;
  bool fence = false;
};

// Stores a value that other streams, threads or processes wait for.
struct WriteWord {
  Word word;
  uint64_t value = 0;
};

enum class Comparison { kGreaterOrEqual, kEqual, kAnd, kNor };

// Blocks the stream (and its hardware queue) until the comparison holds.
// `detached`: it is a kernel that watches the word, so the queue continues once it has begun.
struct WaitWord {
  Word word;
  uint64_t value = 0;
  Comparison comparison = Comparison::kEqual;
  bool announced = false;  // counted in the line's `sleepers` until this wait is over
  bool detached = false;
};

// Copies rows of bytes. A plain copy is one row.
struct CopyRows {
  void* to = nullptr;
  const void* from = nullptr;
  size_t row_bytes = 0;
  size_t rows = 1;
  size_t to_pitch = 0;
  size_t from_pitch = 0;
  std::shared_ptr<std::vector<std::byte>> staged;  // owns `from` if that is a staged copy
};

// Fills rows with equal elements of 1, 2 or 4 bytes.
struct FillRows {
  void* to = nullptr;
  uint32_t value = 0;
  uint32_t element_bytes = 1;
  size_t row_elements = 0;
  size_t rows = 1;
  size_t pitch = 0;
};

class KernelRun;
class PreparedLaunch;

// A kernel that runs in pieces (kernel_run.h). Its queue continues once it has begun. Copies of
// work that has not begun are separate runs.
struct ResumableKernel {
  std::shared_ptr<const PreparedLaunch> launch;
  std::shared_ptr<KernelRun> run;  // once it has begun
};

// Code of the program (a host function, a kernel's host version). May take any time and may block.
struct ProgramCode {
  std::function<void()> run;
};

// Short work of the emulation, such as returning memory to a pool.
struct InternalCode {
  std::function<void()> run;
};

// One cuEventRecord: its point, and when the point was reached.
struct Record {
  Point point;
  std::chrono::steady_clock::time_point reached{};  // valid once `point` is reached
};

struct ReachRecord {
  std::shared_ptr<Record> record;
};

// Has no effect except its dependencies.
struct Join {};

using Work = std::variant<WriteWord, WaitWord, CopyRows, FillRows, ProgramCode, InternalCode,
                          ReachRecord, Join, ResumableKernel>;

// How long a piece of work may take, which decides which threads may run it.
enum class Cost {
  kInstant,    // any thread that uses the engine runs it, also while enqueuing
  kBounded,    // moves memory: run by a thread that waits or queries, else by the background thread
               // (a resumable kernel: each of its pieces)
  kUnbounded,  // the program's code: run by a thread that waits for it, else by the callback thread
};
Cost CostOf(const Work& work);

// Bytes that the work moves; limits the work that a query (cuStreamQuery) runs.
size_t BytesOf(const Work& work);

bool IsSatisfied(const WaitWord& wait);

inline bool IsResumable(const Work& work) { return std::holds_alternative<ResumableKernel>(work); }

// Returns what the work waits for now, or null.
WaitWord* CurrentWait(Work& work);

// Count a sleeping thread in the line's `sleepers` until the wait is over. REQUIRES: the word is a
// fence's.
void Announce(WaitWord& wait);
void Withdraw(WaitWord& wait);  // has no effect if it is not counted

// Runs the work. Not for WaitWord and ResumableKernel. THREAD: any; no lock is held for kBounded
// and kUnbounded.
void Perform(const Work& work);

}  // namespace mccs::emulation

#endif  // MCCS_EMULATION_CORE_WORK_H_
