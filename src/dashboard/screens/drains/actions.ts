// Actions on a drain, each as one request.
import { type Action, request } from '../../api/actions.ts'
import type { CallOptions } from '../../api/client.ts'
import type { Drain } from './drain-state.ts'

type Unavailable = string | undefined
export type NewBody = NonNullable<CallOptions<'POST /v2/drains'>['body']>
export type PatchBody = NonNullable<CallOptions<'PATCH /v2/drains/{drain_id}'>['body']>

const refOf = ({ id }: Drain) => ({ params: { drain_id: id } })
/** A copied command has no values of secrets. */
const withoutValues = <Body extends Pick<PatchBody, 'headers'>>({ headers, ...body }: Body) => ({
  ...body,
  ...(headers && { headers: Object.fromEntries(Object.keys(headers).map(name => [name, '…'])) }),
})

export const createDrain = (body: NewBody, unavailable: Unavailable): Action => ({
  label: 'Create drain',
  request: request('POST /v2/drains', { body }),
  copied: request('POST /v2/drains', { body: withoutValues(body) as NewBody }),
  unavailable,
  done: 'The drain is created. Agents learn of it within half a minute.',
})

export const changeDrain = (drain: Drain, body: PatchBody, unavailable: Unavailable): Action => ({
  label: 'Save drain',
  request: request('PATCH /v2/drains/{drain_id}', { ...refOf(drain), body }),
  copied: request('PATCH /v2/drains/{drain_id}', { ...refOf(drain), body: withoutValues(body) }),
  unavailable,
  done: 'The drain is saved.',
})

export const setEnabled = (drain: Drain, enabled: boolean, unavailable: Unavailable): Action => ({
  label: enabled ? 'Resume' : 'Pause',
  request: request('PATCH /v2/drains/{drain_id}', { ...refOf(drain), body: { enabled } }),
  unavailable,
  ...(!enabled && {
    confirm: {
      title: `Pause the drain ${drain.name}?`,
      body: 'What waits at agents is deleted, and what comes until it is resumed is not sent later.',
      isDestructive: true,
    },
  }),
  done: enabled ? 'The drain is resumed. It sends what comes from now on.' : 'The drain is paused.',
})

export const testDrain = (drain: Drain, unavailable: Unavailable): Action => ({
  label: 'Send test line',
  request: request('POST /v2/drains/{drain_id}/test', refOf(drain)),
  command: `slipway drains test ${drain.id}`,
  unavailable:
    unavailable ?? (drain.kind === 'syslog' ? 'A test is not possible for syslog, which has no answers.' : undefined),
  done: 'A test line was sent.',
})

export const deleteDrain = (drain: Drain, unavailable: Unavailable): Action => ({
  label: 'Delete drain',
  request: request('DELETE /v2/drains/{drain_id}', refOf(drain)),
  command: `slipway drains delete ${drain.id}`,
  unavailable,
  confirm: {
    title: `Delete the drain ${drain.name}?`,
    body: 'What waits at agents is deleted, too. What was sent stays at the receiver.',
    isDestructive: true,
  },
  done: `The drain ${drain.name} is deleted.`,
})
