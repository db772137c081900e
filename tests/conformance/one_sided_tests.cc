// One-sided calls (NCCL 2.29): a put writes into an RMA window of another rank, which makes no call
// for it. A signal after the put is counted there. A wait blocks its stream until enough signals
// have arrived. The functions are looked up, because the header of this build may be older.
#include <cstdint>
#include <string>
#include <vector>

#include "conformance/fixture.h"
#include "conformance/library.h"
#include "conformance/test_table.h"

namespace conformance {
namespace one_sided_tests {

constexpr size_t kCount = 3001;

struct WaitSignalDesc {
  int count;
  int peer;
  int index;
  int context;
};

using PutSignalFunction = ncclResult_t (*)(const void*, size_t, ncclDataType_t, int, ncclWindow_t,
                                           size_t, int, int, unsigned, ncclComm_t, cudaStream_t);
using SignalFunction = ncclResult_t (*)(int, int, int, unsigned, ncclComm_t, cudaStream_t);
using WaitSignalFunction = ncclResult_t (*)(int, WaitSignalDesc*, ncclComm_t, cudaStream_t);

// The three functions, with one stream of one communicator. Skips the test if the library lacks
// them.
class OneSided {
 public:
  OneSided(Test& test, ncclComm_t comm, cudaStream_t stream)
      : comm_(comm),
        stream_(stream),
        put_(Find<PutSignalFunction>(test, "ncclPutSignal")),
        signal_(Find<SignalFunction>(test, "ncclSignal")),
        wait_(Find<WaitSignalFunction>(test, "ncclWaitSignal")) {}

  ncclResult_t Put(const int32_t* from, size_t count, int peer, ncclWindow_t window,
                   size_t element) const {
    return put_(from, count, ncclInt32, peer, window, element * sizeof(int32_t), 0, 0, 0, comm_,
                stream_);
  }
  ncclResult_t Signal(int peer) const { return signal_(peer, 0, 0, 0, comm_, stream_); }
  ncclResult_t Wait(int peer, int count = 1) const { return Wait({{count, peer, 0, 0}}); }
  ncclResult_t Wait(std::vector<WaitSignalDesc> wanted) const {
    return wait_(static_cast<int>(wanted.size()), wanted.data(), comm_, stream_);
  }

  PutSignalFunction put() const { return put_; }
  SignalFunction signal() const { return signal_; }
  WaitSignalFunction wait() const { return wait_; }

 private:
  template <typename Function>
  static Function Find(Test& test, const char* name) {
    const auto found = reinterpret_cast<Function>(FindFunction(name));
    if (found == nullptr) test.Skip(std::string(name) + " requires NCCL 2.29");
    return found;
  }

  const ncclComm_t comm_;
  const cudaStream_t stream_;
  const PutSignalFunction put_;
  const SignalFunction signal_;
  const WaitSignalFunction wait_;
};

// Memory of ncclMemAlloc with a window over all of it: the source half and the target half.
class Window {
 public:
  Window(Test& test, ncclComm_t comm, cudaStream_t stream, size_t count)
      : test_(test),
        comm_(comm),
        memory_(Allocate(test, count)),
        from(test, memory_, count, stream),
        into(test, memory_ + count, count, stream) {
    from.Fill(test.rank());
    into.Fill(-1);
    test.Wait(stream);
    NCCL_OK(test_, ncclCommWindowRegister(comm, memory_, 2 * count * sizeof(int32_t), &handle_,
                                          NCCL_WIN_COLL_SYMMETRIC));
    EXPECT_THAT(test_, handle_ != nullptr, "a window");
    test.Barrier();
  }
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;
  // REQUIRES: no rank uses it any more.
  void Close() {
    test_.Barrier();
    NCCL_OK(test_, ncclCommWindowDeregister(comm_, handle_));
    NCCL_OK(test_, ncclMemFree(memory_));
  }

  ncclWindow_t handle() const { return handle_; }
  // Offset in the window, in elements, at which the target half begins.
  size_t into_at() const { return into.count(); }

