#include "shim/config/settings.h"

#include <pwd.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <utility>

namespace mccs::shim {
namespace {

constexpr char kSystemFile[] = "/etc/nccl.conf";
constexpr char kEnvironment[] = "environment";
// Lines beyond this limit are not read.
constexpr int kMaxLines = 4096;

using Settings = std::map<std::string, Setting>;

// Contents of the files. Never freed, so that readers need no lock, even in a forked child; a later
// reading keeps its predecessor.
struct Files {
  Settings settings;
  const Files* previous = nullptr;
};

std::atomic<const Files*> the_files{nullptr};  // release store when read; pairs with Current's load

std::string HomeDirectory() {
  if (const char* home = getenv("HOME"); home != nullptr && *home != '\0') return home;
  passwd entry{};
  passwd* found = nullptr;
  char names[4096];
  if (getpwuid_r(getuid(), &entry, names, sizeof(names), &found) != 0 || found == nullptr) {
    return "";
  }
  return entry.pw_dir;
}

void ReadLine(std::string_view line, const std::string& path, Settings& settings) {
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.remove_suffix(1);
  const size_t equals = line.find('=');
  if (line.empty() || line[0] == '#' || equals == 0 || equals == std::string_view::npos) return;
  // emplace: the first source wins.
  settings.emplace(line.substr(0, equals), Setting{std::string(line.substr(equals + 1)), path});
}

void ReadFile(const std::string& path, Settings& settings) {
  std::FILE* file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return;
  char* line = nullptr;
  size_t capacity = 0;
  for (int lines = 0; lines < kMaxLines; ++lines) {
    const ssize_t length = getline(&line, &capacity, file);
    if (length < 0) break;
    ReadLine({line, static_cast<size_t>(length)}, path, settings);
  }
  free(line);
  std::fclose(file);
}

const Files& ReadFiles(const Files* previous) {
  auto files = std::make_unique<Files>();
  files->previous = previous;
  const char* chosen = getenv("NCCL_CONF_FILE");
  if (chosen != nullptr && *chosen != '\0') {
    ReadFile(chosen, files->settings);
  } else if (const std::string home = HomeDirectory(); !home.empty()) {
    ReadFile(home + "/.nccl.conf", files->settings);
  }
  ReadFile(kSystemFile, files->settings);
  const Files* expected = previous;
  if (the_files.compare_exchange_strong(expected, files.get(), std::memory_order_acq_rel)) {
    return *files.release();
  }
  return *expected;  // another thread was faster
}

const Settings& CurrentSettings() {
  const Files* files = the_files.load(std::memory_order_acquire);
  return (files != nullptr ? *files : ReadFiles(nullptr)).settings;
}

}  // namespace

std::optional<Setting> FindSetting(const std::string& name) {
  if (const char* text = getenv(name.c_str()); text != nullptr) return Setting{text, kEnvironment};
  const Settings& settings = CurrentSettings();
  const auto found = settings.find(name);
  if (found == settings.end()) return std::nullopt;
  return found->second;
}

std::optional<std::string> ValueOf(const std::string& name) {
  std::optional<Setting> setting = FindSetting(name);
  if (!setting || setting->value.empty()) return std::nullopt;
  return std::move(setting->value);
}

std::map<std::string, Setting> SettingsWithPrefix(const std::string& prefix) {
  Settings found;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text(*entry);
    const size_t equals = text.find('=');
    if (equals == std::string::npos || text.compare(0, prefix.size(), prefix) != 0) continue;
    found.emplace(text.substr(0, equals), Setting{text.substr(equals + 1), kEnvironment});
  }
  for (const auto& [name, setting] : CurrentSettings()) {
    if (name.compare(0, prefix.size(), prefix) == 0) found.emplace(name, setting);
  }
  return found;
}

void ReloadSettings() { ReadFiles(the_files.load(std::memory_order_acquire)); }

}  // namespace mccs::shim
