// Tables for terminals.
#ifndef MCCS_LAB_TABLE_H_
#define MCCS_LAB_TABLE_H_

#include <string>
#include <vector>

namespace mccs::lab {

using Cells = std::vector<std::string>;

// One line for each row, columns aligned. REQUIRES: rows of equal length, the first the headings.
std::string Table(const std::vector<Cells>& rows);

}  // namespace mccs::lab

#endif  // MCCS_LAB_TABLE_H_