 private:
  static int32_t* Allocate(Test& test, size_t count) {
    void* memory = nullptr;
    NCCL_OK(test, ncclMemAlloc(&memory, 2 * count * sizeof(int32_t)));
    return static_cast<int32_t*>(memory);
  }

  Test& test_;
  const ncclComm_t comm_;
  int32_t* const memory_;
  ncclWindow_t handle_ = nullptr;

 public:
  IntBuffer from;
  IntBuffer into;
};

// Common to most tests.
struct OneSidedSetup {
  explicit OneSidedSetup(Test& t, size_t count = kCount)
      : comm(t.World()),
        stream(t.NewStream()),
        calls(t, comm, stream),
        window(t, comm, stream, count),
        next((t.rank() + 1) % t.size()),
        previous((t.rank() + t.size() - 1) % t.size()) {}

  ncclComm_t comm;
  cudaStream_t stream;
  OneSided calls;
  Window window;
  int next;
  int previous;
};

void PutToTheNext(Test& t, size_t count) {
  OneSidedSetup s(t, count);
  NCCL_OK(t,
          s.calls.Put(s.window.from.data(), count, s.next, s.window.handle(), s.window.into_at()));
  NCCL_OK(t, s.calls.Wait(s.previous));
  s.window.into.Expect(s.previous, "the data that the previous rank put");
  s.window.Close();
}

CONFORMANCE_TEST(one_sided, to_the_next_rank, .min_ranks = 2) { PutToTheNext(t, kCount); }

// Larger than any buffer in a library.
CONFORMANCE_TEST(one_sided, larger_than_a_slice, .min_ranks = 2) { PutToTheNext(t, 6'000'001); }

CONFORMANCE_TEST(one_sided, a_signal_alone, .min_ranks = 2) {
  OneSidedSetup s(t);
  NCCL_OK(t, s.calls.Signal(s.next));
  NCCL_OK(t, s.calls.Wait(s.previous));
  s.window.into.Expect(-1, "a window without puts");
  s.window.Close();
}

CONFORMANCE_TEST(one_sided, a_put_of_nothing_signals, .min_ranks = 2) {
  OneSidedSetup s(t);
  NCCL_OK(t, s.calls.Put(s.window.from.data(), 0, s.next, s.window.handle(), 0));
  NCCL_OK(t, s.calls.Wait(s.previous));
  s.window.into.Expect(-1, "a window without puts of data");
  s.window.Close();
}

// A rank's puts complete without a call of the target rank.
CONFORMANCE_TEST(one_sided, the_signal_may_come_first, .min_ranks = 2) {
  OneSidedSetup s(t);
  NCCL_OK(t,
          s.calls.Put(s.window.from.data(), kCount, s.next, s.window.handle(), s.window.into_at()));
  t.Wait(s.stream);
  t.Barrier();
  NCCL_OK(t, s.calls.Wait(s.previous));
  s.window.into.Expect(s.previous, "the data that was put before the wait");
  s.window.Close();
}

CONFORMANCE_TEST(one_sided, the_wait_may_come_first, .min_ranks = 2) {
  OneSidedSetup s(t);
  if (t.rank() == 1) {
    NCCL_OK(t, s.calls.Wait(0));
    t.ExpectBusy(s.stream, "rank 0 has not called put yet");
  }
  t.Barrier();
  if (t.is_root()) {
    NCCL_OK(t, s.calls.Put(s.window.from.data(), kCount, 1, s.window.handle(), s.window.into_at()));
  }
  if (t.rank() == 1) s.window.into.Expect(0, "the data that rank 0 put");
  t.Wait(s.stream);
  s.window.Close();
}

CONFORMANCE_TEST(one_sided, many_signals, .min_ranks = 2) {
  constexpr int kSignals = 1000;
  constexpr int kFirst = 300;
  OneSidedSetup s(t);
  for (int i = 0; t.ok() && i < kSignals; ++i) NCCL_OK(t, s.calls.Signal(s.next));
  NCCL_OK(t, s.calls.Wait(s.previous, kFirst));
  NCCL_OK(t, s.calls.Wait(s.previous, kSignals - kFirst));
  t.Wait(s.stream);
  t.Barrier();
  // The waits have consumed all signals.
  if (t.is_root()) {
    NCCL_OK(t, s.calls.Wait(s.previous));
    t.ExpectBusy(s.stream, "all signals are consumed");
  }
  t.Barrier();
  if (s.next == 0) NCCL_OK(t, s.calls.Signal(0));
  t.Wait(s.stream);
  s.window.Close();
}

CONFORMANCE_TEST(one_sided, several_peers_in_one_list, .min_ranks = 2) {
  const auto ranks = static_cast<size_t>(t.size());
  constexpr size_t kPart = 500;
  OneSidedSetup s(t, kPart * ranks);
  std::vector<WaitSignalDesc> all;
  for (int peer = 0; peer < t.size(); ++peer) {
    if (peer == t.rank()) continue;
    NCCL_OK(t, s.calls.Put(s.window.from.data(), kPart, peer, s.window.handle(),
                           s.window.into_at() + kPart * static_cast<size_t>(t.rank())));
    all.push_back({1, peer, 0, 0});
  }
  NCCL_OK(t, s.calls.Wait(all));
  for (int peer = 0; peer < t.size(); ++peer) {
    IntBuffer part(t, s.window.into.data() + kPart * static_cast<size_t>(peer), kPart, s.stream);
    part.Expect(peer == t.rank() ? -1 : peer, "the part of a peer");
  }
  s.window.Close();
}

// When the last signal has arrived, so has the data of all earlier puts.
CONFORMANCE_TEST(one_sided, puts_of_a_pair_keep_their_order, .min_ranks = 2) {
  constexpr int kPuts = 40;
  OneSidedSetup s(t);
  for (int i = 0; t.ok() && i < kPuts; ++i) {
    s.window.from.Fill(i);
    NCCL_OK(t, s.calls.Put(s.window.from.data(), kCount, s.next, s.window.handle(),
                           s.window.into_at()));
  }
  NCCL_OK(t, s.calls.Wait(s.previous, kPuts));
  s.window.into.Expect(kPuts - 1, "the last put");
  s.window.Close();
}

// The stream may overwrite the source as soon as the put is done.
CONFORMANCE_TEST(one_sided, the_source_is_free_when_the_put_is, .min_ranks = 2) {
  constexpr size_t kLarge = 1'000'003;
  OneSidedSetup s(t, kLarge);
  NCCL_OK(t,
          s.calls.Put(s.window.from.data(), kLarge, s.next, s.window.handle(), s.window.into_at()));
  s.window.from.Fill(-7);
  NCCL_OK(t, s.calls.Wait(s.previous));
  s.window.into.Expect(s.previous, "the data at the time of the put");
  s.window.Close();
}

CONFORMANCE_TEST(one_sided, in_a_group_with_other_calls, .min_ranks = 2) {
  OneSidedSetup s(t);
  IntBuffers ring(t, kCount, s.stream, 100 + t.rank());
  IntBuffers sum(t, kCount, s.stream, 1);
  NCCL_OK(t, ncclGroupStart());
  NCCL_OK(t, s.calls.Wait(s.previous));
  NCCL_OK(t, ncclSend(ring.send.data(), kCount, ncclInt32, s.next, s.comm, s.stream));
  NCCL_OK(t, SumInto(sum, s.comm, s.stream));
  NCCL_OK(t,
          s.calls.Put(s.window.from.data(), kCount, s.next, s.window.handle(), s.window.into_at()));
  NCCL_OK(t, ncclRecv(ring.receive.data(), kCount, ncclInt32, s.previous, s.comm, s.stream));
  NCCL_OK(t, ncclGroupEnd());
  s.window.into.Expect(s.previous, "the data that was put");
  ring.receive.Expect(100 + s.previous, "the data that was sent");
  sum.receive.Expect(t.size(), "the sum");
  s.window.Close();
}

CONFORMANCE_TEST(one_sided, between_other_calls, .min_ranks = 2) {
  OneSidedSetup s(t);
  for (int i = 0; t.ok() && i < 10; ++i) {
    IntBuffers sum(t, kCount, s.stream, 1);
    s.window.from.Fill(10 * t.rank() + i);
    NCCL_OK(t, s.calls.Put(s.window.from.data(), kCount, s.next, s.window.handle(),
                           s.window.into_at()));
    NCCL_OK(t, s.calls.Wait(s.previous));
    s.window.into.Expect(10 * s.previous + i, "the data that was put");
    // The next put waits until all ranks have checked the data.
    NCCL_OK(t, SumInto(sum, s.comm, s.stream));
    sum.receive.Expect(t.size(), "the sum");
  }
  s.window.Close();
}

CONFORMANCE_TEST(one_sided, repeated_window_registration, .min_ranks = 2) {
  for (int i = 0; t.ok() && i < 5; ++i) PutToTheNext(t, kCount + static_cast<size_t>(i));
}

CONFORMANCE_TEST(one_sided, the_second_of_two_windows, .min_ranks = 2) {
  OneSidedSetup s(t);
  Window second(t, s.comm, s.stream, kCount);
  NCCL_OK(t, s.calls.Put(second.from.data(), kCount, s.next, second.handle(), second.into_at()));
  NCCL_OK(t, s.calls.Wait(s.previous));
  second.into.Expect(s.previous, "the data that was put into the second window");
  s.window.into.Expect(-1, "the first window");
  s.window.Close();
  second.Close();
}

CONFORMANCE_TEST(one_sided, bad_arguments, .min_ranks = 2) {
  OneSidedSetup s(t);
  const int32_t* from = s.window.from.data();
  const size_t elements = 2 * kCount;
  const ncclWindow_t window = s.window.handle();
  const auto put = s.calls.put();
  const auto signal = s.calls.signal();
  const auto wait = s.calls.wait();
  const auto bad = ncclInvalidArgument;
  NCCL_RETURNS(t, bad, s.calls.Put(from, 1, t.size(), window, 0));
  NCCL_RETURNS(t, bad, s.calls.Put(from, 1, -1, window, 0));
  NCCL_RETURNS(t, bad, s.calls.Put(from, 1, 0, nullptr, 0));
  NCCL_RETURNS(t, bad, s.calls.Put(nullptr, 1, 0, window, 0));
  NCCL_RETURNS(t, bad, s.calls.Put(from, 1, 0, window, elements));
  NCCL_RETURNS(t, bad, s.calls.Put(from, kCount, 0, window, kCount + 1));
  NCCL_RETURNS(t, bad, put(from, 1, ncclInt32, 0, window, 0, -1, 0, 0, s.comm, s.stream));
  NCCL_RETURNS(t, bad, put(from, 1, ncclInt32, 0, window, 0, 0, -1, 0, s.comm, s.stream));
  NCCL_RETURNS(t, bad, put(from, 1, ncclInt32, 0, window, 0, 0, 0, 1, s.comm, s.stream));
  NCCL_RETURNS(t, bad, put(from, 1, ncclInt32, 0, window, 0, 0, 0, 0, nullptr, s.stream));
  NCCL_RETURNS(t, bad, signal(t.size(), 0, 0, 0, s.comm, s.stream));
  NCCL_RETURNS(t, bad, signal(0, 1 << 20, 0, 0, s.comm, s.stream));
  NCCL_RETURNS(t, bad, signal(0, 0, 1 << 20, 0, s.comm, s.stream));
  NCCL_RETURNS(t, bad, signal(0, 0, 0, 1, s.comm, s.stream));
  NCCL_RETURNS(t, bad, signal(0, 0, 0, 0, nullptr, s.stream));
  NCCL_RETURNS(t, bad, wait(1, nullptr, s.comm, s.stream));
  NCCL_RETURNS(t, bad, s.calls.Wait(t.size()));
  NCCL_RETURNS(t, bad, s.calls.Wait(-1));
  NCCL_RETURNS(t, bad, s.calls.Wait({{1, 0, -1, 0}}));
  NCCL_RETURNS(t, bad, s.calls.Wait({{1, 0, 0, -1}}));
  s.window.into.Expect(-1, "the window after rejected calls");
  Works(t, s.comm);
  s.window.Close();
}

// ---- Cases that NCCL does not, or not fully, define --------------------------------------------

CONFORMANCE_TEST(one_sided, to_oneself, .beyond_nccl = true) {
  OneSidedSetup s(t);
  NCCL_OK(t, s.calls.Put(s.window.from.data(), kCount, t.rank(), s.window.handle(),
                         s.window.into_at()));
  NCCL_OK(t, s.calls.Wait(t.rank()));
  s.window.into.Expect(t.rank(), "the data that the rank put into its own window");
  s.window.Close();
}

// From memory that is not in a window and that no daemon can map.
CONFORMANCE_TEST(one_sided, from_memory_of_a_pool, .min_ranks = 2, .beyond_nccl = true) {
  OneSidedSetup s(t);
  void* memory = nullptr;
  CUDA_OK(t, cudaMallocAsync(&memory, kCount * sizeof(int32_t), s.stream));
  IntBuffer from(t, memory, kCount, s.stream);
  from.Fill(70 + t.rank());
  NCCL_OK(t, s.calls.Put(from.data(), kCount, s.next, s.window.handle(), s.window.into_at()));
  NCCL_OK(t, s.calls.Wait(s.previous));
  s.window.into.Expect(70 + s.previous, "the data that was put from the pool's memory");
  CUDA_OK(t, cudaFreeAsync(memory, s.stream));
  s.window.Close();
}

// Signals of different indices and contexts are counted separately.
CONFORMANCE_TEST(one_sided, signals_are_told_apart, .min_ranks = 2, .beyond_nccl = true) {
  OneSidedSetup s(t);
  const auto signal = s.calls.signal();
  NCCL_OK(t, signal(s.next, 3, 0, 0, s.comm, s.stream));
  NCCL_OK(t, signal(s.next, 0, 2, 0, s.comm, s.stream));
  NCCL_OK(t, s.calls.Wait({{1, s.previous, 0, 2}, {1, s.previous, 3, 0}}));
  t.Wait(s.stream);
  t.Barrier();
  if (t.is_root()) {
    NCCL_OK(t, s.calls.Wait(s.previous));
    t.ExpectBusy(s.stream, "no signal of index 0 has arrived");
  }
  t.Barrier();
  if (s.next == 0) NCCL_OK(t, s.calls.Signal(0));
  t.Wait(s.stream);
  s.window.Close();
}

CONFORMANCE_TEST(one_sided, in_a_graph, .min_ranks = 2, .beyond_nccl = true) {
  OneSidedSetup s(t);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  CUDA_OK(t, cudaStreamBeginCapture(s.stream, cudaStreamCaptureModeThreadLocal));
  NCCL_OK(t,
          s.calls.Put(s.window.from.data(), kCount, s.next, s.window.handle(), s.window.into_at()));
  NCCL_OK(t, s.calls.Wait(s.previous));
  CUDA_OK(t, cudaStreamEndCapture(s.stream, &graph));
  CUDA_OK(t, cudaGraphInstantiate(&executable, graph, 0));
  for (int i = 0; t.ok() && i < 5; ++i) {
    s.window.from.Fill(10 * t.rank() + i);
    CUDA_OK(t, cudaGraphLaunch(executable, s.stream));
    s.window.into.Expect(10 * s.previous + i, "the data that the replay put");
    t.Barrier();
  }
  if (executable != nullptr) cudaGraphExecDestroy(executable);
  if (graph != nullptr) cudaGraphDestroy(graph);
  s.window.Close();
}

// A deregistered window is rejected in the call.
CONFORMANCE_TEST(one_sided, a_window_that_is_gone, .min_ranks = 2, .beyond_nccl = true) {
  OneSidedSetup s(t);
  ncclWindow_t other = nullptr;
  NCCL_OK(t, ncclCommWindowRegister(s.comm, s.window.from.data(), kCount * sizeof(int32_t), &other,
                                    NCCL_WIN_COLL_SYMMETRIC));
  NCCL_OK(t, ncclCommWindowDeregister(s.comm, other));
  NCCL_RETURNS(t, ncclInvalidArgument, s.calls.Put(s.window.from.data(), 1, s.next, other, 0));
  Works(t, s.comm);
  s.window.Close();
}

}  // namespace one_sided_tests
}  // namespace conformance
