// Checks docs/reference/compatibility.md: it lists the exported functions, states for each what the
// library returns, and lists the variables of the table in shim/config/variables.cc.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "shim/config/variables.h"

namespace mccs {
namespace compatibility_test {

constexpr char kDocument[] = "docs/reference/compatibility.md";
constexpr char kExportedNames[] = "shim/entry_points.txt";

using ::testing::HasSubstr;

// The cells of the rows of the document's tables whose first cell is a word in backticks.
std::vector<std::vector<std::string>> Rows() {
  std::ifstream document(kDocument);
  EXPECT_TRUE(document.good()) << "cannot read " << kDocument << "; run from the repository's root";
  std::vector<std::vector<std::string>> rows;
  for (std::string line; std::getline(document, line);) {
    if (line.rfind("| `", 0) != 0) continue;
    std::vector<std::string> cells;
    for (const absl::string_view cell : absl::StrSplit(line, " | ")) {
      cells.emplace_back(absl::StripPrefix(absl::StripSuffix(cell, " |"), "| "));
    }
    cells[0] = cells[0].substr(1, cells[0].size() - 2);
    rows.push_back(std::move(cells));
  }
  return rows;
}

// Answers by function name.
std::map<std::string, std::string> DocumentedFunctions() {
  std::map<std::string, std::string> functions;
  for (const auto& row : Rows()) {
    if (row[0].rfind("nccl", 0) != 0) continue;
    EXPECT_EQ(row.size(), 3u) << row[0];
    EXPECT_TRUE(functions.emplace(row[0], row[1]).second) << row[0] << " is listed twice";
  }
  return functions;
}

std::vector<std::string> ExportedFunctions() {
  std::ifstream list(kExportedNames);
  std::vector<std::string> names;
  for (std::string line; std::getline(list, line);) {
    if (!line.empty() && line[0] != '#') names.push_back("nccl" + line);
  }
  return names;
}

// More words than any function takes: in this machine's ABI the caller passes and removes
// arguments, so a callee may read fewer. 16 words are a unique id, which is passed by value.
using Word = uintptr_t;
template <size_t... kIndex>
void CallWith(void* function, Word first, std::index_sequence<kIndex...>) {
  using Function = void (*)(Word, decltype(kIndex, Word{})...);
  reinterpret_cast<Function>(function)(first, (static_cast<void>(kIndex), Word{0})...);
}
constexpr size_t kMoreWords = 27;

// These accept NULL as communicator, so the test passes an invalid one.
constexpr std::array kAcceptNull{"ncclCommRevoke"};

// Whether the library reports the function as unsupported, when called within a group and without
// valid arguments.
bool Rejects(const std::string& name) {
  void* function = dlsym(RTLD_DEFAULT, name.c_str());
  if (function == nullptr) {
    ADD_FAILURE() << name << " is not in this program";
    return false;
  }
  EXPECT_NE(ncclGetVersion(nullptr), ncclSuccess);  // sets the last error to a known one
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  constexpr Word kNoCommunicator = 0x40;
  const bool accepts_null =
      std::find(kAcceptNull.begin(), kAcceptNull.end(), name) != kAcceptNull.end();
  CallWith(function, accepts_null ? kNoCommunicator : 0, std::make_index_sequence<kMoreWords>());
  const std::string answer = ncclGetLastError(nullptr);
  constexpr int kMostLevels = 4;
  for (int level = 0; level < kMostLevels; ++level) (void)ncclGroupEnd();
  return answer.find("not supported by MCCS") != std::string::npos;
}

TEST(CompatibilityDocument, NamesExactlyTheExportedFunctions) {
  const auto documented = DocumentedFunctions();
  std::vector<std::string> names;
  for (const auto& [name, answer] : documented) names.push_back(name);
  EXPECT_THAT(names, ::testing::UnorderedElementsAreArray(ExportedFunctions()))
      << "add the missing functions to " << kDocument;
}

TEST(CompatibilityDocument, StatesWhatEachFunctionReturns) {
  for (const auto& [name, answer] : DocumentedFunctions()) {
    EXPECT_TRUE(answer == "works" || answer == "hint" || answer == "unsupported")
        << name << ": " << answer;
    EXPECT_EQ(answer == "unsupported", Rejects(name))
        << kDocument << " says '" << answer << "' of " << name
        << (answer == "unsupported" ? ", but it is supported: document what it does"
                                    : ", but the library reports it as unsupported");
  }
}

TEST(CompatibilityDocument, ListsTheVariablesOfTheTable) {
  std::vector<std::vector<std::string>> expected;
  for (const shim::Variable& variable : shim::Variables()) {
    expected.push_back(
        {variable.name, std::string(shim::NameOf(variable.treatment)), variable.note});
  }
  std::vector<std::vector<std::string>> documented;
  for (const auto& row : Rows()) {
    if (row[0].rfind("nccl", 0) != 0) documented.push_back(row);
  }
  EXPECT_THAT(documented, ::testing::UnorderedElementsAreArray(expected))
      << "make the rows of " << kDocument << " equal to those of shim/config/variables.cc";
}

// The functions that read a variable, whose name is their first argument.
constexpr std::array kReaders{"ValueOf",        "FindSetting", "getenv",
                              "MillisecondsOf", "Number",      "Channels"};

// The variables that `text`, a source file, reads by name. Names with lower-case letters are
// functions.
std::vector<std::string> VariablesReadBy(const std::string& text) {
  std::vector<std::string> variables;
  for (const char* reader : kReaders) {
    const std::string call = absl::StrCat(reader, "(");
    for (size_t at = text.find(call); at != std::string::npos; at = text.find(call, at + 1)) {
      absl::string_view argument = absl::string_view(text).substr(at + call.size());
      argument = absl::StripLeadingAsciiWhitespace(argument);
      if (!absl::ConsumePrefix(&argument, "\"")) continue;
      const absl::string_view name = argument.substr(0, argument.find('"'));
      if (absl::c_none_of(name, absl::ascii_islower)) variables.emplace_back(name);
    }
  }
  return variables;
}

// Every variable that the library's code reads is in the table, and has an effect.
TEST(Variables, ContainsEveryVariableThatTheCodeReads) {
  size_t named = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator("shim")) {
    if (entry.path().extension() != ".cc" || entry.path().filename() == "variables.cc") continue;
    std::ifstream file(entry.path());
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    for (const std::string& name : VariablesReadBy(text)) {
      if (name == "HOME")
        continue;  // the path of a configuration file: not a variable of this library
      const shim::Variable* variable = shim::FindVariable(name);
      ++named;
      ASSERT_NE(variable, nullptr) << entry.path() << " reads " << name;
      EXPECT_EQ(variable->name, name) << entry.path();
      EXPECT_TRUE(variable->treatment == shim::Treatment::kHonoured ||
                  variable->treatment == shim::Treatment::kHint)
          << entry.path() << " reads " << name << ", which has no effect according to the table";
    }
  }
  EXPECT_GT(named, 10u);
}

}  // namespace compatibility_test
}  // namespace mccs
