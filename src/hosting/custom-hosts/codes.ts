// Error codes of custom hosts.
import type { ErrorCodes } from '../../protocol/error-codes.ts'

export const customHostsCodes = {
  custom_host_reserved: {
    status: 400,
    title: 'Custom host reserved',
    problem: 'The host of `custom_url` belongs to this installation.',
    remedy: 'Choose a host of your own.',
  },
  custom_host_unproven: {
    status: 404,
    title: 'DNS record not found',
    problem: 'The TXT record that proves control of this host is not in DNS.',
    remedy: 'Create the record, wait until DNS serves it, and repeat the request.',
  },
  custom_host_taken: {
    status: 409,
    title: 'Custom host taken',
    problem: 'Another workspace uses the host of `custom_url`.',
    remedy: 'If the host is yours, POST /v2/custom-hosts/{host}/verification returns the DNS record that proves it.',
  },
  custom_url_taken: {
    status: 409,
    title: 'Custom URL taken',
    problem: 'Another deployment of this workspace has this `custom_url`.',
    remedy: 'Choose another path, or clear it there first.',
  },
} as const satisfies ErrorCodes
