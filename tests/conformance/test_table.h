// The tests, by group.
#ifndef TESTS_CONFORMANCE_TEST_TABLE_H_
#define TESTS_CONFORMANCE_TEST_TABLE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
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

// Adds the tests of one group to a table.
class TestGroup {
 public:
  // `common`: the values that all tests of the group share, including its name.
  TestGroup(TestTable* table, TestCase common) : table_(table), common_(std::move(common)) {}
  TestGroup(TestTable* table, const char* group) : TestGroup(table, TestCase{.group = group}) {}

  void operator()(std::string name, std::function<void(Test&)> run) const {
    (*this)(std::move(name), std::move(run), common_.min_ranks);
  }
  void operator()(std::string name, std::function<void(Test&)> run, int min_ranks) const {
    TestCase& test = table_->emplace_back(common_);
    test.name = std::move(name);
    test.run = std::move(run);
    test.min_ranks = min_ranks;
  }

 private:
  TestTable* const table_;
  const TestCase common_;
};

// Each file of tests adds its tests.
void AddSymbolTests(TestTable* table);
void AddBadArgumentTests(TestTable* table);
void AddGroupTests(TestTable* table);
void AddStreamTests(TestTable* table);
void AddLifeCycleTests(TestTable* table);
void AddNonBlockingTests(TestTable* table);
void AddSplitTests(TestTable* table);
void AddConfigTests(TestTable* table);
void AddZeroCountTests(TestTable* table);
void AddOperatorTests(TestTable* table);
void AddPointToPointTests(TestTable* table);
void AddNewerTests(TestTable* table);
void AddOneSidedTests(TestTable* table);
void AddGraphTests(TestTable* table);
void AddMemoryTests(TestTable* table);
void AddVirtualMemoryTests(TestTable* table);
void AddForkTests(TestTable* table);
void AddOneProcessTests(TestTable* table);
void AddMultiRankTests(TestTable* table);
void AddBeyondNcclTests(TestTable* table);
void AddLargeTests(TestTable* table);
void AddCollectiveTests(TestTable* table);
// Adds one test for each of `seeds` seeds, starting at `seed`.
void AddRandomTests(uint64_t seed, int seeds, TestTable* table);

// Returns the tests that the options select. The same in every process of a run.
TestTable ChosenTests(const Options& options);

}  // namespace conformance

#endif  // TESTS_CONFORMANCE_TEST_TABLE_H_
