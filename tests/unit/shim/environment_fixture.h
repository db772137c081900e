// A fixture that sets variables and configuration files. It hides the machine's own settings, and
// resets everything afterwards.
#ifndef MCCS_TESTS_UNIT_SHIM_ENVIRONMENT_FIXTURE_H_
#define MCCS_TESTS_UNIT_SHIM_ENVIRONMENT_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <string>

#include "shim/config/diagnostics.h"
#include "shim/config/settings.h"
#include "tests/unit/temporary_directory.h"

namespace mccs {

class EnvironmentTest : public ::testing::Test {
 protected:
  EnvironmentTest() {
    for (const auto& [variable, setting] : shim::SettingsWithPrefix("NCCL_")) {
      unsetenv(variable.c_str());
    }
    Set("HOME", directory_.path());
    Reload();
  }
  ~EnvironmentTest() override {
    for (const std::string& name : set_) unsetenv(name.c_str());
    Reload();
  }

  void Set(const std::string& name, const std::string& value) {
    setenv(name.c_str(), value.c_str(), 1);
    set_.insert(name);
  }
  std::string Write(const std::string& name, const std::string& text) {
    std::ofstream(directory_.File(name)) << text;
    return directory_.File(name);
  }
  static std::string Contents(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static void Reload() { shim::ReloadVerbosity(); }

  const TemporaryDirectory directory_;

 private:
  std::set<std::string> set_;
};

}  // namespace mccs

#endif  // MCCS_TESTS_UNIT_SHIM_ENVIRONMENT_FIXTURE_H_
