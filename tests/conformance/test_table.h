// The tests, by group.
#ifndef TESTS_CONFORMANCE_TEST_TABLE_H_
#define TESTS_CONFORMANCE_TEST_TABLE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "conformance/options.h"
#include "conformance/test.h"

namespace conformance {

enum class ParticipantSet {
  kEveryRank,
  // One thread of one process per host, for tests of one process that drives all GPUs that it sees.
  // The other ranks of the host are idle.
  kHostLeaders,
};

struct TestCase {
  std::string group;
  std::string name = {};
  std::function<void(Test&)> run = {};
  ParticipantSet who = ParticipantSet::kEveryRank;
  int min_ranks = 1;         // number of participants
  int min_devices = 1;       // number of devices that each participant sees
  bool beyond_nccl = false;  // NCCL leaves it undefined; see BeyondNccl

  std::string FullName() const { return group + "/" + name; }
};

using TestTable = std::vector<TestCase>;

// Adds a test when the program starts. THREAD: the main thread's, before main().
struct TestRegistration {
  explicit TestRegistration(TestCase test);
};

// Defines a test: CONFORMANCE_TEST(graphs, a_forked_capture, .min_ranks = 2) { … t … }. `t` is the
// Test; options are members of TestCase. test_table.cc lists the groups.
#define CONFORMANCE_TEST(group_name, test_name, ...)                         \
  void group_name##_##test_name(Test& t);                                    \
  const TestRegistration registered_##group_name##_##test_name(              \
      TestCase{.group = #group_name,                                         \
               .name = #test_name,                                           \
               .run = group_name##_##test_name __VA_OPT__(, ) __VA_ARGS__}); \
  void group_name##_##test_name([[maybe_unused]] Test& t)

// Tests of a loop: one for each type, and for each collective and type.
void AddOperatorTests(TestTable* table);
void AddCollectiveTests(TestTable* table);
// Adds one test for each of `seeds` seeds, starting at `seed`.
void AddRandomTests(uint64_t seed, int seeds, TestTable* table);

// Returns the tests that the options select. The same in every process of a run.
TestTable ChosenTests(const Options& options);

}  // namespace conformance

#endif  // TESTS_CONFORMANCE_TEST_TABLE_H_
