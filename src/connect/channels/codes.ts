// Error codes of channels.
import type { ErrorCodes } from '../../protocol/error-codes.ts'

export const channelsCodes = {
  channel_not_found: {
    status: 404,
    title: 'Channel not found',
    problem: 'This workspace has no such channel, or it is the own channel of another person.',
    remedy: 'GET /v2/channels lists the channels.',
  },
  channel_name_taken: {
    status: 409,
    title: 'Channel name taken',
    problem: 'Another channel has this name.',
    remedy: 'Choose another `name`.',
  },
  channel_kind_fixed: {
    status: 409,
    title: 'Kind of the channel is fixed',
    problem: 'A channel keeps its kind.',
    remedy: 'Create another channel, and delete this one.',
  },
  email_unavailable: {
    status: 409,
    title: 'E-mail unavailable',
    problem: 'This control plane sends no e-mails: `SMTP_URL` is not set, or it runs on Workers.',
    remedy: 'Ask its operator to set `SMTP_URL` and `SMTP_FROM` on a host with Node, Deno or Bun, or use another kind.',
  },
  channel_needs_member: {
    status: 403,
    title: 'Channel needs a member',
    problem: 'Only a person has a channel of their own, and this key belongs to none.',
    remedy: 'Sign in, or create a channel of the workspace by POST /v2/channels.',
  },
  channel_unconfirmed: {
    status: 409,
    title: 'Address not confirmed',
    problem: 'The owner of the address has not confirmed it, so nothing is sent to it.',
    remedy: 'Open the link in the e-mail, or send it again by POST /v2/channels/{channel_id}/confirmation.',
  },
  channel_confirmed: {
    status: 409,
    title: 'Nothing to confirm',
    problem: 'This channel needs no confirmation.',
    remedy: 'Send a test notice by POST /v2/channels/{channel_id}/test.',
  },
  confirmations_full: {
    status: 429,
    title: 'Too many confirmations',
    problem: 'A day has room for 3 e-mails that ask one address to confirm, and for 20 of a workspace.',
    remedy: 'Wait as long as `Retry-After` says.',
  },
  emails_full: {
    status: 429,
    title: 'Too many e-mails',
    problem: 'The workspace has sent the e-mails of this hour.',
    remedy: 'Wait as long as `Retry-After` says, or ask the operator to raise `EMAILS_PER_HOUR`.',
  },
  channel_link_invalid: {
    status: 404,
    title: 'Link not valid',
    problem: 'The link has expired, or it was used before.',
    remedy: 'Ask for another e-mail.',
  },
} as const satisfies ErrorCodes
