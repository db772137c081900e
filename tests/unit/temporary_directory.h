// A directory that is removed with the object, with all it contains.
#ifndef MCCS_TESTS_UNIT_TEMPORARY_DIRECTORY_H_
#define MCCS_TESTS_UNIT_TEMPORARY_DIRECTORY_H_

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "base/check.h"

namespace mccs {

class TemporaryDirectory {
 public:
  TemporaryDirectory() { MCCS_CHECK(mkdtemp(path_.data()) != nullptr); }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }
  std::string File(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_ = "/tmp/mccs-test-XXXXXX";
};

}  // namespace mccs

#endif  // MCCS_TESTS_UNIT_TEMPORARY_DIRECTORY_H_
