// Routes of channels, their notices, and the links of e-mails.
import { type OpenOperation, slice } from '../../kernel/http/routes.ts'
import * as channels from './channels.ts'
import { sendConfirmation } from './confirmation.ts'
import { showLinkPage, useLinkPage } from './link-pages.ts'
import { listNotices } from './notice-list.ts'
import * as s from './schema.ts'
import { testChannel } from './test-notice.ts'

const linkPage = { query: s.LinkQuery, pageMediaType: 'text/html' } satisfies Partial<OpenOperation>
const linkForm = {
  ...linkPage,
  bodyMediaType: 'application/x-www-form-urlencoded',
  errors: [
    ...(['channel_link_invalid', 'address_rate_limited', 'database_unavailable'] as const),
    ...(['body_cut', 'body_too_slow', 'body_too_large'] as const),
  ],
} satisfies Partial<OpenOperation>

export const channelRoutes = slice(
  'Channels',
  'Places where people are told of incidents and deployments: e-mail, Slack, PagerDuty and signed webhooks.',
)
  .get('/v2/channels', {
    id: 'listChannels',
    summary: 'List the channels of this workspace, and those of the caller',
    description: 'Newest first. `health` says whether sending works and why not. Secrets are never shown.',
    query: s.ChannelQuery,
    reply: s.ChannelList,
    verb: channels.listChannels,
  })
  .post('/v2/channels', {
    id: 'createChannel',
    summary: 'Create a channel of this workspace',
    description: [
      'An e-mail asks the owner of an address to confirm it, and nothing else is sent before. The answer has the',
      'secret of a webhook, which is shown only once. `deploys` also takes `deployments:read`, and `is_default`',
      '`alerts:read`. A workspace has room for 200 channels.',
    ].join(' '),
    body: s.NewChannel,
    status: 201,
    reply: s.ChannelWithSecret,
    errors: [
      ...(['blocked_url', 'channel_name_taken', 'email_unavailable'] as const),
      ...(['confirmations_full', 'permission_missing', 'workspace_not_found'] as const),
    ],
    location: channel => `/v2/channels/${channel.id}`,
    verb: channels.createChannel,
  })
  .post('/v2/channels/own', {
    id: 'createOwnChannel',
    summary: 'Create a channel to the address of the caller',
    description: [
      'Takes no permission to manage channels. Only the caller sees it, and it goes when the caller leaves the',
      'workspace.',
      'An address that an identity provider or the operator has vouched for needs no confirmation.',
    ].join(' '),
    body: s.NewOwnChannel,
    status: 201,
    reply: s.Channel,
    errors: [
      ...(['channel_needs_member', 'channel_name_taken', 'email_unavailable'] as const),
      ...(['confirmations_full', 'workspace_not_found'] as const),
    ],
    location: channel => `/v2/channels/${channel.id}`,
    verb: channels.createOwnChannel,
  })
  .get('/v2/channels/{channel_id}', {
    id: 'readChannel',
    summary: 'Read a channel and its health',
    description: 'The last attempt is in `health`. The secrets of the target are never shown.',
    params: s.ChannelRef,
    reply: s.Channel,
    errors: ['channel_not_found'],
    versioned: true,
    verb: channels.readChannel,
  })
  .patch('/v2/channels/{channel_id}', {
    id: 'changeChannel',
    summary: 'Change, pause or resume a channel',
    description: [
      'A `target` replaces the receiver with another one of the same kind; a new address is confirmed first. Takes',
      '`channels:manage`, but for an own channel, whose address stays.',
    ].join(' '),
    params: s.ChannelRef,
    body: s.ChannelPatch,
    reply: s.Channel,
    errors: [
      ...(['channel_not_found', 'channel_name_taken', 'channel_kind_fixed', 'blocked_url'] as const),
      ...(['email_unavailable', 'confirmations_full', 'permission_missing'] as const),
    ],
    versioned: true,
    verb: channels.changeChannel,
  })
  .delete('/v2/channels/{channel_id}', {
    id: 'deleteChannel',
    summary: 'Delete a channel and its notices',
    description: 'It cannot be undone. Takes `channels:manage`, but for an own channel.',
    params: s.ChannelRef,
    errors: ['channel_not_found', 'permission_missing'],
    versioned: true,
    verb: channels.deleteChannel,
  })
  .post('/v2/channels/{channel_id}/test', {
    id: 'testChannel',
    summary: 'Send a test notice now, and say what the receiver did',
    description: [
      'One attempt, also for a disabled channel. The answer has the status of the receiver, and nothing that it said.',
      'Takes `channels:manage`, but for an own channel.',
    ].join(' '),
    params: s.ChannelRef,
    reply: s.Outcome,
    errors: ['channel_not_found', 'channel_unconfirmed', 'emails_full', 'permission_missing'],
    callsExternalServers: true,
    verb: testChannel,
  })
  .post('/v2/channels/{channel_id}/confirmation', {
    id: 'sendChannelConfirmation',
    summary: 'Ask the owner of an address again to confirm it',
    description: [
      'The link of the e-mail works once, for three days; earlier ones end. At most 3 a day are sent to one address.',
      'Takes `channels:manage`, but for an own channel.',
    ].join(' '),
    params: s.ChannelRef,
    reply: s.Channel,
    errors: [
      ...(['channel_not_found', 'channel_confirmed', 'confirmations_full'] as const),
      ...(['email_unavailable', 'permission_missing'] as const),
    ],
    verb: sendConfirmation,
  })
  .get('/v2/channels/{channel_id}/notices', {
    id: 'listChannelNotices',
    summary: 'List the notices of a channel, sent and to be sent',
    description: 'Newest first. Kept for 30 days.',
    params: s.ChannelRef,
    query: s.NoticeQuery,
    reply: s.NoticeList,
    errors: ['channel_not_found'],
    verb: listNotices,
  })
  .get('/channel-links/confirm', {
    id: 'showChannelConfirmation',
    summary: 'The page that asks to confirm an address',
    description: 'For the owner of the address. To open it changes nothing.',
    ...linkPage,
    open: showLinkPage('confirm'),
  })
  .post('/channel-links/confirm', {
    id: 'confirmChannel',
    summary: 'Confirm an address',
    description: 'The token of the link replaces an API key, and works once. The answer is a page.',
    ...linkForm,
    open: useLinkPage('confirm'),
  })
  .get('/channel-links/unsubscribe', {
    id: 'showChannelEnd',
    summary: 'The page that asks to end the e-mails of a channel',
    description: 'For the owner of the address. To open it changes nothing.',
    ...linkPage,
    open: showLinkPage('unsubscribe'),
  })
  .post('/channel-links/unsubscribe', {
    id: 'endChannel',
    summary: 'End the e-mails of a channel',
    description: 'Mail clients send it for their button (RFC 8058). The token of the link replaces an API key.',
    ...linkForm,
    idempotent: true,
    open: useLinkPage('unsubscribe'),
  })
