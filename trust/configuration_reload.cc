#include "trust/configuration_reload.h"

#include "absl/status/statusor.h"

namespace mccs {

void FinishReload(const absl::Status& checked, std::optional<ConfigFile>& file,
                  CertificateReload& certificate,
                  absl::FunctionRef<std::optional<std::string>(const std::string& key)> apply,
                  Log& log) {
  const absl::StatusOr<std::optional<std::string>> renewed = certificate.Check();
  if (!renewed.ok()) {
    log.Warning("the files of `tls` cannot be used, so the ones before stay: ",
                std::string(renewed.status().message()));
  }
  absl::StatusOr<ConfigFile::Changes> changes = ConfigFile::Changes();
  if (checked.ok() && file.has_value()) changes = file->Reload(apply);
  const absl::Status status = checked.ok() ? changes.status() : checked;
  if (!status.ok()) {
    log.Error("cannot reload the configuration, and nothing has changed: ",
              std::string(status.message()));
    return;
  }
  if (renewed.ok() && renewed->has_value()) changes->applied.push_back(**renewed);
  // A warning passes every level but one.
  log.Warning(Describe(file.has_value() ? file->path() : "", *changes));
}

}  // namespace mccs
