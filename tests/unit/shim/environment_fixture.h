// A fixture that sets variables and configuration files. It hides the machine's own settings, and
// resets everything afterwards.
#ifndef MCCS_TESTS_UNIT_SHIM_ENVIRONMENT_FIXTURE_H_
#define MCCS_TESTS_UNIT_SHIM_ENVIRONMENT_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "shim/config/diagnostics.h"
#include "shim/config/settings.h"

namespace mccs {

class EnvironmentTest : public ::testing::Test {
 protected:
  EnvironmentTest() {
    char name[] = "/tmp/mccs-settings-XXXXXX";
    folder_ = mkdtemp(name);
    for (const auto& [variable, setting] : shim::SettingsWithPrefix("NCCL_")) {
      unsetenv(variable.c_str());
    }
    Set("HOME", folder_.string());
    Reload();
  }
  ~EnvironmentTest() override {
    for (const std::string& name : set_) unsetenv(name.c_str());
    Reload();
    std::filesystem::remove_all(folder_);
  }

  void Set(const std::string& name, const std::string& value) {
    setenv(name.c_str(), value.c_str(), 1);
    set_.insert(name);
  }
  std::string Write(const std::string& name, const std::string& text) {
    const std::filesystem::path path = folder_ / name;
    std::ofstream(path) << text;
    return path.string();
  }
  static std::string Contents(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static void Reload() { shim::ReloadVerbosity(); }

  std::filesystem::path folder_;

 private:
  std::set<std::string> set_;
};

}  // namespace mccs

#endif  // MCCS_TESTS_UNIT_SHIM_ENVIRONMENT_FIXTURE_H_
