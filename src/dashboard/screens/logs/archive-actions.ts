// Actions on the settings of archives of logs, each as one request.
import { type Action, request } from '../../api/actions.ts'
import type { CallOptions, Reply } from '../../api/client.ts'
import type { Deployment } from '../../format/state.ts'

export type ArchiveSettings = Reply<'GET /v2/log-archive-settings'>
type OwnBody = NonNullable<CallOptions<'PUT /v2/deployments/{deployment_id}/log-archive-settings'>['body']>

/** The API refuses what is no number, and says so at the field. */
export const toDays = (text: string): number => (/^\s*\d+\s*$/.test(text) ? Number(text) : (text as never))

export const setArchive = (body: ArchiveSettings, unavailable: string | undefined): Action => ({
  label: 'Save archive settings',
  request: request('PUT /v2/log-archive-settings', { body }),
  unavailable,
  done: body.enabled ? 'Lines that arrive from now on are archived.' : 'No more lines are archived.',
})

export const setOwnArchive = ({ id, name }: Deployment, body: OwnBody, unavailable: string | undefined): Action => ({
  label: 'Save archive settings',
  request: request('PUT /v2/deployments/{deployment_id}/log-archive-settings', {
    params: { deployment_id: id },
    body,
  }),
  unavailable,
  done: `${name}: the archive settings are saved.`,
})
