// Converts a tenant's options for a communicator to the daemon's.
#ifndef MCCS_SERVICE_FRONTEND_JOIN_OPTIONS_H_
#define MCCS_SERVICE_FRONTEND_JOIN_OPTIONS_H_

#include <cstring>
#include <string>

#include "proto/shim_control.h"
#include "service/communicator/membership/communicator_environment.h"

namespace mccs {

// Converts a tenant's text for logs, peers and controller to printable ASCII. `field` may lack a
// terminator.
template <size_t n>
std::string TextOf(const char (&field)[n]) {
  std::string text(field, strnlen(field, n));
  for (char& c : text) {
    if (c < ' ' || c > '~') c = '?';
  }
  return text;
}

// Sets name, timeouts and hints of the rank's communicator.
void SetOptions(const wire::CommOptions& options, JoinRequest* join);

}  // namespace mccs

#endif  // MCCS_SERVICE_FRONTEND_JOIN_OPTIONS_H_
