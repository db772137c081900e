// The output for the user: a line for each failure, and a table by group at the end.
//
// THREAD: any, one at a time.
#ifndef TESTS_CONFORMANCE_REPORT_H_
#define TESTS_CONFORMANCE_REPORT_H_

#include <cstddef>
#include <string>
#include <vector>

#include "conformance/outcome.h"
#include "conformance/test_table.h"

namespace conformance {

class Report {
 public:
  Report(const TestTable& tests, bool verbose) : tests_(tests), verbose_(verbose) {}

  void Record(size_t test, const Verdict& verdict);
  // Prints the table. Tests without a verdict were not run.
  void PrintTable() const;
  // Whether every test has a verdict and none failed.
  bool AllPassed() const;

 private:
  const TestTable& tests_;
  const bool verbose_;
  std::vector<Verdict> verdicts_;  // in the order of tests_
};

}  // namespace conformance

#endif  // TESTS_CONFORMANCE_REPORT_H_
