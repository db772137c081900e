// Forked children, such as PyTorch's data loaders: they inherit everything and use none of it.
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "conformance/fixture.h"
#include "conformance/test_table.h"

namespace conformance {
namespace fork_tests {

// A child that waits until the parent releases it, then exits.
//
// A process of several threads forks, so the child may call only async-signal-safe functions.
class Child {
 public:
  Child() {
    if (pipe(ends_) != 0) return;
    pid_ = fork();
    if (pid_ != 0) return;
    close(ends_[1]);
    char byte;
    while (read(ends_[0], &byte, 1) < 0 && errno == EINTR) {
    }
    _exit(0);
  }
  ~Child() { End(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  bool lives() const { return pid_ > 0; }
  void End() {
    if (pid_ <= 0) return;
    // Closing the pipe is not enough: a child that another thread forked keeps it open.
    while (write(ends_[1], "", 1) < 0 && errno == EINTR) {
    }
    close(ends_[1]);
    close(ends_[0]);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  int ends_[2] = {-1, -1};
  pid_t pid_ = 0;
};

CONFORMANCE_TEST(fork, work_continues_during_a_child) {
  ncclComm_t comm = t.World();
  Works(t, comm);
  Child child;
  EXPECT_THAT(t, child.lives(), "a forked child to run");
  Works(t, comm);
  ncclComm_t other = t.NewWorld();
  Works(t, other);
  t.Destroy(other);
  child.End();
  Works(t, comm);
}

CONFORMANCE_TEST(fork, a_childs_end_changes_nothing) {
  ncclComm_t comm = t.World();
  for (int i = 0; t.ok() && i < 5; ++i) {
    Child child;
    EXPECT_THAT(t, child.lives(), "a forked child to run");
    child.End();
    Works(t, comm);
  }
}

CONFORMANCE_TEST(fork, a_child_may_be_forked_with_work_in_flight) {
  const auto [comm, stream] = OnWorld(t);
  IntBuffers buffers(t, 1000, stream, /*sent=*/1);
  Gate* gate = t.NewGate(stream);
  NCCL_OK(t, ncclAllReduce(buffers.send.data(), buffers.receive.data(), 1000, ncclInt32, ncclSum,
                           comm, stream));
  Child child;
  EXPECT_THAT(t, child.lives(), "a forked child to run");
  gate->Open();
  buffers.receive.Expect(t.size(), "the sum");
}

}  // namespace fork_tests
}  // namespace conformance
