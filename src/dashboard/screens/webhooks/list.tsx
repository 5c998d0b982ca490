// The webhooks of the workspace: URLs that its events are sent to.
import { explainMissing } from '../../api/permissions.ts'
import { usePages } from '../../api/queries.ts'
import { plural } from '../../format/amount.ts'
import { formatExact, formatShort } from '../../format/time.ts'
import { Icon } from '../../parts/icon.tsx'
import { StateLabel } from '../../parts/state.tsx'
import { Ago } from '../../parts/time.tsx'
import { ResourceList } from '../resource-list.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { stateOfWebhook, type Webhook } from './webhook-state.ts'

/** The first failure has no event. */
const READ_EVERY_MS = 15_000

export default function WebhookList({ workspace, me }: ScreenProps) {
  return (
    <ResourceList
      title="Webhooks"
      thing="webhook"
      caption="Webhooks, newest first"
      query={usePages(workspace, 'GET /v2/webhooks', { query: { limit: 100 } }, { everyMs: READ_EVERY_MS })}
      create={{
        label: 'Create webhook',
        to: '/webhooks/new',
        unavailable: explainMissing(me, workspace, 'webhooks:manage'),
      }}
      filter={{ by: 'URL, description or type', texts: one => [one.url, one.description, ...one.event_types] }}
      views={[
        {
          name: 'attention',
          label: 'Needs attention',
          has: webhook => ['bad', 'warn'].includes(stateOfWebhook(webhook).tone),
        },
        { name: 'paused', label: 'Paused', has: webhook => stateOfWebhook(webhook).word === 'Paused' },
      ]}
      empty={{
        title: 'No webhooks yet',
        command: "slipway webhooks create https://ci.example.com/slipway --type 'revision.*'",
        text:
          'A webhook sends the events of this workspace to your URL. Requests are signed, and retried until they ' +
          'are received.',
      }}
      columns={[
        {
          label: 'URL',
          width: '40%',
          icon: () => <Icon name="hook" />,
          to: ({ id }) => `/webhooks/${id}`,
          name: ({ url }) => url,
          detail: ({ description }) => description || 'No description',
        },
        {
          label: 'Health',
          width: '24%',
          cell: webhook => <StateLabel state={stateOfWebhook(webhook)} />,
          detail: describeSince,
        },
        {
          label: 'Events',
          isWideOnly: true,
          cell: ({ event_types }) => <code title={event_types.join(', ')}>{event_types.join(', ')}</code>,
          detail: describeFilter,
        },
        { label: 'Created', width: '96', isEnd: true, cell: ({ created_at }) => <Ago time={created_at} /> },
      ]}
    />
  )
}

function describeSince({ health }: Webhook) {
  const since = health.disabled_at ?? health.failing_since
  return (
    since && (
      <>
        Since{' '}
        <time dateTime={since} title={formatExact(since)}>
          {formatShort(since)}
        </time>
      </>
    )
  )
}

function describeFilter({ deployment_ids, tag_value_ids }: Webhook): string {
  const parts = [
    deployment_ids.length > 0 && plural(deployment_ids.length, 'deployment'),
    tag_value_ids.length > 0 && plural(tag_value_ids.length, 'tag'),
  ].filter(Boolean)
  return parts.length > 0 ? `Only ${parts.join(' and ')}` : 'The whole workspace'
}
