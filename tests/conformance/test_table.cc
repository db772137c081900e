#include "conformance/test_table.h"

namespace conformance {

TestTable ChosenTests(const Options& options) {
  TestTable all;
  if (options.random) {
    AddRandomTests(options.seed, options.seeds, &all);
    return all;
  }
  AddSymbolTests(&all);
  AddBadArgumentTests(&all);
  AddGroupTests(&all);
  AddStreamTests(&all);
  AddLifeCycleTests(&all);
  AddNonBlockingTests(&all);
  AddSplitTests(&all);
  AddConfigTests(&all);
  AddZeroCountTests(&all);
  AddOperatorTests(&all);
  AddPointToPointTests(&all);
  AddNewerTests(&all);
  AddOneSidedTests(&all);
  AddGraphTests(&all);
  AddMemoryTests(&all);
  AddVirtualMemoryTests(&all);
  AddForkTests(&all);
  AddOneProcessTests(&all);
  AddMultiRankTests(&all);
  AddBeyondNcclTests(&all);
  AddLargeTests(&all);
  AddCollectiveTests(&all);

  TestTable chosen;
  for (TestCase& test : all) {
    if (IsChosen(options, test.FullName())) chosen.push_back(std::move(test));
  }
  return chosen;
}

}  // namespace conformance
