// Actions on a channel, each as one request.
import { type Action, request } from '../../api/actions.ts'
import type { CallOptions } from '../../api/client.ts'
import type { Channel } from './channel-state.ts'

type Unavailable = string | undefined
export type NewBody = NonNullable<CallOptions<'POST /v2/channels'>['body']>
export type OwnBody = NonNullable<CallOptions<'POST /v2/channels/own'>['body']>

const refOf = ({ id }: Channel) => ({ params: { channel_id: id } })

export const createChannel = (body: NewBody, unavailable: Unavailable): Action => ({
  label: 'Create channel',
  request: request('POST /v2/channels', { body }),
  unavailable,
  done: 'The channel is created.',
})

export const createOwnChannel = (body: OwnBody): Action => ({
  label: 'Create channel',
  request: request('POST /v2/channels/own', { body }),
  command: 'slipway channels create --own',
  done: 'The channel is created.',
})

export const testChannel = (channel: Channel, unavailable: Unavailable): Action => ({
  label: 'Send test notice',
  request: request('POST /v2/channels/{channel_id}/test', refOf(channel)),
  command: `slipway channels test ${channel.id}`,
  unavailable,
  done: 'A test notice was sent.',
})

export const setEnabled = (channel: Channel, enabled: boolean, unavailable: Unavailable): Action => ({
  label: enabled ? 'Resume' : 'Pause',
  request: request('PATCH /v2/channels/{channel_id}', { ...refOf(channel), body: { enabled } }),
  unavailable,
  done: enabled ? 'The channel is resumed.' : 'The channel is paused.',
})

export const changeChannel = (
  channel: Channel,
  body: Partial<Pick<Channel, 'deploys' | 'is_default'>>,
  unavailable: Unavailable,
): Action => ({
  label: 'Save channel',
  request: request('PATCH /v2/channels/{channel_id}', { ...refOf(channel), body }),
  unavailable,
  done: 'The channel is saved.',
})

export const sendConfirmation = (channel: Channel, unavailable: Unavailable): Action => ({
  label: 'Send the confirmation again',
  request: request('POST /v2/channels/{channel_id}/confirmation', refOf(channel)),
  unavailable,
  done: 'An e-mail asks the owner of the address to confirm it.',
})

export const deleteChannel = (channel: Channel, unavailable: Unavailable): Action => ({
  label: 'Delete channel',
  request: request('DELETE /v2/channels/{channel_id}', refOf(channel)),
  command: `slipway channels delete ${channel.id}`,
  unavailable,
  confirm: {
    title: `Delete the channel ${channel.name}?`,
    body: 'Unsent notices are not delivered. The record of its notices is deleted. To stop it for a time, pause it.',
    isDestructive: true,
  },
  done: `The channel ${channel.name} is deleted.`,
})
