// A channel: its health, what can be done with it, and its notices.
import { useState } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import type { Reply } from '../../api/client.ts'
import { explainMissing } from '../../api/permissions.ts'
import { isMissing, usePages, useRead } from '../../api/queries.ts'
import { ActionButton } from '../../parts/action.tsx'
import { ButtonLink } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { Icon } from '../../parts/icon.tsx'
import { PageHead, Stack } from '../../parts/page.tsx'
import { Empty, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { Body, Foot, Note } from '../../parts/sections.tsx'
import { StateLabel } from '../../parts/state.tsx'
import { Cell, More, Row, Table } from '../../parts/table.tsx'
import { Ago } from '../../parts/time.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { toAddress } from '../../router/links.tsx'
import { HealthCard, TestResult } from '../receiver-cards.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { changeChannel, deleteChannel, sendConfirmation, setEnabled, testChannel } from './actions.ts'
import {
  type Channel,
  DEPLOYS,
  describeError,
  describeTarget,
  explainHealth,
  KINDS,
  stateOfChannel,
  stateOfNotice,
} from './channel-state.ts'

/** An attempt has no event. */
const READ_EVERY_MS = 5_000
type Test = Reply<'POST /v2/channels/{channel_id}/test'>

export default function ChannelPage({ workspace, params, me }: ScreenProps<{ channel: string }>) {
  const ref = { params: { channel_id: params.channel } }
  const {
    data: channel,
    error,
    refetch,
  } = useRead(workspace, 'GET /v2/channels/{channel_id}', ref, { everyMs: READ_EVERY_MS })
  const [tested, setTested] = useState<Test>()
  const [, navigate] = useLocation()
  useCrumbs({ label: 'Channels', to: '/channels' }, { label: channel?.name ?? '…' })
  if (isMissing(error))
    return (
      <Empty
        title="Channel not found"
        action={<ButtonLink href={toAddress('/channels')}>Open the channels</ButtonLink>}
      >
        The channel was deleted, or it belongs to another person or workspace.
      </Empty>
    )
  if (error && !channel) return <Problem error={error} onRetry={() => void refetch()} />
  if (!channel) return <Skeleton lines={9} />
  const missing = channel.is_own ? undefined : explainMissing(me, workspace, 'channels:manage')
  const state = stateOfChannel(channel)
  const isOff = !channel.enabled
  return (
    <>
      <PageHead
        title={channel.name}
        state={<StateLabel state={state} large />}
        actions={
          <>
            <ActionButton action={testChannel(channel, missing)} onDone={reply => setTested(reply as Test)} />
            <ActionButton action={setEnabled(channel, isOff, missing)} look={isOff ? 'primary' : 'default'} />
          </>
        }
        meta={[
          <>
            <Icon name="bell" />
            {KINDS[channel.target.kind]}: {describeTarget(channel)}
          </>,
          DEPLOYS[channel.deploys],
          channel.is_default && 'Default for alerts',
          channel.is_own && 'Only you see it',
        ]}
      />
      <Stack>
        <HealthCard state={state} why={explainHealth(channel)}>
          {channel.target.kind === 'email' && channel.health.status === 'unconfirmed' && (
            <ActionButton action={sendConfirmation(channel, missing)} />
          )}
        </HealthCard>
        {tested && (
          <TestResult
            thing="test notice"
            tested={tested}
            answer={
              tested.answer_status === null
                ? describeError(tested.error)
                : `The receiver responded with ${tested.answer_status}.`
            }
            onClose={() => setTested(undefined)}
          />
        )}
        <ToldOf channel={channel} missing={missing} />
        <Notices workspace={workspace} channel={channel} />
      </Stack>
      <Foot>
        <p>
          Created <Ago time={channel.created_at} suffix=" ago" />. Id <code>{channel.id}</code>
        </p>
        <ActionButton
          small
          look="bare"
          action={deleteChannel(channel, missing)}
          onDone={() => navigate(toAddress('/channels'))}
        />
      </Foot>
    </>
  )
}

const ToldOf = ({ channel, missing }: { channel: Channel; missing: string | undefined }) => (
  <Card title="Told of">
    <Body>
      <Note>{channel.is_default ? 'Alerts that name no channel are told here.' : 'Only alerts that name it.'}</Note>
      <p>
        {(Object.keys(DEPLOYS) as Channel['deploys'][])
          .filter(deploys => deploys !== channel.deploys)
          .map(deploys => (
            <ActionButton
              key={deploys}
              small
              action={{
                ...changeChannel(channel, { deploys }, missing),
                label: deploys === 'none' ? 'Tell of no deployments' : `Tell of ${DEPLOYS[deploys].toLowerCase()}`,
              }}
            />
          ))}
        <ActionButton
          small
          action={{
            ...changeChannel(channel, { is_default: !channel.is_default }, missing),
            label: channel.is_default ? 'No longer the default for alerts' : 'Make it a default for alerts',
          }}
        />
      </p>
    </Body>
  </Card>
)

function Notices({ workspace, channel }: { workspace: string; channel: Channel }) {
  const { items, error, hasNextPage, isFetchingNextPage, fetchNextPage, refetch } = usePages(
    workspace,
    'GET /v2/channels/{channel_id}/notices',
    { params: { channel_id: channel.id }, query: { limit: 25 } },
    { everyMs: READ_EVERY_MS },
  )
  return (
    <Card title="Notices" aside="Kept for 30 days">
      {error && !items && <Problem error={error} onRetry={() => void refetch()} />}
      {!items && !error && <Skeleton lines={5} />}
      {items?.length === 0 && (
        <Body>
          <Note>No notices yet. Test notices are not listed here.</Note>
        </Body>
      )}
      {items && items.length > 0 && (
        <Table
          caption="Notices, newest first"
          columns={[
            { label: 'Notice', width: '44%' },
            { label: 'State', width: '32%' },
            { label: 'Created', width: '96', isEnd: true },
          ]}
        >
          {items.map(one => (
            <Row key={one.id}>
              <Cell detail={one.phase === 'single' ? undefined : one.phase}>{one.title}</Cell>
              <Cell detail={one.error && describeError(one.error)}>
                <StateLabel state={stateOfNotice(one)} />
              </Cell>
              <Cell isEnd>
                <Ago time={one.created_at} />
              </Cell>
            </Row>
          ))}
        </Table>
      )}
      {hasNextPage && <More isBusy={isFetchingNextPage} onMore={() => void fetchNextPage()} />}
    </Card>
  )
}
