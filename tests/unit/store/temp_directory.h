// A temporary directory for one test.
#ifndef MCCS_TESTS_UNIT_STORE_TEMP_DIRECTORY_H_
#define MCCS_TESTS_UNIT_STORE_TEMP_DIRECTORY_H_

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>

#include "base/check.h"

namespace mccs {

class TempDirectory {
 public:
  TempDirectory() : path_(testing::TempDir() + "/mccs-store-XXXXXX") {
    MCCS_CHECK(mkdtemp(path_.data()) != nullptr);
  }
  ~TempDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDirectory(const TempDirectory&) = delete;

  std::string File(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace mccs

#endif  // MCCS_TESTS_UNIT_STORE_TEMP_DIRECTORY_H_
