#include "tools/mccsctl/read_files.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "proto/message_limits.h"

namespace mccs {
namespace {

constexpr char kStandardInput[] = "-";
constexpr size_t kPieceBytes = 64 << 10;

struct CloseFile {
  void operator()(FILE* file) const {
    if (file != stdin) std::fclose(file);
  }
};

absl::Status TooLarge() {
  return absl::ResourceExhaustedError(absl::StrCat("the files exceed ", kMaxObjectTextBytes >> 20,
                                                   " MiB in total; apply them in several calls"));
}

absl::StatusOr<std::string> ReadOne(const std::string& path, size_t room) {
  const bool standard = path == kStandardInput;
  const std::unique_ptr<FILE, CloseFile> file(standard ? stdin : std::fopen(path.c_str(), "rb"));
  if (file == nullptr) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
  }
  std::string text;
  std::string piece(kPieceBytes, '\0');
  size_t got = 0;
  while ((got = std::fread(piece.data(), 1, piece.size(), file.get())) > 0) {
    text.append(piece, 0, got);
    if (text.size() > room) return TooLarge();
  }
  if (std::ferror(file.get())) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
  }
  return text;
}

bool HasObjectExtension(const std::filesystem::path& path) {
  const std::string extension = path.extension();
  return extension == ".yaml" || extension == ".yml" || extension == ".json";
}

absl::StatusOr<std::vector<std::string>> FilesIn(const std::string& directory) {
  std::vector<std::string> files;
  std::error_code error;
  for (std::filesystem::directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error)) {
    std::error_code ignored;
    if (it->is_regular_file(ignored) && HasObjectExtension(it->path())) files.push_back(it->path());
  }
  if (error) {
    return absl::PermissionDeniedError(
        absl::StrCat("cannot read ", directory, ": ", error.message()));
  }
  if (files.empty()) {
    return absl::NotFoundError(absl::StrCat("no .yaml, .yml or .json file in ", directory,
                                            "; name a file, or a directory with such files"));
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

absl::StatusOr<std::vector<control::v1::ObjectFile>> ReadFiles(
    const std::vector<std::string>& paths) {
  std::vector<control::v1::ObjectFile> files;
  size_t bytes = 0;
  for (const std::string& path : paths) {
    std::vector<std::string> names = {path};
    std::error_code ignored;
    if (path != kStandardInput && std::filesystem::is_directory(path, ignored)) {
      MCCS_ASSIGN_OR_RETURN(names, FilesIn(path));
    }
    for (const std::string& name : names) {
      MCCS_ASSIGN_OR_RETURN(std::string text, ReadOne(name, kMaxObjectTextBytes - bytes));
      bytes += text.size();
      files.emplace_back().set_name(name == kStandardInput ? "<stdin>" : name);
      MCCS_RETURN_IF_ERROR(CheckText(text, files.back().name()));
      files.back().set_text(std::move(text));
    }
  }
  return files;
}

}  // namespace mccs
