// The deliveries to a webhook: sent, waiting and failed, each with its request and answer.
import { useRef } from 'preact/hooks'
import { usePages, useRead } from '../../api/queries.ts'
import { useRowKeys } from '../../commands/commands.ts'
import { formatAge, formatExact, formatSeconds } from '../../format/time.ts'
import { ActionButton } from '../../parts/action.tsx'
import { Button } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { Dialog } from '../../parts/dialog.tsx'
import { Chip } from '../../parts/field.tsx'
import { Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { Body, Facts, Note } from '../../parts/sections.tsx'
import { StateLabel } from '../../parts/state.tsx'
import { Cell, More, Row, rowLink, Table } from '../../parts/table.tsx'
import { Ago, now } from '../../parts/time.tsx'
import { setFilters, useFilter } from '../../router/links.tsx'
import { redeliver } from './actions.ts'
import { Exchange } from './exchange.tsx'
import styles from './webhook.module.css'
import { type Delivery, describeAnswer, describeError, stateOfDelivery, type Webhook } from './webhook-state.ts'

/** An attempt has no event. */
const READ_EVERY_MS = 5_000
const PAGE_SIZE = 25
const VIEWS = [
  { name: '', label: 'All' },
  { name: 'waiting', label: 'Waiting' },
  { name: 'failed', label: 'Failed' },
  { name: 'delivered', label: 'Delivered' },
] as const

type Props = { workspace: string; webhook: Webhook; missing: string | undefined }

export function Deliveries({ workspace, webhook, missing }: Props) {
  const [view, setView] = useFilter('state')
  const [type, setType] = useFilter('type')
  const [selected, select] = useFilter('delivery')
  const table = useRef<HTMLTableElement>(null)
  useRowKeys(table, 'delivery')
  const state = VIEWS.find(({ name }) => name === view)?.name || undefined
  const { items, error, dataUpdatedAt, isPlaceholderData, hasNextPage, isFetchingNextPage, fetchNextPage, refetch } =
    usePages(
      workspace,
      'GET /v2/webhooks/{webhook_id}/deliveries',
      {
        params: { webhook_id: webhook.id },
        query: { limit: PAGE_SIZE, ...(state && { state }), ...(type && { type }) },
      },
      { everyMs: READ_EVERY_MS },
    )
  const age = Math.max(0, (now.value - dataUpdatedAt) / 1000)
  const isFiltered = view !== '' || type !== ''
  return (
    <Card title="Deliveries" aside={items && `Read ${age < 5 ? 'just now' : `${formatAge(age)} ago`}, every 5 s`}>
      <div class={styles.views}>
        {VIEWS.map(one => (
          <Chip key={one.name} pressed={one.name === view} onPress={() => setView(one.name)}>
            {one.label}
          </Chip>
        ))}
        {type && (
          <Chip pressed onPress={() => setType('')}>
            <code>{type}</code> ×
          </Chip>
        )}
      </div>
      {error && !items && <Problem error={error} onRetry={() => void refetch()} />}
      {!items && !error && <Skeleton lines={5} />}
      {items?.length === 0 && (
        <Body>
          <Note>
            {isFiltered
              ? 'No delivery matches.'
              : 'No deliveries yet. The next matching event is sent within about a second.'}
          </Note>
          {isFiltered && (
            <p>
              <Button onClick={() => setFilters({ state: '', type: '' })}>Show all deliveries</Button>
            </p>
          )}
        </Body>
      )}
      {items && items.length > 0 && (
        <Table
          caption="Deliveries, newest first"
          tableRef={table}
          isOld={isPlaceholderData}
          columns={[
            { label: 'Event', width: '34%' },
            { label: 'State', width: '26%' },
            { label: 'Last attempt' },
            { label: 'Created', width: '96', isEnd: true },
          ]}
        >
          {items.map(one => (
            <Row key={one.id}>
              <Cell detail={`Event ${one.number}`}>
                <button type="button" data-row class={rowLink} onClick={() => select(one.id)}>
                  {one.type}
                </button>
              </Cell>
              <Cell detail={<Next delivery={one} />}>
                <StateLabel state={stateOfDelivery(one)} />
              </Cell>
              <Cell detail={one.duration_ms === null ? undefined : `${one.duration_ms} ms`}>{describeAnswer(one)}</Cell>
              <Cell isEnd>
                <Ago time={one.created_at} />
              </Cell>
            </Row>
          ))}
        </Table>
      )}
      {hasNextPage && <More isBusy={isFetchingNextPage} onMore={() => void fetchNextPage()} />}
      {selected && (
        <DeliveryDialog
          key={selected}
          workspace={workspace}
          webhook={webhook}
          missing={missing}
          selected={selected}
          onClose={() => select('')}
          onType={one => setFilters({ type: one, delivery: '' })}
        />
      )}
    </Card>
  )
}

/** When it is tried again, or after how many attempts it ended. */
const Next = ({ delivery: { state, attempts, next_attempt_at } }: { delivery: Delivery }) => {
  if (state === 'waiting' && next_attempt_at && attempts > 0) {
    const seconds = (Date.parse(next_attempt_at) - now.value) / 1000
    return (
      <span title={formatExact(next_attempt_at)}>
        {seconds > 1
          ? `Attempt ${attempts + 1} in ${seconds < 60 ? `${Math.round(seconds)} s` : formatSeconds(seconds)}`
          : `Attempt ${attempts + 1} is due`}
      </span>
    )
  }
  return <>{attempts > 1 ? `${attempts} attempts` : attempts === 1 ? '1 attempt' : ''}</>
}

type DialogProps = Props & { selected: string; onClose: () => void; onType: (type: string) => void }
function DeliveryDialog({ workspace, webhook, missing, selected, onClose, onType }: DialogProps) {
  const { data, error, refetch } = useRead(
    workspace,
    'GET /v2/webhooks/{webhook_id}/deliveries/{delivery_id}',
    { params: { webhook_id: webhook.id, delivery_id: selected } },
    { everyMs: READ_EVERY_MS },
  )
  return (
    <Dialog
      title={data ? `Event ${data.number}: ${data.type}` : 'Delivery'}
      onClose={onClose}
      footer={
        data && (
          <>
            <Button onClick={() => onType(data.type)}>Show all of this type</Button>
            <ActionButton action={redeliver(data, missing)} look="primary" icon="again" onDone={() => void refetch()} />
          </>
        )
      }
    >
      {error && !data && <Problem error={error} />}
      {!data && !error && <Skeleton lines={6} height={20} />}
      {data && (
        <>
          <Facts
            facts={[
              ['State', <StateLabel state={stateOfDelivery(data)} />],
              ['Attempts', <Attempts delivery={data} />],
              ['Last error', data.error && describeError(data.error)],
              ['Duration', data.duration_ms !== null && `${data.duration_ms} ms`],
              ['Message', <code>{data.message_id}</code>],
            ]}
          />
          <Exchange request={data.request} answer={data.answer} />
        </>
      )}
    </Dialog>
  )
}

const Attempts = ({ delivery }: { delivery: Delivery }) => (
  <span>
    {delivery.attempts} of 10
    {delivery.attempted_at && (
      <span>
        , the last <Ago time={delivery.attempted_at} suffix=" ago" />
      </span>
    )}
    {delivery.state === 'waiting' && delivery.attempts > 0 && (
      <span>
        . <Next delivery={delivery} />
      </span>
    )}
  </span>
)
