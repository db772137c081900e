// The actions of the audit log: a verb, or a verb and a noun with hyphens. They are also the values
// of the label `action` of mccs_controller_audit_entries_total. docs/operators/audit.md explains
// them.
#ifndef MCCS_CONTROLLER_STATE_AUDIT_ACTIONS_H_
#define MCCS_CONTROLLER_STATE_AUDIT_ACTIONS_H_

namespace mccs {

// Requests of operators.
inline constexpr char kAuditApply[] = "apply";
inline constexpr char kAuditDelete[] = "delete";
inline constexpr char kAuditDrain[] = "drain";
inline constexpr char kAuditUndrain[] = "undrain";

// Decisions and events of the controller.
inline constexpr char kAuditReplan[] = "replan";
inline constexpr char kAuditRejectProposal[] = "reject-proposal";     // by a host
inline constexpr char kAuditTimeOutProposal[] = "time-out-proposal";  // no reply in time
inline constexpr char kAuditRejectDaemon[] = "reject-daemon";
inline constexpr char kAuditLowerGuarantees[] = "lower-guarantees";
inline constexpr char kAuditRestoreGuarantees[] = "restore-guarantees";
inline constexpr char kAuditQuarantinePair[] = "quarantine-pair";  // two hosts
inline constexpr char kAuditReleasePair[] = "release-pair";
inline constexpr char kAuditIgnoreEndpoint[] = "ignore-endpoint";  // several hosts claim it

}  // namespace mccs

#endif  // MCCS_CONTROLLER_STATE_AUDIT_ACTIONS_H_
