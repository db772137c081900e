#include "controller/reload.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace mccs {

std::optional<std::string> ControllerReload::Apply(const ControllerConfig& config,
                                                   const std::string& key) {
  if (key == "log_level") {
    log_->SetLowest(config.log_level);
    return absl::StrCat("log_level ", LogLevelName(config.log_level));
  }
  if (key == "operators") {
    access_->SetOperators(config.operators);
    return absl::StrCat("operators (", config.operators.size(), ")");
  }
  return std::nullopt;
}

void ControllerReload::Run() {
  const absl::StatusOr<std::optional<std::string>> certificate = certificate_.Check();
  if (!certificate.ok())
    log_->Warning("new connections fail: ", std::string(certificate.status().message()));
  const absl::StatusOr<ControllerConfig> config = configure_();
  absl::StatusOr<ConfigFile::Changes> changes = ConfigFile::Changes();
  if (config.ok() && file_.has_value())
    changes = file_->Reload([&](const std::string& key) { return Apply(*config, key); });
  const absl::Status status = config.ok() ? changes.status() : config.status();
  if (!status.ok()) {
    log_->Error("cannot reload the configuration, and nothing has changed: ",
                std::string(status.message()));
    return;
  }
  if (certificate.ok() && certificate->has_value()) changes->applied.push_back(**certificate);
  log_->Warning(Describe(file_.has_value() ? file_->path() : "", *changes));
}

}  // namespace mccs
