// The threads of a deployment that serves graphs: a new one, the list, or the one of the address.
import { useRef, useState } from 'preact/hooks'
import { useRowKeys } from '../../commands/commands.ts'
import { Card } from '../../parts/card.tsx'
import { Chip } from '../../parts/field.tsx'
import { lazily } from '../../parts/lazily.tsx'
import { ListCard, Stack } from '../../parts/page.tsx'
import { Empty, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { StateLabel } from '../../parts/state.tsx'
import { Cell, More, Row, rowLink, Table } from '../../parts/table.tsx'
import { Ago } from '../../parts/time.tsx'
import { Link, setFilters, useFilter } from '../../router/links.tsx'
import { type Assistant, isThreadId, stateOfThread, THREAD_STATUSES, type Thread } from './graph-types.ts'
import styles from './graphs.module.css'
import { RunForm } from './run-form.tsx'
import { type Graphs, startRun, useGraphPages, useGraphRead, useGraphs } from './use-application.ts'

const ThreadView = lazily(() => import('./thread.tsx'), <Skeleton lines={8} />)

const READ_EVERY_MS = 5_000
const PAGE_SIZE = 25
const MAX_ASSISTANTS = 100

export default function ThreadsView({ deployment }: { deployment: string }) {
  const graphs = useGraphs(deployment)
  return graphs ? <Connected graphs={graphs} /> : <Skeleton lines={6} />
}

function Connected({ graphs }: { graphs: Graphs }) {
  const [thread] = useFilter('thread')
  const { data, error, refetch } = useGraphRead<Assistant[]>(graphs, {
    method: 'POST',
    path: '/assistants/search',
    body: { limit: MAX_ASSISTANTS },
  })
  if (error && !data) return <Problem error={error} onRetry={() => void refetch()} />
  if (!data) return <Skeleton lines={6} />
  return isThreadId(thread) ? (
    <ThreadView key={thread} graphs={graphs} assistants={data} id={thread} />
  ) : (
    <Stack>
      <NewThread graphs={graphs} assistants={data} />
      <Threads graphs={graphs} />
    </Stack>
  )
}

function NewThread({ graphs, assistants }: { graphs: Graphs; assistants: Assistant[] }) {
  const [isBusy, setBusy] = useState(false)
  const [error, setError] = useState<Error>()
  async function start(request: { assistant_id: string; input: unknown }) {
    setBusy(true)
    setError(undefined)
    try {
      const { thread_id } = await graphs.application.read<Thread>({ method: 'POST', path: '/threads', body: {} })
      await startRun(graphs, thread_id, request)
      setFilters({ thread: thread_id })
    } catch (caught) {
      setError(caught as Error)
      setBusy(false)
    }
  }
  return (
    <Card title="New thread">
      <RunForm graphs={graphs} assistants={assistants} isBusy={isBusy} error={error} onStart={start} />
    </Card>
  )
}

function Threads({ graphs }: { graphs: Graphs }) {
  const [status, setStatus] = useFilter('status')
  const table = useRef<HTMLTableElement>(null)
  useRowKeys(table, 'thread')
  const { items, error, isPlaceholderData, hasNextPage, isFetchingNextPage, fetchNextPage, refetch } =
    useGraphPages<Thread>(
      graphs,
      '/threads/search',
      {
        ...(status && { status }),
        sort_by: 'updated_at',
        sort_order: 'desc',
        select: ['thread_id', 'status', 'metadata', 'created_at', 'updated_at'],
      },
      { size: PAGE_SIZE, everyMs: READ_EVERY_MS },
    )
  return (
    <section aria-label="Threads">
      <div class={styles.chips}>
        <Chip pressed={status === ''} onPress={() => setStatus('')}>
          All threads
        </Chip>
        {THREAD_STATUSES.map(one => (
          <Chip key={one} pressed={status === one} onPress={() => setStatus(status === one ? '' : one)}>
            {stateOfThread({ status: one }).word}
          </Chip>
        ))}
      </div>
      {error && !items && <Problem error={error} onRetry={() => void refetch()} />}
      {!items && !error && <Skeleton lines={4} />}
      {items?.length === 0 && (
        <Empty title={status ? 'No threads in this state' : 'No threads yet'}>
          {status ? 'Choose another state.' : 'A thread keeps the state of a graph between runs. Start a run above.'}
        </Empty>
      )}
      {items && items.length > 0 && (
        <ListCard isOld={isPlaceholderData}>
          <Table
            caption="Threads, the last changed first"
            tableRef={table}
            columns={[
              { label: 'Thread', width: '50%' },
              { label: 'State', width: '20%' },
              { label: 'Created', isEnd: true },
              { label: 'Changed', isEnd: true },
            ]}
          >
            {items.map(one => (
              <Row key={one.thread_id}>
                <Cell detail={describeMetadata(one.metadata)}>
                  <Link
                    data-row
                    class={rowLink}
                    to={`/deployments/${graphs.deployment}/graphs?thread=${one.thread_id}`}
                  >
                    <code>{one.thread_id}</code>
                  </Link>
                </Cell>
                <Cell>
                  <StateLabel state={stateOfThread(one)} />
                </Cell>
                <Cell isEnd isWideOnly>
                  <Ago time={one.created_at} />
                </Cell>
                <Cell isEnd>
                  <Ago time={one.updated_at} />
                </Cell>
              </Row>
            ))}
          </Table>
          {hasNextPage && <More isBusy={isFetchingNextPage} onMore={() => void fetchNextPage()} />}
        </ListCard>
      )}
    </section>
  )
}

function describeMetadata({ graph_id, assistant_id: _, ...rest }: Thread['metadata']): string {
  const members = Object.entries(rest).map(([name, value]) => `${name}: ${JSON.stringify(value)}`)
  return [...(graph_id === undefined ? [] : [String(graph_id)]), ...members].join(', ')
}
