#include "controller/reload.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "trust/configuration_reload.h"

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
  const absl::StatusOr<ControllerConfig> config = configure_();
  FinishReload(
      config.status(), file_, certificate_,
      [&](const std::string& key) { return Apply(*config, key); }, *log_);
}

}  // namespace mccs
