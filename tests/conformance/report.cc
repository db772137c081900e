#include "conformance/report.h"

#include <algorithm>
#include <cstdio>
#include <map>

namespace conformance {
namespace {

struct Row {
  int passed = 0;
  int failed = 0;
  int skipped = 0;
  int not_run = 0;
  std::map<std::string, int> reasons;  // of skipped tests
};

const char* Label(Outcome outcome) {
  switch (outcome) {
    case Outcome::kFailed:
      return "FAILED ";
    case Outcome::kSkipped:
      return "skipped";
    default:
      return "passed ";
  }
}

void PrintRow(const std::string& group, const Row& row) {
  std::printf("%-16s %7d %7d %8d", group.c_str(), row.passed, row.failed, row.skipped);
  if (row.not_run > 0) std::printf("  %d not run", row.not_run);
  std::printf("\n");
  for (const auto& [reason, times] : row.reasons) {
    std::printf("%-16s         skipped, %d: %s\n", "", times, reason.c_str());
  }
}

}  // namespace

void Report::Record(size_t test, const Verdict& verdict) {
  verdicts_.push_back(verdict);
  if (!verbose_ && verdict.outcome != Outcome::kFailed) return;
  std::printf("%s %s (%.0f ms)%s%s\n", Label(verdict.outcome), tests_[test].FullName().c_str(),
              verdict.seconds * 1000, verdict.text.empty() ? "" : ": ", verdict.text.c_str());
  std::fflush(stdout);
}

void Report::PrintTable() const {
  std::vector<std::string> order;
  std::map<std::string, Row> rows;
  Row total;
  for (size_t i = 0; i < tests_.size(); ++i) {
    const std::string& group = tests_[i].group;
    if (std::find(order.begin(), order.end(), group) == order.end()) order.push_back(group);
    for (Row* row : {&rows[group], &total}) {
      if (i >= verdicts_.size()) {
        ++row->not_run;
      } else if (verdicts_[i].outcome == Outcome::kFailed) {
        ++row->failed;
      } else if (verdicts_[i].outcome == Outcome::kSkipped) {
        ++row->skipped;
        if (row != &total) ++row->reasons[verdicts_[i].text];
      } else {
        ++row->passed;
      }
    }
  }
  std::printf("\n%-16s %7s %7s %8s\n", "group", "passed", "failed", "skipped");
  for (const std::string& group : order) PrintRow(group, rows[group]);
  PrintRow("all", total);
  std::fflush(stdout);
}

bool Report::AllPassed() const {
  return verdicts_.size() == tests_.size() &&
         std::none_of(verdicts_.begin(), verdicts_.end(),
                      [](const Verdict& one) { return one.outcome == Outcome::kFailed; });
}

}  // namespace conformance
