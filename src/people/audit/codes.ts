// Error codes of audit.
import type { ErrorCodes } from '../../protocol/error-codes.ts'

export const auditCodes = {
  audit_logs_off: {
    status: 404,
    title: 'Audit log off',
    problem: 'The operator of this installation switched the audit log off.',
    remedy: 'Ask the operator to set `AUDIT_LOGS=on`. Changes are recorded in the journal in any case.',
  },
} as const satisfies ErrorCodes
