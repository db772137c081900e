// run_corpus TARGET DIRECTORY: runs a fuzz target once with each file of the directory.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <vector>

#include "tests/fuzz/targets/fuzz_target.h"

namespace mccs {
namespace run_corpus {

int RunAll(const FuzzTarget& target, const char* directory) {
  size_t inputs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    std::ifstream file(entry.path(), std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
    // The last line before a crash names its input.
    std::printf("%s\n", entry.path().c_str());
    std::fflush(stdout);
    target.Run({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
    ++inputs;
  }
  std::printf("%zu inputs\n", inputs);
  return inputs > 0 ? 0 : 1;
}

}  // namespace run_corpus
}  // namespace mccs

int main(int argc, char** argv) {
  for (const mccs::FuzzTarget* target : mccs::FuzzTarget::All()) {
    if (argc == 3 && target->name() == argv[1]) return mccs::run_corpus::RunAll(*target, argv[2]);
  }
  std::fprintf(stderr, "usage: run_corpus TARGET DIRECTORY\n");
  return 2;
}
