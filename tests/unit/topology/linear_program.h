// A small linear-programming solver for tests: the simplex method on a dense table, with Bland's
// rule, so that it terminates (source: Chvátal, Linear Programming, 1983, chapters 2 and 3).
#ifndef MCCS_TESTS_UNIT_TOPOLOGY_LINEAR_PROGRAM_H_
#define MCCS_TESTS_UNIT_TOPOLOGY_LINEAR_PROGRAM_H_

#include <cstddef>
#include <vector>

namespace mccs {

// Maximizes objective · x for x ≥ 0 and each row · x ≤ its limit.
class LinearProgram {
 public:
  explicit LinearProgram(size_t variables) : objective_(variables) {}

  void SetObjective(size_t variable, double factor) { objective_[variable] = factor; }
  // REQUIRES: limit ≥ 0, so that x = 0 is a valid start.
  void AddRow(std::vector<double> factors, double limit);

  // The largest value of the objective; infinite if it is unbounded.
  double Maximum() const;

 private:
  struct Row {
    std::vector<double> factors;
    double limit;
  };
  std::vector<double> objective_;
  std::vector<Row> rows_;
};

}  // namespace mccs

#endif  // MCCS_TESTS_UNIT_TOPOLOGY_LINEAR_PROGRAM_H_
