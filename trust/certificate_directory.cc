#include "trust/certificate_directory.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "trust/files.h"

namespace mccs {
namespace {

constexpr char kAuthorityCertificate[] = "ca.crt";
constexpr char kAuthorityKey[] = "ca.key";

std::string In(const std::string& directory, const char* file) {
  return absl::StrCat(directory, "/", file);
}

absl::Status MakeDirectory(const std::string& path) {
  std::error_code error;
  const bool made = std::filesystem::create_directories(path, error);
  if (error)
    return absl::UnavailableError(absl::StrCat("cannot create ", path, ": ", error.message()));
  if (made && chmod(path.c_str(), 0755) != 0) return FileError("change the mode of", path);
  return absl::OkStatus();
}

}  // namespace

TlsFiles TlsFilesIn(const std::string& directory) {
  return {.authority = In(directory, kAuthorityCertificate),
          .certificate = In(directory, "tls.crt"),
          .key = In(directory, "tls.key")};
}

absl::Status WriteAuthority(const std::string& directory, const CertificateAuthority& authority) {
  MCCS_ASSIGN_OR_RETURN(const CertificateAndKey pem, authority.Pem());
  MCCS_RETURN_IF_ERROR(MakeDirectory(directory));
  for (const char* file : {kAuthorityKey, kAuthorityCertificate}) {
    if (access(In(directory, file).c_str(), F_OK) == 0) {
      return absl::AlreadyExistsError(
          absl::StrCat(In(directory, file),
                       " exists: a new authority would make all certificates of "
                       "the present one invalid; use another directory"));
    }
  }
  MCCS_RETURN_IF_ERROR(WriteNewFile(In(directory, kAuthorityKey), pem.key, kPrivateFile));
  return WriteNewFile(In(directory, kAuthorityCertificate), pem.certificate, kPublicFile);
}

absl::StatusOr<CertificateAuthority> ReadAuthority(const std::string& directory) {
  CertificateAndKey pem;
  MCCS_ASSIGN_OR_RETURN(pem.certificate, ReadTextFile("the authority's certificate",
                                                      In(directory, kAuthorityCertificate)));
  MCCS_ASSIGN_OR_RETURN(pem.key, ReadTextFile("the authority's key", In(directory, kAuthorityKey)));
  absl::StatusOr<CertificateAuthority> authority = CertificateAuthority::Load(pem);
  if (authority.ok()) return authority;
  return absl::Status(authority.status().code(),
                      absl::StrCat(directory, ": ", std::string(authority.status().message())));
}

std::string DirectoryOf(const std::string& authority_directory, const Identity& identity) {
  switch (identity.kind) {
    case Identity::Kind::kController:
      return absl::StrCat(authority_directory, "/controller");
    case Identity::Kind::kHost:
      return absl::StrCat(authority_directory, "/hosts/", identity.name);
    case Identity::Kind::kOperator:
      return absl::StrCat(authority_directory, "/operators/", identity.name);
  }
  return "";
}

absl::Status WriteCertificate(const std::string& directory, const std::string& authority_pem,
                              const CertificateAndKey& issued) {
  const std::string fresh = absl::StrCat(directory, ".new");
  std::error_code ignored;
  std::filesystem::remove_all(fresh, ignored);  // of an attempt that was interrupted
  MCCS_RETURN_IF_ERROR(MakeDirectory(fresh));
  const TlsFiles files = TlsFilesIn(fresh);
  MCCS_RETURN_IF_ERROR(WriteNewFile(files.authority, authority_pem, kPublicFile));
  MCCS_RETURN_IF_ERROR(WriteNewFile(files.certificate, issued.certificate, kPublicFile));
  MCCS_RETURN_IF_ERROR(WriteNewFile(files.key, issued.key, kPrivateFile));
  const bool replaces = access(directory.c_str(), F_OK) == 0;
  if (renameat2(AT_FDCWD, fresh.c_str(), AT_FDCWD, directory.c_str(),
                replaces ? RENAME_EXCHANGE : RENAME_NOREPLACE) != 0) {
    return FileError("write", directory);
  }
  std::filesystem::remove_all(fresh, ignored);
  return absl::OkStatus();
}

}  // namespace mccs
