// A thread: its messages and state, the run that streams into it, an interrupt to answer, its runs and earlier states.
import { useEffect, useRef, useState } from 'preact/hooks'
import { isMissing, queryClient } from '../../api/queries.ts'
import { formatExact } from '../../format/time.ts'
import { Button, ButtonLink } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { Stack } from '../../parts/page.tsx'
import { Empty, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { Body, Columns, Note } from '../../parts/sections.tsx'
import { StateLabel } from '../../parts/state.tsx'
import { Cell, More, Row, rowLink, Table } from '../../parts/table.tsx'
import { Ago } from '../../parts/time.tsx'
import { Link } from '../../router/links.tsx'
import { JsonView } from '../traces/json-view.tsx'
import { Readable } from '../traces/payload.tsx'
import {
  type Assistant,
  type GraphRun,
  isOpen,
  stateOfRun,
  stateOfThread,
  type Thread,
  type ThreadState,
} from './graph-types.ts'
import styles from './graphs.module.css'
import { Interrupts } from './interrupts.tsx'
import { describeError, shownValues } from './run-events.ts'
import { RunForm } from './run-form.tsx'
import { type Graphs, useGraphPages, useGraphRead, useRun } from './use-application.ts'

const READ_EVERY_MS = 5_000
const SHOWN_RUNS = 20
const STATES_OF_PAGE = 10

type Props = { graphs: Graphs; assistants: Assistant[]; id: string }

export default function ThreadView({ graphs, assistants, id }: Props) {
  const path = `/threads/${id}`
  const thread = useGraphRead<Thread>(graphs, { method: 'GET', path }, { everyMs: READ_EVERY_MS })
  const state = useGraphRead<ThreadState>(graphs, { method: 'GET', path: `${path}/state` })
  const runs = useGraphRead<GraphRun[]>(
    graphs,
    { method: 'GET', path: `${path}/runs?limit=${SHOWN_RUNS}` },
    { everyMs: READ_EVERY_MS },
  )
  const { streamed, isBusy, error, start, join } = useRun(graphs, id)

  // A run that somebody else has started, or that this page has left, is joined once.
  const joined = useRef(new Set<string>())
  const open = runs.data?.findLast(isOpen)?.run_id
  useEffect(() => {
    if (open === undefined || isBusy || joined.current.has(open)) return
    joined.current.add(open)
    void join(open)
  }, [open, isBusy])
  // A short run of somebody else may be over before it is seen.
  const changedAt = thread.data?.updated_at
  useEffect(() => {
    if (!isBusy) void queryClient.invalidateQueries({ queryKey: ['application', graphs.deployment, `${path}/state`] })
  }, [changedAt])

  const failed = thread.error ?? state.error ?? runs.error
  if (isMissing(thread.error))
    return (
      <Empty title="Thread not found" action={<AllThreads />}>
        It was deleted, or it is of another deployment.
      </Empty>
    )
  if (failed && !(thread.data && state.data))
    return <Problem error={failed} onRetry={() => void Promise.all([thread.refetch(), state.refetch()])} />
  if (!thread.data || !state.data) return <Skeleton lines={8} />

  const assistant = thread.data.metadata.assistant_id as string | undefined
  const resume = (request: object) => void start({ ...request, assistant_id: assistant })
  const values = isBusy ? shownValues(streamed, state.data.values) : state.data.values
  const isStopped = !isBusy && thread.data.status === 'interrupted' && state.data.next.length > 0
  const problem = streamed.error ?? (thread.data.status === 'error' ? describeError(thread.data.error) : undefined)
  return (
    <>
      <header class={styles.head}>
        <AllThreads />
        <h2>{id}</h2>
        <StateLabel state={stateOfThread(isBusy ? { status: 'busy' } : thread.data)} />
      </header>
      <Columns>
        <Stack>
          <Card title="State" aside={isBusy && <Cancel graphs={graphs} thread={id} run={streamed.runId ?? open} />}>
            <Body>
              <div class={styles.state} aria-live="polite" aria-busy={isBusy}>
                {isEmpty(values) ? <Note>Empty. A run fills it.</Note> : <Readable value={values} />}
              </div>
            </Body>
          </Card>
          {error && <Problem error={error} />}
          {problem && !isBusy && <Problem error={new Error(problem)} />}
          {isStopped && <Interrupts key={changedAt} state={state.data} isBusy={isBusy} onResume={resume} />}
          <Card title={isStopped ? 'Start another run' : 'Run'}>
            <RunForm
              graphs={graphs}
              assistants={assistants}
              assistant={assistants.find(one => one.assistant_id === assistant)?.assistant_id}
              isBusy={isBusy}
              error={undefined}
              onStart={start}
            />
          </Card>
        </Stack>
        <Stack>
          <Runs graphs={graphs} thread={id} runs={runs.data} />
          <History graphs={graphs} thread={id} />
        </Stack>
      </Columns>
    </>
  )
}

const isEmpty = (values: unknown) =>
  values === null || values === undefined || (typeof values === 'object' && Object.keys(values).length === 0)

const AllThreads = () => (
  <ButtonLink small href={location.pathname}>
    All threads
  </ButtonLink>
)

function Cancel({ graphs, thread, run }: { graphs: Graphs; thread: string; run: string | undefined }) {
  const [error, setError] = useState<Error>()
  const [isAsked, setAsked] = useState(false)
  async function cancel() {
    setAsked(true)
    try {
      await graphs.application.send({ method: 'POST', path: `/threads/${thread}/runs/${run}/cancel` })
    } catch (caught) {
      setError(caught as Error)
      setAsked(false)
    }
  }
  if (run === undefined) return null
  return (
    <>
      {error && <span role="alert">{error.message}</span>}
      <Button small icon="stop" busy={isAsked} onClick={() => void cancel()}>
        Cancel run
      </Button>
    </>
  )
}

function Runs({ graphs, thread, runs }: { graphs: Graphs; thread: string; runs: GraphRun[] | undefined }) {
  return (
    <Card title="Runs" aside={runs?.length === SHOWN_RUNS && `The last ${SHOWN_RUNS}`}>
      {!runs && <Skeleton lines={2} />}
      {runs?.length === 0 && (
        <Body>
          <Note>No runs yet.</Note>
        </Body>
      )}
      {runs && runs.length > 0 && (
        <Table
          caption="Runs, newest first"
          columns={[
            { label: 'State' },
            { label: 'Trace', width: '72' },
            { label: 'Created', width: '96', isEnd: true },
          ]}
        >
          {runs.map(run => (
            <Row key={run.run_id}>
              <Cell detail={<code>{run.run_id.slice(-12)}</code>}>
                <StateLabel state={stateOfRun(run)} />
                {run.status === 'pending' && <Cancel graphs={graphs} thread={thread} run={run.run_id} />}
              </Cell>
              <Cell>
                <Link class={rowLink} to={`/traces/run/${run.run_id}`} aria-label={`Trace of run ${run.run_id}`}>
                  Trace
                </Link>
              </Cell>
              <Cell isEnd>
                <Ago time={run.created_at} />
              </Cell>
            </Row>
          ))}
        </Table>
      )}
    </Card>
  )
}

function History({ graphs, thread }: { graphs: Graphs; thread: string }) {
  const [isShown, setShown] = useState(false)
  return (
    <Card title="History">
      <Body>
        {isShown ? (
          <States graphs={graphs} thread={thread} />
        ) : (
          <p>
            <Button onClick={() => setShown(true)}>Show earlier states</Button>
          </p>
        )}
      </Body>
    </Card>
  )
}

function States({ graphs, thread }: { graphs: Graphs; thread: string }) {
  const { items, error, hasNextPage, isFetchingNextPage, fetchNextPage, refetch } = useGraphPages<ThreadState>(
    graphs,
    `/threads/${thread}/history`,
    {},
    { size: STATES_OF_PAGE, after: ({ checkpoint }) => ({ before: checkpoint?.checkpoint_id }) },
  )
  if (error && !items) return <Problem error={error} onRetry={() => void refetch()} />
  if (!items) return <Skeleton lines={3} height={20} />
  if (items.length === 0) return <Note>No states yet.</Note>
  return (
    <>
      <ol class={styles.states}>
        {items.map(({ checkpoint, created_at, metadata, next, values }) => (
          <li key={checkpoint?.checkpoint_id}>
            <details>
              <summary>
                Step {String(metadata?.step ?? '–')}, {next.length > 0 ? `before ${next.join(', ')}` : 'the end'}
                <time dateTime={created_at ?? undefined}>{created_at && formatExact(created_at)}</time>
              </summary>
              <JsonView value={values} />
            </details>
          </li>
        ))}
      </ol>
      {hasNextPage && <More isBusy={isFetchingNextPage} onMore={() => void fetchNextPage()} />}
    </>
  )
}
