#include "tests/unit/topology/linear_program.h"

#include <limits>
#include <utility>

#include "base/check.h"

namespace mccs {
namespace {

using Number = long double;
constexpr Number kZero = 1e-12L;  // values below count as zero, for figures up to a thousand

// Rows of [variables … slacks … | limit]; the objective's row is last. `basis[r]` is the basic
// variable of row r.
struct Table {
  std::vector<std::vector<Number>> rows;
  std::vector<size_t> basis;

  void Pivot(size_t row, size_t column) {
    const Number factor = rows[row][column];
    for (Number& entry : rows[row]) entry /= factor;
    for (size_t r = 0; r < rows.size(); ++r) {
      const Number times = rows[r][column];
      if (r == row || times == 0) continue;
      for (size_t c = 0; c < rows[r].size(); ++c) rows[r][c] -= times * rows[row][c];
      rows[r][column] = 0;
    }
    basis[row] = column;
  }
};

}  // namespace

void LinearProgram::AddRow(std::vector<double> factors, double limit) {
  MCCS_CHECK(factors.size() == objective_.size() && limit >= 0);
  rows_.push_back({std::move(factors), limit});
}

double LinearProgram::Maximum() const {
  const size_t variables = objective_.size(), columns = variables + rows_.size();
  Table table;
  for (size_t r = 0; r < rows_.size(); ++r) {
    std::vector<Number> row(columns + 1);
    for (size_t v = 0; v < variables; ++v) row[v] = rows_[r].factors[v];
    row[variables + r] = 1;
    row[columns] = rows_[r].limit;
    table.rows.push_back(std::move(row));
    table.basis.push_back(variables + r);
  }
  std::vector<Number> last(columns + 1);
  for (size_t v = 0; v < variables; ++v) last[v] = -objective_[v];
  table.rows.push_back(std::move(last));

  for (;;) {
    const std::vector<Number>& objective = table.rows.back();
    size_t enter = 0;
    while (enter < columns && objective[enter] >= -kZero) ++enter;
    if (enter == columns) return static_cast<double>(objective[columns]);
    size_t leave = rows_.size();
    Number least = 0;
    for (size_t r = 0; r < rows_.size(); ++r) {
      if (table.rows[r][enter] <= kZero) continue;
      const Number ratio = table.rows[r][columns] / table.rows[r][enter];
      const bool tie = leave < rows_.size() && ratio == least;
      if (leave == rows_.size() || ratio < least || (tie && table.basis[r] < table.basis[leave])) {
        leave = r;
        least = ratio;
      }
    }
    if (leave == rows_.size()) return std::numeric_limits<double>::infinity();
    table.Pivot(leave, enter);
  }
}

}  // namespace mccs
