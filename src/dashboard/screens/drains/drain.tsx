// A drain: whether it delivers, what was lost, who sends, and its settings.
import { useState } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import { explainMissing } from '../../api/permissions.ts'
import { isMissing, usePages, useRead } from '../../api/queries.ts'
import { formatCount, plural } from '../../format/amount.ts'
import { ActionButton } from '../../parts/action.tsx'
import { Button, ButtonLink } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { Icon } from '../../parts/icon.tsx'
import { PageHead, Stack } from '../../parts/page.tsx'
import { Empty, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { Body, Facts, Foot, Note } from '../../parts/sections.tsx'
import { StateLabel } from '../../parts/state.tsx'
import { Cell, Row, Table } from '../../parts/table.tsx'
import { Ago } from '../../parts/time.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { toAddress, useFilter } from '../../router/links.tsx'
import { ActionForm } from '../action-form.tsx'
import { HealthCard, TestResult } from '../receiver-cards.tsx'
import { describeScope } from '../scope.ts'
import type { ScreenProps } from '../screen-props.ts'
import { changeDrain, deleteDrain, setEnabled, testDrain } from './actions.ts'
import { DrainFields, describeFilter, explainDraft, toDraft, toPatch } from './drain-form.tsx'
import {
  type Drain,
  type DrainTest,
  describeSignals,
  describeTest,
  explainState,
  isLines,
  labelOf,
  stateOfDrain,
  stateOfSender,
} from './drain-state.ts'

/** Counts of agents have no event. */
const READ_EVERY_MS = 5_000

export default function DrainPage({ workspace, params, me }: ScreenProps<{ drain: string }>) {
  const ref = { params: { drain_id: params.drain } }
  const {
    data: drain,
    error,
    refetch,
  } = useRead(workspace, 'GET /v2/drains/{drain_id}', ref, { everyMs: READ_EVERY_MS })
  const [open, setOpen] = useFilter('open')
  const [tested, setTested] = useState<DrainTest>()
  const [, navigate] = useLocation()
  useCrumbs({ label: 'Drains', to: '/drains' }, { label: drain?.name ?? '…' })
  if (isMissing(error))
    return (
      <Empty title="Drain not found" action={<ButtonLink href={toAddress('/drains')}>Open the drains</ButtonLink>}>
        The drain was deleted, or it belongs to another workspace.
      </Empty>
    )
  if (error && !drain) return <Problem error={error} onRetry={() => void refetch()} />
  if (!drain) return <Skeleton lines={9} />
  const missing = explainMissing(me, workspace, 'drains:manage')
  const state = stateOfDrain(drain)
  return (
    <>
      <PageHead
        title={drain.name}
        state={<StateLabel state={state} large />}
        actions={
          <>
            <ActionButton action={testDrain(drain, missing)} onDone={reply => setTested(reply as DrainTest)} />
            <ActionButton
              action={setEnabled(drain, !drain.enabled, missing)}
              look={drain.enabled ? 'default' : 'primary'}
            />
            <Button
              aria-expanded={open === 'edit'}
              unavailable={missing}
              onClick={() => setOpen(open === 'edit' ? '' : 'edit')}
            >
              Edit
            </Button>
          </>
        }
        meta={[
          <>
            <Icon name="out" />
            {labelOf(drain.kind)}: <code>{drain.url}</code>
          </>,
          describeSignals(drain),
        ]}
      />
      <Stack>
        <HealthCard state={state} why={explainState(drain)}>
          {drain.state.status === 'failing' && drain.state.failing_since && (
            <Note>
              Failing for <Ago time={drain.state.failing_since} />.
            </Note>
          )}
        </HealthCard>
        {tested && (
          <TestResult
            thing="test line"
            tested={tested}
            answer={describeTest(tested)}
            onClose={() => setTested(undefined)}
          />
        )}
        {open === 'edit' && !missing && (
          <EditCard workspace={workspace} drain={drain} key={drain.updated_at} onClose={() => setOpen('')} />
        )}
        <Sent workspace={workspace} drain={drain} />
        <Settings drain={drain} />
      </Stack>
      <Foot>
        <p>
          Created <Ago time={drain.created_at} suffix=" ago" />. Id <code>{drain.id}</code>
        </p>
        <ActionButton
          small
          look="bare"
          action={deleteDrain(drain, missing)}
          onDone={() => navigate(toAddress('/drains'))}
        />
      </Foot>
    </>
  )
}

type EditProps = { workspace: string; drain: Drain; onClose: () => void }
function EditCard({ workspace, drain, onClose }: EditProps) {
  const [draft, setDraft] = useState(() => toDraft(drain))
  return (
    <ActionForm
      title="Edit the drain"
      action={changeDrain(drain, toPatch(draft), explainDraft(draft))}
      cancel={onClose}
      onDone={onClose}
    >
      {faults => (
        <DrainFields
          workspace={workspace}
          drain={drain}
          draft={draft}
          onChange={part => setDraft(current => ({ ...current, ...part }))}
          faults={faults}
        />
      )}
    </ActionForm>
  )
}

/** A role without `listeners:read` sees no names. */
function Sent({ workspace, drain: { state } }: { workspace: string; drain: Drain }) {
  const { items: listeners } = usePages(workspace, 'GET /v2/listeners', { query: { limit: 100 } })
  const nameOf = (id: string | null) =>
    id === null ? 'The control plane' : (listeners?.find(one => one.id === id)?.compute_id ?? `Agent ${id.slice(0, 8)}`)
  return (
    <Card title="Sent">
      <Body>
        <Facts
          facts={[
            ['Sent', formatCount(state.sent)],
            ['Dropped', formatCount(state.dropped)],
            ['Waiting at agents', formatCount(state.waiting)],
            ['Last sent', state.last_sent_at && <Ago time={state.last_sent_at} suffix=" ago" />],
          ]}
        />
        {state.dropped > 0 && (
          <Note>
            Dropped records are lost: the buffer of an agent was full, or the receiver refused them for their content.
          </Note>
        )}
        {state.senders.length === 0 && <Note>No agent has told of this drain yet.</Note>}
      </Body>
      {state.senders.length > 0 && (
        <Table
          caption="Senders"
          columns={[
            { label: 'Sender', width: '30%' },
            { label: 'State', width: '34%' },
            { label: 'Dropped' },
            { label: 'Sent', width: '96', isEnd: true },
          ]}
        >
          {state.senders.map(sender => (
            <Row key={sender.listener_id ?? ''}>
              <Cell detail={sender.waiting ? `${plural(sender.waiting, 'record')} waiting` : undefined}>
                {nameOf(sender.listener_id)}
              </Cell>
              <Cell detail={sender.error}>
                <StateLabel state={stateOfSender(sender)} />
              </Cell>
              <Cell isWideOnly>{formatCount(sender.dropped)}</Cell>
              <Cell isEnd>{formatCount(sender.sent)}</Cell>
            </Row>
          ))}
        </Table>
      )}
    </Card>
  )
}

const Settings = ({ drain }: { drain: Drain }) => (
  <Card title="Settings">
    <Body>
      <Facts
        facts={[
          ['Signals', describeSignals(drain)],
          ['Deployments', describeScope(drain)],
          ['Lines', drain.signals.some(isLines) && describeFilter(drain)],
          [
            'Headers',
            drain.kind !== 'syslog' &&
              (drain.header_names.length > 0 ? `${drain.header_names.join(', ')} (values are not shown)` : 'None'),
          ],
          ['Compression', drain.kind !== 'syslog' && (drain.compression === 'gzip' ? 'gzip' : 'None')],
        ]}
      />
    </Body>
  </Card>
)
