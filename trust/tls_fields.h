// `tls` of the configurations of mccsd and mccs-controller:
//
//   tls:
//     authority: /etc/mccs/tls/ca.crt
//     certificate: /etc/mccs/tls/tls.crt
//     key: /etc/mccs/tls/tls.key
#ifndef MCCS_TRUST_TLS_FIELDS_H_
#define MCCS_TRUST_TLS_FIELDS_H_

#include "base/yaml_config.h"
#include "trust/tls_files.h"

namespace mccs {

// All three or none; the reader collects errors.
void ReadTlsFiles(YamlReader tls, TlsFiles* files);

}  // namespace mccs

#endif  // MCCS_TRUST_TLS_FIELDS_H_
