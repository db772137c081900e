// Replaces mccsd and mccs-controller: serves (writes its endpoint) until SIGTERM. FAKE_FAILS names
// a daemon that exits with status 3 instead, FAKE_IGNORES_SIGTERM one that ignores SIGTERM,
// FAKE_NEVER_READY one that does not serve.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

int main(int argc, char** argv) {
  if (argc != 3 || std::string(argv[1]) != "--config") return 2;
  std::filesystem::path directory = std::filesystem::path(argv[2]).parent_path();
  auto is_named_by = [&](const char* variable) {
    const char* name = std::getenv(variable);
    return name != nullptr && directory.filename() == name;
  };
  std::printf("the fake %s\n", directory.filename().c_str());
  std::fflush(stdout);
  if (is_named_by("FAKE_FAILS")) return 3;
  if (is_named_by("FAKE_IGNORES_SIGTERM")) std::signal(SIGTERM, SIG_IGN);
  while (is_named_by("FAKE_NEVER_READY")) pause();
  std::ofstream(directory / "mccsd.sock") << "";
  std::ofstream(directory / "endpoint") << "127.0.0.1:1\n";
  while (true) pause();
}
